"""Calibration: what past forecasts of each series erred by, and the forecasts whose truth is still awaited.

Errors are kept by origin and step, of the last origins of each series; what is older goes. Beside them are forecasts
in flight. They are issued at time indices that are multiples of `spacing`, so that it makes no difference how the rows
come in: all at once, or one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from titans_ts.tables.series_data import SeriesData, evenly_spaced

MOST_ORIGINS = 200  # of a series
MOST_NUMBERS = 2**24  # of the errors of all series; 64 MiB
LEAST_ORIGINS = 32  # for which there is room of each series that has errors of its own
IN_FLIGHT = 8  # forecasts of a series whose truth is awaited
ARRAYS = ("series", "errors", "forecasts", "issued", "sizes")
SCALARS = ("spacing", "capacity", "held_out", "levels")


@dataclass(frozen=True, eq=False)
class Due:
    """Forecasts that are to be issued.

    Parameters
    ----------
    series : ndarray of int, shape (calibrated,)
    time_index : ndarray of int, shape (calibrated, issues)
        Of the first step of each, rising.
    is_due : ndarray of bool, of that shape
        False where a series has fewer.
    """

    series: np.ndarray
    time_index: np.ndarray
    is_due: np.ndarray

    def rows(self, data: SeriesData[Any]) -> np.ndarray:
        """How many of the rows of all series each forecast has seen, (calibrated, issues); -1 where none is due."""
        return np.where(self.is_due, self.time_index - data.starts[self.series, None], -1)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Errors of past forecasts, truth minus forecast, at the scale that the network sees series at.

    Parameters
    ----------
    series : ndarray of int, shape (calibrated,)
        Rising numbers, among those fitted, of the series whose errors are kept: all, or evenly spaced ones of many.
    errors : ndarray of float32, shape (calibrated, origins, horizon, outputs)
        The newest last; NaN where there is none, or the truth was filled in.
    forecasts : ndarray of float32, shape (calibrated, in flight, horizon, outputs)
        The newest last; NaN where there is none.
    issued : ndarray of int, shape (calibrated, in flight)
        The time index of the first step of each of these; 0 where there is none.
    sizes : ndarray, shape (n_series,)
        As `typical_sizes` finds them, of each series fitted: by them errors of one stand for those of another.
    spacing : int
        Forecasts are issued at multiples of it.
    capacity : int
        Origins of a series, beyond which older ones go.
    held_out : bool
        Whether the forecasts were of rows that the model was not fitted to.
    levels : tuple of float, optional
        The quantile that each output is; None for a point forecast, which stands for all.
    """

    series: np.ndarray
    errors: np.ndarray
    forecasts: np.ndarray
    issued: np.ndarray
    sizes: np.ndarray
    spacing: int
    capacity: int
    held_out: bool = True
    levels: tuple[float, ...] | None = None

    @property
    def horizon(self) -> int:
        """Steps of a forecast."""
        steps: int = self.errors.shape[2]
        return steps

    def due(self, before: np.ndarray, now: np.ndarray) -> Due | None:
        """The forecasts that are issued after rows that end each series at `now`; None where nothing happens.

        Parameters
        ----------
        before, now : ndarray of int, shape (calibrated,)
            Time indices after the last row of each series, as it was and as it is.
        """
        newest, last = now // self.spacing, before // self.spacing
        count = min(int((newest - last).max(initial=0)), self.capacity + IN_FLIGHT)
        if not count and not self._known(now).any():
            return None
        number = newest[:, None] - np.arange(count)[::-1]
        return Due(self.series, number * self.spacing, number > last[:, None])

    def _known(self, ends: np.ndarray) -> np.ndarray:
        """Which forecasts in flight are known to their last step, (calibrated, in flight) bool."""
        there = np.isfinite(self.forecasts[:, :, 0, 0])
        known: np.ndarray = there & (self.issued + self.horizon <= ends[:, None])
        return known

    def then(self, data: SeriesData[np.ndarray], forecasts: np.ndarray, issued: np.ndarray) -> Calibration:
        """The calibration after further rows.

        Parameters
        ----------
        data : SeriesData
            Scaled rows of the calibrated series, as many of the last ones as have become known, and a horizon before
            them.
        forecasts : ndarray of float32, shape (calibrated, issues, horizon, outputs)
            Issued meanwhile, the newest last; NaN where there is none.
        issued : ndarray of int, shape (calibrated, issues)
        """
        forecasts = np.concatenate([self.forecasts, forecasts], axis=1)
        issued = np.concatenate([self.issued, issued], axis=1)
        there = np.isfinite(forecasts).all((2, 3))
        known = there & (issued + self.horizon <= data.ends[:, None])
        errors = self.errors
        if known.any():
            found = _truth(data, issued, self.horizon)[..., None] - forecasts
            found[~known] = np.nan
            errors, _ = _newest(np.concatenate([errors, found.astype(np.float32)], axis=1), self.capacity)
        forecasts = np.where((there & ~known)[..., None, None], forecasts, np.float32(np.nan))
        issued = np.where(there & ~known, issued, 0)
        forecasts, issued = _newest(forecasts, IN_FLIGHT, issued)
        return replace(self, errors=errors, forecasts=forecasts, issued=issued)

    def errors_until(self, data: SeriesData[np.ndarray]) -> np.ndarray:
        """All errors with those of forecasts in flight, as far as they are known.

        Parameters
        ----------
        data : SeriesData
            Scaled last rows of the calibrated series, a horizon of each or more.

        Returns
        -------
        ndarray of float32, shape (calibrated, origins, horizon, outputs)
        """
        found = _truth(data, self.issued, self.horizon)[..., None] - self.forecasts
        return _newest(np.concatenate([self.errors, found.astype(np.float32)], axis=1), self.capacity)[0]

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name, from which, with `scalars`, `of_arrays` makes it again."""
        return {name: getattr(self, name) for name in ARRAYS}

    def scalars(self) -> dict[str, object]:
        """What else it is made of."""
        return {name: getattr(self, name) for name in SCALARS}

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, np.ndarray], scalars: Mapping[str, object], horizon: int, n_series: int
    ) -> Calibration:
        """The calibration whose `arrays` and `scalars` these are, of a model of so many steps and series.

        Raises
        ------
        ValueError
            If shapes and types do not fit each other or the model, a number among `series` is not one of its series, a
            size is negative or not finite, or a scalar is of another type.
        """
        found = cls(**arrays, **scalars)  # type: ignore[arg-type]
        n, outputs = len(found.series), 1 if found.levels is None else len(found.levels)
        expected = {
            "series": (np.int64, (n,)),
            "errors": (np.float32, (n, *found.errors.shape[1:2], horizon, outputs)),
            "forecasts": (np.float32, (n, *found.issued.shape[1:2], horizon, outputs)),
            "issued": (np.int64, (n, *found.issued.shape[1:2])),
            "sizes": (np.float64, (n_series,)),
        }
        for name, (dtype, shape) in expected.items():
            array = getattr(found, name)
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(
                    f"`{name}` of the calibration has shape {array.shape} of {array.dtype}, which does not fit the "
                    "model."
                )
        if (np.diff(found.series, prepend=-1) <= 0).any() or (found.series >= n_series).any():
            raise ValueError(f"`series` of the calibration must be rising numbers below {n_series}.")
        if not (np.isfinite(found.sizes) & (found.sizes >= 0)).all():
            raise ValueError("`sizes` of the calibration must be finite and 0 or more.")
        if not all(type(number) is int and number >= 1 for number in (found.spacing, found.capacity)):
            raise ValueError(f"`spacing` and `capacity` must be integers, got {found.spacing!r}, {found.capacity!r}.")
        return found


def room(n_series: int, horizon: int, n_outputs: int) -> tuple[slice, int]:
    """Which of so many series are calibrated, and how many origins of each there is room for."""
    each = horizon * n_outputs
    which = evenly_spaced(n_series, max(1, MOST_NUMBERS // (each * LEAST_ORIGINS)))
    calibrated = len(range(n_series)[which])
    return which, max(1, min(MOST_ORIGINS, MOST_NUMBERS // (each * max(calibrated, 1))))


def typical_sizes(data: SeriesData[np.ndarray]) -> np.ndarray:
    """About how large errors are, up to a factor for all series: (n_series,); 0 where a series is constant.

    The geometric mean of the mean absolute change between neighbouring observed rows, which noise makes, and the mean
    absolute deviation from the mean, as far as a series ever strays. Of M3's monthly series the first alone made the
    intervals of the smooth third too narrow by far, the second alone those of the noisy one.
    """
    observed = data.is_observed
    counted = np.append(observed[:-1] & observed[1:], False)
    counted[data.last_rows] = False
    change = _mean_of_rows(data, np.append(np.abs(np.diff(data.values)), 0.0), counted)
    mean = _mean_of_rows(data, data.values, observed)
    deviation = _mean_of_rows(data, np.abs(data.values - np.repeat(mean, data.lengths)), observed)
    return np.where(change > 0, np.sqrt(change) * np.sqrt(deviation), 0.0)


def _mean_of_rows(data: SeriesData[np.ndarray], values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The mean of the `counted` rows of each series, (n_series,); 0 where there is none."""
    total = np.add.reduceat(np.where(counted, values, 0.0), data.offsets)
    mean: np.ndarray = total / np.maximum(np.add.reduceat(counted.astype(np.int64), data.offsets), 1)
    return mean


def _truth(data: SeriesData[np.ndarray], first: np.ndarray, horizon: int) -> np.ndarray:
    """What came in the steps from each time index `first` (n_series, origins) on: (n_series, origins, horizon).

    NaN where a row is not there, or was filled in.
    """
    row = (first - data.starts[:, None])[..., None] + np.arange(horizon)
    there = (row >= 0) & (row < data.lengths[:, None, None])
    at = data.offsets[:, None, None] + np.clip(row, 0, data.lengths[:, None, None] - 1)
    if data.observed is not None:
        there &= data.observed[at]
    return np.where(there, data.values[at], np.nan)


def _newest(values: np.ndarray, most: int, issued: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The last `most` of each series' entries (n_series, entries, ...) that are there, and when they were issued."""
    issued = np.zeros(values.shape[:2], dtype=np.int64) if issued is None else issued
    there = np.isfinite(values).any(axis=tuple(range(2, values.ndim)))
    begin = there.shape[1] - min(int(there.sum(1).max(initial=0)), most)
    if there[:, begin:].all():
        return values[:, begin:], issued[:, begin:]
    order = np.argsort(there, axis=1, kind="stable")[:, begin:]
    series = np.arange(len(values))[:, None]
    return values[series, order], issued[series, order]
