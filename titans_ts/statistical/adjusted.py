"""Series as the statistical methods read them: as they are or their logarithms, less their seasonal indices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from titans_ts.tables.series_data import SeriesData

from .season import seasonal_indices

BEYOND = 0.5  # ranges of a series beyond which no forecast of its logarithm lies


@dataclass(frozen=True, eq=False)
class AdjustedSeries:
    """Series less their seasonal indices.

    Parameters
    ----------
    data : SeriesData
        Their adjusted values.
    known : ndarray of int, shape (n_series,)
        Rows of each series that may be learned from.
    origins : ndarray of int, shape (n_series, origins)
        How many rows each forecast has seen.
    change : ndarray, shape (n_series,)
        The mean absolute difference of neighbouring known rows.
    indices : ndarray, shape (n_series, period)
        What was taken away, by time index.
    logarithms : ndarray of bool, shape (n_series,)
        Which series are given by their logarithms.
    low, high : ndarray, shape (n_series,)
        The extremes of the known rows before the adjustment.
    power : ndarray of int, shape (n_series,)
        The power of two that values were divided by, exactly, so that none is large.
    """

    data: SeriesData[np.ndarray]
    known: np.ndarray
    origins: np.ndarray
    change: np.ndarray
    indices: np.ndarray
    logarithms: np.ndarray
    low: np.ndarray
    high: np.ndarray
    power: np.ndarray

    @classmethod
    def of(
        cls,
        data: SeriesData[np.ndarray],
        periods: tuple[int, ...],
        *,
        logarithms: bool,
        known: np.ndarray | None = None,
        origins: np.ndarray | None = None,
    ) -> AdjustedSeries:
        """Adjust series for seasons of `periods` steps.

        With `logarithms` those of which all values are positive are read by their logarithms. All rows are known, and
        forecasts begin at the end, where `known` and `origins` are None.
        """
        known = data.lengths if known is None else known
        origins = data.lengths[:, None] if origins is None else origins
        size = np.maximum(
            np.maximum.reduceat(data.values, data.offsets), -np.minimum.reduceat(data.values, data.offsets)
        )
        power = np.frexp(size)[1]
        values = np.ldexp(data.values, -np.repeat(power, data.lengths))
        data = data.with_values(values)
        positive = (np.minimum.reduceat(values, data.offsets) > 0) & logarithms
        if logarithms:
            by_row = np.repeat(positive, data.lengths)
            values = np.where(by_row, np.log(np.where(by_row, values, 1.0)), values)
            data = data.with_values(values)
        inside = data.row_in_series < np.repeat(known, data.lengths)
        low = np.minimum.reduceat(np.where(inside, values, np.inf), data.offsets)
        high = np.maximum.reduceat(np.where(inside, values, -np.inf), data.offsets)
        indices = np.zeros((data.n_series, 1))
        if periods:
            indices = seasonal_indices(data, known, periods)
            data = data.with_values(values - indices[data.series_of_row, data.phase(indices.shape[1])])
        return cls(data, known, origins, _mean_change(data, known), indices, positive, low, high, power)

    def take(self, series: np.ndarray) -> AdjustedSeries:
        """The series number `series` (any,), in that order; copies."""
        per_series = {
            name: getattr(self, name)[series]
            for name in ("known", "origins", "change", "indices", "logarithms", "low", "high", "power")
        }
        return AdjustedSeries(data=self.data.take(series), **per_series)

    def at_known_end(self) -> AdjustedSeries:
        """The same, to be forecast from the end of the known rows."""
        return replace(self, origins=self.known[:, None])

    def inverse(self, forecast: np.ndarray) -> np.ndarray:
        """Forecasts (n_series, origins, steps) of the adjusted series in the units of the data."""
        data, period = self.data, self.indices.shape[1]
        if period > 1:
            time_index = (data.starts[:, None] + self.origins)[..., None] + np.arange(forecast.shape[-1])
            if data.clock is not None:
                time_index = time_index + data.clock.shift(time_index)
            forecast = forecast + self.indices[np.arange(data.n_series)[:, None, None], time_index % period]
        low, high = self.low[:, None, None], self.high[:, None, None]
        forecast = np.where(low == high, low, forecast)
        if self.logarithms.any():
            read = self.logarithms[:, None, None]
            bounded = np.clip(forecast, low - BEYOND * (high - low), high + BEYOND * (high - low))
            forecast = np.where(read, np.exp(np.where(read, bounded, 0.0)), forecast)
        found: np.ndarray = np.ldexp(forecast, self.power[:, None, None])
        return found


def _mean_change(data: SeriesData[np.ndarray], known: np.ndarray) -> np.ndarray:
    """The mean absolute difference of neighbouring rows among the first `known` of each series, (n_series,)."""
    row = data.row_in_series
    inside = (row > 0) & (row < np.repeat(known, data.lengths))
    change = np.abs(np.diff(data.values, prepend=data.values[:1]))
    total = np.bincount(data.series_of_row[inside], change[inside], data.n_series)
    mean: np.ndarray = total / np.maximum(known - 1, 1)
    return mean
