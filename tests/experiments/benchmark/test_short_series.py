"""What each part of the statistical forecasts is worth, on a small group whose parts are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmark import short_series
from benchmark.short_series import GROUPS, OF_SEASONS, PARTS, errors, held_back, lines
from titans_ts.datasets import Competition
from titans_ts.statistical import mixture, season, smoothing

SEASON = np.array([3.0, -1.0, -2.0, 0.0])


def group_of(*series: np.ndarray, name: str = "M3 quarterly", season: int = 4) -> Competition:
    parts = [pd.DataFrame({"unique_id": f"s{i}", "ds": range(len(y)), "y": y}) for i, y in enumerate(series)]
    empty = pd.DataFrame({"unique_id": [], "ds": [], "y": []})
    return Competition(name, "QS", 4, season, len(series), pd.concat(parts, ignore_index=True), empty, None, None)


def quarterly(rows: int = 44) -> Competition:
    t, noise = np.arange(rows), np.random.default_rng(0)
    return group_of(*(100 + i * t / 10 + SEASON[t % 4] + 0.1 * noise.normal(size=rows) for i in range(5)))


def test_the_last_horizon_is_held_back_and_short_or_constant_series_are_left_out() -> None:
    past, future = held_back(group_of(np.arange(12.0), np.arange(9.0), np.ones(12), SEASON[np.arange(12) % 4]))
    assert [values.tolist() for values in past] == [list(range(8))]
    assert future.tolist() == [[8, 9, 10, 11]]


def test_of_m4_the_last_rows_of_evenly_spaced_series_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_series, "MOST_SERIES", 2)
    monkeypatch.setattr(short_series, "MOST_ROWS", 14)
    group = group_of(*(100.0 * i + np.arange(20) for i in range(4)))
    assert len(held_back(group)[0]) == 4
    past, future = held_back(replace(group, name="M4 quarterly"))
    assert [values[0] for values in past] == [6, 206]
    assert future[:, -1].tolist() == [19, 219]


def test_a_season_that_is_left_out_is_missed_and_nothing_stays_changed() -> None:
    group, constants = quarterly(), (season.DECAY, season.LEAST, mixture.ROUNDS, mixture.EVIDENCE)
    functions = season.shrinkage, smoothing.lines, smoothing.damped_trends
    found = {part: float(errors(group, part).partition(" / ")[2]) for part in PARTS}
    first = found["smoothing, of values and logarithms"]
    assert found["no seasons"] > 5 * first
    assert all(
        0 < error < 2 * first for part, error in found.items() if part not in ("no seasons", "methods weighed alike")
    )
    assert constants == (season.DECAY, season.LEAST, mixture.ROUNDS, mixture.EVIDENCE)
    assert (season.shrinkage, smoothing.lines, smoothing.damped_trends) == functions
    assert len(set(found.values())) > 7  # what is changed changes the forecast


def test_the_table_has_a_line_for_each_part_and_a_dash_where_there_is_no_season() -> None:
    yearly = replace(quarterly(), name="M3 yearly", season=1)
    head, rule, *rows = lines([yearly])
    assert (head, rule) == ("| | M3 yearly |", "|---|---|")
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(PARTS)
    assert {row.split(" | ")[0].removeprefix("| ") for row in rows if "–" in row} == set(OF_SEASONS)
    assert set(GROUPS) >= {"M3 yearly", "M4 yearly"}
