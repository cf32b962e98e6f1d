"""Each baseline equals a slow direct computation, origin by origin, and reads nothing that has not come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark import stream_baselines
from benchmark.estimator import errors
from benchmark.stream_baselines import (
    HALF_LIVES,
    drift,
    error_mean,
    frozen,
    frozen_later,
    recursive_least_squares,
    refitted,
    seasonal_naive,
    simple_mean,
)
from benchmark.stream_core import Core
from benchmark.stream_data import Block, Clock, Stream
from benchmark.stream_rows import ROWS, Subject
from titans_ts import Drift
from titans_ts.datasets import Dataset

PER_SERIES = dict(linear_per_series=True, linear_window_mean=True, scale_windows=False)
CONFIGS = {
    "common": dict(scale_windows=False),
    "per series": dict(cycle=24, **PER_SERIES),
    "over their scale": dict(cycle=24, **{**PER_SERIES, "scale_windows": True}),
    "across": dict(cycle=24, linear_cross_series=True, linear_harmonics=1, **PER_SERIES),
}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that forecasts come in several."""
    monkeypatch.setattr("benchmark.stream_data.MOST_FORECAST", 12 * 100)


def together(blocks: Iterator[Block]) -> tuple[int, np.ndarray]:
    """The first origin, and all forecasts (n_series, origins, horizon)."""
    held = list(blocks)
    assert [b.first for b in held[1:]] == [b.first + b.forecast.shape[1] for b in held[:-1]]
    return held[0].first, torch.cat([block.forecast for block in held], dim=1).numpy()


@pytest.mark.parametrize("season", [1, 24, 5])
def test_naive_forecasts_repeat_the_last_season(season: int, small: Dataset, stream_of: Callable[..., Stream]) -> None:
    stream = stream_of(small)
    first, found = together(seasonal_naive(stream, season))
    values = stream.values.numpy()
    assert first == 600
    assert found.shape == (2, 595, 6)
    for origin in range(600, 1195):
        wanted = [[series[origin - season + step % season] for step in range(6)] for series in values]
        np.testing.assert_array_equal(found[:, origin - 600], wanted)


def test_drift_and_the_mean_of_simple_forecasts_are_those_of_the_toolkits_baselines(
    small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small, **CONFIGS["common"])
    first, found = together(drift(stream))
    values = stream.values.numpy().astype(np.float64)
    for origin in (600, 601, 1194):
        expected = Drift().fit(values[:, :origin].T).predict(6).T
        np.testing.assert_allclose(found[:, origin - first], expected, atol=1e-4)
    parts = [seasonal_naive(stream, stream.season), drift(stream), frozen(stream, stream.network, stream.origins)]
    mean = np.mean([together(part)[1] for part in parts], axis=0)
    np.testing.assert_allclose(together(simple_mean(stream))[1], mean, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_frozen_core_has_the_errors_of_the_estimator(
    name: str, small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small, **CONFIGS[name])
    _, found = together(frozen(stream, stream.network, stream.test))
    error = found - stream.future(stream.test).numpy()
    wanted = errors(stream.fitted, small)
    assert (np.square(error).mean(), np.abs(error).mean()) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_core_is_solved_for_on_all_that_has_matured(
    name: str, small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small, **CONFIGS[name])
    core, clock = Core(stream), Clock()
    first, found = together(refitted(core, clock, every=50))
    assert clock.updates == 12
    for begin in (600, 650, 1000, 1150):
        network = core.network(core.of_windows(range(24, begin - 5)))  # the last ends with row begin - 1
        origins = range(begin, min(begin + 50, 1195))
        _, wanted = together(frozen(stream, network, origins))
        np.testing.assert_allclose(found[:, begin - first : origins.stop - first], wanted, atol=2e-4)
    fixed = together(frozen(stream, stream.network, stream.origins))[1]
    assert np.abs(found - fixed).max() > 1e-3


def test_frozen_on_train_and_validation_ends_with_these(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    stream = stream_of(small, **CONFIGS["across"])
    core = Core(stream)
    first, found = together(frozen_later(core, Clock()))
    _, wanted = together(frozen(stream, core.network(core.of_windows(range(24, 795))), stream.test))
    assert first == 800
    np.testing.assert_allclose(found, wanted, atol=2e-4)


@pytest.mark.parametrize("half_life", [math.inf, 40.0])
def test_recursive_least_squares_is_weighted_least_squares(
    half_life: float, small: Dataset, stream_of: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_baselines, "RIDGES", (1e-3,))
    stream = stream_of(small, cycle=24, **PER_SERIES)
    every = 10
    first, found = together(recursive_least_squares(stream, Clock(), half_life, every))
    profile = stream.network.cycle.profile.detach().numpy()
    for series, origin in ((0, 600), (1, 645), (0, 1000), (1, 1194)):
        values = stream.values[series].double().numpy() - profile[series][np.arange(1200) % 24]

        def read(at: int, values: np.ndarray = values) -> np.ndarray:
            past = values[at - 24 : at]
            return np.append(past - past.mean(), past.mean())

        update = origin - (origin - 600) % every
        origins = np.arange(24, update - 5)
        x = np.array([read(at) for at in origins])
        y = np.array([values[at : at + 6] - values[at - 24 : at].mean() for at in origins])
        weights = np.ones(len(origins))
        if math.isfinite(half_life):  # all that matured since one update count alike at the next
            train = np.arange(24, 595)
            begins = [*range(24, 595, every), *range(595, update - 5, every)]
            ends = [min(b + every, 595 if b < 595 else update - 5) for b in begins]
            assert len(train) == 571
            for begin, end in zip(begins, ends, strict=True):
                weights[: begin - 24] *= 0.5 ** ((end - begin) / half_life)
        gram = (x * weights[:, None]).T @ x
        gram += 1e-3 * np.trace(gram) / 25 * np.eye(25)
        weight = np.linalg.solve(gram, (x * weights[:, None]).T @ y)
        ahead = profile[series][np.arange(origin, origin + 6) % 24]
        wanted = read(origin) @ weight + read(origin)[-1] + ahead
        np.testing.assert_allclose(found[series, origin - first], wanted, atol=2e-4)


def test_recursive_least_squares_follows_a_change(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    """The dynamics change in the middle of test; what forgets learns the new ones."""
    frame = small.frame.copy()
    noise = np.random.default_rng(3).normal(size=(1200, 2))
    for t in range(2, 1200):
        frame.iloc[t] = (0.9 if t < 900 else -0.9) * frame.iloc[t - 1] + noise[t]
    stream = stream_of(replace(small, frame=frame), scale_windows=False)
    late = range(1100, 1195)

    def error(half_life: float) -> float:
        first, found = together(recursive_least_squares(stream, Clock(), half_life, 24))
        wanted = stream.future(late).numpy()
        return float(np.square(found[:, late.start - first :] - wanted).mean())

    assert error(100.0) < 0.9 * error(math.inf)


def test_the_mean_of_errors_is_that_of_matured_ones(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    stream, clock = stream_of(small, **CONFIGS["per series"]), Clock()
    first, found = together(error_mean(stream, clock))
    assert first == 600
    assert clock.updates == 595
    fixed = together(frozen(stream, stream.network, stream.origins))[1].astype(np.float64)
    left = stream.future(stream.origins).numpy() - fixed
    by_half_life = {}
    for days in HALF_LIVES:
        decay, mean, forecasts = 0.5 ** (1 / (24 * days)), np.zeros((2, 6)), []
        for at in range(595):
            if at >= 6:  # the error of the origin six before it is known
                mean = decay * mean + (1 - decay) * left[:, at - 6]
            forecasts.append(fixed[:, at] + mean)
        by_half_life[days] = np.stack(forecasts, axis=1)
    truth = stream.future(stream.validation).numpy()
    best = min(HALF_LIVES, key=lambda days: np.square(by_half_life[days][:, :195] - truth).mean())
    np.testing.assert_allclose(found, by_half_life[best], atol=1e-5)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", ["common", "across"])
def test_no_row_reads_what_has_not_come(name: str, row: str, small: Dataset, stream_of: Callable[..., Stream]) -> None:
    """All rows from 900 on are corrupted; forecasts of 900 and after, made before, are equal to the bit."""
    stream, seen = stream_of(small, **CONFIGS[name]), 900
    frame = small.frame.copy()
    frame.iloc[seen:] = np.random.default_rng(5).normal(0, 1e3, (1200 - seen, 2))
    corrupted = stream_of(replace(small, frame=frame), stream.fitted)
    first, wanted = together(ROWS[row](Subject(stream), Clock()))
    _, found = together(ROWS[row](Subject(corrupted), Clock()))
    np.testing.assert_array_equal(found[:, : seen + 1 - first], wanted[:, : seen + 1 - first])
    assert not np.array_equal(found[:, seen + 1 - first :], wanted[:, seen + 1 - first :])
