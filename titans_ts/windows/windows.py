"""(lookback, horizon) windows over many series.

Windows are views of one flat vector; a batch copies only its own rows. Series too short for a lookback are padded on
the left, and the padding is masked. A value that was filled in is read where it is past and never asked for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from titans_ts.model.batch import Batch
from titans_ts.model.covariates import Column, standardised
from titans_ts.tables.clock import LocalClock
from titans_ts.tables.series_data import SeriesData

from .cross_series import CrossSeriesFeatures

LEAST_HALF_LIFE = 1e-30  # steps; float32 divides by no much smaller number, and 0 / 0 is no weight


class Run(NamedTuple):
    """Windows of one series that lie one row after the other."""

    series: int
    time_index: int  # of the first window's first row
    values: Tensor  # (windows + lookback + horizon - 1,)
    clock_shift: Tensor | None  # of the same shape, where seasons follow local clocks
    weight: float = 1.0  # of each window


class Windows:
    """Every window whose `horizon` future rows lie in a given range of rows of its series.

    Parameters
    ----------
    data : SeriesData
        Scaled values in float32 on the device where windows are wanted, as `on_device` makes them; shared, not copied,
        unless a series needs padding. A window is left out if all rows that it forecasts were filled in, or the row
        before them, whose fill may know of them.
    lookback, horizon : int
        A horizon of 0 gives contexts for prediction, whose rows may have been filled in.
    first, last : ndarray of int (n_series,)
        Futures lie in rows [first, last). The past may reach back before `first`, and is padded before row 0.
    series : ndarray of int (n_series,), optional
        The number the network knows each series by; 0, 1, ... if None.
    cross_series : CrossSeriesFeatures, optional
        Each window comes with means of all series' pasts.
    ahead : int
        Steps after each window whose local clocks come with it too: those to forecast, where the horizon is 0.
    weight : ndarray (n_series,), optional
        How much the windows of each series count; all alike if None.
    half_life : float, optional
        Steps before the last window of a series in which one comes to count half. Weights are over their mean.

    Raises
    ------
    ValueError
        If no series holds a single window.
    """

    def __init__(
        self,
        data: SeriesData[Tensor],
        *,
        lookback: int,
        horizon: int,
        first: np.ndarray,
        last: np.ndarray,
        series: np.ndarray | None = None,
        cross_series: CrossSeriesFeatures | None = None,
        weight: np.ndarray | None = None,
        half_life: float | None = None,
        ahead: int = 0,
    ) -> None:
        count = np.maximum(last - first - horizon + 1, 0)
        if not count.any():
            raise ValueError(f"No series has {horizon} rows to forecast in the rows asked for.")
        values, lengths, device = data.values, data.lengths, data.values.device
        observed = data.observed if horizon else None
        self._kept, self._without_filled = None, None
        if observed is not None:
            kept, filled, _ = observed_windows(data, first, count, horizon)
            if not len(kept):
                raise ValueError("No series has a row to forecast that was there, after one that was; fill fewer.")
            self._kept = torch.from_numpy(kept).to(device)
            self._without_filled = torch.from_numpy(kept[filled == 0])
        padding = np.where(count > 0, np.maximum(lookback - first, 0), 0)
        row_zero = np.cumsum(lengths + padding) - lengths  # where each series' row 0 lies in the flat vector
        self.lookback, self.horizon, self._ahead = lookback, horizon, ahead
        self._cross_series, self._clock = cross_series, data.clock
        self._flat, self._padding_mask = values, None
        self._observed = None if observed is None else torch.from_numpy(observed).to(device)
        if padding.any():
            position = torch.from_numpy(np.arange(len(values)) + np.repeat(np.cumsum(padding), lengths)).to(device)
            self._flat = values.new_zeros(len(values) + padding.sum()).index_copy_(0, position, values)
            self._padding_mask = torch.zeros_like(self._flat, dtype=torch.bool).index_fill_(0, position, True)
            if self._observed is not None:
                self._observed = torch.zeros_like(self._padding_mask).index_copy_(0, position, self._observed)
        self._covariates = None
        if data.covariates is not None:  # those of padding are the first row's
            rows = np.arange(len(self._flat)) - np.repeat(row_zero, lengths + padding)
            rows = np.maximum(rows, 0) + np.repeat(data.offsets, lengths + padding)
            self._covariates = torch.from_numpy(data.covariates[rows]).to(device)
        self._ends = torch.from_numpy(np.cumsum(count)).to(device)
        self._count = torch.from_numpy(count).to(device)
        self._position = torch.from_numpy(row_zero + first - lookback).to(device)  # of each series' first window
        self._time_index = torch.from_numpy(data.starts + first - lookback).to(device)
        self._series = torch.from_numpy(np.arange(len(lengths)) if series is None else series).to(device)
        self.half_life, self._weight = half_life, None
        if weight is not None or half_life is not None:
            weights = _over_mean(np.ones(len(lengths)) if weight is None else weight, count, half_life)
            self._weight = torch.from_numpy(weights).to(device)

    def __len__(self) -> int:
        return int(self._ends[-1]) if self._kept is None else len(self._kept)

    @property
    def without_filled(self) -> Windows | None:
        """The windows whose futures have no row that was filled in; None if there is none."""
        if self._without_filled is None:
            return self
        if not len(self._without_filled):
            return None
        windows = copy(self)
        windows._kept, windows._without_filled, windows._observed = self._without_filled.to(self.device), None, None
        return windows

    @property
    def device(self) -> torch.device:
        return self._flat.device

    @property
    def n_series(self) -> int:
        """One more than the largest number of a series."""
        return int(self._series.max()) + 1

    @property
    def series_weight(self) -> Tensor | None:
        """How much each series counts beside the others, (n_series,) in float64; None where all count alike."""
        if self._weight is None:
            return None
        return self._weight.new_zeros(self.n_series).index_copy_(0, self._series, self._weight)

    @property
    def checksum(self) -> float:
        """A sum of all values and, coarsely, their order; it hardly changes where they were rounded otherwise."""
        parts = self._flat.tensor_split(64)
        return sum(i * part.abs().sum(dtype=torch.float64).item() for i, part in enumerate(parts, start=1))

    @property
    def digest(self) -> str:
        """A SHA-256 of all that the windows are made of."""
        found = hashlib.sha256(f"{self.lookback} {self.horizon} {self.half_life}".encode())
        clock = () if self._clock is None else (self._clock.begins, self._clock.shifts)
        tensors = self._flat, self._position, self._count, self._time_index, self._series, self._kept, self._observed
        for part in (*tensors, self._padding_mask, self._weight, *clock):
            array = part.cpu().numpy() if isinstance(part, Tensor) else part
            found.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    @property
    def aligned(self) -> bool:
        """Whether every series has windows at the same time indices, and all of them count."""
        same = (self._time_index == self._time_index[0]).all() & (self._count == self._count[0]).all()
        return self._kept is None and bool(same) and len(self._series.unique()) == len(self._series)

    @property
    def runs(self) -> list[Run] | None:
        """All windows as runs of rows; None where some are padded, left out or older, or rows were filled in."""
        if self._padding_mask is not None or self._kept is not None or self._observed is not None or self.half_life:
            return None
        weights = torch.ones(len(self._series)) if self._weight is None else self._weight
        size = self.lookback + self.horizon - 1
        return [
            Run(
                series,
                time_index,
                self._flat[at : at + count + size],
                self._clock_shift(time_index, count + size),
                weight,
            )
            for series, time_index, at, count, weight in zip(
                *(x.tolist() for x in (self._series, self._time_index, self._position, self._count, weights)),
                strict=True,
            )
            if count
        ]

    def _clock_shift(self, time_index: int, length: int) -> Tensor | None:
        shift = clock_shifts(self._clock, torch.tensor([time_index], device=self.device), length)
        return None if shift is None else shift[0]

    def batch(self, index: Tensor) -> Batch:
        """The windows number `index` (samples,), counted series after series."""
        if self._kept is not None:
            index = self._kept[index]
        series = torch.searchsorted(self._ends, index, right=True)
        offset = index - (self._ends[series] - self._count[series])
        position = self._position[series] + offset
        length = self.lookback + self.horizon
        rows = self._flat.unfold(0, length, 1)[position]
        padding_mask = observed_mask = None
        if self._padding_mask is not None:
            padding_mask = self._padding_mask.unfold(0, self.lookback, 1)[position]
        if self._observed is not None:
            observed_mask = self._observed.unfold(0, length, 1)[position, self.lookback :]
        time_index, covariates = self._time_index[series] + offset, None
        if self._covariates is not None:
            covariates = self._covariates[position.unsqueeze(1) + torch.arange(self.lookback, device=index.device)]
        return Batch(
            past=rows[:, : self.lookback],
            future=rows[:, self.lookback :],
            time_index=time_index,
            series=self._series[series],
            padding_mask=padding_mask,
            observed_mask=observed_mask,
            cross_series=None if self._cross_series is None else self._cross_series.at(time_index),
            clock_shift=clock_shifts(self._clock, time_index, length + self._ahead),
            covariates=covariates,
            weight=self._weights(series, offset),
        )

    def _weights(self, series: Tensor, offset: Tensor) -> Tensor | None:
        """How much the windows number `offset` (samples,) of each series count, (samples,)."""
        if self._weight is None:
            return None
        weight = self._weight[series]
        if self.half_life is not None:
            weight = weight * 0.5 ** ((self._count[series] - 1 - offset) / max(self.half_life, LEAST_HALF_LIFE))
        return weight.float()

    def batches(self, size: int, most: int | None = None) -> Iterator[Batch]:
        """All windows in order, `size` at a time, the last batch kept; evenly spaced ones if there are over `most`."""
        stride = 1 if most is None else -(-len(self) // most)
        for index in torch.arange(0, len(self), stride, device=self.device).split(size):
            yield self.batch(index)

    def by_origin(self, size: int, most: int) -> Iterator[list[Batch]]:
        """A batch for each of the series, whose windows must be `aligned`, at the same `size` origins or fewer.

        They are evenly spaced where there are over `most`, by an odd number of steps: not the same hours of every day.
        """
        n = int(self._count[0])
        stride = -(-n // most)
        for index in torch.arange(0, n, stride + (stride + 1) % 2, device=self.device).split(size):
            yield [self.batch(index + begin) for begin in range(0, len(self), n)]

    def shuffled(self, size: int, generator: torch.Generator, most: int | None = None) -> Iterator[Batch]:
        """All windows, or `most` of them, in random order, `size` at a time and the last batch kept."""
        for index in torch.randperm(len(self), generator=generator)[:most].split(size):
            yield self.batch(index.to(self.device))


def _over_mean(weight: np.ndarray, count: np.ndarray, half_life: float | None) -> np.ndarray:
    """Weights of series over the mean weight of all windows, of which each series has `count`: both (n_series,)."""
    total = weight * count
    if half_life is not None:
        rate = math.log(2) / half_life
        total = weight * np.expm1(-rate * count) / math.expm1(-rate)
    found: np.ndarray = weight * (count.sum(where=weight > 0) / total.sum())
    return found


def on_device(
    data: SeriesData[np.ndarray], device: torch.device, columns: tuple[Column, ...] = ()
) -> SeriesData[Tensor]:
    """Scaled series in float32 on a device, as `Windows` and `CrossSeriesFeatures` share them.

    Covariates are standardised as their `columns` say; without columns they are left out.
    """
    covariates = None
    if columns and data.covariates is not None:
        covariates = standardised(data.covariates, columns)
    data = replace(data, covariates=covariates)
    return data.with_values(torch.from_numpy(data.values.astype(np.float32)).to(device))


def clock_shifts(clock: LocalClock | None, time_index: Tensor, length: int) -> Tensor | None:
    """The shifts of local clocks over `length` steps from each `time_index` (samples,) on: (samples, length)."""
    if clock is None:
        return None
    device = time_index.device
    begins, shifts = (torch.from_numpy(array).to(device) for array in (clock.begins, clock.shifts))
    steps = time_index.unsqueeze(-1) + torch.arange(length, device=device)
    return shifts[(torch.searchsorted(begins, steps, right=True) - 1).clamp(min=0)]


def observed_windows(
    data: SeriesData[Tensor] | SeriesData[np.ndarray], first: np.ndarray, count: np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows in whose future a row was observed, and the row before it.

    Each series has `count` (n_series,) windows, whose futures begin at its rows `first` (n_series,) and after.

    Returns
    -------
    number : ndarray (windows,)
        Of each such window, counted series after series.
    filled : ndarray (windows,)
        How many rows of its future were filled in.
    found : ndarray (n_series,)
        How many such windows each series has.
    """
    observed = data.is_observed
    filled = np.concatenate([[0], np.cumsum(~observed)])  # in all rows before each
    series = np.repeat(np.arange(data.n_series), count)
    row = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    begin = row + data.offsets[series]
    in_future, before = filled[begin + horizon] - filled[begin], filled[begin] - filled[begin - (row > 0)]
    kept = np.flatnonzero((before == 0) & (in_future < horizon))
    return kept, in_future[kept], np.bincount(series[kept], minlength=data.n_series)
