"""Combination: the network's forecast averaged with statistical ones, as held-back rows say.

Sources: Bates and Granger (1969) for the combination; the rule of one standard error (Breiman et al., 1984), by which
weights that held-back rows cannot tell from the best ones count as well; Hyndman and Koehler (2006) for scaled errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from .statistical.model import METHODS, READINGS, StatisticalModel, last_rows
from .tables.panel import Panel
from .tables.series_data import SeriesData
from .training.choices import Choice
from .training.relative import BOUND
from .windows.splits import Fold

MOST_TYPICAL_ROWS = 3000  # of a typical series; beyond, a season is a small part of what the network has seen
MOST_SERIES = 2000  # evenly spaced ones that choose the weights
MOST_ORIGINS = 4  # of each series that do
MOST_ENTRIES = 2**22  # of the errors of all weights that are held at once
PARTS = 4  # a weight tried is a number of so many parts
BOTH = "both"  # readings, averaged
MARGIN = 0.02  # by which one reading alone must be better than the mean of both
NEAR = 0.01  # of the least error, within which weights count as good as the best


@dataclass(frozen=True, eq=False)
class Combination:
    """A mean of the network's forecast and those of a statistical model.

    Parameters
    ----------
    model : StatisticalModel
    weights : ndarray, shape (1 + methods,)
        How much the network and each statistical method count; their sum is 1.
    """

    model: StatisticalModel
    weights: np.ndarray

    @classmethod
    def fit(
        cls,
        panel: Panel,
        fold: Fold,
        horizon: int,
        periods: tuple[int, ...],
        network: Callable[[Panel, np.ndarray], np.ndarray],
    ) -> tuple[Combination | None, tuple[Choice, ...]]:
        """Choose the weights by the validation rows, then fit the statistical model to all rows.

        Parameters
        ----------
        panel : Panel
            All rows.
        fold : Fold
        horizon : int
        periods : tuple of int
            Of the seasons, each a multiple of the one before; empty for none.
        network : callable
            From a panel, and the number of each of its series among those fitted, to the network's forecasts
            (n_series, horizon).

        Returns
        -------
        Combination or None
            None where the network is best alone.
        tuple of Choice
            What was tried.
        """
        data = panel.data
        readings = READINGS if (np.minimum.reduceat(data.values, data.offsets) > 0).mean() >= 0.5 else READINGS[:1]
        validated = np.flatnonzero(fold.validation - fold.train >= horizon)
        weights, choices = np.full(1 + len(METHODS), 1 / (1 + len(METHODS))), tuple[Choice, ...]()
        if len(validated):
            some = validated[:: -(-len(validated) // MOST_SERIES)]
            held_back = _HeldBack.of(panel, fold, some, horizon)
            forecasts = held_back.forecasts(periods, readings, network)
            if len(forecasts) > 1:
                forecasts[BOTH] = (forecasts[READINGS[0]] + forecasts[READINGS[1]]) / 2
            reading, weights, choices = _choose(forecasts, held_back)
            readings = readings if reading == BOTH else (reading,)
        if weights[0] == 1:
            return None, choices
        model = StatisticalModel.fit(data, data.lengths, horizon, periods, readings)
        return cls(model, weights), choices

    def forecast(self, network: np.ndarray, data: SeriesData[np.ndarray]) -> np.ndarray:
        """The mean of the network's forecasts (n_series, steps) with those after the last rows of the same series."""
        found = self.model.forecast(data, network.shape[1])[:, :, :, 0].mean(0)
        combined: np.ndarray = self.weights[0] * network + np.tensordot(self.weights[1:], found, 1)
        return combined


@dataclass(frozen=True, eq=False)
class _HeldBack:
    """Validation rows to be forecast, of some of the series, from one origin or several."""

    panel: Panel
    series: np.ndarray  # (n_series,) their numbers among those fitted
    known: np.ndarray  # (n_series,)
    origins: np.ndarray  # (n_series, origins)
    horizon: int

    @classmethod
    def of(cls, panel: Panel, fold: Fold, series: np.ndarray, horizon: int) -> _HeldBack:
        known, spare = fold.train[series], fold.validation[series] - fold.train[series] - horizon
        n_origins = min(MOST_ORIGINS, 1 + int(spare.max()))
        share = np.linspace(0, 1, n_origins) if n_origins > 1 else np.zeros(1)
        return cls(panel.take(series), series, known, known[:, None] + (spare[:, None] * share).astype(int), horizon)

    @property
    def future(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows to be forecast, and which were observed, each (n_series, origins, horizon)."""
        data = self.panel.data
        rows = (data.offsets[:, None] + self.origins)[..., None] + np.arange(self.horizon)
        return data.values[rows], np.ones(rows.shape, dtype=bool) if data.observed is None else data.observed[rows]

    @property
    def scale(self) -> np.ndarray:
        """The mean absolute change of the known rows of each series, (n_series,)."""
        data, row = self.panel.data, self.panel.data.row_in_series
        change = np.abs(np.diff(data.values, prepend=data.values[:1]))
        inside = (row > 0) & (row < np.repeat(self.known, data.lengths))
        total = np.bincount(data.series_of_row[inside], change[inside], data.n_series)
        scale: np.ndarray = total / np.maximum(self.known - 1, 1)
        return scale

    def forecasts(
        self, periods: tuple[int, ...], readings: tuple[str, ...], network: Callable[[Panel, np.ndarray], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """By reading, those of the network and each method: (1 + methods, n_series, origins, horizon)."""
        data = self.panel.data
        model = StatisticalModel.fit(data, self.known, self.horizon, periods, readings)
        found = model.forecast(data, self.horizon, self.known, self.origins)
        of_network = [network(self.panel.head(origin), self.series) for origin in self.origins.T]
        stacked = np.stack(of_network, axis=1)[None]
        return {reading: np.concatenate([stacked, part]) for reading, part in zip(readings, found, strict=True)}


def _choose(forecasts: dict[str, np.ndarray], held_back: _HeldBack) -> tuple[str, np.ndarray, tuple[Choice, ...]]:
    """The reading, the weights, and what each would have been worth."""
    grid = combinations(1 + len(METHODS))
    future, observed = held_back.future
    errors = {
        reading: scaled_errors(found, future, observed, held_back.scale, grid) for reading, found in forecasts.items()
    }
    least = {reading: float(error.mean(1).min()) if error.size else 0.0 for reading, error in errors.items()}
    reading = min(least, key=lambda name: least[name])
    if BOTH in least and least[BOTH] <= (1 + MARGIN) * least[reading]:
        reading = BOTH
    weights = best_weights(errors[reading], grid)
    if not errors[reading].size:
        return reading, weights, ()
    alone = {name: float(errors[reading][grid[:, i] == 1].mean()) for i, name in enumerate(("network", *METHODS))}
    chosen = ", ".join(f"{100 * w:.0f} % {name}" for name, w in zip(("network", *METHODS), weights, strict=True))
    alone[chosen] = float(
        scaled_errors(forecasts[reading], future, observed, held_back.scale, weights[None]).mean()
    )
    choices = [Choice("combination", chosen, alone)]
    if len(least) > 1:
        choices.insert(0, Choice("reading", reading, least))
    return reading, weights, tuple(choices)


def combinations(members: int) -> np.ndarray:
    """All weights in quarters whose sum is 1: (combinations, members)."""
    counts = [c for c in product(range(PARTS + 1), repeat=members - 1) if sum(c) <= PARTS]
    return np.array([(PARTS - sum(c), *c) for c in counts], dtype=np.float64) / PARTS


def scaled_errors(
    forecasts: np.ndarray, future: np.ndarray, observed: np.ndarray, scale: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Mean absolute errors of combinations over each series' scale, a ratio r bounded to r / (1 + r / BOUND).

    Parameters
    ----------
    forecasts : ndarray, shape (members, n_series, origins, steps)
    future : ndarray, shape (n_series, origins, steps)
    observed : ndarray of bool, of that shape
    scale : ndarray, shape (n_series,)
    weights : ndarray, shape (combinations, members)

    Returns
    -------
    ndarray, shape (combinations, samples)
        Of each origin with an observed step, of series whose scale is not 0.
    """
    keeps = observed.any(-1) & (scale > 0)[:, None]
    off, counted = (np.where(observed, forecasts - future, 0.0))[:, keeps], observed[keeps]
    scale = np.broadcast_to(scale[:, None], keeps.shape)[keeps]
    errors = np.empty((len(weights), len(counted)))
    size = max(1, MOST_ENTRIES // (len(weights) * future.shape[-1]))
    for begin in range(0, len(counted), size):
        part = slice(begin, begin + size)
        total = np.abs(np.tensordot(weights, off[:, part], 1)).sum(-1)
        errors[:, part] = total / counted[part].sum(-1) / scale[part]
    return errors / (1 + errors / BOUND)


def best_weights(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean of the weights that held-back rows cannot tell from the best, or that are within a hundredth of them.

    Parameters
    ----------
    errors : ndarray, shape (combinations, samples)
    weights : ndarray, shape (combinations, members)

    Returns
    -------
    ndarray, shape (members,)
        The mean of all where there are fewer than two samples.
    """
    samples = errors.shape[1]
    if samples < 2:
        return weights.mean(0)
    mean = errors.mean(1)
    worse = errors - errors[mean.argmin()]
    allowed = np.maximum(worse.std(1, ddof=1) / np.sqrt(samples), NEAR * mean.min())
    found: np.ndarray = weights[worse.mean(1) <= allowed].mean(0)
    return found
