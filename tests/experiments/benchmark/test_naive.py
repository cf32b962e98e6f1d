"""The competitions' naive forecasts: by hand, and against the published scores of M4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmark.competitions import Series
from benchmark.naive import is_seasonal, naive2, seasonal_indices, seasonal_naive
from titans_ts.datasets import load_competition

SEASON = np.array([0.5, 1.0, 1.5, 1.0])


def test_the_last_season_is_repeated() -> None:
    assert seasonal_naive(np.arange(10.0), 6, 4).tolist() == [6, 7, 8, 9, 6, 7]
    assert seasonal_naive(np.arange(10.0), 3, 1).tolist() == [9, 9, 9]
    assert seasonal_naive(np.arange(3.0), 3, 4).tolist() == [2, 2, 2], "shorter than a season"


@pytest.mark.parametrize("rows", [16, 17, 18, 19])
def test_indices_are_ratios_to_the_moving_average_by_phase(rows: int) -> None:
    past = 100 * np.resize(SEASON, rows)
    np.testing.assert_allclose(seasonal_indices(past, 4), SEASON, rtol=1e-12)
    np.testing.assert_allclose(seasonal_indices(10 * np.resize([1.0, 2.0, 3.0], rows), 3), [0.5, 1, 1.5], rtol=1e-12)


@pytest.mark.parametrize("rows", [40, 41])
def test_a_season_is_taken_out_and_put_back(rows: int) -> None:
    past = 100 * np.resize(SEASON, rows)
    np.testing.assert_allclose(naive2(past, 5, 4), 100 * SEASON[(rows + np.arange(5)) % 4], rtol=1e-12)
    past[-1] *= 1.2  # the last value alone tells the level, but for its small part in the indices
    np.testing.assert_allclose(naive2(past, 5, 4), 120 * SEASON[(rows + np.arange(5)) % 4], rtol=0.03)


def test_without_a_season_the_last_value_is_repeated() -> None:
    noise = np.random.default_rng(0).normal(10, 1, 40)
    assert not is_seasonal(noise, 4)
    assert naive2(noise, 3, 4).tolist() == [noise[-1]] * 3
    assert naive2(100 * np.resize(SEASON, 16), 2, 1).tolist() == [100, 100]


def test_the_limit_of_a_season_counts_the_shorter_lags() -> None:
    past = np.resize(SEASON, 16)
    assert is_seasonal(past, 4)
    assert not is_seasonal(past[:11], 4), "shorter than three seasons"
    assert not is_seasonal(np.ones(16), 4)
    # Its autocorrelations are 0, -5/6, 0 and 2/3: over 1.645 / sqrt(12), not over 1.645 sqrt((1 + 2 * 25/36) / 12).
    assert not is_seasonal(np.resize([1.0, 0, -1, 0], 12), 4)
    # Of 20 values 0, -9/10, 0 and 4/5: over 1.645 sqrt((1 + 2 * .81) / 20) = .595.
    assert is_seasonal(np.resize([1.0, 0, -1, 0], 20), 4)


@pytest.mark.data
@pytest.mark.parametrize("name", ["M4 hourly", "M4 yearly"])
@pytest.mark.parametrize(("method", "published"), [(naive2, "Naive2"), (seasonal_naive, "sNaive")])
def test_scores_on_m4_are_the_published_ones(name: str, method: object, published: str, data_folder: Path) -> None:
    competition = load_competition(name, root=data_folder)
    series = Series.of(competition)
    found = series.score(np.stack([method(x, competition.horizon, competition.season) for x in series.past]))
    assert competition.published is not None
    expected = competition.published.set_index("method").loc[published]
    assert found == pytest.approx(tuple(expected), abs=5e-4)  # as many digits are published
