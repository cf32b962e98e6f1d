"""How much methods count: by what serves all series, and by what served each."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical.mixture import COUNTED, EVIDENCE, FLOOR, evidence, most_likely, prior_of, weights
from titans_ts.statistical.recursion import Smoothed


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


def smoothed(errors: np.ndarray, counts: np.ndarray) -> Smoothed:
    nothing = np.zeros((len(counts), 1, errors.shape[1]))
    return Smoothed(nothing, nothing, errors, counts)


def test_evidence_is_the_logarithm_of_relative_errors_by_origins() -> None:
    found = evidence(smoothed(np.array([[2.0, 4.0], [0.0, 1.0]]), np.array([10, 3])), np.array([2.0, 4.0]))
    expected = -EVIDENCE * np.log([[1 + FLOOR, 2 + FLOOR], [FLOOR, 0.25 + FLOOR]]) * [[10], [3]]
    np.testing.assert_allclose(found, expected)


def test_a_series_without_change_has_no_preference() -> None:
    found = evidence(smoothed(np.zeros((1, 3)), np.array([50])), np.zeros(1))
    assert np.ptp(found) == 0
    assert np.isfinite(found).all()


def test_weights_are_bayes_rule_and_sum_to_1() -> None:
    log_likelihood, prior = noise(6, 4), np.array([0.1, 0.2, 0.3, 0.4])
    found = weights(log_likelihood, prior)
    posterior = np.exp(log_likelihood) * prior
    np.testing.assert_allclose(found, posterior / posterior.sum(1, keepdims=True))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-15)


def test_weights_of_any_likelihoods_are_finite() -> None:
    found = weights(np.array([[-1e5, -1e5 - 3], [1e5, -1e5], [0.0, 0.0]]), np.array([0.5, 0.5]))
    np.testing.assert_allclose(found, [[1 / (1 + np.exp(-3)), 1 / (1 + np.exp(3))], [1, 0], [0.5, 0.5]])


def test_the_prior_finds_the_method_that_serves_all() -> None:
    """A little better in each of many series, which none of them can tell alone."""
    log_likelihood = 0.1 * noise(400, 5)
    log_likelihood[:, 3] += 0.5
    prior = prior_of(log_likelihood)
    assert prior.argmax() == 3
    assert prior[3] > 0.9
    assert prior.sum() == pytest.approx(1)


def test_the_prior_of_series_that_differ_is_their_shares() -> None:
    log_likelihood = np.full((100, 3), -50.0)
    log_likelihood[:70, 0] = log_likelihood[70:, 2] = 0
    expected = (np.array([70, 0, 30]) + COUNTED / 3) / (100 + COUNTED)
    np.testing.assert_allclose(prior_of(log_likelihood), expected)


def test_without_evidence_the_prior_is_even() -> None:
    np.testing.assert_allclose(prior_of(np.zeros((7, 4))), 0.25)


def test_a_short_series_leans_on_the_others_and_a_long_one_on_itself() -> None:
    prior = np.array([0.99, 0.01])
    errors, change = np.array([[2.0, 1.0], [2.0, 1.0]]), np.ones(2)
    short, long = weights(evidence(smoothed(errors, np.array([2, 100])), change), prior)
    assert short[0] > 0.95
    assert long[1] > 0.99


def test_the_fewest_methods_are_kept_that_have_nearly_all() -> None:
    assert most_likely(np.array([0.005, 0.6, 0.004, 0.391])).tolist() == [1, 3]
    assert most_likely(np.array([0.3, 0.3, 0.4])).tolist() == [0, 1, 2]
    assert most_likely(np.array([1.0])).tolist() == [0]


@pytest.mark.parametrize("n_methods", [1, 3, 136])
def test_of_equal_methods_no_more_than_there_are_is_kept(n_methods: int) -> None:
    kept = most_likely(np.full(n_methods, 1 / n_methods))
    assert len(kept) <= n_methods
    assert kept.tolist() == list(range(len(kept)))
    assert len(kept) / n_methods >= 0.98
