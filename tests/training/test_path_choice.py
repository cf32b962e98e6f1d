"""The linear path that is chosen, on series where the best one is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.progress import Progress
from titans_ts.tables.series_data import SeriesData
from titans_ts.training import path_choice
from titans_ts.training.closed_form import cross_series_moments
from titans_ts.training.path_choice import choose_path
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.splits import Fold
from titans_ts.windows.windows import Windows, on_device

LOOKBACK, HORIZON, ROWS = 12, 4, 1200


def autoregression(first: float, second: float, seed: int, rows: int = ROWS) -> np.ndarray:
    values, rng = np.zeros(rows), np.random.default_rng(seed)
    for t in range(2, rows):
        values[t] = first * values[t - 1] + second * values[t - 2] + rng.normal()
    return values / values.std()


def data_of(*series: np.ndarray) -> SeriesData[np.ndarray]:
    lengths = np.array([len(values) for values in series])
    return SeriesData(np.concatenate(series), lengths, np.zeros_like(lengths))


def choose(data: SeriesData[np.ndarray], validation: int = 200, **changes: Any) -> path_choice.Resolved:
    shape: dict[str, Any] = dict(lookback=LOOKBACK, horizon=HORIZON, scale_windows=False)
    config = ModelConfig(**shape | dict(n_series=data.n_series) | changes)
    fold = Fold(data.lengths - validation, data.lengths, data.lengths)
    return choose_path(config, data, on_device(data, torch.device("cpu")), fold)


def followers(rows: int = ROWS) -> list[np.ndarray]:
    """Noise, and what it was four steps before: each alone is no more than noise."""
    lead = np.random.default_rng(0).normal(size=rows + HORIZON)
    return [lead[HORIZON:], lead[:-HORIZON] + 0.1 * np.random.default_rng(1).normal(size=rows)]


def test_series_of_a_kind_share_a_path() -> None:
    walks = [np.cumsum(autoregression(0.7, 0.0, seed, 600)) for seed in range(3)]  # they do not return to a mean
    found = choose(data_of(*(walk / walk.std() for walk in walks)))
    assert found.choices[0].chosen == "common"
    assert not found.config.linear_per_series
    assert list(found.choices[0].errors)[:2] == ["common", "per_series"]


def test_series_that_differ_in_kind_have_weights_of_their_own() -> None:
    found = choose(data_of(autoregression(1.8, -0.9, 0), autoregression(-0.9, 0.0, 1)))
    assert found.choices[0].chosen == "per_series"
    assert found.config.linear_per_series
    assert found.config.linear_window_mean
    assert not found.config.linear_cross_series
    errors = found.choices[0].errors
    assert errors["per_series"] < 0.9 * errors["common"]


def test_a_series_that_follows_another_reads_it() -> None:
    found = choose(data_of(*followers()))
    assert found.choices[0].chosen == "across"
    assert found.config.linear_cross_series
    assert found.config.linear_harmonics == 0
    assert list(found.choices[0].errors) == ["common", "per_series", "across"]  # without a season no harmonics


def test_harmonics_are_those_that_the_season_has() -> None:
    names = list(choose(data_of(*followers()), cycle=5).choices[0].errors)
    assert names[2:] == ["across", "across, 1 harmonic", "across, 2 harmonics"]


def test_the_profile_is_taken_away_as_far_as_it_lasts() -> None:
    t = np.arange(ROWS)
    season = np.random.default_rng(0).normal(size=24)
    noise = [0.3 * np.random.default_rng(seed).normal(size=ROWS) for seed in (1, 2)]
    lasting = choose(data_of(*(season[t % 24] + each for each in noise)), cycle=24)
    assert lasting.share == 1.0
    turning = choose(data_of(*((1 - 2 * t / ROWS) * season[t % 24] + each for each in noise)), cycle=24)
    assert turning.share == 0.0
    by_name = {choice.name: choice for choice in lasting.choices}
    assert by_name["seasonal profile"].chosen == "whole"
    assert set(by_name["seasonal profile"].errors) == {"whole", "half", "none"}


def test_windows_are_scaled_where_that_is_better_at_the_origins() -> None:
    t = np.arange(ROWS)
    swinging = np.sin(t / 3) * np.exp(2 * np.sin(t / 50)) + 0.01 * np.random.default_rng(0).normal(size=ROWS)
    found = choose(data_of(swinging), scale_windows=None)
    errors = {choice.name: choice for choice in found.choices}["window scale"]
    assert found.config.scale_windows == (errors.chosen == "divided")
    assert set(errors.errors) == {"kept", "divided"}


def test_what_takes_too_much_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(*followers())

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("nothing is to be solved or allocated")

    with monkeypatch.context() as patch:
        patch.setattr(path_choice, "MOST_BYTES", 1000)
        patch.setattr(path_choice, "solve", refuse)
        patch.setattr(path_choice, "CrossSeriesFeatures", refuse)
        found = choose(data)
    assert not found.config.linear_per_series
    assert (found.share, found.choices) == (None, ())
    with monkeypatch.context() as patch:
        patch.setattr(path_choice, "MOST_OPERATIONS", 2e5)
        assert list(choose(data, cycle=5).choices[0].errors) == ["common", "per_series", "across"]


@pytest.mark.parametrize(
    ("n_series", "lookback", "horizon", "names"),
    [
        (7, 512, 720, ["common", "per_series", "across", "across, 1 harmonic", "across, 2 harmonics"]),
        (10_000, 56, 14, ["common"]),
        (800, 96, 96, ["common", "per_series"]),
    ],
)
def test_bounds_are_decided_from_sizes(n_series: int, lookback: int, horizon: int, names: list[str]) -> None:
    lengths = np.full(n_series, 14_400)
    data = SeriesData(torch.zeros(0), lengths, np.zeros(n_series, dtype=int))
    config = ModelConfig(lookback=lookback, horizon=horizon, n_series=n_series, cycle=24)
    found = [path_choice._name(candidate) for candidate in path_choice._affordable(config, data)]
    assert found[: len(names)] == names
    assert n_series == 7 or found == names


def test_without_validation_rows_the_path_is_common() -> None:
    found = choose(data_of(*followers()), validation=0)
    assert not found.config.linear_per_series
    assert found.choices == ()


def test_where_rows_are_few_the_validation_rows_tell() -> None:
    rows = 60
    found = choose(data_of(autoregression(1.8, -0.9, 0, rows), autoregression(-0.9, 0.0, 1, rows)), validation=20)
    assert found.config.linear_per_series


def test_a_series_of_few_rows_leaves_the_others_their_origins() -> None:
    long = [autoregression(1.8, -0.9, 0), autoregression(-0.9, 0.0, 1), autoregression(1.8, -0.9, 2)]
    data = data_of(*long, np.ones(5))
    config = ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=4, scale_windows=False)
    fold = Fold(np.array([1000, 1000, 1000, 5]), data.lengths, data.lengths)
    found = choose_path(config, data, on_device(data, torch.device("cpu")), fold)
    assert found.choices[0].chosen == "per_series"
    assert np.isfinite(list(found.choices[0].errors.values())).all()


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ({"common": 1.0, "per_series": 0.999, "across": 0.998}, "common"),
        ({"common": 1.0, "per_series": 0.9, "across": 0.899}, "per_series"),
        ({"common": 1.0, "per_series": 0.999, "across": 0.9}, "across"),
        ({"common": float("nan"), "per_series": 0.9}, "per_series"),
    ],
)
def test_more_weights_must_be_better_by_a_margin(errors: dict[str, float], chosen: str) -> None:
    assert path_choice._simplest_of_the_best(errors) == chosen


@pytest.mark.parametrize("harmonics", [0, 1, 2])
def test_moments_of_fewer_harmonics_are_a_part_of_those_of_more(harmonics: int) -> None:
    data = on_device(data_of(*followers(60)), torch.device("cpu"))
    features = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=2)
    bounds = dict(first=np.full(2, LOOKBACK), last=np.full(2, 60))
    windows = Windows(data, lookback=LOOKBACK, horizon=HORIZON, **bounds, cross_series=features)
    shape: dict[str, Any] = dict(lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=5, linear_per_series=True)
    few, many = (ModelConfig(**shape, linear_cross_series=True, linear_harmonics=number) for number in (harmonics, 2))
    expected, found = (cross_series_moments(SimbaForecaster(config).eval(), None, windows) for config in (few, many))
    for a, b in zip(path_choice._harmonics(found, few, many), expected, strict=True):
        torch.testing.assert_close(a, b)


def test_without_time_for_another_candidate_those_tried_are_all() -> None:
    """Each look at the clock finds a second gone."""
    seconds = itertools.count()
    progress = Progress(time_limit=3, clock=lambda: float(next(seconds)))
    data = data_of(*(autoregression(0.7, 0.0, seed) for seed in range(2)))
    config = ModelConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=4)
    fold = Fold(data.lengths - 200, data.lengths, data.lengths)
    found = choose_path(config, data, on_device(data, torch.device("cpu")), fold, progress)
    assert [(choice.name, list(choice.errors)) for choice in found.choices] == [
        ("linear path", ["common", "per_series"]),
        ("seasonal profile", ["whole"]),
    ]
    assert found.config.scale_windows is False


def test_some_of_many_series_choose_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_choice, "MOST_SERIES", 2)
    kinds = [autoregression(1.8, -0.9, 0), autoregression(-0.9, 0.0, 1), autoregression(0.2, 0.0, 2)]
    four = data_of(kinds[0], kinds[2], kinds[1], kinds[2])  # the first and the third choose
    found, alone = choose(four), choose(data_of(*kinds[:2]))
    assert found.config.n_series == 4
    linear = ("common", "per_series")
    assert {name: found.choices[0].errors[name] for name in linear} == {
        name: alone.choices[0].errors[name] for name in linear
    }
