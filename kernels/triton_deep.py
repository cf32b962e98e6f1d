"""Triton kernels of a memory of two layers; equations and letters as in `chunkwise`.

Every tile has features for rows and tokens for columns, and a layer's matrix is kept as (out, in): a tensor core's
rows are then features, of which there are more than tokens, and the state is its first operand, which comes from
registers. So X stands for the X^T of `chunkwise`, W for W^T, and W X for X W. Names in small letters with a T are tiles
turned back: (tokens, features).

Forgetting leads to `init`: the kernels carry V = W - init, which forgets towards zero, and init is zero in the paper's
case. A state is a packed row of float32: V^1 (EP, DP), V^2 (DP, EP), then S^1, S^2 likewise; DP and EP are D and E
padded to powers of two with zeros, which every product keeps zero.

Forward, one program walks the segments of one (batch, head) with the state in registers and saves it every `group`
segments. Or, where there are too few heads to fill a GPU, one pass walks (READS false) and another answers the queries
of all groups at once (WALKS false). Backward, each program takes one (batch, head) after another, walks its groups
from the last to the first, recomputes a group's states into a scratch of its own and goes through its segments in
reverse with the state's gradient in registers.
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
    silu_and_slope,
    silu_curvature,
    store_columns,
    store_gate_gradients,
    tile,
    turned,
)


@triton.jit
def load_state(at, known, DP: tl.constexpr, EP: tl.constexpr):
    """V^1, V^2, S^1 and S^2 of a packed row; zero where it is not `known`."""
    momentum = at + 2 * DP * EP
    V1, V2 = load_weights(at, known, DP, EP)
    S1, S2 = load_weights(momentum, known, DP, EP)
    return V1, V2, S1, S2


@triton.jit
def load_weights(at, known, DP: tl.constexpr, EP: tl.constexpr):
    first = tl.load(tile(at, EP, DP), mask=known, other=0.0)
    return first, tl.load(tile(at + DP * EP, DP, EP), mask=known, other=0.0)


@triton.jit
def store_state(at, V1, V2, S1, S2, DP: tl.constexpr, EP: tl.constexpr):
    store_weights(at, V1, V2, DP, EP)
    store_weights(at + 2 * DP * EP, S1, S2, DP, EP)


@triton.jit
def store_weights(at, first, second, DP: tl.constexpr, EP: tl.constexpr):
    tl.store(tile(at, EP, DP), first)
    tl.store(tile(at + DP * EP, DP, EP), second)


@triton.jit
def learn(v, s, xT, e, b_n, a_n, e_n, A_n, D_n, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """A layer's weights and momentum after a segment with keys xT (C, in) and errors e (out, C)."""
    v = add_dot(b_n * v + a_n * s, -A_n[None, :] * e, xT, DOT, PRECISION)
    s = add_dot(e_n * s, -D_n[None, :] * e, xT, DOT, PRECISION)
    return v, s


@triton.jit
def answer(q, xT, e, v, s, b, a, AT, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """A layer's answers (out, C) to queries q (in, C) of a segment with keys xT (C, in), but for those of `init`."""
    q = q.to(DOT)
    y = b[None, :] * dot(v, q, DOT, PRECISION) + a[None, :] * dot(s, q, DOT, PRECISION)
    return add_dot(y, -e, AT * dot(xT, q, DOT, PRECISION), DOT, PRECISION)


@triton.jit
def surprise(k, v, C1, C2, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """X^2, E^1 and E^2 of a segment's keys k (DP, C) and values, at the weights its chunk began with."""
    x2, slope = silu_and_slope(dot(C1, k, DOT, PRECISION))
    e2 = 2 * (dot(C2, x2, DOT, PRECISION) - v.to(tl.float32))
    return x2, dot(tl.trans(C2.to(DOT)), e2, DOT, PRECISION) * slope, e2


@triton.jit(do_not_specialize=["H", "T", "N", "offset", "chunk_size", "group", "groups"])
def forward(
    q, k, v, y, A_at, table_at, start, chunk_start, init, saved, final,
    H, T, N, offset, chunk_size, group, groups,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, READS: tl.constexpr, WALKS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Answers y (B, T, H, D) contiguous, the saved states (B * H, groups - 1, state), and (B * H, state + weights):
    the final state and the weights at which the last segment began.

    `start` is (B * H, state), or (H, state) where SHARED; zero if None. `chunk_start` (B * H, weights): where the first
    segment's surprises are taken, if its chunk began earlier. `init` (H, weights).
    """
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    pid = tl.cast(tl.program_id(0), tl.int64)
    bh, first_group, last_group = pid, tl.cast(0, tl.int64), tl.cast(groups, tl.int64)
    if not WALKS:
        bh, first_group = pid // groups, pid % groups
        last_group = first_group + 1
    b_, h = bh // H, bh % H
    V1, V2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
    S1, S2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
    saved += bh * (groups - 1) * STATE
    if start is not None:
        start += (h if SHARED else bh) * STATE
        if WALKS:
            V1, V2, S1, S2 = load_state(start, True, DP, EP)
    if not WALKS:
        at, known = saved + (first_group - 1) * STATE, first_group > 0
        if start is not None:
            at, known = tl.where(known, at, start), first_group >= 0
        V1, V2, S1, S2 = load_state(at, known, DP, EP)
    if init is not None:
        init += h * WEIGHTS
        I1, I2 = tl.load(tile(init, EP, DP)), tl.load(tile(init + HALF, DP, EP))
    q += b_ * q_b + h * q_h
    k += b_ * k_b + h * k_h
    v += b_ * v_b + h * v_h
    y += (b_ * T * H + h) * D
    lane = tl.arange(0, C)

    for g in range(first_group, last_group):
        if WALKS:
            if g > 0:
                to = saved + (g - 1) * STATE
                store_state(to, V1, V2, S1, S2, DP, EP)
        for c in range(g * group, tl.minimum((g + 1) * group, N)):
            first, count = segment(c, T, offset, chunk_size)
            table = table_at + (bh * N + c) * 4 * C + lane
            b, a = tl.load(table), tl.load(table + C)
            keysT = load_rows(k, first, count, k_t, D, C, DP)
            values = tl.trans(load_rows(v, first, count, v_t, D, C, DP))
            C1, C2 = V1, V2
            if init is not None:
                C1, C2 = V1 + I1, V2 + I2
            if chunk_start is not None:
                here, at = c == 0, chunk_start + bh * WEIGHTS
                C1, C2 = loaded_if(here, at, C1, EP, DP), loaded_if(here, at + HALF, C2, DP, EP)
            if final is not None:
                if c == N - 1:
                    to = final + bh * (STATE + WEIGHTS) + STATE
                    store_weights(to, C1, C2, DP, EP)
            x2, e1, e2 = surprise(tl.trans(keysT), values, C1, C2, DOT, PRECISION)
            x2T = tl.trans(x2.to(DOT))
            if READS:
                AT = tl.load(turned(A_at + (bh * N + c) * C * C, C, C))
                query = tl.trans(load_rows(q, first, count, q_t, D, C, DP))
                hidden = answer(query, keysT, e1, V1, S1, b, a, AT, DOT, PRECISION)
                if init is not None:
                    hidden = add_dot(hidden, I1, query, DOT, PRECISION)
                query2, _ = silu_and_slope(hidden)
                out = answer(query2, x2T, e2, V2, S2, b, a, AT, DOT, PRECISION)
                if init is not None:
                    out = add_dot(out, I2, query2, DOT, PRECISION)
                store_columns(y, out, first, count, H * D, D, C, DP)
            b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
            V1, S1 = learn(V1, S1, keysT, e1, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
            V2, S2 = learn(V2, S2, x2T, e2, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)

    if final is not None:
        final += bh * (STATE + WEIGHTS)
        store_state(final, V1, V2, S1, S2, DP, EP)


@triton.jit(do_not_specialize=["BH", "H", "T", "N", "offset", "chunk_size", "group", "groups", "programs"])
def backward(
    q, k, v, A_at, table_at, start, chunk_start, init, saved, dy, dfinal,
    dq, dk, dv, dA_at, dtable_at, dstart, dchunk_start, dinit, scratch,
    BH, H, T, N, offset, chunk_size, group, groups, programs,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, dy_b, dy_t, dy_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients dq, dk, dv (B, T, H, D) contiguous, dA and dtable, and those of the states.

    `programs` is a multiple of H, so that a program meets one head only: gradients by what the batch shares (`init`,
    and `start` where SHARED) are added up in the program's own row, for the caller to add in order.
    """
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    pid = tl.cast(tl.program_id(0), tl.int64)
    scratch += pid * group * STATE
    lane = tl.arange(0, C)
    for bh in range(pid, BH, programs):
        b_, h = bh // H, bh % H
        q_at, k_at, v_at = q + b_ * q_b + h * q_h, k + b_ * k_b + h * k_h, v + b_ * v_b + h * v_h
        dy_at, row = dy + b_ * dy_b + h * dy_h, (b_ * T * H + h) * D
        dV1, dV2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
        dS1, dS2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
        if dfinal is not None:
            at = dfinal + bh * (STATE + WEIGHTS)
            dV1, dV2, dS1, dS2 = load_state(at, True, DP, EP)

        begin = start
        if start is not None:
            begin += (h if SHARED else bh) * STATE
        for i in range(0, groups):
            g = groups - 1 - i
            first_segment = g * group
            last_segment = tl.minimum(first_segment + group, N)
            recompute(
                k_at, v_at, A_at, table_at, begin, chunk_start, init, saved, scratch, bh, h, T, N, offset, chunk_size,
                g, groups, first_segment, last_segment, k_t, v_t, D, DP, EP, C, DOT, PRECISION,
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
                V1, V2, S1, S2 = load_state(slot, True, DP, EP)
                db_n = tl.sum(dV1 * V1) + tl.sum(dV2 * V2)
                da_n = tl.sum(dV1 * S1) + tl.sum(dV2 * S2)
                de_n = tl.sum(dS1 * S1) + tl.sum(dS2 * S2)
                C1, C2 = V1, V2
                if init is not None:
                    I1 = tl.load(tile(init + h * WEIGHTS, EP, DP))
                    I2 = tl.load(tile(init + h * WEIGHTS + HALF, DP, EP))
                    C1, C2 = V1 + I1, V2 + I2
                    I1, I2 = I1.to(DOT), I2.to(DOT)
                if chunk_start is not None:
                    here, at = c == 0, chunk_start + bh * WEIGHTS
                    C1, C2 = loaded_if(here, at, C1, EP, DP), loaded_if(here, at + HALF, C2, DP, EP)
                C1, C2, V1, V2, S1, S2 = C1.to(DOT), C2.to(DOT), V1.to(DOT), V2.to(DOT), S1.to(DOT), S2.to(DOT)

                # Keys, through the weights at the chunk's start.
                keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                keys = tl.trans(keysT)
                values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                z1 = dot(C1, keys, DOT, PRECISION)
                x2, slope = silu_and_slope(z1)
                x2 = x2.to(DOT)
                e2 = (2 * (dot(C2, x2, DOT, PRECISION) - values.to(tl.float32))).to(DOT)
                u = dot(tl.trans(C2), e2, DOT, PRECISION)
                e1 = (u * slope).to(DOT)
                # Queries, through the first layer.
                queryT = load_rows(q_at, first, count, q_t, D, C, DP)
                query = tl.trans(queryT)
                P1T = dot(keysT, query, DOT, PRECISION)
                hidden = b[None, :] * dot(V1, query, DOT, PRECISION) + a[None, :] * dot(S1, query, DOT, PRECISION)
                hidden = add_dot(hidden, -e1, AT * P1T, DOT, PRECISION)
                if init is not None:
                    hidden = add_dot(hidden, I1, query, DOT, PRECISION)
                query2, hidden_slope = silu_and_slope(hidden)
                query2 = query2.to(DOT)
                doutT = load_rows(dy_at, first, count, dy_t, D, C, DP)
                dout = tl.trans(doutT)

                # The second layer. What is (C, C) is computed in both directions, not turned: Triton gets the transpose
                # of a product wrong on Hopper.
                x2T, query2T = tl.trans(x2), tl.trans(query2)
                dRT = -dot(tl.trans(e2), dout, DOT, PRECISION)
                dAT = dRT * dot(x2T, query2, DOT, PRECISION)
                dPT = dRT * AT
                de2 = -dot(dout, A * dot(query2T, x2, DOT, PRECISION), DOT, PRECISION)
                dx2 = -dot(query2, A * dot(doutT, e2, DOT, PRECISION), DOT, PRECISION)
                by_v, by_s = dot(tl.trans(V2), dout, DOT, PRECISION), dot(tl.trans(S2), dout, DOT, PRECISION)
                db = tl.sum(query2.to(tl.float32) * by_v, axis=0)
                da = tl.sum(query2.to(tl.float32) * by_s, axis=0)
                dquery2 = add_dot(b[None, :] * by_v + a[None, :] * by_s, x2, dPT, DOT, PRECISION)
                if init is not None:
                    dquery2 = add_dot(dquery2, tl.trans(I2), dout, DOT, PRECISION)
                dV, dS = dV2.to(DOT), dS2.to(DOT)
                by_v, by_s = dot(tl.trans(dV), e2, DOT, PRECISION), dot(tl.trans(dS), e2, DOT, PRECISION)
                dA_n = -tl.sum(x2.to(tl.float32) * by_v, axis=0)
                dD_n = -tl.sum(x2.to(tl.float32) * by_s, axis=0)
                dx2 -= A_n[None, :] * by_v + D_n[None, :] * by_s
                de2 -= A_n[None, :] * dot(dV, x2, DOT, PRECISION) + D_n[None, :] * dot(dS, x2, DOT, PRECISION)

                # The first layer.
                dhidden = dquery2 * hidden_slope
                dhidden_ = dhidden.to(DOT)
                dRT = -dot(tl.trans(e1), dhidden_, DOT, PRECISION)
                dAT += dRT * P1T
                dPT = dRT * AT
                de1 = -dot(dhidden_, A * dot(queryT, keys, DOT, PRECISION), DOT, PRECISION)
                dkeys = -dot(query, A * dot(tl.trans(dhidden_), e1, DOT, PRECISION), DOT, PRECISION)
                by_v, by_s = dot(tl.trans(V1), dhidden_, DOT, PRECISION), dot(tl.trans(S1), dhidden_, DOT, PRECISION)
                db += tl.sum(query.to(tl.float32) * by_v, axis=0)
                da += tl.sum(query.to(tl.float32) * by_s, axis=0)
                dquery = add_dot(b[None, :] * by_v + a[None, :] * by_s, keys, dPT, DOT, PRECISION)
                if init is not None:
                    dquery = add_dot(dquery, tl.trans(I1), dhidden_, DOT, PRECISION)
                store_columns(dq + row, dquery, first, count, H * D, D, C, DP)
                dV, dS = dV1.to(DOT), dS1.to(DOT)
                by_v, by_s = dot(tl.trans(dV), e1, DOT, PRECISION), dot(tl.trans(dS), e1, DOT, PRECISION)
                dA_n -= tl.sum(keys.to(tl.float32) * by_v, axis=0)
                dD_n -= tl.sum(keys.to(tl.float32) * by_s, axis=0)
                dkeys -= A_n[None, :] * by_v + D_n[None, :] * by_s
                de1 -= A_n[None, :] * dot(dV, keys, DOT, PRECISION) + D_n[None, :] * dot(dS, keys, DOT, PRECISION)
                store_gate_gradients(
                    dtable_at, dA_at, bh * N + c, db, da, db_n, da_n, de_n, dA_n, dD_n, dAT, C
                )  # fmt: skip

                # Back through the keys' surprises.
                du = (de1 * slope).to(DOT)
                de2 = add_dot(de2, C2, du, DOT, PRECISION)
                store_columns(dv + row, -2 * de2, first, count, H * D, D, C, DP)
                de2 = (2 * de2).to(DOT)
                dx2 = add_dot(dx2, tl.trans(C2), de2, DOT, PRECISION)
                dz1 = (de1 * u * silu_curvature(z1) + dx2 * slope).to(DOT)
                dkeys = add_dot(dkeys, tl.trans(C1), dz1, DOT, PRECISION)
                store_columns(dk + row, dkeys, first, count, H * D, D, C, DP)

                # The state before the segment.
                dS1 = add_dot(e_n * dS1 + a_n * dV1, a[None, :] * dhidden, queryT, DOT, PRECISION)
                dV1 = add_dot(b_n * dV1, b[None, :] * dhidden, queryT, DOT, PRECISION)
                dS2 = add_dot(e_n * dS2 + a_n * dV2, a[None, :] * dout.to(tl.float32), query2T, DOT, PRECISION)
                dV2 = add_dot(b_n * dV2, b[None, :] * dout.to(tl.float32), query2T, DOT, PRECISION)
                dC1 = dot(dz1, keysT, DOT, PRECISION)
                dC2 = add_dot(dot(de2, x2T, DOT, PRECISION), e2, tl.trans(du), DOT, PRECISION)
                if dfinal is not None:
                    at, here = dfinal + bh * (STATE + WEIGHTS) + STATE, c == N - 1
                    dC1 += tl.load(tile(at, EP, DP), mask=here, other=0.0)
                    dC2 += tl.load(tile(at + HALF, DP, EP), mask=here, other=0.0)
                if chunk_start is not None:
                    at, here = dchunk_start + bh * WEIGHTS, c == 0
                    tl.store(tile(at, EP, DP), dC1, mask=here)
                    tl.store(tile(at + HALF, DP, EP), dC2, mask=here)
                    dC1, dC2 = tl.where(here, 0.0, dC1), tl.where(here, 0.0, dC2)
                dV1 += dC1
                dV2 += dC2
                if init is not None:
                    to = tile(dinit + pid * WEIGHTS, EP, DP)
                    tl.store(to, tl.load(to) + add_dot(dC1, dhidden_, queryT, DOT, PRECISION))
                    to = tile(dinit + pid * WEIGHTS + HALF, DP, EP)
                    tl.store(to, tl.load(to) + add_dot(dC2, dout, query2T, DOT, PRECISION))
            tl.debug_barrier()  # the scratch is written anew

        if start is not None:
            to = dstart + (pid if SHARED else bh) * STATE
            if SHARED:
                dV1 += tl.load(tile(to, EP, DP))
                dV2 += tl.load(tile(to + HALF, DP, EP))
            store_weights(to, dV1, dV2, DP, EP)
            if not SHARED:
                store_weights(to + WEIGHTS, dS1, dS2, DP, EP)


@triton.jit
def recompute(
    k, v, A_at, table_at, start, chunk_start, init, saved, scratch,
    bh, h, T, N, offset, chunk_size, g, groups, first_segment, last_segment, k_t, v_t,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The states before each segment of group g, into the scratch."""
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    at, known = saved + (bh * (groups - 1) + g - 1) * STATE, g > 0
    if start is not None:
        at, known = tl.where(known, at, start), g >= 0
    V1, V2, S1, S2 = load_state(at, known, DP, EP)
    store_state(scratch, V1, V2, S1, S2, DP, EP)
    for c in range(first_segment, last_segment - 1):
        first, count = segment(c, T, offset, chunk_size)
        b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
        keysT = load_rows(k, first, count, k_t, D, C, DP)
        values = tl.trans(load_rows(v, first, count, v_t, D, C, DP))
        C1, C2 = V1, V2
        if init is not None:
            C1 += tl.load(tile(init + h * WEIGHTS, EP, DP))
            C2 += tl.load(tile(init + h * WEIGHTS + HALF, DP, EP))
        if chunk_start is not None:
            here, begun = c == 0, chunk_start + bh * WEIGHTS
            C1, C2 = loaded_if(here, begun, C1, EP, DP), loaded_if(here, begun + HALF, C2, DP, EP)
        x2, e1, e2 = surprise(tl.trans(keysT), values, C1, C2, DOT, PRECISION)
        V1, S1 = learn(V1, S1, keysT, e1, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
        V2, S2 = learn(V2, S2, tl.trans(x2.to(DOT)), e2, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
        slot = scratch + (c + 1 - first_segment) * STATE
        store_state(slot, V1, V2, S1, S2, DP, EP)
    tl.debug_barrier()  # other threads read what these wrote
