"""A benchmark's data set as the origins of its core, read once for any number of long-term memories.

The core is the closed form of the estimator as it comes, frozen. Errors are of the origins whose rows to forecast are
all of validation, or all of test, in the scale that errors are published in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmark.estimator import Fit, scaled_rows
from benchmark.table import LOOKBACKS, Variant
from titans_ts.datasets import Dataset
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.stream.fit import Stream, config_of
from titans_ts.stream.reading import MOST_TOKENS, Core, OriginReader, Reading, advance
from titans_ts.stream.training import MemoryTraining, trained
from titans_ts.training.relative import naive_errors, relative_error
from titans_ts.windows.splits import Fold, network_windows


class Errors(NamedTuple):
    """Mean squared errors with a memory, and of the core alone."""

    validation: float
    frozen_validation: float
    relative: float  # the one that a fit chooses by, over the naive errors of the validation rows
    frozen_relative: float
    test: float
    frozen_test: float


class Subject:
    """A data set and the core fitted on its train rows and chosen on its validation rows.

    Parameters
    ----------
    data : Dataset
        Scaled by its train rows.
    horizon : int
    column : {"i", "iii"}
        Of the benchmark, which says the lookback.
    """

    def __init__(self, data: Dataset, horizon: int, column: str = "i") -> None:
        self.name, self.column, self.split = data.name, column, data.split
        fit = Fit(Variant.of_mixer("memory"), horizon, LOOKBACKS[column], 0, [column], True, "cpu", 0)
        fitted, _ = fit.fitted(data, max_epochs=0)
        self.fitted, self.network = fitted, fitted.network
        self.series = scaled_rows(fitted, data)
        self.ratio = torch.from_numpy((fitted.scaler.scale / data.scaler.scale_) ** 2)
        self.config = config_of(self.network)
        train, validation_end, test = (self.rows(part.stop) for part in data.split)
        fold = Fold(train, validation_end, test)
        validation = network_windows(self.series, fold, self.network.config).validation
        if validation is None:
            raise ValueError(f"`horizon` must be at most the validation rows of {data.name}, got {horizon}.")
        self.naive = naive_errors(validation)
        self._read: dict[tuple[int, ...], Stream] = {}

    def rows(self, count: int) -> np.ndarray:
        """The same number of rows for each series."""
        return np.full(self.series.n_series, count)

    def stream(self, config: LongTermConfig) -> Stream:
        """All origins, read for memories with these blocks."""
        if config.block_ends not in self._read:
            lookback = self.network.config.lookback
            core, n_series = Core.of(self.network, np.arange(self.series.n_series)), self.series.n_series
            reader = OriginReader(core, LongTermMemory(config), self.series)
            index, size, parts = np.arange(n_series), max(1, MOST_TOKENS // n_series), []
            for first in range(lookback, int(self.series.lengths[0]), size):
                last = min(first + size, int(self.series.lengths[0]))
                parts.append(reader.read(index, self.rows(last), last - first))
            for other in {*self._read} - {()}:  # of many origins there is room for two
                del self._read[other]
            self._read[config.block_ends] = Stream(reader, self.series.lengths, [(index, parts)])
        return self._read[config.block_ends]

    def memory(self, config: LongTermConfig) -> LongTermMemory:
        """A memory whose whitening and scales are those of the train rows."""
        memory = LongTermMemory(config).eval()
        self.stream(config).initialise(memory, self.rows(self.split.train.stop))
        return memory

    def trained(self, memory: LongTermMemory, training: MemoryTraining) -> LongTermMemory:
        """A memory trained on the first half of the validation rows, if it does better on the second."""
        first, last = self.split.train.stop, self.split.validation.stop
        rows = self.rows(first), self.rows((first + last) // 2), self.rows(last)
        return trained(memory, self.stream(memory.config), rows, self.naive, training)[0]

    def since(self, config: LongTermConfig, first: int) -> list[Reading]:
        """The origins after row `first` of each series, in parts."""
        ((_, parts),) = self.stream(config).groups
        return [_from(part, first) for part in parts if part.rows[0, -1] > first]

    def errors(self, memory: LongTermMemory, first: int | None = None) -> Errors:
        """Read the origins after row `first`, or all, through a memory that begins empty."""
        config, split = memory.config, self.split
        begin = self.network.config.lookback if first is None else first
        totals = torch.zeros(2, 3, self.series.n_series, dtype=torch.float64)

        def keep(part: Reading, added: tuple[Tensor, ...]) -> None:
            rows, frozen = torch.from_numpy(part.rows), part.errors.sum(-1) / config.horizon
            change = part.change(added) / config.horizon
            for total, counted in zip(totals, (split.validation, split.test), strict=True):
                inside = (rows >= counted.start) & (rows + config.horizon <= counted.stop)
                for sums, values in zip(total, (frozen + change, frozen, torch.ones_like(frozen)), strict=True):
                    sums += torch.where(inside, values, 0).double().sum(1)

        self.advance(memory, self.since(config, begin), begin, keep)
        of_validation, of_test = (total[:2] / total[2] for total in totals)
        validation, test = ((x * self.ratio).mean(1).tolist() for x in (of_validation, of_test))
        relative = relative_error(of_validation, self.naive).tolist()
        read, frozen = zip(validation, relative, test, strict=True)
        return Errors(*(x for pair in zip(read, frozen, strict=True) for x in pair))

    def advance(
        self,
        memory: LongTermMemory,
        parts: Iterable[Reading],
        first: int,
        keep: Callable[[Reading, tuple[Tensor, ...]], None] | None = None,
    ) -> None:
        """Read parts that begin after row `first` through a memory that begins empty."""
        n_series = self.series.n_series
        begun = memory.begin(n_series, torch.full((n_series,), first))
        advance(memory, begun, self.series, self.series.lengths, [(np.arange(n_series), parts)], keep)


def _from(part: Reading, first: int) -> Reading:
    return part.between(max(0, first + 1 - int(part.rows[0, 0])), part.rows.shape[1])
