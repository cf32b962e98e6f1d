"""Quantiles of errors with the rank that a finite sample needs, and what stands for them where the rank is not there.

Split conformal prediction: of n earlier errors and the one to come, all in any order alike, the one to come is at most
the k-th smallest with probability k / (n + 1) or more. Between two ranks a quantile lies between their errors, so that
it is reached with probability tau, give or take 1 / (n + 1): rounded up to the next rank, as is common, both ends of an
interval are too far out by half a rank on average, of 40 errors 2.5 points of coverage. With weights that fall with age
the errors need not be alike: what is lost is bounded by how far they have drifted, weighted alike.

Sources: Vovk, Gammerman and Shafer (2005); Lei et al. (2018); Barber, Candes, Ramdas and Tibshirani (2023), section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit  # type: ignore[import-untyped]

ROUNDING = 1e-9  # of a sum of weights

Upper = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class ErrorQuantiles:
    """Errors of samples, by series and step, in rising order.

    Parameters
    ----------
    errors : ndarray, shape (n_series, origins, steps)
        Those that are not there last, as infinity.
    weights : ndarray, shape (n_series, origins, steps)
        Sums of the weights up to each, of which the newest error has 1.
    """

    errors: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, errors: np.ndarray, weights: np.ndarray) -> ErrorQuantiles:
        """Of errors (n_series, origins, steps), NaN where there is none, with weights (origins,)."""
        order = np.argsort(errors, axis=1)  # NaN last
        found = np.take_along_axis(errors, order, axis=1).astype(np.float64)
        there = np.isfinite(found)
        return cls(np.where(there, found, np.inf), np.where(there, weights[order], 0.0).cumsum(1))

    @property
    def total(self) -> np.ndarray:
        """The sum of the weights, (n_series, steps): about how many errors there are."""
        total: np.ndarray = self.weights[:, -1]
        return total

    @property
    def reach(self) -> np.ndarray:
        """The highest level whose rank there is, (n_series, steps)."""
        reach: np.ndarray = self.total / (self.total + 1)
        return reach

    def upper(self, level: np.ndarray) -> np.ndarray:
        """What the error to come is at most with probability `level` (n_series, steps).

        Of one series, of any number of levels at each step. Infinite beyond the highest rank that there is, the lowest
        error below the first.
        """
        tolerance = ROUNDING * (self.total + 1)
        needed = level * (self.total + 1) - tolerance
        if len(self.errors) > 1:
            rank = (self.weights < needed[:, None]).sum(1)
        else:
            pairs = zip(self.weights[0].T, needed.T, strict=True)
            rank = np.stack([np.searchsorted(sums, wanted) for sums, wanted in pairs], axis=1)
        last = self.errors.shape[1] - 1
        series = np.arange(len(rank))[:, None] if len(self.errors) > 1 else 0
        at = series, np.minimum(rank, last), np.arange(rank.shape[1])
        before = series, np.maximum(at[1] - 1, 0), at[2]
        found, below = self.errors[at], self.weights[before]
        unit = np.clip(self.weights[at] - below, ROUNDING, 1.0)  # a weight of two is that of two errors
        share = np.clip((needed + 2 * tolerance - below) / unit, 0.0, 1.0)
        between = (rank > 0) & (rank <= last) & (share < 1)
        gap = np.subtract(found, self.errors[before], out=np.zeros_like(found), where=between)
        return np.where(rank > last, np.inf, found - (1 - share) * gap)


def student_upper(spread: np.ndarray, degrees: np.ndarray) -> Upper:
    """Quantiles of Student's t for a spread (steps,) that was estimated with so many degrees of freedom (steps,)."""

    def upper(level: np.ndarray) -> np.ndarray:
        found: np.ndarray = spread * stdtrit(np.maximum(degrees, 1.0), level)
        return found

    return upper


def extended_upper(own: ErrorQuantiles, tail: Upper) -> Upper:
    """Quantiles of errors and, beyond the highest rank that there is, its error times what another distribution grows.

    They rise with the level, whatever the levels asked for.
    """

    def upper(level: np.ndarray) -> np.ndarray:
        level = np.broadcast_to(level, own.total.shape if len(own.errors) > 1 else level.shape)
        reached = np.minimum(level, np.broadcast_to(own.reach, level.shape))
        found = own.upper(reached)
        beyond = level > reached
        if beyond.any():
            wide, near = np.broadcast_arrays(tail(level), tail(reached))
            grows = beyond & (near > 0)
            ratio = np.divide(wide, near, out=np.ones(level.shape), where=grows)
            # errors that all lie on the other side say nothing of this one
            found = np.where(grows, found * np.maximum(ratio, 1.0), found)
        return found

    return upper
