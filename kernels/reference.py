"""The oracle: the memory token by token, as the paper writes it.

Titans: Learning to Memorize at Test Time (Behrouz et al., 2024), equations 12 to 15, with the surprise taken at the
weights held when the token's chunk began (section 3.2). The inner gradient comes from autograd, so nothing here
repeats the algebra that `chunkwise` relies on. Slow, and meant to be.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import silu

from .state import MemoryState


def scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
) -> tuple[Tensor, MemoryState | None]:
    """Run the recurrence; arguments as `memory_scan` hands them on, checked and in one dtype.

    Source: u_t is eq. 12's surprise, S_t eq. 14, W_t eq. 13, y_t eq. 15.
    """
    B, T = q.shape[:2]
    init = tuple(w.expand(B, *w.shape) for w in weights)  # (B, H, in, out)
    if state is None:
        W, S, C, offset = init, tuple(torch.zeros_like(w) for w in init), init, 0
    else:
        W, S, C, offset = state.weights, state.momentum, state.chunk_start, state.offset

    outputs = []
    for t in range(T):
        if offset == 0:
            C = W
        u = _surprise(C, k[:, t], v[:, t])
        alpha_t, eta_t, theta_t = (g[:, t, :, None, None] for g in (alpha, eta, theta))  # (B, H, 1, 1)
        S = tuple(eta_t * s - theta_t * g for s, g in zip(S, u, strict=True))
        W = tuple((1 - alpha_t) * w + s for w, s in zip(W, S, strict=True))
        if decay_to == "init":
            W = tuple(w + alpha_t * w0 for w, w0 in zip(W, init, strict=True))
        outputs.append(_mlp(W, q[:, t]))
        offset = (offset + 1) % chunk_size
    y = torch.stack(outputs, dim=1) if outputs else q.clone()
    if not return_state:
        return y, None
    return y, MemoryState(weights=W, momentum=S, chunk_start=W if offset == 0 else C, offset=offset)


def _mlp(weights: tuple[Tensor, ...], x: Tensor) -> Tensor:
    x = x.unsqueeze(-2)  # (B, H, 1, D)
    for w in weights[:-1]:
        x = silu(x @ w)
    return (x @ weights[-1]).squeeze(-2)


def _surprise(weights: tuple[Tensor, ...], k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """The gradient of |M(k) - v|^2 by every weight; each (batch, head) has weights of its own, so a sum serves."""
    if torch.is_inference_mode_enabled():  # where torch 2.11 takes every gradient for zero
        with torch.inference_mode(mode=False):
            return _surprise(tuple(w.clone() for w in weights), k.clone(), v.clone())

    def loss(weights: tuple[Tensor, ...]) -> Tensor:
        return (_mlp(weights, k) - v).square().sum()

    gradients: tuple[Tensor, ...] = torch.func.grad(loss)(weights)
    return gradients
