"""Basis: covariates to the features of a regression, bends of numbers, dummies of categories, and the season of both.

Sources: Hastie, Tibshirani and Friedman, "The Elements of Statistical Learning" (2009), section 5.2, for piecewise
linear bases; Hong, "Short term electric load forecasting" (2010), for what multiplies hours with the weather.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from titans_ts.tables.covariate_columns import FUTURE, STATIC, CovariateColumn
from titans_ts.tables.covariates import mean_and_deviation
from titans_ts.tables.series_data import SeriesData

KNOTS = 0.2, 0.4, 0.6, 0.8  # quantiles of a number at which its effect may bend
MOST_SAMPLED = 2**18  # rows from which quantiles are taken
FEW, SOME = 7, 12  # columns of a covariate's basis, up to which its effect may follow the season closely, or coarsely
CLOSELY, COARSELY = 8, 3  # harmonics of the season
TRAILING = 1, 3  # seasons, whose trailing mean of a number has an effect of its own: houses and soil warm slowly
PARTS = 8, 4, 2  # of a season, whose trailing mean has an effect that is the same in all phases
# How far effects are expected to bend, to follow the season and to last, over the effect itself: a ridge shrinks all
# weights alike, so features carry what is expected of theirs, as those of the linear path do.
BEND, WAVE, TRAIL = 0.5, 0.7, 0.5
MOST_FEATURES = 512  # of all covariates, by fewer harmonics where they are more
MOST_TRAILING = 256  # of all trailing means, likewise
MOST_PAIRS = 64  # of the dummies of static covariates and the basis of future ones


@dataclass(frozen=True, eq=False)
class Basis:
    """How covariates become features.

    Parameters
    ----------
    columns : tuple of CovariateColumn
        All that the panel has; past ones are not read.
    period : int
        Of the season with whose phase effects may vary; 0 for none.
    harmonics : tuple of int
        Of each column, how closely.
    mean, std : ndarray, shape (columns,)
        Of numbers.
    knots : ndarray, shape (columns, knots)
        Of numbers, over their deviation; NaN for fewer.
    """

    columns: tuple[CovariateColumn, ...]
    period: int
    harmonics: tuple[int, ...]
    mean: np.ndarray
    std: np.ndarray
    knots: np.ndarray

    @property
    def reach(self) -> int:
        """The last rows, each with its own, that a row's features read."""
        return max(TRAILING) * max(self.period, 1)

    @classmethod
    def of(cls, columns: tuple[CovariateColumn, ...], covariates: np.ndarray, period: int) -> Basis:
        """The basis of covariates (rows, columns) that are learned from."""
        some = covariates[:: max(1, len(covariates) // MOST_SAMPLED)]
        mean, std = np.zeros(len(columns)), np.ones(len(columns))
        knots = np.full((len(columns), len(KNOTS)), np.nan)
        sizes = []
        for i, column in enumerate(columns):
            if column.role not in (STATIC, FUTURE):
                sizes.append(0)
                continue
            if column.categories is not None:
                sizes.append(len(column.categories))
                continue
            values = some[:, i]
            mean[i], std[i] = mean_and_deviation(values)
            if len(np.unique(values)) > 2:
                found = np.unique((np.quantile(values, KNOTS) - mean[i]) / std[i])
                knots[i, : len(found)] = found
            sizes.append(1 + int(np.isfinite(knots[i]).sum()))
        return cls(columns, period, _harmonics(sizes, period), mean, std, knots)

    def features(self, data: SeriesData[Any]) -> np.ndarray:
        """The features of all rows, (rows, features) float32; those before a series' first row count as that."""
        if data.covariates is None:
            raise ValueError("`data` must have covariates.")
        parts, dummies, others = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
        most = max([COARSELY, *self.harmonics]) if self.period > 1 else 0
        waves, trailing = _waves(data.phase(max(self.period, 1)), self.period, most), self._trailing()
        coarse = waves[:, : 1 + 2 * self._trailing_harmonics(trailing)]
        for i, column in enumerate(self.columns):
            if column.role not in (STATIC, FUTURE):
                continue
            base = self._base(i, data.covariates[:, i])
            parts.append(_products(base, waves[:, : 1 + 2 * self.harmonics[i]]))
            (dummies if column.role == STATIC else others).append(base)
            if i in trailing:
                for rows in sorted({self.period // part for part in PARTS} - {0, 1}):
                    parts.append(TRAIL * self._base(i, trailing_mean(data.covariates[:, i], data, rows)))
                for seasons in TRAILING:
                    mean = trailing_mean(data.covariates[:, i], data, seasons * self.period)
                    parts.append(TRAIL * _products(self._base(i, mean), coarse))
        pairs = sum(d.shape[1] for d in dummies) * sum(o.shape[1] for o in others)
        if 0 < pairs <= MOST_PAIRS:
            groups, effects = np.concatenate(dummies, axis=1), np.concatenate(others, axis=1)
            parts.append(_products(groups, effects))
        return np.concatenate(parts, axis=1)

    def _trailing(self) -> list[int]:
        """Columns whose trailing means have effects: numbers that take more than two values."""
        if self.period < 2:
            return []
        return [i for i, c in enumerate(self.columns) if c.role == FUTURE and np.isfinite(self.knots[i]).any()]

    def _trailing_harmonics(self, trailing: list[int]) -> int:
        """How many harmonics of the season the effects of trailing means have."""
        size = len(TRAILING) * sum(1 + int(np.isfinite(self.knots[i]).sum()) for i in trailing)
        fitting = [n for n in range(COARSELY + 1) if size * (1 + 2 * n) <= MOST_TRAILING]
        return min(max(fitting, default=0), self.period // 2)

    def _base(self, i: int, values: np.ndarray) -> np.ndarray:
        """A column's bends or dummies, (rows, size) float32."""
        column = self.columns[i]
        if column.categories is not None:
            indicators: np.ndarray = (values[:, None] == np.arange(len(column.categories))).astype(np.float32)
            return indicators
        z = (values - self.mean[i]) / self.std[i]
        knots = self.knots[i][np.isfinite(self.knots[i])]
        return np.concatenate([z[:, None], BEND * np.maximum(z[:, None] - knots, 0)], axis=1).astype(np.float32)


def _harmonics(sizes: list[int], period: int) -> tuple[int, ...]:
    """How many harmonics of the season each column's effect may have, by the size of its basis."""
    half = period // 2
    chosen = [0 if size == 0 or size > SOME else CLOSELY if size <= FEW else COARSELY for size in sizes]
    chosen = [min(n, half) for n in chosen]
    while sum(size * (1 + 2 * n) for size, n in zip(sizes, chosen, strict=True)) > MOST_FEATURES and max(chosen):
        chosen = [min(n, max(chosen) - 1) for n in chosen]
    return tuple(chosen)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All products of the columns of two: (rows, columns of both multiplied)."""
    products: np.ndarray = (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
    return products


def _waves(phase: np.ndarray, period: int, harmonics: int) -> np.ndarray:
    """1, then cos and sin of each harmonic in turn: (rows, 1 + 2 harmonics) float32."""
    waves = np.ones((len(phase), 1 + 2 * harmonics), dtype=np.float32)
    if harmonics:
        angle = np.multiply.outer(phase * (2 * math.pi / period), np.arange(1, harmonics + 1))
        size = WAVE / np.sqrt(np.arange(1, harmonics + 1))
        waves[:, 1::2], waves[:, 2::2] = size * np.cos(angle), size * np.sin(angle)
    return waves


def trailing_mean(values: np.ndarray, data: SeriesData[Any], rows: int) -> np.ndarray:
    """The mean of the last `rows` values of each series up to each row, of fewer at its beginning: (rows,).

    Sums are taken over spans that double, within them alone: no other row has a say, not even by rounding.
    """
    row = data.row_in_series
    total, covered, span, sums = np.zeros(len(values)), 0, 1, values.astype(np.float64)
    while True:
        if rows & span:  # of the rows before those that are counted already
            total += _before(sums, row, covered)
            covered += span
        span *= 2
        if span > rows:
            mean: np.ndarray = total / np.minimum(row + 1, rows)
            return mean
        sums = sums + _before(sums, row, span // 2)


def _before(values: np.ndarray, row: np.ndarray, steps: int) -> np.ndarray:
    """The value so many rows before in the same series, 0 before its first."""
    shifted = np.zeros_like(values)
    shifted[steps:] = values[: max(len(values) - steps, 0)]
    shifted[row < steps] = 0.0
    return shifted
