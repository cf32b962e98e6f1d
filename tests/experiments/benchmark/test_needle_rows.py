"""Rows of the needle task: what knows the shape, what cannot, and the long-term memory that was shown it once."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark import needle_rows
from benchmark.needle_data import NOISE, needle
from benchmark.needle_rows import errors, long_term, season_alone, shape_known, window, without_recall

TRAIN = 1600


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needle_rows, "LOOKBACK", 48)
    monkeypatch.setattr(needle_rows, "VALIDATION", 400)


def test_floors_are_the_noise_and_the_power_of_a_shape() -> None:
    stream = needle(0, 200, 1, 8, TRAIN)
    known, ordinary = errors(shape_known(0, stream.values), stream)
    assert known == pytest.approx(NOISE**2, rel=0.15)
    assert ordinary == pytest.approx(NOISE**2, rel=0.15)
    unknown, same = errors(season_alone(0, stream.values), stream)
    assert unknown == pytest.approx(4 + NOISE**2, rel=0.15)
    assert same == pytest.approx(ordinary)


def test_a_memory_that_recalls_beats_those_that_cannot() -> None:
    stream = needle(0, 400, 1, 3, TRAIN)
    train = stream.values[:, :TRAIN]
    found = {fit: errors(fit(0, train), stream) for fit in (long_term, without_recall)}
    closed = errors(window(48)(0, train), stream)
    assert found[long_term][0] < 0.25 * closed[0]
    assert found[without_recall][0] > 0.8 * closed[0]
    assert found[long_term][1] < 1.1 * closed[1]
    assert np.isfinite(list(found.values())).all()
