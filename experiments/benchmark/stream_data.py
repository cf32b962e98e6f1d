"""A data set as a stream: its origins in time order, each with the rows before it and those it is to forecast.

An origin is named by the first row that it forecasts: at `origin` the rows before it are seen, and the rows from it on
come later. Windows whose rows to forecast end before an origin have *matured* there; with full delay only they may be
learned from.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from benchmark.estimator import scaled_rows
from titans_ts.datasets import Dataset, Split
from titans_ts.datasets.registry import DatasetSpec, find_spec
from titans_ts.fitted import FittedModel
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.windows import Windows

MOST_FORECAST = 2**24  # values of the forecasts that are held at once
ETT_HOURS = 2880, 3600, 14400  # at which train, validation and test of table S2 end


class Block(NamedTuple):
    """The forecasts of origins that follow one another."""

    first: int  # origin
    forecast: Tensor  # (n_series, origins, horizon), float32, in the scale of the series


@dataclass
class Clock:
    """How long a row's updates take."""

    seconds: float = 0.0
    updates: int = 0

    @contextmanager
    def update(self, count: int = 1) -> Iterator[None]:
        """Time what is done inside, which is `count` updates."""
        begun = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - begun
        self.updates += count

    @property
    def per_update(self) -> float:
        """Seconds of one update; 0 where there was none."""
        return self.seconds / self.updates if self.updates else 0.0


class Stream:
    """A data set and the core that was fitted on its train rows and chosen on its validation rows.

    Parameters
    ----------
    data : Dataset
        Scaled by its train rows.
    fitted : FittedModel
    """

    def __init__(self, data: Dataset, fitted: FittedModel) -> None:
        config = fitted.network.config
        self.data, self.fitted, self.network = data, fitted, fitted.network
        self.linear_network = deepcopy(fitted.network)  # what other series say is not taken from what it forecasts
        self.linear_network.cross_series = None
        self.lookback, self.horizon, self.season = config.lookback, config.horizon, config.cycle or 1
        self.day = steps_per_day(data.freq)
        self.series = scaled_rows(fitted, data)
        self.n_series = self.series.n_series
        self.train_end, self.validation_end, self.end = (rows.stop for rows in data.split)
        if self.train_end < self.lookback + self.horizon:
            raise ValueError(
                f"the train rows must hold a lookback and a horizon, {self.lookback} + {self.horizon}, got "
                f"{self.train_end} of {data.name}. Lower one of them."
            )
        self.values = self.series.values.view(self.n_series, self.end)
        self.ratio = torch.from_numpy(fitted.scaler.scale / data.scaler.scale_).float()  # to the scale of errors
        self._features = None
        if config.linear_cross_series:
            self._features = CrossSeriesFeatures(self.series, lookback=self.lookback, n_series=self.n_series)

    @property
    def origins(self) -> range:
        """All that are forecast, from the first of validation to the last of test."""
        return range(self.train_end, self.end - self.horizon + 1)

    @property
    def validation(self) -> range:
        """The origins whose rows to forecast are all of validation."""
        return range(self.train_end, self.validation_end - self.horizon + 1)

    @property
    def test(self) -> range:
        """The origins whose rows to forecast are all of test."""
        return range(self.validation_end, self.end - self.horizon + 1)

    def matured(self, origin: int) -> int:
        """The first origin that has not matured at `origin`."""
        return max(self.lookback, origin - self.horizon + 1)

    def windows(self, origins: range) -> Windows:
        """The windows of origins that follow one another, series after series."""
        first, last = origins.start, origins.stop - 1 + self.horizon
        return Windows(
            self.series,
            lookback=self.lookback,
            horizon=self.horizon,
            first=np.full(self.n_series, first),
            last=np.full(self.n_series, last),
            cross_series=self._features,
        )

    def rows_until(self, row: int) -> SeriesData[Tensor]:
        """The rows of all series before `row`."""
        return self.series.head(np.full(self.n_series, row))

    def future(self, origins: range) -> Tensor:
        """The rows that origins are to forecast: (n_series, origins, horizon), not copied."""
        return self.values[:, origins.start : origins.stop - 1 + self.horizon].unfold(1, self.horizon, 1)

    @property
    def most_origins(self) -> int:
        """Whose forecasts may be held at once."""
        return max(1, MOST_FORECAST // (self.n_series * self.horizon))


def parts_of(origins: range, size: int) -> Iterator[range]:
    """The same origins in parts of `size`, the last of which may be shorter."""
    for first in range(origins.start, origins.stop, size):
        yield range(first, min(first + size, origins.stop))


def steps_per_day(freq: str) -> int:
    """Steps of a day; 1 where a step is a day or more."""
    first, second = pd.date_range("2016-07-01", periods=2, freq=freq)
    steps: int = max(1, round(pd.Timedelta("1D") / (second - first)))
    return steps


def split_of(table: str, spec: DatasetSpec) -> tuple[int, int, int]:
    """The rows at which train, validation and test end in a table.

    That of table S1 is the benchmark's. In S2 ETT has 4 months of 30 days for training, one for validation and 15 for
    test; others have 20, 5 and 75 % of all rows.
    """
    if table == "S1":
        return spec.split
    if spec.name.startswith("ETT"):
        first, second, third = (hours * (steps_per_day(spec.freq) // 24) for hours in ETT_HOURS)
        return first, second, third
    return int(0.2 * spec.rows), int(0.25 * spec.rows), spec.rows


def short_training(data: Dataset) -> Dataset:
    """The data set split as in table S2: little to train on, and a long test."""
    ends = split_of("S2", replace(find_spec(data.name), rows=len(data.frame)))
    split = Split(range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]))
    return replace(data, split=split, scaler=StandardScaler().fit(data.frame.iloc[split.train]))
