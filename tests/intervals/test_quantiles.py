"""Quantiles of errors: the finite-sample rank, weights, and what stands for a rank that is not there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from titans_ts.intervals.quantiles import ErrorQuantiles, extended_upper, student_upper


def of(errors: np.ndarray, weights: np.ndarray | None = None) -> ErrorQuantiles:
    """Of one step of one series."""
    return ErrorQuantiles.of(errors[None, :, None], np.ones(len(errors)) if weights is None else weights)


def at(quantiles: ErrorQuantiles, level: float) -> float:
    return float(quantiles.upper(np.array([[level]]))[0, 0])


@pytest.mark.parametrize("n", [1, 9, 19, 20, 99])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_the_rank_is_that_of_split_conformal_prediction_and_between_two_ranks_a_line(n: int, level: float) -> None:
    errors = np.sort(np.random.default_rng(n).normal(size=n))
    rank = round(level * (n + 1), 9)
    expected = np.interp(rank, np.arange(1, n + 1), errors) if rank <= n else np.inf
    assert at(of(errors), level) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "level"), [(9, 0.9), (39, 0.975), (20, 0.8), (43, 0.9)])
def test_the_error_to_come_is_below_it_as_often_as_was_asked(n: int, level: float) -> None:
    errors = np.random.default_rng(0).exponential(size=(4000, n + 1, 1))
    quantiles = ErrorQuantiles.of(errors[:, :-1], np.ones(n))
    share = (errors[:, -1] <= quantiles.upper(np.full((4000, 1), level))).mean()
    assert share == pytest.approx(level, abs=0.015)  # three standard deviations


def test_errors_that_are_not_there_count_for_nothing() -> None:
    errors = np.random.default_rng(1).normal(size=15)
    gaps = np.insert(errors, [0, 4, 4, 15], np.nan)
    assert at(of(gaps), 0.9) == at(of(errors), 0.9)
    assert at(of(np.full(3, np.nan)), 0.5) == np.inf


def test_a_weight_of_two_counts_as_two_errors() -> None:
    errors = np.array([3.0, 1.0, 2.0, 5.0])
    weights = np.array([2.0, 1.0, 1.0, 1.0])
    for level in (0.3, 0.5, 0.6, 0.8):
        assert at(of(errors, weights), level) == pytest.approx(at(of(np.array([3.0, 3.0, 1.0, 2.0, 5.0])), level))


def test_many_levels_of_one_series_are_each_as_alone() -> None:
    quantiles = ErrorQuantiles.of(np.random.default_rng(2).normal(size=(1, 30, 3)), np.ones(30))
    levels = np.array([[0.5, 0.6, 0.7], [0.9, 0.8, 0.95]])
    found = quantiles.upper(levels)
    for i in range(2):
        assert np.array_equal(found[i], quantiles.upper(levels[i : i + 1])[0])


def test_students_t_is_as_wide_as_few_errors_ask_for() -> None:
    found = student_upper(np.array([2.0, 2.0]), np.array([3.0, 0.2]))(np.array([[0.975, 0.9]]))
    assert found[0] == pytest.approx([2 * student.ppf(0.975, 3), 2 * student.ppf(0.9, 1)])


def test_beyond_its_ranks_a_quantile_grows_as_the_tail_does_and_always_rises() -> None:
    errors = np.random.default_rng(3).normal(size=9)
    tail = student_upper(np.ones(1), np.full(1, 5.0))
    upper = extended_upper(of(errors), tail)
    assert upper(np.array([[0.9]]))[0, 0] == errors.max()
    grown = upper(np.array([[0.975]]))[0, 0] / errors.max()
    assert grown == pytest.approx(student.ppf(0.975, 5) / student.ppf(0.9, 5))
    levels = np.linspace(0.5, 0.999, 200)
    found = [upper(np.array([[level]]))[0, 0] for level in levels]
    assert (np.diff(found) >= 0).all()
