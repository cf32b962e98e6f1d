"""Seasonal indices: those of a known season, and none where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical.season import LEAST, seasonal_indices
from titans_ts.tables.clock import LocalClock

from .small_series import data_of

EXACT = dict(rtol=0, atol=1e-12)  # float64; values of size 1 to 100
YEAR = np.array([3.0, 1, -2, -4, 0, 2, 5, 1, -1, -3, -2, 0])


def noise(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=rows)


@pytest.mark.parametrize("rows", [30, 31, 47, 120])
def test_an_exact_season_is_found_beside_a_trend(rows: int) -> None:
    t = np.arange(rows)
    data = data_of(50 + 0.4 * t + YEAR[t % 12])
    np.testing.assert_allclose(seasonal_indices(data, data.lengths, (12,))[0], YEAR, **EXACT)


@pytest.mark.parametrize("period", [2, 3, 4, 5, 7])
def test_periods_may_be_odd_or_even(period: int) -> None:
    t, season = np.arange(6 * period), np.arange(period) ** 2 - np.mean(np.arange(period) ** 2)
    data = data_of(season[t % period] - 0.3 * t)
    np.testing.assert_allclose(seasonal_indices(data, data.lengths, (period,))[0], season, **EXACT)


def test_indices_are_by_time_index_whatever_the_first_row() -> None:
    starts = np.array([0, 5, 31])
    data = data_of(*(YEAR[(start + np.arange(40)) % 12] for start in starts), starts=starts)
    np.testing.assert_allclose(seasonal_indices(data, data.lengths, (12,)), [YEAR] * 3, **EXACT)


def test_indices_follow_local_clocks() -> None:
    """From row 40 on clocks are ahead by one more step."""
    clock, t = LocalClock(np.array([0, 40]), np.array([2, 3])), np.arange(96)
    phase = (t + np.where(t < 40, 2, 3)) % 12
    data = data_of(YEAR[phase], clock=clock)
    found = seasonal_indices(data, data.lengths, (12,))[0]
    assert np.abs(found - YEAR).max() < 0.5  # the moving average is off where clocks change
    assert np.abs(seasonal_indices(data_of(YEAR[phase]), data.lengths, (12,))[0] - YEAR).max() > 1


def test_a_series_of_fewer_than_two_and_a_half_seasons_has_none() -> None:
    t = np.arange(30)
    data = data_of(YEAR[t % 12], YEAR[t[:29] % 12], YEAR[t[:5] % 12])
    assert LEAST * 12 == 30
    found = seasonal_indices(data, data.lengths, (12,))
    np.testing.assert_allclose(found[0], YEAR, **EXACT)
    assert not found[1:].any()


def test_only_the_first_rows_count() -> None:
    """To the bit, and not enough of them is no season."""
    t = np.arange(100)
    values = YEAR[t % 12] + noise(100, 0)
    wild = np.where(t < 60, values, 1e6 * values)
    rows = np.array([60, 29])
    found = seasonal_indices(data_of(wild, wild), rows, (12,))
    alone = data_of(values[:60])
    assert np.array_equal(found[0], seasonal_indices(alone, alone.lengths, (12,))[0])
    assert not found[1].any()


def test_rows_not_observed_do_not_count() -> None:
    """A filled row is in moving averages alone, where it is one of many."""
    t = np.arange(120)
    values = YEAR[t % 12] + 0.0
    values[[40, 41]] = YEAR[t[[40, 41]] % 12] + 6
    observed = np.ones(120, dtype=bool)
    observed[[40, 41]] = False
    rows = np.array([120])
    seen = np.abs(seasonal_indices(data_of(values), rows, (12,))[0] - YEAR).max()
    unseen = np.abs(seasonal_indices(data_of(values, observed=observed), rows, (12,))[0] - YEAR).max()
    assert unseen < 0.3 < seen


def test_a_phase_that_was_never_observed_has_the_mean_of_the_others() -> None:
    t = np.arange(60)
    data = data_of(YEAR[t % 12], observed=t % 12 != 6)
    found = seasonal_indices(data, data.lengths, (12,))[0]
    others = np.delete(YEAR, 6)
    np.testing.assert_allclose(np.delete(found, 6) - np.delete(found, 6).mean(), others - others.mean(), atol=1e-9)
    assert abs(found[6]) < 0.5  # of 5


def test_noise_alone_has_little_season() -> None:
    """A season of noise has a variance of 1 / 5 without shrinkage."""
    data = data_of(*(noise(60, seed) for seed in range(40)))
    found = seasonal_indices(data, data.lengths, (12,))
    assert np.mean(found**2) < 0.06
    assert (~found.any(1)).mean() > 0.3  # none at all


def test_indices_shrink_as_noise_grows() -> None:
    t = np.arange(60)
    sizes = []
    for scale in (0.0, 3.0, 10.0):
        data = data_of(*(YEAR[t % 12] + scale * noise(60, seed) for seed in range(20)))
        found = seasonal_indices(data, data.lengths, (12,))
        sizes.append((found @ YEAR).mean() / (YEAR @ YEAR))
    assert sizes[0] == pytest.approx(1, abs=1e-12)
    assert 0.75 < sizes[1] < 0.99
    assert sizes[2] < 0.6 * sizes[1]


def test_recent_seasons_count_more() -> None:
    t = np.arange(120)
    data = data_of(np.where(t < 60, 0.5, 1.0) * YEAR[t % 12])
    share = seasonal_indices(data, data.lengths, (12,))[0] @ YEAR / (YEAR @ YEAR)
    assert 0.8 < share < 0.95  # alike they would count 0.75


def test_a_day_and_a_week_are_found_together() -> None:
    t = np.arange(24 * 7 * 4)
    day, week = np.sin(2 * np.pi * np.arange(24) / 24), np.where(np.arange(168) < 120, 1.0, -2.5)
    both = day[np.arange(168) % 24] + week
    data = data_of(10 + 0.01 * t + both[t % 168])
    found = seasonal_indices(data, data.lengths, (24, 168))[0]
    assert found.shape == (168,)
    np.testing.assert_allclose(found, both, atol=0.15)  # days' moving averages bend where the week turns


def test_a_series_too_short_for_the_week_has_the_day() -> None:
    t, day = np.arange(24 * 10), np.sin(2 * np.pi * np.arange(24) / 24)
    data = data_of(day[t % 24], day[t[:50] % 24])
    found = seasonal_indices(data, data.lengths, (24, 168))
    np.testing.assert_allclose(found[0], np.tile(day, 7), **EXACT)
    assert not found[1].any()


def test_indices_have_the_mean_0() -> None:
    data = data_of(*(10 + YEAR[np.arange(rows) % 12] + noise(rows, rows) for rows in (30, 50, 77)))
    np.testing.assert_allclose(seasonal_indices(data, data.lengths, (12,)).mean(1), 0, **EXACT)


def test_a_constant_series_has_none() -> None:
    data = data_of(np.full(60, 0.1), np.full(61, 1e9 / 3))
    assert not seasonal_indices(data, data.lengths, (12,)).any()


def test_a_series_has_the_same_indices_whichever_come_before_it() -> None:
    quiet = 1 + 1e-12 * (YEAR[np.arange(60) % 12] + noise(60, 0))
    wild = [np.cumsum(np.abs(noise(500, seed))) for seed in range(10)]
    data, alone = data_of(*wild, quiet), data_of(quiet)
    assert np.array_equal(
        seasonal_indices(data, data.lengths, (12,))[-1], seasonal_indices(alone, alone.lengths, (12,))[0]
    )
