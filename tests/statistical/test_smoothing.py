"""Exponential smoothing of many series: the mean of two families, each a mean of its methods."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical import smoothing
from titans_ts.statistical.adjusted import AdjustedSeries
from titans_ts.statistical.smoothing import FAMILIES, Smoothing

from .small_series import added, as_it_is, smooth_by_row, walk

SERIES = [walk(rows, seed) for seed, rows in enumerate([60, 45, 45, 30, 12, 5, 3, 2, 1])]


def forecast(series: AdjustedSeries, steps: int, horizon: int = 6) -> np.ndarray:
    return series.inverse(Smoothing.fit(series, horizon).forecast(series, steps))


@pytest.mark.parametrize(
    ("horizon", "scored"),
    [(1, [1]), (2, [1, 2]), (6, [1, 2, 3, 4, 6]), (18, [1, 2, 3, 6, 9, 12, 18]), (48, [1, 2, 3, 16, 24, 32, 48])],
)
def test_steps_scored_are_the_first_and_some_up_to_the_horizon(horizon: int, scored: list[int]) -> None:
    assert Smoothing.fit(as_it_is(*SERIES), horizon).scored.tolist() == scored


def test_a_forecast_is_the_mean_of_families_of_weighted_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights that are the prior alone, against smoothing a row at a time."""
    series = as_it_is(*SERIES)
    model = Smoothing.fit(series, 6)
    monkeypatch.setattr(smoothing, "weights", lambda evidence, prior: np.tile(prior, (len(evidence), 1)))
    found = model.forecast(series, 8)
    expected = np.zeros((len(SERIES), 8))
    for family in model.families:
        m = family.methods
        for i, prior in enumerate(family.prior):
            for s in range(len(SERIES)):
                values = series.data.values[series.data.rows_of(s)]
                level, trend = smooth_by_row(values, m.level[i], m.trend[i], m.damping[i], m.share[i])[-1]
                steps = [level + added(trend, m.damping[i], ahead) for ahead in range(1, 9)]
                expected[s] += prior * np.array(steps) / FAMILIES
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9, atol=1e-12)


def test_priors_sum_to_1_over_the_methods_kept() -> None:
    model = Smoothing.fit(as_it_is(*SERIES), 6)
    assert len(model.families) == FAMILIES
    for family in model.families:
        assert family.prior.sum() == pytest.approx(1)
        assert len(family.prior) == len(family.methods) > 1


@pytest.mark.parametrize("states", [1, 300, 2**16])
def test_how_many_series_are_smoothed_at_once_changes_nothing(states: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = forecast(as_it_is(*SERIES), 6)
    monkeypatch.setattr(smoothing, "MOST_STATES", states)
    np.testing.assert_allclose(forecast(as_it_is(*SERIES), 6), expected, rtol=1e-11)


def test_the_order_of_series_changes_nothing() -> None:
    order = np.random.default_rng(0).permutation(len(SERIES))
    found = forecast(as_it_is(*(SERIES[i] for i in order)), 6)
    np.testing.assert_allclose(found, forecast(as_it_is(*SERIES), 6)[order], rtol=1e-11)


def test_lines_are_continued() -> None:
    t = np.arange(40)
    found = forecast(as_it_is(3 + 0.5 * t, 1000 - 7.0 * t, 0.1 * t + 1), 6)[:, 0]
    ahead = np.arange(40, 46)
    np.testing.assert_allclose(found, [3 + 0.5 * ahead, 1000 - 7.0 * ahead, 0.1 * ahead + 1], rtol=0.01)


def test_noise_is_forecast_by_its_mean() -> None:
    noise = [np.random.default_rng(seed).normal(50, 1, size=100) for seed in range(10)]
    found = forecast(as_it_is(*noise), 6)[:, 0]
    np.testing.assert_allclose(found, 50, atol=0.6)
    assert np.abs(found - 50).mean() < 0.25


def test_a_walk_is_forecast_near_its_last_value() -> None:
    walks = [walk(100, seed, drift=0) for seed in range(10)]
    found = forecast(as_it_is(*walks), 1)[:, 0, 0]
    assert np.abs(found - [values[-1] for values in walks]).mean() < 0.4  # of steps of size 1


def test_a_long_series_of_another_kind_is_forecast_as_its_kind() -> None:
    """Among series of noise a line is continued from 60 rows, though the prior is that of noise."""
    noise = [np.random.default_rng(seed).normal(size=60) for seed in range(30)]
    line = 2.0 * np.arange(60)
    assert forecast(as_it_is(*noise, line), 6)[-1, 0] == pytest.approx(2.0 * np.arange(60, 66), rel=0.01)


def test_what_comes_after_changes_nothing() -> None:
    """To the bit: later rows of the same power of two."""
    series = [values / 64 for values in SERIES[:3]]
    known, origins = np.array([50, 40, 30]), np.array([[50, 55], [40, 41], [30, 40]])

    def found(last: float) -> np.ndarray:
        rows = [np.where(np.arange(len(v)) < seen, v, last) for v, seen in zip(series, origins[:, 1], strict=True)]
        adjusted = as_it_is(*(np.append(v, 1.0) for v in rows), known=known, origins=origins)
        return Smoothing.fit(adjusted, 6).forecast(adjusted, 6)

    assert np.array_equal(found(0.0), found(-0.9))


def test_a_constant_series_is_constant() -> None:
    found = forecast(as_it_is(np.full(30, 0.1), *SERIES), 9)
    assert (found[0] == 0.1).all()


def test_some_series_give_the_prior_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "MOST_SERIES", 3)
    some = Smoothing.fit(as_it_is(*SERIES), 6)
    monkeypatch.undo()
    for found, expected in zip(some.families, Smoothing.fit(as_it_is(*SERIES[::3]), 6).families, strict=True):
        assert np.array_equal(found.prior, expected.prior)
