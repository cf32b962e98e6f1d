"""The core solved for again: by its recipe it is the closed form's, and sums of moments are those of all windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from benchmark.stream_core import Core, Recipe, ridge_regression
from benchmark.stream_data import Stream
from titans_ts.datasets import Dataset
from titans_ts.training.moments import Moments
from titans_ts.training.ridge import RIDGES

PER_SERIES = dict(linear_per_series=True, linear_window_mean=True)
CONFIGS = {
    "common": dict(scale_windows=False),
    "common, minus a profile": dict(cycle=24, scale_windows=False),
    "per series": dict(linear_per_series=True, scale_windows=False),
    "per series, window mean": dict(cycle=24, scale_windows=False, **PER_SERIES),
    "windows over their scale": dict(cycle=24, scale_windows=True, **PER_SERIES),
    "across": dict(cycle=24, scale_windows=False, linear_cross_series=True, linear_harmonics=1, **PER_SERIES),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_solved_on_train_by_its_recipe_it_is_the_closed_form(
    name: str, small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small, **CONFIGS[name])
    core = Core(stream)
    found, wanted = core.network(core.learned), stream.network
    # weights are kept in float32, and one ridge's factors are not its eigenvalues
    torch.testing.assert_close(found.linear.weight, wanted.linear.weight, atol=1e-5, rtol=1e-4)
    if wanted.linear.per_series is not None:
        torch.testing.assert_close(found.linear.per_series, wanted.linear.per_series, atol=1e-5, rtol=1e-4)
    if wanted.cross_series is not None:
        torch.testing.assert_close(found.cross_series.weight, wanted.cross_series.weight, atol=1e-5, rtol=1e-3)
        assert found.cross_series.weight.any()


@pytest.mark.parametrize("name", CONFIGS)
def test_moments_of_parts_add_up_to_those_of_the_whole(
    name: str, small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    core = Core(stream_of(small, **CONFIGS[name]))
    summed = core.of_windows(range(24, 100)).add_(core.of_windows(range(100, 107)))
    summed.add_(core.of_windows(range(107, 500)))
    for part, whole in zip(summed.tensors, core.of_windows(range(24, 500)).tensors, strict=True):
        torch.testing.assert_close(part, whole, rtol=1e-5, atol=1e-3)  # windows are read in float32


def test_a_copy_of_what_was_learned_is_one(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    core = Core(stream_of(small, **CONFIGS["across"]))
    before = [tensor.clone() for tensor in core.learned.tensors]
    core.learned.clone().add_(core.learned)
    assert all(torch.equal(a, b) for a, b in zip(before, core.learned.tensors, strict=True))


def test_the_common_path_is_least_squares_on_the_windows(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    """All by hand: windows one by one, minus their means, lags at the scale expected of their weights."""
    stream = stream_of(small, scale_windows=False)
    core = Core(stream)
    values = small.scaler.transform(small.frame).T
    x, y = [], []
    for series in values:
        for origin in range(24, 775):
            past = series[origin - 24 : origin]
            x.append(past - past.mean())
            y.append(series[origin : origin + 6] - past.mean())
    x, y = np.array(x) * np.arange(24, 0, -1) ** -0.5, np.array(y)
    total = np.zeros((24, 6))
    recipe = core.recipe
    for part in recipe.parts[: recipe.n_common]:
        read = x[:, part.unread :]
        gram = read.T @ read
        ridge = part.common * np.trace(gram) / len(gram)
        assert not part.last_value
        total[part.unread :] += np.linalg.solve(gram + ridge * np.eye(len(gram)), read.T @ y)
    weight = total / recipe.n_common * np.arange(24, 0, -1)[:, None] ** -0.5
    found = core.network(core.of_windows(range(24, 775))).linear.weight.detach()
    np.testing.assert_allclose(found, weight, atol=1e-5)


def test_a_ridge_without_end_and_windows_that_are_flat_stay_at_the_anchor() -> None:
    anchor = torch.ones(3, 2, dtype=torch.float64)
    moments = Moments.zero(2, 3, 2, torch.device("cpu"))
    assert not ridge_regression(moments, anchor, 1.0).any()
    x = torch.randn(9, 3, dtype=torch.float64)
    moments = Moments(x.mT @ x, x.mT @ x[:, :2], torch.ones(()), torch.ones(()))
    assert not ridge_regression(moments, anchor, float("inf")).any()
    assert ridge_regression(moments, anchor, 1e-7).any()


def test_a_recipe_says_what_was_chosen(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    recipe = Core(stream_of(small, **CONFIGS["across"])).recipe
    assert isinstance(recipe, Recipe)
    assert [part.unread for part in recipe.parts] == [0, 12, 18, 21]
    assert 1 <= recipe.n_common <= 4
    assert {recipe.cross_series, *(part.window_mean for part in recipe.parts)} <= set(RIDGES)


def test_a_core_without_a_linear_path_is_told(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    options: dict[str, Any] = dict(linear_path=False, scale_windows=False)
    with pytest.raises(ValueError, match="must have a linear path"):
        Core(stream_of(small, **options))
