"""Quantiles of a network: they do not cross, whatever its outputs, and the median is the point forecast."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from titans_ts.model.config import ModelConfig
from titans_ts.model.quantiles import QuantileWidths, point_of

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)


def test_the_point_is_the_output_in_the_middle() -> None:
    x = np.arange(2 * 3 * 5).reshape(2, 3, 5)
    assert np.array_equal(point_of(x), x[..., 2])
    assert torch.equal(point_of(torch.from_numpy(x)), torch.from_numpy(x[..., 2]))
    assert np.array_equal(point_of(x[..., :1]), x[..., 0])


def test_widths_by_hand() -> None:
    widths = QuantileWidths(1, LEVELS, n_series=2)
    widths.scale.copy_(torch.tensor([3.0, 1.0, 1.0]))
    widths.first.copy_(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    out = torch.tensor([[[0.0, 1.0, 7.0, 0.0, -1.0]]]).expand(3, -1, -1)
    found, scaled, unknown = widths(out, torch.tensor([1, 0, 99]))[:, 0]
    unit = [math.log1p(math.exp(x)) / math.log(2) for x in (0.0, 1.0, 0.0, -1.0)]
    below, above = 7 - 2 * unit[1], 7 + 3 * unit[2]
    expected = torch.tensor([below - 1 * unit[0], below, 7, above, above + 4 * unit[3]])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(scaled - 7, 3 * (expected - 7))
    assert torch.equal(unknown, found)


def test_of_zeros_they_are_a_normal_distributions() -> None:
    found = QuantileWidths(3, LEVELS, 1)(torch.zeros(2, 3, 5), torch.tensor([0, 1]))
    normal = torch.tensor([-1.2815516, -0.5244005, 0, 0.5244005, 1.2815516])
    torch.testing.assert_close(found, normal.expand(2, 3, 5))


@given(st.integers(0, 2**31), st.floats(0.1, 1e3))
def test_they_do_not_cross(seed: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    out = size * torch.randn(4, 3, 5, generator=generator)
    found = QuantileWidths(3, LEVELS, 2)(out, torch.tensor([0, 1, 2, 1]))
    assert (found.diff(dim=-1) >= 0).all()
    assert torch.equal(point_of(found), point_of(out))


@pytest.mark.parametrize(
    "levels", [(0.1, 0.9), (0.1, 0.5, 0.8), (0.5, 0.1, 0.9), (0.0, 0.5, 1.0), (0.1, 0.4, 0.5, 0.6, 0.9)]
)
def test_levels_must_be_symmetric_about_a_median(levels: tuple[float, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"^`levels` must be `n_outputs` = 3 numbers in \(0, 1\), rising and symmetric"
    ):
        ModelConfig(lookback=4, horizon=2, n_outputs=3, levels=levels)
