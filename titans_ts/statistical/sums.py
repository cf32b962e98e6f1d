"""Running sums within each series."""

from __future__ import annotations

import numpy as np

from titans_ts.tables.series_data import SeriesData


def running_sums(values: np.ndarray, data: SeriesData[np.ndarray]) -> np.ndarray:
    """The sum of `values` (rows,) of each series up to each of its rows, that row included: (rows,).

    Each series begins anew, so that large values of one leave no rounding in those after it.
    """
    sums = np.empty_like(values, dtype=np.float64)
    for first, length in zip(data.offsets.tolist(), data.lengths.tolist(), strict=True):
        np.cumsum(values[first : first + length], out=sums[first : first + length])
    return sums
