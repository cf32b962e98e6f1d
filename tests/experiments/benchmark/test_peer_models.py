"""What is asked of other packages, of which a stand-in answers here."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark import peer_models
from titans_ts.datasets import Split

ROWS, HORIZON = 60, 4
SPLIT = Split(range(30), range(30, 45), range(45, ROWS))


class Network:
    """A stand-in whose forecasts are one too high."""

    def __init__(self, h: int, input_size: int, max_steps: int = 1000, **settings: Any) -> None:
        self.h, self.max_steps, self.settings = h, max_steps, settings
        self.train_trajectories: list[int] = []


class Forecaster:
    def __init__(self, models: list[Network], freq: str) -> None:
        self.models = models

    def fit(self, table: pd.DataFrame, val_size: int) -> None:
        self.fitted, self.val_size = table, val_size
        self.models[0].train_trajectories = [0] * 7
        Forecaster.last = self

    def cross_validation(self, table: pd.DataFrame, test_size: int, **span: Any) -> pd.DataFrame:
        windows = []
        for _, series in table.groupby("unique_id"):
            y = series["y"].to_numpy()
            windows += [y[t : t + self.models[0].h] for t in range(len(y) - test_size, len(y) - self.models[0].h + 1)]
        y = np.concatenate(windows[Forecaster.dropped :])
        return pd.DataFrame({"y": y, "NHITS": y + 1})

    last: Forecaster
    dropped = 0


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "neuralforecast", SimpleNamespace(NeuralForecast=Forecaster))
    monkeypatch.setitem(sys.modules, "neuralforecast.models", SimpleNamespace(NHITS=Network))
    monkeypatch.setitem(sys.modules, "neuralforecast.losses.pytorch", SimpleNamespace(MSE=object))


@pytest.fixture
def scaled() -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    return pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 2)), index, ["a", "b"])


def test_quality_is_over_every_test_window_and_test_is_not_fitted(scaled: pd.DataFrame) -> None:
    found = peer_models.peer_quality("NHITS", scaled, SPLIT, HORIZON, 10, seed=3)
    assert (found.mse, found.mae, found.steps) == (pytest.approx(1), pytest.approx(1), 7)
    last = Forecaster.last
    assert (last.fitted["ds"].max(), last.val_size) == (scaled.index[44], 15)
    assert last.models[0].settings["random_seed"] == 3
    assert last.models[0].max_steps == 10


def test_windows_left_out_are_an_error(scaled: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forecaster, "dropped", 1)
    with pytest.raises(RuntimeError, match=r"NHITS forecast 92 values over the test rows, expected 96\."):
        peer_models.peer_quality("NHITS", scaled, SPLIT, HORIZON, 10)


def test_the_default_steps_are_the_networks_own() -> None:
    assert peer_models.default_steps("NHITS") == 1000


def test_a_long_table_has_a_row_for_each_value(scaled: pd.DataFrame) -> None:
    long = peer_models.to_long(scaled)
    assert long.columns.tolist() == ["ds", "unique_id", "y"]
    pd.testing.assert_frame_equal(
        long.pivot(index="ds", columns="unique_id", values="y"), scaled, check_names=False, check_freq=False
    )
