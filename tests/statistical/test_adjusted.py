"""Series less their seasons, as they are or by their logarithms, and forecasts of these in the units of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from titans_ts.statistical.adjusted import BEYOND, LARGEST, AdjustedSeries, Earlier
from titans_ts.tables.clock import LocalClock

from .small_series import data_of, walk

YEAR = np.array([3.0, 1, -2, -4, 0, 2, 5, 1, -1, -3, -2, 0])
EXACT = dict(rtol=1e-12, atol=1e-12)  # float64


def season(rows: int, start: int = 0) -> np.ndarray:
    return YEAR[(start + np.arange(rows)) % 12]


def adjusted(*series: Any, periods: tuple[int, ...] = (12,), logarithms: Any = False, **how: Any) -> AdjustedSeries:
    starts = how.pop("starts", None)
    return AdjustedSeries.of(data_of(*series, starts=starts), periods, logarithms=logarithms, **how)


def test_what_is_left_has_no_season() -> None:
    t = np.arange(60)
    found = adjusted(100 + t + season(60))
    assert found.power.tolist() == [8]
    np.testing.assert_allclose(found.data.values * 2**8, 100 + t, **EXACT)
    np.testing.assert_allclose(found.indices * 2**8, [YEAR], atol=1e-10)
    np.testing.assert_allclose(found.change * 2**8, 1, **EXACT)


@pytest.mark.parametrize("logarithms", [False, True])
def test_the_inverse_of_what_was_adjusted_is_what_there_was(logarithms: bool) -> None:
    rng = np.random.default_rng(0)
    start, ahead = np.array([0, 7]), 20
    values = [np.exp((season(70, s) + 0.1 * rng.normal(size=70)) / 10) for s in start]
    seen = 50
    found = adjusted(
        *values, logarithms=logarithms, starts=start, known=np.full(2, seen), origins=np.full((2, 1), seen)
    )
    rows = found.data.values.reshape(2, 1, 70)[..., seen:]
    assert found.logarithms.tolist() == [logarithms] * 2
    np.testing.assert_allclose(found.inverse(rows)[:, 0], np.array(values)[:, seen:], rtol=1e-12)
    assert rows.shape[-1] == ahead


def test_the_season_of_a_forecast_follows_local_clocks() -> None:
    clock = LocalClock(np.array([0, 62]), np.array([0, 1]))
    found = AdjustedSeries.of(data_of(season(60), clock=clock), (12,), logarithms=False)
    forecast = found.inverse(np.zeros((1, 1, 6)))[0, 0]
    np.testing.assert_allclose(forecast, YEAR[[0, 1, 3, 4, 5, 6]], atol=1e-10)


def test_logarithms_are_of_series_that_are_positive_throughout() -> None:
    positive = np.exp(walk(40, 0) / 10)
    touching, below = positive.copy(), positive.copy()
    touching[7], below[39] = 0, -1
    found = adjusted(positive, touching, below, periods=(), logarithms=True)
    assert found.logarithms.tolist() == [True, False, False]
    np.testing.assert_allclose(np.exp(found.data.values[:40]) * 2.0 ** found.power[0], positive, **EXACT)
    assert np.array_equal(np.ldexp(found.data.values[40:80], found.power[1]), touching)


def test_logarithms_may_be_withheld_from_a_positive_series() -> None:
    found = adjusted(np.exp(walk(9, 0)), np.exp(walk(9, 1)), periods=(), logarithms=np.array([False, True]))
    assert found.logarithms.tolist() == [False, True]


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("power", [-600, -3, 40, 900])
def test_a_power_of_two_is_a_unit_that_changes_no_bit(power: int, logarithms: bool) -> None:
    values = np.exp(walk(50, 0) / 10)
    first, other = (adjusted(np.ldexp(values, p), logarithms=logarithms) for p in (0, power))
    assert np.array_equal(first.data.values, other.data.values)
    forecast = np.linspace(-1, 1, 9).reshape(1, 1, 9)
    assert np.array_equal(np.ldexp(first.inverse(forecast), power), other.inverse(forecast))


def test_extremes_are_of_the_rows_that_each_forecast_has_seen() -> None:
    """So that a series that has grown past its known rows is not held back."""
    values = np.exp(np.linspace(0, 4, 41))
    how = dict(known=np.array([11]), origins=np.array([[11, 31]]))
    found = adjusted(values, periods=(), logarithms=True, **how)
    logarithm = found.power[0] * np.log(2)
    np.testing.assert_allclose(found.low + logarithm, [[0, 0]], atol=1e-12)
    np.testing.assert_allclose(found.high + logarithm, [[1, 3]])
    forecast = found.inverse(np.full((1, 2, 1), 100.0))[0, :, 0]
    np.testing.assert_allclose(forecast, np.exp([1 + BEYOND, 3 + LARGEST]))  # e^1.5 is more than 4


def test_only_known_rows_tell_season_and_change() -> None:
    values = 10 + season(80) + np.random.default_rng(0).normal(size=80)
    later = values.copy()
    later[50:] = np.linspace(-16, 16, 30)  # of the same power of two
    known, origins = np.array([50]), np.array([[50]])
    first, other = (adjusted(rows, known=known, origins=origins) for rows in (values, later))
    short = adjusted(values[:50])
    for name in ("indices", "change", "low", "high", "power"):
        assert np.array_equal(getattr(first, name), getattr(other, name))
    assert np.array_equal(first.indices, short.indices)
    np.testing.assert_allclose(first.change, np.abs(np.diff(first.data.values[:50])).mean(), **EXACT)


def test_a_constant_series_is_forecast_as_it_was() -> None:
    """To the bit, or to the rounding of a logarithm and back."""
    for value in (0.0, -3.7, 0.1, 1e9 / 7):
        for logarithms in (False, True):
            found = adjusted(np.full(40, value), logarithms=logarithms)
            forecast = found.inverse(np.array([[[0.3, -0.2, 1.0]]]))
            np.testing.assert_array_max_ulp(forecast, np.full((1, 1, 3), value), maxulp=int(logarithms))
            assert np.ptp(forecast) == 0


def test_a_forecast_of_a_logarithm_stays_within_half_the_range_beyond() -> None:
    values = np.exp(np.linspace(1, 3, 30))
    found = adjusted(values, periods=(), logarithms=True)
    bounds = np.exp([1 - BEYOND * 2, 3 + BEYOND * 2])
    np.testing.assert_allclose(found.inverse(np.array([[[-1e6, 1e6]]]))[0, 0], bounds)


def test_the_season_is_that_of_earlier_rows_where_these_are_more() -> None:
    earlier = data_of(season(60), season(60, 5), starts=[0, 5])
    few = [np.array([3.0, 1, -2]), season(70), np.array([7.0, 7])]
    found = adjusted(*few, starts=[72, 0, 60], earlier=Earlier(earlier, np.array([1, 0, -1])))
    size = 2.0 ** found.power[:, None]
    np.testing.assert_allclose(found.indices[0] * size[0], YEAR, atol=1e-12)
    np.testing.assert_allclose(found.indices[1] * size[1], YEAR, atol=1e-12)  # its own, of more rows
    assert not found.indices[2].any()  # no earlier rows
    np.testing.assert_allclose(found.data.values[:3], 0, atol=1e-12)


def test_earlier_rows_that_are_all_alike_tell_nothing() -> None:
    earlier = Earlier(data_of(np.full(60, 5.0)), np.array([0]))
    assert earlier.lengths.tolist() == [60]
    assert earlier.varies.tolist() == [False]
    assert np.array_equal(adjusted(season(40), earlier=earlier).indices, adjusted(season(40)).indices)


def test_series_that_are_not_there_have_no_earlier_rows() -> None:
    earlier = Earlier(data_of([1.0, 2], [3.0, 4, 5]), np.array([-1, 1]))
    assert earlier.lengths.tolist() == [0, 3]
    assert earlier.varies.tolist() == [False, True]


def test_the_season_of_earlier_rows_is_multiplied_where_logarithms_are_read() -> None:
    earlier = Earlier(data_of(np.exp(season(60) / 10)), np.array([0]))
    found = adjusted([1000.0 * np.exp(0.3)], starts=[60], logarithms=True, earlier=earlier)
    forecast = found.inverse(found.data.values[None, None, :] + np.zeros((1, 1, 12)))[0, 0]
    np.testing.assert_allclose(forecast, 1000 * np.exp(YEAR[(np.arange(12) + 1) % 12] / 10), rtol=1e-9)


def test_series_are_taken_in_the_order_asked_for() -> None:
    found = adjusted(walk(40, 0), np.exp(walk(50, 1) / 9), walk(60, 2), logarithms=True)
    taken = found.take(np.array([2, 1]))
    assert taken.data.lengths.tolist() == [60, 50]
    for name in ("known", "origins", "change", "indices", "logarithms", "low", "high", "power"):
        assert np.array_equal(getattr(taken, name), getattr(found, name)[[2, 1]])


def test_forecasts_may_begin_at_the_known_end() -> None:
    found = adjusted(walk(41, 0), known=np.array([30]), origins=np.array([[32, 40]]))
    assert found.at_known_end().origins.tolist() == [[30]]
    assert found.origins.tolist() == [[32, 40]]
