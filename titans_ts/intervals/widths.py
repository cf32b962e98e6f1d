"""From errors to intervals: how far each quantile lies from the point forecast, by series and step.

A series with enough errors at a step has quantiles of its own; another shares those of all series, each over its
typical size. Both grow beyond the highest rank that there is as the next coarser distribution does: own errors as
shared ones, shared ones as Student's t.

Sources: Romano, Patterson and Candes (2019) for quantiles of signed errors and of quantile forecasts; Stankeviciute,
Alaa and van der Schaar (2021) for one distribution a step ahead, over series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .calibration import Calibration
from .quantiles import ErrorQuantiles, Upper, extended_upper, student_upper

LEAST_OWN = 9  # errors of a series at a step, of about the newest one's weight: the rank of an 80 % interval
HALF_LIFE = 100  # origins after which an error counts half
MOST_SHARED = 2**14  # errors of a step that are shared
MOST_AT_ONCE = 2**21  # errors that are sorted at once
NEAR_COUNTS = 0.25  # of an error near a step: one origin's are much alike
NEAR = 4  # parts of the horizon, of which one on each side is near a step
TRAIN_INFLATION = 1.5  # of errors in rows that the model was fitted to
LEAST_GROWTH, GROWTH, MOST_GROWTH = 0.1, 0.5, 1.0  # powers of the step by which intervals widen past the horizon


def interpolated(values: np.ndarray, levels: tuple[float, ...] | None, quantile: float) -> np.ndarray:
    """A quantile among the outputs (..., outputs) of a network, or the point forecast that stands for all: (...,).

    Outside the lowest and the highest level it is theirs.
    """
    if levels is None:
        return values[..., 0]
    place = np.interp(quantile, levels, np.arange(len(levels)))
    below, share = int(place), place - int(place)
    above = min(below + 1, len(levels) - 1)
    found: np.ndarray = (1 - share) * values[..., below] + share * values[..., above]
    return found


@dataclass(frozen=True, eq=False)
class Shared:
    """Errors of all series over their typical sizes.

    Parameters
    ----------
    above, below : ErrorQuantiles
        Of the errors and of minus the errors, as of one series.
    spread : ndarray, shape (horizon,)
        Their root mean square at the steps near each.
    degrees : ndarray, shape (horizon,)
        About how many independent errors these are.
    growth : float
        The power of the step by which errors grow within the horizon, which is also taken for steps past it.
    """

    above: ErrorQuantiles
    below: ErrorQuantiles
    spread: np.ndarray
    degrees: np.ndarray
    growth: float

    @classmethod
    def of(cls, errors: np.ndarray, weights: np.ndarray, sizes: np.ndarray) -> Shared:
        """Of errors (n_series, origins, horizon) with weights (origins,), and sizes (n_series,).

        Raises
        ------
        ValueError
            If there is none.
        """
        varying = np.flatnonzero(sizes > 0)
        most = max(1, MOST_SHARED // max(errors.shape[1], 1))
        varying = varying[np.linspace(0, len(varying) - 1, min(most, len(varying))).astype(int)] if len(varying) else []
        relative = (errors[varying] / sizes[varying, None, None]).reshape(-1, errors.shape[2])
        there = np.isfinite(relative)
        if not there.any():
            raise ValueError(
                "no forecast of an observed row is known to take the errors of, so there is no interval. "
                "Give `fit` more rows."
            )
        counted = np.where(there, np.tile(weights, len(varying))[:, None], 0.0)
        squares = (counted * np.where(there, relative, 0.0) ** 2).sum(0)
        growth = _growth(squares, counted.sum(0))
        squares, total = (_near(sums) for sums in (squares, counted.sum(0)))
        spread = np.sqrt(squares / np.maximum(total, np.finfo(float).tiny))
        steps = np.arange(len(spread))
        spread = np.interp(steps, steps[total > 0], spread[total > 0])
        repeated = np.tile(weights, len(varying))
        above, below = (ErrorQuantiles.of(x[None], repeated) for x in (relative, -relative))
        return cls(above, below, spread, total * NEAR_COUNTS, growth)

    def upper(self, above: bool) -> Upper:
        """Quantiles of the errors, or of minus the errors, over the typical sizes."""
        found, student = self.above if above else self.below, student_upper(self.spread, self.degrees)
        ranked = extended_upper(found, student)

        def upper(level: np.ndarray) -> np.ndarray:
            return np.where(found.total >= LEAST_OWN, ranked(level), student(level))

        return upper


@dataclass(frozen=True, eq=False)
class Widths:
    """How far quantiles lie from point forecasts, for series whose errors are kept and for others.

    Parameters
    ----------
    errors : ndarray, shape (calibrated, origins, horizon)
        Of one quantile of the forecasts, the newest last; NaN where there is none.
    shared : Shared
    inflation : float
        Of what errors say.
    """

    errors: np.ndarray
    shared: Shared
    inflation: float

    @classmethod
    def of(cls, calibration: Calibration, errors: np.ndarray, quantile: float) -> Widths:
        """Of the errors (calibrated, origins, horizon, outputs) of one quantile."""
        found = interpolated(errors, calibration.levels, quantile)
        shared = Shared.of(found, age_weights(found.shape[1]), calibration.sizes[calibration.series])
        return cls(found, shared, 1.0 if calibration.held_out else TRAIN_INFLATION)

    def offsets(self, quantile: float, which: np.ndarray, scale: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """What is added to the quantile of a forecast.

        Parameters
        ----------
        quantile : float
            Below a half the errors to the other side count.
        which : ndarray of int, shape (n_series,)
            The number of each series among those calibrated, -1 for another.
        scale, sizes : ndarray, shape (n_series,)
            The scale of each series' errors, and its typical size, in one unit.

        Returns
        -------
        ndarray, shape (n_series, horizon)
            In that unit.
        """
        above = quantile > 0.5
        sign, level = (1.0, quantile) if above else (-1.0, 1 - quantile)
        horizon = self.errors.shape[2]
        shared = self.shared.upper(above)
        found = sizes[:, None] * shared(np.full((1, horizon), level))
        own = np.flatnonzero(which >= 0)
        weights = age_weights(self.errors.shape[1])
        size = max(1, MOST_AT_ONCE // max(1, self.errors[:1].size))
        for part in np.split(own, range(size, len(own), size)):
            if not len(part) or weights.sum() < LEAST_OWN:
                continue
            ranked = ErrorQuantiles.of(sign * self.errors[which[part]], weights)
            wanted = np.full((len(part), horizon), level)
            mine = extended_upper(ranked, shared)(wanted) * scale[part, None]
            found[part] = np.where(ranked.total >= LEAST_OWN, mine, found[part])
        return sign * self.inflation * found


def age_weights(origins: int) -> np.ndarray:
    """The weights of errors by age, (origins,): the newest, which is last, has 1."""
    weights: np.ndarray = 0.5 ** (np.arange(origins)[::-1] / HALF_LIFE)
    return weights


def ahead_of_point(half: np.ndarray, steps: int, growth: float) -> np.ndarray:
    """How far a quantile lies from the point forecast at any number of steps, (n_series, steps).

    Parameters
    ----------
    half : ndarray, shape (n_series, within)
        The same within the horizon. A negative distance, as of a forecast that always lay too high, counts as none.
    steps : int
        Past the horizon H the distance at step s is the widest within it times (s / H) ** growth.
    growth : float
    """
    half = np.maximum(half, 0.0)
    within = half.shape[1]
    if steps <= within:
        return half[:, :steps]
    later = np.arange(within + 1, steps + 1) / within
    return np.concatenate([half, half.max(1, keepdims=True) * later**growth], axis=1)


def _growth(squares: np.ndarray, total: np.ndarray) -> float:
    """The slope of the logarithm of the root mean square (horizon,) over that of the step."""
    seen = squares > 0
    if seen.sum() < 2:
        return GROWTH
    sizes = np.log(squares[seen] / total[seen]) / 2
    slope = np.polyfit(np.log(1 + np.flatnonzero(seen)), sizes, 1)[0]
    return float(np.clip(slope, LEAST_GROWTH, MOST_GROWTH))


def _near(values: np.ndarray) -> np.ndarray:
    """The sum over the steps near each step, (horizon,)."""
    reach = max(1, len(values) // NEAR)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    steps = np.arange(len(values))
    found: np.ndarray = sums[np.minimum(steps + reach + 1, len(values))] - sums[np.maximum(steps - reach, 0)]
    return found
