"""Frequencies given as text and as offsets of pandas: one name each, and back."""

import pandas as pd
import pytest

from titans_ts.tables.offsets import MonthDay, day_step, month_alias, pandas_offset, read_offset, weekday_alias

pytestmark = pytest.mark.filterwarnings("error")

JULY = pd.to_datetime(["2024-07-15", "2024-08-15"])


@pytest.mark.parametrize(
    ("freq", "expected"),
    [
        ("MD-15", MonthDay(1, None, 15)),
        ("2MD", MonthDay(2, None, None)),
        ("QD-FEB-10", MonthDay(3, 1, 10)),
        ("3YD-MAR-31", MonthDay(36, 2, 31)),
        (pd.DateOffset(months=1), MonthDay(1, None, None)),
        (pd.DateOffset(2, years=1, months=1, day=3), MonthDay(26, None, 3)),
        (pd.DateOffset(2), pd.offsets.Hour(48)),
        (pd.DateOffset(2, weeks=3), pd.offsets.Week(6)),
        (pd.DateOffset(hours=1, minutes=30), pd.offsets.Minute(90)),
        ("C-MON,SUN", pd.offsets.CustomBusinessDay(weekmask="1000001")),
        ("BME", pd.offsets.BusinessMonthEnd()),
    ],
)
def test_text_and_offsets_are_read(freq, expected):
    found = read_offset(freq)
    assert getattr(found, "weekmask", found) == getattr(expected, "weekmask", expected)


@pytest.mark.parametrize("freq", ["MD-0", "MD-32", "0MD", "MD-JAN-3"])
def test_a_day_that_no_month_has_is_refused(freq):
    with pytest.raises(ValueError, match=f"`freq` '{freq}' must have a day from 1 to 31, as in 'MD-15'"):
        read_offset(freq)


@pytest.mark.parametrize("freq", ["XX", "M-15-D", pd.DateOffset(months=1, hours=1), pd.DateOffset(day=3), "bh", "-1D"])
def test_what_has_no_grid_is_refused_with_a_way_out(freq):
    with pytest.raises(ValueError, match=r"supported are fixed steps .*; for others count the rows 0, 1"):
        read_offset(freq)


@pytest.mark.parametrize(
    ("freq", "name", "span", "anchor"),
    [
        ("MD", "MD-15", 1, 0),
        ("QD", "QD-JAN-15", 3, 0),
        ("QD-FEB-15", "QD-FEB-15", 3, 1),
        ("YD", "YD-JUL-15", 12, 6),
        ("MD-31", "ME", 1, 0),
        ("QD-FEB-1", "QS-FEB", 3, 1),
        ("W", "W-SUN", 7, 3),
        (pd.offsets.Week(2), "2W-MON", 14, 4),
        ("C", "B", 1, 0),
        ("2C-MON,SUN", "2C-MON,SUN", 2, 0),
        ("CBMS-MON", "CBMS-MON", 1, 0),
        ("BQE-JAN", "BQE-JAN", 3, 0),
    ],
)
def test_the_labels_tell_what_a_freq_leaves_open(freq, name, span, anchor):
    step = day_step(read_offset(freq), JULY)
    assert (step.freq, step.span, step.anchor) == (name, span, anchor)
    again = day_step(read_offset(step.freq), JULY)
    assert again == step
    assert day_step(read_offset(pandas_offset(step.freq, step.rule, step.span)), JULY) == step or "QD-FEB" in name


def test_aliases_of_months_and_weekdays():
    assert month_alias(1, 5, "S") == "MS"
    assert month_alias(6, 5, "E") == "2QE-DEC"
    assert month_alias(24, 5, "D", 7) == "2YD-JUN-7"
    assert month_alias(3, 5, "E", business="B") == "BQE-DEC"
    assert weekday_alias("1001001") == "C-MON,THU,SUN"
