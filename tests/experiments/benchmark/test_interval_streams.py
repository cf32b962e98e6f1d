"""Frames of forecasts through the test rows, each from the rows before it alone."""

from __future__ import annotations

import sys
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark import interval_streams
from benchmark.interval_scores import LEVELS
from benchmark.interval_streams import LOOKBACK, Rows, auto_ets, conformal, every, fitted, streamed
from titans_ts import TitansForecaster
from titans_ts.datasets import Dataset

KEYS = ["unique_id", "ds", "step", "origin"]


@pytest.fixture
def rows(small: Dataset) -> Rows:
    return Rows(small, 6, every=96)


def quick(rows: Rows) -> TitansForecaster:
    """A fit without the choices that take time."""
    return fitted(rows, combine=False, context="window", d_model=8, n_layers=1, max_epochs=0)


def test_origins_go_through_the_test_rows_and_all_hours_and_end_within_them(small: Dataset) -> None:
    rows = Rows(small, 6)
    assert (rows.origins[0], rows.origins.step, rows.fitted) == (800, 25, 800)
    assert 1200 - 25 < rows.origins[-1] + 6 <= 1200
    assert rows.scales.to_dict() == pytest.approx(small.frame.iloc[:600].std(ddof=0).to_dict())


def test_each_forecast_is_beside_what_came(small: Dataset, rows: Rows) -> None:
    frozen, adaptive = streamed(quick(rows), rows)
    assert len(frozen) == len(adaptive) == 2 * 6 * len(rows.origins)
    assert frozen[KEYS].equals(adaptive[KEYS])
    row = frozen[(frozen["unique_id"] == "b") & (frozen["origin"] == 896) & (frozen["step"] == 3)].iloc[0]
    assert row["ds"] == small.frame.index[898]
    assert row["y"] == small.frame["b"].iloc[898]
    assert frozen["Titans"].notna().all()
    np.testing.assert_array_equal(frozen["Titans"], adaptive["Titans"])
    for level in LEVELS:
        assert (frozen[f"Titans-lo-{level}"] <= frozen["Titans"]).all()
    first = frozen["origin"] == 800
    assert frozen[first].equals(adaptive[first]), "nothing has come yet"
    assert not frozen[~first].equals(adaptive[~first])
    assert every(rows, frozen, 3)["origin"].unique().tolist() == [800, 1088]


def test_frozen_intervals_keep_their_width_and_adaptive_ones_follow_the_errors(small: Dataset) -> None:
    loud = small.frame.copy()
    loud.iloc[800:] += np.random.default_rng(1).normal(0, 3, loud.iloc[800:].shape)
    rows = Rows(replace(small, frame=loud), 6, every=96)
    frozen, adaptive = (
        (frame["Titans-hi-80"] - frame["Titans-lo-80"]).groupby(frame["origin"]).mean()
        for frame in streamed(quick(rows), rows)
    )
    np.testing.assert_allclose(frozen, frozen.iloc[0], rtol=1e-6)  # of float32 errors
    assert adaptive.iloc[-1] > 2 * adaptive.iloc[0]


def test_nothing_reads_the_rows_that_it_forecasts(small: Dataset, rows: Rows) -> None:
    other = small.frame.copy()
    other.iloc[992:] = 1e3
    again = Rows(replace(small, frame=other), 6, every=96)
    model = quick(rows)
    for one, two in zip(streamed(deepcopy(model), rows), streamed(model, again), strict=True):
        columns = one.columns.drop("y")
        seen = one["origin"] <= 992
        pd.testing.assert_frame_equal(one.loc[seen, columns], two.loc[seen, columns])


def last_values(data: Dataset, frame: pd.DataFrame) -> np.ndarray:
    """The value of the row before each forecast's origin."""
    channel = data.frame.columns.get_indexer(frame["unique_id"])
    return data.frame.to_numpy()[frame["origin"] - 1, channel]


class Statistical:
    """A stand-in that forecasts the last value, with ends as far off as the level says."""

    def __init__(self, season_length: int) -> None:
        assert season_length == 24

    def forecast(self, y: np.ndarray, h: int, level: list[int]) -> dict[str, np.ndarray]:
        assert len(y) <= 1000
        found = {"mean": np.repeat(y[-1], h)}
        return found | {
            f"{end}-{x}": y[-1] + sign * np.repeat(x, h) for x in level for end, sign in (("lo", -1), ("hi", 1))
        }


def test_auto_ets_is_fitted_to_the_last_rows_of_each_channel(
    small: Dataset, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "statsforecast.models", SimpleNamespace(AutoETS=Statistical))
    monkeypatch.setitem(sys.modules, "statsforecast", SimpleNamespace())
    found = auto_ets(rows)
    expected = last_values(small, found)
    np.testing.assert_array_equal(found["AutoETS"], expected)
    np.testing.assert_allclose(found["AutoETS-hi-80"] - found["AutoETS"], 80)


def test_a_conformal_peer_is_calibrated_on_validation_rows_and_forecasts_in_the_units_of_the_data(
    small: Dataset, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    class Package:
        def __init__(self, models: list[Any], freq: str) -> None:
            asked["freq"] = freq

        def fit(self, df: pd.DataFrame, prediction_intervals: Any) -> None:
            asked["rows"], asked["intervals"] = len(df) // 2, prediction_intervals

        def predict(self, df: pd.DataFrame, level: list[int]) -> pd.DataFrame:
            assert len(df) == 2 * LOOKBACK
            last = df.groupby("unique_id", sort=False).tail(1)
            ahead = [last.assign(ds=last["ds"] + pd.Timedelta(hours=step)) for step in range(1, 7)]
            frame = pd.concat(ahead, ignore_index=True).rename(columns={"y": "NHITS"})
            return frame.assign(**{f"NHITS-{end}-{x}": frame["NHITS"] for x in level for end in ("lo", "hi")})

    def intervals(n_windows: int, step_size: int) -> tuple[int, int]:
        return n_windows, step_size

    monkeypatch.setitem(sys.modules, "neuralforecast", SimpleNamespace(NeuralForecast=Package))
    monkeypatch.setitem(sys.modules, "neuralforecast.utils", SimpleNamespace(PredictionIntervals=intervals))
    monkeypatch.setattr(interval_streams, "peer_model", lambda name, horizon, steps, **settings: (name, horizon, steps))
    found = conformal(rows, "NHITS")
    windows, spacing = asked["intervals"]
    assert (asked["freq"], asked["rows"]) == ("h", 800)
    assert windows >= 100
    assert (windows - 1) * spacing + 6 <= 200
    expected = last_values(small, found)
    np.testing.assert_allclose(found["NHITS"], expected)
