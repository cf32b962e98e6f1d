"""Frequencies as they are given, text or pandas' offsets, to the days that they step through, and back to offsets."""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from .days import LAST_WEEK, MONTHS, WEEKDAYS, WEEKMASK, DayRule, day_of_month, days_and_clock, month_edges, weekday

DIGITS = 15  # of the multiple in front of an alias: int64 then holds what the steps count
_SUPPORTED = (
    "supported are fixed steps ('s', '15min', 'h', 'D'), 'W', 'B', 'MS', 'ME', 'QS', 'QE', 'YS', 'YE', those of "
    "business days ('BME'), of a day of the month ('MD-15', 'QD-JAN-15', 'YD-MAR-10'), 'SMS', 'SME', 'WOM-3FRI', "
    "'LWOM-FRI' and `pd.offsets.CustomBusinessDay`; for others count the rows 0, 1, ... and pass these as times"
)

# What pandas called them before version 3; a multiple in front and an anchor behind stay as they are.
_OLD_ALIASES = {
    **{"H": "h", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns", "d": "D", "w": "W", "b": "B"},
    **{"M": "ME", "Q": "QE", "A": "YE", "Y": "YE", "AS": "YS"},
    **{"BM": "BME", "BQ": "BQE", "BA": "BYE", "BY": "BYE", "BAS": "BYS", "SM": "SME"},
}

# What each offset of days or more counts, and how many of these make one step.
_OFFSETS: dict[type, tuple[str, int]] = {
    pd.offsets.Day: ("day", 1),
    pd.offsets.Week: ("day", 7),
    pd.offsets.BusinessDay: ("business day", 1),
    pd.offsets.CustomBusinessDay: ("business day", 1),
    pd.offsets.SemiMonthBegin: ("half month start", 1),
    pd.offsets.SemiMonthEnd: ("half month end", 1),
    pd.offsets.WeekOfMonth: ("week of month", 1),
    pd.offsets.LastWeekOfMonth: ("week of month", 1),
    pd.offsets.MonthBegin: ("month start", 1),
    pd.offsets.MonthEnd: ("month end", 1),
    pd.offsets.QuarterBegin: ("month start", 3),
    pd.offsets.QuarterEnd: ("month end", 3),
    pd.offsets.YearBegin: ("month start", 12),
    pd.offsets.YearEnd: ("month end", 12),
    pd.offsets.BusinessMonthBegin: ("business month start", 1),
    pd.offsets.BusinessMonthEnd: ("business month end", 1),
    pd.offsets.CustomBusinessMonthBegin: ("business month start", 1),
    pd.offsets.CustomBusinessMonthEnd: ("business month end", 1),
    pd.offsets.BQuarterBegin: ("business month start", 3),
    pd.offsets.BQuarterEnd: ("business month end", 3),
    pd.offsets.BYearBegin: ("business month start", 12),
    pd.offsets.BYearEnd: ("business month end", 12),
    # pandas 3 has half years.
    **{
        getattr(pd.offsets, name): counted
        for name, counted in {
            "HalfYearBegin": ("month start", 6),
            "HalfYearEnd": ("month end", 6),
            "BHalfYearBegin": ("business month start", 6),
            "BHalfYearEnd": ("business month end", 6),
        }.items()
        if hasattr(pd.offsets, name)
    },
}
_CUSTOM = {
    "C": pd.offsets.CustomBusinessDay,
    "CBMS": pd.offsets.CustomBusinessMonthBegin,
    "CBME": pd.offsets.CustomBusinessMonthEnd,
}

_MONTH_DAY = re.compile(rf"(\d*)([MQY])D(?:-({'|'.join(MONTHS)}))?(?:-(\d\d?))?")
_LAST_WEEKS = re.compile(rf"(\d*)LWOM-({'|'.join(WEEKDAYS)})")
_CUSTOM_DAYS = re.compile(rf"(\d*)(CBM[SE]|C)-((?:{'|'.join(WEEKDAYS)})(?:,(?:{'|'.join(WEEKDAYS)}))*)")


class MonthDay(NamedTuple):
    """A day of the month, clipped to its end; None where the labels tell it."""

    months: int  # in one step
    month: int | None = None  # from January = 0
    day: int | None = None


class DayStep(NamedTuple):
    """A step of days or longer."""

    freq: str
    rule: DayRule
    span: int  # ordinals in one step
    base: int  # ordinals after which an anchor, such as the month of a quarter, comes again
    anchor: int  # an ordinal on the grid, modulo `base`


Offset: TypeAlias = "pd.DateOffset | MonthDay"


def read_offset(freq: Any) -> Offset:
    """`freq` as a supported offset; an alias of older pandas with a warning.

    ValueError if it is none, or none that is supported.
    """
    if isinstance(freq, str):
        if re.match(rf"\d{{{DIGITS + 1}}}", freq):
            raise ValueError(f"`freq` must be a multiple of at most {DIGITS} digits, got {freq!r}; pass a longer step.")
        if found := _MONTH_DAY.fullmatch(freq):
            return _read_month_day(freq, *found.groups())
        if found := _CUSTOM_DAYS.fullmatch(freq):
            weekmask = "".join(str(int(day in found[3].split(","))) for day in WEEKDAYS)
            freq = _CUSTOM[found[2]](int(found[1] or 1), weekmask=weekmask)
        elif parts := re.fullmatch(r"(-?[\d.]*)([A-Za-z]+)(-\w+)?", freq):
            multiple, alias, anchor = parts.groups(default="")
            if alias in _OLD_ALIASES:
                new = f"{multiple}{_OLD_ALIASES[alias]}{anchor}"
                warnings.warn(f"the freq {freq!r} is called {new!r} now.", FutureWarning, stacklevel=4)
                freq = new
    try:
        offset = _to_offset(freq)
    except (ValueError, TypeError):
        raise ValueError(f"`freq` {freq!r} is not a pandas frequency; {_SUPPORTED}.") from None
    plain = _without_relative(offset) if type(offset) is pd.DateOffset else offset
    n = plain.months if isinstance(plain, MonthDay) else getattr(plain, "n", 0)
    is_known = isinstance(plain, (MonthDay, pd.offsets.Tick)) or type(plain) in _OFFSETS
    if plain is None or not is_known or n < 1:
        raise ValueError(f"`freq` {getattr(offset, 'freqstr', freq)!r} is not supported; {_SUPPORTED}.")
    return plain


def day_step(offset: Offset, labels: pd.DatetimeIndex) -> DayStep:
    """What an offset of days or more steps through; the labels tell what it leaves open."""
    days, _ = days_and_clock(labels)
    if isinstance(offset, MonthDay):
        month = int(days[0].astype("M8[M]").astype(np.int64)) if offset.month is None else offset.month
        day = int(day_of_month(days).max()) if offset.day is None else offset.day
        edge = "S" if day == 1 else "E" if day == 31 else "D"
        freq = month_alias(offset.months, month % 12, edge, day)
        if edge != "D":
            return day_step(to_offset(freq), labels)
        base = next(base for base in (12, 3, 1) if offset.months % base == 0)
        return DayStep(freq, DayRule("month day", day), offset.months, base, month % base)
    counts, base = _OFFSETS[type(offset)]
    if isinstance(offset, pd.offsets.Week):
        if offset.weekday is None:
            offset = pd.offsets.Week(offset.n, weekday=labels[0].weekday())
        return DayStep(offset.freqstr, DayRule(counts), base * offset.n, base, (offset.weekday - 3) % base)
    anchor = (getattr(offset, "startingMonth", getattr(offset, "month", 1)) - 1) % base
    rule = DayRule(counts, _day(offset), *_custom_days(offset))
    return DayStep(_name(offset, rule), rule, base * offset.n, base, anchor)


def month_alias(months: int, first: int, edge: str, day: int = 0, business: str = "") -> str:
    """The alias of a step of months that begins in month `first`, at its start 'S', its end 'E' or on a day 'D'."""
    tail = f"-{day}" if edge == "D" else ""
    if months % 12 == 0:
        return f"{_times(months // 12)}{business}Y{edge}-{MONTHS[first]}{tail}"
    if months % 3 == 0:  # named as pandas does by default: QS-JAN, QE-DEC
        return f"{_times(months // 3)}{business}Q{edge}-{MONTHS[first % 3 + (9 if edge == 'E' else 0)]}{tail}"
    return f"{_times(months)}{business}M{edge}{tail}"


def week_of_month_alias(days: np.ndarray) -> str | None:
    """The alias of days of one weekday in the same week of their months, or in the last, as 'WOM-2TUE'; or None."""
    weekdays, weeks = weekday(days), (day_of_month(days) - 1) // 7
    on = WEEKDAYS[weekdays[0]]
    if (weekdays != weekdays[0]).any():
        return None
    if (weeks == weeks[0]).all() and weeks[0] < LAST_WEEK:
        return f"WOM-{weeks[0] + 1}{on}"
    is_last = (month_edges(days.astype("M8[M]").astype(np.int64))[1] - days < np.timedelta64(7, "D")).all()
    return f"LWOM-{on}" if is_last else None


def weekday_alias(weekmask: str) -> str:
    """The alias of custom business days: 'C-MON,TUE,WED,THU,SUN'."""
    return "C-" + ",".join(day for day, is_on in zip(WEEKDAYS, weekmask, strict=True) if is_on == "1")


def pandas_offset(freq: str, rule: DayRule, span: int) -> pd.DateOffset:
    """The offset of pandas that steps as `freq` does."""
    if rule.counts == "month day":
        return pd.DateOffset(months=span, day=rule.day)
    if found := re.fullmatch(r"\d*(CBM[SE]|C)-.*", freq):
        return _CUSTOM[found[1]](span, weekmask=rule.weekmask, holidays=list(rule.holidays))
    return _to_offset(freq)


def _to_offset(freq: Any) -> pd.DateOffset:
    """As pandas reads it, which before 3 writes last weeks of months and does not read them."""
    if isinstance(freq, str) and (found := _LAST_WEEKS.fullmatch(freq)):
        return pd.offsets.LastWeekOfMonth(int(found[1] or 1), weekday=WEEKDAYS.index(found[2]))
    return to_offset(freq)


def _times(n: int) -> str:
    return "" if n == 1 else str(n)


def _read_month_day(freq: str, multiple: str, unit: str, month: str | None, day: str | None) -> MonthDay:
    n = int(multiple or 1)
    if n < 1 or (day is not None and not 1 <= int(day) <= 31) or (unit == "M" and month is not None):
        raise ValueError(f"`freq` {freq!r} must have a day from 1 to 31, as in 'MD-15', 'QD-JAN-15' or 'YD-MAR-10'.")
    months = n * {"M": 1, "Q": 3, "Y": 12}[unit]
    return MonthDay(months, None if month is None else MONTHS.index(month), None if day is None else int(day))


def _without_relative(offset: pd.DateOffset) -> Offset | None:
    """A `pd.DateOffset` as one of those that have a name; None where none steps as it does."""
    parts = dict(offset.kwds) or {"days": 1}
    day = parts.pop("day", None)
    months = 12 * parts.pop("years", 0) + parts.pop("months", 0)
    if months > 0 and not parts:
        return MonthDay(offset.n * months, None, day)
    if months or day is not None or not set(parts) <= {"weeks", "days", "hours", "minutes", "seconds", "microseconds"}:
        return None
    if set(parts) == {"weeks"}:
        return pd.offsets.Week(offset.n * parts["weeks"])
    return to_offset(offset.n * pd.Timedelta(**parts))


def _day(offset: pd.DateOffset) -> int:
    """What `DayRule` calls its day."""
    if isinstance(offset, pd.offsets.LastWeekOfMonth):
        return 7 * LAST_WEEK + int(offset.weekday)
    if isinstance(offset, pd.offsets.WeekOfMonth):
        return 7 * int(offset.week) + int(offset.weekday)
    return int(getattr(offset, "day_of_month", 0))


def _custom_days(offset: pd.DateOffset) -> tuple[str, tuple[str, ...]]:
    """The weekmask and the holidays of an offset."""
    calendar = getattr(offset, "calendar", None)
    if not isinstance(calendar, np.busdaycalendar):
        return WEEKMASK, ()
    return "".join(str(int(is_on)) for is_on in calendar.weekmask), tuple(calendar.holidays.astype(str).tolist())


def _name(offset: pd.DateOffset, rule: DayRule) -> str:
    """The alias of an offset, with the weekdays of a custom one."""
    found = re.fullmatch(r"(\d*)(CBM[SE]|C)", offset.freqstr)
    if found is None:
        alias: str = offset.freqstr
        return alias
    if (rule.weekmask, rule.holidays) == (WEEKMASK, ()):
        return found[1] + {"C": "B"}.get(found[2], found[2][1:])
    return found[1] + found[2] + weekday_alias(rule.weekmask)[1:]
