"""The regression on covariates: its effects on known series, what is left out, and that rows count by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.model import ModelConfig
from titans_ts.regression.dynamic import DynamicRegression, fit_regression
from titans_ts.tables.covariate_columns import CovariateNames
from titans_ts.tables.covariates import covariates_ahead
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.training.choices import Choice
from titans_ts.windows.splits import backtest_folds

LOOKBACK, HORIZON, ROWS = 24, 4, 400
ROUNDING = dict(rtol=0, atol=1e-5)  # features are of float32


def table_of(n_series: int = 2, rows: int = ROWS, seed: int = 0, scale: float = 1.0) -> pd.DataFrame:
    rng, parts = np.random.default_rng(seed), []
    for i in range(n_series):
        x, on, kind = rng.normal(size=rows), rng.integers(0, 2, rows), rng.choice(list("pqr"), rows)
        noise = rng.normal(size=rows)
        for j in range(1, rows):
            noise[j] += 0.8 * noise[j - 1]
        y = 50 + 10 * i + scale * (np.abs(x) + 2 * on + 3 * (kind == "q") + 0.2 * noise)
        times = pd.date_range("2024-01-01", periods=rows, freq="h")
        columns = {"x": x, "on": on, "kind": kind, "flat": 0.1, "group": "uv"[i % 2]}
        parts.append(pd.DataFrame({"unique_id": f"s{i:02}", "ds": times, "y": y} | columns))
    return pd.concat(parts, ignore_index=True)


def panel_of(table: pd.DataFrame, static: Any = None, past: Any = None, future: Any = None) -> Panel:
    names = CovariateNames.of(static, past, future, None, ("unique_id", "ds", "y"))
    kept = ["unique_id", "ds", "y", *(name for part in (static, past, future) for name in part or [])]
    return read_table(table[kept], covariates=names)


def fit(panel: Panel, cycle: int = 24) -> tuple[DynamicRegression | None, tuple[Choice, ...]]:
    config = ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=panel.n_series, cycle=cycle)
    (fold,) = backtest_folds(panel, HORIZON)
    return fit_regression(panel, fold, config, torch.device("cpu"))


def fitted(panel: Panel, cycle: int = 24) -> DynamicRegression:
    found, _ = fit(panel, cycle)
    assert found is not None
    return found


def changes(values: np.ndarray, n_series: int = 2) -> np.ndarray:
    """From row to row of each series: a regression that is read through a path knows nothing of constants."""
    return np.diff(values.reshape(n_series, -1)).ravel()


def series_of(panel: Panel) -> np.ndarray:
    return np.arange(panel.n_series)


@pytest.fixture(scope="module")
def panel() -> Panel:
    return panel_of(table_of(), future=["x", "on", "kind"])


@pytest.fixture(scope="module")
def regression(panel: Panel) -> DynamicRegression:
    return fitted(panel)


def test_effects_are_those_that_made_the_series(panel: Panel, regression: DynamicRegression) -> None:
    table = table_of()
    effect = regression.effect(panel.data, series_of(panel), regression.scaler.scale)
    expected = changes((table.x.abs() + 2 * table.on + 3 * (table.kind == "q")).to_numpy())
    assert np.corrcoef(changes(effect), expected)[0, 1] > 0.94
    assert (changes(effect) - expected).std() < 0.35 * expected.std()


def test_what_is_left_is_the_series_minus_the_effects(panel: Panel, regression: DynamicRegression) -> None:
    rest = regression.without(panel, series_of(panel))
    effect = regression.effect(panel.data, series_of(panel), regression.scaler.scale)
    assert np.allclose(rest.data.values + effect, panel.data.values)
    assert changes(rest.data.values).std() < 0.35 * changes(panel.data.values).std()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_effects_are_in_the_units_of_the_data(scale: float) -> None:
    columns = ["x", "on", "kind"]
    table = table_of()
    one, other = panel_of(table, future=columns), panel_of(table.assign(y=scale * table.y), future=columns)
    of_one, of_other = (fitted(p).effect(p.data, series_of(p), fitted(p).scaler.scale) for p in (one, other))
    assert of_other / scale == pytest.approx(of_one, abs=1e-3)


def test_noise_is_left_out() -> None:
    table, n_read = table_of(), 0
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=len(table))
        found, (choice,) = fit(panel_of(table.assign(x=noise), future=["x"]))
        n_read += found is not None
        assert (choice.name, set(choice.errors)) == ("covariates", {"read", "left out"})
    assert n_read <= 1


@pytest.mark.parametrize("named", [{"past": ["x"]}, {}])
def test_without_static_and_future_columns_there_is_no_regression(named: dict[str, list[str]]) -> None:
    table = table_of()
    panel = panel_of(table, **named) if named else read_table(table[["unique_id", "ds", "y"]])
    assert fit(panel) == (None, ())


def test_a_constant_has_no_weight() -> None:
    panel = panel_of(table_of(), static=["group"], future=["x", "on", "kind", "flat"])
    found = fitted(panel)
    effect = found.effect(panel.data, series_of(panel), found.scaler.scale)
    assert np.abs(effect).max() < 10 * panel.data.values.std()
    assert np.abs(found.weight).max() < 100


def test_effects_ahead_go_on_from_the_rows(panel: Panel, regression: DynamicRegression) -> None:
    assert panel.data.covariates is not None
    cut = np.full(panel.n_series, ROWS - 30)
    first = panel.head(cut)
    ahead = panel.data.covariates.reshape(panel.n_series, ROWS, -1)[:, -30:]
    found = regression.ahead(first.data, covariates_ahead(first, 30, ahead), series_of(panel), regression.scaler.scale)
    effect = regression.effect(panel.data, series_of(panel), regression.scaler.scale)
    assert np.allclose(found, effect.reshape(panel.n_series, ROWS)[:, -30:], **ROUNDING)


@pytest.mark.parametrize("cut", [1, 5, 23, 24, 25, 100])
def test_rows_that_go_on_have_the_effects_of_one_reading(panel: Panel, regression: DynamicRegression, cut: int) -> None:
    rest = regression.without(panel, series_of(panel))
    first, later = panel.head(np.full(panel.n_series, ROWS - cut)), panel.tail(cut)
    before = regression.without(first, series_of(panel))
    found = regression.following(before, later, series_of(panel), "error")
    assert np.allclose(found.data.values, rest.tail(cut).data.values, **ROUNDING)


def test_some_series_may_go_on_in_another_order(panel: Panel, regression: DynamicRegression) -> None:
    rest = regression.without(panel, series_of(panel))
    first, later, numbers = panel.head(np.full(2, ROWS - 9)), panel.tail(9).take(np.array([1])), np.array([1])
    before = regression.without(first, series_of(panel))
    found = regression.following(before, later, numbers, "error")
    assert np.allclose(found.data.values, rest.tail(9).take(numbers).data.values, **ROUNDING)


def test_rows_after_skipped_ones_are_filled_between_values(panel: Panel, regression: DynamicRegression) -> None:
    first, later = panel.head(np.full(2, ROWS - 9)), panel.tail(6)
    whole = first.then(later, series_of(panel), "interpolate")
    expected = regression.without(whole, series_of(panel)).tail(9)
    before = regression.without(first, series_of(panel))
    found = regression.following(before, later, series_of(panel), "interpolate")
    assert found.data.lengths.tolist() == [9, 9]
    assert np.allclose(found.data.values, expected.data.values, **ROUNDING)
    assert found.data.is_observed.tolist() == expected.data.is_observed.tolist()


def test_a_series_that_was_not_fitted_has_the_common_effect_at_its_own_scale(
    panel: Panel, regression: DynamicRegression
) -> None:
    columns = ["x", "on", "kind"]
    other = panel_of(table_of(1, seed=7, scale=5.0), future=columns)
    unseen = np.array([-1])
    scale = regression.scale(other.data, unseen)
    assert scale == pytest.approx(other.data.values.std())
    rest = regression.without(other, unseen)
    assert rest.data.values.std() < 0.5 * other.data.values.std()


def test_series_are_read_alike_alone_and_among_others(panel: Panel, regression: DynamicRegression) -> None:
    scale = regression.scaler.scale
    both = regression.effect(panel.data, series_of(panel), scale)
    one = regression.effect(panel.take(np.array([1])).data, np.array([1]), scale[1:])
    assert np.allclose(one, both[ROWS:], **ROUNDING)


def test_it_comes_back_from_its_arrays(panel: Panel, regression: DynamicRegression) -> None:
    assert panel.covariates is not None
    columns = panel.covariates.columns
    found = DynamicRegression.of_arrays(columns, regression.description(), regression.arrays())
    expected = regression.without(panel, series_of(panel)).data.values
    assert np.array_equal(found.without(panel, series_of(panel)).data.values, expected)


def test_many_series_share_their_effects() -> None:
    panel = panel_of(table_of(70, 100), static=["group"], future=["on", "kind"])
    found = fitted(panel)
    assert found.per_series.shape == (0, len(found.weight))
    rest = found.without(panel, series_of(panel))
    assert changes(rest.data.values, 70).std() < 0.6 * changes(panel.data.values, 70).std()


def test_few_series_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panel_of(table_of(5, 200), future=["x", "on"])
    whole = fitted(panel)
    monkeypatch.setattr("titans_ts.regression.dynamic.MOST_NUMBERS", 128 * 450)  # two of 200 rows
    found = fitted(panel)
    assert np.allclose(found.weight, whole.weight, atol=1e-5)
    assert np.allclose(found.per_series, whole.per_series, atol=1e-5)
    rest = whole.without(panel, series_of(panel)).data.values
    assert np.allclose(found.without(panel, series_of(panel)).data.values, rest, atol=1e-4)


def test_where_every_window_has_filled_rows_there_is_no_regression() -> None:
    table = table_of(1, 80)
    table.loc[1::2, "y"] = np.nan
    names = CovariateNames.of(None, None, ["x"], None, ("unique_id", "ds", "y"))
    panel = read_table(table[["unique_id", "ds", "y", "x"]], covariates=names, missing="interpolate")
    assert fit(panel) == (None, ())


def test_series_without_a_window_have_no_regression() -> None:
    panel = panel_of(table_of(1, 5), future=["x"])
    assert fit(panel)[0] is None or np.isfinite(fitted(panel).weight).all()
