"""Triton kernels of the gates: the products of alpha, eta and theta that `chunkwise` calls b, a, e, A and D.

They come from the recurrence itself, one row of a table after another. With S_t = eta_t S_{t-1} and
W_t = (1 - alpha_t) W_{t-1} + S_t started by theta_s at token s, S_t and W_t are what token s has added to momentum and
weights by token t, the rows of D and A. Started by S = 1 before the first token they are e and a, started by W = 1 they
are b. The gradients are the same recurrence backwards. Nothing is divided and no logarithm taken, so gates of exactly 0
and 1 are exact too.

Masked lanes forget nothing (alpha = 0), carry all momentum (eta = 1), store nothing (theta = 0) and add no momentum to
the weights, so that row C - 1 of every table holds what is left after the segment.
"""

import triton
import triton.language as tl

from .triton_common import VARYING, segment


@triton.jit
def segments_of(segments, H, T, N, offset, chunk_size, M: tl.constexpr):
    """The M segments of a program, each (M,): number, whether there is one, batch, head, first token and tokens."""
    mine = tl.cast(tl.program_id(0), tl.int64) * M + tl.arange(0, M)
    bh = mine // N
    first, count = segment(mine % N, T, offset, chunk_size)
    return mine, mine < segments, bh // H, bh % H, first, count


@triton.jit(do_not_specialize=VARYING)
def gates_forward(
    alpha, eta, theta, A_at, table_at, segments, H, T, N, offset, chunk_size,
    alpha_b, alpha_t, alpha_h, eta_b, eta_t, eta_h, theta_b, theta_t, theta_h,
    C: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Write A (C, C) and the table of b, a, e and D_n, each (C,), of every segment; a program takes M segments."""
    mine, exists, b_, h, first, count = segments_of(segments, H, T, N, offset, chunk_size, M)
    alpha += b_ * alpha_b + h * alpha_h + first * alpha_t
    eta += b_ * eta_b + h * eta_h + first * eta_t
    theta += b_ * theta_b + h * theta_h + first * theta_t
    s = tl.arange(0, C)
    step = tl.load(
        theta[:, None] + s[None, :] * theta_t, mask=exists[:, None] & (s[None, :] < count[:, None]), other=0.0
    ).to(tl.float32)
    A_at += mine[:, None] * (C * C) + s[None, :]
    table_at += mine * (4 * C)

    S, W = tl.zeros((M, C), tl.float32), tl.zeros((M, C), tl.float32)
    b, a, e = tl.full((M,), 1.0, tl.float32), tl.zeros((M,), tl.float32), tl.full((M,), 1.0, tl.float32)
    for t in range(0, C):
        real = exists & (t < count)
        keep = 1 - tl.load(alpha + t * alpha_t, mask=real, other=0.0).to(tl.float32)
        carry = tl.load(eta + t * eta_t, mask=real, other=1.0).to(tl.float32)
        writes = real.to(tl.float32)
        S = tl.where(s[None, :] == t, step, carry[:, None] * S)
        W = keep[:, None] * W + writes[:, None] * S
        b, e = keep * b, carry * e
        a = keep * a + writes * e
        tl.store(A_at + t * C, W, mask=exists[:, None])
        tl.store(table_at + t, b, mask=exists)
        tl.store(table_at + C + t, a, mask=exists)
        tl.store(table_at + 2 * C + t, e, mask=exists)
    tl.store(table_at[:, None] + 3 * C + s[None, :], S, mask=exists[:, None])


@triton.jit(do_not_specialize=VARYING)
def gates_backward(
    alpha, eta, theta, A_at, table_at, dA_at, dtable_at, S_at, dalpha, deta, dtheta,
    segments, H, T, N, offset, chunk_size,
    alpha_b, alpha_t, alpha_h, eta_b, eta_t, eta_h, theta_b, theta_t, theta_h,
    C: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """From the gradients by A and the table to those by the gates (B, T, H); S_at is scratch of the size of A."""
    mine, exists, b_, h, first, count = segments_of(segments, H, T, N, offset, chunk_size, M)
    alpha += b_ * alpha_b + h * alpha_h + first * alpha_t
    eta += b_ * eta_b + h * eta_h + first * eta_t
    theta += b_ * theta_b + h * theta_h + first * theta_t
    s = tl.arange(0, C)
    column = s[None, :]
    step = tl.load(theta[:, None] + column * theta_t, mask=exists[:, None] & (column < count[:, None]), other=0.0).to(
        tl.float32
    )
    inside = mine[:, None] * (C * C) + column
    table = mine * (4 * C)

    S = tl.zeros((M, C), tl.float32)
    for t in range(0, C):
        carry = tl.load(eta + t * eta_t, mask=exists & (t < count), other=1.0).to(tl.float32)
        S = tl.where(column == t, step, carry[:, None] * S)
        tl.store(S_at + inside + t * C, S, mask=exists[:, None])
    tl.debug_barrier()  # other threads read what these wrote

    dS = tl.load(dtable_at + table[:, None] + 3 * C + column, mask=exists[:, None], other=0.0)  # by D_n
    dW = tl.zeros((M, C), tl.float32)
    de = tl.load(dtable_at + table + 2 * C + C - 1, mask=exists, other=0.0)
    da, db = tl.zeros((M,), tl.float32), tl.zeros((M,), tl.float32)
    dstep = tl.zeros((M, C), tl.float32)
    for i in range(0, C):
        t = C - 1 - i
        real, earlier = exists & (t < count), exists & (t > 0)
        keep = 1 - tl.load(alpha + t * alpha_t, mask=real, other=0.0).to(tl.float32)
        carry = tl.load(eta + t * eta_t, mask=real, other=1.0).to(tl.float32)
        writes = real.to(tl.float32)
        dW += tl.load(dA_at + inside + t * C, mask=exists[:, None] & (column <= t), other=0.0)
        dS += writes[:, None] * dW
        db += tl.load(dtable_at + table + t, mask=exists, other=0.0)
        da += tl.load(dtable_at + table + C + t, mask=exists, other=0.0)
        de += writes * da
        dstep = tl.where(column == t, dS, dstep)
        W_before = tl.load(A_at + inside + (t - 1) * C, mask=earlier[:, None], other=0.0)
        S_before = tl.load(S_at + inside + (t - 1) * C, mask=earlier[:, None], other=0.0)
        b_before = tl.load(table_at + table + t - 1, mask=earlier, other=1.0)
        a_before = tl.load(table_at + table + C + t - 1, mask=earlier, other=0.0)
        e_before = tl.load(table_at + table + 2 * C + t - 1, mask=earlier, other=1.0)
        dkeep = tl.sum(dW * W_before, axis=1) + da * a_before + db * b_before
        dcarry = tl.sum(dS * S_before, axis=1) + de * e_before
        at = (b_ * T + first + t) * H + h
        tl.store(dalpha + at, -dkeep, mask=real)
        tl.store(deta + at, dcarry, mask=real)
        dW = tl.where(column == t, 0.0, keep[:, None] * dW)
        dS = tl.where(column == t, 0.0, carry[:, None] * dS)
        db, da, de = keep * db, keep * da, carry * de
    at = (b_[:, None] * T + first[:, None] + column) * H + h[:, None]
    tl.store(dtheta + at, dstep, mask=exists[:, None] & (column < count[:, None]))
