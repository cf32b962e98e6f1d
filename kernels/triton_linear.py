"""Triton kernels of a memory of one matrix; equations and letters as in `chunkwise`, the shape of tiles and of the work
and what is carried as in `triton_deep`.

A state is a packed row of float32: V (DP, DP), then S, both (out, in). Their rows never meet before the answers, nor do
those of their gradients, so what walks may give each block of VP rows to a program of its own.
"""

import triton
import triton.language as tl

from .triton_common import (
    add_dot,
    dot,
    left_by,
    load_rows,
    loaded_if,
    segment,
    store_columns,
    store_gate_gradients,
    tile,
    turned,
)
from .triton_deep import answer, learn


@triton.jit(do_not_specialize=["H", "T", "N", "offset", "chunk_size", "group", "groups"])
def forward(
    q, k, v, y, A_at, table_at, start, chunk_start, init, saved, final,
    H, T, N, offset, chunk_size, group, groups,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, READS: tl.constexpr, WALKS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.forward`; program_id(0) counts blocks of rows quickest."""
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    feature, pid = block_of_rows(DP, VP)
    bh, first_group, last_group = pid, tl.cast(0, tl.int64), tl.cast(groups, tl.int64)
    if not WALKS:
        bh, first_group = pid // groups, pid % groups
        last_group = first_group + 1
    b_, h = bh // H, bh % H
    V, S = tl.zeros((VP, DP), tl.float32), tl.zeros((VP, DP), tl.float32)
    saved += bh * (groups - 1) * STATE + feature * DP
    if start is not None:
        start += (h if SHARED else bh) * STATE + feature * DP
        if WALKS:
            V, S = tl.load(tile(start, VP, DP)), tl.load(tile(start + WEIGHTS, VP, DP))
    if not WALKS:
        at, known = saved + (first_group - 1) * STATE, first_group > 0
        if start is not None:
            at, known = tl.where(known, at, start), first_group >= 0
        V = tl.load(tile(at, VP, DP), mask=known, other=0.0)
        S = tl.load(tile(at + WEIGHTS, VP, DP), mask=known, other=0.0)
    if init is not None:
        I = tl.load(tile(init + h * WEIGHTS + feature * DP, VP, DP))
    q += b_ * q_b + h * q_h
    k += b_ * k_b + h * k_h
    v += b_ * v_b + h * v_h + feature
    y += (b_ * T * H + h) * D + feature
    lane = tl.arange(0, C)

    for g in range(first_group, last_group):
        if WALKS:
            if g > 0:
                to = saved + (g - 1) * STATE
                tl.store(tile(to, VP, DP), V)
                tl.store(tile(to + WEIGHTS, VP, DP), S)
        for c in range(g * group, tl.minimum((g + 1) * group, N)):
            first, count = segment(c, T, offset, chunk_size)
            table = table_at + (bh * N + c) * 4 * C + lane
            b, a = tl.load(table), tl.load(table + C)
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
                AT = tl.load(turned(A_at + (bh * N + c) * C * C, C, C))
                query = tl.trans(load_rows(q, first, count, q_t, D, C, DP))
                out = answer(query, keysT, e, V, S, b, a, AT, DOT, PRECISION)
                if init is not None:
                    out = add_dot(out, I, query, DOT, PRECISION)
                store_columns(y, out, first, count, H * D, D - feature, C, VP)
            b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
            V, S = learn(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)

    if final is not None:
        final += bh * (STATE + WEIGHTS) + feature * DP
        tl.store(tile(final, VP, DP), V)
        tl.store(tile(final + WEIGHTS, VP, DP), S)


@triton.jit(do_not_specialize=["BH", "H", "T", "N", "offset", "chunk_size", "group", "groups", "programs"])
def backward(
    q, k, v, A_at, table_at, start, chunk_start, init, saved, walked, dy, dfinal,
    dq, dk, dv, dA_at, dtable_at, dstart, dchunk_start, dinit, scratch,
    BH, H, T, N, offset, chunk_size, group, groups, programs,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, dy_b, dy_t, dy_h,
    D: tl.constexpr, DP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, WALKS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """As `triton_deep.backward`; where another WALKS, its groups are the programs' to share, and it writes the rest.

    `walked` is what `backward_walk` saved.
    """
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    pid = tl.cast(tl.program_id(0), tl.int64)
    scratch += pid * group * STATE
    lane = tl.arange(0, C)
    items = BH
    if not WALKS:
        items = BH * groups
    for item in range(pid, items, programs):
        bh, first_i, last_i = item, tl.cast(0, tl.int64), tl.cast(groups, tl.int64)
        if not WALKS:
            bh, first_i = item // groups, item % groups
            last_i = first_i + 1
        b_, h = bh // H, bh % H
        q_at, k_at, v_at = q + b_ * q_b + h * q_h, k + b_ * k_b + h * k_h, v + b_ * v_b + h * v_h
        dy_at, row = dy + b_ * dy_b + h * dy_h, (b_ * T * H + h) * D
        dV, dS = tl.zeros((DP, DP), tl.float32), tl.zeros((DP, DP), tl.float32)
        if not WALKS:
            at = walked + (bh * groups + groups - 1 - first_i) * STATE
            dV, dS = tl.load(tile(at, DP, DP)), tl.load(tile(at + WEIGHTS, DP, DP))
        elif dfinal is not None:
            at = dfinal + bh * (STATE + WEIGHTS)
            dV, dS = tl.load(tile(at, DP, DP)), tl.load(tile(at + WEIGHTS, DP, DP))

        begin = start
        if start is not None:
            begin += (h if SHARED else bh) * STATE
        for i in range(first_i, last_i):
            g = groups - 1 - i
            first_segment = g * group
            last_segment = tl.minimum(first_segment + group, N)
            recompute(
                k_at, v_at, A_at, table_at, begin, chunk_start, init, saved, scratch, bh, h, T, N, offset, chunk_size,
                g, groups, first_segment, last_segment, k_t, v_t, D, DP, C, DOT, PRECISION,
            )  # fmt: skip
            for j in range(0, last_segment - first_segment):
                c = last_segment - 1 - j
                slot = scratch + (c - first_segment) * STATE
                first, count = segment(c, T, offset, chunk_size)
                table = table_at + (bh * N + c) * 4 * C + lane
                b, a = tl.load(table), tl.load(table + C)
                A_c = A_at + (bh * N + c) * C * C
                A, AT = tl.load(tile(A_c, C, C)), tl.load(turned(A_c, C, C))
                b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                V, S = tl.load(tile(slot, DP, DP)), tl.load(tile(slot + WEIGHTS, DP, DP))
                db_n, da_n, de_n = tl.sum(dV * V), tl.sum(dV * S), tl.sum(dS * S)
                begun = V
                if init is not None:
                    I = tl.load(tile(init + h * WEIGHTS, DP, DP))
                    begun = V + I
                    I = I.to(DOT)
                if chunk_start is not None:
                    here, at = c == 0, chunk_start + bh * WEIGHTS
                    begun = loaded_if(here, at, begun, DP, DP)
                begun, V, S = begun.to(DOT), V.to(DOT), S.to(DOT)
                keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                keys = tl.trans(keysT)
                values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                queryT = load_rows(q_at, first, count, q_t, D, C, DP)
                query = tl.trans(queryT)
                doutT = load_rows(dy_at, first, count, dy_t, D, C, DP)
                dout = tl.trans(doutT)
                e = (2 * (dot(begun, keys, DOT, PRECISION) - values.to(tl.float32))).to(DOT)

                # The answers. What is (C, C) is computed in both directions, as in `triton_deep`.
                dRT = -dot(tl.trans(e), dout, DOT, PRECISION)
                dAT = dRT * dot(keysT, query, DOT, PRECISION)
                dPT = dRT * AT
                de = -dot(dout, A * dot(queryT, keys, DOT, PRECISION), DOT, PRECISION)
                dkeys = -dot(query, A * dot(doutT, e, DOT, PRECISION), DOT, PRECISION)
                by_v, by_s = dot(tl.trans(V), dout, DOT, PRECISION), dot(tl.trans(S), dout, DOT, PRECISION)
                db = tl.sum(query.to(tl.float32) * by_v, axis=0)
                da = tl.sum(query.to(tl.float32) * by_s, axis=0)
                dquery = add_dot(b[None, :] * by_v + a[None, :] * by_s, keys, dPT, DOT, PRECISION)
                if init is not None:
                    dquery = add_dot(dquery, tl.trans(I), dout, DOT, PRECISION)
                store_columns(dq + row, dquery, first, count, H * D, D, C, DP)

                # The state after the segment, and the keys' surprises.
                dV_, dS_ = dV.to(DOT), dS.to(DOT)
                by_v, by_s = dot(tl.trans(dV_), e, DOT, PRECISION), dot(tl.trans(dS_), e, DOT, PRECISION)
                dA_n = -tl.sum(keys.to(tl.float32) * by_v, axis=0)
                dD_n = -tl.sum(keys.to(tl.float32) * by_s, axis=0)
                dkeys -= A_n[None, :] * by_v + D_n[None, :] * by_s
                de -= A_n[None, :] * dot(dV_, keys, DOT, PRECISION) + D_n[None, :] * dot(dS_, keys, DOT, PRECISION)
                if WALKS:
                    store_columns(dv + row, -2 * de, first, count, H * D, D, C, DP)
                de = (2 * de).to(DOT)
                dkeys = add_dot(dkeys, tl.trans(begun), de, DOT, PRECISION)
                store_columns(dk + row, dkeys, first, count, H * D, D, C, DP)
                store_gate_gradients(
                    dtable_at, dA_at, bh * N + c, db, da, db_n, da_n, de_n, dA_n, dD_n, dAT, C
                )  # fmt: skip

                # The state before the segment.
                dout_ = dout.to(tl.float32)
                dS = add_dot(e_n * dS + a_n * dV, a[None, :] * dout_, queryT, DOT, PRECISION)
                dV = add_dot(b_n * dV, b[None, :] * dout_, queryT, DOT, PRECISION)
                dbegun = dot(de, keysT, DOT, PRECISION)
                if dfinal is not None:
                    at = dfinal + bh * (STATE + WEIGHTS) + STATE
                    dbegun += tl.load(tile(at, DP, DP), mask=c == N - 1, other=0.0)
                if WALKS and chunk_start is not None:
                    here = c == 0
                    tl.store(tile(dchunk_start + bh * WEIGHTS, DP, DP), dbegun, mask=here)
                    dbegun = tl.where(here, 0.0, dbegun)
                dV += dbegun
                if WALKS and init is not None:
                    to = tile(dinit + pid * WEIGHTS, DP, DP)
                    tl.store(to, tl.load(to) + add_dot(dbegun, dout, queryT, DOT, PRECISION))
            tl.debug_barrier()  # the scratch is written anew

        if WALKS and start is not None:
            to = dstart + (pid if SHARED else bh) * STATE
            if SHARED:
                dV += tl.load(tile(to, DP, DP))
            tl.store(tile(to, DP, DP), dV)
            if not SHARED:
                tl.store(tile(to + WEIGHTS, DP, DP), dS)


@triton.jit(do_not_specialize=["H", "T", "N", "offset", "chunk_size", "group", "groups"])
def backward_walk(
    q, k, A_at, table_at, start, chunk_start, init, dy, dfinal, dv, dstart, dchunk_start, dinit, walked,
    H, T, N, offset, chunk_size, group, groups,
    q_b, q_t, q_h, k_b, k_t, k_h, dy_b, dy_t, dy_h,
    D: tl.constexpr, DP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The part of the backward that no segment can do before the next: dv and the gradients of the states.

    It needs no state, for a linear memory's surprise is linear in it. Those after each group's last segment go to
    `walked` (BH, groups, STATE); `dstart` and `dinit` have a row for each of BH. program_id(0) counts blocks of rows
    quickest.
    """
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    feature, bh = block_of_rows(DP, VP)
    b_, h = bh // H, bh % H
    dV, dS, dI = tl.zeros((VP, DP), tl.float32), tl.zeros((VP, DP), tl.float32), tl.zeros((VP, DP), tl.float32)
    if dfinal is not None:
        dfinal += bh * (STATE + WEIGHTS) + feature * DP
        dV, dS = tl.load(tile(dfinal, VP, DP)), tl.load(tile(dfinal + WEIGHTS, VP, DP))
    q += b_ * q_b + h * q_h
    k += b_ * k_b + h * k_h
    dy += b_ * dy_b + h * dy_h + feature
    dv += (b_ * T * H + h) * D + feature
    lane = tl.arange(0, C)

    for i in range(0, groups):
        g = groups - 1 - i
        to = walked + (bh * groups + g) * STATE + feature * DP
        tl.store(tile(to, VP, DP), dV)
        tl.store(tile(to + WEIGHTS, VP, DP), dS)
        last_segment = tl.minimum((g + 1) * group, N)
        for j in range(0, last_segment - g * group):
            c = last_segment - 1 - j
            first, count = segment(c, T, offset, chunk_size)
            table = table_at + (bh * N + c) * 4 * C + lane
            b, a = tl.load(table), tl.load(table + C)
            A = tl.load(tile(A_at + (bh * N + c) * C * C, C, C))
            b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
            keysT = load_rows(k, first, count, k_t, D, C, DP)
            keys = tl.trans(keysT)
            queryT = load_rows(q, first, count, q_t, D, C, DP)
            dout = tl.trans(load_rows(dy, first, count, dy_t, D - feature, C, VP))

            de = -dot(dout, A * dot(queryT, keys, DOT, PRECISION), DOT, PRECISION)
            dV_, dS_ = dV.to(DOT), dS.to(DOT)
            de -= A_n[None, :] * dot(dV_, keys, DOT, PRECISION) + D_n[None, :] * dot(dS_, keys, DOT, PRECISION)
            store_columns(dv, -2 * de, first, count, H * D, D - feature, C, VP)
            dout_ = dout.to(tl.float32)
            dS = add_dot(e_n * dS + a_n * dV, a[None, :] * dout_, queryT, DOT, PRECISION)
            dV = add_dot(b_n * dV, b[None, :] * dout_, queryT, DOT, PRECISION)
            dbegun = dot((2 * de).to(DOT), keysT, DOT, PRECISION)
            if dfinal is not None:
                dbegun += tl.load(tile(dfinal + STATE, VP, DP), mask=c == N - 1, other=0.0)
            if chunk_start is not None:
                here = c == 0
                tl.store(tile(dchunk_start + bh * WEIGHTS + feature * DP, VP, DP), dbegun, mask=here)
                dbegun = tl.where(here, 0.0, dbegun)
            dV += dbegun
            if init is not None:
                dI += add_dot(dbegun, dout, queryT, DOT, PRECISION)

    if start is not None:
        to = dstart + bh * STATE + feature * DP
        tl.store(tile(to, VP, DP), dV)
        tl.store(tile(to + WEIGHTS, VP, DP), dS)
    if init is not None:
        tl.store(tile(dinit + bh * WEIGHTS + feature * DP, VP, DP), dI)


@triton.jit
def block_of_rows(DP: tl.constexpr, VP: tl.constexpr):
    """The first of a program's VP rows of DP, and the number of what it works on; blocks of rows count quickest."""
    BLOCKS: tl.constexpr = DP // VP
    pid = tl.cast(tl.program_id(0), tl.int64)
    return (pid % BLOCKS) * VP, pid // BLOCKS


@triton.jit
def recompute(
    k, v, A_at, table_at, start, chunk_start, init, saved, scratch,
    bh, h, T, N, offset, chunk_size, g, groups, first_segment, last_segment, k_t, v_t,
    D: tl.constexpr, DP: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The states before each segment of group g, into the scratch."""
    WEIGHTS: tl.constexpr = DP * DP
    STATE: tl.constexpr = 2 * WEIGHTS
    at, known = saved + (bh * (groups - 1) + g - 1) * STATE, g > 0
    if start is not None:
        at, known = tl.where(known, at, start), g >= 0
    V, S = tl.load(tile(at, DP, DP), mask=known, other=0.0), tl.load(tile(at + WEIGHTS, DP, DP), mask=known, other=0.0)
    tl.store(tile(scratch, DP, DP), V)
    tl.store(tile(scratch + WEIGHTS, DP, DP), S)
    for c in range(first_segment, last_segment - 1):
        first, count = segment(c, T, offset, chunk_size)
        b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
        keysT = load_rows(k, first, count, k_t, D, C, DP)
        values = tl.trans(load_rows(v, first, count, v_t, D, C, DP))
        begun = V
        if init is not None:
            begun += tl.load(tile(init + h * WEIGHTS, DP, DP))
        if chunk_start is not None:
            here, at = c == 0, chunk_start + bh * WEIGHTS
            begun = loaded_if(here, at, begun, DP, DP)
        e = 2 * (dot(begun, tl.trans(keysT), DOT, PRECISION) - values.to(tl.float32))
        V, S = learn(V, S, keysT, e, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
        slot = scratch + (c + 1 - first_segment) * STATE
        tl.store(tile(slot, DP, DP), V)
        tl.store(tile(slot + WEIGHTS, DP, DP), S)
    tl.debug_barrier()  # other threads read what these wrote
