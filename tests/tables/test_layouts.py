"""Tables taken apart into rows: which layout they have, and what is refused by name."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.layouts import Rows, read_rows, some
from titans_ts.tables.read import read_table

from .sample_tables import long_table, wide_table

pytestmark = pytest.mark.filterwarnings("error")


def read(table: object, id_col: str = "unique_id", time_col: str = "ds", min_rows: int = 1) -> Rows:
    return read_rows(table, id_col, time_col, "y", min_rows)


# Kinds of tables


@pytest.mark.parametrize(
    ("table", "layout"),
    [
        (long_table({"a": 3}), ("long", "unique_id", "ds", "y")),
        (long_table({"a": 3}).drop(columns="unique_id"), ("single", None, "ds", "y")),
        (wide_table(), ("wide", None, None, None)),
        (wide_table().reset_index(), ("wide", None, "when", None)),
        (wide_table()["b"], ("series", None, None, "b")),
        (wide_table().to_numpy(), ("array", None, None, None)),
    ],
    ids=["long", "one series", "wide", "wide, dates in a column", "Series", "array"],
)
def test_the_layout_is_told_by_columns_and_index(table, layout):
    found = read(table).layout
    assert (found.kind, found.id_col, found.time_col, found.target_col) == layout
    assert found.backend == "pandas"


def test_the_index_that_had_the_times_is_kept_empty():
    found = read(wide_table()).layout.index
    assert (len(found), found.name, found.freqstr) == (0, "when", "h")
    assert read(wide_table().reset_index()).layout.index is None


def test_ids_of_a_long_table_are_numbered_in_their_order_and_rows_stay_in_theirs():
    rows = read(pd.DataFrame({"unique_id": ["b", "a", "b"], "ds": [1, 2, 3], "y": [5, 6, 7]}))
    assert rows.ids.tolist() == ["a", "b"]
    assert rows.codes.tolist() == [1, 0, 1]
    assert rows.labels.tolist() == [1, 2, 3]
    assert rows.values.tolist() == [[5, 6, 7]]
    mixed = read(pd.DataFrame({"unique_id": [1, "b", 1], "ds": [1, 2, 3], "y": [5, 6, 7]}))
    assert (mixed.ids.tolist(), mixed.codes.tolist()) == ([1, "b"], [0, 1, 0])  # as they come, where they have no order


def test_a_wide_table_has_a_channel_for_each_column_in_the_order_it_has():
    rows = read(wide_table(2)[["b", "a"]])
    assert rows.ids.tolist() == ["b", "a"]
    assert rows.values.tolist() == [[10, 11], [0, 1]]
    assert rows.codes is None


def test_times_as_text_are_read_as_dates_and_how_they_were_written_is_noted():
    rows = read(pd.DataFrame({"unique_id": "a", "ds": ["2024-01", "2024-02"], "y": [1, 2]}))
    assert rows.labels.tolist() == [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-02-01")]
    assert rows.layout.written == "%Y-%m"
    assert read(long_table({"a": 3})).layout.written is None


def test_errors_speak_of_the_part_of_the_table_that_a_user_knows():
    tables = [long_table({"a": 3}), wide_table(), wide_table()["b"], wide_table().to_numpy()]
    assert [read(table).owner(0) for table in tables] == ["series 'a'", "the table", "the table", "the table"]
    spoken = ["column 'y' of series 'a'", "column 'a'", "the Series", "channel 0"]
    assert [read(table).channel(0) for table in tables] == spoken


def test_counts_are_written_in_words():
    assert [some(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


# Refusals


@pytest.mark.parametrize("dtype", ["bool", "boolean", "object", "str", "complex128", "category"])
def test_values_that_are_no_numbers_are_named(dtype):
    values = pd.Series([1, 0, 1]).astype(dtype)
    error = ValueError if dtype == "complex128" else TypeError
    for table in (long_table({"a": 3}, y=values), wide_table(3, y=values.array)):
        got = table["y"].dtype
        with pytest.raises(error, match=rf"column 'y' must hold .*numbers, got dtype {got}"):
            read(table)


def test_missing_ids_and_times_are_counted():
    table = long_table({"a": 4})
    with pytest.raises(ValueError, match="column 'unique_id' has 2 missing values, the first in row 1"):
        read(table.assign(unique_id=["a", None, None, "a"]))
    with pytest.raises(ValueError, match="the times have 1 missing value, the first in row 2"):
        read(table.assign(ds=table["ds"].where(table.index != 2)))


def test_the_shortest_series_is_named():
    with pytest.raises(ValueError, match="series 'b' has 1 row; at least 3 are needed"):
        read(long_table({"a": 5, "b": 1, "c": 2}), min_rows=3)
    with pytest.raises(ValueError, match="the table has 2 rows; at least 3 are needed"):
        read(wide_table(2), min_rows=3)
    with pytest.raises(ValueError, match=r"the table has 2 rows \(n_samples = 2\); at least 3 are needed"):
        read(np.zeros((2, 4)), min_rows=3)
    assert read(long_table({"a": 5, "b": 1})).values.tolist() == [[0, 1, 2, 3, 4, 100]]


def test_names_of_columns_must_differ_and_leave_room_for_the_forecast():
    with pytest.raises(ValueError, match="must name three different columns, got 'ds', 'ds', 'y'"):
        read(long_table({"a": 3}), id_col="ds")
    with pytest.raises(ValueError, match="the forecast's own column is 'Titans'; rename"):
        read(long_table({"a": 3}).rename(columns={"ds": "Titans"}), time_col="Titans")


def test_extra_columns_are_named():
    with pytest.raises(ValueError, match=r"columns \['promo', 'price'\] are neither id, time nor target; drop them"):
        read(long_table({"a": 3}, promo=1, price=2.0))


@pytest.mark.parametrize(
    "columns",
    [["unique_id", "date", "y"], ["unique_id", "ds", "value"], ["unique_id", "when", "value"]],
)
def test_columns_that_fit_no_layout_are_named(columns):
    with pytest.raises(ValueError, match=r"the columns \['unique_id', .* fit no layout; pass a long table"):
        read(long_table({"a": 3}).set_axis(columns, axis=1))


def test_two_columns_of_dates_or_none_of_numbers_fit_no_layout():
    dates = pd.date_range("2024", periods=3)
    for columns in ({"from": dates, "to": dates, "x": 1.0}, {"from": dates}, {}):
        with pytest.raises(ValueError, match="fit no layout"):
            read(pd.DataFrame(columns, index=range(3)))


def test_column_names_must_be_unique():
    with pytest.raises(ValueError, match="column names must be unique, got 'a' more than once"):
        read(wide_table().set_axis(["a", "a"], axis=1))


def test_a_column_without_a_name_that_holds_no_numbers_is_named():
    df = pd.DataFrame({"a": [1.0, 2.0], "b": [2**70, 2**70]}).set_axis(pd.Index(["a", None], dtype=object), axis=1)
    with pytest.raises(TypeError, match="column None must hold real numbers"):
        read(df)


def test_a_multiindex_of_columns_is_refused_with_what_flattens_it():
    levels = pd.MultiIndex.from_product([["y"], ["a", "b"]])
    df = pd.DataFrame(np.arange(6.0).reshape(3, 2), index=pd.date_range("2024", periods=3), columns=levels)
    with pytest.raises(ValueError, match="columns must not have a MultiIndex; flatten it") as caught:
        read(df)
    assert read(mended(df, caught.value)).ids.tolist() == ["('y', 'a')", "('y', 'b')"]


# An index with ids or times


def mended(df: object, error: Exception, call: int = 0) -> pd.DataFrame:
    """The table after the call of pandas that an error names."""
    return eval(re.findall(r"`(df\..*?)`(?=[,.; ]|$)", str(error))[call], {"df": df, "pd": pd, "str": str})


LONG = long_table({"a": 4, "b": 3})


@pytest.mark.parametrize(
    "table",
    [
        LONG.set_index("unique_id"),
        LONG.set_index("ds"),
        LONG.set_index(["unique_id", "ds"]),
        LONG.set_index(["ds", "unique_id"]),
        LONG.set_index(["unique_id", "ds"])["y"],
        LONG.set_index(["unique_id", "ds"])["y"].rename(None),
        LONG.set_index("ds").rename_axis(None),
        LONG.set_index("unique_id", drop=False),
        LONG.set_index("ds", drop=False),
        LONG.assign(unique_id=[1] * 4 + [2] * 3).set_index("unique_id"),
    ],
)
def test_ids_and_times_of_a_long_table_are_found_in_the_index(table):  # case 42
    before = table.copy()
    rows = read(table)
    assert (rows.layout.kind, rows.layout.id_col, rows.layout.time_col) == ("long", "unique_id", "ds")
    assert rows.ids.tolist() in (["a", "b"], [1, 2])
    assert rows.codes.tolist() == [0] * 4 + [1] * 3
    assert rows.labels.tolist() == LONG["ds"].tolist()
    assert rows.values.tolist() == [LONG["y"].tolist()]
    assert table.equals(before)
    assert table.index.names == before.index.names


def test_levels_without_names_are_named_by_the_call_of_the_error():
    for names in (["unique_id", "ds"], ["ds", "unique_id"]):
        for df in (LONG.set_index(names), LONG.set_index(names)["y"]):
            df = df.rename_axis([None, None])
            with pytest.raises(
                ValueError, match=r"must have levels 'unique_id' and 'ds', got \[None, None\]"
            ) as caught:
                read(df)
            assert read(mended(df, caught.value)).ids.tolist() == ["a", "b"]
    other = LONG.set_index(["unique_id", "ds"]).rename_axis(["store", "date"])
    with pytest.raises(ValueError, match="or pass `id_col='store', time_col='date'`"):
        read(other)
    assert read(other, id_col="store", time_col="date").ids.tolist() == ["a", "b"]
    deep = LONG.assign(x=1).set_index(["unique_id", "ds", "x"]).rename_axis([None, None, None])
    with pytest.raises(ValueError, match=r"a MultiIndex must have levels .*; flatten it, with `df.reset_index\(\)`"):
        read(deep)


def test_an_index_that_differs_from_the_column_of_its_name_is_refused():
    for name, other in (("unique_id", "zzzzzzz"), ("ds", pd.date_range("1999", periods=7))):
        df = LONG.set_index(pd.Index(list(other), name=name))
        with pytest.raises(ValueError, match=rf"two '{name}', a column and the index") as caught:
            read(df)
        assert read(mended(df, caught.value)).ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("ids", [list("aaaabbb"), [1] * 4 + [2] * 3, pd.Categorical(list("aaaabbb"))])
@pytest.mark.parametrize("columns", [["ds", "y"], ["when", "value"]])
def test_other_ids_in_the_index_are_never_dropped(ids, columns):
    apart = pd.date_range("2024-01-01", periods=7)  # read as one series, they would fit
    df = pd.DataFrame({columns[0]: apart, columns[1]: range(7)}, index=pd.Index(ids, name="store"))
    with pytest.raises(ValueError, match=r"the index 'store' holds .* beside times in column '(ds|when)'") as caught:
        read(df)
    drop = read(mended(df, caught.value, 1))
    assert drop.values.tolist() == [list(range(7))]
    named = mended(df, caught.value)
    if columns[0] == "ds":
        assert read(named).codes.tolist() == [0] * 4 + [1] * 3
    else:
        with pytest.raises(ValueError, match="`time_col='when', target_col='value'`"):
            read(named)
        assert read_rows(named, "unique_id", "when", "value", 1).codes.tolist() == [0] * 4 + [1] * 3


def test_times_in_the_index_and_in_a_column_are_refused_unless_they_are_the_same():
    table = wide_table(4, "D")
    for index in (table.index, table.index.strftime("%Y-%m-%d"), table.index.to_period("D")):
        df = table.set_axis(index).assign(date=pd.date_range("1999", periods=4))
        with pytest.raises(ValueError, match=r"times in its index.* and in column 'date', and they differ") as caught:
            read(df)
        for call in (0, 1):
            assert read(mended(df, caught.value, call)).ids.tolist() == ["a", "b"]
    assert read(table.assign(date=table.index)).layout.time_col == "date"


@pytest.mark.parametrize("index", [[0, 1, 2, 0, 1, 2, 3], [9, 3, 4, 1, 0, 7, 5], pd.RangeIndex(1, 8, name="row")])
def test_an_index_of_row_numbers_is_left_out(index):
    assert read(LONG.set_axis(index)).codes.tolist() == [0] * 4 + [1] * 3


def test_an_index_of_ids_is_no_time_of_a_wide_table_or_series():
    for ids in ([1, 2, 3], list("abc")):
        series = pd.Series(range(3), index=pd.Index(ids, name="unique_id"))
        with pytest.raises(ValueError, match="the index of a Series must hold its times, but is named 'unique_id'"):
            read(series)
        with pytest.raises(ValueError, match=r"the columns \['unique_id', 'a'\] fit no layout"):
            read(series.to_frame("a"))


@pytest.mark.parametrize(
    "table", [pd.Series(dtype=float), np.zeros((0, 2)), long_table({"a": 3})[:0], wide_table()[:0]]
)
def test_empty_tables_are_refused(table):
    with pytest.raises(ValueError, match="the table has no rows"):
        read(table)


def test_array_without_channels_is_refused():
    with pytest.raises(ValueError, match=r"at least one channel, got 0 feature\(s\) \(shape=\(3, 0\)\)"):
        read(np.zeros((3, 0)))


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"shape \(rows, channels\), got \(3,\)\. Reshape .* `.reshape\(-1, 1\)`"):
        read(np.zeros(3))
    for shape in ((3, 2, 1), ()):
        with pytest.raises(ValueError, match=f"shape \\(rows, channels\\), got {re.escape(str(shape))}\\.$"):
            read(np.zeros(shape))


def test_complex_arrays_are_refused():
    with pytest.raises(ValueError, match=r"Complex data not supported: an array .*got dtype complex128; use `.real`"):
        read(np.array([[1], [1j], [2]]))


def test_an_array_of_objects_is_read_where_all_are_numbers():
    numbers = np.array([[1, 2.5], [Decimal("0.5"), np.float32(4)], [Fraction(1, 4), 5]], dtype=object)
    assert read(numbers).values.tolist() == [[1, 0.5, 0.25], [2.5, 4, 5]]
    numbers[1, 0] = None
    assert np.isnan(read(numbers).values).tolist() == [[False, True, False], [False] * 3]
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
        read(np.array([[1], [value], [2]], dtype=object))


def test_times_of_float16_are_refused_as_other_fractions_are():
    table = pd.DataFrame({"ds": np.arange(6).astype(np.float16) / 2, "a": np.arange(6.0)})
    with pytest.raises(ValueError, match="time labels 'ds' must be dates, periods or integers, got dtype float"):
        read_table(table)
