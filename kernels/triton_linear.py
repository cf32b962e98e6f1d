"""Triton kernels of a memory of one matrix; equations and letters as in `chunkwise`, tiles as in `triton_layer`, the
shape of the work and what is carried as in `triton_deep`.

A state is a packed row of float32: V (DP, DP), then S, both (out, in). Their rows never meet before the answers, nor do
those of their gradients, so what walks may give each block of VP rows to a program of its own.
"""

import triton
import triton.language as tl

from .triton_common import (
    VARYING,
    add_dot,
    add_left_gradients,
    dot,
    gradient_after,
    items_of,
    keep,
    kept,
    left_by,
    load_rows,
    loaded_if,
    part_of,
    saved_at,
    segment,
    sequence_of,
    state_before,
    store_columns,
    store_gate_gradients,
    tile,
    turned,
)
from .triton_layer import answer, answer_gradients, begun_at, error_gradient, learn, learn_gradients


@triton.jit(do_not_specialize=VARYING)
def forward(
    q, k, v, y, A_at, table_at, start, chunk_start, init, saved, each, final,
    H, T, N, offset, chunk_size, group, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, READS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.forward`; program_id(0) counts blocks of rows quickest."""
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
            begun = V
            if init is not None:
                begun = V + I
            if chunk_start is not None:
                here, at = c == 0, chunk_start + bh * WEIGHTS + feature * DP
                begun = loaded_if(here, at, begun, VP, DP)
            if final is not None:
                if c == N - 1:
                    tl.store(tile(final + bh * (STATE + WEIGHTS) + STATE + feature * DP, VP, DP), begun)
            e = 2 * (dot(begun, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
            if READS:
                table = table_at + (bh * N + c) * 4 * C + lane
                b, a = tl.load(table), tl.load(table + C)
                AT = tl.load(turned(A_at + (bh * N + c) * C * C, C, C))
                query = tl.trans(load_rows(q, first, count, q_t, D, C, DP))
                out = answer(query, keysT, e, V, S, b, a, AT, DOT, PRECISION)
                if init is not None:
                    out = add_dot(out, I, query, DOT, PRECISION)
                store_columns(y, out, first, count, H * D, D - feature, C, VP)
            else:
                store_state(each + c * STATE, V, S, VP, DP)
            b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
            V, S = learn(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)

    if not READS:
        if end < N:
            store_state(saved + (last_group - 1) * STATE, V, S, VP, DP)
    if final is not None:
        if end == N:
            store_state(final + bh * (STATE + WEIGHTS) + feature * DP, V, S, VP, DP)


@triton.jit(do_not_specialize=VARYING)
def answers(
    q, k, v, y, A_at, table_at, chunk_start, init, each,
    H, T, N, offset, chunk_size, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.answers`; program_id(0) counts blocks of rows quickest."""
    WEIGHTS: tl.constexpr = DP * DP
    feature, pid = block_of_rows(DP, VP)
    bh, c = pid // (end - begin), begin + pid % (end - begin)
    b_, h = bh // H, bh % H
    state = each + (bh * slots + c - begin) * 2 * WEIGHTS + feature * DP
    first, count = segment(c, T, offset, chunk_size)
    table = table_at + (bh * N + c) * 4 * C + tl.arange(0, C)
    keysT = load_rows(k + b_ * k_b + h * k_h, first, count, k_t, D, C, DP)
    values = tl.trans(load_rows(v + b_ * v_b + h * v_h + feature, first, count, v_t, D - feature, C, VP))
    V = kept(state, VP, DP)
    init_at, start_at = h * WEIGHTS + feature * DP, bh * WEIGHTS + feature * DP
    begun = begun_at(V, init, init_at, chunk_start, start_at, c, VP, DP)
    e = 2 * (dot(begun, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
    query = tl.trans(load_rows(q + b_ * q_b + h * q_h, first, count, q_t, D, C, DP))
    out = answer(
        query, keysT, e, V, kept(state + WEIGHTS, VP, DP), tl.load(table), tl.load(table + C),
        tl.load(turned(A_at + (bh * N + c) * C * C, C, C)), DOT, PRECISION,
    )  # fmt: skip
    if init is not None:
        out = add_dot(out, tl.load(tile(init + init_at, VP, DP)), query, DOT, PRECISION)
    store_columns(y + (b_ * T * H + h) * D + feature, out, first, count, H * D, D - feature, C, VP)


def slot_size(width: int, _hidden: int, lanes: int) -> int:
    """As `triton_deep.slot_size`."""
    return 4 * width * width + 3 * width * lanes


@triton.jit(do_not_specialize=VARYING)
def backward(
    q, k, v, A_at, table_at, start, chunk_start, init, saved, dy, dfinal,
    dq, dk, dv, dA_at, dtable_at, dstart, dchunk_start, dinit, scratch, carry,
    BH, H, T, N, offset, chunk_size, group, part, begin, end, slots, programs,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, dy_b, dy_t, dy_h,
    D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    SLOT: tl.constexpr, SHARED: tl.constexpr, PHASE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.backward`; the walk alone may take blocks of VP rows, which program_id(0) counts quickest."""
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    TOKENS: tl.constexpr = DP * C
    feature, pid = block_of_rows(DP, VP)
    lane = tl.arange(0, C)
    parts, items, each = items_of(BH, begin, end, part, PHASE)
    for item in range(pid, items, programs):
        bh, b_, h, last_part, own = sequence_of(item, parts, pid, H, PHASE)
        q_at, k_at, v_at = q + b_ * q_b + h * q_h, k + b_ * k_b + h * k_h, v + b_ * v_b + h * v_h
        dy_at, row = dy + b_ * dy_b + h * dy_h, (b_ * T * H + h) * D
        init_at, start_at = h * WEIGHTS, bh * WEIGHTS
        for i in range(0, each):
            first_segment, last_segment, slot_0 = part_of(
                last_part - i, begin, end, part, scratch, own, slots, SLOT, PHASE
            )

            if PHASE == "all" or PHASE == "states":
                at, known = state_before(saved, start, bh, h, first_segment // group, N, group, STATE, SHARED)
                V, S = load_state(at, known, DP, DP)
                store_state(slot_0 + first_segment * SLOT, V, S, DP, DP)
                for c in range(first_segment, last_segment - 1):
                    first, count = segment(c, T, offset, chunk_size)
                    b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                    values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                    begun = begun_at(V, init, init_at, chunk_start, start_at, c, DP, DP)
                    e = 2 * (dot(begun, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
                    V, S = learn(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
                    store_state(slot_0 + (c + 1) * SLOT, V, S, DP, DP)
            if PHASE == "all":
                tl.debug_barrier()  # other threads read what these wrote

            if PHASE == "all" or PHASE == "before":
                for c in range(first_segment, last_segment):
                    slot = slot_0 + c * SLOT
                    tokens = slot + 2 * STATE
                    first, count = segment(c, T, offset, chunk_size)
                    V_, S_ = kept(slot, DP, DP).to(DOT), kept(slot + WEIGHTS, DP, DP).to(DOT)
                    begun = begun_at(V_, init, init_at, chunk_start, start_at, c, DP, DP)
                    keys = tl.trans(load_rows(k_at, first, count, k_t, D, C, DP)).to(DOT)
                    values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                    e = (2 * (dot(begun, keys, DOT, PRECISION) - values.to(tl.float32))).to(DOT)
                    keep(tokens, e, DP, C)
                    query = tl.trans(load_rows(q_at, first, count, q_t, D, C, DP)).to(DOT)
                    dout = tl.trans(load_rows(dy_at, first, count, dy_t, D, C, DP)).to(DOT)
                    table = table_at + (bh * N + c) * 4 * C + lane
                    dquery, dkeys, de, db, da, dAT = answer_gradients(
                        query, keys, e, dout, V_, S_, init, init_at, tl.load(table), tl.load(table + C),
                        A_at + (bh * N + c) * C * C, DOT, PRECISION,
                    )  # fmt: skip
                    store_columns(dq + row, dquery, first, count, H * D, D, C, DP)
                    keep(tokens + TOKENS, de, DP, C)
                    keep(tokens + 2 * TOKENS, dkeys, DP, C)
                    store_gate_gradients(dtable_at, dA_at, bh * N + c, db, da, dAT, C)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "walk":
                carried = carry + own * STATE
                at, known = gradient_after(carried, dfinal, bh, last_segment, N, STATE, STATE + WEIGHTS)
                dV, dS = load_state(at + feature * DP, known, VP, DP)
                # Alone, it loads a segment while it walks one, but where a barrier stands in the loop: for `init`.
                for j in tl.range(0, last_segment - first_segment, num_stages=2 if PHASE == "walk" else 1):
                    c = last_segment - 1 - j
                    slot = slot_0 + c * SLOT + feature * DP
                    tokens = slot_0 + c * SLOT + 2 * STATE + TOKENS + feature * C
                    first, count = segment(c, T, offset, chunk_size)
                    table = table_at + (bh * N + c) * 4 * C + lane
                    b, a = tl.load(table), tl.load(table + C)
                    b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    de = kept(tokens, VP, C).to(tl.float32)
                    keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                    queryT = load_rows(q_at, first, count, q_t, D, C, DP)
                    dout = tl.trans(load_rows(dy_at + feature, first, count, dy_t, D - feature, C, VP)).to(tl.float32)
                    store_state(slot + STATE, dV, dS, VP, DP)
                    de = error_gradient(de, tl.trans(keysT), dV, dS, A_n, D_n, DOT, PRECISION)
                    store_columns(dv + row + feature, -2 * de, first, count, H * D, D - feature, C, VP)
                    de = (2 * de).to(DOT)
                    keep(tokens, de, VP, C)
                    dS = add_dot(e_n * dS + a_n * dV, a[None, :] * dout, queryT, DOT, PRECISION)
                    dV = add_dot(b_n * dV, b[None, :] * dout, queryT, DOT, PRECISION)
                    dbegun = dot(de, keysT, DOT, PRECISION)
                    if dfinal is not None:
                        at = dfinal + bh * (STATE + WEIGHTS) + STATE + feature * DP
                        dbegun += tl.load(tile(at, VP, DP), mask=c == N - 1, other=0.0)
                    if chunk_start is not None:
                        here = c == 0
                        tl.store(tile(dchunk_start + start_at + feature * DP, VP, DP), dbegun, mask=here)
                        dbegun = tl.where(here, 0.0, dbegun)
                    dV += dbegun
                    if init is not None:
                        tl.debug_barrier()  # the segment after this one wrote there
                        to = tile(dinit + own * WEIGHTS + feature * DP, VP, DP)
                        tl.store(to, tl.load(to) + add_dot(dbegun, dout, queryT, DOT, PRECISION))
                if first_segment > 0:
                    store_state(carried + feature * DP, dV, dS, VP, DP)
                elif start is not None:
                    to = dstart + (own if SHARED else bh) * STATE + feature * DP
                    if SHARED:
                        dV += tl.load(tile(to, VP, DP))
                    tl.store(tile(to, VP, DP), dV)
                    if not SHARED:
                        tl.store(tile(to + WEIGHTS, VP, DP), dS)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "after":
                for c in range(first_segment, last_segment):
                    slot = slot_0 + c * SLOT
                    tokens = slot + 2 * STATE
                    first, count = segment(c, T, offset, chunk_size)
                    _, _, _, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    keys = tl.trans(load_rows(k_at, first, count, k_t, D, C, DP)).to(DOT)
                    V_, S_ = kept(slot, DP, DP), kept(slot + WEIGHTS, DP, DP)
                    dV_, dS_ = kept(slot + STATE, DP, DP).to(DOT), kept(slot + STATE + WEIGHTS, DP, DP).to(DOT)
                    dkeys, db_n, da_n, de_n, dA_n, dD_n = learn_gradients(
                        keys, kept(tokens, DP, C).to(DOT), V_, S_, dV_, dS_, A_n, D_n, DOT, PRECISION
                    )
                    add_left_gradients(dtable_at, dA_at, bh * N + c, db_n, da_n, de_n, dA_n, dD_n, C)
                    begun = begun_at(V_, init, init_at, chunk_start, start_at, c, DP, DP)
                    dkeys += kept(tokens + 2 * TOKENS, DP, C).to(tl.float32)
                    dkeys = add_dot(dkeys, tl.trans(begun.to(DOT)), kept(tokens + TOKENS, DP, C), DOT, PRECISION)
                    store_columns(dk + row, dkeys, first, count, H * D, D, C, DP)
            if PHASE == "all":
                tl.debug_barrier()  # the scratch is written anew


@triton.jit
def load_state(at, known, ROWS: tl.constexpr, DP: tl.constexpr):
    """V and S of so many rows of a packed state; zero where it is not `known`."""
    V = tl.load(tile(at, ROWS, DP), mask=known, other=0.0)
    return V, tl.load(tile(at + DP * DP, ROWS, DP), mask=known, other=0.0)


@triton.jit
def store_state(at, V, S, ROWS: tl.constexpr, DP: tl.constexpr):
    keep(at, V, ROWS, DP)
    keep(at + DP * DP, S, ROWS, DP)


@triton.jit
def block_of_rows(DP: tl.constexpr, VP: tl.constexpr):
    """The first of a program's VP rows of DP, and the number of what it works on; blocks of rows count quickest."""
    BLOCKS: tl.constexpr = DP // VP
    pid = tl.cast(tl.program_id(0), tl.int64)
    return (pid % BLOCKS) * VP, pid // BLOCKS
