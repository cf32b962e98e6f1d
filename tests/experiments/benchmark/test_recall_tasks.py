"""Sequences whose answers are found again by reading them."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from benchmark.recall_tasks import Permutations, Recall


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("length", "pairs"), [(4, 1), (32, 8), (33, 8), (200, 5)])
def test_every_answer_follows_its_key_once_in_the_context(length: int, pairs: int) -> None:
    task = Recall(keys=8, values=5, fillers=3)
    tokens, asked, answers = task.draw(6, length, pairs, generator())
    context = length - 2 * pairs
    assert tokens.shape == (6, length)
    for sequence, places, right in zip(tokens.tolist(), asked.tolist(), answers.tolist(), strict=True):
        keys = [token for token in sequence[:context] if token < 8]
        assert len(keys) == len(set(keys)) == pairs
        assert sequence[context::2] != sorted(sequence[context::2]) or pairs < 5
        for place, answer in zip(places, right, strict=True):
            assert sequence[place] == task.n_tokens - 1
            assert sequence[sequence.index(sequence[place - 1]) + 1] == 8 + answer
        others = [token for token in sequence[:context] if token >= 13]
        assert len(others) == context - 2 * pairs
        assert max(others, default=13) < 16


def test_pairs_lie_anywhere() -> None:
    tokens = Recall().draw(2000, 40, 2, generator()).tokens
    share = (tokens[:, :36] < 128).float().mean(0)
    # Two keys among the 34 places where one can begin: all but the last; three standard errors.
    assert share[35] == 0
    assert share[:35].min() > 2 / 35 - 3 * (2 / 35 / 2000) ** 0.5 - 0.01
    assert share[:35].max() < 2 / 35 + 3 * (2 / 35 / 2000) ** 0.5 + 0.01


def test_a_seed_gives_the_same_questions() -> None:
    first, again, other = (Recall().draw(2, 64, 4, generator(seed)).tokens for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("length", "pairs", "what"), [(64, 0, "`pairs`"), (64, 129, "`pairs`"), (31, 8, "`length`")])
def test_what_does_not_fit_is_named(length: int, pairs: int, what: str) -> None:
    with pytest.raises(ValueError, match=f"{what} must be"):
        Recall().draw(1, length, pairs, generator())


@pytest.mark.parametrize(("n", "count"), [(3, 2), (5, 4)])
def test_answers_are_products_of_permutations(n: int, count: int) -> None:
    task = Permutations(n)
    elements = list(permutations(range(n)))
    assert (task.n_tokens, task.n_answers) == (count, len(elements))
    found = task.draw(3, 20, generator())
    moves = [elements[task.products[0, token]] for token in range(count)]
    for sequence, answers in zip(found.tokens.tolist(), found.answers.tolist(), strict=True):
        places = list(range(n))
        for token, answer in zip(sequence, answers, strict=True):
            places = [places[i] for i in moves[token]]
            assert elements[answer] == tuple(places)
    assert torch.equal(found.asked, torch.arange(20).expand(3, 20))


def test_transpositions_of_neighbours_reach_every_element() -> None:
    assert set(Permutations(4).draw(400, 30, generator()).answers[:, -2:].flatten().tolist()) == set(range(24))
