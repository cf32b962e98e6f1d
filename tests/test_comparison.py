"""A model beside baselines: the errors of one backtest, and which model is best for how many series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from utilsforecast.losses import mae

from titans_ts import Drift, SeasonalNaive, TitansForecaster, cross_validation
from titans_ts.backtest import Backtest
from titans_ts.comparison import compare, score

DAYS = pd.date_range("2024-01-01", periods=60)


def table() -> pd.DataFrame:
    """A season that repeats, two lines, and a series that never changes."""
    season = np.tile(np.arange(7.0), 9)[:60]
    series = {"season": season, "up": np.arange(60.0), "down": -2 * np.arange(60.0), "still": np.full(60, 5.0)}
    return pd.concat([pd.DataFrame({"shop": k, "day": DAYS, "sold": v}) for k, v in series.items()], ignore_index=True)


NAMES = dict(id_col="shop", time_col="day", target_col="sold")
MODELS = {"drift": Drift(**NAMES), "naive": SeasonalNaive(**NAMES)}


def compared(**options) -> pd.DataFrame:
    return compare(MODELS, Backtest.of(MODELS["drift"], table(), 7, 2, None), **options)


def test_errors_are_means_over_series_and_wins_shares_of_them() -> None:
    found = compared(metrics=["mae", "rmse"]).set_index("model")
    frame = cross_validation(MODELS["naive"], table(), 7, n_windows=2)
    errors = (frame["sold"] - frame["SeasonalNaive"]).abs().groupby(frame["shop"]).mean()
    assert found.loc["naive", "mae"] == pytest.approx(errors.mean())
    # drift is right on the lines, the naive one on the season, and both on the still series
    assert found["wins"].to_dict() == {"drift": 0.75, "naive": 0.5}
    assert found.index.tolist() == ["drift", "naive"]


def test_a_scaled_error_leaves_out_series_that_never_change() -> None:
    found = compared().set_index("model")
    assert list(found.columns) == ["mase", "mae", "rmse", "smape", "wins"]
    # of the scale by the season: 0 too of the series that repeats; the two lines are left
    assert found.loc["naive", "mase"] == pytest.approx(1.0)
    assert found["wins"].to_dict() == {"drift": 1.0, "naive": 0.0}
    assert np.isfinite(found.to_numpy()).all()


def test_the_mean_of_models_is_one_model_more() -> None:
    found = compared(metrics=[mae], mean_of=["drift", "naive"]).set_index("model")
    assert set(found.index) == {"drift", "naive", "MeanForecaster"}
    assert found.loc["MeanForecaster", "mae"] <= found["mae"].max()


def test_forecasts_made_before_are_scored_alike() -> None:
    backtest = Backtest.of(MODELS["naive"], table(), 7, 2, None)
    frame = backtest.run(MODELS["naive"], False, {}, None).rename(columns={"SeasonalNaive": "naive"})
    columns = ["model", "mase", "mae", "rmse", "smape"]
    expected = compared()[columns].query("model == 'naive'").reset_index(drop=True)
    pd.testing.assert_frame_equal(score(frame, backtest)[columns], expected)


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(ValueError, match=r"`metrics` must be names or functions of utilsforecast.losses, got 'mea'"):
        compared(metrics=["mea"])


@pytest.mark.parametrize("metrics", [[], "mae", None])
def test_metrics_are_a_list_that_has_one(metrics) -> None:
    with pytest.raises(ValueError, match=r"`metrics` must be a list of one metric or more, got .*; pass \['mase'"):
        compared(metrics=metrics)


@pytest.mark.parametrize("name", ["shop", "day", "cutoff", "sold", "MeanForecaster"])
def test_no_model_takes_the_place_of_a_column(name: str) -> None:
    models = {**MODELS, name: Drift(**NAMES)}
    backtest = Backtest.of(MODELS["drift"], table(), 7, 1, None)
    with pytest.raises(ValueError, match=rf"a model must have a name of its own, .*got '{name}'"):
        compare(models, backtest, mean_of=["drift", "naive"])


def forecaster(**parameters) -> TitansForecaster:
    given = dict(horizon=7, lookback=14, d_model=8, n_layers=1, max_epochs=0, random_state=0, verbose=0, **NAMES)
    return TitansForecaster(**{**given, **parameters})


def test_a_forecaster_compares_itself_with_the_baselines_and_stays_as_it_is() -> None:
    model = forecaster()
    found = model.compare(table(), n_windows=2)
    assert sorted(found["model"]) == ["ClosedForm", "Drift", "MeanForecaster", "SeasonalNaive", "TitansForecaster"]
    assert found["mase"].is_monotonic_increasing
    assert not hasattr(model, "fitted_")
    frame = cross_validation(model, table(), 7, n_windows=2, refit=False)
    expected = (frame["sold"] - frame["Titans"]).abs().mean()
    assert found.set_index("model").loc["TitansForecaster", "mae"] == pytest.approx(expected)


def test_the_baselines_may_be_ones_own() -> None:
    found = forecaster().compare(table(), 3, n_windows=1, baselines={"mine": Drift(**NAMES)}, metrics=["mae"])
    assert sorted(found["model"]) == ["TitansForecaster", "mine"]


@pytest.mark.parametrize("baselines", [{"TitansForecaster": Drift(**NAMES)}, [Drift(**NAMES)]])
def test_no_baseline_takes_the_place_of_the_model(baselines) -> None:
    with pytest.raises(ValueError, match=r"`baselines` must be a mapping from names other than 'TitansForecaster'"):
        forecaster().compare(table(), 3, n_windows=1, baselines=baselines)
