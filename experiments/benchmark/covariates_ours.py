"""The estimator with and without covariates on a problem: fitted once, then forecast and updated day by day."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from benchmark.covariates_data import DAY, ID, LOOKBACK, TARGET, TIME, Problem
from titans_ts import TitansForecaster


class Given(NamedTuple):
    """What a row is given of covariates and of the calendar, and whether it forecasts the square roots of values."""

    covariates: bool
    calendar: bool
    roots: bool = False


WHOLE = "ours, covariates and calendar"
GIVEN = {
    "ours": Given(False, False),
    "ours, calendar": Given(False, True),
    "ours, covariates": Given(True, False),
    WHOLE: Given(True, True),
    f"{WHOLE}, square roots": Given(True, True, roots=True),
}


class Outcome(NamedTuple):
    """Forecasts (series, origins, horizon), seconds of the processor for the fit and for them, and what was chosen."""

    forecast: np.ndarray
    fit_seconds: float
    forecast_seconds: float
    choices: str = ""


def forecast(problem: Problem, row: str) -> Outcome:
    """What the default estimator makes of a problem."""
    future_cols, calendar, roots = GIVEN[row]
    if roots:
        return squared(forecast(problem.of_roots, WHOLE))
    columns = [ID, TIME, TARGET, *(problem.future_cols if future_cols else ())]
    model = TitansForecaster(
        horizon=problem.horizon,
        lookback=LOOKBACK,
        freq="h",
        future_cols=list(problem.future_cols) if future_cols else None,
        calendar=list(problem.calendar) if calendar else None,
        val_size=problem.n_validation,
        missing="interpolate",
        lower=0,  # counts and loads
        random_state=0,
        device="cpu",
        verbose=0,
    )
    begun = time.process_time()
    model.fit(problem.before[columns])
    fitted = time.process_time()
    found = []
    for origin in problem.origins:
        ahead = problem.rows(origin, problem.horizon)[columns] if future_cols else None
        of_ids = model.predict(future=ahead).groupby(ID, sort=False)["Titans"]
        found.append(np.stack([of_ids.get_group(name).to_numpy() for name in problem.ids]))
        if origin < problem.origins[-1]:
            model.update(problem.rows(origin, DAY)[columns])
    seconds = time.process_time() - fitted
    choices = model.summary()
    chosen = choices[choices["chosen"]]
    text = "; ".join(" ".join(str(x) for x in row[1:3]) for row in chosen.itertuples())
    return Outcome(np.stack(found, axis=1), fitted - begun, seconds, text)


def squared(outcome: Outcome) -> Outcome:
    """An outcome of square roots as that of the values."""
    return outcome._replace(forecast=np.maximum(outcome.forecast, 0) ** 2)
