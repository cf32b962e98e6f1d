"""Other packages' models with the same covariates on a problem: LightGBM on lags by mlforecast, neuralforecast's TiDE.

They are given the same rows: fitted on those before test, the number of trees or of steps chosen on the same last rows
of these, and forecast from the same origins with the same covariates and features of the calendar.
Missing targets are filled with the value of a week before, which is then known, and are not learned from.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmark.covariates_data import DAY, ID, LOOKBACK, STEP, TARGET, TIME, Problem, at_origins
from benchmark.covariates_ours import Outcome, squared
from benchmark.peer_models import QUIET
from titans_ts.tables.calendar_features import CATEGORIES

Model = Callable[[Problem], Outcome]

WEEK = 7 * DAY
WEIGHT = "weight"
LAGS = [*range(1, DAY + 1), *range(2 * DAY, WEEK + 1, DAY), 2 * WEEK]
TREES = dict(learning_rate=0.05, num_leaves=63, subsample=0.8, subsample_freq=1, colsample_bytree=0.8, verbosity=-1)
MOST_TREES = 2000
PATIENCE = 50  # trees, of early stopping
STEPS = 1000  # of training, at most
SIZE = dict(hidden_size=128, windows_batch_size=128)  # by their defaults, 512 and 1024, a step takes a second
STOPPING = dict(early_stop_patience_steps=5, val_check_steps=100)


def seasonal_naive(problem: Problem) -> Outcome:
    """What came a week before."""
    begun = time.process_time()
    wide = filled(problem).pivot(index=TIME, columns=ID, values=TARGET)[problem.ids]
    weeks = -(-problem.horizon // WEEK)
    past = at_origins(wide, problem.origins - weeks * WEEK * STEP, weeks * WEEK)[..., -WEEK:]
    forecast = np.tile(past, weeks)[..., : problem.horizon]
    return Outcome(forecast, 0.0, time.process_time() - begun)


def lightgbm_recursive(problem: Problem) -> Outcome:
    """One model of the next hour, whose forecasts are read as the lags of the hours after it."""
    begun = time.process_time()
    frame = features(problem)
    forecaster = _forecaster(LAGS)
    rows = forecaster.preprocess(frame[frame[TIME] < problem.begin].drop(columns=WEIGHT), static_features=[])
    rows = _without_filled(rows, frame)
    trees = _trees(rows, problem)
    forecaster.models = {"forecast": _model(trees)}
    forecaster.fit_models(rows.drop(columns=[ID, TIME, TARGET]), rows[TARGET].to_numpy())
    fitted = time.process_time()
    exogenous, found = frame.drop(columns=[TARGET, WEIGHT]), []
    for origin in problem.origins:
        ahead = exogenous[(frame[TIME] >= origin) & (frame[TIME] < origin + problem.horizon * STEP)]
        made = forecaster.predict(problem.horizon, X_df=ahead)
        found.append(made["forecast"].to_numpy().reshape(len(problem.ids), problem.horizon))
        day = frame[(frame[TIME] >= origin) & (frame[TIME] < origin + DAY * STEP)]
        forecaster.update(day[[ID, TIME, TARGET]])
    seconds = time.process_time() - fitted
    return Outcome(np.stack(found, axis=1) * _scales(problem), fitted - begun, seconds, f"{trees} trees")


def lightgbm_direct(problem: Problem) -> Outcome:
    """One model of all hours ahead, on lags that are known at each origin: of a horizon and more."""
    begun = time.process_time()
    frame = features(problem)
    first = problem.horizon
    lags = sorted({*range(first, first + DAY), *range(first, first + 2 * WEEK, DAY)})
    rows = _forecaster(lags).preprocess(frame.drop(columns=WEIGHT), static_features=[])
    learned = _without_filled(rows[rows[TIME] < problem.begin], frame)
    trees = _trees(learned, problem)
    model = _model(trees).fit(learned.drop(columns=[ID, TIME, TARGET]), learned[TARGET])
    fitted = time.process_time()
    test = rows[rows[TIME] >= problem.begin]
    test = test.assign(**{TARGET: model.predict(test.drop(columns=[ID, TIME, TARGET]))})
    wide = test.pivot(index=TIME, columns=ID, values=TARGET)[problem.ids]
    found = at_origins(wide, problem.origins, problem.horizon) * _scales(problem)
    return Outcome(found, fitted - begun, time.process_time() - fitted, f"{trees} trees")


def tide(problem: Problem) -> Outcome:
    """TiDE, its inputs scaled by robust statistics of each window, its steps ended by the errors on validation rows."""
    models = importlib.import_module("neuralforecast.models")
    losses = importlib.import_module("neuralforecast.losses.pytorch")
    begun = time.process_time()
    frame = _dummies(features(problem)).rename(columns={WEIGHT: "available_mask"})
    exogenous = [name for name in frame if name not in (ID, TIME, TARGET, "available_mask")]
    model = models.TiDE(
        h=problem.horizon,
        input_size=LOOKBACK,
        futr_exog_list=exogenous,
        loss=losses.MAE(),
        max_steps=STEPS,
        **SIZE,
        scaler_type="robust",
        random_seed=0,
        accelerator="cpu",
        **QUIET,
        **STOPPING,
    )
    forecaster = importlib.import_module("neuralforecast").NeuralForecast(models=[model], freq="h")
    before = frame[frame[TIME] < problem.begin].reset_index(drop=True)
    forecaster.fit(before, val_size=problem.n_validation)
    fitted = time.process_time()
    whole = frame[frame[TIME] < problem.origins[-1] + problem.horizon * STEP].reset_index(drop=True)
    size = int((whole[TIME].max() + STEP - problem.begin) / STEP)
    span = dict(n_windows=None, test_size=size, step_size=DAY, val_size=0, use_fitted=True, refit=False)
    made = forecaster.cross_validation(whole, **span)
    made["step"] = made.groupby([ID, "cutoff"], sort=False).cumcount()
    wide = made.pivot(index=[ID, "cutoff"], columns="step", values="TiDE").loc[problem.ids]
    found = wide.to_numpy().reshape(len(problem.ids), len(problem.origins), problem.horizon)
    taken = len(forecaster.models[0].train_trajectories)
    found = found * _scales(problem)
    return Outcome(found, fitted - begun, time.process_time() - fitted, f"{taken} steps")


# of each row, the package that it needs
PEERS: dict[str, tuple[str, Model]] = {
    "LightGBM, recursive": ("mlforecast", lightgbm_recursive),
    "LightGBM, recursive, square roots": (
        "mlforecast",
        lambda problem: squared(lightgbm_recursive(problem.of_roots)),
    ),
    "LightGBM, lags of a horizon and more": ("mlforecast", lightgbm_direct),
    "TiDE": ("neuralforecast", tide),
}


def filled(problem: Problem) -> pd.DataFrame:
    """The frame with missing targets as a week before, in the first week as the hour before; `weight` is 0 there."""
    wide = problem.frame.pivot(index=TIME, columns=ID, values=TARGET)
    wide[:WEEK] = wide[:WEEK].ffill().bfill()
    while wide.isna().any(axis=None):
        wide = wide.fillna(wide.shift(WEEK))
    whole = wide.unstack().rename(TARGET).reset_index()
    frame = problem.frame.assign(**{WEIGHT: problem.frame[TARGET].notna().astype(float)})
    return frame.drop(columns=TARGET).merge(whole, on=[ID, TIME], validate="1:1")


def features(problem: Problem) -> pd.DataFrame:
    """All rows over the mean of each series, with numbers for categories, the calendar, and a day's mean of weather."""
    frame = filled(problem)
    frame[TARGET] /= frame[ID].map(problem.scale)
    for name in problem.future_cols:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype("category").cat.codes.astype(float)
        elif frame[name].nunique() > 2:
            day = frame.groupby(ID, sort=False)[name].rolling(DAY, min_periods=1).mean()
            frame[f"{name} of a day"] = day.to_numpy()
    times = frame[TIME].dt
    for name in problem.calendar:
        if name in CATEGORIES:
            frame[name] = getattr(times, "day_of_week" if name == "weekday" else name).astype(float)
        else:
            country = importlib.import_module("holidays").country_holidays(name.partition(":")[2])
            days = {day: day in country for day in times.date.unique()}
            frame["calendar holiday"] = times.date.map(days).astype(float)
    return frame


def _dummies(frame: pd.DataFrame) -> pd.DataFrame:
    """The features with waves for hours and months and dummies for the other categories, for a network."""
    frame = frame.copy()
    for name, period in (("hour", 24), ("month", 12)):
        angle = 2 * np.pi * frame.pop(name) / period
        for k in (1, 2, 3):
            frame[f"cos {k} {name}"], frame[f"sin {k} {name}"] = np.cos(k * angle), np.sin(k * angle)
    return pd.get_dummies(frame, columns=[name for name in ("weekday", "weathersit") if name in frame], dtype=float)


def _forecaster(lags: list[int]) -> Any:
    """mlforecast's maker of lags."""
    package = importlib.import_module("mlforecast")
    return package.MLForecast(models={}, freq="h", lags=lags)


def _without_filled(rows: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """The rows whose target is known; both have the index of `frame`."""
    return rows[frame.loc[rows.index, WEIGHT].to_numpy() > 0]


def _trees(rows: pd.DataFrame, problem: Problem) -> int:
    """How many trees forecast the validation rows best, after fitting those before them."""
    lightgbm = importlib.import_module("lightgbm")
    first = problem.begin - problem.n_validation * STEP
    train, validation = (
        part.drop(columns=[ID, TIME]) for part in (rows[rows[TIME] < first], rows[rows[TIME] >= first])
    )
    stop = lightgbm.early_stopping(PATIENCE, verbose=False)
    x, y = train.drop(columns=TARGET), train[TARGET]
    ahead = dict(eval_X=validation.drop(columns=TARGET), eval_y=validation[TARGET])
    model = _model(MOST_TREES).fit(x, y, callbacks=[stop], **ahead)
    return int(model.best_iteration_)


def _model(trees: int) -> Any:
    return importlib.import_module("lightgbm").LGBMRegressor(n_estimators=trees, n_jobs=1, random_state=0, **TREES)


def _scales(problem: Problem) -> np.ndarray:
    scales: np.ndarray = problem.scale[problem.ids].to_numpy()[:, None, None]
    return scales
