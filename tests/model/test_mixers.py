"""What the memory is compared with, against hand-written loops."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu, softplus

from titans_ts.model import ModelConfig, mixers
from titans_ts.model.mixers import Attention, Mamba

# float64 sums of tens of terms in another order.
TOLERANCE = 1e-12
# Attention takes its angles from float32, whatever the tokens are.
ROTATION_TOLERANCE = 1e-6


def make(kind: type[Attention | Mamba], **changes: Any) -> Any:
    torch.manual_seed(0)
    return kind(ModelConfig(**{"lookback": 96, "horizon": 24, "d_model": 8, "n_heads": 2, **changes})).double()


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Attention


def attention_by_hand(layer: Attention, x: Tensor) -> Tensor:
    """One query, key and head at a time; a rotation is the product with exp(i angle)."""
    B, T, d_model = x.shape
    size = d_model // layer.n_heads
    rate = 10_000.0 ** (-torch.arange(size // 2, dtype=torch.float64) / (size // 2))

    def rotate(u: Tensor, position: int) -> Tensor:
        z = torch.complex(u[: size // 2], u[size // 2 :]) * torch.exp(1j * position * rate)
        return torch.cat([z.real, z.imag])

    q, k, v = (x @ layer.project_qkv.weight.T).reshape(B, T, 3, layer.n_heads, size).unbind(2)
    out = torch.zeros(B, T, layer.n_heads, size, dtype=x.dtype)
    for b in range(B):
        for h in range(layer.n_heads):
            for t in range(T):
                query = rotate(q[b, t, h], t)
                scores = torch.stack([query @ rotate(k[b, s, h], s) for s in range(T)]) / math.sqrt(size)
                out[b, t, h] = torch.softmax(scores, 0) @ v[b, :, h]
    return out.flatten(2) @ layer.project_out.weight.T


@pytest.mark.parametrize("n_heads", [1, 2])
def test_attention_is_a_softmax_over_rotated_keys(n_heads: int) -> None:
    layer, x = make(Attention, n_heads=n_heads), tokens(2, 5)
    expected = attention_by_hand(layer, x)
    torch.testing.assert_close(layer(x), expected, rtol=ROTATION_TOLERANCE, atol=ROTATION_TOLERANCE)


def test_attention_knows_the_order_of_tokens() -> None:
    layer, x = make(Attention), tokens(1, 5)
    assert (layer(x.flip(1)).flip(1) - layer(x)).abs().max() > 1e-3


def test_attention_ignores_masked_keys_and_the_place_of_the_origin() -> None:
    """Masked tokens in front shift every position: scores depend on differences of positions alone."""
    layer, x = make(Attention), tokens(2, 5)
    for ahead in (1, 7):
        padded = torch.cat([1e3 * tokens(2, ahead, seed=1), x], dim=1)
        masked = (torch.arange(ahead + 5) < ahead).expand(2, -1)
        found = layer(padded, masked)
        assert found.isfinite().all()
        torch.testing.assert_close(found[:, ahead:], layer(x), rtol=ROTATION_TOLERANCE, atol=ROTATION_TOLERANCE)


def test_attention_is_finite_where_every_token_is_masked() -> None:
    layer, x = make(Attention), tokens(1, 4).requires_grad_()
    y = layer(x, torch.ones(1, 4, dtype=torch.bool))
    y.sum().backward()
    value = (x @ layer.project_qkv.weight.T)[..., 16:]
    torch.testing.assert_close(y, value @ layer.project_out.weight.T)  # each attends to itself
    assert x.grad.isfinite().all()


# Mamba


def mamba_by_hand(layer: Mamba, x: Tensor) -> Tensor:
    """One channel and one number of the state at a time (Gu and Dao, 2023, algorithm 2)."""
    T, inner, size = x.shape[0], layer.skip.numel(), layer.STATE
    u, gate = (x @ layer.project_in.weight.T).split(inner, dim=-1)
    before = torch.cat([torch.zeros(3, inner, dtype=x.dtype), u])
    u = torch.stack([sum(layer.conv.weight[i] * before[t + i] for i in range(4)) for t in range(T)])
    u = silu(u + layer.conv.bias)
    dt, b, c = (u @ layer.project_x.weight.T).split([layer.rank, size, size], dim=-1)
    dt = softplus(dt @ layer.project_dt.weight.T + layer.project_dt.bias)
    y = layer.skip * u
    for i in range(inner):
        for n in range(size):
            h = torch.zeros((), dtype=x.dtype)
            for t in range(T):
                h = torch.exp(-dt[t, i] * torch.exp(layer.log_a[i, n])) * h + dt[t, i] * b[t, n] * u[t, i]
                y[t, i] = y[t, i] + c[t, n] * h
    return (y * silu(gate)) @ layer.project_out.weight.T


def test_mamba_is_its_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mamba, "SEGMENT", 2)
    layer, x = make(Mamba), tokens(2, 5)
    with torch.no_grad():
        layer.conv.bias.normal_()
        layer.log_a.add_(0.1 * torch.randn_like(layer.log_a))
        expected = torch.stack([mamba_by_hand(layer, sample) for sample in x])
    torch.testing.assert_close(layer(x), expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_gradients_of_mambas_state_space_hold_over_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mamba, "SEGMENT", 3)
    layer, x = make(Mamba, d_model=4), tokens(2, 7)[..., :4].requires_grad_()
    weights = [layer.log_a, layer.project_dt.weight, layer.project_x.weight, layer.skip]
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *weights))


def test_mamba_starts_with_steps_between_a_thousandth_and_a_tenth() -> None:
    dt = softplus(make(Mamba, d_model=256).project_dt.bias)
    # The bias is solved for in float32, where 1 - exp(-dt) of a thousandth keeps four digits.
    assert 1e-3 * (1 - 1e-3) <= dt.min() <= 2e-3
    assert 5e-2 <= dt.max() <= 1e-1 * (1 + 1e-3)


@pytest.mark.parametrize("at", [1, 4, 7])
def test_mamba_ignores_the_future(at: int) -> None:
    layer, x = make(Mamba), tokens(2, 9)
    changed = layer(torch.cat([x[:, :at], tokens(2, 9 - at, seed=1)], dim=1))
    torch.testing.assert_close(changed[:, :at], layer(x)[:, :at], rtol=TOLERANCE, atol=TOLERANCE)
    assert (changed[:, at:] != layer(x)[:, at:]).any()


@pytest.mark.parametrize("masked", [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0]], ids=str)
def test_masked_tokens_leave_mambas_state(masked: list[int]) -> None:
    layer, x, still = make(Mamba), tokens(2, 5), torch.tensor(masked).bool()
    with torch.no_grad():
        layer.conv.weight[:3] = 0  # the convolution alone lets a token see its neighbours
    found = layer(x, still.expand(2, -1))[:, ~still]
    torch.testing.assert_close(found, layer(x[:, ~still]), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_graph_has_the_same_state_space(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = make(Mamba), tokens(2, 35)
    expected = layer(x)
    monkeypatch.setattr(mixers, "is_exporting", lambda: True)
    torch.testing.assert_close(layer(x), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("kind", [Attention, Mamba])
def test_runs_in_automatic_mixed_precision(kind: type[Attention | Mamba]) -> None:
    layer, x = make(kind).float(), tokens(2, 9).float()
    exact = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    # bfloat16 keeps 8 bits: 0.4% of each factor, through four products.
    assert 0 < (found.float() - exact).abs().max() < 0.03 * exact.abs().max()
    found.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
