"""One layer over one segment: update and readout against their formulas, and their gradients against autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs the package triton")

import triton
import triton.language as tl

from titans_ts.kernels import triton_layer as layer
from titans_ts.kernels.triton_common import INTERPRETED, load_tile, store_tile, turned

N = 16  # features in and out, and tokens
PRECISION = "ieee" if INTERPRETED else "tf32x3"


@triton.jit
def run_update(v, s, x, e, gates, out, N: tl.constexpr, PRECISION: tl.constexpr):
    lane = tl.arange(0, N)
    b_n, a_n, e_n = tl.load(gates), tl.load(gates + 1), tl.load(gates + 2)
    A_n, D_n = tl.load(gates + 3 + lane), tl.load(gates + 3 + N + lane)
    xT, error = tl.trans(load_tile(x, N, N)), load_tile(e, N, N)
    new_v, new_s = layer.update(
        load_tile(v, N, N), load_tile(s, N, N), xT, error, b_n, a_n, e_n, A_n, D_n, tl.float32, PRECISION
    )
    store_tile(out, new_v, N, N)
    store_tile(out + N * N, new_s, N, N)


@triton.jit
def run_update_gradients(v, s, x, e, gates, dv, ds, out, numbers, N: tl.constexpr, PRECISION: tl.constexpr):
    lane = tl.arange(0, N)
    A_n, D_n = tl.load(gates + 3 + lane), tl.load(gates + 3 + N + lane)
    keys, error = load_tile(x, N, N), load_tile(e, N, N)
    by_v, by_s = load_tile(dv, N, N), load_tile(ds, N, N)
    dx, db_n, da_n, de_n, dA_n, dD_n = layer.update_gradients(
        keys, error, load_tile(v, N, N), load_tile(s, N, N), by_v, by_s, A_n, D_n, tl.float32, PRECISION
    )
    de = layer.error_gradient(tl.zeros((N, N), tl.float32), keys, by_v, by_s, A_n, D_n, tl.float32, PRECISION)
    store_tile(out, dx, N, N)
    store_tile(out + N * N, de, N, N)
    tl.store(numbers, db_n)
    tl.store(numbers + 1, da_n)
    tl.store(numbers + 2, de_n)
    tl.store(numbers + 3 + lane, dA_n)
    tl.store(numbers + 3 + N + lane, dD_n)


@triton.jit
def run_readout(q, x, e, v, s, b, a, A, out, N: tl.constexpr, PRECISION: tl.constexpr):
    lane = tl.arange(0, N)
    y = layer.readout(
        load_tile(q, N, N), tl.trans(load_tile(x, N, N)), load_tile(e, N, N), load_tile(v, N, N), load_tile(s, N, N),
        tl.load(b + lane), tl.load(a + lane), tl.load(turned(A, N, N)), tl.float32, PRECISION,
    )  # fmt: skip
    store_tile(out, y, N, N)


@triton.jit
def run_readout_gradients(q, x, e, v, s, b, a, A, dy, out, by_b, by_a, N: tl.constexpr, PRECISION: tl.constexpr):
    lane = tl.arange(0, N)
    dq, dx, de, db, da, dAT = layer.readout_gradients(
        load_tile(q, N, N), load_tile(x, N, N), load_tile(e, N, N), load_tile(dy, N, N), load_tile(v, N, N),
        load_tile(s, N, N), None, 0, tl.load(b + lane), tl.load(a + lane), A, tl.float32, PRECISION,
    )  # fmt: skip
    store_tile(out, dq, N, N)
    store_tile(out + N * N, dx, N, N)
    store_tile(out + 2 * N * N, de, N, N)
    store_tile(out + 3 * N * N, tl.trans(dAT), N, N)
    tl.store(by_b + lane, db)
    tl.store(by_a + lane, da)


@pytest.fixture
def tiles(device: torch.device) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    names = ("v", "s", "x", "e", "q", "A", "dv", "ds", "dy")
    return {name: torch.randn(N, N, generator=generator).to(device) for name in names}


@pytest.fixture
def gates(device: torch.device) -> Tensor:
    """b_n, a_n and e_n, then A_n and D_n of each token."""
    return torch.rand(3 + 2 * N, generator=torch.Generator().manual_seed(1)).to(device)


def update(v: Tensor, s: Tensor, x: Tensor, e: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
    (b_n, a_n, e_n), A_n, D_n = gates[:3], gates[3 : 3 + N], gates[3 + N :]
    return b_n * v + a_n * s - (A_n * e) @ x.T, e_n * s - (D_n * e) @ x.T


def readout(q: Tensor, x: Tensor, e: Tensor, v: Tensor, s: Tensor, b: Tensor, a: Tensor, A: Tensor) -> Tensor:
    return b * (v @ q) + a * (s @ q) - e @ (A.T * (x.T @ q))


def assert_close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


def test_an_update_adds_what_its_tokens_write(tiles: dict[str, Tensor], gates: Tensor, tolerances: Any) -> None:
    names = ("v", "s", "x", "e")
    out = torch.empty(2, N, N, device=gates.device)
    run_update[(1,)](*(tiles[n] for n in names), gates, out, N=N, PRECISION=PRECISION)
    expected = update(*(tiles[n].double() for n in names), gates.double())
    assert_close(out, torch.stack(expected), tolerances.outputs)


def test_gradients_of_an_update_are_those_of_autograd(tiles: dict[str, Tensor], gates: Tensor, tolerances: Any) -> None:
    names = ("v", "s", "x", "e")
    leaves = [tiles[n].double().requires_grad_() for n in names] + [gates.double().requires_grad_()]
    by = [tiles[n].double() for n in ("dv", "ds")]
    _, _, dx, de, dgates = torch.autograd.grad(update(*leaves), leaves, by)
    out, numbers = torch.empty(2, N, N, device=gates.device), torch.empty_like(gates)
    inputs = (*(tiles[n] for n in names), gates, tiles["dv"], tiles["ds"])
    run_update_gradients[(1,)](*inputs, out, numbers, N=N, PRECISION=PRECISION)
    assert_close(out, torch.stack([dx, de]), tolerances.gradients)
    assert_close(numbers, dgates, tolerances.gradients)


def test_a_readout_sees_what_was_left_and_what_was_written(tiles: dict[str, Tensor], tolerances: Any) -> None:
    inputs = [tiles[n] for n in ("q", "x", "e", "v", "s")]
    b, a = tiles["dv"][0].contiguous(), tiles["ds"][0].contiguous()
    out = torch.empty_like(tiles["q"])
    run_readout[(1,)](*inputs, b, a, tiles["A"], out, N=N, PRECISION=PRECISION)
    assert_close(out, readout(*(x.double() for x in (*inputs, b, a, tiles["A"]))), tolerances.outputs)


def test_gradients_of_a_readout_are_those_of_autograd(tiles: dict[str, Tensor], tolerances: Any) -> None:
    b, a = tiles["dv"][0].contiguous(), tiles["ds"][0].contiguous()
    inputs = [*(tiles[n] for n in ("q", "x", "e", "v", "s")), b, a, tiles["A"]]
    leaves = [x.double().requires_grad_() for x in inputs]
    dq, dx, de, _, _, db, da, dA = torch.autograd.grad(readout(*leaves), leaves, tiles["dy"].double())
    out, by_b, by_a = torch.empty(4, N, N, device=b.device), torch.empty_like(b), torch.empty_like(a)
    run_readout_gradients[(1,)](*inputs, tiles["dy"], out, by_b, by_a, N=N, PRECISION=PRECISION)
    assert_close(out, torch.stack([dq, dx, de, dA]), tolerances.gradients)
    assert_close(by_b, db, tolerances.gradients)
    assert_close(by_a, da, tolerances.gradients)
