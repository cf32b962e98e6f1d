"""Quantiles of forecasts from the errors of earlier ones."""

from __future__ import annotations

import warnings

import numpy as np

from .calibration import Calibration
from .widths import Widths, ahead_of_point, interpolated


def forecast_quantiles(
    calibration: Calibration,
    errors: np.ndarray,
    forecast: np.ndarray,
    quantiles: tuple[float, ...],
    which: np.ndarray,
    scale: np.ndarray,
    sizes: np.ndarray,
) -> np.ndarray:
    """The point forecast and the quantiles beside it, which rise and lie on their side of it.

    Parameters
    ----------
    calibration : Calibration
    errors : ndarray, shape (calibrated, origins, horizon, outputs)
        As `Calibration.errors_until` finds them.
    forecast : ndarray, shape (n_series, steps, outputs)
        In the units of the data.
    quantiles : tuple of float
        Rising; a half is the point forecast.
    which, scale, sizes : ndarray, shape (n_series,)
        As `Widths.offsets` takes them, in the units of the data.

    Returns
    -------
    ndarray, shape (n_series, steps, 1 + quantiles)

    Warns
    -----
    UserWarning
        If no row was held out of the fit.

    Raises
    ------
    ValueError
        If no error is known.
    """
    point = interpolated(forecast, calibration.levels, 0.5)
    if not (sizes > 0).any():  # constants, of which no other value is known
        return np.repeat(point[..., None], 1 + len(quantiles), axis=-1)
    if not calibration.held_out:
        warnings.warn(
            "no row was held out of the fit, so intervals are by errors in the rows that it learned from, widened by "
            "half, which may be too little. Give `fit` more rows, or lower `horizon`.",
            stacklevel=5,
        )
    horizon, steps = calibration.horizon, forecast.shape[1]
    found, widths = [point], None
    for quantile in quantiles:
        if quantile == 0.5:
            found.append(point)
            continue
        if widths is None or calibration.levels is not None:  # a point's errors are those of all its quantiles
            widths = Widths.of(calibration, errors, quantile)
        sign = 1.0 if quantile > 0.5 else -1.0
        offsets = widths.offsets(quantile, which, scale, sizes)
        apart = interpolated(forecast, calibration.levels, quantile) - point
        half = sign * (apart[:, :horizon] + offsets[:, :steps])
        found.append(point + sign * ahead_of_point(half, steps, widths.shared.growth))
    return _rising(np.stack(found, axis=-1), quantiles)


def _rising(forecast: np.ndarray, quantiles: tuple[float, ...]) -> np.ndarray:
    """The quantiles (n_series, steps, 1 + quantiles) after the point made to rise, as those of networks may not."""
    below = [i for i, q in enumerate(quantiles, start=1) if q < 0.5]
    above = [i for i, q in enumerate(quantiles, start=1) if q > 0.5]
    forecast[..., below] = np.minimum.accumulate(forecast[..., below[::-1]], axis=-1)[..., ::-1]
    forecast[..., above] = np.maximum.accumulate(forecast[..., above], axis=-1)
    return forecast
