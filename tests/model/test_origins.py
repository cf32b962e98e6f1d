"""The basis of a horizon is orthonormal; an origin's features are what they say, whatever pads its window."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from titans_ts.model.batch import Batch
from titans_ts.model.origins import READ_AHEAD, horizon_basis, n_features, origin_features, recent_spans

ROUNDING = dict(rtol=0, atol=2e-5)  # float32
PAIRS = [(s, c) for s in (1, 2, 3, 5, 7, 12, 24, 48, 96, 336) for c in (0, 1, 2, 3, 7, 12, 24, 96, 168, 1000)]


@pytest.mark.parametrize(("steps", "cycle"), PAIRS)
def test_the_basis_is_orthonormal_and_begins_with_the_mean(steps: int, cycle: int) -> None:
    basis, seasonal = horizon_basis(steps, cycle)
    assert basis.dtype == torch.float32
    assert basis.shape == (steps, len(seasonal))
    assert 1 <= basis.shape[1] <= steps
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), **ROUNDING)
    np.testing.assert_allclose(basis[:, 0], steps**-0.5, **ROUNDING)
    assert bool(seasonal.any()) == (1 < cycle <= steps)
    assert not seasonal[0]


def test_a_short_horizon_is_kept_whole() -> None:
    for steps, cycle in ((1, 24), (5, 0), (12, 24), (16, 4), (24, 0)):
        basis, _ = horizon_basis(steps, cycle)
        assert basis.shape[1] == steps
        y = np.random.default_rng(0).normal(size=steps)
        np.testing.assert_allclose(y @ basis.numpy() @ basis.numpy().T, y, **ROUNDING)


def test_a_long_horizon_keeps_trend_and_season() -> None:
    basis, seasonal = horizon_basis(336, 24)
    assert basis.shape == (336, 16 + 8)
    assert int(seasonal.sum()) == 8
    step = np.arange(336)
    season = np.sin(2 * np.pi * step / 24) + 0.5 * np.cos(2 * np.pi * 4 * step / 24)
    coefficients = season @ basis.double().numpy()
    np.testing.assert_allclose(coefficients @ basis.double().numpy().T, season, rtol=0, atol=1e-5)
    assert (coefficients[seasonal.numpy()] ** 2).sum() == pytest.approx((season**2).sum(), rel=1e-5)
    trend = (step - step.mean()) / 336
    left = trend - trend @ basis.double().numpy() @ basis.double().numpy().T
    assert (left**2).mean() < 1e-3 * (trend**2).mean()


def test_spans_double_up_to_half_a_window() -> None:
    assert [recent_spans(n) for n in (1, 2, 3, 4, 9, 16, 336)] == [
        *([1], [1], [1], [1, 2], [1, 2, 4], [1, 2, 4, 8]),
        [1, 2, 4, 8, 16, 32, 64, 128],
    ]


def batch_of(past: torch.Tensor, time_index: int = 0, **given: torch.Tensor) -> Batch:
    n = len(past)
    return Batch(
        past=past,
        future=past[:, :0],
        time_index=torch.full((n,), time_index),
        series=torch.zeros(n, dtype=torch.long),
        **given,
    )


@pytest.mark.parametrize("cycle", [0, 1, 4])
@pytest.mark.parametrize("lookback", [1, 2, 9])
def test_features_are_as_many_as_is_said(lookback: int, cycle: int) -> None:
    for horizon in (1, 3, 40):
        basis, _ = horizon_basis(horizon, cycle)
        features = origin_features(batch_of(torch.randn(5, lookback)), torch.randn(5, horizon), basis, cycle)
        assert features.shape == (5, n_features(lookback, horizon, cycle))
        assert features.isfinite().all()


def test_features_are_what_they_say() -> None:
    past, forecast = torch.tensor([[1.0, 2.0, 6.0, 7.0]]), torch.tensor([[5.0, 5.0, 5.0]])
    basis, _ = horizon_basis(3, 8)
    found = origin_features(batch_of(past, time_index=6), forecast, basis, 8)[0]
    angle = 2 * np.pi * (10 % 8) / 8 * np.arange(1, 4)
    expected = [1, *np.sin(angle) / 3**0.5, *np.cos(angle) / 3**0.5, 4, (7 - 4) / 2**0.5, (6.5 - 4) / 2**0.5, 1, 0, 0]
    np.testing.assert_allclose(found, expected, **ROUNDING)
    shifted = batch_of(past, time_index=5, clock_shift=torch.tensor([[0, 0, 0, 0, 1, 1, 1]]))
    np.testing.assert_allclose(origin_features(shifted, forecast, basis, 8)[0], expected, **ROUNDING)


def test_padding_makes_no_difference() -> None:
    torch.manual_seed(0)
    lookback, horizon, cycle = 8, 5, 4
    basis, _ = horizon_basis(horizon, cycle)
    past, forecast = torch.randn(6, lookback), torch.randn(6, horizon)
    whole = torch.ones_like(past, dtype=torch.bool)
    plain = origin_features(batch_of(past, 3), forecast, basis, cycle)
    torch.testing.assert_close(origin_features(batch_of(past, 3, padding_mask=whole), forecast, basis, cycle), plain)
    for kept in range(1, lookback + 1):
        mask = torch.arange(lookback).expand_as(past) >= lookback - kept
        garbage = torch.where(mask, past, 1e9)
        found = origin_features(batch_of(garbage, 3, padding_mask=mask), forecast, basis, cycle)
        other = origin_features(batch_of(torch.where(mask, past, -7.0), 3, padding_mask=mask), forecast, basis, cycle)
        assert torch.equal(found, other)
        short = origin_features(batch_of(past[:, -kept:], 3 + lookback - kept), forecast, basis, cycle)
        same = 1 + 6 + 1  # one, the season and the mean; spans of a shorter window are fewer
        torch.testing.assert_close(found[:, :same], short[:, :same])
        torch.testing.assert_close(found[:, -min(READ_AHEAD, horizon) :], short[:, -min(READ_AHEAD, horizon) :])
        n_spans = len(recent_spans(lookback))
        for i, span in enumerate(recent_spans(lookback)):
            if span <= kept:
                mean = past[:, -span:].mean(1) - past[:, -kept:].mean(1)
                torch.testing.assert_close(found[:, same + i], mean / n_spans**0.5)
