"""Training by steps, and how answers are counted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from benchmark.recall_tasks import Permutations, Questions
from benchmark.recall_training import Training, accuracy, train


class Repeats(nn.Module):
    """Answers with the token itself, and learns nothing from what was before."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Embedding(4, 4)

    def forward(self, tokens: Tensor, asked: Tensor) -> Tensor:
        out: Tensor = self.logits(tokens.gather(1, asked))
        return out


def echoes(batch: int, length: int, generator: torch.Generator) -> Questions:
    """The first token of a sequence is asked for as it is, the others as one more."""
    tokens = torch.randint(3, (batch, length), generator=generator)
    answers = tokens + (torch.arange(length) > 0)
    return Questions(tokens, torch.arange(length).expand(batch, length), answers)


def test_lengths_grow_and_the_rate_warms_up_and_falls() -> None:
    training = Training(steps=100, lengths=(4, 8, 16), tokens=32, growth=0.5, warm_up=10)
    assert [training.length(step) for step in (0, 24, 25, 49, 50, 99)] == [4, 4, 8, 8, 16, 16]
    assert training.rate(0) == pytest.approx(0.1)
    assert training.rate(9) > 0.95
    assert training.rate(99) < 0.02


def test_a_model_learns_and_a_seed_gives_the_same_model() -> None:
    training = Training(steps=60, lengths=(4, 8), tokens=32, learning_rate=0.1, warm_up=5)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(0)
        network = Repeats()
        shares = list(train(network, echoes, training, seed))
        assert len(shares) == 60
        assert shares[-1] > 0.8
        found.append(network.logits.weight)
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_the_last_questions_alone_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Repeats()
    with torch.no_grad():
        network.logits.weight.copy_(torch.eye(4).roll(1, dims=1))  # one more than the token
    assert accuracy(network, echoes, 4, 10, seed=0) == pytest.approx(0.75)
    assert accuracy(network, echoes, 4, 10, seed=0, last=3) == 1
    monkeypatch.setattr("benchmark.recall_training.READ_AT_ONCE", 12)  # three sequences at once
    assert accuracy(network, echoes, 4, 10, seed=0) == pytest.approx(0.75)


def test_a_table_of_the_group_is_asked_at_every_place() -> None:
    task = Permutations(3)
    network = Repeats()
    with torch.no_grad():
        network.logits.weight.zero_()
        network.logits.weight[:, 0] = 1
    found = accuracy(network, task.draw, 1, 4000, seed=0)
    assert found == 0  # a transposition is never the identity
