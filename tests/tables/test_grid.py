"""Rows on the grid of their calendar: gaps named or filled, every value looked at."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.tables.read import read_table

from .sample_tables import dates, long_table, table, wide_table

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("how", "expected"), [("interpolate", [0, 1, 2, 3, 4, 7, 8]), ("ffill", [0, 1, 1, 1, 4, 7, 8])]
)
def test_gaps_and_missing_values_are_filled_and_marked(how, expected):
    rows = table(a=dates("2024-01-01", 7, "D"))
    rows["y"] = [0, 1, np.nan, 3, 4, 7, 8]
    panel = read_table(rows.drop(index=3), missing=how)
    assert panel.data.values.tolist() == expected
    assert panel.data.observed.tolist() == [True, True, False, False, True, True, True]


@pytest.mark.parametrize("how", ["interpolate", "ffill"])
def test_the_end_is_carried_forward_and_the_beginning_waits_for_the_first_value(how):
    wide = pd.DataFrame({"a": [np.nan, np.nan, 1, 2, 5], "b": [3, 1, 4, np.nan, np.nan]})
    panel = read_table(wide, missing=how)
    assert panel.data.values.tolist() == [1, 2, 5, 3, 1, 4, 4, 4]
    assert panel.data.observed.tolist() == [True] * 6 + [False] * 2
    assert (panel.data.starts.tolist(), panel.data.ends.tolist()) == ([2, 0], [5, 5])
    assert panel.write(np.zeros((2, 1, 1))).index.tolist() == [5]


def test_nothing_is_marked_where_nothing_is_missing():
    rows = table(a=dates("2024-01-01", 7, "D"), b=dates("2024-02-01", 4, "D"))
    for how in ("error", "interpolate", "ffill"):
        assert read_table(rows, missing=how).data.observed is None
    late = pd.DataFrame({"a": [np.nan, 1.0, 2.0, 3.0]})
    assert read_table(late, missing="ffill").data.observed is None


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
        np.testing.assert_allclose(panel.data.values[panel.data.rows_of(i)], y, rtol=0, atol=1e-9)  # values up to 1e3
    flags = np.concatenate([[True] * 3 + [value is not None for value in values] for values in series])
    assert np.array_equal(flags, np.ones(len(flags)) if panel.data.observed is None else panel.data.observed)


def test_a_series_without_enough_values_is_named():
    wide = pd.DataFrame({"a": [1, 2, 3, 4.0], "b": [1, np.nan, np.nan, 4]})
    with pytest.raises(ValueError, match="column 'b' has 2 observed values; at least 3 are needed"):
        read_table(wide, missing="interpolate")
    with pytest.raises(ValueError, match="column 'b' has 1 observed value; at least 3 are needed"):
        read_table(wide.assign(b=[np.nan, np.nan, np.nan, 1]), missing="ffill")


def test_a_gap_too_wide_to_be_meant_is_refused():
    rows = table(a=["2024-01-01", "2024-01-02", "2024-01-03"], b=["1990-01-01", "1990-01-02", "2024-01-03"])
    with pytest.raises(ValueError, match="series 'b' has 3 rows where freq 'D' asks for 12421, too many to fill"):
        read_table(rows, missing="ffill")


@pytest.mark.parametrize("how", ["interpolate", "ffill"])
def test_doubled_rows_and_infinite_values_are_never_filled(how):
    rows = table(a=dates("2024-01-01", 7, "D"))
    with pytest.raises(
        ValueError, match="series 'a' has more than one row at 2024-01-03; keep one, or make ids of all"
    ):
        read_table(pd.concat([rows, rows[2:3]]), missing=how)
    with pytest.raises(ValueError, match="'y' of series 'a' has 1 infinite value, the first at 2024-01-04; replace it"):
        read_table(rows.assign(y=[0, 1, np.nan, np.inf, 4, 5, 6]), missing=how)


def test_huge_values_are_refused_and_large_ones_are_not():
    with pytest.raises(ValueError, match=r"the Series has 2 huge values, the first at 1; rescale it to below 1e\+300"):
        read_table(pd.Series([1.0, 1.1e300, -1.2e308]))
    assert read_table(pd.Series([1.0, 1e300, -1e200])).data.values.tolist() == [1, 1e300, -1e200]


def test_an_unknown_way_to_fill_is_refused():
    with pytest.raises(ValueError, match=r"`missing` must be one of .*'interpolate', 'ffill'.*, got 'mean'"):
        read_table(pd.Series([1.0, 2.0, 3.0]), missing="mean")


def test_duplicate_rows_are_named():
    table = long_table({"a": 4, "b": 4})
    table.loc[6, "ds"] = table.loc[5, "ds"]
    with pytest.raises(ValueError, match="series 'b' has more than one row at 2024-01-03; keep one"):
        read_table(table, freq="D")


def test_gap_of_daily_rows_is_named():
    table = long_table({"a": 40, 7: 30}).drop(index=range(50, 60))
    with pytest.raises(ValueError, match="series 7 has a gap of 10 rows between 2024-01-11 and 2024-01-22"):
        read_table(table)


def test_gap_of_one_quarter_end_is_named():
    table = long_table({"a": 12}, "QE", "2020-03-31").drop(index=5)
    with pytest.raises(ValueError, match="series 'a' has a gap of 1 row between 2021-03-31 and 2021-09-30"):
        read_table(table)


def test_a_missing_holiday_is_a_gap_of_business_days():
    series = wide_table(30, "B")["a"].drop(pd.Timestamp("2024-01-15"))
    with pytest.raises(ValueError, match=r"the table has a gap of 1 row between 2024-01-12 and 2024-01-16 \(freq 'B'"):
        read_table(series)


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "missing"), (np.inf, "infinite"), (-np.inf, "infinite")])
def test_values_that_are_not_finite_are_named_and_counted(value, kind):
    table = long_table({"a": 100, "b": 100})
    table.loc[[150, 170], "y"] = value
    remedy = "fill the NaN or pass" if kind == "missing" else "replace it, or drop it and fill the gap"
    words = f"column 'y' of series 'b' has 2 {kind} values, the first at 2024-02-21; {remedy}"
    with pytest.raises(ValueError, match=words):
        read_table(table.sample(frac=1, random_state=0))
    with pytest.raises(ValueError, match=f"column 'b' has 1 {kind} value, the first at 2024-01-01 01:00:00"):
        read_table(wide_table(b=[1, value, 2, 3, 4]))
    with pytest.raises(ValueError, match=f"the Series has 1 {kind} value, the first at 2"):
        read_table(pd.Series([1, 2, value]))
    with pytest.raises(ValueError, match=f"channel 1 has 1 {kind} value, the first at 0"):
        read_table(np.array([[1, value], [1, 1], [1, 1]]))


def test_a_nullable_missing_value_counts():
    with pytest.raises(ValueError, match="column 'y' of series 'a' has 1 missing value, the first at 2024-01-02"):
        read_table(long_table({"a": 3}).assign(y=pd.array([1, None, 2], dtype="Int64")))
