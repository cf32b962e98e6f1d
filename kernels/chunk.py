"""One chunk of the memory and the gradients of it: the formulas in `chunkwise`, each above its own reverse.

`held` has those of gates that are the same at all tokens of a chunk.

All tensors of a sequence are (H B, C, ...), heads outermost, so that weights which the batch shares, (H, in, out), and
weights of each sample, (H B, in, out), are multiplied alike: as many products as there are weights. A name with a d
before it is the gradient by what it names, and a `Group` of them is added to in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_exporting
from torch.nn.functional import silu

# In one pass each: (g, z) -> g silu'(z), (g, s) -> g s (1 - s).
silu_backward, sigmoid_backward = torch.ops.aten.silu_backward, torch.ops.aten.sigmoid_backward

Group = tuple[Tensor, ...]  # one for each layer


class Products(NamedTuple):
    """Gates of N chunks and their products, (H B, N, C) and (H B, N, C, C)."""

    keep: Tensor  # 1 - alpha
    eta: Tensor
    theta: Tensor
    L_b: Tensor
    L_e: Tensor
    L: Tensor  # L_b L_e


class Gates(NamedTuple):
    """What the formulas need of the gates: (H B, N, ...) for N chunks, (H B, ...) for one."""

    b: Tensor  # (C, 1) what is left of W
    a: Tensor  # (C, 1) what S has added to W
    A: Tensor  # (C, C) what token s has added to W by token t
    e_n: Tensor  # (1, 1) what is left of S after the chunk
    D_n: Tensor  # (C, 1) what each token has added to S after the chunk


class Keys(NamedTuple):
    """What the surprises of a chunk are made of: the surprise of token t at layer l is -X_t^T E_t."""

    X: Group
    E: Group
    Z: Group  # of all layers but the last
    U: Group  # likewise


class Queries(NamedTuple):
    """What a chunk's outputs are made of."""

    Q: Group
    P: Group  # Q X^T
    Y: Group  # of all layers but the last


def multiply_out(alpha: Tensor, eta: Tensor, theta: Tensor) -> Products:
    """The products of gates (H B, N, C)."""
    keep = 1 - alpha
    L_b, L_e = _products(keep), _products(eta)
    return Products(keep, eta, theta, L_b, L_e, L_b @ L_e)


def _products(g: Tensor) -> Tensor:
    """L[t, s] = prod_{s < j <= t} g_j for s <= t, else 0; exact where a factor is 0, as with no logarithm."""
    n = g.shape[-1]
    L = torch.eye(n, dtype=g.dtype, device=g.device).repeat(*g.shape[:-1], 1, 1)
    return carried(L, g.unsqueeze(-1).unbind(-2), -2)


def carried(x: Tensor, factors: Sequence[Tensor], dim: int) -> Tensor:
    """x_t + factors_t x_{t-1} for each t from 1 on along `dim`, the x_{t-1} carried on; x is used up."""
    rows = x.unbind(dim)
    if is_exporting():  # a graph has no writes in place, and would copy x for each
        found = [rows[0]]
        for row, factor in zip(rows[1:], factors[1:], strict=True):
            found.append(torch.addcmul(row, found[-1], factor))
        return torch.stack(found, dim)
    for t in range(1, len(rows)):
        rows[t].addcmul_(rows[t - 1], factors[t])
    return x


def gates_of(p: Products) -> Gates:
    # Row t of L_b covers s = 1..t; its first column lacks (1 - alpha_1), which b includes.
    e = p.L_e[..., :1] * p.eta[..., :1, None]
    return Gates(
        b=p.L_b[..., :1] * p.keep[..., :1, None],
        a=(p.L_b * e.mT).sum(-1, keepdim=True),
        A=p.L * p.theta.unsqueeze(-2),
        e_n=e[..., -1:, :],
        D_n=(p.L_e[..., -1, :] * p.theta).unsqueeze(-1),
    )


def gates_backward(p: Products, d: Gates) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by alpha, eta and theta."""
    e, d_D = p.L_e[..., :1] * p.eta[..., :1, None], d.D_n.squeeze(-1)
    d_theta = torch.addcmul((d.A * p.L).sum(-2), d_D, p.L_e[..., -1, :])
    dL = d.A * p.theta.unsqueeze(-2)
    dL_b, dL_e = (dL @ p.L_e.mT).addcmul_(d.a, e.mT), p.L_b.mT @ dL
    dL_e[..., -1, :].addcmul_(d_D, p.theta)
    de = (p.L_b * d.a).sum(-2).unsqueeze(-1)
    de[..., -1:, :] += d.e_n
    d_keep = _products_backward(p.L_b, dL_b, p.keep, d.b)
    return d_keep.neg_(), _products_backward(p.L_e, dL_e, p.eta, de), d_theta


def _products_backward(L: Tensor, dL: Tensor, g: Tensor, d_first: Tensor) -> Tensor:
    """By g, of L and of its first column times g_1: no factor is divided out, so any of them may be 0.

    With M = L^T dL, the derivative by g_j is sum_{s < j} M[j, s] L[j - 1, s].
    """
    dL[..., :1] += d_first * g[..., :1, None]
    M = L.mT @ dL
    dg = torch.empty_like(g)
    torch.sum(M[..., 1:, :] * L[..., :-1, :], dim=-1, out=dg[..., 1:])
    torch.sum(d_first.squeeze(-1) * L[..., 0], dim=-1, out=dg[..., 0])
    return dg


def surprises(C: Group, k: Tensor, v: Tensor) -> Keys:
    X, Z = [k], []
    for c in C[:-1]:
        Z.append(_product(X[-1], c))
        X.append(silu(Z[-1]))
    E, U = [_product(X[-1], C[-1], onto=2 * v, factor=-2)], []
    for z, c in zip(reversed(Z), reversed(C[1:]), strict=True):
        U.append(_product(E[-1], c.mT))
        E.append(silu_backward(U[-1], z))
    return Keys(tuple(X), tuple(reversed(E)), tuple(Z), tuple(reversed(U)))


def surprises_backward(keys: Keys, C: Group, dX: list[Tensor], dE: list[Tensor], dC: Group) -> tuple[Tensor, Tensor]:
    """The gradients by k and v; those by C are added to `dC`, and `dX` and `dE` are used up."""
    X, E, Z, U = keys
    dZ = []
    for l, (z, u) in enumerate(zip(Z, U, strict=True)):
        dU = silu_backward(dE[l], z)
        _product(dU, C[l + 1], onto=dE[l + 1])
        _add_product(dC[l + 1], dU, E[l + 1])
        # silu''(z) = s (1 - s) (2 + z (1 - 2 s)), s the sigmoid.
        s = torch.sigmoid(z)
        outer = sigmoid_backward(dE[l].mul_(u), s)
        dZ.append(torch.addcmul(z, z, s, value=-2, out=s).add_(2).mul_(outer))
    dv = dE[-1].mul_(2)
    _product(dv, C[-1].mT, onto=dX[-1], factor=-1)
    _add_product(dC[-1], X[-1], dv, factor=-1)
    for l in reversed(range(len(Z))):
        dZ[l] += silu_backward(dX[l + 1], Z[l])
        _product(dZ[l], C[l].mT, onto=dX[l])
        _add_product(dC[l], X[l], dZ[l])
    return dX[0], dv


def read(q: Tensor, keys: Keys, W: Group, S: Group, target: Group, gates: Gates) -> tuple[Tensor, Queries]:
    """The output for each query, read after its own token's write, and what it was made of.

    S is empty where there is no momentum yet, `target` where forgetting leads to zero.
    """
    Q, P, Y = [], [], []
    for l, (x, error) in enumerate(zip(keys.X, keys.E, strict=True)):
        if l > 0:
            Y.append(q)
            q = silu(q)
        Q.append(q)
        P.append(torch.bmm(q, x.mT))
        if target and target[l] is W[l]:  # what is forgotten is what is left
            y = _product(q, W[l])
        else:
            y = _product(gates.b * q, W[l])
            if target:
                _product((1 - gates.b) * q, target[l], onto=y)
        if S:
            _product(gates.a * q, S[l], onto=y)
        q = y.baddbmm_(P[-1] * gates.A, error)
    return q, Queries(tuple(Q), tuple(P), tuple(Y))


def write(keys: Keys, W: Group, S: Group, target: Group, gates: Gates) -> tuple[Group, Group]:
    """Weights and momentum after the chunk, of each sample."""
    b_n, a_n, A_n = gates.b[:, -1:], gates.a[:, -1:], gates.A[:, -1, :, None]
    new_W, new_S = [], []
    for l, (x, error) in enumerate(zip(keys.X, keys.E, strict=True)):
        if target and target[l] is W[l]:
            w = _scaled(torch.ones_like(b_n), W[l])
        else:
            w = _scaled(b_n, W[l])
            if target:
                w += _scaled(1 - b_n, target[l])
        s = torch.bmm((gates.D_n * x).mT, error)
        if S:
            w.addcmul_(a_n, S[l])
            s.addcmul_(gates.e_n, S[l])
        new_W.append(w.baddbmm_((A_n * x).mT, error))
        new_S.append(s)
    return tuple(new_W), tuple(new_S)


def read_backward(
    dy: Tensor,
    queries: Queries,
    keys: Keys,
    W: Group,
    S: Group,
    target: Group,
    gates: Gates,
    d: Gates,
    dX: Sequence[Tensor | None],
    dE: Sequence[Tensor | None],
    dW: Group,
    dS: Group,
    d_target: Group,
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """The gradients by the queries, X and E, with `dX` and `dE` in the last two; all others are added to."""
    b, a, A = gates.b, gates.a, gates.A
    by_X, by_E = [], []
    for l in reversed(range(len(W))):
        q, p, x, error = queries.Q[l], queries.P[l], keys.X[l], keys.E[l]
        if l < len(W) - 1:
            dy = silu_backward(dy, queries.Y[l])
        dR = torch.bmm(dy, error.mT)
        by_E.append(_sum_with(dE[l], (p * A).mT, dy))
        d.A.addcmul_(dR, p)
        dP = dR.mul_(A)
        by_X.append(_sum_with(dX[l], dP.mT, q))
        dq = _product(dy, W[l].mT)
        if target and target[l] is W[l]:
            _add_product(dW[l], q, dy)
        else:
            _add_product(dW[l], b * q, dy)
            if target:
                old = _product(dy, target[l].mT)
                _add_product(d_target[l], (1 - b) * q, dy)
                d.b.add_((q * dq.sub_(old)).sum(-1, keepdim=True))
                dq = old.addcmul_(b, dq)
            else:
                d.b.add_((q * dq).sum(-1, keepdim=True))
                dq.mul_(b)
        if S:
            past = _product(dy, S[l].mT)
            _add_product(dS[l], a * q, dy)
            d.a.add_((q * past).sum(-1, keepdim=True))
            dq.addcmul_(a, past)
        dy = dq.baddbmm_(dP, x)
    return dy, by_X[::-1], by_E[::-1]


def write_backward(
    keys: Keys, W: Group, S: Group, target: Group, gates: Gates, d: Gates, dW: Group, dS: Group, d_target: Group
) -> tuple[list[Tensor], list[Tensor], Group, Group]:
    """The gradients by X, E, W and S, of each sample, from those by the new W and S; all others are added to."""
    b_n, a_n, A_n = gates.b[:, -1:], gates.a[:, -1:], gates.A[:, -1, :, None]
    dX, dE, old_dW, old_dS = [], [], [], []
    for l, (x, error) in enumerate(zip(keys.X, keys.E, strict=True)):
        by_W, by_S = torch.bmm(error, dW[l].mT), torch.bmm(error, dS[l].mT)
        d.A[:, -1] += (x * by_W).sum(-1)
        d.D_n.add_((x * by_S).sum(-1, keepdim=True))
        dX.append(by_W.mul_(A_n).addcmul_(gates.D_n, by_S))
        dE.append(torch.bmm(A_n * x, dW[l]).baddbmm_(gates.D_n * x, dS[l]))
        if target and target[l] is W[l]:
            old_dW.append(dW[l])
        else:
            d.b[:, -1:] += _dot(dW[l], W[l])
            if target:
                d.b[:, -1:] -= _dot(dW[l], target[l])
                d_target[l].add_(summed((1 - b_n) * dW[l], len(target[l])))
            old_dW.append(b_n * dW[l])
        if S:
            d.a[:, -1:] += _dot(dW[l], S[l])
            d.e_n.add_(_dot(dS[l], S[l]))
            old_dS.append((a_n * dW[l]).addcmul_(gates.e_n, dS[l]))
    return dX, dE, tuple(old_dW), tuple(old_dS)


def _sum_with(total: Tensor | None, x: Tensor, y: Tensor) -> Tensor:
    return torch.bmm(x, y) if total is None else total.baddbmm_(x, y)


def _product(x: Tensor, w: Tensor, onto: Tensor | None = None, factor: float = 1) -> Tensor:
    """x @ w, (H B, C, in) by as many or H (in, out), times `factor` and added to `onto` where that is given."""
    heads = w.shape[0]
    rows = x.reshape(heads, -1, x.shape[-1])
    if onto is None:
        return torch.bmm(rows, w).view(*x.shape[:2], -1)
    onto.view(heads, -1, w.shape[-1]).baddbmm_(rows, w, alpha=factor)
    return onto


def _add_product(dw: Tensor, x: Tensor, dy: Tensor, factor: float = 1) -> None:
    """Add the gradient by w of x @ w, times `factor`."""
    dw.baddbmm_(x.reshape(len(dw), -1, x.shape[-1]).mT, dy.reshape(len(dw), -1, dy.shape[-1]), alpha=factor)


def _scaled(gate: Tensor, w: Tensor) -> Tensor:
    """(H B, 1, 1) times as many or H (in, out)."""
    return (gate.view(w.shape[0], -1, 1, 1) * w.unsqueeze(1)).flatten(0, 1)


def _dot(dw: Tensor, w: Tensor) -> Tensor:
    """The derivative by the gates of `_scaled`, (H B, 1, 1)."""
    return (dw.view(len(w), -1, *w.shape[1:]) * w.unsqueeze(1)).sum((-2, -1)).view(-1, 1, 1)


def summed(dw: Tensor, heads: int) -> Tensor:
    """The sum over the batch: (H B, in, out) -> (H, in, out)."""
    return dw.view(heads, -1, *dw.shape[1:]).sum(1)
