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
MOST_FEATURES = 512  # of all covariates, by fewer harmonics where they are more
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
        waves = _waves(data.phase(max(self.period, 1)), self.period, max(self.harmonics, default=0))
        for i, column in enumerate(self.columns):
            if column.role not in (STATIC, FUTURE):
                continue
            base = self._base(i, data.covariates[:, i])
            own = waves[:, : 1 + 2 * self.harmonics[i]]
            parts.append((base[:, :, None] * own[:, None, :]).reshape(len(base), -1))
            (dummies if column.role == STATIC else others).append(base)
            if column.role == FUTURE and column.categories is None and self.period > 1 and base.shape[1] > 1:
                parts.append(self._base(i, trailing_mean(data.covariates[:, i], data, self.period)))
        pairs = sum(d.shape[1] for d in dummies) * sum(o.shape[1] for o in others)
        if 0 < pairs <= MOST_PAIRS:
            groups, effects = np.concatenate(dummies, axis=1), np.concatenate(others, axis=1)
            parts.append((groups[:, :, None] * effects[:, None, :]).reshape(len(groups), -1))
        return np.concatenate(parts, axis=1)

    def _base(self, i: int, values: np.ndarray) -> np.ndarray:
        """A column's bends or dummies, (rows, size) float32."""
        column = self.columns[i]
        if column.categories is not None:
            return (values[:, None] == np.arange(len(column.categories))).astype(np.float32)
        z = (values - self.mean[i]) / self.std[i]
        knots = self.knots[i][np.isfinite(self.knots[i])]
        return np.concatenate([z[:, None], np.maximum(z[:, None] - knots, 0)], axis=1).astype(np.float32)


def _harmonics(sizes: list[int], period: int) -> tuple[int, ...]:
    """How many harmonics of the season each column's effect may have, by the size of its basis."""
    half = period // 2
    chosen = [0 if size == 0 or size > SOME else CLOSELY if size <= FEW else COARSELY for size in sizes]
    chosen = [min(n, half) for n in chosen]
    while sum(size * (1 + 2 * n) for size, n in zip(sizes, chosen, strict=True)) > MOST_FEATURES and max(chosen):
        chosen = [min(n, max(chosen) - 1) for n in chosen]
    return tuple(chosen)


def _waves(phase: np.ndarray, period: int, harmonics: int) -> np.ndarray:
    """1, then cos and sin of each harmonic in turn: (rows, 1 + 2 harmonics) float32."""
    waves = np.ones((len(phase), 1 + 2 * harmonics), dtype=np.float32)
    if harmonics:
        angle = np.multiply.outer(phase * (2 * math.pi / period), np.arange(1, harmonics + 1))
        waves[:, 1::2], waves[:, 2::2] = np.cos(angle), np.sin(angle)
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
