"""How sure the difference between two rows' errors is: a block bootstrap over days, paired by origin.

Errors at origins that are close to one another are of nearly the same rows, so days are resampled in blocks: of twice
the horizon, since with blocks as short as errors are related the interval is too narrow, or less where there would be
few of them, but none shorter than the horizon. The interval is Student's by the deviation of the resampled means, with
as many degrees of freedom as there are blocks, less one: with few of them percentiles would be too narrow.

Source
------
Politis and Romano (1992), the circular block bootstrap; Künsch (1989) on blocks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import t  # type: ignore[import-untyped]

FEW = 8  # blocks


class Interval(NamedTuple):
    """A mean, and the interval that it lies in with a confidence of 95 %, where that was asked for."""

    mean: float
    low: float
    high: float


def paired_interval(
    errors: np.ndarray,
    others: np.ndarray,
    *,
    day: int,
    horizon: int,
    samples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """The mean of `errors` minus that of `others`, and its interval.

    Parameters
    ----------
    errors, others : ndarray, shape (origins,) or (origins, channels)
        Of two rows at the same origins, in order; channels count alike.
    day : int
        Origins of a day. The last day may be shorter.
    horizon : int
        Steps ahead that each error is of.
    samples : int
    confidence : float
    seed : int

    Returns
    -------
    Interval

    Raises
    ------
    ValueError
        If the shapes differ, or the days are fewer than two blocks.
    """
    if errors.shape != others.shape:
        raise ValueError(f"`others` must have the shape of `errors`, {errors.shape}, got {others.shape}.")
    difference = (errors.astype(np.float64) - others).reshape(len(errors), -1).mean(1)
    firsts = np.arange(0, len(difference), day)
    sums, counts = np.add.reduceat(difference, firsts), np.diff([*firsts, len(difference)])
    n_days = len(firsts)
    block = max(math.ceil(horizon / day), min(math.ceil(2 * horizon / day), n_days // FEW))
    if n_days < 2 * block:
        raise ValueError(f"`errors` must be of two blocks of {block} days or more, got {n_days} days.")
    begins = np.random.default_rng(seed).integers(n_days, size=(samples, math.ceil(n_days / block)))
    drawn = ((begins[..., None] + np.arange(block)) % n_days).reshape(samples, -1)[:, :n_days]
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    blocks = n_days / block
    deviation = means.std() * math.sqrt(blocks / (blocks - 1))
    mean, reach = float(difference.mean()), float(t.ppf((1 + confidence) / 2, blocks - 1) * deviation)
    return Interval(mean, mean - reach, mean + reach)
