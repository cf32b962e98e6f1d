"""The one calendar that all series keep to, and rows in any order sorted on it."""

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.calendar import Calendar
from titans_ts.tables.frequency import OrderedRows, order_rows
from titans_ts.tables.layouts import read_rows
from titans_ts.tables.read import read_table

from .sample_tables import dates, table

pytestmark = pytest.mark.filterwarnings("error")


def ordered(rows: pd.DataFrame | pd.Series, freq: object = None, calendar: Calendar | None = None) -> OrderedRows:
    return order_rows(read_rows(rows, "unique_id", "ds", "y", 1), freq, calendar)


# One calendar


def test_a_shorter_series_tells_business_days_from_days():
    rows = ordered(table(a=dates("2024-01-01", 5, "D"), b=["2024-01-04", "2024-01-05", "2024-01-08"]))
    assert rows.calendar.freq == "B"
    assert (rows.time_index - rows.time_index[0]).tolist() == [0, 1, 2, 3, 4, 3, 4, 5]


def test_series_of_other_frequencies_are_named():
    days, weeks = dates("2024-01-01", 20, "D"), dates("2024-01-01", 4, "W")
    words = r"one frequency, but series 'a' has 'D' and 2 not \('b', 'd'\): series 'b' has 'W-SUN'\. Fit them apart, or"
    with pytest.raises(ValueError, match=words):
        ordered(table(a=days, b=weeks, c=days[3:9], d=weeks))
    with pytest.raises(ValueError, match=r"series 'a' has 'h' and 1 not \('b'\): series 'b' has '30min'"):
        ordered(table(a=dates("2024-01-01", 20, "h"), b=dates("2024-01-01", 9, "30min")))


def test_an_irregular_series_is_named_even_where_gaps_are_filled():
    odd = ["2024-01-01", "2024-01-03", "2024-01-08", "2024-01-20"]
    with pytest.raises(ValueError, match=r"series 'a' has 'D' and 1 not .'b'.: series 'b' has no regular one"):
        read_table(table(a=dates("2024-01-01", 20, "D"), b=odd), missing="ffill")
    assert read_table(table(a=dates("2024-01-01", 20, "D"), b=odd), freq="D", missing="ffill").data.lengths[1] == 20


def test_a_longer_series_without_a_frequency_does_not_hide_that_of_the_others():
    odd = ["2024-01-01", "2024-01-03", "2024-01-08", "2024-01-20", "2024-02-01"]
    with pytest.raises(ValueError, match=r"series 'b' has 'D' and 1 not .'a'.: series 'a' has no regular one"):
        ordered(table(a=odd, b=dates("2024-01-01", 4, "D")))
    words = "series 'a': no frequency fits the time labels 2024-01-01, 2024-01-03, 2024-01-08, 2024-01-20, ...; make"
    with pytest.raises(ValueError, match=words):
        ordered(table(a=odd, b=odd))
    with pytest.raises(ValueError, match=r"^no frequency fits the time labels"):
        ordered(pd.Series(range(5), index=pd.to_datetime(odd)))


def test_a_series_off_the_others_grid_is_named_with_its_first_label():
    months = table(a=dates("2024-01-01", 5, "MS"), b=["2024-02-15", "2024-03-17", "2024-04-15"])
    with pytest.raises(ValueError, match=r"series 'a' has 'MS' and 1 not .'b'.: series 'b' has no regular one\. Fit"):
        ordered(months)
    words = "time label 2024-02-15 of series 'b' is not on the grid of 'MS'; move it or pass the right `freq`"
    with pytest.raises(ValueError, match=words):
        ordered(months, freq="MS")
    halves = table(a=dates("2024-01-01", 9, "h"), b=[*dates("2024-01-01", 5, "h"), pd.Timestamp("2024-01-01 05:30")])
    with pytest.raises(ValueError, match=r"series 'a' has 'h' and 1 not .'b'.: series 'b' has no regular one\. Fit"):
        ordered(halves)


@pytest.mark.parametrize(
    ("freq", "start", "own"),
    [("W", "2024-01-01", "W-MON"), ("ME", "2024-01-01", "MS"), ("QS-FEB", "2024-01-01", "QS-JAN")],
)
def test_a_freq_of_another_anchor_is_refused_with_the_one_the_rows_have(freq, start, own):
    rows = table(a=dates(start, 6, own))
    words = f"{start} of series 'a' is not on the grid of .*its series looks like freq '{own}': pass that, or move"
    with pytest.raises(ValueError, match=words):
        ordered(rows, freq=freq)


def test_three_rows_are_needed_to_infer_and_two_with_a_freq():
    two = table(a=dates("2024-01-01", 2, "D"))
    with pytest.raises(ValueError, match="series 'a' has 2 rows; at least 3 are needed"):
        read_table(two)
    with pytest.raises(ValueError, match="series 'a': a frequency needs at least 3 different time labels, got 2; pass"):
        ordered(two)
    assert ordered(two, freq="D").calendar.freq == "D"
    assert read_table(two, freq="D", min_rows=1).data.lengths.tolist() == [2]


def test_a_calendar_that_is_given_is_kept_to():
    days = ordered(table(a=dates("2024-01-01", 5, "D"))).calendar
    later = table(a=dates("2024-02-01", 1, "D"))
    assert ordered(later, calendar=days).calendar is days
    assert ordered(later, calendar=days).time_index.tolist() == [19723 + 31]  # days since 1970
    with pytest.raises(ValueError, match="time label 2024-01-01 01:00:00 of series 'a' is not on the grid of 'D'"):
        ordered(table(a=dates("2024-01-01", 3, "h")), calendar=days)


# Order


def test_rows_are_sorted_by_series_and_then_by_time_with_their_values():
    rows = table(b=dates("2024-01-01", 3, "D"), a=dates("2024-01-05", 3, "D"))
    found = ordered(rows.iloc[[4, 0, 2, 5, 1, 3]])
    assert found.codes.tolist() == [0, 0, 0, 1, 1, 1]
    assert (found.time_index - 19723).tolist() == [4, 5, 6, 0, 1, 2]
    assert found.values.tolist() == [[0, 1, 2, 0, 1, 2]]


def test_all_columns_of_a_wide_table_are_sorted_alike():
    wide = pd.DataFrame({"a": [1.0, 2, 3], "b": [4.0, 5, 6]}, index=pd.date_range("2024-01-01", periods=3))
    found = ordered(wide[::-1])
    assert found.values.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.array_equal(found.time_index, ordered(wide).time_index)


@pytest.mark.parametrize("apart", [1, 2**58])
def test_times_however_far_apart_are_sorted(apart):
    rows = pd.DataFrame({"unique_id": ["a", "b"] * 3, "ds": np.repeat([1, 2, 3], 2) * apart, "y": np.arange(6.0)})
    found = ordered(rows[::-1])
    assert found.codes.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.values.tolist() == [[0, 2, 4, 1, 3, 5]]
    assert read_table(rows[::-1]).data.values.tolist() == [0, 2, 4, 1, 3, 5]
