"""What was known at a cutoff, and forecasts beside what came."""

from __future__ import annotations

import numpy as np
import pandas as pd

from titans_ts.cutoffs import known_rows, observed_rows, scored_frame
from titans_ts.tables.read import read_table

HOURS = pd.date_range("2024-01-01", periods=8, freq="h")
TABLE = pd.DataFrame({"ds": HOURS, "y": [0.0, np.nan, 2.0, np.nan, np.nan, 5.0, 6.0, np.nan]})


def test_known_rows_hold_the_last_value_where_their_end_was_filled() -> None:
    panel = read_table(TABLE, missing="interpolate")
    assert known_rows(panel, np.array([5])).data.values.tolist() == [0, 1, 2, 2, 2]
    assert known_rows(panel, np.array([6])).data.values.tolist() == [0, 1, 2, 3, 4, 5]
    whole = read_table(TABLE.dropna().assign(ds=HOURS[:4]))
    assert known_rows(whole, np.array([2])).data.values.tolist() == [0, 2]


def test_observed_rows_end_with_the_last_that_was_there() -> None:
    two = read_table(pd.DataFrame({"a": TABLE["y"], "b": np.arange(8.0)}).set_index(HOURS), missing="ffill")
    assert observed_rows(two).tolist() == [7, 8]


def test_a_frame_has_each_forecast_beside_the_rows_it_is_of() -> None:
    panel = read_table(TABLE, missing="interpolate").as_long("id", "t", "v")
    outputs = pd.DataFrame({"m": np.arange(6.0)})
    frame = scored_frame(panel, np.array([0, 0]), np.array([1, 4]), 3, outputs)
    assert list(frame.columns) == ["id", "ds", "cutoff", "y", "m"]
    assert frame["ds"].tolist() == [HOURS[2], HOURS[5], HOURS[6]]
    assert frame["cutoff"].tolist() == [HOURS[0], HOURS[3], HOURS[3]]
    assert frame["y"].tolist() == [2.0, 5.0, 6.0]
    assert frame["m"].tolist() == [1.0, 4.0, 5.0]
