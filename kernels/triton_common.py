"""What the Triton kernels share: where a chunk lies, its rows, and its gates multiplied out.

The call's segment c is its part of one chunk: the first may lack the chunk's first `offset` tokens, the last may lack
some at its end. C lanes hold a segment's tokens; the lanes past them are inert: they keep (alpha = 0), carry (eta = 1),
store nothing (theta = 0) and write no momentum, so that row C - 1 of every table holds what is left after the segment.

The products come from the recurrence itself, a row of the table after another: S_t = eta_t S_{t-1} and
W_t = (1 - alpha_t) W_{t-1} + S_t, started by theta_s at token s, are what token s has added to momentum and weights by
token t; started by S = 1 or by W = 1 before the first token they are e and a, or b. Their gradient is the same
recurrence backwards. Nothing is divided and no logarithm taken, so gates of exactly 0 and 1 are exact too.
"""

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # of what kernels read
INTERPRETED = triton.knobs.runtime.interpret  # read once, as when the kernels are made
# Sizes that differ from call to call; a kernel is not compiled anew for one that 16 divides.
VARYING = [
    *("BH", "H", "T", "N", "segments", "offset", "chunk_size", "group", "part", "begin", "end", "slots", "programs"),
    *("alpha_b", "eta_b", "theta_b", "tokens", "rows", "before"),
]


def on(device: torch.device) -> Any:
    """Launches inside are made on that device, which need not be the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@triton.jit
def segment(c, T, offset, chunk_size):
    """The first token of segment c and how many it has."""
    first = tl.maximum(c * chunk_size - offset, 0)
    last = tl.minimum((c + 1) * chunk_size - offset, T)
    return first, last - first


@triton.jit
def load_rows(at, first, count, stride, D: tl.constexpr, C: tl.constexpr, DP: tl.constexpr):
    """(C, DP): tokens first, first + 1, ... of one head; zero in the lanes and columns past the end."""
    row, column = tl.arange(0, C)[:, None], tl.arange(0, DP)[None, :]
    real = (row < count) & (column < D)
    return tl.load(at + tl.cast(first, tl.int64) * stride + (row * stride + column), mask=real, other=0.0)


@triton.jit
def store_columns(at, x, first, count, stride, D: tl.constexpr, C: tl.constexpr, DP: tl.constexpr):
    """Write x (DP, C) to the rows that `load_rows` would read."""
    row, column = tl.arange(0, C)[None, :], tl.arange(0, DP)[:, None]
    real = (row < count) & (column < D)
    at += tl.cast(first, tl.int64) * stride
    tl.store(at + (row * stride + column), x.to(at.dtype.element_ty), mask=real)


@triton.jit
def tile(at, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Pointers to a contiguous (ROWS, COLUMNS) tile."""
    return at + (tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])


@triton.jit
def turned(at, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Pointers to a contiguous (ROWS, COLUMNS) tile, seen as (COLUMNS, ROWS)."""
    return at + (tl.arange(0, COLUMNS)[:, None] + tl.arange(0, ROWS)[None, :] * COLUMNS)


@triton.jit
def dot(x, y, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """x @ y of operands rounded to DOT, added up in float32."""
    return tl.dot(x.to(DOT), y.to(DOT), input_precision=PRECISION)


@triton.jit
def add_dot(total, x, y, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """total + x @ y."""
    return tl.dot(x.to(DOT), y.to(DOT), total, input_precision=PRECISION)


@triton.jit
def left_by(table_at, A_at, number, C: tl.constexpr):
    """After a segment, by its number: what is left of V, what S has added, what is left of S; A_n and D_n (C,)."""
    table, last, lane = table_at + number * 4 * C, C - 1, tl.arange(0, C)
    b_n, a_n, e_n = tl.load(table + last), tl.load(table + C + last), tl.load(table + 2 * C + last)
    return b_n, a_n, e_n, tl.load(A_at + number * C * C + last * C + lane), tl.load(table + 3 * C + lane)


@triton.jit
def store_gate_gradients(dtable_at, dA_at, number, db, da, dAT, C: tl.constexpr):
    """Those by b and a of a segment's table and, from dA^T, by its A."""
    dtable = dtable_at + number * 4 * C + tl.arange(0, C)
    tl.store(dtable, db)
    tl.store(dtable + C, da)
    tl.store(turned(dA_at + number * C * C, C, C), dAT)


@triton.jit
def add_left_gradients(dtable_at, dA_at, number, db_n, da_n, de_n, dA_n, dD_n, C: tl.constexpr):
    """Those by what is left after a segment, which belongs to the last lane, and by D_n and e; nothing else uses e."""
    lane = tl.arange(0, C)
    last = lane == C - 1
    dtable = dtable_at + number * 4 * C + lane
    tl.store(dtable, tl.load(dtable, mask=last) + db_n, mask=last)
    tl.store(dtable + C, tl.load(dtable + C, mask=last) + da_n, mask=last)
    tl.store(dtable + 2 * C, tl.where(last, de_n, 0.0))
    tl.store(dtable + 3 * C, dD_n)
    dA = dA_at + number * C * C + (C - 1) * C + lane
    tl.store(dA, tl.load(dA) + dA_n)


@triton.jit
def saved_at(saved, start, g, STATE: tl.constexpr):
    """Where the state before a sequence's group g is, and whether it is anywhere; zero otherwise."""
    at, known = saved + (g - 1) * STATE, g > 0
    if start is not None:
        at, known = tl.where(known, at, start), g >= 0
    return at, known


@triton.jit
def items_of(BH, begin, end, part, PHASE: tl.constexpr):
    """Parts of so many segments a sequence has, items that the programs share, and parts that an item has."""
    parts = (end - begin + part - 1) // part
    items, each = BH * parts, 1
    if PHASE == "all":
        items, each = BH, parts
    return parts, items, each


@triton.jit
def sequence_of(item, parts, pid, H, PHASE: tl.constexpr):
    """An item's sequence, batch, head and last part, and whose scratch and sums it has: the program's or its own."""
    bh, last_part, own = item // parts, item % parts, item // parts
    if PHASE == "all":
        bh, last_part, own = item, tl.cast(parts - 1, tl.int64), pid
    return bh, bh // H, bh % H, last_part, own


@triton.jit
def part_of(number, begin, end, part, scratch, own, slots, SLOT: tl.constexpr, PHASE: tl.constexpr):
    """The segments from and to of a part, and where in the scratch segment 0 would be."""
    first = begin + number * part
    slot_0 = scratch + (own * slots - begin) * SLOT
    if PHASE == "all":
        slot_0 = scratch + (own * slots - first) * SLOT
    return first, tl.minimum(first + part, end), slot_0


@triton.jit
def state_before(saved, start, bh, h, g, N, group, STATE: tl.constexpr, SHARED: tl.constexpr):
    """`saved_at` of a sequence by its number and head."""
    saved += bh * ((N + group - 1) // group - 1) * STATE
    if start is not None:
        start += (h if SHARED else bh) * STATE
    return saved_at(saved, start, g, STATE)


@triton.jit
def gradient_after(carried, dfinal, bh, last_segment, N, STATE: tl.constexpr, ROW: tl.constexpr):
    """Where the gradient of the state after a part is, and whether it is anywhere; zero otherwise."""
    at, known = carried, last_segment < N
    if dfinal is not None:
        at, known = tl.where(known, at, dfinal + bh * ROW), last_segment <= N
    return at, known


@triton.jit
def keep(at, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write a tile, in the dtype of what is kept there."""
    tl.store(tile(at, ROWS, COLUMNS), x.to(at.dtype.element_ty))


@triton.jit
def kept(at, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile that was kept."""
    return tl.load(tile(at, ROWS, COLUMNS))


@triton.jit
def loaded_if(here, at, otherwise, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of its own, such as the chunk's start of a call that begins in mid-chunk, or another."""
    return tl.where(here, tl.load(tile(at, ROWS, COLUMNS), mask=here, other=0.0), otherwise)


@triton.jit
def silu_and_slope(x):
    """silu(x) and its derivative."""
    gate = tl.sigmoid(x)
    return x * gate, gate * (1 + x * (1 - gate))


@triton.jit
def silu_curvature(x):
    """The second derivative of silu."""
    gate = tl.sigmoid(x)
    return gate * (1 - gate) * (2 + x * (1 - 2 * gate))


@triton.jit
def segments_of(segments, H, T, N, offset, chunk_size, M: tl.constexpr):
    """The M segments of a program, each (M,): number, whether it is there, batch, head, first token, tokens."""
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
    """M segments a program: A (C, C), and the table of b, a, e and D_n, each (C,)."""
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
    """From the gradients by A and the table to those by the gates, (B, T, H) contiguous; S_at is scratch like A."""
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
