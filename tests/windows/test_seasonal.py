"""Seasonal profiles, counted by hand."""

from __future__ import annotations

import numpy as np

from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.seasonal import seasonal_profiles


def test_profiles_are_the_mean_of_each_phase() -> None:
    values = np.array([1.0, 2.0, 3.0, 5.0, 6.0, 99.0, 10.0, 20.0, 99.0])
    data = SeriesData(values, np.array([6, 3]), starts=np.array([7, -1]))
    found = seasonal_profiles(data, rows=np.array([5, 2]), period=3)
    # Series 0 begins at phase 1: 1, 2, 0, 1, 2; series 1 at phase 2: 2, 0, and never at 1.
    assert found.tolist() == [[3, (1 + 5) / 2, (2 + 6) / 2], [20, 0, 10]]


def test_a_series_minus_its_own_profile_has_no_season_left() -> None:
    shape = np.random.default_rng(0).normal(size=(2, 7))
    lengths, starts = np.array([70, 35]), np.array([3, 5])
    phases = [(start + np.arange(n)) % 7 for start, n in zip(starts, lengths, strict=True)]
    values = np.concatenate([shape[i, phase] for i, phase in enumerate(phases)])
    found = seasonal_profiles(SeriesData(values, lengths, starts), lengths, 7)
    np.testing.assert_allclose(found, shape, atol=1e-14)  # means of 10 values


def test_what_was_filled_makes_no_profile() -> None:
    values = np.array([1.0, 3.0, 99.0, 5.0, -2.0, 99.0, 2.0])
    data = SeriesData(values, np.array([4, 3]), np.array([0, 0]), observed=values != 99)
    assert seasonal_profiles(data, data.lengths, 2).tolist() == [[1, 4], [0, 0]]
