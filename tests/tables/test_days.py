"""Days with ordinals: one after the other, and back."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titans_ts.tables.days import DayRule, day_of_month, days_and_clock, month_edges, weekday

MONTHLY = ["month start", "month end", "month day", "week of month", "business month start", "business month end"]
RULES = [DayRule("day"), DayRule("business day"), DayRule("business day", weekmask="1111001", holidays=("1970-01-01",))]
RULES += [DayRule(counts, 31 if counts == "month day" else 4) for counts in MONTHLY]
RULES += [DayRule("week of month", 7 * 4 + 6), DayRule("half month start", 15), DayRule("half month end", 15)]
RULES += [DayRule("business month end", weekmask="0000011"), DayRule("month day", 29)]


def days(*labels: str) -> np.ndarray:
    return np.array(labels, dtype="M8[D]")


@pytest.mark.parametrize("rule", RULES, ids=str)
@given(first=st.integers(-3000, 3000))
def test_ordinals_are_the_inverse_of_days_which_rise_with_them(rule, first):
    ordinals = first + np.arange(50)
    found = rule.days(ordinals)
    assert rule.ordinals(found).tolist() == ordinals.tolist()
    assert (np.diff(found) > np.timedelta64(0, "D")).all()
    assert rule.keeps(found)
    assert not rule.keeps(np.arange(found[0], found[0] + 40)) or rule.counts == "day"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (DayRule("month day", 30), ["2024-01-30", "2024-02-29", "2024-03-30"]),
        (DayRule("month start"), ["2024-01-01", "2024-02-01", "2024-03-01"]),
        (DayRule("month end"), ["2024-01-31", "2024-02-29", "2024-03-31"]),
        (DayRule("business month end"), ["2024-01-31", "2024-02-29", "2024-03-29"]),
        (DayRule("business month end", holidays=("2024-03-29",)), ["2024-01-31", "2024-02-29", "2024-03-28"]),
        (DayRule("business month start"), ["2024-01-01", "2024-02-01", "2024-03-01"]),
        (DayRule("week of month", 7 * 2 + 4), ["2024-01-19", "2024-02-16", "2024-03-15"]),
        (DayRule("week of month", 7 * 4 + 4), ["2024-01-26", "2024-02-23", "2024-03-29"]),
    ],
    ids=str,
)
def test_months_count_from_1970(rule, expected):
    assert rule.days(np.array([648, 649, 650])).astype(str).tolist() == expected


def test_half_months_count_two_a_month():
    assert DayRule("half month start", 15).ordinals(days("1970-01-01", "1970-01-15", "1970-02-01")).tolist() == [
        0,
        1,
        2,
    ]
    assert DayRule("half month end", 15).ordinals(days("1970-01-15", "1970-01-31", "1970-02-15")).tolist() == [0, 1, 2]


def test_business_days_count_from_1970_without_holidays():
    assert DayRule("business day").ordinals(days("1969-12-31", "1970-01-01", "1970-01-05")).tolist() == [-1, 0, 2]
    friday = DayRule("business day", holidays=("1970-01-02",))
    assert friday.days(np.array([-1, 0, 1])).astype(str).tolist() == ["1969-12-31", "1970-01-01", "1970-01-05"]
    assert not friday.keeps(days("1970-01-02"))


def test_parts_of_a_day():
    leap = days("2024-02-29", "2024-03-01")
    assert weekday(leap).tolist() == [3, 4]
    assert day_of_month(leap).tolist() == [29, 1]
    assert [edge.astype(str).tolist() for edge in month_edges(np.array([649]))] == [["2024-02-01"], ["2024-02-29"]]
    local, clock = days_and_clock(pd.DatetimeIndex(["2024-03-31 09:30"], tz="Asia/Kolkata").as_unit("s"))
    assert (local.astype(str).tolist(), clock.tolist()) == (["2024-03-31"], [34_200])
