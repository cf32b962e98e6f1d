"""Triton kernels of a memory of two layers; equations and letters as in `chunkwise`, tiles as in `triton_layer`.

Forgetting leads to `init`: the kernels carry V = W - init, which forgets towards zero, and init is zero in the paper's
case. A state is a packed row of float32: V^1 (EP, DP), V^2 (DP, EP), then S^1, S^2 likewise; DP and EP are D and E
padded to powers of two with zeros, which every product keeps zero.

Forward, one program walks the segments of one (batch, head) with the state in registers and saves it every `group`
segments. Or it reads no queries and leaves the state before each segment to `answers`, for which every segment is a
program's. Backward goes from the last segment to the first; what does not depend on the gradients of the state is done
before that walk, what depends on them alone after it, for any segments at once: see `backward`.
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
    silu_and_slope,
    silu_curvature,
    state_before,
    store_columns,
    store_gate_gradients,
    tile,
    turned,
)
from .triton_layer import answer, answer_gradients, begun_at, error_gradient, learn, learn_gradients


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
    keep(at, first, EP, DP)
    keep(at + DP * EP, second, DP, EP)


@triton.jit
def surprise(k, v, C1, C2, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """X^2, E^1 and E^2 of a segment's keys k (DP, C) and values, at the weights its chunk began with."""
    x2, slope = silu_and_slope(dot(C1, k, DOT, PRECISION))
    e2 = 2 * (dot(C2, x2, DOT, PRECISION) - v.to(tl.float32))
    return x2, dot(tl.trans(C2.to(DOT)), e2, DOT, PRECISION) * slope, e2


@triton.jit(do_not_specialize=VARYING)
def forward(
    q, k, v, y, A_at, table_at, start, chunk_start, init, saved, each, final,
    H, T, N, offset, chunk_size, group, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    SHARED: tl.constexpr, READS: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Answers y (B, T, H, D) contiguous, the saved states (B * H, groups - 1, state), and (B * H, state + weights):
    the final state and the weights at which the last segment began.

    `start` is (B * H, state), or (H, state) where SHARED; zero if None. `chunk_start` (B * H, weights): where the first
    segment's surprises are taken, if its chunk began earlier. `init` (H, weights). Where it reads no queries, the
    segments `begin` (of a group the first) to `end` alone, and the state before each goes to `each` (B * H, slots,
    state), in DOT.
    """
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    bh = tl.cast(tl.program_id(0), tl.int64)
    b_, h = bh // H, bh % H
    first_group, last_group = tl.cast(begin // group, tl.int64), tl.cast((end + group - 1) // group, tl.int64)
    saved += bh * ((N + group - 1) // group - 1) * STATE
    if start is not None:
        start += (h if SHARED else bh) * STATE
    if READS:
        V1, V2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
        S1, S2 = tl.zeros((EP, DP), tl.float32), tl.zeros((DP, EP), tl.float32)
        if start is not None:
            V1, V2, S1, S2 = load_state(start, True, DP, EP)
        if init is not None:
            I1, I2 = tl.load(tile(init + h * WEIGHTS, EP, DP)), tl.load(tile(init + h * WEIGHTS + HALF, DP, EP))
    else:
        at, known = saved_at(saved, start, first_group, STATE)
        V1, V2, S1, S2 = load_state(at, known, DP, EP)
        each += (bh * slots - begin) * STATE
    q += b_ * q_b + h * q_h
    k += b_ * k_b + h * k_h
    v += b_ * v_b + h * v_h
    y += (b_ * T * H + h) * D
    lane = tl.arange(0, C)

    for g in range(first_group, last_group):
        if g > first_group:
            store_state(saved + (g - 1) * STATE, V1, V2, S1, S2, DP, EP)
        for c in range(g * group, tl.minimum((g + 1) * group, N)):
            first, count = segment(c, T, offset, chunk_size)
            keysT = load_rows(k, first, count, k_t, D, C, DP)
            values = tl.trans(load_rows(v, first, count, v_t, D, C, DP))
            if READS:
                C1, C2 = V1, V2
                if init is not None:
                    C1, C2 = V1 + I1, V2 + I2
                if chunk_start is not None:
                    here, at = c == 0, chunk_start + bh * WEIGHTS
                    C1, C2 = loaded_if(here, at, C1, EP, DP), loaded_if(here, at + HALF, C2, DP, EP)
            else:
                store_state(each + c * STATE, V1, V2, S1, S2, DP, EP)
                C1 = begun_at(V1, init, h * WEIGHTS, chunk_start, bh * WEIGHTS, c, EP, DP)
                C2 = begun_at(V2, init, h * WEIGHTS + HALF, chunk_start, bh * WEIGHTS + HALF, c, DP, EP)
            if final is not None:
                if c == N - 1:
                    to = final + bh * (STATE + WEIGHTS) + STATE
                    store_weights(to, C1, C2, DP, EP)
            x2, e1, e2 = surprise(tl.trans(keysT), values, C1, C2, DOT, PRECISION)
            x2T = tl.trans(x2.to(DOT))
            if READS:
                table = table_at + (bh * N + c) * 4 * C + lane
                b, a = tl.load(table), tl.load(table + C)
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

    if not READS:
        if end < N:
            store_state(saved + (last_group - 1) * STATE, V1, V2, S1, S2, DP, EP)
    if final is not None:
        if end == N:
            store_state(final + bh * (STATE + WEIGHTS), V1, V2, S1, S2, DP, EP)


@triton.jit(do_not_specialize=VARYING)
def answers(
    q, k, v, y, A_at, table_at, chunk_start, init, each,
    H, T, N, offset, chunk_size, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What `forward` left: the answers of segments `begin` to `end`, each a program's, by the states before them."""
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    pid = tl.cast(tl.program_id(0), tl.int64)
    bh, c = pid // (end - begin), begin + pid % (end - begin)
    b_, h = bh // H, bh % H
    init_at, start_at = h * WEIGHTS, bh * WEIGHTS
    state = each + (bh * slots + c - begin) * 2 * WEIGHTS
    first, count = segment(c, T, offset, chunk_size)
    table = table_at + (bh * N + c) * 4 * C + tl.arange(0, C)
    b, a = tl.load(table), tl.load(table + C)
    AT = turned(A_at + (bh * N + c) * C * C, C, C)
    keysT = load_rows(k + b_ * k_b + h * k_h, first, count, k_t, D, C, DP)
    values = tl.trans(load_rows(v + b_ * v_b + h * v_h, first, count, v_t, D, C, DP))
    C1 = begun_at(kept(state, EP, DP), init, init_at, chunk_start, start_at, c, EP, DP)
    C2 = begun_at(kept(state + HALF, DP, EP), init, init_at + HALF, chunk_start, start_at + HALF, c, DP, EP)
    x2, e1, e2 = surprise(tl.trans(keysT), values, C1, C2, DOT, PRECISION)
    tl.debug_barrier()  # the state is read again, for there is not the room to hold it
    query = tl.trans(load_rows(q + b_ * q_b + h * q_h, first, count, q_t, D, C, DP))
    V1, S1 = kept(state, EP, DP), kept(state + WEIGHTS, EP, DP)
    hidden = answer(query, keysT, e1, V1, S1, b, a, tl.load(AT), DOT, PRECISION)
    if init is not None:
        hidden = add_dot(hidden, tl.load(tile(init + init_at, EP, DP)), query, DOT, PRECISION)
    query2, _ = silu_and_slope(hidden)
    V2, S2 = kept(state + HALF, DP, EP), kept(state + WEIGHTS + HALF, DP, EP)
    out = answer(query2, tl.trans(x2.to(DOT)), e2, V2, S2, b, a, tl.load(AT), DOT, PRECISION)
    if init is not None:
        out = add_dot(out, tl.load(tile(init + init_at + HALF, DP, EP)), query2, DOT, PRECISION)
    store_columns(y + (b_ * T * H + h) * D, out, first, count, H * D, D, C, DP)


def slot_size(width: int, hidden: int, lanes: int) -> int:
    """Numbers that the phases of `backward` keep of a segment: states and gradients of states, then tiles of tokens."""
    return 8 * width * hidden + (8 * hidden + 3 * width) * lanes


@triton.jit(do_not_specialize=VARYING)
def backward(
    q, k, v, A_at, table_at, start, chunk_start, init, saved, dy, dfinal,
    dq, dk, dv, dA_at, dtable_at, dstart, dchunk_start, dinit, scratch, carry,
    BH, H, T, N, offset, chunk_size, group, part, begin, end, slots, programs,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, dy_b, dy_t, dy_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    SLOT: tl.constexpr, SHARED: tl.constexpr, PHASE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradients dq, dk, dv (B, T, H, D) contiguous, dA and dtable, and those of the states, in four phases:

    - "states": those before each segment, from those saved every `group` segments;
    - "before": of each segment, what does not depend on the gradients of the state after it, dq among it;
    - "walk": from the last segment to the first, the gradients of the states, and dv;
    - "after": of each segment, what depends on them, dk among it.

    What one leaves for the next is in `scratch`, SLOT numbers a segment, in DOT. PHASE is one of them, for segments
    `begin` to `end` and in parts of `part` segments, each a program's but that "walk" has one part; or "all", where a
    program takes one (batch, head) after another through all phases, part by part from the last, with a scratch of its
    own of `slots` segments. `carry` takes the gradients from one part to the one before. With "all", `programs` is a
    multiple of H, so that a program meets one head only: gradients by what the batch shares (`init`, and `start` where
    SHARED) are added up in the program's own row, for the caller to add in order; apart, each (batch, head) has such a
    row.
    """
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    WIDE: tl.constexpr = EP * C
    pid = tl.cast(tl.program_id(0), tl.int64)
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
                V1, V2, S1, S2 = load_state(at, known, DP, EP)
                store_state(slot_0 + first_segment * SLOT, V1, V2, S1, S2, DP, EP)
                for c in range(first_segment, last_segment - 1):
                    first, count = segment(c, T, offset, chunk_size)
                    b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                    values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                    C1 = begun_at(V1, init, init_at, chunk_start, start_at, c, EP, DP)
                    C2 = begun_at(V2, init, init_at + HALF, chunk_start, start_at + HALF, c, DP, EP)
                    x2, e1, e2 = surprise(tl.trans(keysT), values, C1, C2, DOT, PRECISION)
                    V1, S1 = learn(V1, S1, keysT, e1, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
                    V2, S2 = learn(V2, S2, tl.trans(x2.to(DOT)), e2, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
                    store_state(slot_0 + (c + 1) * SLOT, V1, V2, S1, S2, DP, EP)
            if PHASE == "all":
                tl.debug_barrier()  # other threads read what these wrote

            if PHASE == "all" or PHASE == "before":
                for c in range(first_segment, last_segment):
                    slot = slot_0 + c * SLOT
                    wide = slot + 2 * STATE  # x2, its slope, u times its curvature, e1, query2, dhidden, de1, dx2
                    narrow = wide + 8 * WIDE  # e2, de2, dkeys
                    first, count = segment(c, T, offset, chunk_size)
                    table, A_c = table_at + (bh * N + c) * 4 * C + lane, A_at + (bh * N + c) * C * C
                    b, a = tl.load(table), tl.load(table + C)

                    # Keys, through the weights at the chunk's start.
                    keysT = load_rows(k_at, first, count, k_t, D, C, DP).to(DOT)
                    keys = tl.trans(keysT)
                    values = tl.trans(load_rows(v_at, first, count, v_t, D, C, DP))
                    V1_ = kept(slot, EP, DP).to(DOT)
                    C1 = begun_at(V1_, init, init_at, chunk_start, start_at, c, EP, DP)
                    z1 = dot(C1, keys, DOT, PRECISION)
                    x2, slope = silu_and_slope(z1)
                    x2 = x2.to(DOT)
                    keep(wide, x2, EP, C)
                    keep(wide + WIDE, slope, EP, C)
                    V2_ = kept(slot + HALF, DP, EP).to(DOT)
                    C2 = begun_at(V2_, init, init_at + HALF, chunk_start, start_at + HALF, c, DP, EP).to(DOT)
                    e2 = (2 * (dot(C2, x2, DOT, PRECISION) - values.to(tl.float32))).to(DOT)
                    keep(narrow, e2, DP, C)
                    u = dot(tl.trans(C2), e2, DOT, PRECISION)
                    keep(wide + 2 * WIDE, u * silu_curvature(z1), EP, C)
                    e1 = (u * slope).to(DOT)
                    keep(wide + 3 * WIDE, e1, EP, C)

                    # Queries, through the first layer.
                    query = tl.trans(load_rows(q_at, first, count, q_t, D, C, DP)).to(DOT)
                    S1_ = kept(slot + WEIGHTS, EP, DP).to(DOT)
                    hidden = answer(query, keysT, e1, V1_, S1_, b, a, tl.load(turned(A_c, C, C)), DOT, PRECISION)
                    if init is not None:
                        hidden = add_dot(hidden, tl.load(tile(init + init_at, EP, DP)), query, DOT, PRECISION)
                    query2, hidden_slope = silu_and_slope(hidden)
                    query2 = query2.to(DOT)
                    keep(wide + 4 * WIDE, query2, EP, C)

                    # The second layer, then the first. What was kept is read again: there are not registers to hold it.
                    tl.debug_barrier()
                    x2, e2 = kept(wide, EP, C).to(DOT), kept(narrow, DP, C).to(DOT)
                    V2_ = kept(slot + HALF, DP, EP).to(DOT)
                    dout = tl.trans(load_rows(dy_at, first, count, dy_t, D, C, DP)).to(DOT)
                    S2_ = kept(slot + WEIGHTS + HALF, DP, EP).to(DOT)
                    dquery2, dx2, de2, db, da, dAT = answer_gradients(
                        query2, x2, e2, dout, V2_, S2_, init, init_at + HALF, b, a, A_c, DOT, PRECISION
                    )
                    keep(wide + 7 * WIDE, dx2, EP, C)
                    keep(narrow + DP * C, de2, DP, C)
                    dhidden = (dquery2 * hidden_slope).to(DOT)
                    keep(wide + 5 * WIDE, dhidden, EP, C)
                    tl.debug_barrier()
                    keys = tl.trans(load_rows(k_at, first, count, k_t, D, C, DP)).to(DOT)
                    query = tl.trans(load_rows(q_at, first, count, q_t, D, C, DP)).to(DOT)
                    V1_, S1_ = kept(slot, EP, DP).to(DOT), kept(slot + WEIGHTS, EP, DP).to(DOT)
                    e1 = kept(wide + 3 * WIDE, EP, C).to(DOT)
                    dquery, dkeys, de1, db1, da1, dAT1 = answer_gradients(
                        query, keys, e1, dhidden, V1_, S1_, init, init_at, b, a, A_c, DOT, PRECISION
                    )
                    store_columns(dq + row, dquery, first, count, H * D, D, C, DP)
                    keep(wide + 6 * WIDE, de1, EP, C)
                    keep(narrow + 2 * DP * C, dkeys, DP, C)
                    store_gate_gradients(dtable_at, dA_at, bh * N + c, db + db1, da + da1, dAT + dAT1, C)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "walk":
                at, known = gradient_after(carry + own * STATE, dfinal, bh, last_segment, N, STATE, STATE + WEIGHTS)
                dV1, dV2, dS1, dS2 = load_state(at, known, DP, EP)
                for j in range(0, last_segment - first_segment):
                    c = last_segment - 1 - j
                    slot = slot_0 + c * SLOT
                    wide = slot + 2 * STATE
                    narrow = wide + 8 * WIDE
                    store_state(slot + STATE, dV1, dV2, dS1, dS2, DP, EP)
                    first, count = segment(c, T, offset, chunk_size)
                    b_n, a_n, e_n, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    table = table_at + (bh * N + c) * 4 * C + lane
                    b, a = tl.load(table), tl.load(table + C)

                    # Back through the keys' surprises.
                    keysT = load_rows(k_at, first, count, k_t, D, C, DP)
                    de1 = kept(wide + 6 * WIDE, EP, C).to(tl.float32)
                    de1 = error_gradient(de1, tl.trans(keysT), dV1, dS1, A_n, D_n, DOT, PRECISION)
                    slope = kept(wide + WIDE, EP, C).to(tl.float32)
                    dz1 = de1 * kept(wide + 2 * WIDE, EP, C).to(tl.float32)
                    du = (de1 * slope).to(DOT)
                    C2 = begun_at(
                        kept(slot + HALF, DP, EP), init, init_at + HALF, chunk_start, start_at + HALF, c, DP, EP
                    ).to(DOT)
                    x2 = kept(wide, EP, C)
                    de2 = kept(narrow + DP * C, DP, C).to(tl.float32)
                    de2 = error_gradient(de2, x2, dV2, dS2, A_n, D_n, DOT, PRECISION)
                    de2 = add_dot(de2, C2, du, DOT, PRECISION)
                    store_columns(dv + row, -2 * de2, first, count, H * D, D, C, DP)
                    de2 = (2 * de2).to(DOT)
                    e2 = kept(narrow, DP, C)
                    dx2 = kept(wide + 7 * WIDE, EP, C).to(tl.float32)
                    dV2T, dS2T = tl.trans(dV2.to(DOT)), tl.trans(dS2.to(DOT))
                    dx2 = error_gradient(dx2, e2, dV2T, dS2T, A_n, D_n, DOT, PRECISION)
                    dx2 = add_dot(dx2, tl.trans(C2), de2, DOT, PRECISION)
                    dz1 = (dz1 + dx2 * slope).to(DOT)
                    keep(wide + 6 * WIDE, dz1, EP, C)

                    # The state before the segment.
                    queryT = load_rows(q_at, first, count, q_t, D, C, DP)
                    dhidden = kept(wide + 5 * WIDE, EP, C).to(tl.float32)
                    dS1 = add_dot(e_n * dS1 + a_n * dV1, a[None, :] * dhidden, queryT, DOT, PRECISION)
                    dV1 = add_dot(b_n * dV1, b[None, :] * dhidden, queryT, DOT, PRECISION)
                    query2T = tl.trans(kept(wide + 4 * WIDE, EP, C))
                    dout = tl.trans(load_rows(dy_at, first, count, dy_t, D, C, DP)).to(tl.float32)
                    dS2 = add_dot(e_n * dS2 + a_n * dV2, a[None, :] * dout, query2T, DOT, PRECISION)
                    dV2 = add_dot(b_n * dV2, b[None, :] * dout, query2T, DOT, PRECISION)
                    dC1 = dot(dz1, keysT, DOT, PRECISION)
                    dC2 = add_dot(dot(de2, tl.trans(x2), DOT, PRECISION), e2, tl.trans(du), DOT, PRECISION)
                    if dfinal is not None:
                        at, here = dfinal + bh * (STATE + WEIGHTS) + STATE, c == N - 1
                        dC1 += tl.load(tile(at, EP, DP), mask=here, other=0.0)
                        dC2 += tl.load(tile(at + HALF, DP, EP), mask=here, other=0.0)
                    if chunk_start is not None:
                        here = c == 0
                        tl.store(tile(dchunk_start + start_at, EP, DP), dC1, mask=here)
                        tl.store(tile(dchunk_start + start_at + HALF, DP, EP), dC2, mask=here)
                        dC1, dC2 = tl.where(here, 0.0, dC1), tl.where(here, 0.0, dC2)
                    dV1 += dC1
                    dV2 += dC2
                    if init is not None:
                        tl.debug_barrier()  # the segment after this one wrote there
                        to = tile(dinit + own * WEIGHTS, EP, DP)
                        tl.store(to, tl.load(to) + add_dot(dC1, dhidden, queryT, DOT, PRECISION))
                        to = tile(dinit + own * WEIGHTS + HALF, DP, EP)
                        tl.store(to, tl.load(to) + add_dot(dC2, dout, query2T, DOT, PRECISION))
                if first_segment > 0:
                    store_state(carry + own * STATE, dV1, dV2, dS1, dS2, DP, EP)
                elif start is not None:
                    to = dstart + (own if SHARED else bh) * STATE
                    if SHARED:
                        dV1 += tl.load(tile(to, EP, DP))
                        dV2 += tl.load(tile(to + HALF, DP, EP))
                    store_weights(to, dV1, dV2, DP, EP)
                    if not SHARED:
                        store_weights(to + WEIGHTS, dS1, dS2, DP, EP)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "after":
                for c in range(first_segment, last_segment):
                    slot = slot_0 + c * SLOT
                    wide = slot + 2 * STATE
                    narrow = wide + 8 * WIDE
                    first, count = segment(c, T, offset, chunk_size)
                    _, _, _, A_n, D_n = left_by(table_at, A_at, bh * N + c, C)
                    _, db_n, da_n, de_n, dA_n, dD_n = learn_gradients(
                        kept(wide, EP, C), kept(narrow, DP, C).to(DOT),
                        kept(slot + HALF, DP, EP), kept(slot + WEIGHTS + HALF, DP, EP),
                        kept(slot + STATE + HALF, DP, EP).to(DOT), kept(slot + STATE + WEIGHTS + HALF, DP, EP).to(DOT),
                        A_n, D_n, DOT, PRECISION,
                    )  # fmt: skip
                    V1_ = kept(slot, EP, DP)
                    dkeys, db_n1, da_n1, de_n1, dA_n1, dD_n1 = learn_gradients(
                        tl.trans(load_rows(k_at, first, count, k_t, D, C, DP)), kept(wide + 3 * WIDE, EP, C).to(DOT),
                        V1_, kept(slot + WEIGHTS, EP, DP),
                        kept(slot + STATE, EP, DP).to(DOT), kept(slot + STATE + WEIGHTS, EP, DP).to(DOT),
                        A_n, D_n, DOT, PRECISION,
                    )  # fmt: skip
                    add_left_gradients(
                        dtable_at, dA_at, bh * N + c,
                        db_n + db_n1, da_n + da_n1, de_n + de_n1, dA_n + dA_n1, dD_n + dD_n1, C,
                    )  # fmt: skip
                    dkeys += kept(narrow + 2 * DP * C, DP, C).to(tl.float32)
                    C1 = begun_at(V1_, init, init_at, chunk_start, start_at, c, EP, DP).to(DOT)
                    dkeys = add_dot(dkeys, tl.trans(C1), kept(wide + 6 * WIDE, EP, C), DOT, PRECISION)
                    store_columns(dk + row, dkeys, first, count, H * D, D, C, DP)
            if PHASE == "all":
                tl.debug_barrier()  # the scratch is written anew
