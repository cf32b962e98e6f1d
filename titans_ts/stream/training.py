"""What a long-term memory has learnable, trained through its scan over the origins of a stream, segment by segment.

Rates, forgetting and the maps of keys and queries begin from the constants. The state is carried from one segment to
the next and gradients stop there (truncated backpropagation through time). Errors count at origins whose truth lies in
rows that the core was not fitted on, since residuals of its own train rows are too small; what was trained is kept if
it lowers the error on later rows, which it was not trained on.

Source: Titans (Behrouz et al., 2024), section 3.1: the memory's gates and its projections are what the outer loop
trains.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from titans_ts.model.long_term import LongTermMemory
from titans_ts.training.choices import Choice
from titans_ts.training.relative import SMALLEST, relative_error

from .fit import Stream

CONSTANTS, TRAINED = "constants", "trained"
PARTS = {"gates": ("log_rate", "log_forgetting"), "maps": ("key_map", "query_map"), "weights": ("layers",)}


@dataclass(frozen=True, kw_only=True)
class MemoryTraining:
    """How a memory is trained.

    Parameters
    ----------
    passes : int
        Over the rows to train on.
    segment : int
        Origins of a series that gradients go back through.
    gates_rate, maps_rate, weights_rate : float
        Adam's for rates and forgetting, which are logarithms; for the maps of keys and queries, and for the initial
        weights of a memory of two layers or more. What has a rate of 0 stays as it is.
    most_norm : float
        To which a gradient is shortened.
    """

    passes: int = 5
    segment: int = 1000
    gates_rate: float = 0.05
    maps_rate: float = 0.0
    weights_rate: float = 0.0
    most_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("passes", "segment"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be 1 or more, got {getattr(self, name)}.")
        for name in ("gates_rate", "maps_rate", "weights_rate"):
            if not (0 <= getattr(self, name) < math.inf):
                raise ValueError(f"`{name}` must be a number of 0 or more, got {getattr(self, name)}.")
        if not (self.gates_rate or self.maps_rate or self.weights_rate):
            raise ValueError("`gates_rate`, `maps_rate` and `weights_rate` must not all be 0.")
        if not self.most_norm > 0:
            raise ValueError(f"`most_norm` must be positive, got {self.most_norm}.")


def trained(
    memory: LongTermMemory,
    stream: Stream,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    naive: Tensor,
    training: MemoryTraining | None = None,
) -> tuple[LongTermMemory, Choice]:
    """A memory trained on the rows [first, middle), if it beats the one given on the rows [middle, last).

    Parameters
    ----------
    memory : LongTermMemory
        With whitening and scales set; it stays as it is.
    stream : Stream
        Origins of all series, read for memories with its blocks.
    rows : tuple of three ndarray of int, shape (n_series,)
        `first`, `middle` and `last` of each series; errors are of the origins whose truth lies between two of them.
        The core must not have been fitted on these rows.
    naive : Tensor (n_series,)
        Errors of a naive forecast, over which those of each series are taken.
    training : MemoryTraining, optional

    Returns
    -------
    memory : LongTermMemory
        A copy, as it was after the pass that did best on the later rows; or the memory given.
    choice : Choice
        Relative errors of both on the later rows.

    Raises
    ------
    ValueError
        If `rows` do not rise.
    """
    first, middle, last = rows
    if (first > middle).any() or (middle > last).any():
        raise ValueError("`rows` must rise from `first` over `middle` to `last` for each series.")
    training = training or MemoryTraining()
    learner = copy.deepcopy(memory)
    optimizer = _optimizer(learner, training)
    chosen, least = memory, _error(memory, stream, middle, last, naive)
    errors = {CONSTANTS: least, TRAINED: math.inf}
    for _ in range(training.passes):
        for loss in _losses(learner, stream, first, middle, naive, training.segment):
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(learner.parameters(), training.most_norm)
            optimizer.step()
        error = _error(learner, stream, middle, last, naive)
        errors[TRAINED] = min(error, errors[TRAINED])
        if error < least:
            chosen, least = copy.deepcopy(learner).requires_grad_(), error
    return chosen, Choice("memory", CONSTANTS if chosen is memory else TRAINED, errors)


def _optimizer(memory: LongTermMemory, training: MemoryTraining) -> torch.optim.Optimizer:
    """Of what is to be trained; the rest asks for no gradient."""
    memory.requires_grad_(False)
    groups = []
    for part, names in PARTS.items():
        rate: float = getattr(training, f"{part}_rate")
        if rate:
            found = [p for block in memory.parts for name, p in block.named_parameters() if name.split(".")[0] in names]
            groups.append({"params": [p.requires_grad_() for p in found], "lr": rate})
    return torch.optim.Adam(groups)


def _error(memory: LongTermMemory, stream: Stream, first: np.ndarray, last: np.ndarray, naive: Tensor) -> float:
    read = stream.errors(memory, first, last)[2]
    return relative_error(read, naive).item()


def _losses(
    memory: LongTermMemory, stream: Stream, first: np.ndarray, middle: np.ndarray, naive: Tensor, size: int
) -> Iterator[Tensor]:
    """What the memory adds to the error over the naive one, of each segment with origins that count.

    All is read from the beginning, as the state depends on what is learned; without gradients before what counts.
    """
    horizon = memory.config.horizon
    weights = torch.where(naive.isfinite(), 1 / (naive + SMALLEST), 0)
    for index, parts in stream.groups:
        where = torch.from_numpy(index).to(naive.device)
        state = memory.begin(len(index), torch.from_numpy(stream.reader.data.starts[index]).to(naive.device))
        for part in parts:
            if (part.rows[:, 0] + horizon > middle[index]).all():
                break
            counted = (part.rows >= first[index, None]) & (part.rows + horizon <= middle[index, None])
            for begin, end in _segments(counted, size):
                piece = part.between(begin, end)
                ends = torch.from_numpy(stream.reader.data.starts[index] + piece.rows[:, 0] - 1).to(naive.device)
                counts = torch.from_numpy(counted[:, begin:end]).to(naive.device) & piece.errors.isfinite().all(-1)
                with torch.set_grad_enabled(bool(counts.any())):
                    state, added = memory.advance(replace(state, ends=ends).map(Tensor.detach), piece.origins)
                if counts.any():
                    gain = torch.where(counts, piece.change(added), 0).sum(1) / (horizon * counts.sum(1).clamp(min=1))
                    yield (gain * weights[where]).mean()


def _segments(counted: np.ndarray, size: int) -> Iterator[tuple[int, int]]:
    """Where parts of origins begin and end: all before those that count, (series, origins), `size` each, the rest."""
    some = np.flatnonzero(counted.any(0))
    first, last = (some[0], some[-1] + 1) if len(some) else (0, 0)
    cuts = np.unique([0, *range(first, last, size), last, counted.shape[1]])
    return pairwise(cuts.tolist())
