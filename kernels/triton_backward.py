"""The Triton kernel of the backward pass: the order of the work, for memories of one layer and of two.

The gradients of the states go from the last segment to the first, one after another. What does not depend on them is
done before that, what depends on nothing else after it, so there are four phases:

- "states": the state before each segment, from the states that the forward saved every `group` segments;
- "before": of each segment, what does not depend on the gradients of the state after it, dq among it;
- "reverse_scan": from the last segment to the first, the gradients of the states, and dv;
- "after": of each segment, what depends on them, dk among it.

What they do with a segment is in `triton_linear` and `triton_deep`. What one phase leaves for the next is in a scratch,
a slot of SLOT numbers a segment, in DOT.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from . import triton_deep, triton_linear
from .triton_common import VARYING, saved_at, segment

PHASES = ("states", "before", "reverse_scan", "after")


class Sequence(NamedTuple):
    """One (batch, head): pointers to its first token, strides of tokens, and where its gradients go."""

    q: Any
    k: Any
    v: Any
    dy: Any
    q_t: Any
    k_t: Any
    v_t: Any
    dy_t: Any
    A: Any  # of all segments, as are `table` and their gradients
    table: Any
    init: Any  # None where forgetting leads to zero
    init_at: Any  # from there to this head's
    chunk_start: Any  # None where the call begins a chunk
    start_at: Any
    dfinal: Any  # None where the final state has no gradient
    dq: Any
    dk: Any
    dv: Any
    row: Any  # numbers from one token's gradient to the next
    dA: Any
    dtable: Any
    dchunk_start: Any
    dinit: Any


class Segment(NamedTuple):
    """The part of a chunk that the call reads."""

    c: Any  # counted in the call
    last: Any  # whether it is the last one
    number: Any  # counted over all sequences
    first: Any  # token
    count: Any  # of tokens
    slot: Any  # its part of the scratch


@triton.jit(do_not_specialize=VARYING)
def backward(
    q, k, v, A, table, start, chunk_start, init, saved, dy, dfinal,
    dq, dk, dv, dA, dtable, dstart, dchunk_start, dinit, scratch, carry,
    BH, H, T, N, offset, chunk_size, group, part, begin, end, slots, programs,
    q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, dy_b, dy_t, dy_h,
    DEPTH: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr, VP: tl.constexpr, C: tl.constexpr,
    SLOT: tl.constexpr, SHARED: tl.constexpr, PHASE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write dq, dk, dv (B, T, H, D), dA and dtable, and the gradients by the states; others as in `forward`.

    PHASE is one of the four, for segments `begin` to `end` in parts of `part` segments, each part a program's; the
    reverse scan has one part. A linear memory's may have several programs a sequence, with VP rows of the state each,
    which program_id(0) counts quickest.

    Or PHASE is "all": a program takes one sequence after another through all phases, part by part from the last, with a
    scratch of its own of `slots` segments. `carry` takes the gradients from one part to the one before. `programs` is
    then a multiple of H, so that a program meets one head only, and gradients by what the batch shares (`init`, and
    `start` where SHARED) are added up in a row of the program's own, for the caller to add in order; with a single
    phase, each sequence has such a row.
    """
    WEIGHTS: tl.constexpr = DEPTH * DP * EP
    STATE: tl.constexpr = 2 * WEIGHTS
    feature, pid = triton_linear.block_of_rows(DP, VP)
    parts, items, each = items_of(BH, begin, end, part, PHASE)
    for item in range(pid, items, programs):
        bh, b_, h, last_part, own = sequence_of(item, parts, pid, H, PHASE)
        row, final_at = (b_ * T * H + h) * D, dfinal
        if dfinal is not None:
            final_at = dfinal + bh * (STATE + WEIGHTS)
        seq = Sequence(
            q + b_ * q_b + h * q_h, k + b_ * k_b + h * k_h, v + b_ * v_b + h * v_h, dy + b_ * dy_b + h * dy_h,
            q_t, k_t, v_t, dy_t, A, table, init, h * WEIGHTS, chunk_start, bh * WEIGHTS, final_at,
            dq + row, dk + row, dv + row, H * D, dA, dtable, dchunk_start + bh * WEIGHTS, dinit + own * WEIGHTS,
        )  # fmt: skip
        carried = carry + own * STATE + feature * DP
        for i in range(0, each):
            first_segment, last_segment, slot_0 = part_of(
                last_part - i, begin, end, part, scratch, own, slots, SLOT, PHASE
            )

            if PHASE == "all" or PHASE == "states":
                at, known = state_before(saved, start, bh, h, first_segment // group, N, group, STATE, SHARED)
                state = load_state(at, known, DEPTH, DP, DP, EP)
                store_state(slot_0 + first_segment * SLOT, state, DEPTH, DP, DP, EP)
                for c in range(first_segment, last_segment - 1):
                    seg = segment_of(c, bh, T, N, offset, chunk_size, slot_0, SLOT)
                    if DEPTH == 1:
                        state = triton_linear.states(state, seq, seg, D, DP, C, DOT, PRECISION)
                    else:
                        state = triton_deep.states(state, seq, seg, D, DP, EP, C, DOT, PRECISION)
                    store_state(slot_0 + (c + 1) * SLOT, state, DEPTH, DP, DP, EP)
            if PHASE == "all":
                tl.debug_barrier()  # other threads read what these wrote

            if PHASE == "all" or PHASE == "before":
                for c in range(first_segment, last_segment):
                    seg = segment_of(c, bh, T, N, offset, chunk_size, slot_0, SLOT)
                    if DEPTH == 1:
                        triton_linear.before(seq, seg, D, DP, C, DOT, PRECISION)
                    else:
                        triton_deep.before(seq, seg, D, DP, EP, C, DOT, PRECISION)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "reverse_scan":
                at, known = gradient_after(carried, final_at, last_segment, N, feature * DP)
                dstate = load_state(at, known, DEPTH, VP, DP, EP)
                # A linear memory's, alone, loads a segment while it computes one, but where a barrier stands in the
                # loop: for `init`.
                STAGES: tl.constexpr = 2 if DEPTH == 1 and PHASE == "reverse_scan" else 1
                for j in tl.range(0, last_segment - first_segment, num_stages=STAGES):
                    c = last_segment - 1 - j
                    seg = segment_of(c, bh, T, N, offset, chunk_size, slot_0, SLOT)
                    if DEPTH == 1:
                        dstate = triton_linear.reverse_scan(dstate, feature, seq, seg, D, DP, VP, C, DOT, PRECISION)
                    else:
                        dstate = triton_deep.reverse_scan(dstate, seq, seg, D, DP, EP, C, DOT, PRECISION)
                if first_segment > 0:
                    store_state(carried, dstate, DEPTH, VP, DP, EP)
                elif start is not None:
                    to = dstart + (own if SHARED else bh) * STATE + feature * DP
                    if DEPTH == 1:
                        triton_linear.add_start_gradient(to, dstate, SHARED, DP, VP)
                    else:
                        triton_deep.add_start_gradient(to, dstate, SHARED, DP, EP)
            if PHASE == "all":
                tl.debug_barrier()

            if PHASE == "all" or PHASE == "after":
                for c in range(first_segment, last_segment):
                    seg = segment_of(c, bh, T, N, offset, chunk_size, slot_0, SLOT)
                    if DEPTH == 1:
                        triton_linear.after(seq, seg, D, DP, C, DOT, PRECISION)
                    else:
                        triton_deep.after(seq, seg, D, DP, EP, C, DOT, PRECISION)
            if PHASE == "all":
                tl.debug_barrier()  # the scratch is written anew


@triton.jit
def items_of(BH, begin, end, part, PHASE: tl.constexpr):
    """How many parts a sequence has, items that the programs share, and parts that an item has."""
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
    """The segments from and to of a part, and where in the scratch the slot of segment 0 would be."""
    first = begin + number * part
    slot_0 = scratch + (own * slots - begin) * SLOT
    if PHASE == "all":
        slot_0 = scratch + (own * slots - first) * SLOT
    return first, tl.minimum(first + part, end), slot_0


@triton.jit
def segment_of(c, bh, T, N, offset, chunk_size, slot_0, SLOT: tl.constexpr):
    """Segment c of a sequence."""
    slot = slot_0 + c * SLOT
    first, count = segment(c, T, offset, chunk_size)
    return Segment(c, c == N - 1, bh * N + c, first, count, slot)


@triton.jit
def state_before(saved, start, bh, h, g, N, group, STATE: tl.constexpr, SHARED: tl.constexpr):
    """`saved_at` of a sequence by its number and head."""
    saved += bh * ((N + group - 1) // group - 1) * STATE
    if start is not None:
        start += (h if SHARED else bh) * STATE
    return saved_at(saved, start, g, STATE)


@triton.jit
def gradient_after(carried, final_at, last_segment, N, row_at):
    """Where the gradient by the state after a part is, and whether it is anywhere; it is zero otherwise."""
    at, known = carried, last_segment < N
    if final_at is not None:
        at, known = tl.where(known, at, final_at + row_at), last_segment <= N
    return at, known


@triton.jit
def load_state(at, known, DEPTH: tl.constexpr, ROWS: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr):
    """The tiles of a packed state, of a linear memory ROWS rows; zero where it is not `known`."""
    if DEPTH == 1:
        return triton_linear.load_state(at, known, ROWS, DP)
    else:
        return triton_deep.load_state(at, known, DP, EP)


@triton.jit
def store_state(at, state, DEPTH: tl.constexpr, ROWS: tl.constexpr, DP: tl.constexpr, EP: tl.constexpr):
    if DEPTH == 1:
        triton_linear.store_state(at, state[0], state[1], ROWS, DP)
    else:
        triton_deep.store_state(at, state[0], state[1], state[2], state[3], DP, EP)
