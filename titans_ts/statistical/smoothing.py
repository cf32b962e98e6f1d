"""Smoothing: the forecasts of exponential smoothing for every series, averaged over methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from titans_ts.tables.series_data import evenly_spaced

from .adjusted import AdjustedSeries
from .methods import Methods, damped_trends, lines
from .mixture import evidence, most_likely, prior_of, weights
from .recursion import Smoothed, smooth

FAMILIES = 2
MOST_SERIES = 1000  # evenly spaced ones that the prior is found from
MOST_STATES = 2**16  # series times methods that are smoothed at once


@dataclass(frozen=True, eq=False)
class Family:
    """Methods and how much each is expected to count, (n_methods,)."""

    methods: Methods
    prior: np.ndarray


@dataclass(frozen=True, eq=False)
class Smoothing:
    """Exponential smoothing, the methods of each series weighed by its own errors and by what serves the others.

    Parameters
    ----------
    scored : ndarray of int
        The steps ahead whose errors weigh the methods.
    families : tuple of Family
        Their forecasts are averaged.
    """

    scored: np.ndarray
    families: tuple[Family, ...]

    @classmethod
    def fit(cls, series: AdjustedSeries, horizon: int) -> Smoothing:
        """Find from the known rows how much each method is expected to count."""
        scored = np.unique([1, min(2, horizon), min(3, horizon), *(-(-horizon * i // 6) for i in (2, 3, 4, 6))])
        n_series = series.data.n_series
        some = series.take(np.arange(n_series)[evenly_spaced(n_series, MOST_SERIES)]).at_known_end()
        families = []
        for methods in (damped_trends(), lines()):
            even = Family(methods, np.full(len(methods), 1 / len(methods)))
            parts = _smoothed(some, even, scored)
            prior = prior_of(np.concatenate([log_likelihood for _, _, log_likelihood in parts]))
            kept = most_likely(prior)
            families.append(Family(methods.take(kept), prior[kept] / prior[kept].sum()))
        return cls(scored, tuple(families))

    def forecast(self, series: AdjustedSeries, steps: int) -> np.ndarray:
        """Forecast the steps after each origin: (n_series, origins, steps), of the adjusted series."""
        forecast = np.zeros((*series.origins.shape, steps))
        for family in self.families:
            slopes = family.methods.slopes(np.arange(1, steps + 1))
            for part, smoothed, log_likelihood in _smoothed(series, family, self.scored):
                weight = weights(log_likelihood, family.prior)[:, None]
                level = (weight * smoothed.level).sum(-1, keepdims=True)
                forecast[part] += level + (weight * smoothed.trend) @ slopes
        return forecast / len(self.families)


def _smoothed(
    series: AdjustedSeries, family: Family, scored: np.ndarray
) -> Iterator[tuple[np.ndarray, Smoothed, np.ndarray]]:
    """All series smoothed by a family, a few at a time: their numbers, and the log-likelihood of each method."""
    data, lengths = series.data, series.origins.max(1)
    order = np.argsort(-lengths, kind="stable")
    observed = data.is_observed
    size = max(1, MOST_STATES // len(family.methods))
    for begin in range(0, len(order), size):
        part = order[begin : begin + size]
        steps = int(lengths[part[0]])
        at = data.offsets[part] + np.maximum(np.arange(steps)[:, None] - (steps - lengths[part]), 0)
        smoothed = smooth(
            data.values[at],
            lengths[part],
            family.methods,
            scored,
            observed[at],
            series.known[part],
            series.origins[part],
        )
        yield part, smoothed, evidence(smoothed, series.change[part])
