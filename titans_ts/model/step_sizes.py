"""How large a deep memory's steps may be: tokens of a chunk that have similar keys share one.

The gradients of a chunk are taken at the same weights and add up, so n equal keys at the step size of one overshoot n
times; but a bound of 1/n for every token lets a key that comes once be written by an n-th alone. With g_t in [0, 1]
what token t asks for, and unit keys,

    theta_t = FULL (1 - eta_t) g_t prod_{s < t} (1 - g_s (k_s . k_t)^2)        s in the chunk of t

Of equal keys each takes g of what those before it have left, and all together take at most FULL (1 - eta); orthogonal
keys take nothing from each other. FULL = 1/2 is the delta rule's step in a linear memory, whose error is zero after one
such write; in a deep one it is about a fourth of that. The limit was found by trial, as the tests tell.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

FULL = 0.5
MOST_TAKEN = 1 - 1e-4  # by one token, of what another may take: rounding could make it more than all


def shares(asked: Tensor, keys: Tensor, chunk_size: int) -> Tensor:
    """What each token gets of what it asks for, g_t prod_{s < t} (1 - g_s (k_s . k_t)^2) in its chunk.

    Parameters
    ----------
    asked : Tensor (batch, tokens, heads)
        g in [0, 1], from the first token of a chunk on; 0 for tokens that write nothing.
    keys : Tensor (batch, tokens, heads, head_dim)
        Of length one at most.
    chunk_size : int

    Returns
    -------
    Tensor (batch, tokens, heads)
    """
    tokens = asked.shape[1]
    size = max(1, min(chunk_size, tokens))
    if tokens % size:
        asked, keys = pad(asked, (0, 0, 0, -tokens % size)), pad(keys, (0, 0, 0, 0, 0, -tokens % size))
    asked = asked.transpose(1, 2).unflatten(2, (-1, size))  # (batch, heads, chunks, chunk)
    keys = keys.to(asked.dtype).transpose(1, 2).unflatten(2, (-1, size))
    left, _ = _Left.apply((keys @ keys.mT).square() * asked.unsqueeze(-2))  # type: ignore[no-untyped-call]
    sizes: Tensor = (asked * left).flatten(2)[..., :tokens].transpose(1, 2)
    return sizes


class _Left(torch.autograd.Function):
    """prod_{s < t} (1 - x[t, s]) of x (..., chunk, chunk): what tokens s have left of what token t may take."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        kept = 1 - x.tril(-1).clamp(max=MOST_TAKEN)
        return kept.prod(-1), kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        left, kept = ctx.saved_tensors
        slope: Tensor = ((-grad * left).unsqueeze(-1) / kept).tril(-1)
        return slope
