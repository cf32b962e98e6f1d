"""Columns of covariates: to numbers, to the rows of series, complete, and further ones ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from titans_ts.tables.covariate_columns import CovariateNames
from titans_ts.tables.covariates import MOST_CATEGORIES, covariates_ahead, mean_and_deviation
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table

from .sample_tables import long_table, wide_table


def read(table: Any, missing: str = "error", **named: list[str]) -> Panel:
    given = {"static": None, "past": None, "future": None, "calendar": None} | named
    return read_table(table, missing=missing, covariates=CovariateNames.of(**given, roles=("unique_id", "ds", "y")))


def covariates(panel: Panel) -> np.ndarray:
    assert panel.data.covariates is not None
    return panel.data.covariates


def small(**columns: Any) -> pd.DataFrame:
    """Rows of a and b, three and four."""
    return long_table({"a": 3, "b": 4}).assign(**columns)


def test_numbers_stay_as_they_are_and_categories_are_numbered_in_order() -> None:
    panel = read(
        small(x=[1.5, 2, 3, 4, 5, 6, 7], kind=list("zzyyxxx"), on=[True, False] * 3 + [True]),
        past=["x"],
        future=["kind", "on"],
    )
    assert covariates(panel)[:, 0].tolist() == [1.5, 2, 3, 4, 5, 6, 7]
    assert covariates(panel)[:, 1].tolist() == [2, 2, 1, 1, 0, 0, 0]
    assert covariates(panel)[:, 2].tolist() == [1, 0, 1, 0, 1, 0, 1]
    assert panel.covariates is not None
    assert [column.categories for column in panel.covariates.columns] == [None, ("x", "y", "z"), None]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "Int64", "boolean", "bool"])
def test_numbers_of_every_dtype_are_read(dtype: str) -> None:
    column = pd.Series([1, 0, 0, 1, 1, 0, 1]).astype(dtype)
    assert covariates(read(small(x=column), past=["x"]))[:, 0].tolist() == [1, 0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize("dtype", [object, "category", "string", "string[pyarrow]"])
def test_categories_of_every_dtype_are_read_alike(dtype: Any) -> None:
    column = pd.Series(list("babbaab")).astype(dtype)
    assert covariates(read(small(x=column), past=["x"]))[:, 0].tolist() == [1, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["b", "a"])])
def test_categories_of_polars_are_read_alike(dtype: Any) -> None:
    table = pl.from_pandas(small(x=list("babbaab"))).with_columns(pl.col("x").cast(dtype))
    assert covariates(read(table, past=["x"]))[:, 0].tolist() == [1, 0, 1, 1, 0, 0, 1]


def test_categories_may_be_numbers_of_an_object_column() -> None:
    column = pd.Series([np.int64(5), 3, np.int64(3), 5, 3, 3, 5], dtype=object)
    assert covariates(read(small(x=column), past=["x"]))[:, 0].tolist() == [1, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.date_range("2024-01-01", periods=7), "column 'x' must hold numbers or categories, got dtype datetime64"),
        ([1j] * 7, "column 'x' must hold numbers or categories, got dtype complex128"),
        ([("a", 1)] * 7, r"column 'x' must hold text or numbers, got \('a', 1\); use `.astype\(str\)`"),
    ],
)
def test_what_is_neither_number_nor_category_is_refused(column: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        read(small(x=column), past=["x"])


def test_infinite_values_are_refused() -> None:
    with pytest.raises(ValueError, match="column 'x' has an infinite value in row 2"):
        read(small(x=[1, 2, np.inf, 3, 4, 5, 6]), past=["x"])


def test_a_column_of_ids_is_refused() -> None:
    table = long_table({"a": MOST_CATEGORIES + 1})
    with pytest.raises(ValueError, match=f"column 'x' must have at most {MOST_CATEGORIES} categories, got 201"):
        read(table.assign(x=[f"row {i}" for i in range(len(table))]), past=["x"])


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueError, match=r"columns of covariates \['x', 'z'\], but \['z'\] are missing"):
        read(small(x=1.0), past=["x"], future=["z"])


@pytest.mark.parametrize(("table", "kind"), [(np.ones((5, 2)), "an array"), (wide_table().a, "a Series")])
def test_covariates_of_what_is_no_frame_are_refused(table: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"covariates \['x'\] must be columns of a frame, got {kind}"):
        read(table, past=["x"])


def test_the_order_of_rows_does_not_matter() -> None:
    table = small(x=np.arange(7.0), kind=list("abcabca"))
    expected = read(table, past=["x"], future=["kind"])
    found = read(table.sample(frac=1, random_state=0), past=["x"], future=["kind"])
    assert np.array_equal(covariates(found), covariates(expected))


def test_columns_of_a_wide_table_are_of_all_series() -> None:
    panel = read(wide_table(4, x=[3.0, 1, 4, 1]), past=["x"])
    assert panel.ids.tolist() == ["a", "b"]
    assert covariates(panel)[:, 0].tolist() == [3, 1, 4, 1] * 2


def test_wide_series_that_begin_later_have_the_covariates_of_their_times() -> None:
    table = wide_table(6, x=np.arange(6.0))
    table.loc[table.index[:2], "b"] = np.nan
    panel = read(table, missing="ffill", past=["x"])
    assert covariates(panel)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5]


def test_a_missing_value_is_named() -> None:
    table = small(x=[1, 2, np.nan, 4, np.nan, 6, 7])
    with pytest.raises(ValueError, match="column 'x' has 2 missing values, the first in series 'a' at 2024-01-03"):
        read(table, future=["x"])


@pytest.mark.parametrize(("missing", "expected"), [("interpolate", [1, 2, 3, 4]), ("ffill", [1, 1, 1, 4])])
def test_numbers_are_filled_as_values_are_and_categories_carried(missing: str, expected: list[float]) -> None:
    table = long_table({"a": 4}).assign(x=[1, np.nan, np.nan, 4], kind=["p", None, None, "q"])
    panel = read(table, missing=missing, past=["x"], future=["kind"])
    assert covariates(panel)[:, 0].tolist() == expected
    assert covariates(panel)[:, 1].tolist() == [0, 0, 0, 1]


def test_rows_that_are_skipped_are_filled_too() -> None:
    table = long_table({"a": 6}).assign(x=np.arange(6.0), kind=list("ppqqqq")).drop(index=[2, 3])
    panel = read(table, missing="interpolate", past=["x"], future=["kind"], calendar=["weekday"])
    assert covariates(panel)[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert covariates(panel)[:, 1].tolist() == [0, 0, 0, 0, 1, 1]
    assert covariates(panel)[:, 2].tolist() == [0, 1, 2, 3, 4, 5]
    assert panel.data.is_observed.tolist() == [True, True, False, False, True, True]


def test_the_ends_of_a_column_are_carried_not_extended() -> None:
    table = long_table({"a": 5, "b": 5}).assign(x=[np.nan, 2, 4, 8, np.nan, np.nan, np.nan, 7, 9, np.nan])
    panel = read(table, missing="interpolate", past=["x"])
    assert covariates(panel)[:, 0].tolist() == [2, 2, 4, 8, 8, 7, 7, 7, 9, 9]


def test_a_series_without_any_value_is_named() -> None:
    with pytest.raises(ValueError, match="column 'x' has no value in series 'b'"):
        read(small(x=[1, 2, 3] + [np.nan] * 4), missing="ffill", past=["x"])


def test_static_columns_may_be_missing_in_some_rows_of_a_series() -> None:
    panel = read(small(x=[np.nan, 5, 5, 6, np.nan, 6, np.nan]), static=["x"])
    assert covariates(panel)[:, 0].tolist() == [5] * 3 + [6] * 4


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (list("uuvwwww"), "static column 'x' must be the same in all rows of a series, but changes in 'a'"),
        (["u"] * 3 + [None] * 4, "static column 'x' has no value in series 'b'"),
    ],
)
def test_a_static_column_that_changes_or_is_missing_is_refused(column: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(small(x=column), static=["x"])


def test_categories_that_were_not_fitted_are_refused_by_name() -> None:
    fitted = read(small(x=list("babbaab")), past=["x"])
    with pytest.raises(ValueError, match=r"column 'x' has 'c', which was not in the data fitted \(\['a', 'b'\]\)"):
        read_table(small(x=list("bacbaab")), covariates=fitted.covariates)


def test_text_where_numbers_were_fitted_is_refused() -> None:
    fitted = read(small(x=1.0), past=["x"])
    with pytest.raises(TypeError, match="column 'x' must hold numbers as in the data fitted, got dtype"):
        read_table(small(x="1.0"), covariates=fitted.covariates)


def test_ahead_static_columns_stay_past_ones_are_not_known_and_the_calendar_goes_on() -> None:
    table = small(x=np.arange(7.0), z=10.0, g=list("pppqqqq"))
    panel = read(table, static=["g"], past=["x"], future=["z"], calendar=["day"])
    future = np.arange(4.0).reshape(2, 2, 1)
    ahead = covariates_ahead(panel, 2, future)
    assert ahead.starts.tolist() == panel.data.ends.tolist()
    assert ahead.covariates is not None
    static, past, known, day = ahead.covariates.T
    assert static.tolist() == [0, 0, 1, 1]
    assert np.isnan(past).all()
    assert known.tolist() == [0, 1, 2, 3]
    assert (day + 1).tolist() == [4, 5, 6, 7]  # a ends on 3 January, b on the 5th


@pytest.mark.parametrize("value", [0.1, 1e12, 1e-12, 7.0, 0.0])
def test_a_column_that_does_not_vary_has_no_deviation_of_rounding(value: float) -> None:
    assert mean_and_deviation(np.full(1000, value)) == (value, 1.0)


def test_rows_after_skipped_ones_are_bridged_as_in_one_reading() -> None:
    table = long_table({"a": 9}).assign(x=np.arange(9.0) ** 2, kind=list("ppppqqqqq"))
    named = dict(past=["x"], future=["kind"], calendar=["weekday"])
    for missing in ("interpolate", "ffill"):
        whole = read(table.drop(index=[4, 5]), missing=missing, **named)
        first, later = (read(part, missing=missing, **named) for part in (table[:4], table[6:]))
        # the codes of a single category are those of the whole
        later = read_table(table[6:], missing=missing, covariates=whole.covariates, calendar=whole.calendar)
        first = read_table(table[:4], missing=missing, covariates=whole.covariates, calendar=whole.calendar)
        found = first.then(later, np.array([0]), missing)
        assert np.array_equal(covariates(found), covariates(whole))
        assert np.array_equal(found.data.values, whole.data.values)


def test_a_covariate_that_stands_twice_is_refused() -> None:
    twice = small(x=0.0)[["unique_id", "ds", "y", "x", "x"]]
    with pytest.raises(ValueError, match="column names must be unique, got 'x' more than once"):
        read(twice, future=["x"])
