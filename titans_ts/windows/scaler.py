"""The scale that networks see series at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from titans_ts.tables.panel import Panel
from titans_ts.tables.series_data import SeriesData

FARTHEST = 1e15  # deviations from a series' mean; squares of more leave float32


@dataclass(frozen=True)
class Scaler:
    """Mean and standard deviation (population) of each series, (n_series,), in float64.

    The deviation of a series that does not vary is 0; its scale is the size of its mean then, or 1 where that is 0 too.
    """

    mean: np.ndarray
    std: np.ndarray

    ROUNDING = 1e-14  # a spread below this share of the mean is rounding, not variation
    EXTREME = 300  # powers of two beyond which squares may leave float64

    @classmethod
    def fit(cls, data: SeriesData[np.ndarray], rows: np.ndarray) -> Scaler:
        """The scaler of the first `rows` (n_series,) rows of each series, those that were observed."""
        values, offsets = data.values, data.offsets
        mean, std = np.empty(data.n_series), np.empty(data.n_series)
        size = np.maximum(np.maximum.reduceat(values, offsets), -np.minimum.reduceat(values, offsets))
        power = np.frexp(size)[1]
        power[np.abs(power) <= cls.EXTREME] = 0
        for i, (start, n) in enumerate(zip(offsets, rows, strict=True)):
            part = values[start : start + n]
            if data.observed is not None:
                part = part[data.observed[start : start + n]]
            if power[i]:
                part = np.ldexp(part, -power[i])  # exact, and squares stay within float64
            mean[i], std[i] = part.mean(), part.std()
            if std[i] <= cls.ROUNDING * abs(mean[i]) and part.min() == part.max():
                mean[i] = part[0]  # a mean of equal values may be off by rounding
        mean, std = np.ldexp(mean, power), np.ldexp(std, power)
        flat = std <= cls.ROUNDING * np.abs(mean)
        return cls(mean, np.where(flat, 0.0, std))

    @property
    def scale(self) -> np.ndarray:
        """What deviations from the mean are divided by, (n_series,)."""
        size = np.abs(self.mean)
        return np.where(self.std > 0, self.std, np.where(size > 0, size, 1.0))

    def take(self, series: np.ndarray) -> Scaler:
        """The scaler of the series number `series` (any,), in that order; copies."""
        return Scaler(self.mean[series], self.std[series])

    def transform(self, data: SeriesData[np.ndarray]) -> SeriesData[np.ndarray]:
        """Each series to mean 0 and standard deviation 1, or 0 where it does not vary."""
        mean, scale = np.repeat(self.mean, data.lengths), np.repeat(self.scale, data.lengths)
        return data.with_values((data.values - mean) / scale)

    def transform_panel(self, panel: Panel) -> SeriesData[np.ndarray]:
        """The series of `panel` at their scale.

        Raises
        ------
        ValueError
            If a value lies too far from all that the scale was taken from: names series and time.
        """
        scaled = self.transform(panel.data)
        if scaled.values.min() >= -FARTHEST and scaled.values.max() <= FARTHEST:
            return scaled
        row = int(np.abs(scaled.values).argmax())
        name, label = panel.locate(row)
        raise ValueError(
            f"series {name!r} has {panel.data.values[row]:g} at {label}, more than {FARTHEST:g} deviations "
            "from the mean of the rows it was trained on; correct the value."
        )

    def inverse(self, scaled: np.ndarray) -> np.ndarray:
        """Forecasts (n_series, steps, outputs) back to the data's units."""
        values: np.ndarray = scaled * self.scale[:, None, None] + self.mean[:, None, None]
        return values
