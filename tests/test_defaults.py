"""What is assumed from a frequency, and how a short table shortens it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titans_ts.defaults import Defaults, defaults_for, shorten
from titans_ts.tables.calendar import Calendar


def of_dates(freq: str, zone: str | None = None) -> Defaults:
    offset = {"MD": pd.DateOffset(months=1), "QD": pd.DateOffset(months=3), "YD": pd.DateOffset(years=1)}.get(freq[:2])
    if freq == "LWOM-FRI":  # which pandas 2 does not read
        offset = pd.offsets.LastWeekOfMonth(weekday=4)
    days = {"C-": pd.offsets.CustomBusinessDay, "CB": pd.offsets.CBMonthEnd}.get(freq[:2])
    if days is not None:
        offset = days(weekmask=freq.partition("-")[2].replace(",", " ").title())
    start = "2024-01-01" if freq == "MD-1" else "2024-01-10"
    return defaults_for(Calendar.of(pd.date_range(start, periods=6, freq=offset or freq, tz=zone), freq))


def of_periods(freq: str) -> Defaults:
    return defaults_for(Calendar.of(pd.period_range("2024-01-01", periods=6, freq=freq)))


TABLE = [
    ("h", (24, 336, 24)),
    ("15min", (96, 672, 96)),
    ("10min", (144, 720, 144)),
    ("D", (7, 56, 14)),
    ("B", (5, 40, 10)),
    *((week, (52, 104, 13)) for week in ("W", "W-SUN", "W-WED")),
    *((month, (12, 36, 12)) for month in ("MS", "ME")),
    *((quarter, (4, 16, 4)) for quarter in ("QS", "QE", "QS-FEB", "QE-NOV")),
    *((year, (0, 10, 3)) for year in ("YS", "YE", "YE-JUN")),
    *((month, (12, 36, 12)) for month in ("BMS", "BME", "MD", "MD-1", "WOM-3FRI", "LWOM-FRI", "CBME-MON,TUE")),
    *((quarter, (4, 16, 4)) for quarter in ("BQS", "BQE-FEB", "QD")),
    *((half, (2, 10, 4)) for half in ("HYS", "BHYE") if hasattr(pd.offsets, "HalfYearBegin")),  # from pandas 3 on
    *((year, (0, 10, 3)) for year in ("BYS", "BYE-JUN", "YD")),
    *((half, (24, 72, 24)) for half in ("SMS", "SME")),
    ("C-MON,TUE,WED,THU,SUN", (5, 40, 10)),
    ("C-MON,TUE,WED,THU,FRI,SAT", (6, 48, 12)),
    ("C", (5, 40, 10)),
]


@pytest.mark.parametrize(("freq", "expected"), TABLE)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_each_frequency_has_its_season(freq: str, expected: tuple[int, int, int], zone: str | None) -> None:
    assert of_dates(freq, zone) == expected


@pytest.mark.parametrize(
    ("freq", "expected"),
    [
        ("M", (12, 36, 12)),
        ("Q", (4, 16, 4)),
        ("Q-MAR", (4, 16, 4)),
        ("Y", (0, 10, 3)),
        ("Y-JUN", (0, 10, 3)),
        ("W", (52, 104, 13)),
        ("W-WED", (52, 104, 13)),
        ("D", (7, 56, 14)),
        ("h", (24, 336, 24)),
        ("15min", (96, 672, 96)),
    ],
)
def test_periods_have_the_season_of_their_frequency(freq: str, expected: tuple[int, int, int]) -> None:
    assert of_periods(freq) == expected


@pytest.mark.parametrize(("freq", "expected"), [("24h", (7, 56, 14)), ("168h", (0, 56, 14))])
def test_days_counted_in_hours_are_days(freq: str, expected: tuple[int, int, int]) -> None:
    assert of_dates(freq, "Europe/Berlin") == expected


@pytest.mark.parametrize("labels", [pd.RangeIndex(6), pd.Index([3, 5, 7, 9]), pd.RangeIndex(0, 60, 24)])
def test_integers_have_no_season(labels: pd.Index) -> None:
    assert defaults_for(Calendar.of(labels)) == (0, 96, 24)


@pytest.mark.parametrize(
    ("freq", "expected"),
    [
        ("2h", (12, 168, 12)),
        ("8h", (3, 42, 3)),
        ("30min", (48, 672, 48)),
        ("5min", (288, 576, 144)),  # two whole days are what 720 steps hold
        ("min", (1440, 720, 144)),  # a day is two lookbacks, and not one fits
        ("30s", (120, 720, 120)),  # a day is too long, so the hour
        ("s", (60, 720, 60)),
        ("100ms", (600, 600, 144)),
        ("7min", (0, 96, 24)),  # divides neither a day, nor an hour, nor a minute
        ("5h", (0, 96, 24)),
        ("36h", (0, 96, 24)),
        ("ms", (0, 96, 24)),  # even a minute is too long
    ],
)
def test_shorter_steps_take_the_longest_season_that_two_lookbacks_hold(
    freq: str, expected: tuple[int, int, int]
) -> None:
    assert of_dates(freq) == expected
    assert of_periods(freq) == expected


@pytest.mark.parametrize(
    ("freq", "cycle"),
    [
        *[("24h", 7), ("2D", 0), ("7D", 0), ("5B", 0), ("2W", 26), ("52W", 0)],
        *[("2BMS", 6), ("3BME", 4), ("2SMS", 12), ("5C", 0)],
        *[("2MS", 6), ("3ME", 4), ("5MS", 0), ("12MS", 0), ("2QS", 2), ("4QE", 0), ("2YS", 0)],
    ],
)
def test_a_multiple_divides_the_season_or_has_none(freq: str, cycle: int) -> None:
    assert of_dates(freq).cycle == cycle


def test_a_multiple_reads_and_forecasts_as_many_steps() -> None:
    assert of_dates("2W")[1:] == of_dates("W")[1:]
    assert of_periods("3M") == (4, 36, 12)


# shorten


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([10_000], (336, 24)),
        ([1008], (336, 24)),
        ([1007], (168, 24)),  # a whole week
        ([500], (144, 24)),  # whole days
        ([60], (20, 20)),
        ([2], (1, 1)),
        ([300, 60, 63, 9], (20, 20)),  # the median; shorter ones are padded
        ([9, 3_000, 3_000], (336, 24)),
    ],
)
def test_no_longer_than_a_third_of_a_typical_series(lengths: list[int], expected: tuple[int, int]) -> None:
    assert shorten(Defaults(24, 336, 24), np.array(lengths)) == (24, *expected)


@given(
    defaults=st.builds(Defaults, st.integers(0, 99), st.integers(1, 999), st.integers(1, 99)),
    lengths=st.lists(st.integers(1, 10_000), min_size=1, max_size=5),
)
def test_shortening_never_lengthens_and_leaves_a_step(defaults: Defaults, lengths: list[int]) -> None:
    found = shorten(defaults, np.array(lengths))
    assert found.cycle == defaults.cycle
    assert 1 <= found.lookback <= defaults.lookback
    assert 1 <= found.horizon <= defaults.horizon
    assert max(found.lookback, found.horizon) <= max(1, max(lengths) // 3)
