"""Attention that is causal: to a sliding window of tokens and to persistent ones ahead of them all.

Sources: Attention Is All You Need (Vaswani et al., 2017); rotary positions (Su et al., 2021); persistent tokens
(Titans, Behrouz et al., 2024, section 3.3), seen by every token as in its figure 3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.compiler import is_exporting
from torch.nn.functional import pad, scaled_dot_product_attention

from .config import ModelConfig

BASE = 10_000.0  # of rotary positions


class WindowState(NamedTuple):
    """The last tokens that attention has read, at most one fewer than its window has."""

    rows: Tensor  # (batch, tokens, d_model)
    masked: Tensor  # (batch, tokens) of bool


class WindowAttention(nn.Module):
    """Each token attends to the `attention_window` tokens up to itself and to learned persistent ones.

    Parameters
    ----------
    config : ModelConfig
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.persistent = persistent_tokens(config)
        self.attend = SlidingWindow(config)
        self.project_out = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        """(batch, tokens, d_model) -> the same; no attention goes to the `masked` (batch, tokens) tokens."""
        return self.step(x, None, masked)[0]

    def step(
        self, x: Tensor, state: WindowState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, WindowState]:
        """Read on from `state`; any split of a sequence into steps gives what one pass gives."""
        y, after = self.attend(x, self.persistent.unsqueeze(0), state, masked)
        return self.project_out(y), after


class SlidingWindow(nn.Module):
    """Queries, keys and values of tokens, and what attention within a window makes of them.

    Positions are rotations, which scores see as distances alone. Prefix tokens have no place: their scores are those of
    unrotated queries and keys, so that they are as near to the last token as to the first.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.window, self.n_heads = config.attention_window, config.n_heads
        self.project_qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)

    def forward(
        self, x: Tensor, prefix: Tensor, state: WindowState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, WindowState]:
        """Attend from each token to the window's tokens up to it, and to the prefix.

        Parameters
        ----------
        x : Tensor (batch, tokens, d_model)
        prefix : Tensor (batch or 1, prefix tokens, d_model)
            Seen by all tokens.
        state : WindowState, optional
            The tokens before; none if None.
        masked : Tensor of bool (batch, tokens), optional
            Tokens that none but themselves attend to.

        Returns
        -------
        Tensor (batch, tokens, d_model)
            The heads beside each other.
        WindowState
        """
        tokens, window = x.shape[1], self.window
        masked = x.new_zeros(x.shape[:2], dtype=torch.bool) if masked is None else masked
        before = WindowState(x[:, :0], masked[:, :0]) if state is None else state
        rows, hidden = torch.cat([before.rows, x], dim=1), torch.cat([before.masked, masked], dim=1)
        first = max(0, rows.shape[1] - (window - 1))
        after = WindowState(rows[:, first:], hidden[:, first:])

        # Blocks as long as the window: each attends to itself and to the block before it.
        n_blocks = -(-tokens // window)
        ends = window - before.rows.shape[1], n_blocks * window - tokens
        hidden = pad(hidden, ends, value=True).unflatten(1, (-1, window))
        q, k, v = self.project_qkv(pad(rows, (0, 0, *ends))).unflatten(-1, (3, self.n_heads, -1)).unbind(2)
        q, k, v = (u.unflatten(1, (-1, window)).transpose(2, 3) for u in (q, k, v))  # (batch, blocks, heads, window, .)
        q, k, v, hidden = q[:, 1:], _pairs(k, 3), _pairs(v, 3), _pairs(hidden, 2)  # (batch, blocks, heads, 2 window, .)

        place = torch.arange(2 * window, device=x.device)
        distance = place[window:, None] - place
        seen = (distance >= 0) & (distance < window) & (~hidden[:, :, None, None, :] | (distance == 0))
        y = attend_with_prefix(q, k, v, seen, *self.keys_and_values(prefix), place[window:], place)
        return y.transpose(2, 3).flatten(1, 2)[:, :tokens].flatten(2), after

    def keys_and_values(self, prefix: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens, d_model) -> both (batch, 1, heads, tokens, head_dim)"""
        _, k, v = self.project_qkv(prefix).unflatten(-1, (3, self.n_heads, -1)).unbind(2)
        return k.transpose(1, 2).unsqueeze(1), v.transpose(1, 2).unsqueeze(1)


def persistent_tokens(config: ModelConfig) -> nn.Parameter:
    """The persistent tokens of a block (n_persistent, d_model), which are read like others."""
    return nn.Parameter(torch.randn(config.n_persistent, config.d_model))


def attend_with_prefix(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, prefix_k: Tensor, prefix_v: Tensor, at: Tensor, places: Tensor
) -> Tensor:
    """Attention of queries to the keys that they see, by distance, and to all keys of a prefix, which has no place.

    Parameters
    ----------
    q : Tensor (..., heads, queries, head_dim)
    k, v : Tensor (..., heads, keys, head_dim)
    seen : Tensor of bool, as (..., heads, queries, keys)
    prefix_k, prefix_v : Tensor, as (..., heads, prefix, head_dim)
    at, places : Tensor (queries,), (keys,)
        Where queries and keys are.

    Returns
    -------
    Tensor (..., heads, queries, head_dim)
    """
    scale = q.shape[-1] ** -0.5
    prefix_k, prefix_v = (u.expand(*k.shape[:-2], *u.shape[-2:]) for u in (prefix_k, prefix_v))
    # One product has both scores: queries as they are follow the rotated ones, and each key has zeros for the others.
    n_prefix, size = prefix_k.shape[-2:]
    q = torch.cat([rotate(q, at), q], dim=-1)
    k = torch.cat([pad(prefix_k, (size, 0)), pad(rotate(k, places), (0, size))], dim=-2)
    v = torch.cat([prefix_v, v], dim=-2)
    seen = pad(seen, (n_prefix, 0), value=True)
    if is_exporting() and q.ndim > 4:  # ONNX has attention of four dimensions alone
        lead = q.shape[:-3]
        q, k, v, seen = (x.expand(*lead, *x.shape[-3:]).flatten(0, -4) for x in (q, k, v, seen))
        y = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
        return y.reshape(*lead, *y.shape[1:])
    return scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)


def rotate(x: Tensor, places: Tensor) -> Tensor:
    """Rotary positions: (..., tokens, head_dim) at `places` (tokens,) -> the same shape."""
    half = x.shape[-1] // 2
    exact = torch.float64 if x.dtype == torch.float64 else torch.float32
    rate = BASE ** (-torch.arange(half, dtype=exact, device=x.device) / half)
    angle = places.unsqueeze(-1) * rate  # (tokens, half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)


def _pairs(blocks: Tensor, dim: int) -> Tensor:
    """Each block after the first behind the one before it, joined along `dim`."""
    return torch.cat([blocks[:, :-1], blocks[:, 1:]], dim=dim)
