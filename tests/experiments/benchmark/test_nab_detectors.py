"""Errors, scalings and detectors: their values on small series, and that they look at nothing that comes later."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark import nab_detectors
from benchmark.nab_detectors import (
    detectors,
    distances,
    likelihood,
    naive_error,
    quiet,
    rolling_z_score,
    seasonal_naive_error,
    tail,
)

HOUR = np.timedelta64(1, "h")


def times(rows: int, step: np.timedelta64 = HOUR) -> np.ndarray:
    return np.datetime64("2014-04-01", "ns") + np.arange(rows) * step


def noisy(rows: int = 600, seed: int = 0) -> np.ndarray:
    return 1e6 + 50 * np.sin(np.arange(rows) * np.pi / 12) + np.random.default_rng(seed).normal(0, 5, rows)


@pytest.mark.parametrize("name", detectors())
@pytest.mark.parametrize("cut", [1, 9, 10, 25, 300, 599])
def test_scores_are_those_of_the_past_to_the_bit(name: str, cut: int) -> None:
    detector, timestamps, values = detectors()[name], times(600), noisy()
    found = detector(timestamps, values)
    assert found.shape == (600,)
    assert ((found >= 0) & (found <= 1)).all()
    later, others = timestamps.copy(), values.copy()
    later[cut:] += 1000 * HOUR
    others[cut:] = -1e12 * np.random.default_rng(1).random(600 - cut)
    assert (detector(later, others)[:cut] == found[:cut]).all()
    assert (detector(timestamps[:cut], values[:cut]) == found[:cut]).all()


@pytest.mark.parametrize("name", [name for name in detectors() if name != "random"])
def test_a_spike_scores_the_most_of_all_rows(name: str) -> None:
    values = noisy()
    values[450] += 3000
    found = detectors()[name](times(600), values)
    assert 450 <= found[60:].argmax() + 60 <= 450 + (9 if "likelihood" in name else 0)
    assert found[60:].max() > 0.8


@pytest.mark.parametrize("name", [name for name in detectors() if name != "random"])
@pytest.mark.parametrize("rows", [1, 5, 30])
def test_constants_score_nothing(name: str, rows: int) -> None:
    assert detectors()[name](times(rows), np.full(rows, 0.1)).tolist() == [0] * rows


def test_another_error_is_one_entry_more() -> None:
    found = detectors(
        nab_detectors.ERRORS | {"core error": lambda timestamps, values: np.arange(len(values), dtype=float)}
    )
    assert set(found) - set(detectors()) == {"core error: tail", "core error: likelihood", "core error: tail, quiet"}
    assert found["core error: tail"](times(30), np.zeros(30))[29] > 0.5


def test_random_scores_differ_by_file_and_are_the_same_again() -> None:
    first, again, other = (nab_detectors.random(times(5), np.full(5, value)) for value in (1.0, 1.0, 2.0))
    assert first.tolist() == again.tolist()
    assert (first != other).all()


def test_a_distance_is_from_the_mean_of_the_rows_before_in_their_standard_deviations() -> None:
    values = noisy(200)
    found = distances(values, 50)
    assert found[:10].tolist() == [0] * 10
    for row in (10, 60, 199):
        before = values[max(0, row - 50) : row]
        assert found[row] == pytest.approx((values[row] - before.mean()) / before.std(), rel=1e-6)  # sums of squares


def test_rows_without_a_value_are_left_out() -> None:
    values = noisy(100)
    holes = values.repeat(2)
    holes[1::2] = np.nan
    found = distances(holes, 100)
    assert found[::2] == pytest.approx(distances(values, 50), abs=1e-9)
    assert found[1::2].tolist() == [0] * 100
    assert distances(np.full(20, np.nan)).tolist() == [0] * 20


def test_a_constant_that_changes_is_a_thousand_away() -> None:
    assert distances(np.array([7.0] * 20 + [8.0]))[20] == pytest.approx(1000)
    assert rolling_z_score(times(21), np.array([7.0] * 20 + [6.0]))[20] == pytest.approx(1000 / 1001)


def test_the_tail_is_one_sided() -> None:
    errors = np.array([1.0, 3.0] * 10)
    assert tail(np.append(errors, 5.0))[20] == pytest.approx(3 / 4)  # mean 2, standard deviation 1
    assert tail(np.append(errors, 1.5))[20] == 0


def test_the_likelihood_is_of_short_means_against_their_own_history() -> None:
    errors = np.random.default_rng(0).random(100)
    errors[:3] = np.nan
    means = [np.nan if row < 3 else np.nanmean(errors[max(0, row - 4) : row + 1]) for row in range(100)]
    assert likelihood(errors, short=5, long=40) == pytest.approx(
        np.maximum(0, distances(np.array(means), 40)) / (1 + np.maximum(0, distances(np.array(means), 40)))
    )
    assert likelihood(errors, short=1) == pytest.approx(tail(errors))


def test_after_a_score_as_much_is_silent_for_a_while() -> None:
    scores = np.array([0.2, 0.2, 0.5, 0.4, 0.6, 0.1, 0.1, 0.3, 0.0])
    assert quiet(scores, 3).tolist() == [0.2, 0, 0.5, 0, 0.6, 0, 0, 0, 0]
    assert quiet(scores, 2).tolist() == [0.2, 0, 0.5, 0, 0.6, 0, 0, 0.3, 0]
    assert quiet(scores).tolist() == [0.2, 0, 0.5, 0, 0.6, 0, 0, 0, 0]


def test_a_naive_error_is_the_change_from_the_row_before() -> None:
    assert naive_error(times(4), np.array([1.0, 3.0, 2.0, 2.0])).tolist() == pytest.approx(
        [np.nan, 2, 1, 0], nan_ok=True
    )


@pytest.mark.parametrize("minutes", [5, 30, 60])
def test_a_seasonal_naive_error_is_the_change_from_the_day_before_at_any_step(minutes: int) -> None:
    day = 24 * 60 // minutes
    values = noisy(2 * day + 5)
    found = seasonal_naive_error(times(len(values), np.timedelta64(minutes, "m")), values)
    assert np.isnan(found[:day]).all()
    assert found[day:].tolist() == np.abs(values[day:] - values[:-day]).tolist()


def test_across_gaps_and_clocks_set_back_the_last_value_a_day_old_is_compared() -> None:
    hours = np.array([0, 1, 2, 3, 23, 24.5, 25, 26, 25, 26, 27])  # hours 25 and 26 come twice
    values = 2.0 ** np.arange(11)
    found = seasonal_naive_error(
        np.datetime64("2014-11-01", "ns") + (hours * 60).astype(int) * np.timedelta64(1, "m"), values
    )
    before = [0, 1, 2, 2, 2, 3]  # of the rows from 24.5 on
    assert np.isnan(found[:5]).all()
    assert found[5:].tolist() == (values[5:] - values[before]).tolist()
