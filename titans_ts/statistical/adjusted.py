"""Series as the statistical methods read them: as they are or their logarithms, minus their seasonal indices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from titans_ts.tables.series_data import SeriesData

from .season import seasonal_indices

LARGEST = float(np.log(4))  # beyond its range, and its season, that a forecast of a logarithm lies at most
BEYOND = 0.5  # ranges of a series, and its season, beyond which no forecast of its logarithm lies


@dataclass(frozen=True, eq=False)
class Earlier:
    """Other rows of the same series, from which seasons may be taken.

    Parameters
    ----------
    data : SeriesData
    series : ndarray of int, shape (n_series,)
        The number of each series among those of `data`, -1 for one that is not there.
    """

    data: SeriesData[np.ndarray]
    series: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each series, (n_series,)."""
        return np.where(self.series >= 0, self.data.lengths[self.series], 0)

    @property
    def varies(self) -> np.ndarray:
        """Whether the rows of each series are not all alike, (n_series,)."""
        values, offsets = self.data.values, self.data.offsets
        varies: np.ndarray = np.minimum.reduceat(values, offsets) < np.maximum.reduceat(values, offsets)
        found: np.ndarray = varies[self.series] & (self.series >= 0)
        return found


@dataclass(frozen=True, eq=False)
class AdjustedSeries:
    """Series minus their seasonal indices.

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
    low, high : ndarray, shape (n_series, origins)
        The extremes of the rows that each forecast has seen, before the adjustment.
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
        logarithms: np.ndarray | bool,
        known: np.ndarray | None = None,
        origins: np.ndarray | None = None,
        earlier: Earlier | None = None,
    ) -> AdjustedSeries:
        """Adjust series for their seasons.

        Parameters
        ----------
        data : SeriesData
        periods : tuple of int
            Steps of the seasons, each a multiple of the one before; empty for none.
        logarithms : ndarray of bool, shape (n_series,), or bool
            Which series to read by their logarithms, of those whose values are all positive.
        known : ndarray of int, shape (n_series,), optional
            The first rows of each series, that may be learned from; all if None.
        origins : ndarray of int, shape (n_series, origins), optional
            How many rows each forecast has seen; all if None.
        earlier : Earlier, optional
            Rows that give the season of a series where they are more than its known ones, and not all alike.
        """
        known = data.lengths if known is None else known
        origins = data.lengths[:, None] if origins is None else origins
        power = _power(data)
        positive = (np.minimum.reduceat(data.values, data.offsets) > 0) & logarithms
        data = _read(data, power, positive)
        low, high = _extremes(data, origins)
        indices = np.zeros((data.n_series, 1))
        if periods:
            indices = seasonal_indices(data, known, periods)
            if earlier is not None:
                longer = np.flatnonzero((earlier.lengths > known) & earlier.varies)
                if len(longer):
                    rows = _read(earlier.data.take(earlier.series[longer]), power[longer], positive[longer])
                    indices[longer] = seasonal_indices(rows, rows.lengths, periods)
            data = data.with_values(data.values - indices[data.series_of_row, data.phase(indices.shape[1])])
        return cls(data, known, origins, data.mean_change(known), indices, positive, low, high, power)

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
        """Forecasts (n_series, origins, steps) of the adjusted series in the units of the data, of that shape.

        Of a series that was constant, and has no season, the forecast is that constant.
        """
        data, period = self.data, self.indices.shape[1]
        if period > 1:
            time_index = (data.starts[:, None] + self.origins)[..., None] + np.arange(forecast.shape[-1])
            if data.clock is not None:
                time_index = time_index + data.clock.shift(time_index)
            forecast = forecast + self.indices[np.arange(data.n_series)[:, None, None], time_index % period]
        low, high, season = self.low[..., None], self.high[..., None], np.ptp(self.indices, axis=1)[:, None, None]
        forecast = np.where((low == high) & (season == 0), low, forecast)
        if self.logarithms.any():
            read = self.logarithms[:, None, None]
            beyond = season + np.minimum(BEYOND * (high - low), LARGEST)
            bounded = np.clip(forecast, low - beyond, high + beyond)
            forecast = np.where(read, np.exp(np.where(read, bounded, 0.0)), forecast)
        found: np.ndarray = np.ldexp(forecast, self.power[:, None, None])
        return found


def _power(data: SeriesData[np.ndarray]) -> np.ndarray:
    """The power of two above the size of each series' values, (n_series,)."""
    size = np.maximum(np.maximum.reduceat(data.values, data.offsets), -np.minimum.reduceat(data.values, data.offsets))
    return np.frexp(size)[1]


def _read(data: SeriesData[np.ndarray], power: np.ndarray, logarithms: np.ndarray) -> SeriesData[np.ndarray]:
    """The values over a power of two of each series, or the logarithms of that where the series is positive."""
    values = np.ldexp(data.values, -np.repeat(power, data.lengths))
    read = np.repeat(logarithms, data.lengths) & (values > 0)
    return data.with_values(np.where(read, np.log(np.where(read, values, 1.0)), values))


def _extremes(data: SeriesData[np.ndarray], origins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least and greatest of the rows that each forecast has seen, both (n_series, origins)."""
    row, low, high = data.row_in_series, np.empty(origins.shape), np.empty(origins.shape)
    for i, rows in enumerate(origins.T):
        seen = row < np.repeat(rows, data.lengths)
        low[:, i] = np.minimum.reduceat(np.where(seen, data.values, np.inf), data.offsets)
        high[:, i] = np.maximum.reduceat(np.where(seen, data.values, -np.inf), data.offsets)
    return low, high
