"""The score of the Numenta Anomaly Benchmark (NAB): what detections are worth by their place in labelled windows.

A detector gives each row of each file a score in [0, 1]; rows that score at least a threshold, one for all files, are
detections. Of those in a window the first one counts, the more the earlier it is: 1 in the window's first row, near 0
in its last one. A window without any costs what a missed anomaly costs. Each detection outside a window costs, just
after a window little and far from one in full. The first 15 % of a file's rows, at most 750, count for nothing.

Source
------
A. Lavin, S. Ahmad: Evaluating Real-time Anomaly Detection Algorithms, the Numenta Anomaly Benchmark, ICMLA 2015; and
where the paper and the code differ, the code: https://github.com/numenta/NAB at ea702d7, `nab/sweeper.py` for the
worth of a row and the sweep, `nab/optimizer.py` for the threshold, chosen anew for each profile, `nab/runner.py` for
the scale of 0 to 100, `config/profiles.json` for the profiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PROBATION, MOST_PROBATION = 0.15, 750  # the share of a file's rows that do not count, and the most of them
STEEPNESS, FAR = 5.0, 3.0  # of the sigmoid; widths behind a window from where a detection costs in full
NEVER = 1.1  # NAB's threshold of no detections


class Profile(NamedTuple):
    """What an application gains by a window that is found, and loses by a false detection and by a missed window."""

    found: float
    false: float
    missed: float


PROFILES = {
    "standard": Profile(found=1.0, false=0.11, missed=1.0),
    "reward_low_FP_rate": Profile(found=1.0, false=0.22, missed=1.0),
    "reward_low_FN_rate": Profile(found=1.0, false=0.11, missed=2.0),
}


class Worth(NamedTuple):
    """What a detection is worth at each row, of one file or of several in turn.

    `worth` (rows,) is in (0, 1] in a window and in [-1, 0] outside, before a profile weighs it; `window` (rows,) is the
    number of the row's window, -1 outside of all; `counts` (rows,) says which rows are past probation.
    """

    worth: np.ndarray
    window: np.ndarray
    counts: np.ndarray
    n_windows: int


class Score(NamedTuple):
    """The score of a detector by a profile, 0 without detections and 100 if perfect, at the best threshold."""

    score: float
    threshold: float
    found: int  # windows
    false: int  # rows


def worth_of_rows(n_rows: int, windows: Sequence[tuple[int, int]]) -> Worth:
    """What a detection is worth at each row of one file.

    Parameters
    ----------
    n_rows : int
        Rows of the file.
    windows : sequence of (first, last)
        The first and the last row of each window, both inside it, in order.

    Raises
    ------
    ValueError
        If a window has under two rows or lies outside the file, or windows overlap or are not in order.
    """
    _check_windows(n_rows, windows)
    rows = np.arange(n_rows)
    worth, window = np.full(n_rows, -1.0), np.full(n_rows, -1)
    for number, (first, last) in enumerate(windows):
        width = last - first + 1
        inside, behind = rows[first : last + 1], rows[last + 1 :]
        worth[inside] = _sigmoid((inside - last - 1) / width) / _sigmoid(np.array(-1.0))
        distance = (behind - last) / (width - 1)
        worth[behind] = np.where(distance > FAR, -1.0, _sigmoid(distance))  # until the next window begins
        window[inside] = number
    return Worth(worth, window, rows >= probation(n_rows), len(windows))


def probation(n_rows: int) -> int:
    """How many of a file's rows, its first, count for nothing."""
    return min(int(PROBATION * n_rows), MOST_PROBATION)


def join(files: Sequence[Worth]) -> Worth:
    """The rows of several files as one; their windows are numbered through."""
    before = np.cumsum([0, *(file.n_windows for file in files)])
    windows = [np.where(file.window < 0, -1, file.window + n) for file, n in zip(files, before[:-1], strict=True)]
    return Worth(
        np.concatenate([file.worth for file in files]),
        np.concatenate(windows),
        np.concatenate([file.counts for file in files]),
        int(before[-1]),
    )


def best_score(rows: Worth, scores: np.ndarray, profile: Profile) -> Score:
    """The score at the threshold that is best by this profile, of those that are best the highest.

    Parameters
    ----------
    rows : Worth
        Of all rows of all files.
    scores : ndarray of shape (rows,)
        The detector's, in [0, 1].
    profile : Profile

    Raises
    ------
    ValueError
        If `scores` has another length, or values outside [0, 1].
    """
    thresholds, sums = sweep(rows, scores, profile)
    threshold = thresholds[np.argmax(sums)]
    return score_at(rows, scores, float(threshold), profile)


def score_at(rows: Worth, scores: np.ndarray, threshold: float, profile: Profile) -> Score:
    """The score at a given threshold; parameters and errors as of `best_score`."""
    _check_scores(rows, scores)
    detected = rows.counts & (scores >= threshold)
    found, false = detected & (rows.window >= 0), detected & (rows.window < 0)
    best = np.zeros(rows.n_windows)
    np.maximum.at(best, rows.window[found], rows.worth[found])
    n_found = int((best > 0).sum())
    missed = _n_scored(rows) - n_found
    total = profile.found * best.sum() + profile.false * rows.worth[false].sum() - profile.missed * missed
    return Score(normalise(rows, total, profile), threshold, n_found, int(false.sum()))


def sweep(rows: Worth, scores: np.ndarray, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Every threshold that matters, from the one above all scores downwards, and the sum of worths at each.

    As each threshold lets more rows in, windows gain by the rows that are their earliest so far and lose what missing
    them had cost; one pass over the rows in the order of their scores has all sums. Parameters and errors as of
    `best_score`.
    """
    _check_scores(rows, scores)
    order = np.flatnonzero(rows.counts)
    order = order[np.argsort(-scores[order], kind="stable")]
    scores, worth, window = scores[order], rows.worth[order], rows.window[order]
    steps = np.where(window < 0, profile.false * worth, 0.0)
    by_window = np.flatnonzero(window >= 0)
    by_window = by_window[np.argsort(window[by_window], kind="stable")]
    for place in np.split(by_window, np.flatnonzero(np.diff(window[by_window])) + 1):
        gains = np.maximum.accumulate(profile.found * worth[place])
        steps[place] = np.diff(gains, prepend=-profile.missed)
    sums = np.concatenate([[0.0], np.cumsum(steps)]) - profile.missed * _n_scored(rows)
    last = np.flatnonzero(np.diff(scores, append=-1.0))  # of the rows of equal scores
    return np.concatenate([[NEVER], scores[last]]), sums[np.concatenate([[0], last + 1])]


def normalise(rows: Worth, total: float, profile: Profile) -> float:
    """A sum of worths on the scale from 0, without detections, to 100, each window found in its first row."""
    null, perfect = -profile.missed * _n_scored(rows), profile.found * rows.n_windows
    return float(100 * (total - null) / (perfect - null))


def _sigmoid(position: np.ndarray) -> np.ndarray:
    return 2 / (1 + np.exp(STEEPNESS * position)) - 1


def _n_scored(rows: Worth) -> int:
    """Windows that reach past probation."""
    return len(np.unique(rows.window[rows.counts & (rows.window >= 0)]))


def _check_windows(n_rows: int, windows: Sequence[tuple[int, int]]) -> None:
    ends = np.array([-1, *(row for window in windows for row in window), n_rows])
    if (np.diff(ends) < 1).any():
        raise ValueError(
            f"`windows` must be pairs of a first and a later last row within the file's {n_rows} rows, in order and "
            f"without an overlap, got {list(windows)}."
        )


def _check_scores(rows: Worth, scores: np.ndarray) -> None:
    if scores.shape != rows.worth.shape:
        raise ValueError(f"`scores` must have shape {rows.worth.shape}, one for each row, got {scores.shape}.")
    if outside := int((~((scores >= 0) & (scores <= 1))).sum()):
        raise ValueError(f"`scores` must be in [0, 1], got {outside} of {len(scores)} that are not.")
