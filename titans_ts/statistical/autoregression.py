"""Autoregression: one regression for all series, each in the scale of its own changes.

The next steps of a series minus its last value, over its mean absolute change, are regressed on its last changes and
its mean slope by least absolute errors, which no wild series decides.

Sources: Montero-Manso and Hyndman (2021) for one autoregression of many series; iteratively reweighted least squares
for least absolute errors (Schlossmacher, 1973).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from titans_ts.tables.series_data import SeriesData, evenly_spaced

from .adjusted import AdjustedSeries
from .sums import running_sums

LAGS = 3
BURN = 3  # rows of a series before the first origin
ROUNDS = 4  # of reweighting
NEAR = 0.1  # median errors under which smaller ones do not weigh more
RIDGE = 1e-3  # of the mean square of each input
MOST_ENTRIES = 2**22  # origins times steps ahead that are read, evenly spaced
SMALLEST_SCALE = 0.2  # of a series' mean change at its end, that its scale earlier is at least


@dataclass(frozen=True, eq=False)
class Autoregression:
    """Coefficients (inputs, horizon)."""

    weight: np.ndarray

    @classmethod
    def fit(cls, series: AdjustedSeries, horizon: int) -> Autoregression:
        """Regress the known rows of all series; without a row to forecast the last value is."""
        data = series.data
        row = data.row_in_series
        at = np.flatnonzero((row >= BURN) & (row + horizon < np.repeat(series.known, data.lengths)))
        at = at[evenly_spaced(len(at) * horizon, MOST_ENTRIES)]
        scale = _running_scale(data, series.change)[at]
        at, scale = at[scale > 0], scale[scale > 0]
        if not len(at):
            return cls(np.zeros((LAGS + 2, horizon)))
        of_series = data.series_of_row[at]
        inputs = _inputs(_last_values(data, at), row[at], scale)
        future = at[:, None] + np.arange(1, horizon + 1)
        target = (data.values[future] - data.values[at, None]) / scale[:, None]
        counted = data.is_observed[future] / np.bincount(of_series, minlength=data.n_series)[of_series, None]
        return cls(_least_absolute_errors(inputs, target, counted))

    def forecast(self, series: AdjustedSeries, steps: int) -> np.ndarray:
        """Forecast the steps after each origin: (n_series, origins, steps), of the adjusted series.

        Past the horizon the forecast is recursive.
        """
        data, horizon = series.data, self.weight.shape[1]
        row = series.origins - 1
        at = data.offsets[:, None] + row
        scale = _running_scale(data, series.change)[at]
        values, blocks = _last_values(data, at), []
        for block in range(-(-steps // horizon)):
            inputs = _inputs(values, row + block * horizon, scale)
            last = values[..., 0, None]
            blocks.append(last + scale[..., None] * (inputs @ self.weight))
            recent = np.concatenate([blocks[-1][..., ::-1], values[..., :-1]], axis=-1)
            values = np.concatenate([recent[..., : LAGS + 1], values[..., -1:]], axis=-1)
        return np.concatenate(blocks, axis=-1)[..., :steps]


def _last_values(data: SeriesData[np.ndarray], at: np.ndarray) -> np.ndarray:
    """The values of rows `at` and the LAGS before, the earliest repeated, and the series' first: (..., LAGS + 2)."""
    first = np.repeat(data.offsets, data.lengths)[at][..., None]
    rows = np.concatenate([np.maximum(at[..., None] - np.arange(LAGS + 1), first), first], axis=-1)
    values: np.ndarray = data.values[rows]
    return values


def _inputs(values: np.ndarray, row: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The values before the last one minus that, the mean slope, and one: (..., LAGS + 2)."""
    safe = np.where(scale > 0, scale, 1)[..., None]
    lag = np.arange(1, LAGS + 1)
    off = np.clip((values[..., 1 : LAGS + 1] - values[..., :1]) / safe, -3 * lag - 5, 3 * lag + 5)
    slope = (values[..., :1] - values[..., -1:]) / safe / np.maximum(row, 1)[..., None]
    return np.concatenate([off, slope, np.ones_like(slope)], axis=-1)


def _running_scale(data: SeriesData[np.ndarray], change: np.ndarray) -> np.ndarray:
    """The mean absolute change of each series up to each row, (rows,), at least a share of its `change`."""
    mean = running_sums(data.changes, data) / np.maximum(data.row_in_series, 1)
    scale: np.ndarray = np.maximum(mean, SMALLEST_SCALE * np.repeat(change, data.lengths))
    return scale


def _least_absolute_errors(inputs: np.ndarray, target: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Weights (inputs, horizon) of least absolute errors, each entry as much as `counted` says."""
    ridge = RIDGE * np.diag(np.square(inputs).mean(0))
    weight, entry = np.zeros((inputs.shape[1], target.shape[1])), counted
    for round_ in range(ROUNDS + 1):
        if round_:
            error = np.abs(target - inputs @ weight)
            entry = counted / np.maximum(error, NEAR * np.median(error, axis=0) + 1e-9)
        for step in range(target.shape[1]):
            weighted = inputs * entry[:, step, None]
            square = weighted.T @ inputs + ridge * entry[:, step].sum()
            weight[:, step] = np.linalg.lstsq(square, weighted.T @ target[:, step], rcond=None)[0]
    return weight
