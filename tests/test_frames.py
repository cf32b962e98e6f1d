import copy
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from titans_ts.frames import Panel, read_table

pytestmark = pytest.mark.filterwarnings("error")

FREQS = ["15min", "h", "D", "B", "W-SUN", "MS", "ME", "QS-JAN", "QE-DEC", "YS-JAN", "YE-DEC"]


def long_table(lengths: dict, freq: str = "D", start: str = "2024-01-01", **columns: object) -> pd.DataFrame:
    """One series of each length; series k starts k steps after the one before and holds 100 k, 100 k + 1, ..."""
    times = pd.date_range(start, periods=max(lengths.values()) + len(lengths), freq=freq)
    parts = [
        pd.DataFrame({"unique_id": name, "ds": times[k : k + rows], "y": 100.0 * k + np.arange(rows)})
        for k, (name, rows) in enumerate(lengths.items())
    ]
    return pd.concat(parts, ignore_index=True).assign(**columns)


def wide_table(rows: int = 5, freq: str = "h", **columns: object) -> pd.DataFrame:
    values = {"a": np.arange(rows, dtype=float), "b": 10.0 + np.arange(rows)}
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=rows, freq=freq, name="when")).assign(
        **columns
    )


def by_id(panel: Panel) -> dict:
    return {name: (int(panel.starts[i]), panel.series(i).tolist()) for i, name in enumerate(panel.ids.tolist())}


# Long tables


def test_long_table_lays_series_end_to_end():
    panel = read_table(long_table({"a": 4, "b": 3}))
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.values.tolist() == [0, 1, 2, 3, 100, 101, 102]
    assert panel.lengths.tolist() == [4, 3]
    assert panel.offsets.tolist() == [0, 4]
    assert panel.starts.tolist() == [19723, 19724]
    assert panel.ends.tolist() == [19727, 19727]
    assert (panel.values.dtype, panel.lengths.dtype, panel.starts.dtype) == (np.float64, np.int64, np.int64)
    assert panel.calendar.freq == "D"
    assert panel.n_series == 2
    assert panel.feature_names is None


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.dictionaries(st.text(min_size=1, max_size=3), st.integers(3, 12), min_size=1, max_size=5),
    freq=st.sampled_from(FREQS),
    random=st.randoms(use_true_random=False),
)
def test_order_of_rows_changes_nothing(lengths, freq, random):
    table = long_table(lengths, freq)
    order = list(range(len(table)))
    random.shuffle(order)
    panel, shuffled = read_table(table, freq=freq), read_table(table.iloc[order], freq=freq)
    assert by_id(shuffled) == by_id(panel)
    assert shuffled.ids.tolist() == panel.ids.tolist() == sorted(lengths)
    forecast = np.arange(2.0 * len(lengths)).reshape(-1, 2)
    pd.testing.assert_frame_equal(shuffled.write(forecast), panel.write(forecast))


@settings(max_examples=60, deadline=None)
@given(
    freq=st.sampled_from(FREQS),
    zone=st.sampled_from([None, "UTC", "Asia/Kolkata", "Europe/Berlin"]),
    rows=st.integers(3, 30),
    channels=st.integers(1, 4),
    horizon=st.integers(1, 5),
)
def test_long_and_wide_forms_agree_and_continue_the_history(freq, zone, rows, channels, horizon):
    index = pd.date_range("2019-02-28 12:00", periods=rows, freq=freq, tz=zone, name="ds")
    values = np.random.default_rng(rows).normal(size=(rows, channels))
    wide = pd.DataFrame(values, index=index, columns=[f"c{i}" for i in range(channels)])
    melted = wide.rename_axis(columns="unique_id").T.stack().rename("y").reset_index()
    one, other = read_table(wide, freq=freq), read_table(melted, freq=freq)
    for attribute in ("values", "lengths", "starts"):
        assert np.array_equal(getattr(one, attribute), getattr(other, attribute))
    assert one.calendar == other.calendar
    forecast = np.arange(float(channels * horizon)).reshape(channels, horizon)
    after = pd.date_range(index[-1], periods=horizon + 1, freq=freq, name="ds")[1:]
    pd.testing.assert_frame_equal(one.write(forecast), pd.DataFrame(forecast.T, index=after, columns=wide.columns))
    rows_ahead = other.write(forecast)
    assert rows_ahead.columns.tolist() == ["unique_id", "ds", "Titans"]
    assert rows_ahead["unique_id"].tolist() == np.repeat(wide.columns, horizon).tolist()
    assert rows_ahead["ds"].tolist() == list(after) * channels
    assert rows_ahead["Titans"].tolist() == forecast.ravel().tolist()


@pytest.mark.parametrize(
    "ids",
    [
        pd.Series([100100037, 100100038] * 3),
        pd.Series([2, 7] * 3, dtype="int8"),
        pd.Series([2, 7] * 3, dtype="Int64"),
        pd.Series(["a", "b"] * 3),
        pd.Series(["a", "b"] * 3, dtype="string"),
        pd.Series([1, "b"] * 3, dtype=object),
        pd.Series([pd.Timestamp(0), 1] * 3, dtype=object),
        pd.Series(["b", "a"] * 3, dtype=pd.CategoricalDtype(["z", "b", "a"], ordered=True)),
    ],
    ids=lambda ids: str(ids.dtype),
)
def test_ids_come_back_in_order_with_their_dtype(ids):
    table = pd.DataFrame({"unique_id": ids, "ds": np.repeat(pd.date_range("2024", periods=3), 2), "y": np.arange(6.0)})
    panel = read_table(table)
    assert panel.ids.tolist() == ids[:2].tolist()
    assert panel.values.tolist() == [0, 2, 4, 1, 3, 5]
    written = panel.write(np.zeros((2, 2)))
    pd.testing.assert_series_equal(
        written["unique_id"], ids.iloc[[0, 0, 1, 1]].reset_index(drop=True).rename("unique_id")
    )


def test_columns_may_have_other_names():
    table = long_table({"a": 3}).set_axis(["shop", "day", "sales"], axis=1)
    written = read_table(table, id_col="shop", time_col="day", target_col="sales").write(np.array([[5.0]]), name="mine")
    assert written.to_dict("list") == {"shop": ["a"], "day": [pd.Timestamp("2024-01-04")], "mine": [5.0]}


def test_times_in_a_half_hour_zone_have_the_values_of_utc():
    table = long_table({"a": 30, "b": 24}, "h")
    table["ds"] = table["ds"].dt.tz_localize("UTC")
    local = table.assign(ds=table["ds"].dt.tz_convert("Asia/Kolkata"))
    assert by_id(read_table(local)) == by_id(read_table(table))
    written = read_table(local).write(np.zeros((2, 1)))
    assert str(written["ds"].dtype) == "datetime64[us, Asia/Kolkata]"
    assert str(written["ds"][0]) == "2024-01-02 11:30:00+05:30"


def test_quarter_hour_periods_continue_as_periods():
    periods = pd.period_range("2024-01-01", periods=96, freq="15min")
    written = read_table(pd.DataFrame({"ds": periods, "y": np.arange(96.0)})).write(np.array([[1.0, 2.0]]))
    assert written["ds"].dtype == periods.dtype
    assert written["ds"].astype(str).tolist() == ["2024-01-02 00:00", "2024-01-02 00:15"]


def test_integer_times_continue():
    table = pd.DataFrame(
        {"unique_id": ["a", "a", "a", "b", "b", "b"], "ds": [10, 20, 30, 20, 30, 40], "y": np.arange(6)}
    )
    assert read_table(table).write(np.zeros((2, 1)))["ds"].tolist() == [40, 50]


def test_unseen_rows_may_be_few_where_the_caller_allows_it():
    panel = read_table(long_table({"a": 1}), freq="D", min_rows=1)
    assert panel.write(np.zeros((1, 1)))["ds"].tolist() == [pd.Timestamp("2024-01-02")]


# Other kinds


def test_one_series_comes_back_with_its_time_column():
    table = long_table({"a": 4}, "MS").drop(columns="unique_id")
    panel = read_table(table)
    assert panel.ids.tolist() == ["y"]
    assert panel.calendar.freq == "MS"
    expected = pd.DataFrame({"ds": pd.to_datetime(["2024-05-01", "2024-06-01"]), "Titans": [1.0, 2.0]})
    pd.testing.assert_frame_equal(panel.write(np.array([[1.0, 2.0]])), expected, check_dtype=False)


def test_one_column_of_dates_makes_a_wide_table_and_comes_first():
    table = wide_table().reset_index()[["a", "when", "b"]].rename_axis(columns="sensor")
    panel = read_table(table)
    assert panel.feature_names.tolist() == ["a", "b"]
    assert panel.values.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    written = panel.write(np.array([[1.0], [2.0]]))
    assert written.to_dict("list") == {"when": [pd.Timestamp("2024-01-01 05:00")], "a": [1.0], "b": [2.0]}
    assert written.columns.name == "sensor"


@pytest.mark.parametrize(
    "columns", [pd.Index([3, 1], name="n"), pd.Index(["a", "b"], dtype=object), pd.CategoricalIndex(["b", "a"])]
)
def test_wide_columns_come_back_exactly(columns):
    table = wide_table().set_axis(columns, axis=1)
    written = read_table(table).write(np.ones((2, 3)))
    pd.testing.assert_index_equal(written.columns, columns)
    pd.testing.assert_index_equal(written.index, pd.date_range("2024-01-01 05:00", periods=3, freq="h", name="when"))


def test_feature_names_exist_only_for_strings():
    assert read_table(wide_table()).feature_names.tolist() == ["a", "b"]
    assert read_table(wide_table().set_axis([0, 1], axis=1)).feature_names is None


@pytest.mark.parametrize(
    ("index", "after"),
    [
        (pd.RangeIndex(5, 13, 2, name="n"), pd.RangeIndex(13, 17, 2, name="n")),
        (pd.Index([3, 4, 5, 6], name="n"), pd.Index([7, 8], name="n")),
        (pd.period_range("2024Q1", periods=4, freq="Q"), pd.period_range("2025Q1", periods=2, freq="Q")),
        (pd.date_range("2024-01-01", periods=4, freq="W"), pd.date_range("2024-02-04", periods=2, freq="W")),
        (
            pd.DatetimeIndex(["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"], tz="Asia/Kolkata"),
            pd.DatetimeIndex(["2024-05-31", "2024-06-30"], tz="Asia/Kolkata"),
        ),
    ],
    ids=["range", "integers", "periods", "dates", "zoned"],
)
def test_series_comes_back_as_a_series_over_the_next_labels(index, after):
    for history in (pd.Series(np.arange(4.0), index=index, name="load"), pd.Series(np.arange(4.0), index=index)[::-1]):
        forecast = read_table(history).write(np.array([[7.0, 8.0]]))
        pd.testing.assert_series_equal(
            forecast, pd.Series([7.0, 8.0], index=after, name=history.name), check_freq=False
        )
        assert type(forecast.index) is type(index) or history.name is None


def test_series_may_have_any_name():
    history = pd.Series([1.0, 2.0, 3.0], name=("a", 1))
    assert read_table(history).write(np.zeros((1, 1))).name == ("a", 1)


def test_array_comes_back_as_an_array():
    panel = read_table(np.array([[1, 10], [2, 20], [3, 30]]))
    assert panel.values.tolist() == [1, 2, 3, 10, 20, 30]
    assert panel.ids.tolist() == [0, 1]
    assert panel.write(np.array([[4.0, 5.0], [40.0, 50.0]])).tolist() == [[4.0, 40.0], [5.0, 50.0]]


def test_large_levels_keep_their_small_movement():
    values = 1e9 + np.sin(np.arange(50.0))
    assert np.array_equal(read_table(values[:, None]).values, values)


@pytest.mark.parametrize("dtype", ["int64", "Int64", "Float64", "float32", "uint8"])
def test_numbers_are_cast_to_float64(dtype):
    for table in (long_table({"a": 3}).astype({"y": dtype}), pd.Series([0, 1, 2], dtype=dtype)):
        assert read_table(table).values.tolist() == [0.0, 1.0, 2.0]
        assert read_table(table).values.dtype == np.float64


def test_panel_shares_no_memory_and_inputs_stay_as_they_were():
    series = pd.Series(np.arange(5.0))
    array = np.arange(6.0).reshape(3, 2)
    for table in (long_table({"a": 5, "b": 4}), wide_table(), wide_table().reset_index(), series, array):
        before = copy.deepcopy(table)
        panel = read_table(table)
        panel.values[:] = -1.0
        panel.write(np.zeros((panel.n_series, 2)))
        assert np.array_equal(np.asarray(table), np.asarray(before))
        assert panel.values.flags.owndata or panel.values.base.flags.owndata


def test_panel_survives_pickle():
    panel = read_table(wide_table())
    again = pickle.loads(pickle.dumps(panel))
    pd.testing.assert_frame_equal(again.write(np.ones((2, 2))), panel.write(np.ones((2, 2))))


# Refusals


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


@pytest.mark.parametrize("dtype", ["bool", "boolean", "object", "str", "complex128", "category"])
def test_values_that_are_no_numbers_are_named(dtype):
    values = pd.Series([1, 0, 1]).astype(dtype)
    error = ValueError if dtype == "complex128" else TypeError
    for table in (long_table({"a": 3}, y=values), wide_table(3, y=values.array)):
        got = table["y"].dtype
        with pytest.raises(error, match=rf"column 'y' must hold .*numbers, got dtype {got}"):
            read_table(table)


def test_missing_ids_and_times_are_counted():
    table = long_table({"a": 4})
    with pytest.raises(ValueError, match="column 'unique_id' has 2 missing values, the first in row 1"):
        read_table(table.assign(unique_id=["a", None, None, "a"]))
    with pytest.raises(ValueError, match="the times have 1 missing value, the first in row 2"):
        read_table(table.assign(ds=table["ds"].where(table.index != 2)))


def test_the_shortest_series_is_named():
    with pytest.raises(ValueError, match="series 'b' has 1 row; at least 3 are needed"):
        read_table(long_table({"a": 5, "b": 1, "c": 2}))
    with pytest.raises(ValueError, match="the table has 2 rows; at least 3 are needed"):
        read_table(wide_table(2))
    with pytest.raises(ValueError, match=r"the table has 2 rows \(n_samples = 2\); at least 3 are needed"):
        read_table(np.zeros((2, 4)))


def test_names_of_columns_must_differ_and_leave_room_for_the_forecast():
    with pytest.raises(ValueError, match="must name three different columns, got 'ds', 'ds', 'y'"):
        read_table(long_table({"a": 3}), id_col="ds")
    with pytest.raises(ValueError, match="the forecast's own column is 'Titans'; rename"):
        read_table(long_table({"a": 3}).rename(columns={"ds": "Titans"}), time_col="Titans")


def test_extra_columns_are_named():
    with pytest.raises(ValueError, match=r"columns \['promo', 'price'\] are neither id, time nor target; drop them"):
        read_table(long_table({"a": 3}, promo=1, price=2.0))


@pytest.mark.parametrize(
    "columns",
    [["unique_id", "date", "y"], ["unique_id", "ds", "value"], ["unique_id", "when", "value"]],
)
def test_columns_that_fit_no_layout_are_named(columns):
    with pytest.raises(ValueError, match=r"the columns \['unique_id', .* fit no layout; pass a long table"):
        read_table(long_table({"a": 3}).set_axis(columns, axis=1))


def test_two_columns_of_dates_or_none_of_numbers_fit_no_layout():
    dates = pd.date_range("2024", periods=3)
    for columns in ({"from": dates, "to": dates, "x": 1.0}, {"from": dates}, {}):
        with pytest.raises(ValueError, match="fit no layout"):
            read_table(pd.DataFrame(columns, index=range(3)))


def test_column_names_must_be_unique():
    with pytest.raises(ValueError, match="column names must be unique, got 'a' more than once"):
        read_table(wide_table().set_axis(["a", "a"], axis=1))


def test_multiindexes_are_refused():
    levels = pd.MultiIndex.from_product([["a"], pd.date_range("2024", periods=3)])
    for table in (pd.DataFrame({"y": range(3)}, index=levels), pd.DataFrame(np.zeros((3, 3)), columns=levels)):
        with pytest.raises(ValueError, match="must not have a MultiIndex; flatten it"):
            read_table(table)
    with pytest.raises(ValueError, match="must not be a MultiIndex"):
        read_table(pd.Series(range(3), index=levels))


@pytest.mark.parametrize(
    "table", [pd.Series(dtype=float), np.zeros((0, 2)), long_table({"a": 3})[:0], wide_table()[:0]]
)
def test_empty_tables_are_refused(table):
    with pytest.raises(ValueError, match="the table has no rows"):
        read_table(table)


def test_array_without_channels_is_refused():
    with pytest.raises(ValueError, match=r"at least one channel, got 0 feature\(s\) \(shape=\(3, 0\)\)"):
        read_table(np.zeros((3, 0)))


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"shape \(rows, channels\), got \(3,\)\. Reshape .* `.reshape\(-1, 1\)`"):
        read_table(np.zeros(3))
    for shape in ((3, 2, 1), ()):
        with pytest.raises(ValueError, match=f"shape \\(rows, channels\\), got {re.escape(str(shape))}\\.$"):
            read_table(np.zeros(shape))


def test_complex_arrays_are_refused():
    with pytest.raises(ValueError, match=r"Complex data not supported: an array .*got dtype complex128; use `.real`"):
        read_table(np.array([[1], [1j], [2]]))


def test_an_array_of_objects_is_read_where_all_are_numbers():
    numbers = np.array([[1, 2.5], [Decimal("0.5"), np.float32(4)], [Fraction(1, 4), 5]], dtype=object)
    assert read_table(numbers).values.tolist() == [1, 0.5, 0.25, 2.5, 4, 5]
    numbers[1, 0] = None
    with pytest.raises(ValueError, match="channel 0 has 1 missing value, the first at 1"):
        read_table(numbers)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1", "text; use"),
        (1j, "not 'complex'"),
        (pd.NA, "not 'NAType'"),
        (pd.Timestamp("2024"), "not 'Timestamp'"),
        (10**400, "too large"),
    ],
)
def test_an_array_of_other_objects_is_refused(value, words):
    with pytest.raises(TypeError, match=f"an array must hold real numbers, got .*{words}"):
        read_table(np.array([[1], [value], [2]], dtype=object))


def test_other_tables_are_refused_with_their_remedy():
    lazy = type("LazyFrame", (), {"__module__": "polars.lazyframe.frame"})()
    for table, words in (
        (lazy, r"got polars.lazyframe.frame.LazyFrame; use `.collect\(\)`"),
        ([1.0, 2.0, 3.0], r"got builtins.list; use `np.array\(...\).reshape\(-1, 1\)`"),
        (sparse.csr_array(np.eye(3)), r"csr_array; sparse input is not supported, use `.toarray\(\)`"),
        (np.ma.masked_array(np.zeros((3, 1))), r"use `.filled\(\)`"),
        (np.array([["a"]] * 3), "must hold real numbers, got dtype <U1"),
        (np.array([[True]] * 3), "must hold real numbers, got dtype bool"),
        (None, "polars DataFrame or Series .* got builtins.NoneType"),
    ):
        with pytest.raises(TypeError, match=words):
            read_table(table)


def test_forecast_of_another_shape_or_name_is_refused():
    panel = read_table(long_table({"a": 3, "b": 3}))
    for forecast in (np.zeros((3, 2)), np.zeros(2), np.zeros((2, 0))):
        with pytest.raises(ValueError, match=r"`forecast` must have shape \(2, horizon\)"):
            panel.write(forecast)
    with pytest.raises(ValueError, match="`name` must differ from the table's own columns, got 'ds'"):
        panel.write(np.zeros((2, 1)), name="ds")
