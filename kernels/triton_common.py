"""What the Triton kernels share: which tokens a segment has, and how tiles are read, multiplied and written.

A call's segment c is the part of one chunk that the call reads: the first segment may lack the chunk's first `offset`
tokens, the last one some at its end. C lanes hold the tokens of a segment; the lanes past them are masked.
"""

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

DTYPES = (torch.float32, torch.bfloat16, torch.float16)  # of the tensors that kernels read
INTERPRETED = triton.knobs.runtime.interpret  # read once, when the kernels are decorated
# Sizes that differ from call to call. Triton would compile a kernel anew where 16 divides one of them.
VARYING = [
    *("BH", "H", "T", "N", "segments", "offset", "chunk_size", "group", "part", "begin", "end", "slots", "programs"),
    *("alpha_b", "eta_b", "theta_b", "tokens", "rows", "before"),
]


def on(device: torch.device) -> Any:
    """Launch on `device` within the block, be it the current one or not."""
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
def update_gates(table_at, A_at, number, C: tl.constexpr):
    """The factors of a segment's update, by its number: b_n, a_n and e_n of V and S, and A_n and D_n (C,) of tokens."""
    table, last, lane = table_at + number * 4 * C, C - 1, tl.arange(0, C)
    b_n, a_n, e_n = tl.load(table + last), tl.load(table + C + last), tl.load(table + 2 * C + last)
    return b_n, a_n, e_n, tl.load(A_at + number * C * C + last * C + lane), tl.load(table + 3 * C + lane)


@triton.jit
def store_gate_gradients(dtable_at, dA_at, number, db, da, dAT, C: tl.constexpr):
    """Write the gradients by b and a of a segment's table and, from dA^T, the gradient by its A."""
    dtable = dtable_at + number * 4 * C + tl.arange(0, C)
    tl.store(dtable, db)
    tl.store(dtable + C, da)
    tl.store(turned(dA_at + number * C * C, C, C), dAT)


@triton.jit
def add_update_gate_gradients(dtable_at, dA_at, number, db_n, da_n, de_n, dA_n, dD_n, C: tl.constexpr):
    """Add the gradients by b_n, a_n and A_n, which are entries of the last lane, and write those by e and D_n.

    Nothing but e_n, in the last lane, is read of e.
    """
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
    """Where the state before group g of a sequence is, and whether it is anywhere; it is zero otherwise."""
    at, known = saved + (g - 1) * STATE, g > 0
    if start is not None:
        at, known = tl.where(known, at, start), g >= 0
    return at, known


@triton.jit
def store_tile(at, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write a contiguous tile, in the dtype of what is stored there."""
    tl.store(tile(at, ROWS, COLUMNS), x.to(at.dtype.element_ty))


@triton.jit
def load_tile(at, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Read a contiguous tile."""
    return tl.load(tile(at, ROWS, COLUMNS))


@triton.jit
def loaded_if(here, at, otherwise, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The tile at `at` where `here` holds, else `otherwise`."""
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
