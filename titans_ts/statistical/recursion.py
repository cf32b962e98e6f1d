"""The recursion of exponential smoothing, of many series and methods at a time.

Series are stacked with their last rows below one another, the longest first, so that those that have begun are the
first so many at every step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .methods import Methods

BURN = 2  # rows of a series before the first origin whose forecasts are scored
FIRST_TREND = 0.3  # of the first difference, that a trend begins with


class Smoothed(NamedTuple):
    """What a recursion leaves; a forecast is the level and, so many times as `Methods.slopes` says, the trend."""

    level: np.ndarray  # (n_series, origins, n_methods)
    trend: np.ndarray  # (n_series, origins, n_methods)
    errors: np.ndarray  # (n_series, n_methods) mean absolute error over origins and steps ahead
    counts: np.ndarray  # (n_series,) origins that were scored


def smooth(
    rows: np.ndarray,
    lengths: np.ndarray,
    methods: Methods,
    scored: np.ndarray,
    observed: np.ndarray,
    known: np.ndarray,
    origins: np.ndarray,
) -> Smoothed:
    """Smooth every series by every method.

    Parameters
    ----------
    rows : ndarray, shape (steps, n_series)
        The series' values, the last ones in the last step; what stands before a series begins is not read.
    lengths : ndarray of int, shape (n_series,)
        Rows of each series, in falling order.
    methods : Methods
    scored : ndarray of int, shape (any,)
        The steps ahead whose errors count, in rising order.
    observed : ndarray of bool, shape (steps, n_series)
        Which rows may be scored by.
    known : ndarray of int, shape (n_series,)
        Rows of each series up to which errors count.
    origins : ndarray of int, shape (n_series, origins)
        How many rows of each series a forecast has seen, each at least 1.

    Returns
    -------
    Smoothed
        In the units of `rows`.
    """
    steps, n_series = rows.shape
    n_methods, horizon = len(methods), int(scored[-1])
    begins = steps - lengths
    level, trend = np.zeros((2, n_series, n_methods))
    # Forecasts of the last `horizon` origins, to be scored when their rows are known.
    levels, trends = np.zeros((2, horizon + 1, n_series, n_methods))
    errors, counts = np.zeros((n_series, n_methods)), np.zeros(n_series)
    by_step: dict[int, list[tuple[int, int]]] = {}
    for series, of_series in enumerate(origins):
        for number, seen in enumerate(of_series.tolist()):
            by_step.setdefault(int(begins[series]) + seen - 1, []).append((series, number))
    found = np.zeros((2, *origins.shape, n_methods))
    slopes = methods.slopes(scored)
    line = _Line(rows, begins)
    rate, straight = methods.level, methods.share > 0
    # The level of simple smoothing lags behind a line by so many steps, by the age of a series.
    lags = np.where(straight, (1 - (1 - rate) ** np.arange(1, steps + 1)[:, None]) / rate - 1, 0.0)
    for step in range(steps):
        active = int(np.searchsorted(begins, step, side="right"))
        y, age = rows[step, :active, None], step - begins[:active]
        ahead = level[:active] + methods.damping * trend[:active]
        correction = rate * (y - ahead)
        level[:active] = ahead + correction
        trend[:active] = methods.damping * trend[:active] + methods.trend * correction
        first = int(np.searchsorted(-age, 0))  # those of age 0 come last
        level[first:active], trend[first:active] = y[first:], 0.0
        second = int(np.searchsorted(-age, -1))
        if second < first:
            rise = y[second:first] - rows[step - 1, second:first, None]
            level[second:first] = y[second:first] - (1 - np.maximum(rate, 0.5)) * rise
            trend[second:first] = np.where(methods.trend > 0, FIRST_TREND * rise, 0.0)
        slope = line.slope(step, active)[:, None] * methods.share
        slot = step % (horizon + 1)
        levels[slot, :active] = level[:active] + slope * lags[age]
        trends[slot, :active] = np.where(straight, slope, trend[:active])
        for series, number in by_step.get(step, ()):
            found[0, series, number], found[1, series, number] = levels[slot, series], trends[slot, series]
        for i, distance in enumerate(scored.tolist()):
            origin = step - distance
            seen = int(np.searchsorted(begins, origin - BURN, side="right"))
            if not seen:
                break
            at = origin % (horizon + 1)
            error = np.abs(levels[at, :seen] + slopes[:, i] * trends[at, :seen] - rows[step, :seen, None])
            counted = observed[step, :seen] & (step - begins[:seen] < known[:seen])
            errors[:seen] += error * counted[:, None]
            counts[:seen] += counted
    return Smoothed(found[0], found[1], errors / np.maximum(counts, 1)[:, None], counts / len(scored))


class _Line:
    """The slope of the line of least squares through all rows of each series so far."""

    def __init__(self, rows: np.ndarray, begins: np.ndarray) -> None:
        self._rows, self._begins = rows, begins
        series = np.arange(rows.shape[1])
        self._base = rows[begins, series]
        self._sums = np.zeros((2, rows.shape[1]))  # of values, and of values times age

    def slope(self, step: int, active: int) -> np.ndarray:
        """After the row of `step`, of the first `active` series; 0 before a series has three rows."""
        age = (step - self._begins[:active]).astype(np.float64)
        value = self._rows[step, :active] - self._base[:active]
        self._sums[0, :active] += value
        self._sums[1, :active] += value * age
        n = age + 1
        centred = self._sums[1, :active] - self._sums[0, :active] * age / 2
        return np.where(n >= 3, centred / np.maximum(n * (n**2 - 1) / 12, 1), 0.0)
