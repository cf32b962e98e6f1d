"""Surprise and the core's error as detectors, and that they look at nothing later than the probation part."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.nab_forecasts import CONTEXTS, LARGEST, own_detectors, plain, surprise
from benchmark.nab_score import probation

HOUR = np.timedelta64(1, "h")
TIMES = np.datetime64("2014-04-01", "ns") + np.arange(1000) * HOUR


def noisy(seed: int = 0) -> np.ndarray:
    return 1e3 + 50 * np.sin(np.arange(1000) * np.pi / 12) + np.random.default_rng(seed).normal(0, 5, 1000)


def test_there_are_both_errors_as_they_are_and_by_each_scaling() -> None:
    scalings = ("", ": quiet", ": tail", ": likelihood", ": tail, quiet")
    assert list(own_detectors()) == [name + scaling for name in ("surprise", "core error") for scaling in scalings]


@pytest.mark.parametrize("name", CONTEXTS)
def test_scores_after_the_probation_part_are_those_of_the_past_to_the_bit(name: str) -> None:
    detector, values, cut = own_detectors()[name], noisy(), 600
    found = detector(TIMES, values)
    assert ((found >= 0) & (found < 1)).all()
    assert found[probation(1000) :].min() > 0
    values[cut:] = 1e6 * np.random.default_rng(1).random(1000 - cut)
    assert (detector(TIMES, values)[:cut] == found[:cut]).all()


@pytest.mark.parametrize("name", own_detectors())
def test_a_spike_scores_the_most_of_the_rows_that_count(name: str) -> None:
    values = noisy()
    values[700] += 300
    found = own_detectors()[name](TIMES, values)[probation(1000) :]
    assert 700 <= found.argmax() + probation(1000) <= 700 + (9 if "likelihood" in name else 0)


def test_a_constant_that_changes_is_as_far_as_the_largest() -> None:
    values = np.full(1000, 3.0)
    values[800] = 4
    found = surprise(TIMES, values)
    assert found[800] == LARGEST
    assert np.nanmax(found[:800]) == 0


def test_a_plain_score_is_a_half_at_the_usual_size_and_nothing_where_there_is_none() -> None:
    assert plain(np.array([np.nan, 0.0, 1.0, 3.0])).tolist() == [0, 0, 0.5, 0.75]


def test_a_short_file_has_no_season() -> None:
    half_hours = np.datetime64("2014-04-01", "ns") + np.arange(500) * np.timedelta64(30, "m")
    values = noisy()[:500]  # 75 rows of probation, under two days
    assert np.isfinite(surprise(half_hours, values)[75:]).all()
