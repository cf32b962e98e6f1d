"""The competitions' yardsticks: forecasts that repeat the last season, or the last value of a deseasonalised series.

Source
------
Naive2 : the M4 competition's benchmarks, https://github.com/Mcompetitions/M4-methods, and R's `decompose`.
"""

from __future__ import annotations

import numpy as np

CRITICAL = 1.645  # of a normal distribution: a tenth of all noise is taken for a season


def seasonal_naive(past: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """The last `season` values over and over; the last one where there are fewer."""
    last = past[-season:] if len(past) >= season else past[-1:]
    return np.resize(last, horizon)


def naive2(past: np.ndarray, horizon: int, season: int) -> np.ndarray:
    """The last value, seasonally adjusted where the season is significant, times the season that follows."""
    if season == 1 or not is_seasonal(past, season):
        return np.repeat(past[-1], horizon)
    indices = seasonal_indices(past, season)
    ahead = np.arange(len(past), len(past) + horizon)
    forecast: np.ndarray = past[-1] / indices[(len(past) - 1) % season] * indices[ahead % season]
    return forecast


def is_seasonal(past: np.ndarray, season: int) -> bool:
    """Whether the autocorrelation at the season is beyond the limit that the shorter lags leave to noise."""
    n = len(past)
    centred = past - past.mean()
    power = centred @ centred
    if n < 3 * season or power == 0:
        return False
    correlations = np.array([centred[lag:] @ centred[:-lag] for lag in range(1, season + 1)]) / power
    limit = CRITICAL * np.sqrt((1 + 2 * np.square(correlations[:-1]).sum()) / n)
    return bool(abs(correlations[-1]) > limit)


def seasonal_indices(past: np.ndarray, season: int) -> np.ndarray:
    """The mean ratio to a centred moving average at each phase, row 0's first, over the mean of these."""
    weights = np.ones(season) if season % 2 else np.concatenate([[0.5], np.ones(season - 1), [0.5]])
    trend = np.convolve(past, weights / season, mode="valid")
    first = len(weights) // 2
    ratios, phases = past[first : first + len(trend)] / trend, (first + np.arange(len(trend))) % season
    indices = np.bincount(phases, ratios, season) / np.bincount(phases, minlength=season)
    relative: np.ndarray = indices / indices.mean()
    return relative
