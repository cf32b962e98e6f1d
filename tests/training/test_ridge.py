"""Ridge regressions from moments, and which series choose among them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig
from titans_ts.training.moments import Moments
from titans_ts.training.ridge import RIDGES, Scoring, ridge_at_any_scale, ridge_regression, scored_series

GENERATOR = torch.Generator().manual_seed(0)


def moments_of(x: Tensor, y: Tensor) -> Moments:
    return Moments((x.mT @ x)[None], (x.mT @ y)[None], y.square().sum()[None], torch.tensor([y.numel()]).double())


def draws(rows: int = 400, noise: float = 0.1) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(rows, 3, generator=GENERATOR, dtype=torch.float64)
    weight = torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    return x, x @ weight + noise * torch.randn(rows, 1, generator=GENERATOR, dtype=torch.float64), weight


def test_it_is_least_squares_where_rows_are_many_and_the_anchor_where_they_say_nothing() -> None:
    x, y, weight = draws()
    scoring = Scoring(moments_of(x, y), y.square().mean()[None])
    error, away = ridge_regression(moments_of(x, y).pooled(3), scoring, torch.zeros(3, 1).double(), RIDGES)
    assert away == pytest.approx(weight, abs=0.02)
    assert error == pytest.approx(0.1**2 / 5.25, rel=0.2)
    noise = torch.randn(400, 1, generator=GENERATOR, dtype=torch.float64)
    other = Scoring(moments_of(x, y), y.square().mean()[None])
    _, none = ridge_regression(moments_of(x, noise).pooled(3), other, weight, (1e-7, math.inf))
    assert none.abs().max() == 0


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_an_input_does_not_matter(scale: float) -> None:
    x, y, _ = draws(30, noise=1.0)
    by = torch.tensor([scale, 1.0, 1.0], dtype=torch.float64)
    naive = y.square().mean()[None]
    error, weight = ridge_at_any_scale(moments_of(x, y), Scoring(moments_of(x, y), naive), RIDGES)
    found, scaled = ridge_at_any_scale(moments_of(x * by, y), Scoring(moments_of(x * by, y), naive), RIDGES)
    assert found == pytest.approx(error, rel=1e-6)
    assert scaled[0, :, 0] * by == pytest.approx(weight[0, :, 0], rel=1e-5)


def test_series_without_weight_do_not_choose() -> None:
    config = ModelConfig(lookback=8, horizon=2, n_series=4)
    assert scored_series(config, 4, None).tolist() == [0, 1, 2, 3]
    assert scored_series(config, 4, torch.tensor([1.0, 0.0, 2.0, 0.0])).tolist() == [0, -1, 1, -1]


def test_of_many_series_evenly_spaced_ones_choose() -> None:
    config = ModelConfig(lookback=1024, horizon=1024)
    parts = scored_series(config, 100, None)
    assert int(parts.max()) + 1 == (parts >= 0).sum() < 100
    assert (parts >= 0).nonzero().flatten().diff().unique().numel() == 1
