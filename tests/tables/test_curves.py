"""Tables of any layout as the curves of their series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from titans_ts.tables.curves import forecasts_of, has_times, kind_of, read_curves

DAYS = pd.date_range("2024-01-01", periods=3)
NAMES = dict(id_col="unique_id", time_col="ds")
LONG = pd.DataFrame({"unique_id": list("bbbaaa"), "ds": [*DAYS[::-1], *DAYS], "y": [3.0, 2, 1, 4, 5, 6], "x": 1.0})
WIDE = pd.DataFrame({"b": [1.0, 2, 3], "a": [4.0, 5, 6]}, index=DAYS)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (LONG, "long"),
        (pl.from_pandas(LONG), "long"),
        (LONG.set_index(["unique_id", "ds"]), "long"),
        (WIDE, "wide"),
        (WIDE.rename_axis("ds").reset_index(), "wide"),
        (pl.from_pandas(WIDE.reset_index(names="when")), "wide"),
        (WIDE.set_axis(WIDE.index.to_period("D")), "wide"),
        (WIDE.set_axis(WIDE.index.strftime("%Y-%m-%d")), "wide"),
    ],
)
def test_series_come_in_their_order_with_rows_in_the_order_of_time(table: Any, kind: str) -> None:
    assert kind_of(table, "unique_id", "ds", ["y"]) == kind
    curves = read_curves(table, kind, **NAMES, value="y")
    assert list(curves) == ["b", "a"]
    for name, values in {"b": [1, 2, 3], "a": [4, 5, 6]}.items():
        assert curves[name]["y"].tolist() == values
        assert pd.DatetimeIndex(curves[name].index).equals(DAYS)


@pytest.mark.parametrize(
    "table", [WIDE["b"], WIDE["b"].rename_axis("ds").rename("y").reset_index(), pl.Series("b", [1.0, 2, 3])]
)
def test_one_series_has_no_id(table: Any) -> None:
    kind = kind_of(table, "unique_id", "ds", ["y"])
    assert kind == "single"
    (curve,) = read_curves(table, kind, **NAMES, value="y").values()
    assert curve["y"].tolist() == [1, 2, 3]


def test_columns_of_a_wide_forecast_belong_to_their_series() -> None:
    frame = WIDE.assign(**{"a-lo-80": 1.0, "a-hi-80": 9.0, "b-q0.1": 0.0}).rename(columns={"b": 7, "b-q0.1": "7-q0.1"})
    curves = read_curves(frame, "wide", **NAMES, value="Titans")
    assert list(curves) == [7, "a"]
    assert curves["a"].columns.tolist() == ["Titans", "Titans-lo-80", "Titans-hi-80"]
    assert curves[7].columns.tolist() == ["Titans", "Titans-q0.1"]


def test_rows_of_arrays_are_numbered() -> None:
    curves = read_curves(np.arange(6.0).reshape(3, 2), "wide", **NAMES, value="y")
    assert curves[1]["y"].to_dict() == {0: 1, 1: 3, 2: 5}


def test_arrays_and_polars_without_dates_have_no_times() -> None:
    tables = (np.zeros((3, 2)), pl.Series([1.0]), pl.DataFrame({"a": [1.0]}))
    assert not any(has_times(table, "ds") for table in tables)
    assert all(has_times(table, "ds") for table in (LONG, WIDE, WIDE["a"], pl.from_pandas(LONG)))
    assert has_times(pl.DataFrame({"when": [DAYS[0]], "a": [1.0]}), "ds")


def test_models_and_their_intervals_are_told_by_the_columns() -> None:
    columns = ["Titans", "Titans-lo-80", "Titans-hi-80", "Titans-lo-97.5", "Titans-hi-97.5", "Naive-drift"]
    found = forecasts_of(columns)
    assert list(found) == ["Titans", "Naive-drift"]
    assert list(found["Titans"].intervals) == [97.5, 80]  # the widest is drawn first
    assert found["Titans"].intervals[80] == ("Titans-lo-80", "Titans-hi-80")
    assert found["Naive-drift"].point == "Naive-drift"
    assert found["Naive-drift"].intervals == {}


def test_pairs_of_quantiles_are_intervals_and_the_median_a_point() -> None:
    found = forecasts_of(["Titans-q0.05", "Titans-q0.5", "Titans-q0.95", "Titans-q0.7"])["Titans"]
    assert found.point == "Titans-q0.5"
    assert found.intervals == {90: ("Titans-q0.05", "Titans-q0.95")}
    assert found.quantiles == {0.7: "Titans-q0.7"}
    beside = forecasts_of(["Titans", "Titans-q0.5"])["Titans"]
    assert (beside.point, beside.quantiles) == ("Titans", {0.5: "Titans-q0.5"})
