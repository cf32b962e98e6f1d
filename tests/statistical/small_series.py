"""Series as SeriesData, and a naive smoothing of one series by one method, a row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from titans_ts.statistical.adjusted import AdjustedSeries
from titans_ts.tables.series_data import SeriesData


def data_of(*series: Any, starts: Any = None, observed: Any = None, clock: Any = None) -> SeriesData[np.ndarray]:
    """Series of any lengths end to end; `observed` is of all rows."""
    lengths = np.array([len(values) for values in series])
    starts = np.zeros_like(lengths) if starts is None else np.asarray(starts)
    return SeriesData(np.concatenate(series).astype(np.float64), lengths, starts, observed, clock)


def as_it_is(*series: Any, **adjusted: Any) -> AdjustedSeries:
    """Series of no season, read by their values."""
    return AdjustedSeries.of(data_of(*series), (), logarithms=False, **adjusted)


def walk(rows: int, seed: int, drift: float = 0.1) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).normal(drift, 1, size=rows))


def smooth_by_row(
    values: np.ndarray, level_rate: float, trend_rate: float, damping: float, share: float
) -> list[tuple[float, float]]:
    """Level and trend after each row: Holt's damped trend, or simple smoothing with part of the slope of a line."""
    found, level, trend = [], 0.0, 0.0
    for t, y in enumerate(values):
        if t == 0:
            level, trend = y, 0.0
        elif t == 1:
            rise = y - values[0]
            level = y - (1 - max(level_rate, 0.5)) * rise
            trend = 0.3 * rise if trend_rate > 0 else 0.0
        else:
            before = level + damping * trend
            level = before + level_rate * (y - before)
            trend = damping * trend + trend_rate * level_rate * (y - before)
        if share > 0:
            slope = share * np.polyfit(np.arange(t + 1), values[: t + 1], 1)[0] if t >= 2 else 0.0
            # Simple smoothing of a line falls behind it by the sum of (1 - rate)^k, k = 1, ..., t.
            found.append((level + slope * sum((1 - level_rate) ** k for k in range(1, t + 1)), slope))
        else:
            found.append((level, trend))
    return found


def added(trend: float, damping: float, ahead: int) -> float:
    """What a trend adds `ahead` steps on: trend * (damping + damping^2 + ...)."""
    return trend * sum(damping**k for k in range(1, ahead + 1))
