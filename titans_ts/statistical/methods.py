"""The methods of exponential smoothing that are averaged: a grid of levels, trends and dampings in two families.

Sources: Gardner and McKenzie (1985) for the damped trend; Hyndman and Billah (2003) for Theta as simple smoothing with
part of the slope of a straight line, the method of Assimakopoulos and Nikolopoulos (2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)
TRENDS = (0.05, 0.1, 0.2, 0.4)
DAMPINGS = (0.8, 0.9, 0.97, 1.0)
SHARES = (0.0, 0.3, 0.6, 1.0)


@dataclass(frozen=True, eq=False)
class Methods:
    """A family of methods, each array (n_methods,).

    Parameters
    ----------
    level : ndarray
        How far the level follows a one-step error, in (0, 1].
    trend : ndarray
        How far the trend follows the level's correction, in [0, 1].
    damping : ndarray
        What remains of a trend at every further step, in (0, 1].
    share : ndarray
        How much of the slope of the line of least squares through all rows so far is forecast in place of a trend of
        its own.
    """

    level: np.ndarray
    trend: np.ndarray
    damping: np.ndarray
    share: np.ndarray

    @classmethod
    def grid(cls, *axes: tuple[float, ...]) -> Methods:
        """Every combination of the values of level, trend, damping and share."""
        return cls(*np.array(list(product(*axes)), dtype=np.float64).T)

    def __len__(self) -> int:
        return len(self.level)

    def take(self, methods: np.ndarray) -> Methods:
        """The methods number `methods` (any,)."""
        return Methods(self.level[methods], self.trend[methods], self.damping[methods], self.share[methods])

    def slopes(self, ahead: np.ndarray) -> np.ndarray:
        """How many times a trend is added to the level `ahead` (steps,) steps on: (n_methods, steps)."""
        damping, ahead = self.damping[:, None], ahead.astype(np.float64)
        damped = damping * (1 - damping**ahead) / np.where(damping < 1, 1 - damping, 1)
        return np.where(damping < 1, damped, ahead)


def damped_trends() -> Methods:
    """Simple smoothing, and smoothing with a trend that is damped or not."""
    simple = Methods.grid(LEVELS, (0.0,), (1.0,), (0.0,))
    trends = Methods.grid(LEVELS, TRENDS, DAMPINGS, (0.0,))
    return Methods(
        np.concatenate([simple.level, trends.level]),
        np.concatenate([simple.trend, trends.trend]),
        np.concatenate([simple.damping, trends.damping]),
        np.concatenate([simple.share, trends.share]),
    )


def lines() -> Methods:
    """Simple smoothing with a share of the slope of a straight line, Theta's half among them to a rounding."""
    return Methods.grid(LEVELS, (0.0,), (1.0,), SHARES)
