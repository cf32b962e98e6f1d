"""Frames of the future: any order, more than is needed, and every lack named by id and time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from titans_ts.tables.covariate_columns import CovariateNames
from titans_ts.tables.future import future_of_rows, read_future
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table

from .sample_tables import long_table, wide_table

NAMED = CovariateNames(future=("x", "kind"))


def panel_of(table: Any, **options: Any) -> Panel:
    return read_table(table, **(dict(covariates=NAMED) | options))


def history() -> pd.DataFrame:
    """a ends on 5 January, b on the 7th."""
    table = long_table({"a": 5, "b": 6})
    return table.assign(x=np.arange(11.0), kind=list("uvuvuvuvuvu"))


def future(steps: int = 2, **columns: Any) -> pd.DataFrame:
    times = [pd.date_range("2024-01-06", periods=steps), pd.date_range("2024-01-08", periods=steps)]
    table = pd.DataFrame({"unique_id": np.repeat(["a", "b"], steps), "ds": times[0].append(times[1])})
    return table.assign(**({"x": np.arange(2.0 * steps), "kind": ["v", "u"] * steps} | columns))


def read(table: Any, steps: int = 2) -> np.ndarray:
    found = read_future(table, panel_of(history()), steps)
    assert found is not None
    return found


def test_values_are_those_of_each_series_and_step() -> None:
    assert read(future()).tolist() == [[[0, 1], [1, 0]], [[2, 1], [3, 0]]]


def test_order_of_rows_and_columns_further_rows_columns_and_series_do_no_harm() -> None:
    table = future(5, note="text", y=np.nan)
    other = table.assign(unique_id="c")
    early = table.assign(ds=table.ds - pd.Timedelta(days=5))[:5]
    table = pd.concat([other, table, early]).sample(frac=1, random_state=0)
    assert read(table[table.columns[::-1]]).tolist() == [[[0, 1], [1, 0]], [[5, 0], [6, 1]]]


@pytest.mark.parametrize("steps", [1, 2])
def test_the_frequency_of_few_rows_is_that_of_the_history(steps: int) -> None:
    assert read(future(steps), steps).shape == (2, steps, 2)


@pytest.mark.parametrize("steps", [1, 2])
def test_few_rows_of_a_single_series_and_of_a_wide_table_are_read(steps: int) -> None:
    single = history()[:5].drop(columns="unique_id")
    ahead = future(steps)[:steps].drop(columns="unique_id")
    found = read_future(ahead, panel_of(single), steps)
    assert found is not None
    assert found[0, :, 0].tolist() == list(range(steps))

    wide = wide_table(5, x=np.arange(5.0), kind="u")
    times = pd.date_range("2024-01-01 05:00", periods=steps, freq="h", name="when")
    table = pd.DataFrame({"x": np.arange(steps) + 7.0, "kind": "u"}, index=times)
    found = read_future(table, panel_of(wide), steps)
    assert found is not None
    assert found[:, :, 0].tolist() == [[7.0 + i for i in range(steps)]] * 2

    column = wide.reset_index()
    found = read_future(table.reset_index(), panel_of(column, time_col="when"), steps)
    assert found is not None
    assert found[:, :, 0].tolist() == [[7.0 + i for i in range(steps)]] * 2


def test_polars_frames_are_read() -> None:
    panel = panel_of(pl.from_pandas(history()))
    found = read_future(pl.from_pandas(future()), panel, 2)
    assert np.array_equal(found, read(future()))  # type: ignore[arg-type]


def test_custom_names_of_columns_are_kept() -> None:
    renamed = {"unique_id": "shop", "ds": "day", "y": "sold"}
    options = dict(id_col="shop", time_col="day", target_col="sold")
    found = read_future(future().rename(columns=renamed), panel_of(history().rename(columns=renamed), **options), 2)
    assert np.array_equal(found, read(future()))  # type: ignore[arg-type]


def test_missing_rows_are_listed() -> None:
    with pytest.raises(ValueError, match=r"2 of 4 are missing: \[\('a', 2024-01-07\), \('b', 2024-01-08\)\]"):
        read(future().drop(index=[1, 2]))


def test_of_many_missing_rows_the_first_are_listed() -> None:
    with pytest.raises(
        ValueError, match=r"10 of 20 are missing: \[\('b', 2024-01-08\),.*\('b', 2024-01-12\), \.\.\.\]"
    ):
        read(future(10)[:10], 10)


@pytest.mark.parametrize("rows", [[0, 0, 1, 2, 3], [0, 1, 2, 3, 3, 3]])
def test_rows_that_come_twice_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match=r"2024-01-0[69]"):
        read(future().iloc[rows])


@pytest.mark.parametrize(("column", "value"), [("x", [0, np.nan, 1, 2]), ("kind", ["u", None, "u", "v"])])
def test_missing_values_are_listed(column: str, value: list[Any]) -> None:
    with pytest.raises(
        ValueError, match=rf"column '{column}' of `future` has 1 missing values, at \[\('a', 2024-01-07\)"
    ):
        read(future(**{column: value}))


def test_a_missing_value_that_is_not_needed_does_no_harm() -> None:
    assert read(future(2, x=[0, np.nan, 1, np.nan]), 1)[..., 0].tolist() == [[0], [1]]


def test_missing_columns_are_named() -> None:
    with pytest.raises(ValueError, match=r"`future` must have the columns \['x', 'kind'\], but \['kind'\] are missing"):
        read(future().drop(columns="kind"))


def test_unknown_categories_are_refused() -> None:
    with pytest.raises(ValueError, match="column 'kind' has 'w', which was not in the data fitted"):
        read(future(kind=list("uvuw")))


def test_nothing_given_is_refused_with_the_way_to_make_it() -> None:
    with pytest.raises(ValueError, match=r"`future` must give \['x', 'kind'\].*`make_future_frame\(2\)`"):
        read(None)


def test_something_given_where_nothing_is_wanted_is_refused() -> None:
    panel = read_table(history()[["unique_id", "ds", "y"]])
    with pytest.raises(ValueError, match="`future` must be None"):
        read_future(future(), panel, 2)
    assert read_future(None, panel, 2) is None


@pytest.mark.parametrize("given", [3, np.ones((2, 2)), "later"])
def test_what_is_no_frame_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"[fF]rame"):
        read(given)


def test_times_between_the_steps_of_a_series_are_refused() -> None:
    table = future()
    table.loc[2:, "ds"] += pd.Timedelta(hours=12)
    message = r"series 'b' has a row at 2024-01-08 12:00:00, between its steps, of which 2024-01-08.* is one"
    with pytest.raises(ValueError, match=message):
        read(table)
    with pytest.raises(ValueError, match="2024-01-06 12:00:00 is not on the grid of 'D'"):
        read_future(
            future().assign(ds=lambda t: t.ds + pd.Timedelta(hours=12))[:2].drop(columns="unique_id"),
            panel_of(history()[:5].drop(columns="unique_id")),
            2,
        )


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="row"):
        read(future()[:0])


def test_rows_that_came_later_give_the_future_and_stay_after_their_last() -> None:
    panel, table = panel_of(history()), future(3)
    rows = panel_of(
        table.assign(y=1.0).drop(index=[5]), calendar=panel.calendar, covariates=panel.covariates, min_rows=1
    )
    found = future_of_rows(rows, panel, 3)
    assert found is not None
    assert found[..., 0].tolist() == [[0, 1, 2], [3, 4, 4]]


def test_rows_that_came_later_must_begin_at_once() -> None:
    panel, table = panel_of(history()), future(3)
    rows = panel_of(
        table.assign(y=1.0).drop(index=[3]), calendar=panel.calendar, covariates=panel.covariates, min_rows=1
    )
    with pytest.raises(ValueError, match=r"series 'b' skips 1 rows, whose \['x', 'kind'\] are not known"):
        future_of_rows(rows, panel, 3)
