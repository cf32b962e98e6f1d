"""What fixes a long-term memory, and what does not fit."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from titans_ts.model.long_term_config import LongTermConfig


def config_with(**given: Any) -> LongTermConfig:
    return LongTermConfig(**(dict(lookback=8, horizon=6, n_series=3, cycle=4) | given))


def test_a_season_counts_rates_and_chunks() -> None:
    assert [config_with(cycle=cycle).season for cycle in (0, 1, 2, 96)] == [24, 24, 2, 96]
    assert [config_with(cycle=cycle).chunk_size for cycle in (0, 2, 4, 96, 1000)] == [6, 1, 1, 24, 32]
    assert config_with().blocks == ((0, 6),)
    assert config_with(block_ends=(1, 4, 6)).blocks == ((0, 1), (1, 4), (4, 6))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(block_ends=(2, 5)), "`block_ends` must rise to the horizon, 6, got (2, 5)."),
        (dict(block_ends=(3, 3, 6)), "`block_ends` must rise to the horizon, 6, got (3, 3, 6)."),
        (dict(block_ends=(0, 6)), "`block_ends` must rise to the horizon, 6, got (0, 6)."),
        (dict(depth=0), "`depth` must be 1 or more, got 0."),
        (dict(momentum=1.0), "`momentum` must be in [0, 1), got 1.0."),
        (dict(momentum=-0.1), "`momentum` must be in [0, 1), got -0.1."),
        (dict(rates=()), "`rates` and `forgetting` must have numbers of 0 or more."),
        (dict(rates=(-1.0,)), "`rates` and `forgetting` must have numbers of 0 or more."),
        (dict(forgetting=()), "`rates` and `forgetting` must have numbers of 0 or more."),
        (dict(half_lives=()), "`half_lives` must have positive numbers, got ()."),
        (dict(half_lives=(3.0, 0.0)), "`half_lives` must have positive numbers, got (3.0, 0.0)."),
        (dict(recall=-1), "`recall` must be 0 or more, and 0 with several blocks, got -1 with 1."),
        (dict(recall=8, block_ends=(2, 6)), "`recall` must be 0 or more, and 0 with several blocks, got 8 with 2."),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        config_with(**given)
    with pytest.raises(ValueError, match=re.escape(words)):
        replace(config_with(), **given)
