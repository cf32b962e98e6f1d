"""Forecasts within bounds (case 57): of all series or of each, of any kind of table, saved and loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster


def counts() -> pd.DataFrame:
    """Two weeks and more of counts that are zero at weekends."""
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=140, freq="D")
    weekend = np.asarray(days.day_of_week) >= 5
    return pd.DataFrame({name: np.where(weekend, 0, rng.poisson(3, size=140)) for name in "ab"}, index=days)


def fitted(table: Any, **parameters: Any) -> TitansForecaster:
    given = dict(
        horizon=14, lookback=7, cycle=0, linear_path=True, max_epochs=0, random_state=0, device="cpu", verbose=0
    )
    return TitansForecaster(**{**given, **parameters}).fit(table)


def test_57_no_forecast_leaves_the_bounds() -> None:
    table = counts()
    free = fitted(table).predict(60)
    assert (free < 0.5).any().all()
    assert (free > 2.5).any().all()
    bounded = fitted(table, lower=0.5, upper=2.5).predict(60)
    pd.testing.assert_frame_equal(bounded, free.clip(0.5, 2.5))


def test_bounds_may_be_of_each_series_and_leave_the_others_alone() -> None:
    table = counts()
    free = fitted(table).predict()
    model = fitted(table, lower={"a": 1.0}, upper={"b": 2})
    pd.testing.assert_frame_equal(model.predict(), free.assign(a=free["a"].clip(lower=1), b=free["b"].clip(upper=2)))


@pytest.mark.parametrize("kind", ["long", "array", "Series"])
def test_bounds_hold_for_every_kind_of_table(kind: str) -> None:
    wide = counts()
    table: Any = wide["a"] if kind == "Series" else wide.to_numpy()
    if kind == "long":
        table = wide.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")
    forecast = fitted(table, lower={"long": {"a": 1.0}, "array": {0: 1.0}, "Series": {"a": 1.0}}[kind]).predict()
    first = {
        "long": lambda: forecast["Titans"][forecast["unique_id"] == "a"],
        "array": lambda: forecast[:, 0],
        "Series": lambda: forecast,
    }[kind]()
    assert np.min(first) == 1.0


def test_a_bound_of_all_series_holds_for_one_that_was_not_fitted() -> None:
    model = fitted(counts(), lower=0.75)
    other = counts()[["a"]].set_axis(["c"], axis=1)
    assert model.predict(df=other)["c"].min() == 0.75


def test_scores_are_of_forecasts_within_the_bounds() -> None:
    table = counts()
    train, later = table[:126], table[126:]
    model = fitted(train, lower=1)
    errors = (later - fitted(train).predict().clip(lower=1)).to_numpy() / model.scaler_.std
    assert model.score(later) == pytest.approx(-(errors**2).mean())
    assert (fitted(train).predict() < 1).any().any()


def test_bounds_are_saved_with_the_model(tmp_path: Path) -> None:
    model = fitted(counts(), lower={"a": 1.0}, upper=2.0)
    model.save(tmp_path / "model")
    again = TitansForecaster.load(tmp_path / "model", "cpu")
    assert (again.lower, again.upper) == ({"a": 1.0}, 2.0)
    pd.testing.assert_frame_equal(again.predict(), model.predict(), check_freq=False)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(lower="0"), "`lower` must be a number, a dict from id to number, or None, got '0'."),
        (dict(upper=float("nan")), "`upper` must be a number, a dict from id to number, or None, got nan."),
        (dict(lower=True), "`lower` must be a number, a dict from id to number, or None, got True."),
        (dict(upper={"a": None}), "`upper` must be a number, a dict from id to number, or None, got None."),
        (dict(lower={"c": 0}), "`lower` must name series of the table, got 'c'; its ids are ['a', 'b']."),
        (dict(lower=1, upper={"b": 0}), "`lower` must be at most `upper`, got 1 and 0 for series 'b'."),
    ],
)
def test_bounds_that_cannot_be_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        fitted(counts(), **parameters)
