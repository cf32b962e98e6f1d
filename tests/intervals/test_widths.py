"""From errors to intervals: whose errors a series has, how tails grow, and steps past the horizon."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.intervals.widths import (
    GROWTH,
    HALF_LIFE,
    LEAST_OWN,
    MOST_GROWTH,
    Shared,
    Widths,
    age_weights,
    ahead_of_point,
    interpolated,
)

HORIZON = 4


def widths_of(errors: np.ndarray, sizes: np.ndarray, inflation: float = 1.0) -> Widths:
    return Widths(errors, Shared.of(errors, age_weights(errors.shape[1]), sizes), inflation)


def test_a_series_with_errors_enough_has_quantiles_of_its_own() -> None:
    errors = np.random.default_rng(0).normal(size=(3, 60, HORIZON)) * np.array([1.0, 10.0, 1.0])[:, None, None]
    widths, ones = widths_of(errors, np.ones(3)), np.ones(3)
    found = widths.offsets(0.9, np.arange(3), ones, ones)
    assert (found[1] > 5 * found[0]).all()
    assert np.array_equal(found[0], widths.offsets(0.9, np.array([0]), ones[:1], ones[:1])[0])
    assert widths.offsets(0.9, np.array([0]), np.array([7.0]), ones[:1]) == pytest.approx(7 * found[:1])


def test_series_with_few_errors_share_them_over_their_typical_sizes() -> None:
    sizes = np.geomspace(0.01, 100, 500)
    errors = np.random.default_rng(1).normal(size=(500, 1, HORIZON)) * sizes[:, None, None]
    found = widths_of(errors, sizes).offsets(0.9, np.arange(500), np.ones(500), sizes)
    assert found / sizes[:, None] == pytest.approx(np.full((500, HORIZON), 1.2816), rel=0.15)
    unseen = widths_of(errors, sizes).offsets(0.9, np.array([-1]), np.array([np.nan]), np.array([3.0]))
    assert unseen / 3 == pytest.approx(found[:1] / sizes[0])


def test_errors_on_one_side_widen_that_side_alone() -> None:
    errors = np.random.default_rng(2).exponential(size=(1, 150, HORIZON))
    one = np.ones(1)
    low, high = (widths_of(errors, one).offsets(q, np.array([0]), one, one) for q in (0.1, 0.9))
    assert (low > 0).all()
    assert (ahead_of_point(-low, HORIZON, 0.5) == 0).all()
    assert (high > 1.5).all()


def test_less_than_the_errors_of_an_80_percent_interval_are_shared() -> None:
    rng = np.random.default_rng(3)
    errors = rng.normal(size=(2, 30, HORIZON))
    errors[1, : 30 - LEAST_OWN] = np.nan
    ones = np.ones(2)
    shared = widths_of(errors, ones).offsets(0.9, np.full(1, -1), ones[:1], ones[:1])
    assert np.array_equal(widths_of(errors, ones).offsets(0.9, np.array([1]), ones[:1], ones[:1]), shared)
    # weights of nine fall short of nine, ten are enough
    errors[1, -LEAST_OWN - 1] = 0.0
    assert not np.array_equal(widths_of(errors, ones).offsets(0.9, np.array([1]), ones[:1], ones[:1]), shared)


def test_one_origin_of_one_series_gives_students_t_of_the_steps_near_each() -> None:
    errors, one = np.array([[[1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0]]]), np.ones(1)
    found = widths_of(errors, one).offsets(0.9, np.array([0]), one, one)
    assert found == pytest.approx(np.full((1, 8), found[0, 0]), rel=0.3)
    assert 1.6 < found.min() < found.max() < 3.2


def test_quantiles_rise_with_their_level_whatever_else_is_asked() -> None:
    rng = np.random.default_rng(4)
    for origins in (1, 3, 12, 80):
        errors = rng.standard_t(3, size=(2, origins, HORIZON))
        widths, ones = widths_of(errors, np.ones(2)), np.ones(2)
        above = [widths.offsets(q, np.arange(2), ones, ones) for q in np.linspace(0.51, 0.999, 60)]
        above = [ahead_of_point(half, HORIZON, 0.5) for half in above]
        assert (np.diff(above, axis=0) >= -1e-12).all()
        assert np.isfinite(above).all()


def test_errors_in_rows_that_were_learned_from_are_widened() -> None:
    errors, one = np.random.default_rng(5).normal(size=(1, 30, HORIZON)), np.ones(1)
    plain, wide = (widths_of(errors, one, by).offsets(0.1, np.array([0]), one, one) for by in (1.0, 1.5))
    assert wide == pytest.approx(1.5 * plain)


def test_constants_have_no_width() -> None:
    errors = np.random.default_rng(6).normal(size=(2, 5, HORIZON))
    sizes = np.array([1.0, 0.0])
    found = widths_of(errors, sizes).offsets(0.9, np.array([0, -1]), np.ones(2), sizes)
    assert (found[0] > 0).all()
    assert (found[1] == 0).all()


def test_no_error_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no forecast of an observed row is known"):
        widths_of(np.full((2, 3, HORIZON), np.nan), np.ones(2))


def test_past_the_horizon_intervals_widen_from_the_widest() -> None:
    half = np.array([[1.0, 3.0, 2.0, -1.0]])
    found = ahead_of_point(half, 10, 0.5)
    assert found[0, :4].tolist() == [1, 3, 2, 0]
    assert found[0, 4:] == pytest.approx(3 * np.sqrt(np.arange(5, 11) / 4))
    assert ahead_of_point(half, 2, 0.5).tolist() == [[1, 3]]


@pytest.mark.parametrize(
    ("power", "low", "high"), [(0.0, 0.1, 0.15), (0.5, 0.42, 0.58), (3.0, MOST_GROWTH, MOST_GROWTH)]
)
def test_growth_past_the_horizon_is_that_within_it(power: float, low: float, high: float) -> None:
    steps = np.arange(1, 25.0)
    errors = np.random.default_rng(7).normal(size=(20, 50, 24)) * steps**power
    assert low <= Shared.of(errors, np.ones(50), np.ones(20)).growth <= high


def test_growth_past_the_horizon_is_that_of_a_walk_where_no_error_shows_it() -> None:
    assert Shared.of(np.zeros((20, 5, 24)), np.ones(5), np.ones(20)).growth == GROWTH == 0.5


def test_the_newest_error_has_a_weight_of_one_and_one_of_a_half_life_the_half() -> None:
    weights = age_weights(HALF_LIFE + 1)
    assert (weights[-1], weights[0]) == (1, 0.5)


def test_a_quantile_lies_among_the_outputs_of_a_network_and_not_beyond() -> None:
    outputs = np.array([[0.0, 10.0, 30.0]])
    for quantile, expected in ((0.1, 0), (0.3, 5), (0.5, 10), (0.7, 20), (0.01, 0), (0.99, 30)):
        assert interpolated(outputs, (0.1, 0.5, 0.9), quantile) == pytest.approx([expected])
    assert interpolated(outputs[..., :1], None, 0.9).tolist() == [0.0]
