"""Forecasts laid out as the table was that a panel was read from: kind, names, times and dtypes."""

import dataclasses
import pickle
import re

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.read import read_table

from .sample_tables import long_table, wide_table

pytestmark = pytest.mark.filterwarnings("error")


def point(*rows: list[float]) -> np.ndarray:
    """A point forecast, (n_series, steps, 1)."""
    return np.array(rows, dtype=float)[..., None]


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
    assert panel.data.values.tolist() == [0, 2, 4, 1, 3, 5]
    written = panel.write(np.zeros((2, 2, 1)))
    pd.testing.assert_series_equal(
        written["unique_id"], ids.iloc[[0, 0, 1, 1]].reset_index(drop=True).rename("unique_id")
    )


def test_columns_may_have_other_names():
    table = long_table({"a": 3}).set_axis(["shop", "day", "sales"], axis=1)
    written = read_table(table, id_col="shop", time_col="day", target_col="sales").write(point([5.0]), columns=["mine"])
    assert written.to_dict("list") == {"shop": ["a"], "day": [pd.Timestamp("2024-01-04")], "mine": [5.0]}


def test_quarter_hour_periods_continue_as_periods():
    periods = pd.period_range("2024-01-01", periods=96, freq="15min")
    written = read_table(pd.DataFrame({"ds": periods, "y": np.arange(96.0)})).write(point([1.0, 2.0]))
    assert written["ds"].dtype == periods.dtype
    assert written["ds"].astype(str).tolist() == ["2024-01-02 00:00", "2024-01-02 00:15"]


def test_integer_times_continue():
    table = pd.DataFrame(
        {"unique_id": ["a", "a", "a", "b", "b", "b"], "ds": [10, 20, 30, 20, 30, 40], "y": np.arange(6)}
    )
    assert read_table(table).write(np.zeros((2, 1, 1)))["ds"].tolist() == [40, 50]


def test_unseen_rows_may_be_few_where_the_caller_allows_it():
    panel = read_table(long_table({"a": 1}), freq="D", min_rows=1)
    assert panel.write(np.zeros((1, 1, 1)))["ds"].tolist() == [pd.Timestamp("2024-01-02")]


def test_one_series_comes_back_with_its_time_column():
    table = long_table({"a": 4}, "MS").drop(columns="unique_id")
    panel = read_table(table)
    assert panel.ids.tolist() == ["y"]
    assert panel.calendar.freq == "MS"
    expected = pd.DataFrame({"ds": pd.to_datetime(["2024-05-01", "2024-06-01"]), "Titans": [1.0, 2.0]})
    pd.testing.assert_frame_equal(panel.write(point([1.0, 2.0])), expected, check_dtype=False)


def test_one_column_of_dates_makes_a_wide_table_and_comes_first():
    table = wide_table().reset_index()[["a", "when", "b"]].rename_axis(columns="sensor")
    panel = read_table(table)
    assert panel.feature_names.tolist() == ["a", "b"]
    assert panel.data.values.tolist() == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    written = panel.write(point([1.0], [2.0]))
    assert written.to_dict("list") == {"when": [pd.Timestamp("2024-01-01 05:00")], "a": [1.0], "b": [2.0]}
    assert written.columns.name == "sensor"


@pytest.mark.parametrize(
    "columns", [pd.Index([3, 1], name="n"), pd.Index(["a", "b"], dtype=object), pd.CategoricalIndex(["b", "a"])]
)
def test_wide_columns_come_back_exactly(columns):
    table = wide_table().set_axis(columns, axis=1)
    written = read_table(table).write(np.ones((2, 3, 1)))
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
        forecast = read_table(history).write(point([7.0, 8.0]))
        pd.testing.assert_series_equal(
            forecast, pd.Series([7.0, 8.0], index=after, name=history.name), check_freq=False
        )
        assert type(forecast.index) is type(index) or history.name is None


def test_series_may_have_any_name():
    history = pd.Series([1.0, 2.0, 3.0], name=("a", 1))
    assert read_table(history).write(np.zeros((1, 1, 1))).name == ("a", 1)


def test_array_comes_back_as_an_array():
    panel = read_table(np.array([[1, 10], [2, 20], [3, 30]]))
    assert panel.data.values.tolist() == [1, 2, 3, 10, 20, 30]
    assert panel.ids.tolist() == [0, 1]
    assert panel.write(point([4.0, 5.0], [40.0, 50.0])).tolist() == [[4.0, 40.0], [5.0, 50.0]]


def test_panel_survives_pickle():
    panel = read_table(wide_table())
    again = pickle.loads(pickle.dumps(panel))
    pd.testing.assert_frame_equal(again.write(np.ones((2, 2, 1))), panel.write(np.ones((2, 2, 1))))


def test_forecast_of_another_shape_or_name_is_refused():
    panel = read_table(long_table({"a": 3, "b": 3}))
    for shape in ((3, 2, 1), (2,), (2, 2), (2, 0, 1), (2, 1, 2), (2, 1, 0)):
        words = re.escape(f"`forecast` must have shape (n_series, steps, outputs) = (2, steps, 1), got {shape}.")
        with pytest.raises(ValueError, match=words):
            panel.write(np.zeros(shape))
    for name in ("ds", "unique_id"):
        with pytest.raises(ValueError, match=f"`columns` must differ from the table's own, got '{name}'"):
            panel.write(np.zeros((2, 1, 2)), columns=["low", name])


# Several outputs


def test_each_output_has_a_column_of_a_long_table():
    panel = read_table(long_table({"a": 3, "b": 4}))
    forecast = np.arange(12.0).reshape(2, 2, 3)
    written = panel.write(forecast, columns=["low", "mid", "high"])
    assert written.columns.tolist() == ["unique_id", "ds", "low", "mid", "high"]
    assert written["unique_id"].tolist() == ["a", "a", "b", "b"]
    assert written["ds"].dt.day.tolist() == [4, 5, 6, 7]
    assert written[["low", "mid", "high"]].to_numpy().tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]


def test_each_output_has_a_column_beside_the_times_of_one_series():
    panel = read_table(long_table({"a": 3}).drop(columns="unique_id"))
    written = panel.write(np.array([[[1.0, 2.0], [3.0, 4.0]]]), columns=["y", "high"])
    assert written.columns.tolist() == ["ds", "y", "high"]
    assert (written["y"].tolist(), written["high"].tolist()) == ([1, 3], [2, 4])


def test_outputs_follow_their_series_in_a_wide_table() -> None:
    outputs, columns = np.arange(12.0).reshape(2, 2, 3), ["Titans", "Titans-lo-80", "Titans-hi-80"]
    for table in (wide_table(), wide_table().reset_index()):
        panel = read_table(table)
        written = panel.write(outputs, columns)
        names = ["a", "a-lo-80", "a-hi-80", "b", "b-lo-80", "b-hi-80"]
        assert written.columns.tolist() == table.columns.tolist()[:-2] + names
        assert written[names].to_numpy().tolist() == [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]
        assert written.index.equals(panel.write(outputs[..., :1]).index)


def test_outputs_of_a_series_are_a_frame_and_of_an_array_a_dict() -> None:
    outputs, columns = np.arange(6.0).reshape(1, 2, 3), ["Titans", "Titans-lo-80", "Titans-hi-80"]
    panel = read_table(wide_table()["a"])
    written = panel.write(outputs, columns)
    assert written.columns.tolist() == columns
    assert written.to_numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert written.index.equals(panel.write(outputs[..., :1]).index)
    found = read_table(np.zeros((3, 1))).write(outputs, columns)
    assert {name: array.tolist() for name, array in found.items()} == {
        "Titans": [[0], [3]],
        "Titans-lo-80": [[1], [4]],
        "Titans-hi-80": [[2], [5]],
    }


def test_a_wide_table_whose_column_has_the_name_of_an_output_is_refused() -> None:
    panel = read_table(wide_table().rename(columns={"b": "a-lo-80"}))
    with pytest.raises(ValueError, match="the forecast's column 'a-lo-80' is there twice"):
        panel.write(np.zeros((2, 3, 2)), columns=["Titans", "Titans-lo-80"])


def test_what_is_written_shares_no_memory_with_the_forecast():
    for table in (long_table({"a": 3}), wide_table(), wide_table()["a"], np.zeros((3, 2))):
        panel = read_table(table)
        forecast = np.zeros((panel.n_series, 2, 1))
        written = panel.write(forecast)
        before = np.array(written, copy=True)
        forecast += 1
        assert np.array_equal(np.asarray(written), before)


# Parts of a panel


def test_parts_of_a_panel_keep_ids_and_times():
    panel = read_table(long_table({"a": 4, "b": 3, "c": 5}))
    taken = panel.take(np.array([2, 0]))
    assert taken.ids.tolist() == ["c", "a"]
    assert taken.write(np.zeros((2, 1, 1)))["ds"].dt.day.tolist() == [8, 5]
    assert panel.tail(2).data.lengths.tolist() == [2, 2, 2]
    assert panel.tail(2).write(np.zeros((3, 1, 1)))["ds"].dt.day.tolist() == [5, 5, 8]
    assert panel.head(np.array([3, 2, 1])).write(np.zeros((3, 1, 1)))["ds"].dt.day.tolist() == [4, 4, 4]
    for part in (panel.tail(2), panel.head(np.array([3, 2, 1]))):
        assert part.ids is panel.ids
        assert part.calendar is panel.calendar


def test_parts_of_a_panel_keep_the_phase_of_each_series():
    parts = [
        pd.DataFrame(
            {"unique_id": name, "ds": pd.date_range(start, periods=rows, freq="7D"), "y": np.arange(float(rows))}
        )
        for name, start, rows in (("a", "2024-01-01", 6), ("b", "2024-01-03", 5), ("c", "2024-01-08", 5))
    ]
    panel = read_table(pd.concat(parts, ignore_index=True))
    assert [(own.freq, names) for own, names in panel.calendar.phases] == [("W-WED", ("b",))]
    expected = [["2024-02-12", "2024-02-19"], ["2024-02-07", "2024-02-14"], ["2024-02-12", "2024-02-19"]]
    for part, order in ((panel, [0, 1, 2]), (panel.take(np.array([1, 2, 0])), [1, 2, 0]), (panel.tail(2), [0, 1, 2])):
        written = part.write(np.zeros((3, 2, 1)))
        assert written["unique_id"].tolist() == [panel.ids[i] for i in order for _ in range(2)]
        assert written["ds"].astype(str).tolist() == [day for i in order for day in expected[i]]
    assert panel.take(np.array([1])).write(np.zeros((1, 1, 1)))["ds"].astype(str).tolist() == ["2024-02-07"]
    assert panel.head(np.array([3, 3, 3])).write(np.zeros((3, 1, 1)))["ds"].dt.day.tolist() == [22, 24, 29]


def test_the_mask_follows_its_series():
    rows = pd.concat([long_table({"a": 7}), long_table({"b": 5})], ignore_index=True).drop(index=[2, 9])
    panel = read_table(rows, missing="ffill")
    assert panel.tail(4).data.observed.tolist() == [True, True, True, True, True, False, True, True]
    a, b = [True, True, False, True, True, True, True], [True, True, False, True, True]
    assert panel.take(np.array([1, 0])).data.observed.tolist() == [*b, *a]
    assert panel.take(np.array([], dtype=int)).data.values.tolist() == []


@pytest.mark.parametrize(
    ("ids", "kind", "first"),
    [
        (["b", "a"], "string", "a"),
        ([7, 3], "integer", 3),
        (pd.Categorical(["q", "p"], categories=["q", "p"]), "string", "q"),
        (pd.Categorical([2, 1]), "integer", 1),
        ([True, False], "boolean", False),
    ],
)
def test_ids_have_a_type_and_are_pythons_own(ids, kind, first):
    times = np.tile(pd.date_range("2024", periods=3), 2)
    panel = read_table(pd.DataFrame({"unique_id": pd.Series(ids).repeat(3).array, "ds": times, "y": np.arange(6.0)}))
    assert panel.id_type == kind
    assert panel.id_of(0) == first
    assert type(panel.id_of(0)) in (str, int, bool)


# Further rows


def test_further_rows_go_on_where_series_end():
    panel = read_table(long_table({"a": 4, "b": 3, "c": 5}))
    later = read_table(long_table({"a": 6, "b": 3, "c": 7}), calendar=panel.calendar)
    rows = later.take(np.array([0, 2])).tail(2)
    both = panel.then(rows, np.array([0, 2]))
    assert both.data.lengths.tolist() == [6, 3, 7]
    values = panel.data.values, rows.data.values
    assert both.data.values.tolist() == [*values[0][:4], *values[1][:2], *values[0][4:], *values[1][2:]]
    assert both.ids is panel.ids
    swapped = panel.then(rows.take(np.array([1, 0])), np.array([2, 0]))
    assert swapped.data.values.tolist() == both.data.values.tolist()
    assert both.write(np.zeros((3, 1, 1)))["ds"].dt.day.tolist() == [7, 5, 10]
    assert panel.data.lengths.tolist() == [4, 3, 5]


def test_rows_of_an_array_are_taken_to_follow():
    panel = read_table(np.arange(6.0).reshape(3, 2))
    both = panel.then(read_table(np.array([[7.0, 8.0]]), min_rows=1), np.array([0, 1]))
    assert both.data.values.tolist() == [0, 2, 4, 7, 1, 3, 5, 8]
    assert both.data.starts.tolist() == [0, 0]


def test_rows_that_do_not_follow_are_named():
    panel = read_table(long_table({"a": 4, "b": 4}))
    later = read_table(long_table({"a": 9, "b": 9}), calendar=panel.calendar)
    words = "series 'b' repeats rows that the model has seen: it begins at 2024-01-05, and 2024-01-06 is next"
    with pytest.raises(ValueError, match=words):
        panel.then(later.tail(np.array([5, 6])), np.array([0, 1]))
    with pytest.raises(ValueError, match="series 'a' skips 2 rows: it begins at 2024-01-07, and 2024-01-05 is next"):
        panel.then(later.tail(np.array([3, 5])), np.array([0, 1]))
    with pytest.raises(ValueError, match="series 'a' repeats rows"):
        panel.then(later.tail(np.array([6, 5])), np.array([0, 1]), "ffill")
    panel = read_table(long_table({"a": 4}, "h"))  # days would reach beyond the nanoseconds of pandas 2
    far = read_table(long_table({"a": 9}, "h"), calendar=panel.calendar)
    far = dataclasses.replace(far, data=dataclasses.replace(far.data, starts=panel.data.ends[:1] + 100_001))
    with pytest.raises(ValueError, match="series 'a' skips 100001 rows"):
        panel.then(far, np.array([0]), "ffill")


@pytest.mark.parametrize("missing", ["interpolate", "ffill"])
def test_skipped_rows_are_filled_as_where_all_are_read_at_once(missing):
    whole = long_table({"a": 9, "b": 9})
    whole["y"] = np.random.default_rng(0).normal(size=18)
    rows = whole.drop(index=[4, 5, 13])  # the fifth and sixth of a, the fifth of b
    expected = read_table(rows, missing=missing)
    n = np.arange(18) % 9
    panel = read_table(whole[n < 4])
    later = read_table(rows[n[rows.index] >= 4], missing=missing, min_rows=1, calendar=panel.calendar)
    assert later.data.lengths.tolist() == [3, 4]
    both = panel.then(later, np.array([0, 1]), missing)
    np.testing.assert_allclose(both.data.values, expected.data.values)
    assert both.data.observed.tolist() == expected.data.observed.tolist()
    assert both.data.observed.tolist() == [True] * 4 + [False] * 2 + [True] * 7 + [False] + [True] * 4


def test_series_of_another_phase_go_on_at_their_own():
    parts = [
        pd.DataFrame({"unique_id": name, "ds": pd.date_range(start, periods=8, freq="7D"), "y": np.arange(8.0)})
        for name, start in (("a", "2024-01-01"), ("b", "2024-01-03"))
    ]
    whole = pd.concat(parts, ignore_index=True)
    panel = read_table(whole[whole["y"] < 6])
    later = read_table(whole[whole["y"] >= 6], min_rows=1, calendar=panel.calendar)
    both = panel.then(later, np.array([0, 1]))
    assert both.write(np.zeros((2, 1, 1)))["ds"].astype(str).tolist() == ["2024-02-26", "2024-02-28"]
    with pytest.raises(ValueError, match=r"'b' skips 1 row.*begins at 2024-02-21, and 2024-02-14 is next"):
        panel.then(later.take(np.array([1])).tail(1), np.array([1]))


def test_rows_between_the_steps_of_their_series_are_refused():
    rows = long_table({"a": 6, "b": 6}, "h")
    panel = read_table(rows)
    between = rows.assign(
        ds=rows["ds"] + pd.Timedelta("10h") + pd.to_timedelta(30 * (rows["unique_id"] == "b"), unit="min")
    )
    later = read_table(between, calendar=panel.calendar)
    with pytest.raises(
        ValueError, match=r"freq 'h' .* but series 'b' begins at 2024-01-01 11:30:00, between its steps"
    ):
        panel.then(later, np.array([0, 1]), "ffill")


# Numbers of its own rows


@pytest.mark.parametrize(
    "table", [wide_table(), wide_table().reset_index(), wide_table()["b"], np.arange(10.0).reshape(5, 2)]
)
def test_numbers_of_rows_are_laid_out_as_the_table(table):
    panel = read_table(table)
    written = panel.write_rows(panel.data.values, "surprise")
    assert type(written) is type(table)
    if isinstance(table, np.ndarray):
        assert np.array_equal(written, table)
    elif isinstance(table, pd.Series):
        pd.testing.assert_series_equal(written, table.astype(float), check_freq=False)
    else:
        pd.testing.assert_frame_equal(written, table.astype(dict.fromkeys("ab", float)), check_freq=False)


def test_numbers_of_rows_stand_beside_ids_and_times():
    table = long_table({"b": 3, "a": 5}).sample(frac=1, random_state=0)
    panel = read_table(table)
    written = panel.write_rows(panel.data.values, "surprise")
    expected = table.sort_values(["unique_id", "ds"], ignore_index=True).rename(columns={"y": "surprise"})
    pd.testing.assert_frame_equal(written, expected.astype({"surprise": float}), check_dtype=False)
    single = long_table({"a": 4}).drop(columns="unique_id")
    assert read_table(single).write_rows(np.arange(4.0), "x").columns.tolist() == ["ds", "x"]


def test_times_at_which_a_series_has_no_row_are_empty():
    table = wide_table().astype(float)
    table.iloc[:2, 1] = np.nan
    panel = read_table(table, missing="ffill")
    assert panel.data.lengths.tolist() == [5, 3]
    written = panel.write_rows(np.arange(8.0), "x")
    np.testing.assert_array_equal(written.to_numpy().T, [[0, 1, 2, 3, 4], [np.nan, np.nan, 5, 6, 7]])


def test_a_table_of_rows_is_long_whatever_the_layout():
    numbers = {"x": np.arange(10.0), "flag": np.arange(10) % 2 == 0, "n": np.arange(10)}
    for table in (wide_table(), wide_table().reset_index(), np.zeros((5, 2))):
        panel = read_table(table)
        found = panel.rows_table(numbers, "id", "time")
        assert found.columns.tolist()[0] == "id"
        assert found.columns.tolist()[2:] == ["x", "flag", "n"]
        assert [str(found[name].dtype) for name in numbers] == ["float64", "bool", "int64"]
        assert found["n"].tolist() == list(range(10))
        assert found["id"].tolist() == [panel.id_of(0)] * 5 + [panel.id_of(1)] * 5
        assert found["flag"].tolist() == [True, False] * 5
    ragged = read_table(long_table({"a": 2, "b": 4, "c": 3}), freq="D", min_rows=1)
    found = ragged.rows_table({"n": np.arange(9)}, "id", "time")
    assert found["unique_id"].tolist() == ["a"] * 2 + ["b"] * 4 + ["c"] * 3
    assert found["n"].tolist() == list(range(9))
    assert found["ds"].dt.day.tolist() == [1, 2, 2, 3, 4, 5, 3, 4, 5]


def test_as_long_gives_names_to_the_columns_that_a_table_had_not() -> None:
    wide = read_table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": 4.0}, index=pd.date_range("2024", periods=3)))
    table = wide.as_long("id", "t", "v").write(np.zeros((2, 1, 1)))
    assert list(table.columns) == ["id", "t", "Titans"]
    assert table["id"].tolist() == ["a", "b"]
    assert wide.layout.kind == "wide"
    single = read_table(pd.DataFrame({"ds": pd.date_range("2024", periods=3), "y": 1.0})).as_long("id", "t", "v")
    assert (single.layout.id_col, single.layout.time_col, single.layout.target_col) == ("id", "ds", "y")


def test_rows_between_keep_the_ids_of_their_series() -> None:
    wide = read_table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": 4.0}, index=pd.date_range("2024", periods=3)))
    found = wide.between(np.array([0, 0]), np.array([0, 1]), np.array([1, 3]))
    assert found.ids.tolist() == ["a", "a"]
    assert found.data.values.tolist() == [1, 2, 3]
