"""Token sequences that ask for what was read: pairs among fillers, and products of permutations.

Sources: multi-query associative recall as in Zoology (Arora et al., 2023), with fillers between the pairs as in the
long tasks of Titans (Behrouz et al., 2024), section 5; word problems of permutation groups as in The Illusion of State
in State-Space Models (Merrill et al., 2024).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor


class Questions(NamedTuple):
    """Sequences and what is asked of them."""

    tokens: Tensor  # (batch, length)
    asked: Tensor  # (batch, questions) places in the sequence
    answers: Tensor  # (batch, questions)


@dataclass(frozen=True)
class Recall:
    """Pairs of a key and a value at random places among fillers; at the end each key, and a mark to answer at.

    A sequence of `pairs` pairs ends with their keys in random order, each followed by the mark, where the key's value
    is asked for. No key comes in two pairs.
    """

    keys: int = 128
    values: int = 64
    fillers: int = 16

    @property
    def n_tokens(self) -> int:
        return self.keys + self.values + self.fillers + 1

    @property
    def n_answers(self) -> int:
        return self.values

    def draw(self, batch: int, length: int, pairs: int, generator: torch.Generator) -> Questions:
        """`batch` sequences of `length` tokens, the questions among them."""
        context = length - 2 * pairs
        if not 1 <= pairs <= self.keys:
            raise ValueError(f"`pairs` must be from 1 to the {self.keys} keys, got {pairs}.")
        if context < 2 * pairs:
            raise ValueError(f"`length` must be at least 4 * `pairs` = {4 * pairs}, got {length}.")

        tokens = torch.randint(self.fillers, (batch, length), generator=generator) + self.keys + self.values
        keys = _without_repeats(batch, self.keys, pairs, generator)
        values = torch.randint(self.values, (batch, pairs), generator=generator)
        # Of the places that are left once each pair is one token long.
        first = _without_repeats(batch, context - pairs, pairs, generator).sort(dim=1).values + torch.arange(pairs)
        tokens.scatter_(1, first, keys)
        tokens.scatter_(1, first + 1, values + self.keys)

        order = _without_repeats(batch, pairs, pairs, generator)
        tokens[:, context::2] = keys.gather(1, order)
        tokens[:, context + 1 :: 2] = self.n_tokens - 1
        asked = torch.arange(context + 1, length, 2).expand(batch, pairs)
        return Questions(tokens, asked, values.gather(1, order))


def _without_repeats(batch: int, n: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` of `n` numbers for each of the batch, in random order."""
    return torch.rand(batch, n, generator=generator).argsort(dim=1)[:, :count]


class Permutations:
    """Products of permutations: a token is a transposition of neighbours, which generate the group.

    At every place the product so far is asked for.

    Parameters
    ----------
    n : int
        Of the group S_n.
    """

    def __init__(self, n: int) -> None:
        elements = list(permutations(range(n)))
        numbers = {element: i for i, element in enumerate(elements)}
        swaps = [(*range(i), i + 1, i, *range(i + 2, n)) for i in range(n - 1)]
        # The number of the product, by that of the product so far and the token.
        self.products = torch.tensor([[numbers[tuple(a[i] for i in b)] for b in swaps] for a in elements])
        self.n_answers, self.n_tokens = self.products.shape

    def draw(self, batch: int, length: int, generator: torch.Generator) -> Questions:
        """`batch` sequences of `length` tokens, each asked about."""
        tokens = torch.randint(self.n_tokens, (batch, length), generator=generator)
        product, answers = torch.zeros(batch, dtype=torch.int64), []
        for token in tokens.unbind(1):
            product = self.products[product, token]
            answers.append(product)
        return Questions(tokens, torch.arange(length).expand(batch, length), torch.stack(answers, dim=1))
