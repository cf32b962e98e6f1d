"""The frequency that time labels show: the coarsest grid on which they are neighbours, most of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from .days import WEEKDAYS, WEEKMASK, DayRule, day_of_month, days_and_clock, weekday
from .offsets import month_alias, week_of_month_alias, weekday_alias


def show(label: object) -> str:
    """A label in the words of an error: the time of day only where it is not midnight."""
    return str(label).removesuffix(" 00:00:00")


def infer_freq(labels: pd.DatetimeIndex) -> str:
    """The alias of the grid of dates in any order; ValueError where there is none, or fewer than 3 labels."""
    labels = labels.sort_values()
    days, clock = days_and_clock(labels)
    if (clock != clock[0]).any():
        step = regular_step(labels, labels.asi8)
        try:
            alias: str = to_offset(pd.Timedelta(step, unit=labels.unit)).freqstr
        except pd.errors.OutOfBoundsTimedelta:
            some = f"{show(labels[0])} and {show(labels[1])}"
            raise ValueError(f"time labels {some} lie too far apart for any frequency; look for one amiss.") from None
        return alias
    return _months(labels, days) or _weeks(labels, days) or _weekdays(days) or _days(labels, days)


def regular_step(labels: pd.Index, ordinals: np.ndarray) -> int:
    """The smallest distance, if it divides all others and at least half of them equal it."""
    distances = np.diff(np.unique(ordinals))
    if len(distances) < 2:
        raise ValueError(f"a frequency needs at least 3 different time labels, got {len(distances) + 1}; pass `freq`.")
    step = int(distances.min())
    if (distances % step).any() or 2 * (distances == step).sum() < len(distances):
        some = ", ".join(show(label) for label in labels[:4])
        raise ValueError(f"no frequency fits the time labels {some}, ...; make them regular or pass `freq`.")
    return step


def _months(labels: pd.DatetimeIndex, days: np.ndarray) -> str | None:
    """Starts, ends or one day of months, of quarters or of years.

    A day of the month goes before weeks and days: 15 July, 15 August and 15 September are 31 days apart.
    """
    day = int(day_of_month(days).max())
    rules = [("S", "", "month start"), ("E", "", "month end"), ("D", "", "month day")]
    rules += [("S", "B", "business month start"), ("E", "B", "business month end")]
    for edge, business, counts in rules:
        rule = DayRule(counts, day)
        if rule.keeps(days):
            months = rule.ordinals(days)
            return month_alias(regular_step(labels, months), int(months[0]) % 12, edge, day, business)
    return None


def _weeks(labels: pd.DatetimeIndex, days: np.ndarray) -> str | None:
    """One weekday, of every week or of one week of the month."""
    on = weekday(days)
    if (on != on[0]).any():
        return None
    try:
        return f"{regular_step(labels, days.astype(np.int64)) // 7}W-{WEEKDAYS[on[0]]}"
    except ValueError:
        if (alias := week_of_month_alias(days)) is not None:
            return f"{regular_step(labels, days.astype('M8[M]').astype(np.int64))}{alias}"
        raise


def _weekdays(days: np.ndarray) -> str | None:
    """Monday to Friday, or other weekdays: those never there are left out twice or more, and no other day is."""
    on, whole = weekday(days), int((days[-1] - days[0]).astype(np.int64)) + 1
    present = np.bincount(on, minlength=7) > 0
    skipped = np.bincount((on[0] + np.arange(whole)) % 7, minlength=7)[~present]
    weekmask = "".join(str(int(is_on)) for is_on in present)
    steps = np.diff(np.unique(DayRule("business day", weekmask=weekmask).ordinals(days)))
    is_pattern = len(skipped) > 0 and skipped.min() >= 2 and skipped.sum() >= 3 and bool((steps == 1).all())
    if is_pattern and weekmask != WEEKMASK:
        return weekday_alias(weekmask)
    business = np.diff(np.unique(DayRule("business day").ordinals(days)))
    spans_weekend = business.sum() < whole - 1
    return "B" if spans_weekend and (on < 5).all() and 2 * (business == 1).sum() >= len(business) else None


def _days(labels: pd.DatetimeIndex, days: np.ndarray) -> str:
    for edge in ("start", "end"):
        rule = DayRule(f"half month {edge}", 15)
        if rule.keeps(days):
            return f"{regular_step(labels, rule.ordinals(days))}SM{edge[0].upper()}-15"
    return f"{regular_step(labels, days.astype(np.int64))}D"
