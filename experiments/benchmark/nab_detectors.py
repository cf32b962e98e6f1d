"""Simple detectors for the Numenta Anomaly Benchmark: errors, and how they become scores in [0, 1].

A detector reads one file's times and values and gives each row a score, from that row and those before it alone. Most
are an error of each row, in `ERRORS`, and a scaling of errors, in `SCALINGS`; another error is one entry more, and a
detector that scales itself one more of `detectors()`:

    ERRORS["core error"] = core_error  # (timestamps, values) -> errors, NaN where there is none

The scalings: how far an error lies above the normal distribution of the errors before it ("tail"); the same of the mean
of the last ten errors, as Numenta's anomaly likelihood ("likelihood"); and the first, silent where one of the last 288
rows scored as much ("tail, quiet"), since NAB counts each row of a false alarm. 288 rows are a day of five-minute
steps, which most files have. How many errors a mean has and how long a detector is silent was looked at on NAB itself,
as most of its published detectors were, and there is no other set to choose by.

Source
------
S. Ahmad, A. Lavin, S. Purdy, Z. Agha: Unsupervised real-time anomaly detection for streaming data, Neurocomputing 2017,
section 3.2, and the defaults of its code (ten errors, a history of 8,640). There the score is the logarithm of the tail
probability over that of 1e-10, and what lies beyond is 1; here z / (1 + z) of the distance z in standard deviations,
which orders rows alike and goes on telling them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

SHORT, LONG = 10, 8640  # errors whose mean is compared, and the history it is compared with
LEAST = 10  # errors before the first score
FLOOR = 1e-3  # the least standard deviation, as a share of the largest error so far
QUIET = 288  # rows
DAY = np.timedelta64(1, "D")

Detector = Callable[[np.ndarray, np.ndarray], np.ndarray]  # times (rows,), values (rows,) -> scores (rows,)
Errors = Callable[[np.ndarray, np.ndarray], np.ndarray]  # the same -> errors (rows,) >= 0, NaN where there is none
Scaling = Callable[[np.ndarray], np.ndarray]  # errors (rows,) -> scores (rows,)


def rolling_z_score(timestamps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """How many standard deviations each value lies from the mean, both of the values before it, as a score."""
    return _score(np.abs(distances(values)))


def naive_error(timestamps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The change from the value before."""
    return np.abs(np.diff(values, prepend=np.nan))


def seasonal_naive_error(timestamps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The change from the last value that is at least a day old, by the clock.

    Whatever the file's step, and across gaps; an hour that is repeated, where clocks were set back, has the same day
    before it both times.
    """
    clock = np.maximum.accumulate(timestamps)
    before = np.searchsorted(clock, clock - DAY, side="right") - 1
    return np.where(before < 0, np.nan, np.abs(values - values[np.maximum(before, 0)]))


def random(timestamps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Scores that know nothing: what the best threshold alone brings. Other ones for each file, by its first value."""
    return np.random.default_rng(int(values[:1].view(np.uint64)[0])).random(len(values))


def tail(errors: np.ndarray) -> np.ndarray:
    """How far each error lies above those before it, as a score."""
    return _score(distances(errors))


def likelihood(errors: np.ndarray, short: int = SHORT, long: int = LONG) -> np.ndarray:
    """How far the mean of the last errors lies above what such means were before, as a score.

    Parameters
    ----------
    errors : ndarray of shape (rows,)
        In any unit; NaN where there is none.
    short, long : int, optional
        Errors in a mean, and rows of history that the mean is compared with.

    Returns
    -------
    ndarray of shape (rows,)
        In [0, 1): 0 up to the mean of the history, .5 a standard deviation above, .75 three.
    """
    sums, counts = _over_last(errors, short)
    means = np.divide(sums, counts, out=np.full(len(errors), np.nan), where=counts > 0)
    return _score(distances(means, long))


def quiet(scores: np.ndarray, rows: int = QUIET) -> np.ndarray:
    """The scores that exceed all of the last `rows` rows, and 0 for the others."""
    before = sliding_window_view(np.concatenate([np.zeros(rows), scores]), rows)[: len(scores)]
    return np.where(scores > before.max(axis=1), scores, 0.0)


def distances(values: np.ndarray, long: int = LONG) -> np.ndarray:
    """How many standard deviations each value lies above the mean, both of the `long` rows before it.

    0 where there is no value, or fewer than ten before it. The standard deviation is at least a thousandth of the
    largest change from the first value so far, so that a constant that changes is 1,000 away and not infinitely.
    """
    present = ~np.isnan(values)
    if not present.any():
        return np.zeros(len(values))
    values = values - values[np.argmax(present)]  # the squares of what is far from 0 would cancel
    sums, counts = _before(values, long)
    squares, _ = _before(np.square(values), long)
    mean, square = sums / np.maximum(counts, 1), squares / np.maximum(counts, 1)
    deviation = np.sqrt(np.maximum(square - np.square(mean), 0))
    largest = np.maximum.accumulate(np.where(present, np.abs(values), 0))
    deviation = np.maximum(deviation, FLOOR * largest)
    scored = present & (counts >= LEAST) & (deviation > 0)
    found: np.ndarray = np.divide(values - mean, deviation, out=np.zeros(len(values)), where=scored)
    return found


ERRORS: dict[str, Errors] = {"naive error": naive_error, "seasonal naive error": seasonal_naive_error}
SCALINGS: dict[str, Scaling] = {
    "tail": tail,
    "likelihood": likelihood,
    "tail, quiet": lambda errors: quiet(tail(errors)),
}


def detectors(errors: Mapping[str, Errors] = ERRORS) -> dict[str, Detector]:
    """The rolling z-score, random scores, and each error by each scaling, named "error: scaling"."""
    return {
        "random": random,
        "rolling z-score": rolling_z_score,
        "rolling z-score: quiet": _detector(rolling_z_score, quiet),
        **{
            f"{name}: {scaling}": _detector(error, scale)
            for name, error in errors.items()
            for scaling, scale in SCALINGS.items()
        },
    }


def _detector(error: Errors, scale: Scaling) -> Detector:
    return lambda timestamps, values: scale(error(timestamps, values))


def _score(distance: np.ndarray) -> np.ndarray:
    above = np.maximum(distance, 0)
    score: np.ndarray = above / (1 + above)
    return score


def _over_last(values: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values in each row and the `rows` - 1 before it."""
    present = ~np.isnan(values)
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - rows, 0)
    sums = np.concatenate([[0.0], np.cumsum(np.where(present, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(present)])
    return sums[end] - sums[begin], counts[end] - counts[begin]


def _before(values: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of the `rows` rows before each."""
    sums, counts = _over_last(values, rows)
    return np.concatenate([[0.0], sums[:-1]]), np.concatenate([[0], counts[:-1]])
