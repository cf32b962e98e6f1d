"""The project's own detectors for the Numenta Anomaly Benchmark: surprise, and the error of the core alone.

A model is fitted on the probation part of a file, the rows that NAB gives every detector before it scores any, and then
told of each row by `surprise`; what it knows of a row after that part are the rows before it. Rows are counted, one a
step, for times of the files have gaps and repeats. The season is a day of the file's step, or none where the probation
part does not hold two; 48 rows are read, 12 forecast, the closed form alone: nothing was tuned to NAB's labels.

"surprise" has a long-term memory that goes on learning, "core error" none; both are errors over their usual size until
then, one of usual size a score of .5, and each is also scaled as the errors of `nab_detectors` are.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmark.estimator import closed_form
from benchmark.nab_detectors import DAY, SCALINGS, Detector, Scaling, quiet
from benchmark.nab_score import probation

LOOKBACK, HORIZON = 48, 12  # rows
LARGEST = 1000.0  # as far as a constant that changes is in `nab_detectors`
CONTEXTS = {"surprise": "stream", "core error": "window"}


def own_detectors() -> dict[str, Detector]:
    """Both errors as they are, silent for a while after one as large, and by each scaling: "error: scaling"."""
    scalings: dict[str, Scaling] = {"": plain, ": quiet": lambda found: quiet(plain(found))}
    scalings |= {f": {name}": scale for name, scale in SCALINGS.items()}
    return {
        name + scaling: partial(_detect, context, scale)
        for name, context in CONTEXTS.items()
        for scaling, scale in scalings.items()
    }


def plain(surprise: np.ndarray) -> np.ndarray:
    """Surprise (rows,) as a score in [0, 1): .5 for an error of the usual size, 0 where there is none."""
    found = np.nan_to_num(surprise)
    share: np.ndarray = found / (1 + found)
    return share


def surprise(timestamps: np.ndarray, values: np.ndarray, context: str = "stream") -> np.ndarray:
    """Errors of one-step forecasts over their usual size, by a model of the probation part.

    Parameters
    ----------
    timestamps, values : ndarray of shape (rows,)
    context : {"stream", "window"}
        As `TitansForecaster` takes it.

    Returns
    -------
    ndarray of shape (rows,)
        NaN where there is none.
    """
    known = max(probation(len(values)), 3)
    day = round(float(DAY / np.median(np.diff(timestamps))))
    model = closed_form(
        horizon=HORIZON,
        lookback=LOOKBACK,
        cycle=day if known >= 2 * day else 0,
        context=context,
        linear_path=True,
        outliers="keep",
    )
    rows = values[:, None]
    found: np.ndarray = np.minimum(model.fit(rows[:known]).surprise(rows)[:, 0], LARGEST)
    return found


def _detect(context: str, scale: Scaling, timestamps: np.ndarray, values: np.ndarray) -> np.ndarray:
    return scale(surprise(timestamps, values, context))
