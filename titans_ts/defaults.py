"""Defaults of season, lookback and horizon, from the data's frequency and length."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pandas as pd

from .tables.calendar import Calendar

DAY = 86_400  # seconds
MOST_STEPS = 720  # the longest lookback that a frequency gives


class Defaults(NamedTuple):
    """Steps: the season's period (0 for none), what is read, what is forecast."""

    cycle: int
    lookback: int
    horizon: int


# For days and longer, by the letters of the frequency's alias; of business months and of days of the month alike.
BY_ALIAS = {
    "D": Defaults(7, 56, 14),
    "B": Defaults(5, 40, 10),
    "W": Defaults(52, 104, 13),
    "SM": Defaults(24, 72, 24),
    "M": Defaults(12, 36, 12),
    "Q": Defaults(4, 16, 4),
    "HY": Defaults(2, 10, 4),
    "Y": Defaults(0, 10, 3),
}
INTEGER = Defaults(0, 96, 24)


def defaults_for(calendar: Calendar) -> Defaults:
    """The defaults of a frequency.

    Steps counted in hours or less have the longest season of a day, an hour or a minute that is no longer than two
    lookbacks; the lookback is up to two weeks of it. A multiple of a longer step ('2W') divides its season or has none.
    """
    if isinstance(calendar.freq, int):
        return INTEGER
    step = _seconds(calendar)
    if step is not None and step % DAY == 0:
        return _multiple(BY_ALIAS["D"], int(step // DAY))
    if step is not None:
        seasons = [season / step for season in (DAY, 3_600, 60)]
        cycle = int(next((s for s in seasons if s == int(s) and 1 < s <= 2 * MOST_STEPS), 0))
        lookback = min(14 * cycle, MOST_STEPS // cycle * cycle) or MOST_STEPS if cycle else INTEGER.lookback
        return Defaults(cycle, lookback, min(cycle, 144) or INTEGER.horizon)
    multiple, alias = re.findall(r"^(\d*)(?:C?B(?=[MQHY])|L?WO)?(SM|HY|[A-Z])", calendar.freq)[0]
    if alias == "C":
        week = calendar.weekmask.count("1")
        return _multiple(Defaults(week, 8 * week, 2 * week), int(multiple or 1))
    return _multiple(BY_ALIAS[alias], int(multiple or 1))


def periods_of(calendar: Calendar, cycle: int) -> tuple[int, ...]:
    """The seasons of statistical forecasts: that of `cycle` steps and, where it is a day, the week."""
    if cycle < 2:
        return ()
    step = None if isinstance(calendar.freq, int) else _seconds(calendar)
    return (cycle, 7 * cycle) if step is not None and step * cycle == DAY else (cycle,)


def shorten(defaults: Defaults, lengths: np.ndarray) -> Defaults:
    """The defaults cut to a third of a typical series, the median one; shorter ones are padded.

    A lookback that is cut reads whole weeks of days, or whole seasons, where one fits.
    """
    third = max(1, int(np.median(lengths)) // 3)
    lookback = min(defaults.lookback, third)
    if lookback < defaults.lookback and defaults.cycle:
        whole = next((n for n in (7 * defaults.cycle, defaults.cycle) if n <= lookback), 1)
        lookback -= lookback % whole
    return defaults._replace(lookback=lookback, horizon=min(defaults.horizon, third))


def _multiple(defaults: Defaults, n: int) -> Defaults:
    """The defaults where `n` steps are one."""
    return defaults._replace(cycle=0 if defaults.cycle % n or defaults.cycle == n else defaults.cycle // n)


def _seconds(calendar: Calendar) -> float | None:
    """Seconds of a step counted in hours or less, else None."""
    offset = calendar.offset
    if not isinstance(offset, pd.offsets.Tick) or isinstance(offset, pd.offsets.Day):
        return None
    seconds: float = pd.Timedelta(offset).total_seconds()
    return seconds
