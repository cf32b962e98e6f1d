"""The packed state of a memory of one matrix, by blocks of its rows."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs the package triton")

import triton
import triton.language as tl

from titans_ts.kernels import triton_linear

DP = 32


@triton.jit
def copy_state(x, y, known, DP: tl.constexpr, VP: tl.constexpr):
    feature, number = triton_linear.block_of_rows(DP, VP)
    at = number * 2 * DP * DP + feature * DP
    V, S = triton_linear.load_state(x + at, known > number, VP, DP)
    triton_linear.store_state(y + at, V, S, VP, DP)


@triton.jit
def add_gradient(to, V, S, SHARED: tl.constexpr, DP: tl.constexpr):
    rows = (tl.load(triton_linear.tile(V, DP, DP)), tl.load(triton_linear.tile(S, DP, DP)))
    triton_linear.add_start_gradient(to, rows, SHARED, DP, DP)


@pytest.mark.parametrize("rows", [16, 32])
def test_blocks_of_rows_make_up_the_states_that_are_known(rows: int, device: torch.device) -> None:
    x = torch.rand(3, 2, DP, DP, device=device)
    y = torch.full_like(x, torch.nan)
    copy_state[(3 * DP // rows,)](x, y, 2, DP=DP, VP=rows)
    assert torch.equal(y[:2], x[:2])
    assert torch.equal(y[2], torch.zeros_like(y[2]))


@pytest.mark.parametrize("shared", [False, True])
def test_a_start_that_the_batch_shares_has_its_gradients_added_up(shared: bool, device: torch.device) -> None:
    before, (V, S) = torch.rand(2, DP, DP, device=device), torch.rand(2, DP, DP, device=device)
    to = before.clone()
    add_gradient[(1,)](to, V.contiguous(), S.contiguous(), SHARED=shared, DP=DP)
    assert torch.equal(to, torch.stack([before[0] + V, before[1]] if shared else [V, S]))


def test_a_slot_holds_two_states_and_three_tiles_of_tokens() -> None:
    assert triton_linear.slot_size(width=32, lanes=16) == 2 * (2 * 32 * 32) + 3 * 32 * 16
