"""Combination: the network's forecast averaged with statistical ones, as held-back rows say.

Sources: Bates and Granger (1969) for the combination; the rule of one standard error (Breiman et al., 1984), by which
weights that held-back rows cannot tell from the best ones count as well; Hyndman and Koehler (2006) for scaled errors.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from .statistical import smoothing
from .statistical.adjusted import Earlier
from .statistical.model import METHODS, READINGS, StatisticalModel
from .tables.panel import Panel
from .tables.series_data import SeriesData, evenly_spaced
from .training.choices import Choice
from .training.relative import BOUND, SMALLEST
from .windows.splits import Fold

MOST_TYPICAL_ROWS = 5000  # of a typical series; beyond, a season is a small part of what the network has seen
MOST_SERIES = 2000  # evenly spaced ones that choose the weights
MOST_FORECASTS = 4000  # of all series that do, from as many origins of each as that allows
LEAST_ORIGINS, MOST_ORIGINS = 2, 16
MOST_ENTRIES = 2**22  # of the errors of all weights that are held at once
PILOTS = 20, 200  # series by which the time for all is estimated
PARTS = 4  # a weight tried is a number of so many parts
BOTH = "both"  # readings, averaged
MOSTLY = 0.5  # share of series that must be positive for logarithms to be tried
MARGIN = 0.02  # by which one reading alone must be better than the mean of both
NEAR = 0.005  # of the least error, within which weights count as good as the best


@dataclass(frozen=True, eq=False)
class Combination:
    """A mean of the network's forecast and those of a statistical model.

    Parameters
    ----------
    model : StatisticalModel
    weights : ndarray, shape (1 + methods,)
        How much the network and each statistical method count; their sum is 1.
    positive : ndarray of bool, shape (n_series,)
        Which of the series fitted are positive throughout.
    """

    model: StatisticalModel
    weights: np.ndarray
    positive: np.ndarray

    def forecast(self, network: np.ndarray, statistical: np.ndarray) -> np.ndarray:
        """The mean of the network's forecasts (n_series, steps) and others', whose share, of that shape, is given."""
        combined: np.ndarray = self.weights[0] * network + statistical
        return combined

    def statistical(self, data: SeriesData[np.ndarray], steps: int, fitted: Earlier) -> np.ndarray:
        """The share of the statistical forecasts after the last rows of each series: (n_series, steps).

        `fitted` are the rows that a forecast from the end of the fit reads.
        """
        positive = (fitted.series < 0) | self.positive[fitted.series]
        found = self.model.forecast(data, steps, positive=positive, earlier=fitted)[:, :, :, 0].mean(0)
        share: np.ndarray = np.tensordot(self.weights[1:], found, 1)
        return share


@dataclass(frozen=True, eq=False)
class Candidates:
    """Statistical forecasts of validation rows, beside which a network's can be weighed.

    Parameters
    ----------
    panel : Panel
        All rows of the series that choose.
    series : ndarray of int, shape (n_series,)
        Their numbers among those fitted.
    known : ndarray of int, shape (n_series,)
        Rows that were trained on.
    origins : ndarray of int, shape (n_series, origins)
        Rows seen by each forecast.
    forecasts : dict
        By reading, the forecasts of each method: (methods, n_series, origins, horizon).
    fitted : StatisticalModel
        The same, fitted to all rows of all series.
    positive : ndarray of bool
        Which of all series are positive throughout.
    """

    panel: Panel
    series: np.ndarray
    known: np.ndarray
    origins: np.ndarray
    forecasts: dict[str, np.ndarray]
    fitted: StatisticalModel
    positive: np.ndarray

    @classmethod
    def fit(cls, panel: Panel, fold: Fold, horizon: int, periods: tuple[int, ...]) -> Candidates:
        """Fit the statistical methods to the train rows and to all rows.

        Parameters
        ----------
        panel : Panel
            All rows.
        fold : Fold
        horizon : int
        periods : tuple of int
            Of the seasons, each a multiple of the one before; empty for none.
        """
        data = panel.data
        positive = np.minimum.reduceat(data.values, data.offsets) > 0
        readings = READINGS if positive.mean() >= MOSTLY else READINGS[:1]
        fitted = StatisticalModel.fit(data, data.lengths, horizon, periods, readings)
        series = np.flatnonzero(fold.validation - fold.train >= horizon)
        series = series[evenly_spaced(len(series), MOST_SERIES)]
        panel, known = panel.take(series), fold.train[series]
        if not len(series):
            return cls(panel, series, known, known[:, None], {}, fitted, positive)
        spare = fold.validation[series] - known - horizon
        n_origins = min(max(LEAST_ORIGINS, MOST_FORECASTS // len(series)), MOST_ORIGINS, 1 + int(spare.max()))
        origins = known[:, None] + spare[:, None] * np.arange(n_origins) // max(n_origins - 1, 1)
        model = StatisticalModel.fit(panel.data, known, horizon, periods, readings)
        found = model.forecast(panel.data, horizon, known, origins)
        forecasts = dict(zip(readings, found, strict=True))
        if len(forecasts) > 1:
            forecasts[BOTH] = found.mean(0)
        return cls(panel, series, known, origins, forecasts, fitted, positive)

    def choose(
        self, network: Callable[[Panel, np.ndarray], np.ndarray]
    ) -> tuple[Combination | None, tuple[Choice, ...]]:
        """Choose how much a network and each statistical method count.

        Parameters
        ----------
        network : callable
            From a panel, and the numbers (n_series,) of its series among those fitted, to the network's forecasts of
            the horizon after its rows: (n_series, horizon), in the units of the data.

        Returns
        -------
        combination : Combination or None
            None where the network is best alone. All count alike where no row can tell.
        choices : tuple of Choice
            What was tried. The errors are absolute ones over the mean absolute change of each series, bounded as
            `scaled_errors` says.
        """
        names = ("network", *METHODS)
        even = Combination(self.fitted, np.full(len(names), 1 / len(names)), self.positive)
        if not self.forecasts:
            return even, ()
        (future, counted), scale = self._future(), self.panel.data.mean_change(self.known)
        if not (counted.any(-1) & (scale > 0)[:, None]).any():
            return even, ()
        of_network = np.stack([network(self.panel.head(rows), self.series) for rows in self.origins.T], axis=1)
        members = {reading: np.concatenate([of_network[None], found]) for reading, found in self.forecasts.items()}
        grid = combinations(len(names))
        errors = {reading: scaled_errors(found, future, counted, scale, grid) for reading, found in members.items()}
        statistical = grid[:, 0] == 0
        least = {reading: float(error[statistical].mean(1).min()) for reading, error in errors.items()}
        reading = min(least, key=lambda name: least[name])
        if BOTH in least and least[BOTH] <= (1 + MARGIN) * least[reading] + SMALLEST:
            reading = BOTH
        weights = best_weights(errors[reading], grid)
        tried = {name: float(errors[reading][grid[:, i] == 1].mean()) for i, name in enumerate(names)}
        shares = ", ".join(f"{w:.0%} {name}" for name, w in zip(names, weights, strict=True) if w > 0)
        chosen = shares.removeprefix("100% ")
        tried[chosen] = float(scaled_errors(members[reading], future, counted, scale, weights[None]).mean())
        choices = [Choice("combination", chosen, tried)]
        if len(least) > 1:
            choices.insert(0, Choice("statistical methods read", reading, least))
        if weights[0] == 1:
            return None, tuple(choices)
        model = self.fitted.take(READINGS if reading == BOTH else (reading,))
        return Combination(model, weights, self.positive), tuple(choices)

    def share(self, combination: Combination) -> np.ndarray:
        """The share of the statistical forecasts in those of a combination that was chosen: (n_series, origins, steps).

        In the units of the data.
        """
        readings = tuple(combination.model.fitted)
        found = self.forecasts[BOTH if len(readings) > 1 else readings[0]]
        share: np.ndarray = np.tensordot(combination.weights[1:], found, 1)
        return share

    def _future(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows to be forecast, and which of them count, each (n_series, origins, horizon).

        Those do that were observed; an origin that a series has twice counts once.
        """
        data, horizon = self.panel.data, self.forecasts[READINGS[0]].shape[-1]
        rows = (data.offsets[:, None] + self.origins)[..., None] + np.arange(horizon)
        once = np.diff(self.origins, axis=1, prepend=-1) > 0
        return data.values[rows], data.is_observed[rows] & once[..., None]


def seconds_needed(data: SeriesData[np.ndarray], horizon: int, periods: tuple[int, ...]) -> float:
    """About how long `Candidates.fit` takes, by what it takes for a few of the series and for some more."""

    def seconds(n_series: int) -> float:
        part, begun = data.take(np.linspace(0, data.n_series - 1, n_series).astype(int)), time.perf_counter()
        StatisticalModel.fit(part, part.lengths, horizon, periods).forecast(part, horizon)
        return time.perf_counter() - begun

    few, some = (min(n, data.n_series) for n in PILOTS)
    first, second = seconds(few), seconds(some)
    each = max(second - first, 0.0) / max(some - few, 1)  # beside what they take together
    # Few of many series give what the methods are expected to count, and some choose; the rest takes little.
    return 2 * first + each * (min(data.n_series, smoothing.MOST_SERIES) + min(data.n_series, MOST_SERIES))


def is_combined(data: SeriesData[np.ndarray]) -> bool:
    """Whether a typical series is short enough for its forecasts to be combined."""
    return bool(np.median(data.lengths) <= MOST_TYPICAL_ROWS)


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
    """The mean of the weights that held-back rows cannot tell from the best, or that err as little to half a percent.

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
        mean: np.ndarray = weights.mean(0)
        return mean
    mean = errors.mean(1)
    worse = errors - errors[mean.argmin()]
    allowed = np.maximum(worse.std(1, ddof=1) / np.sqrt(samples), NEAR * mean.min() + SMALLEST)
    found: np.ndarray = weights[worse.mean(1) <= allowed].mean(0)
    return found
