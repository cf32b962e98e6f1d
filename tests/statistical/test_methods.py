"""The grid of exponential smoothing."""

from __future__ import annotations

import numpy as np

from titans_ts.statistical.methods import DAMPINGS, LEVELS, SHARES, TRENDS, Methods, damped_trends, lines

FIELDS = ("level", "trend", "damping", "share")


def rows_of(methods: Methods) -> set[tuple[float, ...]]:
    return {tuple(float(getattr(methods, name)[i]) for name in FIELDS) for i in range(len(methods))}


def test_slopes_are_sums_of_powers_of_the_damping() -> None:
    methods = Methods.grid((0.5,), (0.1,), (0.3, 0.8, 0.97, 1.0), (0.0,))
    ahead = np.array([1, 2, 5, 18, 100])
    expected = [[sum(damping**k for k in range(1, a + 1)) for a in ahead] for damping in methods.damping]
    np.testing.assert_allclose(methods.slopes(ahead), expected, rtol=1e-13)


def test_slopes_far_ahead_are_bounded_where_a_trend_is_damped() -> None:
    methods = Methods.grid((0.5,), (0.1,), (0.9, 1.0), (0.0,))
    np.testing.assert_allclose(methods.slopes(np.array([10**6]))[:, 0], [9.0, 1e6], rtol=1e-12)


def test_a_grid_has_every_combination_once() -> None:
    grid = Methods.grid((0.1, 0.2), (0.0,), (0.8, 0.9, 1.0), (0.0, 1.0))
    expected = {(a, 0.0, d, s) for a in (0.1, 0.2) for d in (0.8, 0.9, 1.0) for s in (0.0, 1.0)}
    assert len(grid) == len(expected) == 12
    assert rows_of(grid) == expected


def test_methods_are_taken_in_the_order_asked_for() -> None:
    taken = damped_trends().take(np.array([20, 3]))
    assert len(taken) == 2
    for name in FIELDS:
        assert np.array_equal(getattr(taken, name), getattr(damped_trends(), name)[[20, 3]])


def test_damped_trends_have_simple_smoothing_at_every_level_and_no_line() -> None:
    found = rows_of(damped_trends())
    assert len(found) == len(damped_trends()) == len(LEVELS) * (1 + len(TRENDS) * len(DAMPINGS))
    assert {(level, 0.0, 1.0, 0.0) for level in LEVELS} < found
    assert not damped_trends().share.any()


def test_lines_have_no_trend_of_their_own() -> None:
    assert rows_of(lines()) == {(level, 0.0, 1.0, share) for level in LEVELS for share in SHARES}
    assert not lines().trend.any()
