"""Token mixers to compare the memory with: attention, and the selective state space that SiMBA uses.

Each reads (batch, tokens, d_model), and `masked` (batch, tokens) tokens: no attention goes to them, and they leave the
state space's state as it is (its convolution still sees them).

Sources: Attention Is All You Need (Vaswani et al., 2017) with rotary positions (Su et al., 2021); Mamba (Gu and Dao,
2023), algorithm 2; SiMBA (Patro and Agneeswaran, 2024), section 3.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu, softplus

from .attention import rotate
from .config import ModelConfig
from .memory import CausalConv


class Attention(nn.Module):
    """Self-attention of all tokens with all: a window ends at the forecast origin, so none of them is the future."""

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
        y = scaled_dot_product_attention(rotate(q, place), rotate(k, place), v, attn_mask=mask)
        out: Tensor = self.project_out(y.transpose(1, 2).flatten(2))
        return out


class Mamba(nn.Module):
    """The selective state space, token by token in plain PyTorch: sequences here have tens of tokens."""

    STATE, EXPAND = 16, 2

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
        decay = torch.exp(dt.unsqueeze(-1) * -self.log_a.exp())  # (batch, tokens, inner, state)
        write = (dt * x).unsqueeze(-1) * b.unsqueeze(-2)
        h = torch.zeros_like(write[:, 0])
        outputs = []
        for d, w, read in zip(decay.unbind(1), write.unbind(1), c.unbind(1), strict=True):
            h = d * h + w
            outputs.append((h @ read.unsqueeze(-1)).squeeze(-1))
        y = torch.stack(outputs, dim=1) + self.skip * x
        out: Tensor = self.project_out(y * silu(gate))
        return out
