"""The formulas of one chunk, each against its definition or against autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from titans_ts.kernels import chunk

ROUNDING = 1e-12  # float64 sums of a few terms in another order
ENDS = pytest.mark.parametrize("ends", [None, 0.0, 1.0], ids=["between", "at 0", "at 1"])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gates(ends: float | None) -> list[Tensor]:
    """alpha, eta and theta of two chunks of five tokens; some at an end of [0, 1]."""
    found = [random(1, 2, 5, seed=seed) for seed in range(3)]
    if ends is not None:
        for gate in found[:2]:
            gate[..., 1:3] = ends
    return found


def left(gate: Tensor) -> Tensor:
    """L[t, s], the product of the gates after token s up to token t; zero where s is later."""
    rows = range(gate.shape[-1])
    columns = [[gate[..., s + 1 : t + 1].prod(-1) if s <= t else 0 * gate[..., 0] for s in rows] for t in rows]
    return torch.stack([torch.stack(column, dim=-1) for column in columns], dim=-2)


def by_definition(alpha: Tensor, eta: Tensor, theta: Tensor) -> chunk.Gates:
    L_b, L_e = left(1 - alpha), left(eta)
    b, e = (1 - alpha).cumprod(-1), eta.cumprod(-1)
    return chunk.Gates(
        b=b.unsqueeze(-1),
        a=L_b @ e.unsqueeze(-1),
        A=(L_b @ L_e) * theta.unsqueeze(-2),
        e_n=e[..., -1:, None],
        D_n=(L_e[..., -1, :] * theta).unsqueeze(-1),
    )


@ENDS
def test_the_tables_of_gates_are_the_products_between_tokens(ends: float | None) -> None:
    found = chunk.gates_of(chunk.multiply_out(*gates(ends)))
    for x, expected in zip(found, by_definition(*gates(ends)), strict=True):
        torch.testing.assert_close(x, expected, rtol=ROUNDING, atol=ROUNDING)


@ENDS
def test_a_graph_has_the_same_tables_of_gates(ends: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = chunk.multiply_out(*gates(ends))
    monkeypatch.setattr(chunk, "is_exporting", lambda: True)
    for x, exact in zip(chunk.multiply_out(*gates(ends)), expected, strict=True):
        assert torch.equal(x, exact)


# At 0 no factor may be divided out: the derivative is the product of the others.
@ENDS
def test_gradients_by_the_gates_are_those_of_autograd(ends: float | None) -> None:
    leaves = [gate.requires_grad_() for gate in gates(ends)]
    exact = by_definition(*leaves)
    by = chunk.Gates(*(random(*x.shape, seed=10 + i) for i, x in enumerate(exact)))
    expected = torch.autograd.grad(list(exact), leaves, list(by))
    with torch.no_grad():
        found = chunk.gates_backward(chunk.multiply_out(*leaves), by)
    for gradient, gradient_exact in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, gradient_exact, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_surprises_are_the_gradients_of_the_loss_by_every_weight(depth: int) -> None:
    C = tuple((random(1, 3, 3, seed=layer) - 0.5).requires_grad_() for layer in range(depth))
    k, v = random(1, 4, 3, seed=7), random(1, 4, 3, seed=8)
    x = k
    for layer, w in enumerate(C):
        x = (silu(x) if layer else x) @ w
    expected = torch.autograd.grad((x - v).square().sum(), C)
    keys = chunk.surprises(tuple(w.detach() for w in C), k, v)
    for x, error, gradient in zip(keys.X, keys.E, expected, strict=True):
        torch.testing.assert_close(-x.mT @ error, gradient, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("to_init", [False, True])
def test_a_chunk_of_one_token_is_the_recurrence(to_init: bool) -> None:
    alpha, eta, theta = (random(1, 1, 1, seed=seed) for seed in range(3))
    gates_1 = chunk.Gates(*(x[:, 0] for x in chunk.gates_of(chunk.multiply_out(alpha, eta, theta))))
    W, S, W_0 = ((random(1, 3, 3, seed=seed),) for seed in (3, 4, 5))
    q, k, v = (random(1, 1, 3, seed=seed) for seed in (6, 7, 8))
    keys = chunk.surprises(W, k, v)
    target = W_0 if to_init else ()
    surprise = 2 * k.mT @ (k @ W[0] - v)
    momentum = eta * S[0] - theta * surprise
    weights = (1 - alpha) * W[0] + momentum + (alpha * W_0[0] if to_init else 0)
    (new_W,), (new_S,) = chunk.write(keys, W, S, target, gates_1)
    y, _ = chunk.read(q, keys, W, S, target, gates_1)
    torch.testing.assert_close(new_S, momentum, rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(new_W, weights, rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(y, q @ weights, rtol=ROUNDING, atol=ROUNDING)
