"""Rows in any order to rows in order: the calendar that all series keep to, and where each row lies on it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .calendar import Calendar
from .infer import show
from .layouts import Rows
from .phases import locate, with_phases

MOST_ASKED = 100  # series that may show no frequency before the table is taken to have none


class OrderedRows(NamedTuple):
    """The rows of a table sorted by series and then by time, each with its time index."""

    calendar: Calendar
    codes: np.ndarray  # (rows,) the series of each row
    time_index: np.ndarray  # (rows,) int64
    values: np.ndarray  # (channels, rows)


def order_rows(rows: Rows, freq: Any, calendar: Calendar | None) -> OrderedRows:
    """Find the calendar, locate every row on it and sort them; errors as `read_table` lists them.

    `calendar` is that of rows read before; None finds it, from `freq` or from all series.
    """
    codes = np.zeros(len(rows.labels), dtype=np.int64) if rows.codes is None else rows.codes
    inferred_from = None  # the series that showed the frequency
    given = calendar is None and freq is not None
    if calendar is None:
        calendar, inferred_from = _first_calendar(rows, np.bincount(codes), freq)
    ordered, off = _ordered(rows, codes, calendar)
    found = calendar
    if inferred_from is not None and len(rows.ids) > 1 and (off.any() or _gaps(ordered).any()):
        found = _agreed(rows, codes, calendar, inferred_from)
    elif rows.codes is not None and off.any() and inferred_from is None:
        own = (lambda labels: Calendar.of(labels, freq)) if given else calendar.rephased
        misfit = np.bincount(codes[off], minlength=len(rows.ids)) > 0
        found = with_phases(rows, codes, calendar, misfit, own)
    if found is not calendar:
        ordered, off = _ordered(rows, codes, found)
    if off.any():
        raise ValueError(_off_grid(rows, int(off.argmax()), found, given))
    return ordered


def _ordered(rows: Rows, codes: np.ndarray, calendar: Calendar) -> tuple[OrderedRows, np.ndarray]:
    """The rows in order, and which of them, as they came, are not on the calendar."""
    time_index, off = locate(rows, calendar)
    order = _order(codes, time_index)
    if order is None:
        return OrderedRows(calendar, codes, time_index, rows.values), off
    return OrderedRows(calendar, codes[order], time_index[order], rows.values[:, order]), off


def _first_calendar(rows: Rows, counts: np.ndarray, freq: Any) -> tuple[Calendar, int | None]:
    """The calendar of the longest series that shows one, and which series that is; None where `freq` was given."""
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


def _labels(rows: Rows, code: int) -> pd.Index:
    """The time labels of one series."""
    return rows.labels if rows.codes is None or len(rows.ids) == 1 else rows.labels[rows.codes == code]


def _order(codes: np.ndarray, time_index: np.ndarray) -> np.ndarray | None:
    """The permutation that sorts rows by series and then by time; None where they are sorted."""
    same_series, later = codes[1:] == codes[:-1], time_index[1:] >= time_index[:-1]
    if np.all((codes[1:] > codes[:-1]) | same_series & later):
        return None
    low = int(time_index.min())
    span = int(time_index.max()) - low + 1
    if span * (int(codes.max()) + 1) < 2**62:  # one key sorts several times as fast as two
        return np.argsort(codes * span + (time_index - low))
    return np.lexsort((time_index, codes))


def _gaps(ordered: OrderedRows) -> np.ndarray:
    """Where a row is not the next step after the one before it, (rows - 1,) bool."""
    gaps: np.ndarray = (ordered.codes[1:] == ordered.codes[:-1]) & (np.diff(ordered.time_index) > 1)
    return gaps


def _agreed(rows: Rows, codes: np.ndarray, calendar: Calendar, inferred_from: int) -> Calendar:
    """The calendar that all series keep to, where the one `inferred_from` a series does not fit all.

    ValueError where no calendar fits.
    """
    misfit, gaps = _misfits(rows, codes, calendar)
    first = int((misfit | (gaps > 0)).argmax())
    found = _calendar_of(rows, first)
    # A few days may be daily or business days, a few months quarters: another series can tell.
    if found is not None and found.freq != calendar.freq:
        other_misfit, other_gaps = _misfits(rows, codes, found)
        if not other_misfit.any() and (misfit.any() or other_gaps.sum() < gaps.sum()):
            return found
    calendar = with_phases(rows, codes, calendar, misfit, lambda labels: _own(labels, calendar))
    if calendar.phases:
        misfit, _ = _misfits(rows, codes, calendar)
    if not misfit.any():
        return calendar
    first = int(misfit.argmax())
    found = _calendar_of(rows, first)
    which = np.flatnonzero(misfit)
    names = ", ".join(repr(rows.name(i)) for i in which[:3]) + (", ..." if len(which) > 3 else "")
    own = "no regular one" if found is None else repr(found.freq)
    raise ValueError(
        f"all series must have one frequency, but series {rows.name(inferred_from)!r} has {calendar.freq!r} and "
        f"{len(which)} not ({names}): series {rows.name(first)!r} has {own}. "
        f"{_remedy(rows, calendar, found)}."
    )


def _remedy(rows: Rows, *calendars: Calendar | None) -> str:
    """Words for an error about series of several frequencies: the freq whose grid holds all rows, if there is one."""
    for calendar in calendars:
        if calendar is not None and not locate(rows, calendar)[1].any():
            return (
                f"Fit them apart, or pass `freq={calendar.freq!r}` and `missing='interpolate'` to fill what is between"
            )
    return "Fit them apart"


def _own(labels: pd.Index, calendar: Calendar) -> Calendar:
    """The calendar that labels show, or where that is of another step the one of `calendar`'s step."""
    try:
        found = Calendar.of(labels)
        if found.step == calendar.step:
            return found
    except ValueError:
        pass
    return calendar.rephased(labels)


def _misfits(rows: Rows, codes: np.ndarray, calendar: Calendar) -> tuple[np.ndarray, np.ndarray]:
    """Which series have another frequency (off the grid, or more gaps than neighbours), and the gaps of each."""
    time_index, off = locate(rows, calendar)
    order = np.lexsort((time_index, codes))
    ordered, distance = codes[order], np.diff(time_index[order])
    same, n = ordered[1:] == ordered[:-1], len(rows.ids)
    near = np.bincount(ordered[1:][same & (distance == 1)], minlength=n)
    gaps = np.bincount(ordered[1:][same & (distance > 1)], minlength=n)
    return (np.bincount(codes[off], minlength=n) > 0) | (gaps > near), gaps


def _calendar_of(rows: Rows, code: int) -> Calendar | None:
    """The calendar that the labels of one series show, if any."""
    try:
        return Calendar.of(_labels(rows, code))
    except ValueError:
        return None


def _off_grid(rows: Rows, row: int, calendar: Calendar, given: bool) -> str:
    """The error about a label off the grid; a `freq` that was given may be another than the labels show."""
    code = 0 if rows.codes is None else int(rows.codes[row])
    owner = "" if rows.codes is None else f" of {rows.owner(code)}"
    found = _calendar_of(rows, code) if given else None
    remedy = "move it or pass the right `freq`"
    if found is not None and found.step == calendar.step and len(rows.ids) > 1:
        remedy = "leave `freq` out, so that each series may keep its own days and hours, or move its times"
    elif found is not None and found.freq != calendar.freq:
        remedy = f"its series looks like freq {found.freq!r}: pass that, or move its times"
    return f"time label {show(rows.labels[row])}{owner} is not on the grid of {calendar.freq!r}; {remedy}."
