"""Weights of series: read by id or in their order, and what fits make of them and of recency."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster

SIZE = dict(horizon=4, lookback=16, d_model=8, n_layers=1, n_heads=2, chunk_size=4, cycle=0)
HOW = dict(combine=False, context="window", max_epochs=0, random_state=0, device="cpu", verbose=0)


def fitted(table: Any, weight: Any = None, **parameters: Any) -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW, **parameters}).fit(table, sample_weight=weight)


def autoregression(coefficient: float, seed: int, rows: int = 200) -> np.ndarray:
    noise, values = np.random.default_rng(seed).normal(size=rows), np.zeros(rows)
    for t in range(1, rows):
        values[t] = coefficient * values[t - 1] + noise[t]
    return values


def table(**series: np.ndarray) -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=len(next(iter(series.values()))), freq="D")
    return pd.DataFrame(series, index=days)


A, B = autoregression(0.9, 0), autoregression(-0.6, 1)


def close(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5, atol=1e-5)


# What a fit makes of them


@pytest.mark.parametrize("path", [True, "per_series", "across", "auto"])
@pytest.mark.parametrize("missing", [False, True])
def test_weights_that_are_all_equal_are_as_none(path: Any, missing: bool) -> None:
    both = table(a=A, b=B)
    if missing:
        both.iloc[40:44, 0] = np.nan
    how = dict(linear_path=path, missing="interpolate")
    close(fitted(both, {"a": 3, "b": 3.0}, **how).predict(), fitted(both, **how).predict())


@pytest.mark.parametrize("half_life", [None, 50])
@pytest.mark.parametrize("scaled", [False, True])
def test_a_weight_of_two_is_as_the_series_twice(scaled: bool, half_life: float | None) -> None:
    """In a common linear path; `scaled` series are of rows that were filled in, whose windows are read one by one."""
    both, twice = table(a=A, b=B), table(a=A, again=A, b=B)
    if scaled:
        both.iloc[100, :] = twice.iloc[100, :] = np.nan
    how = dict(linear_path=True, missing="interpolate", half_life=half_life)
    found, expected = fitted(both, pd.Series({"a": 2, "b": 1}), **how), fitted(twice, **how)
    close(found.predict(), expected.predict()[["a", "b"]])
    first, other = (model.history_.best for model in (found, expected))
    assert found.history_.best.relative_error == pytest.approx(other.relative_error, rel=1e-5)
    assert first.validation_loss == pytest.approx(other.validation_loss, rel=1e-5)
    assert not np.allclose(found.predict(), fitted(both, **how).predict(), rtol=1e-2)


@pytest.mark.parametrize("path", [True, "per_series"])
def test_a_series_of_weight_0_is_not_learned_from_and_still_forecast(path: Any) -> None:
    how = dict(linear_path=path, max_epochs=1, learning_rate=0.01, val_size=0.1, batch_size=128)
    found, expected = fitted(table(a=A, b=B), [1, 0], **how), fitted(table(a=A), **how)
    close(found.predict()[["a"]], expected.predict())
    assert [e.train_loss for e in found.history_.evaluations[1:]] == pytest.approx(
        [e.train_loss for e in expected.history_.evaluations[1:]], rel=1e-5
    )
    if path is True:  # what was learned from a forecasts b, at its own scale
        close(found.predict()[["b"]], expected.predict(df=table(b=B))[["b"]])
    assert np.isfinite(found.predict()).all(axis=None)


def test_training_counts_series_by_their_weights() -> None:
    """The loss of the first step, of all windows: as they are so many, of both, and of either alone."""
    how = dict(linear_path=False, mixer="none", dropout=0.0, max_epochs=1, batch_size=1000, val_size=0)
    both = table(a=A, b=B)
    losses = [
        fitted(both, weight, **how).history_.evaluations[1].train_loss for weight in ([1, 1], [1, 1e-9], [1e-9, 1])
    ]
    assert losses[0] == pytest.approx(np.mean(losses[1:]), rel=1e-4)
    assert losses[1] == pytest.approx(fitted(table(a=A), **how).history_.evaluations[1].train_loss, rel=1e-4)
    assert losses[1] != pytest.approx(losses[2], rel=0.02)


@pytest.mark.parametrize("path", [True, "per_series", "across"])
def test_a_half_life_forgets_what_was_before_a_change(path: Any) -> None:
    rows = np.concatenate([autoregression(-0.8, 0, 300), autoregression(0.8, 1, 100)])
    others = {f"s{i}": np.concatenate([autoregression(-0.8, i, 300), autoregression(0.8, i + 9, 100)]) for i in (2, 3)}
    both = table(a=rows, **others)
    how = dict(linear_path=path, val_size=20, horizon=1)
    forgetting, all_alike = fitted(both, half_life=15, **how), fitted(both, **how)
    errors = [model.history_.best.relative_error for model in (forgetting, all_alike)]
    assert errors[0] < 0.8 * errors[1]


def test_a_half_life_without_end_is_as_none() -> None:
    both = table(a=A, b=B)
    how = dict(linear_path=True, max_epochs=1, batch_size=128)
    close(fitted(both, half_life=1e9, **how).predict(), fitted(both, **how).predict())


def test_many_series_of_weight_0_leave_the_others_to_choose() -> None:
    """Of 300, the evenly spaced ones that would choose the path alone are of weight 0."""
    many = table(**{f"s{i:03}": autoregression(0.9, i, 60) for i in range(300)})
    weight = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    model = fitted(many, weight, linear_path="auto")
    assert len(model.summary()) > 0
    assert np.isfinite(model.history_.best.relative_error)


def test_quantiles_and_functions_have_weights_too() -> None:
    for loss in ("quantile", lambda f, t: (f - t).abs() ** 1.5):
        how = dict(linear_path=True, max_epochs=1, batch_size=128)
        found = fitted(table(a=A, b=B), [1, 0], loss=loss, **how)
        close(found.predict()[["a"]], fitted(table(a=A), loss=loss, **how).predict())


# How they are given


def test_ids_say_whose_they_are_in_any_order() -> None:
    long = table(b=B, a=A).melt(ignore_index=False, var_name="unique_id", value_name="y").reset_index(names="ds")
    by_id = fitted(long, {"b": 5, "a": 1}, linear_path=True).predict()
    pd.testing.assert_frame_equal(by_id, fitted(long, np.array([1, 5]), linear_path=True).predict())
    assert not by_id.equals(fitted(long, linear_path=True).predict())


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ({"a": 1}, ValueError, "must have a weight for every series, but has none for 'b'. Give 1 to"),
        ({"a": 1, "b": 1, "c": 1}, ValueError, "must name series of the table, got 'c'."),
        (np.ones(200), ValueError, r"must have a weight for each series, shape \(n_series,\) = \(2,\), got \(200,\)\."),
        ([1, -1], ValueError, "must be finite numbers >= 0, got -1 for series 'b'."),
        ({"a": np.inf, "b": 1}, ValueError, "must be finite numbers >= 0, got inf for series 'a'."),
        ([0, np.nan], ValueError, "must be finite numbers >= 0, got nan for series 'b'."),
        ([0, 0], ValueError, "must be above 0 for at least one series"),
        ("heavy", TypeError, "must be a mapping from id to number or an array"),
    ],
)
def test_what_is_no_weight_of_each_series_is_refused(weight: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^`sample_weight` {message}"):
        fitted(table(a=A, b=B), weight)


@pytest.mark.parametrize("value", [0, -1, np.inf, np.nan, True, "day"])
def test_what_is_no_half_life_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^`half_life` must be a positive finite number of steps, or None for none"):
        fitted(table(a=A, b=B), half_life=value)
