"""Triton kernels of a memory of one matrix; equations and letters as in `chunkwise`, tiles as in `triton_layer`.

Forgetting leads to `init`: the kernels carry V = W - init, which forgets towards zero. In the paper init is zero. A
state is a packed row of float32: V (DP, DP), then S, both (out, in). Rows of V and S do not meet before the readout,
nor do rows of their gradients, so a pass through the segments in order may give each block of VP rows to a program.
"""

import triton
import triton.language as tl

from . import triton_layer as layer
from .triton_common import (
    VARYING,
    add_dot,
    add_update_gate_gradients,
    dot,
    load_rows,
    load_tile,
    loaded_if,
    saved_at,
    segment,
    store_columns,
    store_gate_gradients,
    store_tile,
    tile,
    turned,
    update_gates,
)


@triton.jit(do_not_specialize=VARYING)
def forward(
    q, k, v, y, A_at, table_at, start, chunk_start, init, saved, each, final,
    H, T, N, offset, chunk_size, group, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, READS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.forward`, in blocks of VP rows, which program_id(0) counts quickest; EP is not used."""
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    feature, bh = block_of_rows(DP, VP)
    b_, h = bh // H, bh % H
    first_group, last_group = tl.cast(begin // group, tl.int64), tl.cast((end + group - 1) // group, tl.int64)
    saved += bh * ((N + group - 1) // group - 1) * STATE + feature * DP
    if start is not None:
        start += (h if SHARED else bh) * STATE + feature * DP
    if READS:
        V, S = tl.zeros((VP, DP), tl.float32), tl.zeros((VP, DP), tl.float32)
        if start is not None:
            V, S = load_state(start, True, VP, DP)
    else:
        at, known = saved_at(saved, start, first_group, STATE)
        V, S = load_state(at, known, VP, DP)
        each += (bh * slots - begin) * STATE + feature * DP
    if init is not None:
        I = tl.load(tile(init + h * WEIGHTS + feature * DP, VP, DP))
    q += b_ * q_b + h * q_h
    k += b_ * k_b + h * k_h
    v += b_ * v_b + h * v_h + feature
    y += (b_ * T * H + h) * D + feature
    lane = tl.arange(0, C)

    for g in range(first_group, last_group):
        if g > first_group:
            store_state(saved + (g - 1) * STATE, V, S, VP, DP)
        for c in range(g * group, tl.minimum((g + 1) * group, N)):
            first, count = segment(c, T, offset, chunk_size)
            keysT = load_rows(k, first, count, k_t, D, C, DP)
            values = tl.trans(load_rows(v, first, count, v_t, D - feature, C, VP))
            held = V
            if init is not None:
                held = V + I
            if chunk_start is not None:
                here, at = c == 0, chunk_start + bh * WEIGHTS + feature * DP
                held = loaded_if(here, at, held, VP, DP)
            if final is not None:
                if c == N - 1:
                    tl.store(tile(final + bh * (STATE + WEIGHTS) + STATE + feature * DP, VP, DP), held)
            e = 2 * (dot(held, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
            if READS:
                table = table_at + (bh * N + c) * 4 * C + lane
                b, a = tl.load(table), tl.load(table + C)
                AT = tl.load(turned(A_at + (bh * N + c) * C * C, C, C))
                query = tl.trans(load_rows(q, first, count, q_t, D, C, DP))
                out = layer.readout(query, keysT, e, V, S, b, a, AT, DOT, PRECISION)
                if init is not None:
                    out = add_dot(out, I, query, DOT, PRECISION)
                store_columns(y, out, first, count, H * D, D - feature, C, VP)
            else:
                store_state(each + c * STATE, V, S, VP, DP)
            b_n, a_n, e_n, A_n, D_n = update_gates(table_at, A_at, bh * N + c, C)
            V, S = layer.update(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)

    if not READS:
        if end < N:
            store_state(saved + (last_group - 1) * STATE, V, S, VP, DP)
    if final is not None:
        if end == N:
            store_state(final + bh * (STATE + WEIGHTS) + feature * DP, V, S, VP, DP)


@triton.jit(do_not_specialize=VARYING)
def readout(
    q, k, v, y, A_at, table_at, chunk_start, init, each,
    H, T, N, offset, chunk_size, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.readout`, in blocks of VP rows, which program_id(0) counts quickest; EP is not used."""
    WEIGHTS: tl.constexpr = DP * DP
    feature, pid = block_of_rows(DP, VP)
    bh, c = pid // (end - begin), begin + pid % (end - begin)
    b_, h = bh // H, bh % H
    state = each + (bh * slots + c - begin) * 2 * WEIGHTS + feature * DP
    first, count = segment(c, T, offset, chunk_size)
    table = table_at + (bh * N + c) * 4 * C + tl.arange(0, C)
    keysT = load_rows(k + b_ * k_b + h * k_h, first, count, k_t, D, C, DP)
    values = tl.trans(load_rows(v + b_ * v_b + h * v_h + feature, first, count, v_t, D - feature, C, VP))
    V = load_tile(state, VP, DP)
    init_at, start_at = h * WEIGHTS + feature * DP, bh * WEIGHTS + feature * DP
    held = layer.held_weights(V, init, init_at, chunk_start, start_at, c, VP, DP)
    e = 2 * (dot(held, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
    query = tl.trans(load_rows(q + b_ * q_b + h * q_h, first, count, q_t, D, C, DP))
    out = layer.readout(
        query, keysT, e, V, load_tile(state + WEIGHTS, VP, DP), tl.load(table), tl.load(table + C),
        tl.load(turned(A_at + (bh * N + c) * C * C, C, C)), DOT, PRECISION,
    )  # fmt: skip
    if init is not None:
        out = add_dot(out, tl.load(tile(init + init_at, VP, DP)), query, DOT, PRECISION)
    store_columns(y + (b_ * T * H + h) * D + feature, out, first, count, H * D, D - feature, C, VP)


# The phases of `triton_backward.backward`, each for one segment. A segment's slot of the scratch holds V, S, dV and dS,
# then tiles (DP, C).
E, DE, DKEYS = (tl.constexpr(i) for i in range(3))


def slot_size(width: int, lanes: int) -> int:
    """Numbers that the phases keep of a segment."""
    return 4 * width * width + 3 * width * lanes


@triton.jit
def states(
    state, seq, seg, D: tl.constexpr, DP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The state after a segment, from the state before it."""
    V, S = state
    b_n, a_n, e_n, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    keysT = load_rows(seq.k, seg.first, seg.count, seq.k_t, D, C, DP)
    values = tl.trans(load_rows(seq.v, seg.first, seg.count, seq.v_t, D, C, DP))
    held = layer.held_weights(V, seq.init, seq.init_at, seq.chunk_start, seq.start_at, seg.c, DP, DP)
    e = 2 * (dot(held, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
    return layer.update(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)


@triton.jit
def before(
    seq, seg, D: tl.constexpr, DP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What does not depend on the gradients of the state after the segment: dq, and parts of the other gradients."""
    TOKENS: tl.constexpr = DP * C
    first, count, tokens = seg.first, seg.count, seg.slot + 4 * DP * DP
    V, S = load_tile(seg.slot, DP, DP).to(DOT), load_tile(seg.slot + DP * DP, DP, DP).to(DOT)
    held = layer.held_weights(V, seq.init, seq.init_at, seq.chunk_start, seq.start_at, seg.c, DP, DP)
    keys = tl.trans(load_rows(seq.k, first, count, seq.k_t, D, C, DP)).to(DOT)
    values = tl.trans(load_rows(seq.v, first, count, seq.v_t, D, C, DP))
    e = (2 * (dot(held, keys, DOT, PRECISION) - values.to(tl.float32))).to(DOT)
    store_tile(tokens + E * TOKENS, e, DP, C)
    query = tl.trans(load_rows(seq.q, first, count, seq.q_t, D, C, DP)).to(DOT)
    dout = tl.trans(load_rows(seq.dy, first, count, seq.dy_t, D, C, DP)).to(DOT)
    table = seq.table + seg.number * 4 * C + tl.arange(0, C)
    dquery, dkeys, de, db, da, dAT = layer.readout_gradients(
        query, keys, e, dout, V, S, seq.init, seq.init_at, tl.load(table), tl.load(table + C),
        seq.A + seg.number * C * C, DOT, PRECISION,
    )  # fmt: skip
    store_columns(seq.dq, dquery, first, count, seq.row, D, C, DP)
    store_tile(tokens + DE * TOKENS, de, DP, C)
    store_tile(tokens + DKEYS * TOKENS, dkeys, DP, C)
    store_gate_gradients(seq.dtable, seq.dA, seg.number, db, da, dAT, C)


@triton.jit
def reverse_scan(
    dstate, feature, seq, seg, D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients by VP rows of the state before a segment, from those after it, and dv of as many features."""
    STATE: tl.constexpr = 2 * DP * DP
    dV, dS = dstate
    first, count, slot = seg.first, seg.count, seg.slot + feature * DP
    errors = seg.slot + 2 * STATE + DE * DP * C + feature * C
    table = seq.table + seg.number * 4 * C + tl.arange(0, C)
    b, a = tl.load(table), tl.load(table + C)
    b_n, a_n, e_n, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    de = load_tile(errors, VP, C).to(tl.float32)
    keysT = load_rows(seq.k, first, count, seq.k_t, D, C, DP)
    queryT = load_rows(seq.q, first, count, seq.q_t, D, C, DP)
    dout = tl.trans(load_rows(seq.dy + feature, first, count, seq.dy_t, D - feature, C, VP)).to(tl.float32)
    store_state(slot + STATE, dV, dS, VP, DP)
    de = layer.error_gradient(de, tl.trans(keysT), dV, dS, A_n, D_n, DOT, PRECISION)
    store_columns(seq.dv + feature, -2 * de, first, count, seq.row, D - feature, C, VP)
    de = (2 * de).to(DOT)
    store_tile(errors, de, VP, C)
    dS = add_dot(e_n * dS + a_n * dV, a[None, :] * dout, queryT, DOT, PRECISION)
    dV = add_dot(b_n * dV, b[None, :] * dout, queryT, DOT, PRECISION)
    dheld = dot(de, keysT, DOT, PRECISION)
    if seq.dfinal is not None:
        dheld += tl.load(tile(seq.dfinal + STATE + feature * DP, VP, DP), mask=seg.last, other=0.0)
    if seq.chunk_start is not None:
        here = seg.c == 0
        tl.store(tile(seq.dchunk_start + feature * DP, VP, DP), dheld, mask=here)
        dheld = tl.where(here, 0.0, dheld)
    dV += dheld
    if seq.init is not None:
        tl.debug_barrier()  # the segment after this one wrote there
        to = tile(seq.dinit + feature * DP, VP, DP)
        tl.store(to, tl.load(to) + add_dot(dheld, dout, queryT, DOT, PRECISION))
    return dV, dS


@triton.jit
def after(
    seq, seg, D: tl.constexpr, DP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What depends on the gradients of the state after the segment: dk, and the gradients by the update's gates."""
    WEIGHTS: tl.constexpr = DP * DP
    TOKENS: tl.constexpr = DP * C
    first, count, tokens = seg.first, seg.count, seg.slot + 4 * WEIGHTS
    _, _, _, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    keys = tl.trans(load_rows(seq.k, first, count, seq.k_t, D, C, DP)).to(DOT)
    V, S = load_tile(seg.slot, DP, DP), load_tile(seg.slot + WEIGHTS, DP, DP)
    dV, dS = load_tile(seg.slot + 2 * WEIGHTS, DP, DP).to(DOT), load_tile(seg.slot + 3 * WEIGHTS, DP, DP).to(DOT)
    dkeys, db_n, da_n, de_n, dA_n, dD_n = layer.update_gradients(
        keys, load_tile(tokens + E * TOKENS, DP, C).to(DOT), V, S, dV, dS, A_n, D_n, DOT, PRECISION
    )
    add_update_gate_gradients(seq.dtable, seq.dA, seg.number, db_n, da_n, de_n, dA_n, dD_n, C)
    held = layer.held_weights(V, seq.init, seq.init_at, seq.chunk_start, seq.start_at, seg.c, DP, DP)
    dkeys += load_tile(tokens + DKEYS * TOKENS, DP, C).to(tl.float32)
    dkeys = add_dot(dkeys, tl.trans(held.to(DOT)), load_tile(tokens + DE * TOKENS, DP, C), DOT, PRECISION)
    store_columns(seq.dk, dkeys, first, count, seq.row, D, C, DP)


@triton.jit
def add_start_gradient(to, dstate, SHARED: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr):
    """Write the gradient by the state that the call began with; where the batch shares it, add that by V alone."""
    dV, dS = dstate
    if SHARED:
        dV += tl.load(tile(to, VP, DP))
    tl.store(tile(to, VP, DP), dV)
    if not SHARED:
        tl.store(tile(to + DP * DP, VP, DP), dS)


@triton.jit
def load_state(at, known, ROWS: tl.constexpr, DP: tl.constexpr):
    """V and S of so many rows of a packed state; zero where it is not `known`."""
    V = tl.load(tile(at, ROWS, DP), mask=known, other=0.0)
    return V, tl.load(tile(at + DP * DP, ROWS, DP), mask=known, other=0.0)


@triton.jit
def store_state(at, V, S, ROWS: tl.constexpr, DP: tl.constexpr):
    store_tile(at, V, ROWS, DP)
    store_tile(at + DP * DP, S, ROWS, DP)


@triton.jit
def block_of_rows(DP: tl.constexpr, VP: tl.constexpr):
    """The first of a program's VP rows of DP, and the number of what it works on; blocks of rows count quickest."""
    BLOCKS: tl.constexpr = DP // VP
    pid = tl.cast(tl.program_id(0), tl.int64)
    return (pid % BLOCKS) * VP, pid // BLOCKS
