"""The intervals of differences between rows, on errors whose mean difference is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from benchmark.bootstrap import paired_interval


def related(generator: np.random.Generator, n: int, decay: float) -> np.ndarray:
    """An autoregression of mean 0 and variance 1."""
    noise = generator.normal(size=n + 200) * np.sqrt(1 - decay**2)
    return lfilter([1], [1, -decay], noise)[200:]


def covered(day: int, horizon: int, decay: float) -> float:
    """How often the interval holds the true mean, .1, in 200 streams of 200 days of 24 origins."""
    generator, found = np.random.default_rng(1), 0
    for _ in range(200):
        others = generator.normal(size=4800)
        errors = others + 0.1 + related(generator, 4800, decay)
        interval = paired_interval(errors, others, day=day, horizon=horizon, samples=400)
        found += interval.low <= 0.1 <= interval.high
    return found / 200


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    assert 0.9 <= covered(24, 6, 0.0) <= 0.99
    assert 0.88 <= covered(24, 96, 0.97) <= 0.99, "errors are related over a day and more"


def test_without_blocks_the_interval_would_be_too_narrow() -> None:
    assert covered(1, 1, 0.97) < 0.5


def test_the_difference_is_of_pairs_and_channels_count_alike() -> None:
    generator = np.random.default_rng(0)
    others = generator.gamma(2.0, size=(50, 3)).astype(np.float32)
    interval = paired_interval(others + np.float32([0.0, 0.5, 1.0]), others, day=4, horizon=9)
    assert interval == pytest.approx((0.5, 0.5, 0.5), abs=1e-6)


def test_the_mean_is_of_origins_where_the_last_day_is_short() -> None:
    errors = np.zeros(9)
    errors[8] = 9.0
    interval = paired_interval(errors, np.zeros(9), day=4, horizon=1)
    assert interval.mean == pytest.approx(1.0)
    assert interval.low < 0.0, "three days are few"


def test_the_same_seed_gives_the_same_interval() -> None:
    errors, others = np.random.default_rng(0).normal(size=(2, 500))
    first = paired_interval(errors, others, day=10, horizon=20)
    assert paired_interval(errors, others, day=10, horizon=20) == first
    assert paired_interval(errors, others, day=10, horizon=20, seed=1) != first


def test_too_few_days_and_unequal_shapes_are_told() -> None:
    with pytest.raises(ValueError, match="two blocks of 3 days or more, got 5 days"):
        paired_interval(np.zeros(50), np.zeros(50), day=10, horizon=21)
    with pytest.raises(ValueError, match="`others` must have the shape of `errors`"):
        paired_interval(np.zeros(50), np.zeros(49), day=10, horizon=1)
