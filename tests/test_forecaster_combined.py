"""The estimator with its forecasts combined: better on short series, and the same whichever way they are given."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from titans_ts import TitansForecaster, saving
from titans_ts.statistical import model as module
from titans_ts.statistical.model import METHODS, READINGS

from .test_saving import edit_manifest, forge

HORIZON, ROWS, SERIES = 12, 60, 60
ROUNDING = dict(rtol=1e-5)  # float32 in the network
MONTHS = pd.date_range("2015-01-01", periods=ROWS + HORIZON, freq="MS", name="when")


def tiny(**parameters: Any) -> TitansForecaster:
    given = dict(horizon=HORIZON, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0, verbose=0)
    return TitansForecaster(**{**given, **parameters})


def monthly(n_series: int = SERIES, seed: int = 0) -> pd.DataFrame:
    """Noisy positive series of a season each, around a trend and a walk, in units from 1 to 1000."""
    rng, t = np.random.default_rng(seed), np.arange(ROWS + HORIZON)
    table = {}
    for i in range(n_series):
        season = 0.1 * rng.normal(size=12)[t % 12]
        course = 0.004 * rng.uniform(0, 2) * t + 0.015 * np.cumsum(rng.normal(size=len(t)))
        table[f"s{i:02}"] = 10 ** rng.uniform(0, 3) * np.exp(season + course + 0.05 * rng.normal(size=len(t)))
    return pd.DataFrame(table, index=MONTHS)


def long(wide: pd.DataFrame) -> pd.DataFrame:
    n_series = wide.shape[1]
    ids = np.repeat(wide.columns.to_numpy(), len(wide))
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(wide.index, n_series), "y": wide.to_numpy().T.ravel()})


def wide_of(forecast: Any) -> np.ndarray:
    """The values of a long forecast, (steps, n_series)."""
    values: np.ndarray = forecast["Titans"].to_numpy().reshape(-1, HORIZON).T
    return values


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return monthly()


@pytest.fixture(scope="module")
def train(table: pd.DataFrame) -> pd.DataFrame:
    return table[:ROWS]


@pytest.fixture(scope="module")
def fitted(train: pd.DataFrame) -> TitansForecaster:
    return tiny().fit(train)


@pytest.fixture(scope="module")
def few(train: pd.DataFrame) -> pd.DataFrame:
    """Some of the series, for what must be fitted again."""
    return train.iloc[:, :12]


@pytest.fixture(scope="module")
def small(few: pd.DataFrame) -> TitansForecaster:
    return tiny().fit(few)


def scaled_error(forecast: pd.DataFrame, table: pd.DataFrame) -> float:
    """The mean absolute error over that of the seasonal naive forecast of the train rows."""
    scale = np.abs(table[12:ROWS].to_numpy() - table[: ROWS - 12].to_numpy()).mean(0)
    return float((np.abs(forecast.to_numpy() - table[ROWS:].to_numpy()) / scale).mean())


# What it is worth


@pytest.mark.parametrize("seed", [0, 1])
def test_noisy_seasonal_series_are_forecast_better_than_by_the_network_alone_and_by_the_last_year(seed: int) -> None:
    table = monthly(seed=seed)
    combined, alone = (tiny(combine=combine).fit(table[:ROWS]).predict() for combine in (True, False))
    last_year = table[ROWS - 12 : ROWS]
    error = scaled_error(combined, table)
    assert error < 0.99 * scaled_error(alone, table)
    assert error < 0.85 * scaled_error(last_year, table)


def test_what_was_combined_is_told(fitted: TitansForecaster) -> None:
    summary = fitted.summary()
    assert fitted.fitted_.combination is not None
    read = summary[summary["choice"] == "statistical methods read"]
    combined = summary[summary["choice"] == "combination"]
    assert read["candidate"].tolist() == [*READINGS, "both"]
    assert combined["candidate"].tolist()[:3] == ["network", *METHODS]
    assert read["chosen"].sum() == combined["chosen"].sum() == 1
    chosen = combined[combined["chosen"]].iloc[0]
    assert chosen["relative_error"] <= combined["relative_error"].min() * 1.05
    weights = dict(zip(["network", *METHODS], fitted.fitted_.combination.weights, strict=True))
    assert chosen["candidate"] == ", ".join(f"{w:.0%} {name}" for name, w in weights.items() if w > 0)


def test_the_network_alone_is_asked_for_by_combine_false(train: pd.DataFrame, fitted: TitansForecaster) -> None:
    alone = tiny(combine=False).fit(train)
    assert alone.fitted_.combination is None
    assert "combination" not in set(alone.summary()["choice"])
    assert alone.fitted_.panel.data.lengths.max() == alone.lookback_
    states = fitted.network_.state_dict()
    assert all(np.array_equal(states[name], value) for name, value in alone.network_.state_dict().items())


def test_where_the_network_is_best_it_forecasts_alone() -> None:
    """Of two waves, whose periods are not the season, a linear recurrence is exact."""
    t = np.arange(240)
    waves = {f"w{i}": np.sin(2 * np.pi * t / 7.3 + i) + np.sin(2 * np.pi * t / 17 + i) for i in range(4)}
    hours = pd.date_range("2024-01-01", periods=240, freq="h")
    table = pd.DataFrame(waves, index=hours)
    both = [tiny(combine=c, lookback=48, cycle=0).fit(table[:228]) for c in (True, False)]
    assert both[0].fitted_.combination is None
    pd.testing.assert_frame_equal(both[0].predict(), both[1].predict(), check_exact=True)
    assert both[0].summary().query("choice == 'combination' and chosen")["candidate"].tolist() == ["network"]


@pytest.mark.parametrize("value", ["yes", 1, None, 0.5])
def test_combine_is_true_or_false(value: Any, train: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"`combine` must be True or False, got"):
        tiny(combine=value).fit(train)
    assert tiny(combine=np.False_, val_size=0).fit(train.iloc[:, :2]).fitted_.combination is None


def test_long_series_are_not_combined() -> None:
    values = np.cumsum(np.random.default_rng(0).normal(size=(5002, 1)), axis=0)
    model = tiny(lookback=24).fit(values)
    assert model.fitted_.combination is None
    assert "combination" not in set(model.summary()["choice"])


def test_without_validation_rows_all_forecasts_count_alike(train: pd.DataFrame) -> None:
    model = tiny(val_size=0).fit(train)
    assert model.fitted_.combination is not None
    np.testing.assert_allclose(model.fitted_.combination.weights, 1 / 3)
    assert "combination" not in set(model.summary()["choice"])


# One table, given in many ways


def test_two_fits_are_equal_to_the_bit(few: pd.DataFrame, small: TitansForecaster) -> None:
    pd.testing.assert_frame_equal(tiny().fit(few).predict(), small.predict(), check_exact=True)


def test_nothing_is_random(few: pd.DataFrame, small: TitansForecaster) -> None:
    """The statistical forecasts of another seed are the same to the bit."""
    other = tiny(random_state=7).fit(few)
    first, second = (m.fitted_.combination.model.arrays() for m in (small, other))
    assert all(np.array_equal(array, second[name]) for name, array in first.items())
    assert np.array_equal(small.fitted_.combination.weights, other.fitted_.combination.weights)


def test_long_and_wide_and_rows_in_any_order_are_equal(few: pd.DataFrame, small: TitansForecaster) -> None:
    expected = small.predict().to_numpy()
    for rows in (long(few), long(few).sample(frac=1, random_state=0)):
        assert np.array_equal(wide_of(tiny().fit(rows).predict()), expected)


def test_the_order_of_columns_changes_nothing(few: pd.DataFrame, small: TitansForecaster) -> None:
    backwards = few[few.columns[::-1]]
    found = tiny().fit(backwards).predict()[few.columns]
    pd.testing.assert_frame_equal(found, small.predict(), **ROUNDING)


def test_polars_and_pandas_are_equal(few: pd.DataFrame, small: TitansForecaster) -> None:
    forecast = tiny().fit(pl.from_pandas(long(few))).predict()
    assert isinstance(forecast, pl.DataFrame)
    assert np.array_equal(wide_of(forecast), small.predict().to_numpy())


def test_rows_fitted_given_again_forecast_as_the_fit_does(few: pd.DataFrame, small: TitansForecaster) -> None:
    pd.testing.assert_frame_equal(small.predict(df=few), small.predict(), **ROUNDING)


def test_some_of_the_series_are_forecast_as_among_all(train: pd.DataFrame) -> None:
    model, some = tiny().fit(long(train)), train.columns[[3, 17]]
    found = wide_of(model.predict(df=long(train[some])))
    np.testing.assert_allclose(found, wide_of(model.predict())[:, [3, 17]], **ROUNDING)


@pytest.mark.parametrize("power", [-40, 30])
def test_a_power_of_two_is_a_unit_that_changes_nothing(power: int, few: pd.DataFrame, small: TitansForecaster) -> None:
    unit = 2.0**power
    pd.testing.assert_frame_equal(tiny().fit(few * unit).predict() / unit, small.predict(), **ROUNDING)


# What is forecast


def test_few_rows_are_forecast_with_the_season_of_the_rows_fitted(
    table: pd.DataFrame, fitted: TitansForecaster
) -> None:
    """The last rows alone are forecast nearly as well as all; without a season they are not."""
    few = scaled_error(fitted.predict(df=table[ROWS - 6 : ROWS]), table)
    constant = scaled_error(table[ROWS - 1 : ROWS].iloc[[0] * HORIZON], table)
    assert few < 1.25 * scaled_error(fitted.predict(), table)
    assert few < 0.7 * constant


def test_series_that_were_not_fitted_are_forecast(table: pd.DataFrame) -> None:
    """As well as those that were; from one row, by that row or near."""
    others = monthly(10, seed=5).add_prefix("other ")
    model = tiny().fit(long(table[:ROWS]))
    forecast = pd.DataFrame(wide_of(model.predict(df=long(others[:ROWS]))), columns=others.columns)
    assert scaled_error(forecast, others) < 0.85 * scaled_error(others[ROWS - 12 : ROWS], others)
    one = wide_of(model.predict(df=long(others[:1])))
    np.testing.assert_allclose(one, np.tile(others[:1].to_numpy(), (HORIZON, 1)), rtol=1e-6)


def test_past_the_horizon_the_first_steps_stay(fitted: TitansForecaster) -> None:
    longer = fitted.predict(40)
    assert len(longer) == 40
    pd.testing.assert_frame_equal(longer[:HORIZON], fitted.predict(), check_freq=False, **ROUNDING)
    assert np.isfinite(fitted.predict(1000).to_numpy()).all()
    assert len(fitted.predict(1)) == 1


def test_bounds_are_kept(few: pd.DataFrame, small: TitansForecaster) -> None:
    free = small.predict()
    low, high = float(np.quantile(free, 0.3)), float(np.quantile(free, 0.7))
    found = tiny(lower=low, upper=high).fit(few).predict()
    pd.testing.assert_frame_equal(found, free.clip(low, high), **ROUNDING)


def test_constant_series_are_forecast_as_constant(few: pd.DataFrame) -> None:
    values = {"zero": 0.0, "tenth": 0.1, "below": -7.0, "huge": 1e250}
    found = tiny().fit(few.assign(**values)).predict(30)
    for name, value in values.items():
        assert found[name].nunique() == 1
        assert found[name].iloc[0] == pytest.approx(value, rel=1e-14, abs=0)


def test_series_of_unequal_lengths_and_gaps_are_forecast(train: pd.DataFrame) -> None:
    rows = long(train)
    keep = np.random.default_rng(0).random(len(rows)) > 0.05
    keep &= ~((rows["unique_id"] < "s05") & (rows["ds"] < MONTHS[ROWS - 8])).to_numpy()
    gaps = tiny(missing="interpolate").fit(rows[keep | (rows["ds"] == MONTHS[ROWS - 1]).to_numpy()])
    found, last = wide_of(gaps.predict()), train[-12:].to_numpy()
    assert np.isfinite(found).all()
    assert np.abs(np.log(found / last)).mean() < 0.25


def test_validation_rows_may_be_more_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk of which most is held back is forecast near its last values."""
    monkeypatch.setattr(module, "MOST_ROWS", 60)
    monkeypatch.setattr(module, "LEAST_KNOWN", 30)
    values = 1000 + np.cumsum(np.random.default_rng(0).normal(size=200))[:, None]
    summary = tiny(lookback=24, horizon=6, val_size=150, linear_path=True).fit(values).summary()
    errors = summary.query("choice == 'statistical methods read'")["relative_error"]
    assert errors.max() < 1.7  # of at most 4; forecasts of 0 would be off by hundreds of steps


# Kept


def test_a_saved_model_comes_back_to_the_bit(train: pd.DataFrame, fitted: TitansForecaster, tmp_path: Any) -> None:
    fitted.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    for h, df in ((None, None), (30, None), (5, train[-4:]), (5, train)):
        pd.testing.assert_frame_equal(loaded.predict(h, df), fitted.predict(h, df), check_exact=True)
    first, second = fitted.fitted_.combination, loaded.fitted_.combination
    assert np.array_equal(first.weights, second.weights)
    assert np.array_equal(first.positive, second.positive)
    assert first.model.periods == second.model.periods == (12,)
    assert all(np.array_equal(array, second.model.arrays()[n]) for n, array in first.model.arrays().items())
    pd.testing.assert_frame_equal(loaded.summary(), fitted.summary())
    loaded.save(tmp_path / "again")
    pd.testing.assert_frame_equal(TitansForecaster.load(tmp_path / "again").predict(), fitted.predict())


def test_a_model_of_version_3_forecasts_by_its_network_alone(train: pd.DataFrame, tmp_path: Any) -> None:
    alone = tiny(combine=False).fit(train)
    alone.save(tmp_path / "model")
    description = json.loads(next((tmp_path / "model").glob("forecaster-*.json")).read_text())
    assert "combination" not in description

    def change(description: dict[str, Any], tensors: dict[str, Any]) -> None:
        del description["parameters"]["combine"]
        assert not any(name.startswith(saving.STATISTICAL) or name == "positive" for name in tensors)

    forge(tmp_path / "model", change)
    edit_manifest(tmp_path / "model", version=3)
    loaded = TitansForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(30), alone.predict(30), check_exact=True)
    assert loaded.fitted_.combination is None
    assert loaded.combine is True  # as a model of today is made, were it fitted again


@pytest.mark.parametrize(
    "kept", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"]
)
def test_copies_forecast_the_same(kept: Any, fitted: TitansForecaster) -> None:
    pd.testing.assert_frame_equal(kept(fitted).predict(30), fitted.predict(30), check_exact=True)


def test_the_score_is_that_of_the_combined_forecast(table: pd.DataFrame, fitted: TitansForecaster) -> None:
    errors = (table[ROWS:] - fitted.predict()) / fitted.scaler_.std
    assert fitted.score(table[ROWS:]) == pytest.approx(-(errors.to_numpy() ** 2).mean(), rel=1e-9)


def test_the_table_is_not_changed(few: pd.DataFrame) -> None:
    before = few.copy(deep=True)
    tiny().fit(few).predict(df=few[-5:])
    pd.testing.assert_frame_equal(few, before, check_exact=True)
