"""(lookback, horizon) windows over many series, and the scale they are seen at.

Windows are views of one flat vector; a batch copies only its own rows. Series too short for a lookback are padded on
the left, and the padding is masked. A value that was filled in is read where it is past and never asked for.
`observed` says which were there, (rows,) bool, None for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .surroundings import Surroundings


@dataclass(frozen=True)
class Scaler:
    """Each series' mean and standard deviation (population), (n_series,), in float64.

    A series that does not vary has std 1, so that it comes back as it was.
    """

    mean: np.ndarray
    std: np.ndarray

    ROUNDING = 1e-14  # a spread below this share of the level is rounding, not variation
    EXTREME = 300  # powers of two beyond which squares may leave float64

    @classmethod
    def fit(
        cls, values: np.ndarray, lengths: np.ndarray, rows: np.ndarray, observed: np.ndarray | None = None
    ) -> Scaler:
        """Of the first `rows` (n_series,) rows of each series in the flat `values`, those that were observed."""
        first = np.cumsum(lengths) - lengths
        mean, std = np.empty(len(lengths)), np.empty(len(lengths))
        size = np.maximum(np.maximum.reduceat(values, first), -np.minimum.reduceat(values, first))
        power = np.frexp(size)[1]
        power[np.abs(power) <= cls.EXTREME] = 0
        for i, (start, n) in enumerate(zip(first, rows, strict=True)):
            part = values[start : start + n]
            if observed is not None:
                part = part[observed[start : start + n]]
            if power[i]:
                part = np.ldexp(part, -power[i])  # exact, and squares stay within float64
            mean[i], std[i] = part.mean(), part.std()
        mean, std = np.ldexp(mean, power), np.ldexp(std, power)
        flat = std <= cls.ROUNDING * np.abs(mean)
        return cls(mean, np.where(flat, 1.0, std))

    def transform(self, values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Flat values (rows,) to mean 0 and standard deviation 1."""
        return (values - np.repeat(self.mean, lengths)) / np.repeat(self.std, lengths)

    def inverse(self, scaled: np.ndarray) -> np.ndarray:
        """Forecasts (n_series, steps) back to the data's units."""
        return scaled * self.std[:, None] + self.mean[:, None]


class Batch(NamedTuple):
    """What the network reads and what it is asked for; a channel of a window is a sample."""

    past: Tensor  # (samples, lookback, 1)
    future: Tensor  # (samples, horizon, 1)
    step: Tensor  # (samples,) absolute step of the first past row
    series: Tensor  # (samples, 1)
    mask: Tensor | None  # (samples, lookback, 1), False where padded
    known: Tensor | None = None  # (samples, horizon, 1), False where the future was filled in
    around: Tensor | None = None  # (samples, n_series, spans) means of all series over parts of the past


class Run(NamedTuple):
    """Windows of one series that lie one row after the other."""

    series: int
    step: int  # absolute step of the first window's first row
    values: Tensor  # (windows + lookback + horizon - 1,)


class Windows:
    """Every window whose `horizon` future rows lie in a given range of rows of its series.

    Parameters
    ----------
    values : Tensor (rows,)
        Scaled values in float32, series after series, on the device where windows are wanted; shared, not copied,
        unless a series needs padding.
    lengths, starts : ndarray of int (n_series,)
        Rows of each series, and the absolute step of its first row.
    lookback, horizon : int
        A horizon of 0 gives contexts for prediction.
    first, last : ndarray of int (n_series,)
        Futures lie in rows [first, last). The past may reach back before `first`, and is padded before row 0.
    series : ndarray of int (n_series,), optional
        The number the network knows each series by; 0, 1, ... if None.
    observed : ndarray of bool (rows,), optional
        A window is left out if all rows that it forecasts were filled in, or the row before them, whose fill may know
        of them.
    around : Surroundings, optional
        Each window comes with means of all series' pasts.

    Raises
    ------
    ValueError
        If no series holds a single window.
    """

    def __init__(
        self,
        values: Tensor,
        lengths: np.ndarray,
        starts: np.ndarray,
        *,
        lookback: int,
        horizon: int,
        first: np.ndarray,
        last: np.ndarray,
        series: np.ndarray | None = None,
        observed: np.ndarray | None = None,
        around: Surroundings | None = None,
    ) -> None:
        count = np.maximum(last - first - horizon + 1, 0)
        if not count.any():
            raise ValueError(f"No series has {horizon} rows to forecast in the rows asked for.")
        self._kept, self._whole = None, None
        if observed is not None:
            kept, filled, _ = known_windows(observed, lengths, first, count, horizon)
            if not len(kept):
                raise ValueError("No series has a row to forecast that was there, after one that was; fill fewer.")
            self._kept = torch.from_numpy(kept).to(values.device)
            self._whole = torch.from_numpy(kept[filled == 0])
        padding = np.where(count > 0, np.maximum(lookback - first, 0), 0)
        row_zero = np.cumsum(lengths + padding) - lengths  # where each series' row 0 lies in the flat vector
        device = values.device
        self.lookback, self.horizon = lookback, horizon
        self._around = around
        self._flat, self._mask = values, None
        self._known = None if observed is None else torch.from_numpy(observed).to(device)
        if padding.any():
            position = torch.from_numpy(np.arange(len(values)) + np.repeat(np.cumsum(padding), lengths)).to(device)
            self._flat = values.new_zeros(len(values) + padding.sum()).index_copy_(0, position, values)
            self._mask = torch.zeros_like(self._flat, dtype=torch.bool).index_fill_(0, position, True)
            if self._known is not None:
                self._known = torch.zeros_like(self._mask).index_copy_(0, position, self._known)
        self._ends = torch.from_numpy(np.cumsum(count)).to(device)
        self._count = torch.from_numpy(count).to(device)
        self._position = torch.from_numpy(row_zero + first - lookback).to(device)  # of each series' first window
        self._step = torch.from_numpy(starts + first - lookback).to(device)
        self._series = torch.from_numpy(np.arange(len(lengths)) if series is None else series).to(device)

    def __len__(self) -> int:
        return int(self._ends[-1]) if self._kept is None else len(self._kept)

    @property
    def whole(self) -> Windows | None:
        """Those of these windows whose futures have no row that was filled in; None if there is none."""
        if self._whole is None:
            return self
        if not len(self._whole):
            return None
        windows = copy(self)
        windows._kept, windows._whole, windows._known = self._whole.to(self.device), None, None
        return windows

    @property
    def device(self) -> torch.device:
        return self._flat.device

    @property
    def checksum(self) -> float:
        """Of all values and, coarsely, their order; where they were rounded otherwise it hardly changes."""
        parts = self._flat.tensor_split(64)
        return sum(i * part.abs().sum(dtype=torch.float64).item() for i, part in enumerate(parts, start=1))

    @property
    def in_step(self) -> bool:
        """Whether every series has the same windows, as far as their steps go, and all of them count."""
        same = (self._step == self._step[0]).all() & (self._count == self._count[0]).all()
        return self._kept is None and bool(same) and len(self._series.unique()) == len(self._series)

    @property
    def runs(self) -> list[Run] | None:
        """All windows as runs of rows; None where some are padded or left out, or rows were filled in."""
        if self._mask is not None or self._kept is not None or self._known is not None:
            return None
        size = self.lookback + self.horizon - 1
        return [
            Run(series, step, self._flat[at : at + count + size])
            for series, step, at, count in zip(
                *(x.tolist() for x in (self._series, self._step, self._position, self._count)), strict=True
            )
            if count
        ]

    def batch(self, index: Tensor) -> Batch:
        """The windows number `index` (samples,), counted series after series."""
        if self._kept is not None:
            index = self._kept[index]
        series = torch.searchsorted(self._ends, index, right=True)
        offset = index - (self._ends[series] - self._count[series])
        position = self._position[series] + offset
        length = self.lookback + self.horizon
        rows = self._flat.unfold(0, length, 1)[position].unsqueeze(-1)
        mask = known = None
        if self._mask is not None:
            mask = self._mask.unfold(0, self.lookback, 1)[position].unsqueeze(-1)
        if self._known is not None:
            known = self._known.unfold(0, length, 1)[position, self.lookback :].unsqueeze(-1)
        step = self._step[series] + offset
        return Batch(
            past=rows[:, : self.lookback],
            future=rows[:, self.lookback :],
            step=step,
            series=self._series[series].unsqueeze(-1),
            mask=mask,
            known=known,
            around=None if self._around is None else self._around.at(step),
        )

    def batches(self, size: int, most: int | None = None) -> Iterator[Batch]:
        """All windows in order, `size` at a time, the last batch kept; evenly spaced ones if there are over `most`."""
        stride = 1 if most is None else -(-len(self) // most)
        for index in torch.arange(0, len(self), stride, device=self.device).split(size):
            yield self.batch(index)

    def shuffled(self, size: int, generator: torch.Generator, most: int | None = None) -> Iterator[Batch]:
        """All windows, or `most` of them, in random order, `size` at a time and the last batch kept."""
        for index in torch.randperm(len(self), generator=generator)[:most].split(size):
            yield self.batch(index.to(self.device))


def known_windows(
    observed: np.ndarray, lengths: np.ndarray, first: np.ndarray, count: np.ndarray, horizon: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The windows of whose future a row was observed, and the row before it.

    Their numbers, how many rows of each one's future were filled in, and how many such windows each series has.

    Each series has `count` (n_series,) windows, whose futures begin at its rows `first` (n_series,) and after.
    """
    filled = np.concatenate([[0], np.cumsum(~observed)])  # in all rows before each
    series = np.repeat(np.arange(len(lengths)), count)
    row = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    begin = row + (np.cumsum(lengths) - lengths)[series]
    in_future, before = filled[begin + horizon] - filled[begin], filled[begin] - filled[begin - (row > 0)]
    kept = np.flatnonzero((before == 0) & (in_future < horizon))
    return kept, in_future[kept], np.bincount(series[kept], minlength=len(lengths))


def profiles(
    values: np.ndarray,
    lengths: np.ndarray,
    starts: np.ndarray,
    rows: np.ndarray,
    period: int,
    observed: np.ndarray | None = None,
) -> np.ndarray:
    """The mean of each series' first `rows` rows at each phase of the cycle, (n_series, period); 0 where none is seen.

    Only rows that were observed count.

    Source: CycleNet (Lin et al., 2024) learns this profile; its mean is where learning starts here.
    """
    row = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    seen = row < np.repeat(rows, lengths)
    if observed is not None:
        seen &= observed
    series = np.repeat(np.arange(len(lengths)), lengths)[seen]
    phase = (row[seen] + np.repeat(starts, lengths)[seen]) % period
    bins = series * period + phase
    size = len(lengths) * period
    total, count = np.bincount(bins, values[seen], size), np.bincount(bins, minlength=size)
    return (total / np.maximum(count, 1)).reshape(-1, period)
