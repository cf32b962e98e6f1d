"""Intervals over the test rows of a data set: a frame of forecasts for each method, from the same origins.

The estimator, neuralforecast's conformal intervals and statsforecast's AutoETS; see intervals.py for what each knows.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pandas as pd

from benchmark.estimator import regular_frame
from benchmark.interval_scores import LEVELS, forecast_frame
from benchmark.peer_models import peer_model, to_long
from titans_ts import TitansForecaster
from titans_ts.datasets import Dataset

LOOKBACK = 96
EVERY = {"h": 25, "10min": 150}  # rows from one origin to the next, 25 hours: all times of the day come alike
ETS_ROWS, ETS_EVERY = 1000, 11  # rows that AutoETS is fitted to at an origin, and of so many origins one is its
SEASON = 24  # of hours
PEER_STEPS, CALIBRATION_WINDOWS = 500, 100


class Rows:
    """A data set's rows up to the end of test, in long form.

    Parameters
    ----------
    data : Dataset
    horizon : int
    every : int, optional
        Rows from one origin to the next; 25 hours if None.
    """

    def __init__(self, data: Dataset, horizon: int, every: int | None = None) -> None:
        self.data, self.horizon = data, horizon
        self.wide = regular_frame(data)
        self.fitted = data.split.validation.stop
        every = EVERY[data.freq] if every is None else every
        self.origins = range(self.fitted, data.split.test.stop - horizon + 1, every)
        self.scales = pd.Series(data.scaler.scale_, self.wide.columns)

    def between(self, begin: int, end: int) -> pd.DataFrame:
        """Rows [begin, end) of all series, one series after another."""
        return to_long(self.wide.iloc[max(begin, 0) : end])

    def scored(self, parts: dict[int, pd.DataFrame]) -> pd.DataFrame:
        """What came beside forecasts, from the rows known at each origin."""
        frames = []
        for origin, forecast in parts.items():
            came = self.between(origin, origin + self.horizon)
            came["step"] = came.groupby("unique_id", sort=False).cumcount() + 1
            frame = came.merge(forecast, on=["unique_id", "ds"], how="left", validate="1:1")
            frames.append(frame.assign(origin=origin))
        return pd.concat(frames, ignore_index=True)


def fitted(rows: Rows, **settings: Any) -> TitansForecaster:
    """The estimator as it comes, fitted to train and validation rows, of which the last are held out."""
    model = TitansForecaster(
        horizon=rows.horizon,
        lookback=LOOKBACK,
        val_size=len(rows.data.split.validation),
        outliers="keep",  # the sentinels of weather count as values
        random_state=0,
        verbose=0,
        **settings,
    )
    return model.fit(rows.between(0, rows.fitted))


def streamed(model: TitansForecaster, rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Forecasts of a model that moves on by `update`, which it is left at.

    Returns
    -------
    tuple of DataFrame
        The first with intervals by the errors of validation rows alone, the second by those of the last rows.
    """
    begun, known = model.fitted_.calibration, rows.fitted
    frozen, adaptive = dict[int, pd.DataFrame](), dict[int, pd.DataFrame]()
    for origin in rows.origins:
        if origin > known:
            model.update(rows.between(known, origin))
        adaptive[origin], moved, known = model.predict(level=LEVELS), model.fitted_, origin
        model.fitted_ = replace(moved, calibration=begun)
        frozen[origin] = model.predict(level=LEVELS)
        model.fitted_ = moved
    return rows.scored(frozen), rows.scored(adaptive)


def conformal(rows: Rows, name: str, steps: int = PEER_STEPS) -> pd.DataFrame:
    """Forecasts of a network of neuralforecast, its intervals by the absolute errors of windows in validation rows.

    `CALIBRATION_WINDOWS` evenly spaced ones, for which the package trains the network once more on the rows before
    them; steps of training at most.
    """
    package = importlib.import_module("neuralforecast")
    intervals = importlib.import_module("neuralforecast.utils").PredictionIntervals
    held_out = len(rows.data.split.validation)
    spacing = max(1, (held_out - rows.horizon) // (CALIBRATION_WINDOWS - 1))
    windows = (held_out - rows.horizon) // spacing + 1
    model = peer_model(name, rows.horizon, steps, random_seed=0)
    forecaster = package.NeuralForecast(models=[model], freq=rows.data.freq)
    forecaster.fit(
        standardised(rows, 0, rows.fitted), prediction_intervals=intervals(n_windows=windows, step_size=spacing)
    )
    parts = {}
    for origin in rows.origins:
        forecast = forecaster.predict(df=standardised(rows, origin - LOOKBACK, origin), level=list(LEVELS))
        parts[origin] = _own_units(rows, forecast)
    return rows.scored(parts)


def auto_ets(rows: Rows) -> pd.DataFrame:
    """Forecasts of statsforecast's AutoETS, fitted anew to the last rows of each series at each origin."""
    model = importlib.import_module("statsforecast.models").AutoETS(season_length=SEASON)
    parts = {}
    for origin in rows.origins:
        found = []
        for name, values in rows.wide.iloc[max(origin - ETS_ROWS, 0) : origin].items():
            known = rows.wide.index[origin : origin + rows.horizon]
            ahead = pd.DataFrame({"unique_id": name, "ds": known})
            found.append(
                forecast_frame(ahead, "AutoETS", model.forecast(values.to_numpy(), rows.horizon, level=list(LEVELS)))
            )
        parts[origin] = pd.concat(found, ignore_index=True)
    return rows.scored(parts)


def standardised(rows: Rows, begin: int, end: int) -> pd.DataFrame:
    """Rows as networks are given them, by the mean and standard deviation of the train rows."""
    wide = rows.wide.iloc[max(begin, 0) : end]
    return to_long(pd.DataFrame(rows.data.scaler.transform(wide), wide.index, wide.columns))


def _own_units(rows: Rows, forecast: pd.DataFrame) -> pd.DataFrame:
    """A forecast of standardised rows in the data's units."""
    values = forecast.drop(columns=["unique_id", "ds"])
    scale = rows.scales.loc[forecast["unique_id"]].to_numpy()[:, None]
    mean = pd.Series(rows.data.scaler.mean_, rows.wide.columns).loc[forecast["unique_id"]].to_numpy()[:, None]
    return forecast[["unique_id", "ds"]].join(values * scale + mean)


def every(rows: Rows, frame: pd.DataFrame, number: int) -> pd.DataFrame:
    """The forecasts from one of so many origins."""
    return frame[frame["origin"].isin(rows.origins[::number])]
