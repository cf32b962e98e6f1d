"""Quantiles beside points: of a point forecast by its errors, of a quantile forecast by those of each quantile."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.intervals.calibration import Calibration
from titans_ts.intervals.predict import forecast_quantiles

HORIZON = 3


def calibration_of(errors: np.ndarray, levels: tuple[float, ...] | None = None, held_out: bool = True) -> Calibration:
    n = len(errors)
    nothing = np.empty((n, 0, *errors.shape[2:]), dtype=np.float32)
    return Calibration(
        np.arange(n), errors, nothing, np.empty((n, 0), np.int64), np.ones(n), 1, 200, held_out, levels=levels
    )


def quantiles_of(calibration: Calibration, forecast: np.ndarray, *quantiles: float) -> np.ndarray:
    n = len(forecast)
    return forecast_quantiles(
        calibration, calibration.errors, forecast, quantiles, np.arange(n), 2 * np.ones(n), np.ones(n)
    )


def test_an_error_is_added_at_the_scale_of_its_series() -> None:
    errors = np.random.default_rng(0).normal(size=(1, 199, HORIZON, 1))
    found = quantiles_of(calibration_of(errors), np.full((1, HORIZON, 1), 5.0), 0.1, 0.5, 0.9)
    assert (found[..., 0] == 5).all()
    assert (found[..., 2] == 5).all()
    assert ((found[..., 3] - 5) / 2).ravel() == pytest.approx(np.full(HORIZON, 1.28), abs=0.35)
    nearest = np.abs((found[0, :, 3] - 5) / 2 - errors[0, :, :, 0]).min(0)
    assert nearest.max() < 0.02  # between two neighbours


def test_each_quantile_of_a_network_is_corrected_by_its_own_errors() -> None:
    truth = np.random.default_rng(1).normal(size=(1, 190, HORIZON, 1))
    outputs = np.array([-0.5, 0.0, 4.0])  # of levels .1, .5 and .9: too narrow below, too wide above
    calibration = calibration_of(truth - outputs, levels=(0.1, 0.5, 0.9))
    forecast = np.broadcast_to(2 * outputs, (1, HORIZON, 3))
    found = quantiles_of(calibration, forecast, 0.05, 0.1, 0.5, 0.9, 0.95)
    # at twice the scale, as if these were quantiles of the truth itself
    expected = np.array([0.0, 2 * -1.645, 2 * -1.282, 0.0, 2 * 1.282, 2 * 1.645])
    assert found.mean(1)[0] == pytest.approx(expected, abs=0.5)
    assert (np.diff(found[..., [1, 2, 0, 4, 5]], axis=-1) >= 0).all()


def test_fewer_steps_than_the_horizon_are_the_first_ones() -> None:
    calibration = calibration_of(np.random.default_rng(2).normal(size=(2, 40, HORIZON, 1)))
    forecast = np.random.default_rng(3).normal(size=(2, 7, 1))
    whole = quantiles_of(calibration, forecast, 0.1, 0.9)
    for steps in (1, 3, 5):
        assert np.array_equal(quantiles_of(calibration, forecast[:, :steps], 0.1, 0.9), whole[:, :steps])


def test_what_was_learned_from_is_warned_of() -> None:
    errors = np.random.default_rng(4).normal(size=(1, 40, HORIZON, 1))
    with pytest.warns(UserWarning, match="no row was held out of the fit"):
        quantiles_of(calibration_of(errors, held_out=False), np.zeros((1, HORIZON, 1)), 0.9)
