"""Surprise: errors of one-step forecasts over their usual size, and what of it is anomalous.

Sources: Titans (Behrouz et al., 2024), whose memory is surprised by what it did not expect; conformal anomaly
detection (Laxhammar and Falkman, 2010).
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from titans_ts.tables.series_data import SeriesData

LEAST_ERRORS = 8  # of a series, before one can be called usual
LARGEST = 20.0  # times the usual size, that an error counts as where the usual size is found


def surprises(errors: np.ndarray, data: SeriesData[np.ndarray], half_life: float) -> np.ndarray:
    """Absolute errors over the root mean square of those before them in their series.

    Parameters
    ----------
    errors : ndarray, shape (rows,)
        NaN where there is none.
    data : SeriesData
        Whose rows these are.
    half_life : float
        Rows after which an error counts half.

    Returns
    -------
    ndarray, shape (rows,)
        NaN where there is no error, or too few came before it; 0 for no error where there never was any.
    """
    found = np.full(len(errors), np.nan)
    order = np.argsort(-data.lengths, kind="stable")  # series as columns, the longest first
    lengths, offsets = data.lengths[order], data.offsets[order]
    decay = 0.5 ** (1 / half_life)
    total, weight, count = (np.zeros(data.n_series) for _ in range(3))
    for row in range(int(lengths.max(initial=0))):
        n = int(np.searchsorted(-lengths, -row, side="left"))  # series that have such a row
        at = offsets[:n] + row
        size = np.abs(errors[at])
        there = np.isfinite(size)
        usual = np.sqrt(total[:n] / np.maximum(weight[:n], np.finfo(float).tiny))
        known = there & (count[:n] >= LEAST_ERRORS)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[at[known]] = np.where(size == 0, 0.0, size / usual)[known]
        bounded = np.where(
            count[:n] >= LEAST_ERRORS, np.minimum(size, LARGEST * np.where(usual > 0, usual, size)), size
        )
        total[:n] = np.where(there, decay * total[:n] + np.where(there, bounded, 0) ** 2, total[:n])
        weight[:n] = np.where(there, decay * weight[:n] + 1, weight[:n])
        count[:n] += there
    return found


def conformal_p_values(surprise: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The share of surprises up to each row that are as large as its own, itself among them.

    Parameters
    ----------
    surprise : ndarray, shape (rows,)
        Series after series; NaN where there is none.
    lengths : ndarray of int, shape (n_series,)

    Returns
    -------
    ndarray, shape (rows,)
        In (0, 1]; NaN where there is no surprise. Of surprises that could have come in any order, a share of alpha or
        less have a value of alpha or less.
    """
    found = np.full(len(surprise), np.nan)
    for end, length in zip(np.cumsum(lengths), lengths, strict=True):
        before: list[float] = []
        for row in range(int(end - length), int(end)):
            value = float(surprise[row])
            if value == value:
                smaller = bisect_left(before, value)
                found[row] = (len(before) - smaller + 1) / (len(before) + 1)
                insort(before, value)
    return found
