"""Outliers: values so far from all others of their series that they are taken for faults, and read as missing."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from titans_ts.tables.grid import fill_gaps
from titans_ts.tables.panel import Panel

LEAST_ROWS = 20  # of a series in which an outlier can be told
EXTREMES = 0.02  # share of the rows at either end that do not make the range of a series
FARTHEST = 4.0  # ranges beyond which a value is an outlier
COMMON = 0.2  # share of rows of one value, from which on values far on the other side are expected: counts, rain
LISTED = 5  # outliers that a warning names


def find_outliers(values: np.ndarray) -> np.ndarray:
    """Which `values` (rows,) of a series are outliers, (rows,) bool.

    The range of a series is that of its values without a fiftieth at either end, and at least without the least and
    the greatest one. An outlier lies more than four such ranges beyond it. Where a fifth of the values are one and the
    same at an end of the range, as zeros among counts, large values at the other end are none; nor are two and more
    that end the series, for they may be a new level.
    """
    outliers = np.zeros(len(values), dtype=bool)
    if len(values) < LEAST_ROWS:
        return outliers
    ordered = np.sort(values)
    left_out = max(1, int(np.ceil(EXTREMES * len(values))))
    low, high = ordered[left_out], ordered[-1 - left_out]
    span = high - low
    if span <= 0:
        return outliers
    if np.mean(values == low) < COMMON:
        outliers |= values > high + FARTHEST * span
    if np.mean(values == high) < COMMON:
        outliers |= values < low - FARTHEST * span
    if outliers[-2:].all():
        outliers[np.flatnonzero(~outliers)[-1] + 1 :] = False
    return outliers


def fill_outliers(panel: Panel) -> Panel:
    """The panel with its outliers filled in by a line, as values that were not observed; warns of each by id and time.

    Values that were filled in before are no outliers, and the series keep their rows.
    """
    data = panel.data
    observed = data.is_observed
    outliers = np.zeros_like(observed)
    for i in range(data.n_series):
        rows = data.rows_of(i)
        where = np.flatnonzero(observed[rows]) + rows.start
        outliers[where] = find_outliers(data.values[where])
    if not outliers.any():
        return panel
    warnings.warn(_words(panel, np.flatnonzero(outliers)), stacklevel=3)
    observed = observed & ~outliers
    first = data.offsets[~observed[data.offsets]]  # a series that begins with an outlier begins with its next value
    values = data.values.copy()
    for row in first:
        values[row] = values[row + int(observed[row:].argmax())]
    known = observed.copy()
    known[first] = True
    filled = fill_gaps(values, known, data.lengths, interpolate=True)
    return replace(panel, data=replace(data, values=filled, observed=observed))


def _words(panel: Panel, rows: np.ndarray) -> str:
    listed = []
    for row in rows[:LISTED]:
        name, label = panel.locate(int(row))
        listed.append(f"{panel.data.values[row]:g} in series {name!r} at {label}")
    more = f" and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    count = "1 value was" if len(rows) == 1 else f"{len(rows)} values were"
    return (
        f"{count} taken for outliers and filled in by a line, not learned from: {', '.join(listed)}{more}. "
        "If they are real, pass `outliers='keep'`."
    )
