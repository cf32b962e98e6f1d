"""Rows on the grid of their calendar: one frequency for all series, gaps named or filled, every value looked at."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.frames import read_table

pytestmark = pytest.mark.filterwarnings("error")


def table(**series: object) -> pd.DataFrame:
    """A long table: series by name, each a list of dates; values count from 0 in each."""
    parts = [
        pd.DataFrame({"unique_id": name, "ds": pd.to_datetime(pd.Index(times)), "y": np.arange(float(len(times)))})
        for name, times in series.items()
    ]
    return pd.concat(parts, ignore_index=True)


def dates(start: str, periods: int, freq: str) -> list[pd.Timestamp]:
    return list(pd.date_range(start, periods=periods, freq=freq))


# One frequency


def test_a_shorter_series_tells_business_days_from_days():
    panel = read_table(table(a=dates("2024-01-01", 5, "D"), b=["2024-01-04", "2024-01-05", "2024-01-08"]))
    assert panel.calendar.freq == "B"
    assert panel.ends.tolist() == [panel.ends[0], panel.ends[0] + 1]


def test_series_of_other_frequencies_are_named():
    days, weeks = dates("2024-01-01", 20, "D"), dates("2024-01-01", 4, "W")
    words = r"one frequency, but series 'a' has 'D' and 2 not \('b', 'd'\): series 'b' has 'W-SUN'\. Pass the `freq`"
    with pytest.raises(ValueError, match=words):
        read_table(table(a=days, b=weeks, c=days[3:9], d=weeks))
    with pytest.raises(ValueError, match=r"series 'a' has 'h' and 1 not \('b'\): series 'b' has '30min'"):
        read_table(table(a=dates("2024-01-01", 20, "h"), b=dates("2024-01-01", 9, "30min")))


def test_an_irregular_series_is_named_even_where_gaps_are_filled():
    odd = ["2024-01-01", "2024-01-03", "2024-01-08", "2024-01-20"]
    with pytest.raises(ValueError, match=r"series 'a' has 'D' and 1 not .'b'.: series 'b' has no regular one"):
        read_table(table(a=dates("2024-01-01", 20, "D"), b=odd), missing="ffill")
    assert read_table(table(a=dates("2024-01-01", 20, "D"), b=odd), freq="D", missing="ffill").lengths[1] == 20


def test_a_longer_series_without_a_frequency_does_not_hide_that_of_the_others():
    odd = ["2024-01-01", "2024-01-03", "2024-01-08", "2024-01-20", "2024-02-01"]
    with pytest.raises(ValueError, match=r"series 'b' has 'D' and 1 not .'a'.: series 'a' has no regular one"):
        read_table(table(a=odd, b=dates("2024-01-01", 4, "D")))
    words = "series 'a': no frequency fits the time labels 2024-01-01, 2024-01-03, 2024-01-08, 2024-01-20, ...; make"
    with pytest.raises(ValueError, match=words):
        read_table(table(a=odd, b=odd))
    with pytest.raises(ValueError, match=r"^no frequency fits the time labels"):
        read_table(pd.Series(range(5), index=pd.to_datetime(odd)))


def test_a_series_off_the_others_grid_is_named_with_its_first_label():
    months = table(a=dates("2024-01-01", 5, "MS"), b=["2024-02-15", "2024-03-15", "2024-04-15"])
    with pytest.raises(ValueError, match=r"series 'a' has 'MS' and 1 not .'b'.: series 'b' has no regular one"):
        read_table(months)
    words = "time label 2024-02-15 of series 'b' is not on the grid of 'MS'; move it or pass the right `freq`"
    with pytest.raises(ValueError, match=words):
        read_table(months, freq="MS")
    halves = table(a=dates("2024-01-01", 9, "h"), b=dates("2024-01-01 00:30", 5, "h"))
    with pytest.raises(ValueError, match="time label 2024-01-01 00:30:00 of series 'b' is not on the grid of 'h'"):
        read_table(halves)


@pytest.mark.parametrize(
    ("freq", "start", "own"),
    [("W", "2024-01-01", "W-MON"), ("ME", "2024-01-01", "MS"), ("QS-FEB", "2024-01-01", "QS-JAN")],
)
def test_a_freq_of_another_anchor_is_refused_with_the_one_the_rows_have(freq, start, own):
    rows = table(a=dates(start, 6, own))
    words = f"{start} of series 'a' is not on the grid of .*its series looks like freq '{own}': pass that, or move"
    with pytest.raises(ValueError, match=words):
        read_table(rows, freq=freq)


def test_three_rows_are_needed_to_infer_and_two_with_a_freq():
    two = table(a=dates("2024-01-01", 2, "D"))
    with pytest.raises(ValueError, match="series 'a' has 2 rows; at least 3 are needed"):
        read_table(two)
    assert read_table(two, freq="D", min_rows=1).lengths.tolist() == [2]


# Gaps and missing values


@pytest.mark.parametrize(
    ("how", "expected"), [("interpolate", [0, 1, 2, 3, 4, 7, 8]), ("ffill", [0, 1, 1, 1, 4, 7, 8])]
)
def test_gaps_and_missing_values_are_filled_and_marked(how, expected):
    rows = table(a=dates("2024-01-01", 7, "D"))
    rows["y"] = [0, 1, np.nan, 3, 4, 7, 8]
    panel = read_table(rows.drop(index=3), missing=how)
    assert panel.values.tolist() == expected
    assert panel.observed.tolist() == [True, True, False, False, True, True, True]


@pytest.mark.parametrize("how", ["interpolate", "ffill"])
def test_the_end_is_carried_forward_and_the_beginning_waits_for_the_first_value(how):
    wide = pd.DataFrame({"a": [np.nan, np.nan, 1, 2, 5], "b": [3, 1, 4, np.nan, np.nan]})
    panel = read_table(wide, missing=how)
    assert panel.values.tolist() == [1, 2, 5, 3, 1, 4, 4, 4]
    assert panel.observed.tolist() == [True] * 6 + [False] * 2
    assert (panel.starts.tolist(), panel.ends.tolist()) == ([2, 0], [5, 5])
    assert panel.write(np.zeros((2, 1))).index.tolist() == [5]


def test_nothing_is_marked_where_nothing_is_missing():
    rows = table(a=dates("2024-01-01", 7, "D"), b=dates("2024-02-01", 4, "D"))
    for how in ("error", "interpolate", "ffill"):
        assert read_table(rows, missing=how).observed is None
    late = pd.DataFrame({"a": [np.nan, 1.0, 2.0, 3.0]})
    assert read_table(late, missing="ffill").observed is None


@settings(max_examples=60, deadline=None)
@given(
    series=st.lists(
        st.lists(st.one_of(st.none(), st.floats(-1e3, 1e3)), min_size=4, max_size=12), min_size=1, max_size=4
    ),
    drop=st.randoms(use_true_random=False),
)
def test_filling_agrees_with_pandas(series, drop):
    parts, expected = [], []
    for i, values in enumerate(series):
        y = pd.Series([1.0, 2.0, 3.0, *values], index=pd.date_range("2024-01-01", periods=len(values) + 3), dtype=float)
        expected.append(y.interpolate())
        rows = pd.DataFrame({"unique_id": i, "ds": y.index, "y": y.to_numpy()})
        absent = [j for j in range(3, len(y) - 1) if np.isnan(y.iloc[j]) and drop.random() < 0.5]
        parts.append(rows.drop(index=absent))
    panel = read_table(pd.concat(parts), freq="D", missing="interpolate")
    for i, y in enumerate(expected):
        np.testing.assert_allclose(panel.series(i), y, rtol=0, atol=1e-9)  # values up to 1e3
    flags = np.concatenate([[True] * 3 + [value is not None for value in values] for values in series])
    assert np.array_equal(flags, np.ones(len(flags)) if panel.observed is None else panel.observed)


def test_the_mask_follows_its_series():
    rows = table(a=dates("2024-01-01", 7, "D"), b=dates("2024-01-01", 5, "D")).drop(index=[2, 9])
    panel = read_table(rows, missing="ffill")
    assert panel.tail(4).observed.tolist() == [True, True, True, True, True, False, True, True]
    a, b = [True, True, False, True, True, True, True], [True, True, False, True, True]
    assert panel.take(np.array([1, 0])).observed.tolist() == [*b, *a]
    assert panel.take(np.array([], dtype=int)).values.tolist() == []


def test_a_series_without_enough_values_is_named():
    wide = pd.DataFrame({"a": [1, 2, 3, 4.0], "b": [1, np.nan, np.nan, 4]})
    with pytest.raises(ValueError, match="column 'b' has 2 known values; at least 3 are needed"):
        read_table(wide, missing="interpolate")
    with pytest.raises(ValueError, match="column 'b' has 1 known value; at least 3 are needed"):
        read_table(wide.assign(b=[np.nan, np.nan, np.nan, 1]), missing="ffill")


def test_a_gap_too_wide_to_be_meant_is_refused():
    rows = table(a=["2024-01-01", "2024-01-02", "2024-01-03"], b=["1990-01-01", "1990-01-02", "2024-01-03"])
    with pytest.raises(ValueError, match="series 'b' has 3 rows where freq 'D' asks for 12421, too many to fill"):
        read_table(rows, missing="ffill")


@pytest.mark.parametrize("how", ["interpolate", "ffill"])
def test_doubled_rows_and_infinite_values_are_never_filled(how):
    rows = table(a=dates("2024-01-01", 7, "D"))
    with pytest.raises(ValueError, match="series 'a' has more than one row at 2024-01-03; keep one"):
        read_table(pd.concat([rows, rows[2:3]]), missing=how)
    with pytest.raises(ValueError, match="'y' of series 'a' has 1 infinite value, the first at 2024-01-04; replace it"):
        read_table(rows.assign(y=[0, 1, np.nan, np.inf, 4, 5, 6]), missing=how)


def test_huge_values_are_refused_and_large_ones_are_not():
    with pytest.raises(ValueError, match=r"the Series has 2 huge values, the first at 1; rescale it to below 1e\+300"):
        read_table(pd.Series([1.0, 1.1e300, -1.2e308]))
    assert read_table(pd.Series([1.0, 1e300, -1e200])).values.tolist() == [1, 1e300, -1e200]


def test_an_unknown_way_to_fill_is_refused():
    with pytest.raises(ValueError, match=r"`missing` must be one of .*'interpolate', 'ffill'.*, got 'mean'"):
        read_table(pd.Series([1.0, 2.0, 3.0]), missing="mean")


# Order


@pytest.mark.parametrize("apart", [1, 2**58])
def test_steps_however_far_apart_are_sorted(apart):
    rows = pd.DataFrame({"unique_id": ["a", "b"] * 3, "ds": np.repeat([1, 2, 3], 2) * apart, "y": np.arange(6.0)})
    panel = read_table(rows[::-1])
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.values.tolist() == [0, 2, 4, 1, 3, 5]
