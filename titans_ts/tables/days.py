"""Which days the steps of a calendar fall on: days, business days or months counted from 1970, and back to days."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
WEEKMASK = "1111100"  # Monday to Friday
LAST_WEEK = 4  # in the number of a week of the month

_EPOCH = np.datetime64("1970-01-01", "D")
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday
_ORIGIN = np.datetime64("0001-01-01", "D")  # business days are counted from here, none of them negative


@dataclass(frozen=True)
class DayRule:
    """Days with an ordinal each.

    Parameters
    ----------
    counts : str
        What ordinals count: 'day', 'business day', half months ('half month start', 'half month end') or months
        ('month start', 'month end', 'month day', 'week of month', 'business month start', 'business month end').
    day : int
        Of 'month day' the day, clipped to the month's end; of half months the day that is no edge of the month; of
        'week of month' 7 times the week, from 0 and 4 for the last, and the weekday from Monday = 0.
    weekmask : str
        Which weekdays are business days, from Monday on, such as '1111100'.
    holidays : tuple of str
        Days that are none, such as '2024-12-25'.
    """

    counts: str
    day: int = 0
    weekmask: str = WEEKMASK
    holidays: tuple[str, ...] = ()

    def ordinals(self, days: np.ndarray) -> np.ndarray:
        """Days, business days, half months or months since 1970, int64, of datetime64[D]."""
        if self.counts == "day":
            return days.astype(np.int64)
        if self.counts == "business day":
            return np.busday_count(_ORIGIN, days, busdaycal=self._business) - self._before_epoch
        months = days.astype("M8[M]").astype(np.int64)
        if not self.counts.startswith("half"):
            return months
        day = day_of_month(days)
        return 2 * months + (day >= self.day if self.counts == "half month start" else day > self.day)

    def days(self, ordinals: np.ndarray) -> np.ndarray:
        """The day of each ordinal, datetime64[D]: the inverse of `ordinals`."""
        if self.counts == "day":
            return ordinals.astype("M8[D]")
        if self.counts == "business day":
            return np.busday_offset(_ORIGIN, ordinals + self._before_epoch, roll="forward", busdaycal=self._business)
        if self.counts.startswith("half"):
            months, second = np.divmod(ordinals, 2)
            start, end = month_edges(months)
            middle = start + (self.day - 1)
            return (
                np.where(second, middle, start) if self.counts == "half month start" else np.where(second, end, middle)
            )
        start, end = month_edges(ordinals)
        if self.counts == "month start":
            return start
        if self.counts == "month end":
            return end
        if self.counts == "month day":
            day: np.ndarray = np.minimum(start + (self.day - 1), end)
            return day
        if self.counts == "business month start":
            return np.busday_offset(start, 0, roll="forward", busdaycal=self._business)
        if self.counts == "business month end":
            return np.busday_offset(end, 0, roll="backward", busdaycal=self._business)
        week, wanted = divmod(self.day, 7)
        days: np.ndarray = start + (wanted - weekday(start)) % 7 + 7 * week
        return end - (weekday(end) - wanted) % 7 if week == LAST_WEEK else days

    def keeps(self, days: np.ndarray) -> bool:
        """Whether all days are of the rule."""
        return bool((self.days(self.ordinals(days)) == days).all())

    @property
    def _business(self) -> np.busdaycalendar:
        return _business_days(self.weekmask, self.holidays)

    @property
    def _before_epoch(self) -> int:
        return int(np.busday_count(_ORIGIN, _EPOCH, busdaycal=self._business))


def days_and_clock(labels: pd.DatetimeIndex) -> tuple[np.ndarray, np.ndarray]:
    """Local dates, datetime64[D], and times of day in the labels' unit, int64."""
    days, clock = divmod(labels.tz_localize(None).asi8, pd.Timedelta(1, unit="D") // pd.Timedelta(1, unit=labels.unit))
    return days.astype("M8[D]"), clock


def weekday(days: np.ndarray) -> np.ndarray:
    """Monday = 0."""
    return (days.astype(np.int64) + _EPOCH_WEEKDAY) % 7


def day_of_month(days: np.ndarray) -> np.ndarray:
    """From 1 on."""
    number: np.ndarray = (days - days.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1
    return number


def month_edges(months: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last day of months since 1970."""
    return months.astype("M8[M]").astype("M8[D]"), (months + 1).astype("M8[M]").astype("M8[D]") - 1


@lru_cache(maxsize=64)
def _business_days(weekmask: str, holidays: tuple[str, ...]) -> np.busdaycalendar:
    return np.busdaycalendar(weekmask, np.array(holidays, dtype="M8[D]"))
