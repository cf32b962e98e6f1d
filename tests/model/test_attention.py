"""Causal attention to a window and to persistent tokens, against a loop over queries and keys."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig, attention
from titans_ts.model.attention import SlidingWindow, WindowAttention, WindowState, rotate

WINDOW, PERSISTENT, D_MODEL, HEADS = 5, 3, 8, 2
# float64 sums of tens of terms in another order.
TOLERANCE = 1e-12


def make(**changes: Any) -> WindowAttention:
    torch.manual_seed(0)
    size = {"d_model": D_MODEL, "n_heads": HEADS, "attention_window": WINDOW, "n_persistent": PERSISTENT}
    return WindowAttention(
        ModelConfig(**{"lookback": 96, "horizon": 24, "mixer": "window_attention"} | size | changes)
    ).double()


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


def by_hand(layer: WindowAttention, x: Tensor, masked: Tensor) -> Tensor:
    """One query, key and head at a time; a rotation is the product with exp(i angle)."""
    size, window = D_MODEL // HEADS, layer.attend.window
    rate = 10_000.0 ** (-torch.arange(size // 2, dtype=torch.float64) / (size // 2))

    def turned(u: Tensor, by: int) -> Tensor:
        z = torch.complex(u[: size // 2], u[size // 2 :]) * torch.exp(1j * by * rate)
        return torch.cat([z.real, z.imag])

    def heads(rows: Tensor) -> tuple[Tensor, ...]:
        return (rows @ layer.attend.project_qkv.weight.T).reshape(*rows.shape[:-1], 3, HEADS, size).unbind(-3)

    (q, k, v), (_, p_k, p_v) = heads(x), heads(layer.persistent)
    out = torch.zeros(*x.shape[:2], HEADS, size, dtype=x.dtype)
    for b, t, h in torch.cartesian_prod(*(torch.arange(n) for n in (*x.shape[:2], HEADS))).tolist():
        seen = [s for s in range(max(0, t - window + 1), t + 1) if s == t or not masked[b, s]]
        scores = [q[b, t, h] @ key for key in p_k[:, h]]  # whatever the distance
        scores += [turned(q[b, t, h], t - s) @ k[b, s, h] for s in seen]
        values = torch.cat([p_v[:, h], v[b, seen, h]])
        out[b, t, h] = torch.softmax(torch.stack(scores) / math.sqrt(size), 0) @ values
    return out.flatten(2) @ layer.project_out.weight.T


@pytest.mark.parametrize("n_tokens", [1, 4, 5, 6, 13])
@pytest.mark.parametrize("window", [1, 5])
def test_is_a_softmax_over_the_window_and_the_persistent_tokens(n_tokens: int, window: int) -> None:
    layer, x = make(attention_window=window), tokens(2, n_tokens)
    masked = torch.rand(2, n_tokens, generator=torch.Generator().manual_seed(1)) < 0.4
    close(layer(x, masked), by_hand(layer, x, masked))
    close(layer(x), by_hand(layer, x, torch.zeros_like(masked)))


def test_without_persistent_tokens_a_token_sees_the_window_alone() -> None:
    layer, x = make(n_persistent=0), tokens(2, 7)
    close(layer(x), by_hand(layer, x, torch.zeros(2, 7, dtype=torch.bool)))


def changed_by(layer: WindowAttention, x: Tensor, at: int) -> list[int]:
    """The tokens whose output changes with token `at`."""
    other = x.clone()
    other[:, at] += 1
    return ((layer(other) - layer(x)).abs() > TOLERANCE).any(-1).any(0).nonzero().flatten().tolist()


@pytest.mark.parametrize("at", [0, 3, 4, 5, 9, 12])
def test_a_token_is_seen_by_the_window_after_it_and_by_no_other(at: int) -> None:
    assert changed_by(make(), tokens(2, 13), at) == list(range(at, min(13, at + WINDOW)))


def test_persistent_tokens_are_seen_by_all() -> None:
    layer, x = make(), tokens(2, 13)
    before = layer(x)
    with torch.no_grad():
        layer.persistent[0] += 1
    assert (layer(x) != before).any(-1).all()


@pytest.mark.parametrize("window", [1, 2, 5, 40])
def test_any_cut_gives_what_one_pass_gives(window: int) -> None:
    layer, x = make(attention_window=window), tokens(2, 13)
    masked = torch.rand(2, 13, generator=torch.Generator().manual_seed(1)) < 0.3
    whole, end = layer.step(x, None, masked)
    close(layer(x, masked), whole)
    for sizes in ([1] * 13, [4, 9], [5, 5, 3], [12, 1]):
        state: WindowState | None = None
        parts = []
        for part, hidden in zip(x.split(sizes, 1), masked.split(sizes, 1), strict=True):
            out, state = layer.step(part, state, hidden)
            parts.append(out)
        close(torch.cat(parts, 1), whole)
        assert torch.equal(state.rows, end.rows)
        assert torch.equal(state.masked, end.masked)
        assert state.rows.shape[1] == min(13, window - 1), "what is carried does not grow"


def test_a_sample_does_not_depend_on_the_others() -> None:
    layer, x = make(), tokens(3, 13)
    close(layer(x)[1:2], layer(x[1:2]))


def test_masked_tokens_are_seen_by_themselves_alone_and_give_no_nan() -> None:
    layer, x = make(n_persistent=0), tokens(1, 9).requires_grad_()
    y = layer(x, torch.ones(1, 9, dtype=torch.bool))
    (grad,) = torch.autograd.grad(y[:, 4].sum(), x)
    assert y.isfinite().all()
    assert grad.abs().sum(-1).nonzero()[:, 1].tolist() == [4]


def test_positions_are_distances() -> None:
    """The same tokens, begun anywhere in a block, get the same output once the window is past what was before."""
    layer, x = make(), tokens(1, 13)
    for ahead in (1, 3, 7):
        moved = layer(torch.cat([tokens(1, ahead, seed=1), x], dim=1))[:, ahead:]
        close(moved[:, WINDOW - 1 :], layer(x)[:, WINDOW - 1 :])


def test_a_rotation_keeps_the_length_and_sees_the_distance_alone() -> None:
    u, w = tokens(2, 1)
    at = torch.tensor([7])
    close(rotate(u, at).norm(), u.norm())
    close(rotate(u, at) @ rotate(w, at + 5).T, rotate(u, at + 90) @ rotate(w, at + 95).T)


def test_a_graph_has_the_same_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, masked = make(), tokens(2, 13), torch.arange(13).expand(2, -1) % 3 == 1
    expected = layer(x, masked)
    monkeypatch.setattr(attention, "is_exporting", lambda: True)
    close(layer(x, masked), expected)


def test_narrow_numbers_stay_narrow() -> None:
    layer = make().bfloat16()
    x = tokens(2, 7)
    out = layer(x.bfloat16())
    assert out.dtype == torch.bfloat16
    # 8 bits of mantissa, through two products.
    torch.testing.assert_close(out.double(), make()(x), rtol=0.05, atol=0.05)


def test_no_tokens_are_no_error() -> None:
    layer = SlidingWindow(ModelConfig(lookback=96, horizon=24, d_model=8, n_heads=2, attention_window=4, variant="mag"))
    y, state = layer(torch.zeros(2, 0, 8), torch.zeros(1, 3, 8))
    assert y.shape == (2, 0, 8)
    assert state.rows.shape == (2, 0, 8)
