"""Rows in order to series without gaps: every step of the calendar has a row, checked, and filled on request."""

from __future__ import annotations

import numpy as np

from .calendar import Calendar
from .frequency import OrderedRows
from .infer import show
from .layouts import Rows, some
from .series_data import SeriesData

MISSING = ("error", "interpolate", "ffill")
LARGEST = 1e300  # absolute value: squares and sums of scaled ones then stay finite
MOST_FILLED = 10  # rows of the grid for each row given, from which on the freq is more likely wrong


def fill_grid(rows: Rows, ordered: OrderedRows, min_rows: int, missing: str) -> SeriesData[np.ndarray]:
    """One row for every step of every series, float64, checked; errors as `read_table` lists them."""
    _check_steps(rows, ordered, missing)
    data = _every_step(rows, ordered)
    _check_values(rows, ordered.calendar, data, missing)
    return _filled(rows, data, min_rows, missing)


def _check_steps(rows: Rows, ordered: OrderedRows, missing: str) -> None:
    """Refuse a step with two rows, and a step without one unless it is to be filled."""
    calendar, codes, time_index, _ = ordered
    distance = np.diff(time_index)
    broken = (codes[1:] == codes[:-1]) & ((distance != 1) if missing == "error" else (distance == 0))
    if not broken.any():
        return
    row = int(broken.argmax())
    which = rows.owner(int(codes[row]))
    own = _calendar_of(rows, calendar, int(codes[row]))
    before, after = (show(label) for label in own.labels(time_index[row : row + 2]))
    if before == after:
        more = ", or make ids of all columns that tell such rows apart" if rows.layout.kind == "long" else ""
        raise ValueError(f"{which} has more than one row at {before}; keep one{more}.")
    raise ValueError(
        f"{which} has a gap of {some(distance[row] - 1, 'row')} between {before} and {after} (freq {own.freq!r}); "
        f"fill it, pass `missing='interpolate'` or 'ffill', or pass the `freq` of the rows{_day_off(own)}."
    )


def _calendar_of(rows: Rows, calendar: Calendar, code: int) -> Calendar:
    """The calendar of one series; all columns that share their rows have one."""
    return calendar if rows.codes is None else calendar.of_series(rows.name(code))


def _day_off(calendar: Calendar) -> str:
    """Words for an error: how days are named of which some are missing every week, or on holidays."""
    if calendar.step[:2] not in (("day", 1), ("business day", 1)):
        return ""
    return ", such as `pd.offsets.CustomBusinessDay(weekmask='Sun Mon Tue Wed Thu', holidays=[...])`"


def _every_step(rows: Rows, ordered: OrderedRows) -> SeriesData[np.ndarray]:
    """A row for every step from a series' first to its last; NaN where the table has none."""
    calendar, codes, time_index, values = ordered
    counts = np.bincount(codes)
    channels, ends = len(values), np.cumsum(counts)
    starts = time_index[ends - counts]
    lengths = time_index[ends - 1] - starts + 1
    if (lengths != counts).any():
        if lengths.sum(dtype=np.float64) > MOST_FILLED * counts.sum():  # whose sum may be too large for int64
            i = int((lengths - counts).argmax())
            raise ValueError(
                f"{rows.owner(i)} has {some(counts[i], 'row')} where freq {calendar.freq!r} asks for {lengths[i]}, too "
                "many to fill; pass the `freq` of the rows."
            )
        wide = np.full((channels, lengths.sum()), np.nan)
        wide[:, np.repeat(np.cumsum(lengths) - lengths - starts, counts) + time_index] = values
        values = wide
    return SeriesData(values.ravel(), np.tile(lengths, channels), np.tile(starts, channels))


def _check_values(rows: Rows, calendar: Calendar, data: SeriesData[np.ndarray], missing: str) -> None:
    """Refuse infinite values, those too large to be squared, and missing ones unless they are to be filled."""
    values = data.values
    if values.min() >= -LARGEST and values.max() <= LARGEST:  # NaN is neither
        return
    fine = np.abs(values) <= LARGEST
    if missing != "error":
        fine |= np.isnan(values)
    if fine.all():
        return
    row = int(fine.argmin())
    i, time_index = data.locate(row)
    series = values[data.rows_of(i)]
    if np.isnan(values[row]):
        kind, count, remedy = "missing value", np.isnan(series).sum(), "fill the NaN or pass `missing='interpolate'`"
    elif np.isinf(values[row]):
        kind, count, remedy = "infinite value", np.isinf(series).sum(), "replace it, or drop it and fill the gap"
    else:
        kind, count, remedy = "huge value", (np.abs(series) > LARGEST).sum(), f"rescale it to below {LARGEST:g}"
    own = _calendar_of(rows, calendar, i)
    label = show(own.label(time_index))
    raise ValueError(f"{rows.channel(i)} has {some(count, kind)}, the first at {label}; {remedy}.")


def _filled(rows: Rows, data: SeriesData[np.ndarray], min_rows: int, missing: str) -> SeriesData[np.ndarray]:
    """The series without missing values.

    Leading ones are dropped, as a series begins with its first value; those after the last value are carried forward,
    for only a later row could say more; those between follow `missing`.
    """
    if missing == "error":
        return data
    observed = ~np.isnan(data.values)
    if observed.all():
        return data
    count = np.add.reduceat(observed, data.offsets, dtype=np.int64)
    if count.min() < min_rows:
        i = int(count.argmin())
        raise ValueError(f"{rows.channel(i)} has {some(count[i], 'observed value')}; at least {min_rows} are needed.")
    row = np.arange(len(observed))
    before = np.maximum.accumulate(np.where(observed, row, -1))  # the last row observed, perhaps of the series before
    kept = before >= np.repeat(data.offsets, data.lengths)
    dropped = np.add.reduceat(~kept, data.offsets, dtype=np.int64)
    values, observed = data.values[kept], observed[kept]
    lengths, starts = data.lengths - dropped, data.starts + dropped
    values = fill_gaps(values, observed, lengths, interpolate=missing == "interpolate")
    return SeriesData(values, lengths, starts, None if observed.all() else observed)


def fill_gaps(values: np.ndarray, observed: np.ndarray, lengths: np.ndarray, interpolate: bool) -> np.ndarray:
    """Carry forward, or draw a line to the next value observed; each series begins with an observed value.

    Parameters
    ----------
    values, observed : ndarray, shape (rows,)
        Series after series.
    lengths : ndarray of int, shape (n_series,)
    interpolate : bool
        Lines between observed values; after the last one it is carried forward all the same.

    Returns
    -------
    ndarray, shape (rows,)
    """
    row = np.arange(len(values))
    before = np.maximum.accumulate(np.where(observed, row, 0))
    filled = values[before]
    if interpolate:
        after = np.minimum.accumulate(np.where(observed, row, len(values))[::-1])[::-1]
        between = ~observed & (after < np.repeat(np.cumsum(lengths), lengths))
        a, b = before[between], after[between]
        share = (row[between] - a) / (b - a)
        filled[between] = (1 - share) * values[a] + share * values[b]
    return filled
