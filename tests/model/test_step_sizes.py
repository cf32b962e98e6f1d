"""Steps that tokens of a chunk with similar keys share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from titans_ts.kernels import memory_scan
from titans_ts.model.step_sizes import FULL, shares

CHUNK, DIM = 4, 6
# float64 products of a few factors, in another order.
TOLERANCE = 1e-12


def case(tokens: int, batch: int = 2, heads: int = 3, dim: int = DIM) -> tuple[Tensor, Tensor]:
    """What tokens ask for, and keys."""
    generator = torch.Generator().manual_seed(tokens)
    asked = torch.rand(batch, tokens, heads, generator=generator, dtype=torch.float64)
    keys = torch.randn(batch, tokens, heads, dim, generator=generator, dtype=torch.float64)
    return asked, normalize(keys, dim=-1)


def by_hand(asked: Tensor, keys: Tensor, chunk_size: int) -> Tensor:
    found = [asked[:, :0]]
    for t in range(asked.shape[1]):
        share = asked[:, t]
        for s in range(t - t % chunk_size, t):
            share = share * (1 - asked[:, s] * (keys[:, s] * keys[:, t]).sum(-1).square())
        found.append(share.unsqueeze(1))
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 5, 11])
@pytest.mark.parametrize("chunk_size", [1, CHUNK, 16])
def test_each_takes_what_similar_keys_before_it_have_left(tokens: int, chunk_size: int) -> None:
    asked, keys = case(tokens)
    found = shares(asked, keys, chunk_size)
    torch.testing.assert_close(found, by_hand(asked, keys, chunk_size), rtol=TOLERANCE, atol=TOLERANCE)


def test_gradients_are_those_of_the_product() -> None:
    asked, keys = (x.requires_grad_() for x in case(7))
    weight = torch.randn(asked.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = torch.autograd.grad((shares(asked, keys, CHUNK) * weight).sum(), (asked, keys))
    expected = torch.autograd.grad((by_hand(asked, keys, CHUNK) * weight).sum(), (asked, keys))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def test_equal_keys_have_one_step_together_and_orthogonal_ones_each_their_own() -> None:
    asked = torch.full((1, 5, 1), 0.75, dtype=torch.float64)
    equal = torch.eye(5, dtype=torch.float64)[:1].expand(5, -1)[None, :, None]
    found = shares(asked, equal, 5).flatten()
    torch.testing.assert_close(found, 0.75 * 0.25 ** torch.arange(5, dtype=torch.float64))
    orthogonal = torch.eye(5, dtype=torch.float64)[None, :, None]
    assert torch.equal(shares(asked, orthogonal, 5), asked)


def test_what_is_asked_for_in_full_leaves_next_to_nothing_and_finite_gradients() -> None:
    asked = torch.ones(1, 4, 1, requires_grad=True)
    keys = normalize(torch.ones(1, 4, 1, 8), dim=-1).requires_grad_()
    found = shares(asked, keys, 4)
    assert found.flatten().tolist() == pytest.approx([1, 1e-4, 1e-8, 1e-12], rel=2e-3, abs=1e-7)
    found.sum().backward()
    assert asked.grad is not None
    assert asked.grad.isfinite().all()
    assert keys.grad is not None
    assert keys.grad.isfinite().all()


def test_one_write_in_full_is_the_delta_rule() -> None:
    """A linear memory answers each of a chunk's orthogonal keys with its value after one write."""
    keys = torch.eye(DIM, dtype=torch.float64)[None, :, None]
    values = torch.randn(1, DIM, 1, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    none, all_of_it = torch.zeros(1, DIM, 1, dtype=torch.float64), torch.ones(1, DIM, 1, dtype=torch.float64)
    theta = FULL * shares(all_of_it, keys, DIM)
    weights = (torch.zeros(1, DIM, DIM, dtype=torch.float64),)
    y = memory_scan(keys, keys, values, none, none, theta, weights, chunk_size=DIM)
    torch.testing.assert_close(y, values, rtol=TOLERANCE, atol=TOLERANCE)


def keys_of(kind: str, tokens: int, dim: int, generator: torch.Generator) -> Tensor:
    x = torch.randn(tokens, dim, generator=generator, dtype=torch.float64)
    if kind == "equal":
        x = x[:1].expand(tokens, dim)
    elif kind == "near":
        x = x[:1] + 0.3 * x
    elif kind == "few":
        x = x[torch.randint(4, (tokens,), generator=generator)] + 0.05 * x
    elif kind == "plane":
        x = torch.cat([x[:, :2], 0 * x[:, 2:]], dim=1)
    elif kind == "walk":
        x = x.cumsum(0)
    return normalize(x, dim=-1)


@pytest.mark.parametrize("kind", ["equal", "near", "few", "plane", "walk", "random"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_largest_steps_are_stable_whatever_the_keys(depth: int, kind: str) -> None:
    """At twice as much, depth 1 and 2 overflow for most of these keys."""
    tokens, dim, chunk = 2048, 16, 32
    generator = torch.Generator().manual_seed(0)
    keys = keys_of(kind, tokens, dim, generator)[None, :, None]
    values = normalize(torch.randn(1, tokens, 1, dim, generator=generator, dtype=torch.float64), dim=-1)
    alpha, ones = torch.full((1, tokens, 1), 0.001, dtype=torch.float64), torch.ones(1, tokens, 1, dtype=torch.float64)
    start = [torch.randn(1, dim, dim, generator=generator, dtype=torch.float64) / dim**0.5 for _ in range(depth)]
    for eta in (0.0, 0.9):
        theta = FULL * (1 - eta) * shares(ones, keys, chunk)
        how = {"chunk_size": chunk, "decay_to": "zero" if depth == 1 else "init"}
        y = memory_scan(keys, keys, values, alpha, eta * ones, theta, tuple(start), **how)
        assert y.abs().max() < 20
