"""Frames of forecasts for the series of a competition, by stand-ins whose forecasts are known."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark import interval_competitions
from benchmark.interval_competitions import CALIBRATION_WINDOWS, auto_ets, conformal, ours, scales
from benchmark.interval_scores import LEVELS
from titans_ts.datasets import Competition

PAST = {"b": [1.0, 3.0, 2.0], "a": [10.0, 30.0]}  # mean steps 1.5 and 20


@pytest.fixture
def small() -> Competition:
    """Two yearly series, the one that comes last by name first."""
    train = [(name, pd.Timestamp(2001 - len(x) + i, 1, 1), y) for name, x in PAST.items() for i, y in enumerate(x)]
    test = [(name, pd.Timestamp(year, 1, 1), 5.0) for name in PAST for year in (2001, 2002)]
    tables = (pd.DataFrame(rows, columns=["unique_id", "ds", "y"]) for rows in (train, test))
    return Competition("M3 yearly", "YS", 2, 1, 2, *tables, None, None)


def ends(model: str, forecast: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{model}-{end}-{x}": forecast + sign * x for x in LEVELS for end, sign in (("lo", -1), ("hi", 1))}


def check(found: pd.DataFrame, model: str) -> None:
    """That each series' last value is its forecast, beside what came."""
    assert list(found["unique_id"]) == ["b", "b", "a", "a"]
    assert list(found["step"]) == [1, 2, 1, 2]
    assert list(found["y"]) == [5.0] * 4
    assert list(found[model]) == [2.0, 2.0, 30.0, 30.0]
    assert list(found[f"{model}-hi-80"]) == [82.0, 82.0, 110.0, 110.0]


class Package:
    """The rows of both series, in the order of their names."""

    asked: dict[str, Any]

    def __init__(self, **settings: Any) -> None:
        self.asked.update(settings)
        self.column = "Titans" if "horizon" in settings else "NHITS"

    def fit(self, df: pd.DataFrame, **how: Any) -> Package:
        self.asked.update(how)
        return self

    def predict(self, level: Any) -> pd.DataFrame:
        assert list(level) == list(LEVELS)
        ds = [pd.Timestamp(year, 1, 1) for year in (2001, 2002)]
        forecast = np.array([30.0, 30.0, 2.0, 2.0])
        table = pd.DataFrame({"unique_id": ["a", "a", "b", "b"], "ds": ds * 2, self.column: forecast})
        return table.assign(**ends(self.column, forecast))


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[Package]:
    monkeypatch.setattr(Package, "asked", {}, raising=False)
    return Package


def test_the_unit_of_a_series_is_that_of_mase(small: Competition) -> None:
    assert scales(small).to_dict() == {"b": 1.5, "a": 20.0}


def test_ours_are_of_the_estimator_as_it_comes(
    small: Competition, package: type[Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interval_competitions, "TitansForecaster", package)
    check(ours(small), "Titans")
    assert package.asked == {"horizon": 2, "random_state": 0, "verbose": 0}


def test_auto_ets_forecasts_one_series_after_another(small: Competition, monkeypatch: pytest.MonkeyPatch) -> None:
    class Statistical:
        def __init__(self, season_length: int) -> None:
            assert season_length == 1

        def forecast(self, y: np.ndarray, h: int, level: list[int]) -> dict[str, np.ndarray]:
            forecast = np.repeat(y[-1], h)
            return {"mean": forecast} | {name[1:]: end for name, end in ends("", forecast).items()}

    monkeypatch.setitem(sys.modules, "statsforecast.models", SimpleNamespace(AutoETS=Statistical))
    monkeypatch.setitem(sys.modules, "statsforecast", SimpleNamespace())
    check(auto_ets(small), "AutoETS")


def test_a_conformal_peer_is_calibrated_on_the_end_of_each_history(
    small: Competition, package: type[Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    utils = SimpleNamespace(PredictionIntervals=lambda n_windows: n_windows)
    monkeypatch.setitem(sys.modules, "neuralforecast", SimpleNamespace(NeuralForecast=package))
    monkeypatch.setitem(sys.modules, "neuralforecast.utils", utils)
    monkeypatch.setattr(interval_competitions, "peer_model", lambda name, horizon, steps, **how: (name, horizon, steps))
    check(conformal(small, "NHITS", 7), "NHITS")
    assert package.asked == {"models": [("NHITS", 2, 7)], "freq": "YS", "prediction_intervals": CALIBRATION_WINDOWS}
