"""Token mixers to compare the memory with: attention, and the selective state space that SiMBA uses.

Each reads (batch, tokens, d_model), and `masked` (batch, tokens) tokens: no attention goes to them, and they leave the
state space's state as it is (its convolution still sees them).

Sources: Attention Is All You Need (Vaswani et al., 2017) with rotary positions (Su et al., 2021); Mamba (Gu and Dao,
2023), algorithm 2; SiMBA (Patro and Agneeswaran, 2024), section 3.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.compiler import is_exporting
from torch.nn.functional import scaled_dot_product_attention, silu, softplus

from .attention import rotate
from .config import ModelConfig
from .memory import CausalConv


class Attention(nn.Module):
    """Self-attention of all tokens with all: a window ends at the forecast origin, so none of them is the future."""

    IS_CAUSAL = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.project_qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=False)
        self.project_out = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        qkv = self.project_qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # each (batch, heads, tokens, head_dim)
        mask = None
        if masked is not None:
            # A token may always attend to itself: a row with no key at all would be NaN.
            mask = (~masked[:, None, None, :]) | torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        place = torch.arange(x.shape[1], device=x.device)
        y = scaled_dot_product_attention(
            rotate(q, place), rotate(k, place), v, attn_mask=mask, is_causal=self.IS_CAUSAL
        )
        out: Tensor = self.project_out(y.transpose(1, 2).flatten(2))
        return out


class Mamba(nn.Module):
    """The selective state space, token by token in plain PyTorch."""

    STATE, EXPAND = 16, 2
    SEGMENT = 16  # tokens whose states are held at once

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        inner = self.EXPAND * config.d_model
        self.rank = math.ceil(config.d_model / 16)
        self.project_in = nn.Linear(config.d_model, 2 * inner, bias=False)
        self.conv = CausalConv(inner)
        self.project_x = nn.Linear(inner, self.rank + 2 * self.STATE, bias=False)
        self.project_dt = nn.Linear(self.rank, inner)
        self.log_a = nn.Parameter(torch.arange(1.0, self.STATE + 1).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.project_out = nn.Linear(inner, config.d_model, bias=False)
        with torch.no_grad():  # dt log-uniform in [1e-3, 1e-1] at first, through softplus
            self.project_dt.weight.uniform_(-(self.rank**-0.5), self.rank**-0.5)
            dt = torch.exp(torch.rand(inner) * math.log(100) + math.log(1e-3))
            self.project_dt.bias.copy_(dt + torch.log(-torch.expm1(-dt)))

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        x, gate = self.project_in(x).chunk(2, dim=-1)
        x = silu(self.conv(x)[0])
        dt, b, c = self.project_x(x).split([self.rank, self.STATE, self.STATE], dim=-1)
        dt = softplus(self.project_dt(dt))  # (batch, tokens, inner)
        if masked is not None:
            dt = dt.masked_fill(masked.unsqueeze(-1), 0)
        rate = -self.log_a.exp()
        state = x.new_zeros(x.shape[0], *rate.shape, dtype=rate.dtype)
        outputs = []
        with torch.autocast(x.device.type, enabled=False):
            parts = (part.to(rate.dtype).transpose(0, 1).split(self.SEGMENT) for part in (dt, x, b, c))
            for segment in zip(*parts, strict=True):
                y, state = _StateSpace.apply(*segment, rate, state)  # type: ignore[no-untyped-call]
                outputs.append(y)
        y = torch.cat(outputs).transpose(0, 1) + self.skip * x
        out: Tensor = self.project_out(y * silu(gate))
        return out


class _StateSpace(torch.autograd.Function):
    """h_t = exp(dt_t rate) h_{t-1} + dt_t x_t b_t, y_t = c_t h_t over a segment of tokens.

    dt, x (tokens, batch, inner), b, c (tokens, batch, state), rate (inner, state), h_0 (batch, inner, state) -> y and
    the last h. Its backward is written out: the states, which are sixteen times what is read, are made again rather
    than kept, a segment at a time that a processor's cache holds.
    """

    @staticmethod
    def forward(dt: Tensor, x: Tensor, b: Tensor, c: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        _, states = _states(dt, x, b, rate, state)
        return (states @ c.unsqueeze(-1)).squeeze(-1), states[-1].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, d_last: Tensor) -> tuple[Tensor, ...]:
        dt, x, b, c, rate, state = ctx.saved_tensors
        decay, states = _states(dt, x, b, rate, state)
        d_c = (dy.unsqueeze(-2) @ states).squeeze(-2)
        d_states = dy.unsqueeze(-1) * c.unsqueeze(-2)
        d_states[-1] += d_last
        for i in reversed(range(len(dt) - 1)):
            d_states[i].addcmul_(d_states[i + 1], decay[i + 1])
        d_written = (d_states @ b.unsqueeze(-1)).squeeze(-1)  # by dt x
        d_b = ((dt * x).unsqueeze(-2) @ d_states).squeeze(-2)
        d_before = d_states.mul_(decay)  # by h_{t-1}
        d_state = d_before[0].clone()
        d_before[1:] *= states[:-1]
        d_before[0] *= state  # by dt rate
        d_dt = (d_before * rate).sum(-1) + d_written * x
        return d_dt, d_written * dt, d_b, d_c, (d_before * dt.unsqueeze(-1)).sum((0, 1)), d_state


def _states(dt: Tensor, x: Tensor, b: Tensor, rate: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """exp(dt rate) and h of each token, (tokens, batch, inner, state)."""
    decay = (dt.unsqueeze(-1) * rate).exp_()
    states = (dt * x).unsqueeze(-1) * b.unsqueeze(-2)
    if is_exporting():  # a graph has no writes in place, and would copy all states for each
        found = [state]
        for d, h in zip(decay.unbind(), states.unbind(), strict=True):
            found.append(torch.addcmul(h, d, found[-1]))
        return decay, torch.stack(found[1:])
    for d, h in zip(decay, states, strict=True):
        state = h.addcmul_(d, state)
    return decay, states
