"""The competitions' errors: sMAPE and MASE, both means over series.

Sources
-------
sMAPE : Makridakis and Hibon (2000), as the M3 competition took it: the mean of 200 |y - f| / (|y| + |f|).
MASE : Hyndman and Koehler, "Another look at measures of forecast accuracy" (2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Score(NamedTuple):
    smape: float
    mase: float


def score(future: np.ndarray, forecast: np.ndarray, scales: np.ndarray) -> Score:
    """Errors of forecasts (series, horizon), MASE over each series' scale; ValueError where one is not finite."""
    if forecast.shape != future.shape or not np.isfinite(forecast).all():
        raise ValueError(
            f"`forecast` must have finite values of shape {future.shape}, got shape {forecast.shape} with "
            f"{np.count_nonzero(~np.isfinite(forecast))} that are not."
        )
    error, size = np.abs(future - forecast), np.abs(future) + np.abs(forecast)
    relative = np.divide(error, size, out=np.zeros_like(error), where=size > 0)  # 0 of 0 is no error
    return Score(float(200 * relative.mean()), float((error.mean(axis=1) / scales).mean()))


def naive_scales(past: Sequence[np.ndarray], season: int) -> np.ndarray:
    """The mean |x_t - x_{t-season}| of each series' history; ValueError where a history is too short or constant."""
    scales = np.array([np.abs(x[season:] - x[:-season]).mean() if len(x) > season else 0.0 for x in past])
    if (wrong := np.flatnonzero(scales == 0)).size:
        raise ValueError(
            f"`past` must have values that differ {season} steps apart in every series, those at {wrong[0]} do not. "
            "Leave that series out."
        )
    return scales
