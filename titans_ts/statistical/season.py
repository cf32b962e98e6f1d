"""Seasonal indices of each series, shrunk by how sure they are.

Sources: the classical decomposition by moving averages (Macaulay, 1931), recent seasons counting more; Miller and
Williams (2003) for shrinking its indices; the shrinkage is that of empirical Bayes (Efron and Morris, 1975).
"""

from __future__ import annotations

import numpy as np

from titans_ts.tables.series_data import SeriesData

from .sums import running_sums

DECAY = 0.8  # how much a season counts, over the one after it
LEAST = 2.5  # seasons that a series must cover


def seasonal_indices(data: SeriesData[np.ndarray], rows: np.ndarray, periods: tuple[int, ...]) -> np.ndarray:
    """What each phase of a season adds to a series, from its first `rows` (n_series,) rows, the observed ones.

    Of several periods, each a multiple of the one before, the longer ones say what the shorter leave. A series that
    covers fewer than two and a half seasons of a period has none.

    Returns
    -------
    ndarray, shape (n_series, period)
        Of the last period, by time index; 0 in all where there is no season.
    """
    longest = periods[-1]
    indices = np.zeros((data.n_series, longest))
    counted = data.row_in_series < np.repeat(rows, data.lengths)
    left = data.values
    for period in periods:
        covered = rows >= LEAST * period
        if not covered.any():
            continue
        phase = data.phase(period)
        found = _indices(left, data, counted & np.repeat(covered, data.lengths), phase, period)
        indices += np.tile(found, longest // period)
        left = left - found[data.series_of_row, phase]
    return indices


def _indices(
    values: np.ndarray, data: SeriesData[np.ndarray], counted: np.ndarray, phase: np.ndarray, period: int
) -> np.ndarray:
    """The indices of one period (n_series, period), of the rows `counted`."""
    n_series, series = data.n_series, data.series_of_row
    off = values - _moving_average(values, data, counted, period)
    kept = counted & np.isfinite(off) & data.is_observed
    off, bins = off[kept], (series * period + phase)[kept]
    rows = np.bincount(series[counted], minlength=n_series)
    age = (np.repeat(rows, data.lengths) - 1 - data.row_in_series)[kept] // period
    weight = DECAY**age
    size = n_series * period

    def by_phase(x: np.ndarray) -> np.ndarray:
        return np.bincount(bins, x, size).reshape(n_series, period)

    total, squares = by_phase(weight), by_phase(weight**2)
    mean = by_phase(weight * off) / np.where(total > 0, total, 1)
    free = np.bincount(series[kept], minlength=n_series) - period
    residual = np.bincount(series[kept], (off - mean.ravel()[bins]) ** 2, n_series) / np.maximum(free, 1)
    mean -= mean.mean(1, keepdims=True)
    variance = residual[:, None] * squares / np.where(total > 0, total, 1) ** 2  # of each index
    spread = np.maximum((mean**2).sum(1) / (period - 1) - variance.mean(1), 0)[:, None]
    mean *= shrinkage(spread, variance)
    mean[free <= 0] = 0
    indices: np.ndarray = mean - mean.mean(1, keepdims=True)
    return indices


def shrinkage(spread: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """What is kept of indices (n_series, period) of such a `variance`, whose own spread (n_series, 1) is as given."""
    total = spread + variance
    kept: np.ndarray = np.divide(spread, total, out=np.zeros_like(total), where=total > 0)
    return kept


def _moving_average(values: np.ndarray, data: SeriesData[np.ndarray], counted: np.ndarray, period: int) -> np.ndarray:
    """The mean over a season around each row, (rows,), NaN where it does not lie within the rows `counted`."""
    base = np.repeat(values[data.offsets], data.lengths)
    total = running_sums(values - base, data)
    half, at = period // 2, np.arange(len(values))
    first = np.repeat(data.offsets, data.lengths)
    last = first + np.repeat(np.bincount(data.series_of_row[counted], minlength=data.n_series), data.lengths)
    inside = (at - half >= first) & (at + half < last)
    begin, end = np.where(inside, at - half, at), np.where(inside, at + half, at)
    before = np.where(begin > first, total[begin - 1], 0.0)
    if period % 2:
        mean = (total[end] - before) / period
    else:  # the ends count half each
        mean = (total[end] - before + total[end - 1] - total[begin]) / (2 * period)
    return np.where(inside, mean + base, np.nan)
