"""The memory by chunks: the recurrence of `reference` in closed form, as matrix products.

Inside a chunk every surprise is taken at the weights C held when the chunk began, so the states of its tokens are
sums that need no scan. With b_t, e_t the products of (1 - alpha) and of eta up to t, and L_b[t, s], L_e[t, s] the
same products from s (not included) to t,

    A = (L_b L_e) diag(theta)        a = L_b e
    keys, through C:    X^1 = K,  Z = X C,  X' = silu(Z);   E^L = 2 (Z^L - V),  E = (E' C'^T) silu'(Z)
    queries:            Y = b (Q W) + a (Q S) - ((Q X^T) * A) E,   Q' = silu(Y)
    state:              W <- b_n W + a_n S - (A[n] X)^T E,         S <- e_n S - (L_e[n] theta X)^T E

(a prime marks the next layer). Forgetting towards the initial weights W_0 adds (1 - b) (Q W_0) and (1 - b_n) W_0.

Source: Titans (Behrouz et al., 2024), section 3.2, whose associative scan this replaces; any depth, any device.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import NamedTuple

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
    """Run the recurrence chunk by chunk; arguments as `memory_scan` hands them on, checked and in one dtype."""
    B, T = q.shape[:2]
    q, k, v = (x.permute(2, 0, 1, 3).contiguous() for x in (q, k, v))  # (H, B, T, D)
    alpha, eta, theta = (g.permute(2, 0, 1) for g in (alpha, eta, theta))  # (H, B, T)
    # Weights that the batch still shares keep a batch of 1, so that their products stay plain ones.
    init = tuple(w.unsqueeze(1) for w in weights)  # (H, 1, in, out)
    if state is None:
        W, S, C, offset = init, None, init, 0
    else:
        offset = state.offset
        groups = (state.weights, state.momentum, state.chunk_start if offset else state.weights)
        W, S, C = (tuple(w.transpose(0, 1) for w in group) for group in groups)
    target = init if decay_to == "init" else None

    sizes = _segments(T, chunk_size, offset)
    outputs = []
    # Split, not sliced: the gradient of a slice is as long as the sequence, for every chunk anew.
    parts = zip(*(x.split(sizes, dim=2) for x in (q, k, v)), _all_gates(alpha, eta, theta, sizes), strict=True)
    for i, (q_c, k_c, v_c, gates) in enumerate(parts):
        if offset == 0:
            C = W
        X, E = _surprises(C, k_c, v_c)
        outputs.append(_read(q_c, W, S, target, X, E, gates))
        if i < len(sizes) - 1 or return_state:
            W, S = _write(W, S, target, X, E, gates)
        offset = (offset + sizes[i]) % chunk_size

    y = (torch.cat(outputs, dim=2) if outputs else q.clone()).permute(1, 2, 0, 3)
    if not return_state:
        return y, None
    if S is None:
        S = tuple(torch.zeros_like(w) for w in W)

    def per_sample(group: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(w.transpose(0, 1).expand(B, *(-1,) * 3) for w in group)  # (B, H, in, out)

    chunk_start = W if offset == 0 else C
    return y, MemoryState(
        weights=per_sample(W), momentum=per_sample(S), chunk_start=per_sample(chunk_start), offset=offset
    )


def _segments(T: int, chunk_size: int, offset: int) -> list[int]:
    """Tokens up to each chunk border: the rest of the chunk under way, whole chunks, what is left."""
    borders = [0, *range(chunk_size - offset, T, chunk_size), T]
    return [last - first for first, last in pairwise(borders) if last > first]


class _Gates(NamedTuple):
    """A chunk's gates multiplied out; n its tokens. Each (H, B, ...), or (H, B, N, ...) for N chunks."""

    b: Tensor  # (n, 1) what is left of W
    a: Tensor  # (n, 1) what S has added to W
    A: Tensor  # (n, n) what token s has added to W by token t
    e_n: Tensor  # (1, 1) what is left of S after the chunk
    D_n: Tensor  # (n, 1) what each token has added to S after the chunk


def _all_gates(alpha: Tensor, eta: Tensor, theta: Tensor, sizes: list[int]) -> list[_Gates]:
    """Every chunk's gates; those of chunks of one size are multiplied out together."""
    runs = [(size, len(list(same))) for size, same in groupby(sizes)]
    parts = zip(*(g.split([size * count for size, count in runs], dim=2) for g in (alpha, eta, theta)), strict=True)
    gates = []
    for (size, count), part in zip(runs, parts, strict=True):
        together = _gates(*(g.unflatten(2, (count, size)) for g in part))
        gates += [_Gates(*chunk) for chunk in zip(*(field.unbind(2) for field in together), strict=True)]
    return gates


def _gates(alpha: Tensor, eta: Tensor, theta: Tensor) -> _Gates:
    keep = 1 - alpha
    L_b, L_e = _products(keep), _products(eta)
    # Row t of L_b covers s = 1..t; its first column lacks (1 - alpha_1), which b includes.
    b = L_b[..., :1] * keep[..., :1, None]
    e = L_e[..., :1] * eta[..., :1, None]
    return _Gates(
        b=b,
        a=L_b @ e,
        A=(L_b @ L_e) * theta.unsqueeze(-2),
        e_n=e[..., -1:, :],
        D_n=(L_e[..., -1, :] * theta)[..., None],
    )


def _products(g: Tensor) -> Tensor:
    """L[t, s] = prod_{s < j <= t} g_j for s <= t, else 0; exact, gradients included, where a factor is 0.

    A cumulative product of masked columns and no logarithms: at g_j = 0 the derivative is the product of the other
    factors, which a clamped logarithm loses.
    """
    n = g.shape[-1]
    after = torch.ones(n, n, dtype=torch.bool, device=g.device).tril(-1)  # t > s
    return torch.where(after, g.unsqueeze(-1), 1).cumprod(-2).tril()


def _surprises(C: tuple[Tensor, ...], k: Tensor, v: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Each layer's inputs X and error signals E for the keys: the surprise of token t at layer l is X_t^T E_t."""
    X, Z = [k], []
    for c in C:
        Z.append(_matmul(X[-1], c))
        X.append(silu(Z[-1]))
    E = [2 * (Z[-1] - v)]
    for z, c in zip(reversed(Z[:-1]), reversed(C[1:]), strict=True):
        gate = torch.sigmoid(z)
        E.append(_matmul(E[-1], c.mT) * (gate * (1 + z * (1 - gate))))
    return X[:-1], E[::-1]


def _read(
    q: Tensor,
    W: tuple[Tensor, ...],
    S: tuple[Tensor, ...] | None,
    target: tuple[Tensor, ...] | None,
    X: list[Tensor],
    E: list[Tensor],
    gates: _Gates,
) -> Tensor:
    """What the memory answers to each query, read after its own token's write."""
    for i, (x, error) in enumerate(zip(X, E, strict=True)):
        if i > 0:
            q = silu(q)
        old = _matmul(q, W[i])
        if target is None:
            old = gates.b * old
        elif target[i] is not W[i]:  # else what is forgotten is what is left
            old = gates.b * old + (1 - gates.b) * _matmul(q, target[i])
        if S is not None:
            old = old + gates.a * _matmul(q, S[i])
        q = old - ((q @ x.mT) * gates.A) @ error
    return q


def _write(
    W: tuple[Tensor, ...],
    S: tuple[Tensor, ...] | None,
    target: tuple[Tensor, ...] | None,
    X: list[Tensor],
    E: list[Tensor],
    gates: _Gates,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Weights and momentum after the chunk."""
    b_n, a_n, A_n = gates.b[..., -1:, :], gates.a[..., -1:, :], gates.A[..., -1, :, None]
    new_W, new_S = [], []
    for i, (x, error) in enumerate(zip(X, E, strict=True)):
        w = W[i] if target is not None and target[i] is W[i] else b_n * W[i]
        w = w - (A_n * x).mT @ error
        s = -((gates.D_n * x).mT @ error)
        if S is not None:
            w, s = w + a_n * S[i], s + gates.e_n * S[i]
        if target is not None and target[i] is not W[i]:
            w = w + (1 - b_n) * target[i]
        new_W.append(w)
        new_S.append(s)
    return tuple(new_W), tuple(new_S)


def _matmul(x: Tensor, w: Tensor) -> Tensor:
    """x @ w, (H, B, n, in) by (H, B or 1, in, out); shared weights are one product per head, never copied."""
    if w.shape[1] == 1 and x.shape[1] != 1:
        return (x.flatten(1, 2) @ w.squeeze(1)).unflatten(1, x.shape[1:3])
    return x @ w
