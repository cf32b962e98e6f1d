"""The estimator on a problem: each row is given its own columns, and what it is given lowers the errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from benchmark import covariates_ours
from benchmark.covariates_data import Problem
from titans_ts import TitansForecaster


@pytest.fixture(autouse=True)
def closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    quick: dict[str, Any] = dict(max_epochs=0, d_model=8, context="window", combine=False, linear_path=True)
    monkeypatch.setattr(covariates_ours, "TitansForecaster", partial(TitansForecaster, **quick))
    monkeypatch.setattr(covariates_ours, "LOOKBACK", 24)


def test_covariates_that_decide_lower_the_errors(weather_problem: Problem) -> None:
    actual = weather_problem.actual()
    found = {row: covariates_ours.forecast(weather_problem, row) for row in ("ours", "ours, covariates")}
    error = {row: np.nanmean(np.abs(outcome.forecast - actual)) for row, outcome in found.items()}
    assert error["ours, covariates"] < 0.5 * error["ours"]
    assert "covariates read" in found["ours, covariates"].choices
    assert "covariates" not in found["ours"].choices


def test_a_forecast_ignores_what_comes_after_its_origin(weather_problem: Problem) -> None:
    frame = weather_problem.frame.copy()
    last = weather_problem.origins[-1]
    frame.loc[frame["ds"] >= last, "y"] = 1e6
    changed = replace(weather_problem, frame=frame)
    before, after = (covariates_ours.forecast(p, "ours, covariates").forecast for p in (weather_problem, changed))
    np.testing.assert_array_equal(before, after)
