"""Sums that begin anew in each series."""

from __future__ import annotations

import numpy as np

from titans_ts.statistical.sums import running_sums

from .small_series import data_of


def test_sums_are_those_of_each_series_alone() -> None:
    data = data_of([1, 2, 3], [10], [4, -4, 0.5])
    assert running_sums(data.values, data).tolist() == [1, 3, 6, 10, 4, 0, 0.5]


def test_large_values_leave_no_rounding_in_the_series_after_them() -> None:
    small = np.random.default_rng(0).normal(size=50) * 1e-9
    data = data_of(np.full(10, 1e12 / 3), small)
    assert np.array_equal(running_sums(data.values, data)[10:], np.cumsum(small))


def test_whole_numbers_are_summed_as_floats() -> None:
    data = data_of([1, 2])
    assert running_sums(np.array([1, 2]), data).dtype == np.float64
