"""Triton kernels of a memory of two layers; equations and letters as in `chunkwise`, tiles as in `triton_layer`.

Forgetting leads to `init`: the kernels carry V = W - init, which forgets towards zero. In the paper init is zero. A
state is a packed row of float32: V^1 (EP, DP), V^2 (DP, EP), then S^1, S^2 likewise; DP and EP are D and E padded to
powers of two with zeros, which every product keeps zero.

In the forward pass one program takes the segments of one (batch, head) in order, with the state in registers, and saves
the state every `group` segments. Or it reads no queries and stores the state before each segment for `readout`, which
gives every segment a program of its own. The backward is in `triton_backward`; its phases for two layers are below.
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
    silu_and_slope,
    silu_curvature,
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
    """Write y (B, T, H, D), the states `saved` (B * H, groups - 1, state), and `final` (B * H, state + weights).

    `final` has the last state and the weights held when the last segment's chunk began.

    `start` is (B * H, state), or (H, state) where SHARED; the state starts at zero if it is None. `chunk_start`
    (B * H, weights) are the weights held when the first segment's chunk began, if it began before the call. `init` is
    (H, weights). With READS off, a launch takes the segments from `begin` (the first of a group) to `end`, reads no
    queries, and stores the state before each in `each` (B * H, slots, state), in DOT. VP is not used.
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
                held1, held2 = V1, V2
                if init is not None:
                    held1, held2 = V1 + I1, V2 + I2
                if chunk_start is not None:
                    here, at = c == 0, chunk_start + bh * WEIGHTS
                    held1, held2 = loaded_if(here, at, held1, EP, DP), loaded_if(here, at + HALF, held2, DP, EP)
            else:
                store_state(each + c * STATE, V1, V2, S1, S2, DP, EP)
                held1 = layer.held_weights(V1, init, h * WEIGHTS, chunk_start, bh * WEIGHTS, c, EP, DP)
                held2 = layer.held_weights(V2, init, h * WEIGHTS + HALF, chunk_start, bh * WEIGHTS + HALF, c, DP, EP)
            if final is not None:
                if c == N - 1:
                    to = final + bh * (STATE + WEIGHTS) + STATE
                    store_weights(to, held1, held2, DP, EP)
            x2, e1, e2 = surprise(tl.trans(keysT), values, held1, held2, DOT, PRECISION)
            x2T = tl.trans(x2.to(DOT))
            if READS:
                table = table_at + (bh * N + c) * 4 * C + lane
                b, a = tl.load(table), tl.load(table + C)
                AT = tl.load(turned(A_at + (bh * N + c) * C * C, C, C))
                query = tl.trans(load_rows(q, first, count, q_t, D, C, DP))
                hidden = layer.readout(query, keysT, e1, V1, S1, b, a, AT, DOT, PRECISION)
                if init is not None:
                    hidden = add_dot(hidden, I1, query, DOT, PRECISION)
                query2, _ = silu_and_slope(hidden)
                out = layer.readout(query2, x2T, e2, V2, S2, b, a, AT, DOT, PRECISION)
                if init is not None:
                    out = add_dot(out, I2, query2, DOT, PRECISION)
                store_columns(y, out, first, count, H * D, D, C, DP)
            b_n, a_n, e_n, A_n, D_n = update_gates(table_at, A_at, bh * N + c, C)
            V1, S1 = layer.update(V1, S1, keysT, e1, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
            V2, S2 = layer.update(V2, S2, x2T, e2, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)

    if not READS:
        if end < N:
            store_state(saved + (last_group - 1) * STATE, V1, V2, S1, S2, DP, EP)
    if final is not None:
        if end == N:
            store_state(final + bh * (STATE + WEIGHTS), V1, V2, S1, S2, DP, EP)


@triton.jit(do_not_specialize=VARYING)
def readout(
    q, k, v, y, A_at, table_at, chunk_start, init, each,
    H, T, N, offset, chunk_size, begin, end, slots,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h,
    D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write y of segments `begin` to `end`, one a program, from the states that `forward` stored in `each`."""
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
    held1 = layer.held_weights(load_tile(state, EP, DP), init, init_at, chunk_start, start_at, c, EP, DP)
    held2 = layer.held_weights(
        load_tile(state + HALF, DP, EP), init, init_at + HALF, chunk_start, start_at + HALF, c, DP, EP
    )
    x2, e1, e2 = surprise(tl.trans(keysT), values, held1, held2, DOT, PRECISION)
    tl.debug_barrier()  # the state is read again, to save registers
    query = tl.trans(load_rows(q + b_ * q_b + h * q_h, first, count, q_t, D, C, DP))
    V1, S1 = load_tile(state, EP, DP), load_tile(state + WEIGHTS, EP, DP)
    hidden = layer.readout(query, keysT, e1, V1, S1, b, a, tl.load(AT), DOT, PRECISION)
    if init is not None:
        hidden = add_dot(hidden, tl.load(tile(init + init_at, EP, DP)), query, DOT, PRECISION)
    query2, _ = silu_and_slope(hidden)
    V2, S2 = load_tile(state + HALF, DP, EP), load_tile(state + WEIGHTS + HALF, DP, EP)
    out = layer.readout(query2, tl.trans(x2.to(DOT)), e2, V2, S2, b, a, tl.load(AT), DOT, PRECISION)
    if init is not None:
        out = add_dot(out, tl.load(tile(init + init_at + HALF, DP, EP)), query2, DOT, PRECISION)
    store_columns(y + (b_ * T * H + h) * D, out, first, count, H * D, D, C, DP)


# The phases of `triton_backward.backward`, each for one segment. A segment's slot of the scratch holds V, S, dV and dS,
# then tiles (EP, C), then tiles (DP, C).
X2, SLOPE, CURVED, E1, QUERY2, DHIDDEN, DE1, DX2 = (tl.constexpr(i) for i in range(8))
E2, DE2, DKEYS = (tl.constexpr(i) for i in range(3))


def slot_size(width: int, hidden: int, lanes: int) -> int:
    """Numbers that the phases keep of a segment."""
    return 8 * width * hidden + (8 * hidden + 3 * width) * lanes


@triton.jit
def states(
    state, seq, seg, D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The state after a segment, from the state before it."""
    HALF: tl.constexpr = DP * EP
    V1, V2, S1, S2 = state
    b_n, a_n, e_n, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    keysT = load_rows(seq.k, seg.first, seg.count, seq.k_t, D, C, DP)
    values = tl.trans(load_rows(seq.v, seg.first, seg.count, seq.v_t, D, C, DP))
    held1 = layer.held_weights(V1, seq.init, seq.init_at, seq.chunk_start, seq.start_at, seg.c, EP, DP)
    held2 = layer.held_weights(V2, seq.init, seq.init_at + HALF, seq.chunk_start, seq.start_at + HALF, seg.c, DP, EP)
    x2, e1, e2 = surprise(tl.trans(keysT), values, held1, held2, DOT, PRECISION)
    V1, S1 = layer.update(V1, S1, keysT, e1, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
    V2, S2 = layer.update(V2, S2, tl.trans(x2.to(DOT)), e2, b_n, a_n, e_n, A_n, D_n, DOT, PRECISION)
    return V1, V2, S1, S2


@triton.jit
def before(
    seq, seg, D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What does not depend on the gradients of the state after the segment: dq, and parts of the other gradients."""
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    WIDE: tl.constexpr = EP * C
    NARROW: tl.constexpr = DP * C
    c, first, count, slot = seg.c, seg.first, seg.count, seg.slot
    wide = slot + 4 * WEIGHTS
    narrow = wide + 8 * WIDE
    table, A_c = seq.table + seg.number * 4 * C + tl.arange(0, C), seq.A + seg.number * C * C
    b, a = tl.load(table), tl.load(table + C)

    # Keys, through the weights held when the chunk began.
    keysT = load_rows(seq.k, first, count, seq.k_t, D, C, DP).to(DOT)
    keys = tl.trans(keysT)
    values = tl.trans(load_rows(seq.v, first, count, seq.v_t, D, C, DP))
    V1 = load_tile(slot, EP, DP).to(DOT)
    held1 = layer.held_weights(V1, seq.init, seq.init_at, seq.chunk_start, seq.start_at, c, EP, DP)
    z1 = dot(held1, keys, DOT, PRECISION)
    x2, slope = silu_and_slope(z1)
    x2 = x2.to(DOT)
    store_tile(wide + X2 * WIDE, x2, EP, C)
    store_tile(wide + SLOPE * WIDE, slope, EP, C)
    V2 = load_tile(slot + HALF, DP, EP).to(DOT)
    held2 = layer.held_weights(V2, seq.init, seq.init_at + HALF, seq.chunk_start, seq.start_at + HALF, c, DP, EP).to(
        DOT
    )
    e2 = (2 * (dot(held2, x2, DOT, PRECISION) - values.to(tl.float32))).to(DOT)
    store_tile(narrow + E2 * NARROW, e2, DP, C)
    u = dot(tl.trans(held2), e2, DOT, PRECISION)
    store_tile(wide + CURVED * WIDE, u * silu_curvature(z1), EP, C)
    e1 = (u * slope).to(DOT)
    store_tile(wide + E1 * WIDE, e1, EP, C)

    # Queries, through the first layer.
    query = tl.trans(load_rows(seq.q, first, count, seq.q_t, D, C, DP)).to(DOT)
    S1 = load_tile(slot + WEIGHTS, EP, DP).to(DOT)
    hidden = layer.readout(query, keysT, e1, V1, S1, b, a, tl.load(turned(A_c, C, C)), DOT, PRECISION)
    if seq.init is not None:
        hidden = add_dot(hidden, tl.load(tile(seq.init + seq.init_at, EP, DP)), query, DOT, PRECISION)
    query2, hidden_slope = silu_and_slope(hidden)
    query2 = query2.to(DOT)
    store_tile(wide + QUERY2 * WIDE, query2, EP, C)

    # The second layer, then the first. What was stored is read again, to save registers.
    tl.debug_barrier()
    x2, e2 = load_tile(wide + X2 * WIDE, EP, C).to(DOT), load_tile(narrow + E2 * NARROW, DP, C).to(DOT)
    V2 = load_tile(slot + HALF, DP, EP).to(DOT)
    dout = tl.trans(load_rows(seq.dy, first, count, seq.dy_t, D, C, DP)).to(DOT)
    S2 = load_tile(slot + WEIGHTS + HALF, DP, EP).to(DOT)
    dquery2, dx2, de2, db, da, dAT = layer.readout_gradients(
        query2, x2, e2, dout, V2, S2, seq.init, seq.init_at + HALF, b, a, A_c, DOT, PRECISION
    )
    store_tile(wide + DX2 * WIDE, dx2, EP, C)
    store_tile(narrow + DE2 * NARROW, de2, DP, C)
    dhidden = (dquery2 * hidden_slope).to(DOT)
    store_tile(wide + DHIDDEN * WIDE, dhidden, EP, C)
    tl.debug_barrier()
    keys = tl.trans(load_rows(seq.k, first, count, seq.k_t, D, C, DP)).to(DOT)
    query = tl.trans(load_rows(seq.q, first, count, seq.q_t, D, C, DP)).to(DOT)
    V1, S1 = load_tile(slot, EP, DP).to(DOT), load_tile(slot + WEIGHTS, EP, DP).to(DOT)
    e1 = load_tile(wide + E1 * WIDE, EP, C).to(DOT)
    dquery, dkeys, de1, db1, da1, dAT1 = layer.readout_gradients(
        query, keys, e1, dhidden, V1, S1, seq.init, seq.init_at, b, a, A_c, DOT, PRECISION
    )
    store_columns(seq.dq, dquery, first, count, seq.row, D, C, DP)
    store_tile(wide + DE1 * WIDE, de1, EP, C)
    store_tile(narrow + DKEYS * NARROW, dkeys, DP, C)
    store_gate_gradients(seq.dtable, seq.dA, seg.number, db + db1, da + da1, dAT + dAT1, C)


@triton.jit
def reverse_scan(
    dstate, seq, seg, D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients by the state before a segment, from those by the state after it, and dv."""
    HALF: tl.constexpr = DP * EP
    STATE: tl.constexpr = 4 * HALF
    WIDE: tl.constexpr = EP * C
    NARROW: tl.constexpr = DP * C
    dV1, dV2, dS1, dS2 = dstate
    c, first, count, slot = seg.c, seg.first, seg.count, seg.slot
    wide = slot + 2 * STATE
    narrow = wide + 8 * WIDE
    store_state(slot + STATE, dV1, dV2, dS1, dS2, DP, EP)
    b_n, a_n, e_n, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    table = seq.table + seg.number * 4 * C + tl.arange(0, C)
    b, a = tl.load(table), tl.load(table + C)

    # Back through the surprises of the keys.
    keysT = load_rows(seq.k, first, count, seq.k_t, D, C, DP)
    de1 = load_tile(wide + DE1 * WIDE, EP, C).to(tl.float32)
    de1 = layer.error_gradient(de1, tl.trans(keysT), dV1, dS1, A_n, D_n, DOT, PRECISION)
    slope = load_tile(wide + SLOPE * WIDE, EP, C).to(tl.float32)
    dz1 = de1 * load_tile(wide + CURVED * WIDE, EP, C).to(tl.float32)
    du = (de1 * slope).to(DOT)
    V2 = load_tile(slot + HALF, DP, EP)
    held2 = layer.held_weights(V2, seq.init, seq.init_at + HALF, seq.chunk_start, seq.start_at + HALF, c, DP, EP).to(
        DOT
    )
    x2 = load_tile(wide + X2 * WIDE, EP, C)
    de2 = load_tile(narrow + DE2 * NARROW, DP, C).to(tl.float32)
    de2 = layer.error_gradient(de2, x2, dV2, dS2, A_n, D_n, DOT, PRECISION)
    de2 = add_dot(de2, held2, du, DOT, PRECISION)
    store_columns(seq.dv, -2 * de2, first, count, seq.row, D, C, DP)
    de2 = (2 * de2).to(DOT)
    e2 = load_tile(narrow + E2 * NARROW, DP, C)
    dx2 = load_tile(wide + DX2 * WIDE, EP, C).to(tl.float32)
    dV2T, dS2T = tl.trans(dV2.to(DOT)), tl.trans(dS2.to(DOT))
    dx2 = layer.error_gradient(dx2, e2, dV2T, dS2T, A_n, D_n, DOT, PRECISION)
    dx2 = add_dot(dx2, tl.trans(held2), de2, DOT, PRECISION)
    dz1 = (dz1 + dx2 * slope).to(DOT)
    store_tile(wide + DE1 * WIDE, dz1, EP, C)  # `after` reads dz1 in the place of de1

    # The state before the segment.
    queryT = load_rows(seq.q, first, count, seq.q_t, D, C, DP)
    dhidden = load_tile(wide + DHIDDEN * WIDE, EP, C).to(tl.float32)
    dS1 = add_dot(e_n * dS1 + a_n * dV1, a[None, :] * dhidden, queryT, DOT, PRECISION)
    dV1 = add_dot(b_n * dV1, b[None, :] * dhidden, queryT, DOT, PRECISION)
    query2T = tl.trans(load_tile(wide + QUERY2 * WIDE, EP, C))
    dout = tl.trans(load_rows(seq.dy, first, count, seq.dy_t, D, C, DP)).to(tl.float32)
    dS2 = add_dot(e_n * dS2 + a_n * dV2, a[None, :] * dout, query2T, DOT, PRECISION)
    dV2 = add_dot(b_n * dV2, b[None, :] * dout, query2T, DOT, PRECISION)
    dheld1 = dot(dz1, keysT, DOT, PRECISION)
    dheld2 = add_dot(dot(de2, tl.trans(x2), DOT, PRECISION), e2, tl.trans(du), DOT, PRECISION)
    if seq.dfinal is not None:
        dheld1 += tl.load(tile(seq.dfinal + STATE, EP, DP), mask=seg.last, other=0.0)
        dheld2 += tl.load(tile(seq.dfinal + STATE + HALF, DP, EP), mask=seg.last, other=0.0)
    if seq.chunk_start is not None:
        here = c == 0
        tl.store(tile(seq.dchunk_start, EP, DP), dheld1, mask=here)
        tl.store(tile(seq.dchunk_start + HALF, DP, EP), dheld2, mask=here)
        dheld1, dheld2 = tl.where(here, 0.0, dheld1), tl.where(here, 0.0, dheld2)
    dV1 += dheld1
    dV2 += dheld2
    if seq.init is not None:
        tl.debug_barrier()  # the segment after this one wrote there
        to = tile(seq.dinit, EP, DP)
        tl.store(to, tl.load(to) + add_dot(dheld1, dhidden, queryT, DOT, PRECISION))
        to = tile(seq.dinit + HALF, DP, EP)
        tl.store(to, tl.load(to) + add_dot(dheld2, dout, query2T, DOT, PRECISION))
    return dV1, dV2, dS1, dS2


@triton.jit
def after(
    seq, seg, D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """What depends on the gradients of the state after the segment: dk, and the gradients by the update's gates."""
    HALF: tl.constexpr = DP * EP
    WEIGHTS: tl.constexpr = 2 * HALF
    STATE: tl.constexpr = 2 * WEIGHTS
    WIDE: tl.constexpr = EP * C
    NARROW: tl.constexpr = DP * C
    slot = seg.slot
    wide = slot + 2 * STATE
    narrow = wide + 8 * WIDE
    _, _, _, A_n, D_n = update_gates(seq.table, seq.A, seg.number, C)
    _, db_n, da_n, de_n, dA_n, dD_n = layer.update_gradients(
        load_tile(wide + X2 * WIDE, EP, C), load_tile(narrow + E2 * NARROW, DP, C).to(DOT),
        load_tile(slot + HALF, DP, EP), load_tile(slot + WEIGHTS + HALF, DP, EP),
        load_tile(slot + STATE + HALF, DP, EP).to(DOT), load_tile(slot + STATE + WEIGHTS + HALF, DP, EP).to(DOT),
        A_n, D_n, DOT, PRECISION,
    )  # fmt: skip
    V1 = load_tile(slot, EP, DP)
    keys = tl.trans(load_rows(seq.k, seg.first, seg.count, seq.k_t, D, C, DP))
    dkeys, db_n1, da_n1, de_n1, dA_n1, dD_n1 = layer.update_gradients(
        keys, load_tile(wide + E1 * WIDE, EP, C).to(DOT), V1, load_tile(slot + WEIGHTS, EP, DP),
        load_tile(slot + STATE, EP, DP).to(DOT), load_tile(slot + STATE + WEIGHTS, EP, DP).to(DOT),
        A_n, D_n, DOT, PRECISION,
    )  # fmt: skip
    add_update_gate_gradients(
        seq.dtable, seq.dA, seg.number,
        db_n + db_n1, da_n + da_n1, de_n + de_n1, dA_n + dA_n1, dD_n + dD_n1, C,
    )  # fmt: skip
    dkeys += load_tile(narrow + DKEYS * NARROW, DP, C).to(tl.float32)
    held1 = layer.held_weights(V1, seq.init, seq.init_at, seq.chunk_start, seq.start_at, seg.c, EP, DP).to(DOT)
    dkeys = add_dot(dkeys, tl.trans(held1), load_tile(wide + DE1 * WIDE, EP, C), DOT, PRECISION)
    store_columns(seq.dk, dkeys, seg.first, seg.count, seq.row, D, C, DP)


@triton.jit
def add_start_gradient(to, dstate, SHARED: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr):
    """Write the gradient by the state that the call began with; where the batch shares it, add that by V alone."""
    dV1, dV2, dS1, dS2 = dstate
    if SHARED:
        dV1 += tl.load(tile(to, EP, DP))
        dV2 += tl.load(tile(to + DP * EP, DP, EP))
    store_weights(to, dV1, dV2, DP, EP)
    if not SHARED:
        store_weights(to + 2 * DP * EP, dS1, dS2, DP, EP)


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
    store_tile(at, first, EP, DP)
    store_tile(at + DP * EP, second, DP, EP)


@triton.jit
def surprise(k, v, held1, held2, DOT: tl.constexpr, PRECISION: tl.constexpr):
    """X^2, E^1 and E^2 of a segment's keys k (DP, C) and values v, at the weights held when its chunk began."""
    x2, slope = silu_and_slope(dot(held1, k, DOT, PRECISION))
    e2 = 2 * (dot(held2, x2, DOT, PRECISION) - v.to(tl.float32))
    return x2, dot(tl.trans(held2.to(DOT)), e2, DOT, PRECISION) * slope, e2
