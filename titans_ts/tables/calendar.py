"""Time labels to consecutive integers, the time index, and back, for every kind of label pandas has."""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

_SUPPORTED = "supported are fixed steps ('s', '15min', 'h', 'D') and 'W', 'B', 'MS', 'ME', 'QS', 'QE', 'YS', 'YE'"

# What pandas called them before version 3; a multiple in front and an anchor behind stay as they are.
_OLD_ALIASES = {
    **{"H": "h", "T": "min", "S": "s", "L": "ms", "U": "us", "N": "ns", "d": "D", "w": "W", "b": "B"},
    **{"M": "ME", "Q": "QE", "A": "YE", "Y": "YE", "AS": "YS"},
}

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday
_EPOCH = np.datetime64("1970-01-01", "D")

# What each calendar offset counts, and how many of these make one step.
_OFFSETS: dict[type, tuple[str, int]] = {
    pd.offsets.Day: ("day", 1),
    pd.offsets.Week: ("day", 7),
    pd.offsets.BusinessDay: ("business day", 1),
    pd.offsets.MonthBegin: ("month start", 1),
    pd.offsets.MonthEnd: ("month end", 1),
    pd.offsets.QuarterBegin: ("month start", 3),
    pd.offsets.QuarterEnd: ("month end", 3),
    pd.offsets.YearBegin: ("month start", 12),
    pd.offsets.YearEnd: ("month end", 12),
}


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
        The pandas alias of one step ('h', '15min', 'QE-DEC'); for integer labels their distance.
    dtype : dtype
        Of the labels; it carries their unit, time zone or period.
    counts : str
        What ordinals count: 'integer', 'period', 'instant', 'day', 'business day', 'month start' or 'month end'.
    span : int
        Ordinals in one step.
    anchor : int
        The ordinal of time index 0.
    clock : int
        The common time of day of daily and longer steps, in units of `dtype`.
    """

    freq: str | int
    dtype: Any
    counts: str
    span: int
    anchor: int
    clock: int = 0

    @classmethod
    def of(cls, labels: pd.Index, freq: str | int | pd.DateOffset | None = None) -> "Calendar":
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
            If `freq` is unknown or does not go with the labels, if none can be inferred, or if the labels are no times.
        """
        family = _family(labels)
        if family == "integer":
            return _integer_calendar(labels, freq)
        if isinstance(freq, (int, np.integer)):
            raise ValueError(f"`freq` must be an alias such as 'h' for dates, got {freq!r}.")
        if family == "period":
            return _period_calendar(labels, freq)
        if freq is None and labels.freq is not None and labels.freq.n > 0:
            freq = labels.freq
        return _datetime_calendar(labels, _offset(_infer(labels) if freq is None else freq))

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
        """The labels of a time index (any,): the inverse of `time_index`."""
        ordinals = self.anchor + self.span * np.asarray(time_index, dtype=np.int64)
        if self.counts == "integer":
            return pd.Index(ordinals, dtype=self.dtype)
        if self.counts == "period":
            return pd.PeriodIndex.from_ordinals(ordinals, freq=self.dtype.freq)
        unit, zone = _unit(self.dtype), getattr(self.dtype, "tz", None)
        if self.counts == "instant":
            instants = pd.DatetimeIndex(ordinals.view(f"M8[{unit}]"))
            return instants if zone is None else instants.tz_localize("UTC").tz_convert(zone)
        wall = pd.DatetimeIndex(self._days(ordinals).astype("M8[s]")).as_unit(unit)
        wall += pd.Timedelta(self.clock, unit=unit).as_unit(unit)
        if zone is None:
            return wall
        # Some zones change their clocks at midnight: a day then starts at its first midnight, or at 01:00.
        return wall.tz_localize(zone, ambiguous=np.ones(len(wall), dtype=bool), nonexistent="shift_forward")

    def _ordinals(self, labels: pd.Index) -> np.ndarray:
        if self.counts == "integer":
            return labels.to_numpy(np.int64)
        if self.counts == "period":
            return labels.asi8
        labels = labels.as_unit(_unit(self.dtype))
        if self.counts == "instant":
            return labels.asi8
        return _count(self.counts, _days_and_clock(labels)[0])

    def _days(self, ordinals: np.ndarray) -> np.ndarray:
        if self.counts == "day":
            return ordinals.astype("M8[D]")
        if self.counts == "business day":
            return np.busday_offset(_EPOCH, ordinals)
        if self.counts == "month start":
            return ordinals.astype("M8[M]").astype("M8[D]")
        return (ordinals + 1).astype("M8[M]").astype("M8[D]") - 1


def show(label: Any) -> str:
    """A label in the words of an error: the time of day only where it is not midnight."""
    return str(label).removesuffix(" 00:00:00")


def _family(labels: Any) -> str:
    """'integer', 'period', 'datetime' or 'zoned' for an Index or a dtype of times; ValueError for any other."""
    dtype = getattr(labels, "dtype", labels)
    if pd.api.types.is_integer_dtype(dtype):
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
        freq = _regular_step(labels, labels.to_numpy(np.int64))
    if isinstance(freq, bool) or not isinstance(freq, (int, np.integer)) or freq < 1:
        raise ValueError(f"`freq` must be a positive integer for integer time labels, got {freq!r}.")
    dtype = np.dtype(np.int64) if isinstance(labels.dtype, np.dtype) else labels.dtype
    return Calendar(int(freq), dtype, "integer", int(freq), int(labels[0]) % int(freq))


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
    except ValueError:
        return bool(_offset(freq) == dtype.freq)


def _datetime_calendar(labels: pd.DatetimeIndex, offset: pd.DateOffset) -> Calendar:
    unit = labels.unit
    if isinstance(offset, pd.offsets.Tick) and type(offset) is not pd.offsets.Day:
        length = pd.Timedelta(offset)
        days, rest = divmod(length, pd.Timedelta(1, unit="D"))
        if rest or labels.tz is not None:
            span, rest = divmod(length, pd.Timedelta(1, unit=unit))
            if rest:
                raise ValueError(f"`freq` {offset.freqstr!r} is finer than the labels' unit {unit!r}; use `.as_unit`.")
            return Calendar(to_offset(length).freqstr, labels.dtype, "instant", span, int(labels.asi8[0]) % span)
        offset = pd.offsets.Day(days)
    counts, base = _OFFSETS[type(offset)]
    days, clock = _days_and_clock(labels)
    first = int(_count(counts, days[:1])[0])
    if isinstance(offset, pd.offsets.Week):
        if offset.weekday is None:
            offset = pd.offsets.Week(offset.n, weekday=labels[0].weekday())
        phase = (offset.weekday - _EPOCH_WEEKDAY) % base
    else:
        phase = (getattr(offset, "startingMonth", getattr(offset, "month", 1)) - 1) % base
    anchor = phase + base * ((first - phase) // base % offset.n)
    # The earliest time of day: where clocks skip it, the label stands an hour later.
    return Calendar(offset.freqstr, labels.dtype, counts, base * offset.n, anchor, int(clock.min()))


def _offset(freq: Any) -> pd.DateOffset:
    """`freq` as a supported offset; an alias of older pandas with a warning."""
    if isinstance(freq, str) and (parts := re.fullmatch(r"(-?[\d.]*)([A-Za-z]+)(-\w+)?", freq)):
        multiple, alias, anchor = parts.groups(default="")
        if alias in _OLD_ALIASES:
            new = f"{multiple}{_OLD_ALIASES[alias]}{anchor}"
            warnings.warn(f"the freq {freq!r} is called {new!r} now.", FutureWarning, stacklevel=4)
            freq = new
    try:
        offset = to_offset(freq)
    except (ValueError, TypeError):
        raise ValueError(f"`freq` {freq!r} is not a pandas frequency; {_SUPPORTED}.") from None
    if not (type(offset) in _OFFSETS or isinstance(offset, pd.offsets.Tick)) or offset.n < 1:
        raise ValueError(f"`freq` {getattr(offset, 'freqstr', freq)!r} is not supported; {_SUPPORTED}.")
    return offset


def _infer(labels: pd.DatetimeIndex) -> str:
    """The alias of the coarsest grid on which the labels are neighbours, most of them."""
    labels = labels.sort_values()
    days, clock = _days_and_clock(labels)
    if (clock != clock[0]).any():
        return to_offset(pd.Timedelta(_regular_step(labels, labels.asi8), unit=labels.unit)).freqstr
    for counts, letter in (("month start", "S"), ("month end", "E")):
        edges = days if letter == "S" else days + 1
        if (edges.astype("M8[M]") == edges).all():
            months = _count(counts, days)
            return _month_alias(_regular_step(labels, months), int(months[0]) % 12, letter)
    number = days.astype(np.int64)
    weekdays = (number + _EPOCH_WEEKDAY) % 7
    if (weekdays == weekdays[0]).all():
        return f"{_regular_step(labels, number) // 7}W-{_WEEKDAYS[weekdays[0]]}"
    business = np.diff(np.unique(_count("business day", days)))
    spans_weekend = business.sum() < number[-1] - number[0]
    if spans_weekend and (weekdays < 5).all() and 2 * (business == 1).sum() >= len(business):
        return "B"
    return f"{_regular_step(labels, number)}D"


def _month_alias(months: int, first: int, letter: str) -> str:
    if months % 12 == 0:
        return f"{months // 12}Y{letter}-{_MONTHS[first]}"
    if months % 3 == 0:  # named as pandas does by default: QS-JAN, QE-DEC
        return f"{months // 3}Q{letter}-{_MONTHS[first % 3 + (0 if letter == 'S' else 9)]}"
    return f"{months}M{letter}"


def _regular_step(labels: pd.Index, ordinals: np.ndarray) -> int:
    """The smallest distance, if it divides all others and at least half of them equal it."""
    distances = np.diff(np.unique(ordinals))
    if len(distances) < 2:
        raise ValueError(f"a frequency needs at least 3 different time labels, got {len(distances) + 1}; pass `freq`.")
    step = int(distances.min())
    if (distances % step).any() or 2 * (distances == step).sum() < len(distances):
        some = ", ".join(show(label) for label in labels[:4])
        raise ValueError(f"no frequency fits the time labels {some}, ...; make them regular or pass `freq`.")
    return step


def _days_and_clock(labels: pd.DatetimeIndex) -> tuple[np.ndarray, np.ndarray]:
    """Local dates, datetime64[D], and times of day in the labels' unit, int64."""
    days, clock = divmod(labels.tz_localize(None).asi8, pd.Timedelta(1, unit="D") // pd.Timedelta(1, unit=labels.unit))
    return days.astype("M8[D]"), clock


def _count(counts: str, days: np.ndarray) -> np.ndarray:
    """Days, business days or months since 1970, int64, of datetime64[D]."""
    if counts == "day":
        return days.astype(np.int64)
    if counts == "business day":
        return np.busday_count(_EPOCH, days)
    return days.astype("M8[M]").astype(np.int64)


def _unit(dtype: Any) -> str:
    return dtype.unit if isinstance(dtype, pd.DatetimeTZDtype) else np.datetime_data(dtype)[0]
