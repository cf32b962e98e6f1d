"""Seasonal profiles: the mean of each series at each phase of its season."""

from __future__ import annotations

import numpy as np

from titans_ts.tables.series_data import SeriesData


def seasonal_profiles(data: SeriesData[np.ndarray], rows: np.ndarray, period: int) -> np.ndarray:
    """The mean of the first `rows` (n_series,) rows of each series at each phase of a season of `period` steps.

    Only rows that were observed count; the profile is 0 at a phase that has none. Where times have a zone, the phase is
    that of its clocks.

    Returns
    -------
    ndarray, shape (n_series, period)

    Source
    ------
    CycleNet (Lin et al., 2024) learns this profile; its mean is where learning starts here.
    """
    counted = data.is_observed & (data.row_in_series < np.repeat(rows, data.lengths))
    bins = (data.series_of_row * period + data.phase(period))[counted]
    size = data.n_series * period
    total, count = np.bincount(bins, data.values[counted], size), np.bincount(bins, minlength=size)
    return (total / np.maximum(count, 1)).reshape(-1, period)
