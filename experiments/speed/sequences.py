"""The blocks whose throughput is compared, and one training pass of theirs over long sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from titans_ts.model.config import ModelConfig
from titans_ts.model.mixers import Attention
from titans_ts.model.simba import SimbaBlock

KINDS: dict[str, dict[str, Any]] = {
    "lmm, one layer": {"memory_depth": 1},
    "lmm, two layers": {"memory_depth": 2},
    "mac": {"variant": "mac"},
    "mag": {"variant": "mag"},
    "mal": {"variant": "mal"},
    "attention": {"mixer": "attention"},
    "window attention": {"mixer": "window_attention"},
    "mamba": {"mixer": "mamba"},
}


class CausalAttention(Attention):
    """Attention of each token to itself and all before it."""

    IS_CAUSAL = True

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        """(batch, tokens, d_model) -> the same; no token can be masked."""
        if masked is not None:
            raise ValueError("`masked` must be None for causal attention.")
        return super().forward(x)


def block_of(kind: str, **size: Any) -> SimbaBlock:
    """A block that mixes tokens by one of `KINDS`, and features by a perceptron."""
    common: dict[str, Any] = dict(lookback=1, horizon=1, feature_mixer="mlp", dropout=0.0)
    config = ModelConfig(**common | size | KINDS[kind])
    block = SimbaBlock(config)
    if config.mixer == "attention":
        block.mixer = CausalAttention(config)
    return block


def training_pass(block: SimbaBlock, batch: int, steps: int, autocast: torch.dtype | None = None) -> Callable[[], None]:
    """The forward pass over random tokens, and the gradients by all weights and by the tokens."""
    assert block.mixer_norm is not None  # every kind has a mixer
    width, device = block.mixer_norm.normalized_shape[0], block.mixer_norm.weight.device
    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(batch, steps, width, generator=generator, device=device, requires_grad=True)
    leaves = [x, *block.parameters()]

    def run() -> None:
        with torch.autocast(device.type, autocast, enabled=autocast is not None):
            y = block(x)
        torch.autograd.grad(y.float().square().mean(), leaves)

    return run
