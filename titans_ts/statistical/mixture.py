"""How much each method counts in the forecast of each series: by its own past errors, and by those of all series.

Source: the prior is found by expectation-maximisation from all series, as in empirical Bayes (Robbins, 1956; Laird,
1978), so that a short series leans on what serves the others and a long one on itself.
"""

from __future__ import annotations

import numpy as np

from .recursion import Smoothed

EVIDENCE = 0.4  # how much an origin tells; below 1, because errors of neighbouring ones are alike
FLOOR = 0.05  # added to errors, in mean one-step changes: a method that makes none is not infinitely good
ROUNDS = 10
COUNTED = 10.0  # series that a prior of equal weights counts as
KEPT = 0.99  # of the prior, that the methods kept have together


def evidence(smoothed: Smoothed, change: np.ndarray) -> np.ndarray:
    """The logarithm of each method's likelihood in each series, up to a number of the series: (n_series, n_methods).

    `change` (n_series,) is the mean one-step change of each series.
    """
    relative = smoothed.errors / np.where(change > 0, change, 1)[:, None]
    found: np.ndarray = -EVIDENCE * smoothed.counts[:, None] * np.log(relative + FLOOR)
    return found


def weights(log_likelihood: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """How much each method counts in each series: (n_series, n_methods), the sum of each series' 1.

    `log_likelihood` (n_series, n_methods) is that of `evidence`, `prior` (n_methods,) how much methods are expected to
    count.
    """
    log_weight = log_likelihood + np.log(prior)
    weight = np.exp(log_weight - log_weight.max(1, keepdims=True))
    normalised: np.ndarray = weight / weight.sum(1, keepdims=True)
    return normalised


def prior_of(log_likelihood: np.ndarray) -> np.ndarray:
    """The share of series that each method serves, (n_methods,), from `evidence` (n_series, n_methods)."""
    n_series, n_methods = log_likelihood.shape
    prior = np.full(n_methods, 1 / n_methods)
    for _ in range(ROUNDS):
        counted = weights(log_likelihood, prior).sum(0)
        prior = (counted + COUNTED / n_methods) / (n_series + COUNTED)
    return prior


def most_likely(prior: np.ndarray) -> np.ndarray:
    """The numbers of the fewest methods that have nearly all of the prior (n_methods,) together, in rising order."""
    order = np.argsort(-prior, kind="stable")
    return np.sort(order[: int(np.searchsorted(np.cumsum(prior[order]), KEPT)) + 1])
