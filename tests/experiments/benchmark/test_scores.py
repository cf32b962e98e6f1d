"""The competitions' errors, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.scores import Score, naive_scales, score

FUTURE = np.array([[100.0, 50.0], [1.0, 0.0]])
FORECAST = np.array([[50.0, 50.0], [3.0, 0.0]])


def test_errors_are_means_over_series() -> None:
    found = score(FUTURE, FORECAST, scales=np.array([10.0, 0.5]))
    # 200 * 50 / 150, 0, 200 * 2 / 4 and 0 of 0, which is no error.
    assert found.smape == pytest.approx((200 * 50 / 150 + 0 + 100 + 0) / 4, rel=1e-15)
    # Means of 25 over 10, and of 1 over .5.
    assert found.mase == pytest.approx((2.5 + 2) / 2, rel=1e-15)


def test_values_of_opposite_sign_err_by_200() -> None:
    assert score(np.array([[-1.0]]), np.array([[2.0]]), np.ones(1)) == Score(200, 3)


@pytest.mark.parametrize("forecast", [np.full((2, 2), np.nan), np.zeros((2, 1))])
def test_a_forecast_with_gaps_or_of_another_shape_is_refused(forecast: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"`forecast` must have finite values of shape \(2, 2\)"):
        score(FUTURE, forecast, np.ones(2))


def test_scales_are_mean_steps_of_a_season() -> None:
    past = [np.array([1.0, 2.0, 4.0, 8.0]), np.array([5.0, 4.0])]
    assert naive_scales(past, 1).tolist() == [pytest.approx(7 / 3, rel=1e-15), 1]
    assert naive_scales(past[:1], 2).tolist() == [4.5]


@pytest.mark.parametrize(("past", "season"), [([1.0, 1.0, 1.0], 1), ([1.0, 2.0], 2)])
def test_a_series_without_a_scale_is_refused(past: list[float], season: int) -> None:
    with pytest.raises(ValueError, match=rf"differ {season} steps apart in every series, those at 1 do not"):
        naive_scales([np.arange(9.0), np.array(past)], season)
