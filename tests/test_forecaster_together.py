"""Covariates, intervals, losses, weights and backtests beside each other, each of which has tests of its own."""

from __future__ import annotations

from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from titans_ts import MeanForecaster, SeasonalNaive, TitansForecaster, cross_validation, predict_partitions

NOISE = 0.1
HOURS = 300


def table_of(**effects: float) -> pd.DataFrame:
    """Long: noise and so many times x, of each series."""
    rng, parts = np.random.default_rng(0), []
    for name, effect in effects.items():
        x = rng.normal(size=HOURS)
        times = pd.date_range("2024-01-01", periods=HOURS, freq="h")
        y = effect * x + NOISE * rng.normal(size=HOURS)
        parts.append(pd.DataFrame({"unique_id": name, "ds": times, "y": y, "x": x}))
    return pd.concat(parts, ignore_index=True)


def tiny(**options: Any) -> TitansForecaster:
    how: dict[str, Any] = dict(horizon=6, lookback=24, cycle=0, max_epochs=0, combine=False, context="window")
    how |= dict(d_model=8, n_layers=1, n_heads=1, random_state=0, verbose=0, future_cols=["x"])
    return TitansForecaster(**how | options)


TABLE = table_of(a=1.0, b=-2.0)


@pytest.mark.parametrize("refit", [True, False, 2])
def test_a_backtest_reads_what_is_known_ahead_and_has_intervals(refit: bool | int) -> None:
    frame = cross_validation(tiny(), TABLE, h=6, n_windows=4, refit=refit, level=80)
    assert (frame.y - frame.Titans).abs().mean() < 1.5 * NOISE
    assert frame.columns.tolist() == ["unique_id", "ds", "cutoff", "y", "Titans", "Titans-lo-80", "Titans-hi-80"]
    inside = frame.y.between(frame["Titans-lo-80"], frame["Titans-hi-80"]).mean()
    assert 0.6 < inside < 0.95


def test_forecasts_in_sample_read_the_covariates_of_their_rows() -> None:
    frame = tiny().fit(TABLE).predict_insample(TABLE, step_size=6)
    assert (frame.y - frame.Titans).abs().mean() < 1.5 * NOISE


def test_a_comparison_gives_covariates_to_the_model_and_not_to_baselines() -> None:
    scores = tiny().compare(TABLE, n_windows=2, baselines={"naive": SeasonalNaive()}, metrics=["mae"])
    assert scores.model.tolist() == ["TitansForecaster", "naive"]
    assert scores.mae[0] < 1.5 * NOISE < scores.mae[1]


def test_a_mean_of_forecasters_takes_their_points() -> None:
    plain = TABLE.drop(columns="x")
    models = [tiny(future_cols=None), SeasonalNaive(season=24)]
    mean = MeanForecaster(models).fit(plain).predict(6).MeanForecaster
    one, other = tiny(future_cols=None).fit(plain).predict(6).Titans, SeasonalNaive(season=24).fit(plain).predict(6)
    assert mean.to_numpy() == pytest.approx((one + other.SeasonalNaive) / 2)


def test_partitions_are_forecast_with_covariates_and_intervals() -> None:
    past, future = TABLE[TABLE.ds < TABLE.ds.max()], TABLE[TABLE.ds == TABLE.ds.max()]
    model = tiny().fit(past)
    frame = dd.from_pandas(past.sort_values("unique_id"), npartitions=2)
    found = predict_partitions(model, frame, 1, level=80, future=future).compute(scheduler="synchronous")
    expected = model.predict(1, past, level=80, future=future)
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected, check_dtype=False)


def test_quantiles_of_a_network_are_calibrated_and_rise() -> None:
    model = tiny(loss="quantile", max_epochs=1).fit(TABLE[:-12])
    assert model.fitted_.calibration is not None
    assert model.fitted_.calibration.levels == model.network_.config.levels
    rows = TABLE[TABLE.ds > TABLE.ds.max() - pd.Timedelta(hours=6)].groupby("unique_id").head(6)
    model = tiny(loss="quantile", max_epochs=1).fit(TABLE.drop(index=rows.index))
    found = model.predict(future=rows, quantiles=[0.05, 0.3, 0.5, 0.7, 0.95])
    quantiles = found.filter(like="-q").to_numpy()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert quantiles[:, 2] == pytest.approx(found.Titans)
    width = (quantiles[:, 4] - quantiles[:, 0]).mean()
    assert 2 * NOISE < width < 8 * NOISE  # of a normal distribution 3.3


@pytest.mark.parametrize(("weight", "effect"), [({"a": 1, "b": 0}, 1.0), ({"a": 0, "b": 1}, -2.0)])
def test_effects_are_those_of_the_series_that_count(weight: dict[str, int], effect: float) -> None:
    regression = tiny().fit(TABLE, sample_weight=weight).fitted_.regression
    assert regression is not None
    name, scale = next(n for n, w in weight.items() if w), regression.scaler.scale
    number, x = "ab".index(name), TABLE.x[:240]
    assert regression.weight[0] * scale[number] / x.std() == pytest.approx(effect, rel=0.15)


def test_a_warm_start_keeps_the_effects() -> None:
    model = tiny(warm_start=True).fit(TABLE)
    first = model.fitted_.regression
    assert model.set_params(max_epochs=1).fit(TABLE).fitted_.regression is first


def test_a_saved_model_keeps_all_of_them(tmp_path: Any) -> None:
    model = tiny(loss="quantile", max_epochs=1).fit(TABLE[TABLE.ds < TABLE.ds.max()])
    model.save(tmp_path / "model")
    future = TABLE[TABLE.ds == TABLE.ds.max()]
    found = TitansForecaster.load(tmp_path / "model").predict(1, level=[50, 90], future=future)
    pd.testing.assert_frame_equal(found, model.predict(1, level=[50, 90], future=future))
