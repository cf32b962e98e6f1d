"""Peers on a problem with covariates: what they are given, and that nothing after an origin reaches its forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmark import covariates_peers
from benchmark.covariates_data import Problem
from benchmark.covariates_peers import features, filled, seasonal_naive


def test_the_naive_forecast_is_what_came_a_week_before(weather_problem: Problem) -> None:
    found = seasonal_naive(weather_problem).forecast
    values = filled(weather_problem).pivot(index="ds", columns="unique_id", values="y")[weather_problem.ids]
    first = values.index.get_loc(weather_problem.origins[1])
    np.testing.assert_array_equal(found[:, 1], values.iloc[first - 168 : first - 144].to_numpy().T)


def test_missing_values_are_those_of_a_week_before_and_weigh_nothing(weather_problem: Problem) -> None:
    frame = weather_problem.frame.copy()
    frame.loc[[5, 300], "y"] = np.nan
    found = filled(replace(weather_problem, frame=frame))
    assert found["y"][5] == frame["y"][4]
    assert found["y"][300] == frame["y"][132]
    assert found.index[found["weight"] == 0].tolist() == [5, 300]


def test_features_are_numbers_of_the_weather_and_of_the_calendar(weather_problem: Problem) -> None:
    found = features(weather_problem)
    assert [*found] == ["unique_id", "ds", "temp", "sky", "weight", "y", "temp of a day", "hour", "weekday"]
    assert sorted(found["sky"].unique()) == [0, 1]
    assert found["temp of a day"][30] == pytest.approx(weather_problem.frame["temp"][7:31].mean())
    means = found[found["ds"] < weather_problem.begin].groupby("unique_id")["y"].mean()
    np.testing.assert_allclose(means, 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # mlforecast's, of pandas
@pytest.mark.parametrize("model", [covariates_peers.lightgbm_recursive, covariates_peers.lightgbm_direct])
def test_trees_forecast_from_nothing_after_an_origin(
    weather_problem: Problem, model: covariates_peers.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightgbm")
    pytest.importorskip("mlforecast")
    monkeypatch.setattr(covariates_peers, "MOST_TREES", 30)
    frame = weather_problem.frame.copy()
    frame.loc[frame["ds"] >= weather_problem.origins[-1], "y"] = 1e6
    before, after = (model(p).forecast for p in (weather_problem, replace(weather_problem, frame=frame)))
    np.testing.assert_array_equal(before, after)
    assert before.shape == weather_problem.actual().shape
