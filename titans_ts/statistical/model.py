"""StatisticalModel: smoothing and autoregression of many series at once, of their values and of their logarithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from titans_ts.tables.series_data import SeriesData

from .adjusted import AdjustedSeries, Earlier
from .autoregression import Autoregression
from .methods import Methods
from .smoothing import FAMILIES, Family, Smoothing

MOST_ROWS = 2000  # the last ones of a series, which are read
LEAST_KNOWN = MOST_ROWS // 2  # known rows of a series that has them, which are read however many rows come after
READINGS = ("values", "logarithms")
METHODS = ("smoothing", "autoregression")


@dataclass(frozen=True, eq=False)
class StatisticalModel:
    """Forecasts by two methods, each of the values or of the logarithms of positive series, or both.

    Parameters
    ----------
    periods : tuple of int
        Of the seasons, each a multiple of the one before; empty for none.
    fitted : dict
        By reading, of `READINGS`, what was fitted of each method, in the order of `METHODS`.
    """

    periods: tuple[int, ...]
    fitted: dict[str, tuple[Smoothing, Autoregression]]

    @classmethod
    def fit(
        cls,
        data: SeriesData[np.ndarray],
        known: np.ndarray,
        horizon: int,
        periods: tuple[int, ...],
        readings: tuple[str, ...] = READINGS,
    ) -> StatisticalModel:
        """Fit all methods.

        Parameters
        ----------
        data : SeriesData
        known : ndarray of int, shape (n_series,)
            The first rows of each series, that may be learned from.
        horizon : int
        periods : tuple of int
        readings : tuple of str
        """
        recent, dropped = last_rows(data, known)
        fitted = {}
        for reading in readings:
            series = AdjustedSeries.of(recent, periods, logarithms=reading == "logarithms", known=known - dropped)
            fitted[reading] = Smoothing.fit(series, horizon), Autoregression.fit(series, horizon)
        return cls(periods, fitted)

    def take(self, readings: tuple[str, ...]) -> StatisticalModel:
        """The same of some readings."""
        return replace(self, fitted={reading: self.fitted[reading] for reading in readings})

    def forecast(
        self,
        data: SeriesData[np.ndarray],
        steps: int,
        known: np.ndarray | None = None,
        origins: np.ndarray | None = None,
        positive: np.ndarray | None = None,
        earlier: Earlier | None = None,
    ) -> np.ndarray:
        """Forecast the steps after some rows of each series, of those fitted or of others.

        Parameters
        ----------
        data : SeriesData
        steps : int
        known : ndarray of int, shape (n_series,), optional
            The first rows of each series, from which its season and what serves it may be learned; all if None.
        origins : ndarray of int, shape (n_series, origins), optional
            How many rows each forecast has seen, no fewer than `known`; all if None.
        positive : ndarray of bool, shape (n_series,), optional
            Which series may be read by their logarithms, where all rows given are positive; all if None.
        earlier : Earlier, optional
            Rows from which the season of a series is taken where they are more.

        Returns
        -------
        ndarray, shape (readings, methods, n_series, origins, steps)
            In the units of the data.
        """
        known = data.lengths if known is None else known
        origins = data.lengths[:, None] if origins is None else origins
        recent, dropped = last_rows(data, known)
        forecasts = []
        for reading, models in self.fitted.items():
            series = AdjustedSeries.of(
                recent,
                self.periods,
                logarithms=reading == "logarithms" and (True if positive is None else positive),
                known=known - dropped,
                origins=origins - dropped[:, None],
                earlier=earlier,
            )
            forecasts.append([series.inverse(model.forecast(series, steps)) for model in models])
        return np.array(forecasts)

    def arrays(self) -> dict[str, np.ndarray]:
        """All that was fitted, by name, from which `of_arrays` makes it again."""
        arrays = {}
        for reading, (smoothing, autoregression) in self.fitted.items():
            arrays[f"{reading}.scored"] = smoothing.scored
            arrays[f"{reading}.autoregression"] = autoregression.weight
            for i, family in enumerate(smoothing.families):
                arrays[f"{reading}.{i}.prior"] = family.prior
                for field in fields(Methods):
                    arrays[f"{reading}.{i}.{field.name}"] = getattr(family.methods, field.name)
        return arrays

    @classmethod
    def of_arrays(cls, periods: tuple[int, ...], arrays: Mapping[str, np.ndarray]) -> StatisticalModel:
        """The model whose `arrays` these are."""
        fitted = {}
        for reading in READINGS:
            if f"{reading}.scored" not in arrays:
                continue
            families = tuple(
                Family(
                    Methods(*(arrays[f"{reading}.{i}.{field.name}"] for field in fields(Methods))),
                    arrays[f"{reading}.{i}.prior"],
                )
                for i in range(FAMILIES)
            )
            smoothing = Smoothing(arrays[f"{reading}.scored"], families)
            fitted[reading] = smoothing, Autoregression(arrays[f"{reading}.autoregression"])
        return cls(periods, fitted)


def last_rows(data: SeriesData[np.ndarray], known: np.ndarray) -> tuple[SeriesData[np.ndarray], np.ndarray]:
    """The rows of each series that are read, `known` (n_series,) ones among them, and how many before them are not."""
    dropped = np.maximum(np.minimum(data.lengths - MOST_ROWS, known - LEAST_KNOWN), 0)
    return data.tail(data.lengths - dropped), dropped
