"""Rows in any order onto their calendar's grid: sorted, numbered, checked, and filled where that was asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .calendar import Calendar, show
from .layouts import Rows, some

MISSING = ("error", "interpolate", "ffill")
LARGEST = 1e300  # of a value: squares and sums of scaled ones then stay finite
MOST_ASKED = 100  # series that may show no frequency before the table is taken to have none
MOST_FILLED = 10  # rows of the grid for each row given, from which on the freq is more likely wrong


class Grid(NamedTuple):
    """Series end to end, each in the order of time and without gaps.

    `values` (total rows,) float64; `observed` the same in bool, False where a value was filled, None if none was;
    `lengths` and `starts` (n_series,) int64: rows, and the absolute step of the first.
    """

    values: np.ndarray
    observed: np.ndarray | None
    lengths: np.ndarray
    starts: np.ndarray


def lay_on_grid(rows: Rows, freq: Any, min_rows: int, calendar: Calendar | None, missing: str) -> tuple[Grid, Calendar]:
    """Sort and number the rows of every series, check every one, and fill; errors as `read_table` lists them.

    `calendar` is that of rows read before; None finds it, from `freq` or from all series.
    """
    if missing not in MISSING:
        raise ValueError(f"`missing` must be one of {MISSING}, got {missing!r}.")
    codes = unordered = np.zeros(len(rows.labels), dtype=np.int64) if rows.codes is None else rows.codes
    counts = np.bincount(codes)
    if counts.min() < min_rows:
        which = rows.owner(int(counts.argmin()))
        samples = f" (n_samples = {counts.min()})" if rows.layout.kind == "array" else ""
        raise ValueError(f"{which} has {some(counts.min(), 'row')}{samples}; at least {min_rows} are needed.")
    model = None  # the series that the frequency was inferred from
    given = calendar is None and freq is not None
    if calendar is None:
        calendar, model = _first_calendar(rows, counts, freq)
    steps, off = calendar.locate(rows.labels)
    order = _order(codes, steps)
    if order is not None:
        codes, steps = codes[order], steps[order]
    if model is not None and len(counts) > 1 and (off.any() or _gaps(codes, steps).any()):
        calendar = _agreed(rows, unordered, calendar, model)
        steps, off = calendar.locate(rows.labels)
        steps = steps if order is None else steps[order]
    if off.any():
        raise ValueError(_off_grid(rows, int(off.argmax()), calendar, given))
    _refuse_broken(rows, codes, steps, calendar, missing)
    values = rows.values if order is None else rows.values[:, order]
    grid = _grid(rows, steps, values, counts, calendar)
    _check_values(rows, grid, calendar, missing)
    return _filled(rows, grid, min_rows, missing), calendar


def _first_calendar(rows: Rows, counts: np.ndarray, freq: Any) -> tuple[Calendar, int | None]:
    """That of the longest series that shows one, and which series that is; None where `freq` was given."""
    longest = np.argsort(-counts, kind="stable")[:MOST_ASKED]
    if rows.codes is None or freq is not None:
        return Calendar.of(_labels(rows, int(longest[0])), freq), None
    for code in longest:
        found = _calendar_of(rows, int(code))
        if found is not None:
            return found, int(code)
    try:
        return Calendar.of(_labels(rows, int(longest[0]))), None
    except ValueError as error:
        raise ValueError(f"{rows.owner(int(longest[0]))}: {error}") from None


def _labels(rows: Rows, code: int) -> Any:
    return rows.labels if rows.codes is None or len(rows.ids) == 1 else rows.labels[rows.codes == code]


def _order(codes: np.ndarray, steps: np.ndarray) -> np.ndarray | None:
    """Of rows by series and then by time; None where they have it."""
    if np.all((codes[1:] > codes[:-1]) | (codes[1:] == codes[:-1]) & (steps[1:] >= steps[:-1])):
        return None
    low = int(steps.min())
    span = int(steps.max()) - low + 1
    if span * (int(codes.max()) + 1) < 2**62:  # one key sorts several times as fast as two
        return np.argsort(codes * span + (steps - low))
    return np.lexsort((steps, codes))


def _gaps(codes: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Where a row in order is not the next step of the one before it, (rows - 1,) bool."""
    return (codes[1:] == codes[:-1]) & (np.diff(steps) > 1)


def _agreed(rows: Rows, codes: np.ndarray, calendar: Calendar, model: int) -> Calendar:
    """The calendar that all series keep to, where that of the `model` does not fit all; ValueError where none does."""
    astray, gaps = _misfits(rows, codes, calendar)
    first = int((astray | (gaps > 0)).argmax())
    found = _calendar_of(rows, first)
    # A few days may be daily or business days, a few months quarters: another series can tell.
    if found is not None and found.freq != calendar.freq:
        others, left = _misfits(rows, codes, found)
        if not others.any() and (astray.any() or left.sum() < gaps.sum()):
            return found
    if not astray.any():
        return calendar
    first = int(astray.argmax())
    found = _calendar_of(rows, first)
    if found is not None and found.freq == calendar.freq:
        row = int((calendar.locate(rows.labels)[1] & (codes == first)).argmax())
        raise ValueError(_off_grid(rows, row, calendar, suggest=False))
    which = np.flatnonzero(astray)
    names = ", ".join(repr(rows.name(i)) for i in which[:3]) + (", ..." if len(which) > 3 else "")
    own = "no regular one" if found is None else repr(found.freq)
    raise ValueError(
        f"all series must have one frequency, but series {rows.name(model)!r} has {calendar.freq!r} and "
        f"{len(which)} not ({names}): series {rows.name(first)!r} has {own}. "
        "Pass the `freq` that all keep to, or fit them apart."
    )


def _misfits(rows: Rows, codes: np.ndarray, calendar: Calendar) -> tuple[np.ndarray, np.ndarray]:
    """Which series have another frequency (off the grid, or more gaps than neighbours), and each one's gaps."""
    steps, off = calendar.locate(rows.labels)
    order = np.lexsort((steps, codes))
    ordered, distance = codes[order], np.diff(steps[order])
    same, n = ordered[1:] == ordered[:-1], len(rows.ids)
    near = np.bincount(ordered[1:][same & (distance == 1)], minlength=n)
    gaps = np.bincount(ordered[1:][same & (distance > 1)], minlength=n)
    return (np.bincount(codes[off], minlength=n) > 0) | (gaps > near), gaps


def _calendar_of(rows: Rows, code: int) -> Calendar | None:
    """The calendar that one series' labels show, if any."""
    try:
        return Calendar.of(_labels(rows, code))
    except ValueError:
        return None


def _off_grid(rows: Rows, row: int, calendar: Calendar, suggest: bool) -> str:
    """Words about a label that no step has; where the freq was given, what the labels themselves look like."""
    code = 0 if rows.codes is None else int(rows.codes[row])
    owner = "" if rows.codes is None else f" of {rows.owner(code)}"
    found = _calendar_of(rows, code) if suggest else None
    remedy = "move it or pass the right `freq`"
    if found is not None and found.freq != calendar.freq:
        remedy = f"its series looks like freq {found.freq!r}: pass that, or move its times"
    return f"time label {show(rows.labels[row])}{owner} is not on the grid of {calendar.freq!r}; {remedy}."


def _refuse_broken(rows: Rows, codes: np.ndarray, steps: np.ndarray, calendar: Calendar, missing: str) -> None:
    """A row that is there twice is always refused, a gap unless it is to be filled."""
    distance = np.diff(steps)
    broken = (codes[1:] == codes[:-1]) & ((distance != 1) if missing == "error" else (distance == 0))
    if not broken.any():
        return
    row = int(broken.argmax())
    which = rows.owner(int(codes[row]))
    before, after = (show(label) for label in calendar.labels(steps[row : row + 2]))
    if before == after:
        raise ValueError(f"{which} has more than one row at {before}; keep one.")
    raise ValueError(
        f"{which} has a gap of {some(distance[row] - 1, 'row')} between {before} and {after} (freq {calendar.freq!r}); "
        "fill it, pass `missing='interpolate'` or 'ffill', or pass the `freq` of the rows."
    )


def _grid(rows: Rows, steps: np.ndarray, values: np.ndarray, counts: np.ndarray, calendar: Calendar) -> Grid:
    """Every step from a series' first row to its last; NaN where there was no row."""
    channels, ends = len(values), np.cumsum(counts)
    starts = steps[ends - counts]
    lengths = steps[ends - 1] - starts + 1
    if (lengths != counts).any():
        if lengths.sum() > MOST_FILLED * counts.sum():
            i = int((lengths - counts).argmax())
            raise ValueError(
                f"{rows.owner(i)} has {some(counts[i], 'row')} where freq {calendar.freq!r} asks for {lengths[i]}, too "
                "many to fill; pass the `freq` of the rows."
            )
        wide = np.full((channels, lengths.sum()), np.nan)
        wide[:, np.repeat(np.cumsum(lengths) - lengths - starts, counts) + steps] = values
        values = wide
    return Grid(values.ravel(), None, np.tile(lengths, channels), np.tile(starts, channels))


def _check_values(rows: Rows, grid: Grid, calendar: Calendar, missing: str) -> None:
    """Infinite values and those too large to be squared are refused; missing ones unless they are to be filled."""
    values = grid.values
    if values.min() >= -LARGEST and values.max() <= LARGEST:  # NaN is neither
        return
    fine = np.abs(values) <= LARGEST
    if missing != "error":
        fine |= np.isnan(values)
    if fine.all():
        return
    row, offsets = int(fine.argmin()), np.cumsum(grid.lengths) - grid.lengths
    i = int(np.searchsorted(offsets, row, side="right")) - 1
    series = values[offsets[i] : offsets[i] + grid.lengths[i]]
    if np.isnan(values[row]):
        kind, count, remedy = "missing value", np.isnan(series).sum(), "fill the NaN or pass `missing='interpolate'`"
    elif np.isinf(values[row]):
        kind, count, remedy = "infinite value", np.isinf(series).sum(), "replace it, or drop it and fill the gap"
    else:
        kind, count, remedy = "huge value", (np.abs(series) > LARGEST).sum(), f"rescale it to below {LARGEST:g}"
    label = show(calendar.labels(grid.starts[i : i + 1] + row - offsets[i])[0])
    raise ValueError(f"{rows.channel(i)} has {some(count, kind)}, the first at {label}; {remedy}.")


def _filled(rows: Rows, grid: Grid, min_rows: int, missing: str) -> Grid:
    """Without missing values.

    Leading ones go, as a series begins with its first value; those after the last value are carried forward, for only
    a later row could say more; those between follow `missing`.
    """
    if missing == "error":
        return grid
    observed = ~np.isnan(grid.values)
    if observed.all():
        return grid
    offsets = np.cumsum(grid.lengths) - grid.lengths
    known = np.add.reduceat(observed, offsets, dtype=np.int64)
    if known.min() < min_rows:
        i = int(known.argmin())
        raise ValueError(f"{rows.channel(i)} has {some(known[i], 'known value')}; at least {min_rows} are needed.")
    row = np.arange(len(observed))
    before = np.maximum.accumulate(np.where(observed, row, -1))  # the last row known, perhaps of the series before
    kept = before >= np.repeat(offsets, grid.lengths)
    dropped = np.add.reduceat(~kept, offsets, dtype=np.int64)
    values, observed = grid.values[kept], observed[kept]
    lengths, starts = grid.lengths - dropped, grid.starts + dropped
    values = _fill(values, observed, lengths, interpolate=missing == "interpolate")
    return Grid(values, None if observed.all() else observed, lengths, starts)


def _fill(values: np.ndarray, observed: np.ndarray, lengths: np.ndarray, interpolate: bool) -> np.ndarray:
    """Carry forward, or draw a line where a later value of the series is known; each begins with a known value."""
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
