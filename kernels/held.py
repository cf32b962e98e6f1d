"""Gates that are held for a chunk: the products of `chunk` as powers, which depend on the distance of two tokens alone.

Where alpha and eta are the same at all tokens of a chunk, equation 18's recurrence is a linear time-invariant system:
with m = t - s, L_b[t, s] = keep^m, L_e[t, s] = eta^m and

    (L_b L_e)[t, s] = c_m,    c_0 = 1,  c_m = keep c_{m-1} + eta^m
    b_t = keep^(t+1),  a_t = eta c_t,  e_n = eta^n,  D[n, s] = eta^(n-1-s) theta_s        t and s counted from 0

so that a chunk of n tokens takes n steps for c and a Toeplitz matrix T of it, A = T diag(theta), where gates of tokens
take a product of n x n matrices. theta may differ from token to token. Nothing is divided and no logarithm taken, so
gates of exactly 0 (0^0 is 1) and 1 are exact too.

Source: Titans (Behrouz et al., 2024), section 3.2, "Parameters as the function of chunks".
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_exporting
from torch.nn.functional import pad

from .chunk import Gates, carried


class Powers(NamedTuple):
    """Gates of N chunks, (H B, N, 1) or of tokens (H B, N, C), and powers 0 to C - 1 of them, (H B, N, C)."""

    keep: Tensor  # 1 - alpha
    eta: Tensor
    theta: Tensor  # of tokens
    of_keep: Tensor
    of_eta: Tensor
    c: Tensor  # the first column of L_b L_e


def to_tokens(gate: Tensor, steps: int, chunk_size: int, offset: int) -> Tensor:
    """Gates of chunks (batch, chunks, heads) at each of the `steps` tokens from `offset` in the first chunk on."""
    longest = min(chunk_size, offset + steps)
    return gate.unsqueeze(2).expand(-1, -1, longest, -1).flatten(1, 2)[:, offset : offset + steps]


def raise_gates(alpha: Tensor, eta: Tensor, theta: Tensor) -> Powers:
    """The powers of alpha and eta (H B, N, 1); theta is (H B, N, C)."""
    keep, size = 1 - alpha, theta.shape[-1]
    of_keep, of_eta = _powers(keep, size), _powers(eta, size)
    c = carried(of_eta.clone(), [keep.squeeze(-1)] * size, -1)
    return Powers(keep, eta, theta, of_keep, of_eta, c)


def gates_of(p: Powers) -> Gates:
    return Gates(
        b=(p.keep * p.of_keep).unsqueeze(-1),
        a=(p.eta * p.c).unsqueeze(-1),
        A=_toeplitz(p.c).mul_(p.theta.unsqueeze(-2)),
        e_n=(p.eta * p.of_eta[..., -1:]).unsqueeze(-1),
        D_n=(p.of_eta.flip(-1) * p.theta).unsqueeze(-1),
    )


def gates_backward(p: Powers, d: Gates) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by alpha and eta, (H B, N, 1), and by theta, (H B, N, C)."""
    size = p.c.shape[-1]
    power = torch.arange(1, size + 1, dtype=p.c.dtype, device=p.c.device)
    d_b, d_a, d_D = d.b.squeeze(-1), d.a.squeeze(-1), d.D_n.squeeze(-1)

    d_theta = torch.addcmul(_toeplitz(p.c).mul_(d.A).sum(-2), d_D, p.of_eta.flip(-1))
    dc = torch.addcmul(_toeplitz_backward(d.A * p.theta.unsqueeze(-2)), p.eta, d_a)
    columns, factor = dc.unbind(-1), p.keep.squeeze(-1)
    for m in reversed(range(size - 1)):  # what c_{m+1} has of c_m
        columns[m].addcmul_(columns[m + 1], factor)
    d_of_eta = (d_D * p.theta).flip(-1).add_(dc)

    # The derivative of x^m is m x^(m-1): no power is divided by x.
    d_keep = (d_b * p.of_keep * power).sum(-1, keepdim=True)
    d_keep += (dc[..., 1:] * p.c[..., :-1]).sum(-1, keepdim=True)
    d_eta = (d_a * p.c).sum(-1, keepdim=True) + size * d.e_n.squeeze(-1) * p.of_eta[..., -1:]
    d_eta += (d_of_eta[..., 1:] * p.of_eta[..., :-1] * power[:-1]).sum(-1, keepdim=True)
    return d_keep.neg_(), d_eta, d_theta


def _powers(x: Tensor, size: int) -> Tensor:
    """x^0 to x^(size - 1) of x (..., 1)."""
    if is_exporting():  # ONNX has no products of all before
        return x ** torch.arange(size, dtype=x.dtype, device=x.device)
    factors = torch.cat([torch.ones_like(x), x.expand(*x.shape[:-1], size - 1)], dim=-1)
    return factors.cumprod(-1)


def _toeplitz(c: Tensor) -> Tensor:
    """c (..., C) -> T (..., C, C), T[t, s] = c[t - s] for s <= t, else 0."""
    size = c.shape[-1]
    # Row t is a window of c backwards: (c_{C-1}, ..., c_0, 0, ..., 0) from C - 1 - t on.
    return pad(c.flip(-1), (0, size - 1)).unfold(-1, size, 1).flip(-2)


def _toeplitz_backward(dT: Tensor) -> Tensor:
    """The sums of the diagonals of dT (..., C, C) from the main one downwards, (..., C)."""
    size = dT.shape[-1]
    # Rows of 2 C, the left half zero, read as rows of 2 C + 1: a diagonal becomes a column.
    shifted = pad(dT, (size, 0)).flatten(-2)[..., 1:].unfold(-1, size, 2 * size + 1)
    return shifted.sum(-2).flip(-1)
