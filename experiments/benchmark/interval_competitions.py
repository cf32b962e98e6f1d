"""Intervals for the series of a competition: a frame of forecasts for each method, from the end of each history."""

from __future__ import annotations

import importlib
from typing import Any

import pandas as pd

from benchmark.interval_scores import LEVELS, forecast_frame
from benchmark.peer_models import peer_model
from benchmark.scores import naive_scales
from titans_ts import TitansForecaster
from titans_ts.datasets import Competition

PEER_STEPS, CALIBRATION_WINDOWS = 500, 20


def came(competition: Competition) -> pd.DataFrame:
    """The rows that came, with the step of each."""
    return competition.test.assign(step=competition.test.groupby("unique_id", sort=False).cumcount() + 1)


def scales(competition: Competition) -> pd.Series:
    """The mean |x_t - x_{t-season}| of each history, which MASE divides by."""
    past = histories(competition)
    return pd.Series(naive_scales(list(past.values()), competition.season), list(past))


def histories(competition: Competition) -> dict[Any, Any]:
    """The values of each series by its id."""
    return {name: rows.to_numpy() for name, rows in competition.train.groupby("unique_id", sort=False)["y"]}


def ours(competition: Competition) -> pd.DataFrame:
    """Forecasts of the estimator with its defaults, fitted to all series at once."""
    model = TitansForecaster(horizon=competition.horizon, random_state=0, verbose=0).fit(competition.train)
    return _beside(competition, model.predict(level=LEVELS))


def auto_ets(competition: Competition) -> pd.DataFrame:
    """Forecasts of statsforecast's AutoETS, one series after another."""
    model = importlib.import_module("statsforecast.models").AutoETS(season_length=competition.season)
    test = dict(iter(came(competition).groupby("unique_id", sort=False)))
    return pd.concat(
        [
            forecast_frame(test[name], "AutoETS", model.forecast(past, competition.horizon, level=list(LEVELS)))
            for name, past in histories(competition).items()
        ],
        ignore_index=True,
    )


def conformal(competition: Competition, name: str, steps: int = PEER_STEPS) -> pd.DataFrame:
    """Forecasts of a network of neuralforecast, its intervals by the absolute errors of earlier windows.

    Trained for at most so many steps on windows that it scales one by one; `CALIBRATION_WINDOWS` of each series, a row
    apart, are those that end its history, for which the package trains the network once more on the rows before them.
    """
    package = importlib.import_module("neuralforecast")
    intervals = importlib.import_module("neuralforecast.utils").PredictionIntervals
    model = peer_model(name, competition.horizon, steps, random_seed=0, scaler_type="standard")
    forecaster = package.NeuralForecast(models=[model], freq=competition.freq)
    forecaster.fit(competition.train, prediction_intervals=intervals(n_windows=CALIBRATION_WINDOWS))
    return _beside(competition, forecaster.predict(level=list(LEVELS)))


def _beside(competition: Competition, forecast: pd.DataFrame) -> pd.DataFrame:
    return came(competition).merge(forecast, on=["unique_id", "ds"], how="left", validate="1:1")
