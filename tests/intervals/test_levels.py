"""Levels and quantiles: what is asked for, its columns, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from titans_ts.intervals.levels import Asked


def test_nothing_asked_for_is_none() -> None:
    assert Asked.of(None, None) is None


def test_levels_are_columns_from_the_lowest_quantile_to_the_highest_each_once() -> None:
    asked = Asked.of([80, np.int64(95), 80.0, 97.5], None)
    assert asked is not None
    assert asked.quantiles == (0.0125, 0.025, 0.1, 0.9, 0.975, 0.9875)
    names = ("lo-97.5", "lo-95", "lo-80", "hi-80", "hi-95", "hi-97.5")
    assert asked.columns == ("Titans", *(f"Titans-{name}" for name in names))


@pytest.mark.parametrize("level", [1, 33, 50, 80, 90, 95, 99, 99.9, 100 / 3])
def test_a_level_is_a_pair_of_quantiles(level: float) -> None:
    asked, pair = Asked.of(level, None), Asked.of(None, [0.5 - level / 200, 0.5 + level / 200])
    assert asked is not None
    assert pair is not None
    assert asked.quantiles == pair.quantiles


def test_quantiles_rise_and_are_named_as_they_are_written() -> None:
    asked = Asked.of(None, (0.9, 0.05, 0.9, np.float64(0.5)))
    assert asked == Asked((0.05, 0.5, 0.9), ("Titans", "Titans-q0.05", "Titans-q0.5", "Titans-q0.9"))


@pytest.mark.parametrize(
    "wrong", [0, 100, -5, 120, "80", True, None, np.nan, [80, "95"], [[80]], [0.0], np.timedelta64(80, "h")]
)
def test_a_level_out_of_its_range_is_refused(wrong: Any) -> None:
    if wrong is None:
        wrong = [None]
    with pytest.raises(ValueError, match="`level` must have numbers between 0 and 100, got"):
        Asked.of(wrong, None)


def test_a_level_that_seems_to_be_a_share_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"`level` is in per cent, got 0\.8; pass 80"):
        Asked.of([95, 0.8], None)
    with pytest.raises(ValueError, match=r"`level` is in per cent, got Fraction\(1, 2\); pass 50"):
        Asked.of(Fraction(1, 2), None)


@pytest.mark.parametrize("wrong", [0, 1, 80, -0.1, "0.1", [0.1, True]])
def test_a_quantile_out_of_its_range_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="`quantiles` must have numbers between 0 and 1, got"):
        Asked.of(None, wrong)


def test_both_at_once_and_none_of_either_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must not both be given.*Pass one: level=80 is quantiles=\[0.1, 0.9\]"):
        Asked.of(80, [0.1])
    with pytest.raises(ValueError, match="`level` must have a number or more"):
        Asked.of([], None)
