"""Time labels to consecutive integers, the time index, and back, for every kind of label pandas has."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from pandas.tseries.frequencies import to_offset

from .clock import LocalClock
from .days import WEEKMASK, DayRule, days_and_clock
from .infer import infer_freq, regular_step, show
from .offsets import MonthDay, Offset, day_step, month_alias, pandas_offset, read_offset, week_of_month_alias
from .zones import check_zone

# No integer label is as far from 0, so that distances, and forecasts, are never too large for int64.
FARTHEST = 2**62
YEARS_AHEAD = 20  # in which changes of the clocks are looked up
LATEST_CLOCK = 200  # years after 1970 to which they are, and to the first row: labels of nanoseconds end soon after


@dataclass(frozen=True)
class Calendar:
    """A grid of evenly spaced time labels, each with an integer, its time index.

    The time index does not depend on where a series starts: hours since 1970 for 'h', months since January 1970 for
    'MS', the label divided by its step for integers. The phase of a season is therefore `time_index % period`. Steps
    of less than a day count elapsed time, so a night of 23 or 25 hours keeps all its hours; days and longer steps count
    local days.

    Parameters
    ----------
    freq : str or int
        The alias of one step, pandas' own ('h', '15min', 'QE-DEC') or that of a day of the month ('MD-15', 'QD-JAN-15',
        'YD-MAR-10') or of weekdays ('C-MON,SUN', whose holidays are beside it); for integer labels their distance.
    dtype : dtype
        Of the labels; it carries their unit, time zone or period.
    counts : str
        What ordinals count: 'integer', 'period', 'instant' or what a `DayRule` counts.
    span : int
        Ordinals in one step.
    anchor : int
        The ordinal of time index 0.
    clock : int
        The common time of day of daily and longer steps, in units of `dtype`.
    day, weekmask, holidays : int, str, tuple of str
        As in `DayRule`.
    phases : tuple of (Calendar, tuple of ids)
        Calendars of the same step on which some of the series lie instead.
    local : bool
        Whether seasons follow the clocks of the labels' zone; not so in models that were saved before.
    """

    freq: str | int
    dtype: Any
    counts: str
    span: int
    anchor: int
    clock: int = 0
    day: int = 0
    weekmask: str = WEEKMASK
    holidays: tuple[str, ...] = ()
    phases: tuple[tuple[Calendar, tuple[Hashable, ...]], ...] = ()
    local: bool = False

    @classmethod
    def of(cls, labels: pd.Index, freq: str | int | pd.DateOffset | None = None) -> Calendar:
        """The calendar of one series' labels, in any order.

        Parameters
        ----------
        labels : DatetimeIndex, PeriodIndex or Index of integers
            Gaps are allowed: the frequency is that of the labels that are there.
        freq : str, int or offset, optional
            Inferred if None, from at least 3 labels.

        Raises
        ------
        ValueError
            If `freq` is unknown or does not go with the labels, if none can be inferred, if the labels are no times or
            too large, or if their time zone has no name.
        """
        family = _family(labels)
        if isinstance(freq, np.timedelta64):  # which is an integer, too
            freq = pd.Timedelta(freq)
        if family == "integer":
            return _integer_calendar(labels, freq)
        if isinstance(freq, (int, np.integer)):
            raise ValueError(f"`freq` must be an alias such as 'h' for dates, got {freq!r}.")
        if family == "period":
            return _period_calendar(labels, freq)
        check_zone(labels)
        if freq is None and labels.freq is not None and labels.freq.n > 0:
            freq = labels.freq
        return _datetime_calendar(labels, read_offset(infer_freq(labels) if freq is None else freq))

    @property
    def offset(self) -> pd.DateOffset:
        """The step as an offset of pandas."""
        if self.counts == "period":
            return self.dtype.freq
        return pandas_offset(str(self.freq), self._rule, self.span)

    @property
    def step(self) -> tuple[Any, ...]:
        """What calendars have in common that differ in phase alone: quarters that end in January or in December."""
        if "month" in self.counts and "half" not in self.counts:
            return "month", self.span
        return self.counts, self.span, self.weekmask, self.holidays

    def time_index(self, labels: pd.Index) -> np.ndarray:
        """The time index of each label, int64.

        Raises
        ------
        ValueError
            If a label is not on the grid.
        """
        time_index, off = self.locate(labels)
        if off.any():
            label = show(labels[int(off.argmax())])
            raise ValueError(
                f"time label {label} is not on the grid of {self.freq!r}; move it or pass the right `freq`."
            )
        return time_index

    def locate(self, labels: pd.Index) -> tuple[np.ndarray, np.ndarray]:
        """The time index at or before each label, int64, and which labels are not on the grid, bool.

        A label off a grid of months counts as of its month.

        Raises
        ------
        ValueError
            If the labels are of another family, such as dates without a time zone.
        """
        if _family(labels) != _family(self.dtype):
            raise ValueError(f"time labels must have dtype {self.dtype} as before, got {labels.dtype}.")
        if self.counts in ("integer", "period") or (self.counts == "instant" and labels.unit == _unit(self.dtype)):
            time_index, rest = np.divmod(self._ordinals(labels) - self.anchor, self.span)
            return time_index, rest != 0
        time_index = (self._ordinals(labels) - self.anchor) // self.span
        return time_index, np.asarray(self.labels(time_index) != labels)

    def label(self, time_index: int) -> Any:
        """The label of one time index."""
        return self.labels(np.array([time_index]))[0]

    def labels(self, time_index: np.ndarray) -> pd.Index:
        """The labels of a time index (any,): the inverse of `time_index`.

        Raises
        ------
        ValueError
            If a label is past what its dtype can hold.
        """
        time_index = np.asarray(time_index, dtype=np.int64)
        self._check_range(time_index)
        ordinals = self.anchor + self.span * time_index
        if self.counts == "integer":
            return pd.Index(ordinals, dtype=self.dtype)
        if self.counts == "period":
            return pd.PeriodIndex.from_ordinals(ordinals, freq=self.dtype.freq)
        unit, zone = _unit(self.dtype), getattr(self.dtype, "tz", None)
        if self.counts == "instant":
            instants = pd.DatetimeIndex(ordinals.view(f"M8[{unit}]"))
            return instants if zone is None else instants.tz_localize("UTC").tz_convert(zone)
        try:
            wall = pd.DatetimeIndex(self._rule.days(ordinals).astype("M8[s]")).as_unit(unit)
            wall += pd.Timedelta(self.clock, unit=unit).as_unit(unit)
        except pd.errors.OutOfBoundsDatetime:
            raise ValueError(self._too_far()) from None
        if zone is None:
            return wall
        # Some zones change their clocks at midnight: a day then starts at its first midnight, or at 01:00.
        return wall.tz_localize(zone, ambiguous=np.ones(len(wall), dtype=bool), nonexistent="shift_forward")

    def rephased(self, labels: pd.Index) -> Calendar:
        """The calendar of the same step that begins with other labels, on whatever days and clock they have."""
        if self.counts in ("integer", "period", "instant"):
            return replace(self, anchor=int(self._ordinals(labels[:1])[0]) % self.span, phases=())
        labels = _converted(labels, self.dtype)
        return _datetime_calendar(labels, self._unanchored(labels))

    def local_clock(self, first: int, last: int) -> LocalClock | None:
        """The clocks from one time index to another and for years beyond; None where seasons follow none."""
        if not self.local:
            return None
        hour, day = _ordinals_of_an_hour(self.dtype), self.steps_of_a_day
        found = np.arange(first, last + YEARS_AHEAD * 366 * day, day)
        latest = max(first, (LATEST_CLOCK * 366 * 24 * hour - self.anchor) // self.span)
        found = found[found <= latest]
        begins, shifts = [int(found[0])], [int(self._shift(found[:1])[0])]
        all_shifts = self._shift(found)
        for i in np.flatnonzero(np.diff(all_shifts)).tolist():  # within a day the clocks change once
            between = np.arange(found[i] + 1, found[i + 1] + 1)
            begins.append(int(between[np.argmax(self._shift(between) == all_shifts[i + 1])]))
            shifts.append(int(all_shifts[i + 1]))
        return LocalClock(np.array(begins), np.array(shifts))

    @property
    def steps_of_a_day(self) -> int:
        """Steps of elapsed time in 24 hours; 1 where they are longer."""
        return max(1, 24 * _ordinals_of_an_hour(self.dtype) // self.span)

    def _shift(self, time_index: np.ndarray) -> np.ndarray:
        """Steps that local clocks are ahead of UTC, rounded down."""
        labels = self.labels(time_index)
        ahead: np.ndarray = (labels.tz_localize(None).asi8 - labels.asi8) // self.span
        return ahead

    def of_series(self, name: Hashable) -> Calendar:
        """The calendar of the series of this id."""
        return next((calendar for calendar, names in self.phases if name in names), self)

    @property
    def of_phases(self) -> tuple[Calendar, ...]:
        """This calendar, and then those of `phases`."""
        return (self, *(calendar for calendar, _ in self.phases))

    def phase_of(self, ids: pd.Index) -> np.ndarray:
        """Which of `of_phases` each series lies on, int64."""
        numbers = {name: i + 1 for i, (_, names) in enumerate(self.phases) for name in names}
        return np.array([numbers.get(name, 0) for name in ids.tolist()], dtype=np.int64)

    @property
    def _rule(self) -> DayRule:
        return DayRule(self.counts, self.day, self.weekmask, self.holidays)

    def _ordinals(self, labels: pd.Index) -> np.ndarray:
        if self.counts == "integer":
            return _integers(labels)
        if self.counts != "period":
            try:
                labels = labels.as_unit(_unit(self.dtype))
            except pd.errors.OutOfBoundsDatetime:
                raise ValueError(f"time labels must fit into dtype {self.dtype}, that of the data fitted.") from None
        if self.counts in ("period", "instant"):
            ordinals: np.ndarray = labels.asi8
            return ordinals
        return self._rule.ordinals(days_and_clock(labels)[0])

    def _check_range(self, time_index: np.ndarray) -> None:
        """Refuse labels that int64 does not hold."""
        if len(time_index) == 0:
            return
        ends = [self.anchor + self.span * int(end) for end in (time_index.min(), time_index.max())]
        if max(abs(end) for end in ends) < 2**63:
            return
        raise ValueError(self._too_far())

    def _too_far(self) -> str:
        remedy = "subtract the first label from all" if self.counts == "integer" else "use `.as_unit('s')`"
        return f"times of dtype {self.dtype} end before the steps that are asked for; {remedy} and fit again."

    def _unanchored(self, labels: pd.DatetimeIndex) -> Offset:
        """The offset of one step, on no weekday and in no month of its own."""
        if self.counts == "day":
            weeks, rest = divmod(self.span, 7)
            return pd.offsets.Day(self.span) if rest else pd.offsets.Week(weeks)
        if self.counts == "business day" or "half" in self.counts:
            return self.offset
        days = days_and_clock(labels)[0]
        if self.counts == "week of month":
            alias = week_of_month_alias(days)
            return self.offset if alias is None else read_offset(f"{self.span}{alias}")
        if DayRule("month end").keeps(days):
            return MonthDay(self.span, day=31)
        if self.counts == "month start" or not self._rule.keeps(days):
            return MonthDay(self.span)
        if self.counts.startswith("business"):
            first = int(days[0].astype("M8[M]").astype(np.int64)) % 12
            return read_offset(month_alias(self.span, first, "E" if "end" in self.counts else "S", business="B"))
        return MonthDay(self.span, day=self.day) if self.counts == "month day" else self.offset


def _family(labels: Any) -> str:
    """'integer', 'period', 'datetime' or 'zoned' for an Index or a dtype of times; ValueError for any other."""
    dtype = getattr(labels, "dtype", labels)
    if types.is_integer_dtype(dtype):
        return "integer"
    if isinstance(dtype, pd.PeriodDtype):
        return "period"
    if isinstance(dtype, pd.DatetimeTZDtype):
        return "zoned"
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return "datetime"
    name = getattr(labels, "name", None)
    raise ValueError(
        f"time labels{'' if name is None else f' {name!r}'} must be dates, periods or integers, got dtype {dtype}; "
        "convert them first, with `pd.to_datetime` or `.astype(int)`."
    )


def _integer_calendar(labels: pd.Index, freq: Any) -> Calendar:
    if freq is None and isinstance(labels, pd.RangeIndex):
        freq = abs(labels.step)
    elif freq is None:
        freq = regular_step(labels, _integers(labels))
    if isinstance(freq, bool) or not isinstance(freq, (int, np.integer)) or not 1 <= freq < FARTHEST:
        raise ValueError(f"`freq` must be a positive integer for integer time labels, got {freq!r}.")
    return Calendar(int(freq), _widest(labels.dtype), "integer", int(freq), int(_integers(labels[:1])[0]) % int(freq))


def _integers(labels: pd.Index) -> np.ndarray:
    """Integer labels as int64; ValueError where they are too large to be counted."""
    for end in (int(labels.min()), int(labels.max())):
        if abs(end) >= FARTHEST:
            column = "" if labels.name is None else f" {labels.name!r}"
            raise ValueError(
                f"integer time labels{column} must lie between -2**62 and 2**62, got {end}; subtract the first label "
                "from all."
            )
    integers: np.ndarray = labels.to_numpy(np.int64)
    return integers


def _widest(dtype: Any) -> Any:
    """The dtype of 64 bits of the same kind: the labels of a forecast may pass 127."""
    if isinstance(dtype, np.dtype):
        return np.dtype(np.int64)
    return types.pandas_dtype("int64[pyarrow]" if isinstance(dtype, pd.ArrowDtype) else "Int64")


def _period_calendar(labels: pd.PeriodIndex, freq: Any) -> Calendar:
    offset = labels.dtype.freq
    if type(offset) is pd.offsets.BusinessDay:
        raise ValueError("periods of business days are not supported; use dates, with `.to_timestamp()`.")
    if freq is not None and not _same_period(freq, labels.dtype):
        raise ValueError(f"`freq` must be the periods' own {labels.freqstr!r} or None, got {freq!r}.")
    return Calendar(labels.freqstr, labels.dtype, "period", offset.n, int(labels.asi8[0]) % offset.n)


def _same_period(freq: Any, dtype: pd.PeriodDtype) -> bool:
    try:
        return bool(pd.PeriodDtype(freq) == dtype)
    except (TypeError, ValueError):
        return bool(read_offset(freq) == dtype.freq)


def _datetime_calendar(labels: pd.DatetimeIndex, offset: Offset) -> Calendar:
    unit = labels.unit
    if isinstance(offset, pd.offsets.Tick) and type(offset) is not pd.offsets.Day:
        length = pd.Timedelta(offset)
        whole, rest = divmod(length, pd.Timedelta(1, unit="D"))
        if rest or labels.tz is not None:
            span, rest = divmod(length, pd.Timedelta(1, unit=unit))
            if rest:
                raise ValueError(f"`freq` {offset.freqstr!r} is finer than the labels' unit {unit!r}; use `.as_unit`.")
            name, anchor = to_offset(length).freqstr, int(labels.asi8[0]) % span
            return Calendar(name, labels.dtype, "instant", span, anchor, local=labels.tz is not None)
        offset = pd.offsets.Day(whole)
    step, (days, clock) = day_step(offset, labels), days_and_clock(labels)
    first = int(step.rule.ordinals(days[:1])[0])
    anchor = step.anchor + step.base * ((first - step.anchor) // step.base % (step.span // step.base))
    rule = step.rule
    # The earliest time of day: where clocks skip it, the label stands an hour later.
    where = (anchor, int(clock.min()), rule.day, rule.weekmask, rule.holidays)
    return Calendar(step.freq, labels.dtype, rule.counts, step.span, *where)


def _converted(labels: pd.DatetimeIndex, dtype: Any) -> pd.DatetimeIndex:
    """Dates in the unit and the time zone of a dtype."""
    labels = labels.as_unit(_unit(dtype))
    return labels.tz_convert(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else labels


def _ordinals_of_an_hour(dtype: Any) -> int:
    return int(pd.Timedelta(1, unit="h") // pd.Timedelta(1, unit=_unit(dtype)))


def _unit(dtype: Any) -> str:
    return dtype.unit if isinstance(dtype, pd.DatetimeTZDtype) else np.datetime_data(dtype)[0]
