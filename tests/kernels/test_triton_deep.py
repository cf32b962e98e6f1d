"""The surprise of a memory of two layers, and its packed state."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import silu

pytest.importorskip("triton", reason="needs the package triton")

import triton
import triton.language as tl

from titans_ts.kernels import triton_deep
from titans_ts.kernels.triton_common import INTERPRETED, load_tile, store_tile

DP, EP, C = 16, 32, 16
PRECISION = "ieee" if INTERPRETED else "tf32x3"


@triton.jit
def copy_state(x, y, known, DP: tl.constexpr, EP: tl.constexpr):
    at = tl.program_id(0) * 4 * DP * EP
    V1, V2, S1, S2 = triton_deep.load_state(x + at, known > tl.program_id(0), DP, EP)
    triton_deep.store_state(y + at, V1, V2, S1, S2, DP, EP)


@triton.jit
def run_surprise(
    k, v, W1, W2, x2, e1, e2, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr, PRECISION: tl.constexpr
):
    found = triton_deep.surprise(
        load_tile(k, DP, C), load_tile(v, DP, C), load_tile(W1, EP, DP), load_tile(W2, DP, EP), tl.float32, PRECISION
    )
    store_tile(x2, found[0], EP, C)
    store_tile(e1, found[1], EP, C)
    store_tile(e2, found[2], DP, C)


# The errors e are such that the loss has the gradient e x^T by the matrix that x goes through.
def test_the_surprise_is_the_gradient_of_the_loss(device: torch.device, tolerances: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((DP, C), (DP, C), (EP, DP), (DP, EP))
    k, v, W1, W2 = (torch.randn(shape, generator=generator).to(device) for shape in shapes)
    x2, e1, e2 = (torch.empty(shape, device=device) for shape in ((EP, C), (EP, C), (DP, C)))
    run_surprise[(1,)](k, v, W1, W2, x2, e1, e2, DP=DP, EP=EP, C=C, PRECISION=PRECISION)

    weights = [w.double().requires_grad_() for w in (W1, W2)]
    hidden = silu(weights[0] @ k.double())
    loss = (weights[1] @ hidden - v.double()).square().sum()
    for found, expected in zip((e1 @ k.T, e2 @ x2.T), torch.autograd.grad(loss, weights), strict=True):
        assert (found - expected).abs().max() <= tolerances.outputs * expected.abs().max()


def test_states_that_are_known_are_read_and_others_are_zero(device: torch.device) -> None:
    x = torch.rand(3, 4 * DP * EP, device=device)
    y = torch.full_like(x, torch.nan)
    copy_state[(3,)](x, y, 2, DP=DP, EP=EP)
    assert torch.equal(y[:2], x[:2])
    assert torch.equal(y[2], torch.zeros_like(y[2]))


def test_a_slot_holds_two_states_and_eleven_tiles_of_tokens() -> None:
    size = triton_deep.slot_size(width=16, hidden=32, lanes=64)
    assert size == 2 * (2 * 2 * 16 * 32) + (8 * 32 + 3 * 16) * 64
