"""Folds: the rows of each series that train, validate and test a network, cut in this one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from titans_ts.model import ModelConfig
from titans_ts.reals import is_real
from titans_ts.tables.panel import Panel
from titans_ts.tables.series_data import SeriesData

from .cross_series import CrossSeriesFeatures
from .windows import Windows, observed_windows

VALIDATION_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows of each series, each (n_series,) a number of rows.

    Parameters
    ----------
    train : ndarray of int
        Rows [0, train) are trained on.
    validation : ndarray of int
        Rows [train, validation) validate; none where the two are equal.
    test : ndarray of int
        Rows [validation, test) test; none where the two are equal.
    weight : ndarray, shape (n_series,), optional
        How much each series counts; those of 0 have no windows to train or validate by. All alike if None.
    half_life : float, optional
        Steps before the last one in which a train window comes to count half.
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    weight: np.ndarray | None = None
    half_life: float | None = None

    def take(self, series: np.ndarray) -> Fold:
        """The fold of the series number `series` (any,), in that order."""
        weight = None if self.weight is None else self.weight[series]
        return Fold(self.train[series], self.validation[series], self.test[series], weight, self.half_life)

    def weighted(self, weight: np.ndarray | None, half_life: float | None) -> Fold:
        """The fold with these weights; a series of weight 0 has no validation rows."""
        if weight is None:
            return replace(self, half_life=half_life)
        train = np.where(weight > 0, self.train, self.validation)
        return replace(self, train=train, weight=weight, half_life=half_life)

    @property
    def learned(self) -> np.ndarray:
        """The numbers of the series that are learned from, (any,)."""
        return np.arange(len(self.train)) if self.weight is None else np.flatnonzero(self.weight > 0)

    @property
    def validated(self) -> np.ndarray:
        """Which series have validation rows, (n_series,) bool."""
        return self.validation > self.train


class FoldWindows(NamedTuple):
    """The windows of a fold; None where no series has one."""

    train: Windows
    validation: Windows | None
    test: Windows | None


def backtest_folds(
    panel: Panel, horizon: int, *, val_size: Any = None, test_size: int = 0, n_windows: int = 1
) -> list[Fold]:
    """Cut the rows of each series into train, validation and test rows, `n_windows` times, the latest fold first.

    The validation rows of each fold end where the train rows of the one before it end; the first one's end `test_size`
    rows before the series do, and only it has test rows.

    Parameters
    ----------
    panel : Panel
    horizon : int
        Steps forecast: the fewest rows that can validate.
    val_size : int or float, optional
        Validation rows of each series, as a number or a share of the rows up to their end, at least one horizon; a
        tenth if None, none if 0. A series that would be left with fewer than `horizon` + 1 train rows, or has no
        observed row to validate by, is trained on whole.
    test_size : int
        Test rows of each series.
    n_windows : int
        Folds.

    Returns
    -------
    list of Fold

    Raises
    ------
    ValueError
        If `val_size` is no such number, no series can be trained on, or a fold of several has no validation rows.
    """
    data, folds = panel.data, list[Fold]()
    ends = data.lengths
    for number in range(n_windows):
        test = ends if number else data.lengths
        ends = ends if number else data.lengths - test_size
        fold = _fold(panel, ends, test, horizon, val_size)
        if n_windows > 1 and not fold.validated.any():
            raise ValueError(
                f"`n_windows` = {n_windows} leaves no validation rows for window {number + 1}. Lower it, `val_size` or "
                "`horizon`, or bring more rows."
            )
        folds.append(fold)
        ends = fold.train
    return folds


def _fold(panel: Panel, ends: np.ndarray, test: np.ndarray, horizon: int, val_size: Any) -> Fold:
    """Train rows and then validation rows up to the row `ends` (n_series,) of each series."""
    if ends.max() < horizon + 1:
        i = int(ends.argmax())
        raise ValueError(
            f"a series needs at least `horizon` + 1 = {horizon + 1} rows to learn from, but the longest, "
            f"{panel.id_of(i)!r}, has {ends[i]}. Lower `horizon` or bring more rows."
        )
    size = VALIDATION_SHARE if val_size is None else val_size
    whole = isinstance(size, (int, np.integer)) and is_real(size)
    if not (whole and size >= 0) and not (isinstance(size, (float, np.floating)) and 0 <= size < 1):
        raise ValueError(f"`val_size` must be a number of rows or a share in [0, 1), got {size!r}.")
    rows = np.full(len(ends), min(int(size), int(ends.max()))) if whole else np.ceil(ends * size).astype(np.int64)
    if size > 0:
        rows = np.maximum(rows, horizon)
    validated = (rows > 0) & (ends - rows >= horizon + 1)
    if panel.data.observed is not None:
        count = np.where(validated, rows - horizon + 1, 0)
        validated = observed_windows(panel.data, ends - rows, count, horizon)[2] > 0
    return Fold(np.where(validated, ends - rows, ends), ends, test)


def rolling_folds(fold: Fold, lookback: int, horizon: int) -> list[Fold]:
    """Folds within the train and validation rows of another, the latest first, their last rows for a test.

    These rows are cut into sixteenths: three of them validate, the three that follow test, and what was before trains,
    the first ten and the first seven. A fold is left out where the typical series that validates has fewer train rows
    than a lookback and two horizons.
    """
    rows, found = fold.validation, list[Fold]()
    for part in (10, 7):
        train, validation, test = (rows * (part + ahead) // 16 for ahead in (0, 3, 6))
        whole = fold.validated & (train >= lookback + 2 * horizon) & (rows * 3 // 16 >= horizon)
        if whole.mean() > 0.5:
            found.append(replace(fold, train=train, validation=validation, test=test))
    return found


def network_windows(data: SeriesData[Tensor], fold: Fold, config: ModelConfig) -> FoldWindows:
    """The windows of a fold as a network of this shape reads them, with cross-series features where it does."""
    features = None
    if config.linear_cross_series:
        features = CrossSeriesFeatures(data, lookback=config.lookback, n_series=config.n_series)
    return fold_windows(data, fold, lookback=config.lookback, horizon=config.horizon, cross_series=features)


def fold_windows(
    data: SeriesData[Tensor],
    fold: Fold,
    *,
    lookback: int,
    horizon: int,
    cross_series: CrossSeriesFeatures | None = None,
) -> FoldWindows:
    """The windows that forecast train rows alone, validation rows alone and test rows alone; see `Windows`."""

    def between(first: np.ndarray, last: np.ndarray, half_life: float | None = None) -> Windows:
        if fold.weight is not None:
            first = np.where(fold.weight > 0, first, last)
        return Windows(
            data,
            lookback=lookback,
            horizon=horizon,
            first=first,
            last=last,
            cross_series=cross_series,
            weight=fold.weight,
            half_life=half_life,
        )

    def some(rows: np.ndarray) -> bool:
        return bool((rows >= horizon).any())

    return FoldWindows(
        train=between(_first_targets(data, fold.train, lookback, horizon), fold.train, fold.half_life),
        validation=between(fold.train, fold.validation) if some(fold.validation - fold.train) else None,
        test=between(fold.validation, fold.test) if some(fold.test - fold.validation) else None,
    )


def _first_targets(data: SeriesData[Tensor], train: np.ndarray, lookback: int, horizon: int) -> np.ndarray:
    """The first row that a train window forecasts: after a full lookback or, in a shorter series, halfway.

    A series that has no window with an observed row from there on begins with its second row.
    """
    half = np.maximum((train - horizon + 1) // 2, 1)
    first = np.where(train >= lookback + horizon, lookback, half)
    if data.observed is not None:
        count = np.maximum(train - first - horizon + 1, 0)
        found = observed_windows(data, first, count, horizon)[2]
        first = np.where(found > 0, first, 1)
    return first
