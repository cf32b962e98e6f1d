"""SeriesData: all series end to end in one vector, the one carrier of values between tables, windows and forecasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from .clock import LocalClock

if TYPE_CHECKING:
    from torch import Tensor

Values = TypeVar("Values", np.ndarray, "Tensor")


def evenly_spaced(n: int, most: int) -> slice:
    """All of `n`, or every second one, every third one, ... where they are over `most`."""
    return slice(None, None, max(1, -(-n // most)))


@dataclass(frozen=True, eq=False)
class SeriesData(Generic[Values]):
    """Values of many series on one time axis, series after series, each without gaps.

    Parameters
    ----------
    values : ndarray or Tensor, shape (rows,)
        In the order of time within each series.
    lengths : ndarray of int64, shape (n_series,)
        Rows of each series.
    starts : ndarray of int64, shape (n_series,)
        The time index of each series' first row.
    observed : ndarray of bool, shape (rows,), optional
        False where a value was filled in; None where none was.
    clock : LocalClock, optional
        The clocks that seasons follow where times have a zone.
    covariates : ndarray, shape (rows, columns), float64, optional
        What is known beside each value, as the panel's `Covariates` say; None without any.
    """

    values: Values
    lengths: np.ndarray
    starts: np.ndarray
    observed: np.ndarray | None = None
    clock: LocalClock | None = None
    covariates: np.ndarray | None = None

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return len(self.lengths)

    @cached_property
    def offsets(self) -> np.ndarray:
        """The row at which each series begins, (n_series,) int64."""
        offsets: np.ndarray = np.cumsum(self.lengths) - self.lengths
        return offsets

    @property
    def ends(self) -> np.ndarray:
        """The time index after each series' last row, which is the first to forecast: (n_series,) int64."""
        ends: np.ndarray = self.starts + self.lengths
        return ends

    @property
    def row_in_series(self) -> np.ndarray:
        """The number of each row within its series, (rows,)."""
        rows: np.ndarray = np.arange(len(self.values)) - np.repeat(self.offsets, self.lengths)
        return rows

    @property
    def time_index(self) -> np.ndarray:
        """The time index of each row, (rows,)."""
        time_index: np.ndarray = self.row_in_series + np.repeat(self.starts, self.lengths)
        return time_index

    @property
    def last_rows(self) -> np.ndarray:
        """The last row of each series, (n_series,)."""
        last: np.ndarray = self.offsets + self.lengths - 1
        return last

    @property
    def series_of_row(self) -> np.ndarray:
        """The number of the series that each row belongs to, (rows,)."""
        return np.repeat(np.arange(self.n_series), self.lengths)

    @property
    def is_observed(self) -> np.ndarray:
        """Whether each row was observed, (rows,) bool; True for all where none was filled in."""
        return np.ones(len(self.values), dtype=bool) if self.observed is None else self.observed

    @property
    def changes(self) -> np.ndarray:
        """The absolute difference of each row from the one before it in its series, (rows,); 0 in the first."""
        changes: np.ndarray = np.abs(np.diff(self.values, prepend=self.values[:1]))
        changes[self.offsets] = 0
        return changes

    def mean_change(self, known: np.ndarray) -> np.ndarray:
        """The mean of `changes` among the first `known` (n_series,) rows of each series, (n_series,)."""
        inside = self.row_in_series < np.repeat(known, self.lengths)
        total = np.bincount(self.series_of_row[inside], self.changes[inside], self.n_series)
        mean: np.ndarray = total / np.maximum(known - 1, 1)
        return mean

    def phase(self, period: int) -> np.ndarray:
        """Where each row stands in a season of `period` steps, (rows,); by local clocks where times have a zone."""
        time_index = self.time_index
        if self.clock is not None:
            time_index = time_index + self.clock.shift(time_index)
        phase: np.ndarray = time_index % period
        return phase

    def locate(self, row: int) -> tuple[int, int]:
        """The number of the series that `row` belongs to, and the row's time index."""
        series = int(np.searchsorted(self.offsets, row, side="right")) - 1
        return series, int(self.starts[series] + row - self.offsets[series])

    def rows_of(self, series: int) -> slice:
        """The rows of one series."""
        first = int(self.offsets[series])
        return slice(first, first + int(self.lengths[series]))

    def with_values(self, values: Any) -> SeriesData[Any]:
        """Other values (rows,) of the same rows."""
        return replace(self, values=values)

    def take(self, series: np.ndarray) -> SeriesData[Values]:
        """The series number `series` (any,), in that order; copies."""
        return self.between(series, np.zeros_like(series), self.lengths[series])

    def between(self, series: np.ndarray, first: np.ndarray, last: np.ndarray) -> SeriesData[Values]:
        """Rows [first, last) of the series number `series`, each (any,); a series may be there often; copies."""
        lengths = last - first
        begin = self.offsets[series] + first - (np.cumsum(lengths) - lengths)
        return self._select(np.arange(lengths.sum()) + np.repeat(begin, lengths), lengths, self.starts[series] + first)

    def tail(self, rows: int | np.ndarray) -> SeriesData[Values]:
        """The last `rows` rows of each series, one number or (n_series,), fewer where it has fewer; copies."""
        dropped = np.maximum(self.lengths - rows, 0)
        kept = self.row_in_series >= np.repeat(dropped, self.lengths)
        return self._select(kept, self.lengths - dropped, self.starts + dropped)

    def head(self, rows: np.ndarray) -> SeriesData[Values]:
        """The first `rows` (n_series,) rows of each series; copies."""
        kept = self.row_in_series < np.repeat(rows, self.lengths)
        return self._select(kept, np.minimum(self.lengths, rows), self.starts)

    def then(self, later: SeriesData[Values]) -> SeriesData[Values]:
        """Each series with the rows of `later` after its own; copies.

        `later` has the same series, some perhaps without rows; it begins where these end, and its clock is taken.
        """
        mine, others = self._places(later)
        lengths = self.lengths + later.lengths

        def joined(a: Any, b: Any) -> Any:
            whole = np.empty((len(a) + len(b), *a.shape[1:]), dtype=a.dtype)
            whole[mine], whole[others] = a, b
            return whole

        observed = None
        if self.observed is not None or later.observed is not None:
            observed = joined(self.is_observed, later.is_observed)
        covariates = None
        if self.covariates is not None and later.covariates is not None:
            covariates = joined(self.covariates, later.covariates)
        return SeriesData(joined(self.values, later.values), lengths, self.starts, observed, later.clock, covariates)

    def _places(self, later: SeriesData[Values]) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows of these series and of `later` stand, once each series has both."""
        lengths = self.lengths + later.lengths
        begin = np.cumsum(lengths) - lengths
        mine = self.row_in_series + np.repeat(begin, self.lengths)
        return mine, later.row_in_series + np.repeat(begin + self.lengths, later.lengths)

    def _select(self, rows: np.ndarray, lengths: np.ndarray, starts: np.ndarray) -> SeriesData[Values]:
        observed = None if self.observed is None else self.observed[rows]
        covariates = None if self.covariates is None else self.covariates[rows]
        return SeriesData(self.values[rows], lengths, starts, observed, self.clock, covariates)
