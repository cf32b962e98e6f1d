"""The Triton backend: what it takes, how it is launched, and the operators that torch sees.

Peak memory, beside inputs, outputs and their gradients, for a chunk of C lanes (chunk_size padded to a power of two, at
least 16): a float32 state (two matrices a layer) every `group` chunks a head, `group` about the root of the number of
chunks; in the backward, 4 (3 C + 11) bytes a token and head for the gates' tables and gradients, and a scratch. That
holds 2 states and 3 tokens' worth of features (11 where there are two layers) for each of a chunk's lanes, in bfloat16
where the inputs are, else float32: for `group` chunks of the few hundred sequences that a GPU runs at once, or, where
the phases run apart, for as many as 256 MiB hold, at least a group of each.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from . import triton_deep, triton_linear
from .state import MemoryState
from .triton_common import DTYPES, INTERPRETED, gates_backward, gates_forward, on

MOST_LANES, SMALLEST_DOT = 64, 16
GATE_LANES = 256  # tokens whose gates a program multiplies out
WIDEST = {1: 128, 2: 64}  # head size, and hidden size, by depth
# Bytes of shared memory that the kernels may take at more than half of the widest; narrower ones fit every GPU that
# Triton knows, as do two layers in bfloat16.
WIDE = 64
SHARED_MEMORY = {
    1: {torch.bfloat16: 144 << 10, torch.float16: 160 << 10, torch.float32: 192 << 10},
    2: {torch.bfloat16: 0, torch.float16: 112 << 10, torch.float32: 176 << 10},
}
# A thread's, said aloud: ptxas of Triton 3.6 otherwise allots 32 to some kernels, and spills the rest.
MOST_REGISTERS, FEWER_REGISTERS = 255, 168
REGISTERS = 65_536  # of a multiprocessor
HOPPER = 9  # of compute capability 9.0
FARTHEST = 2**31 // MOST_LANES  # numbers from one token to the next, so that 32 bits reach across a chunk
FEW_HEADS, MANY_CHUNKS = 64, 32  # where one pass would leave most of a GPU idle
ONE_GROUP = 8  # chunks of which no state is saved
APART_HEADS, SCRATCH = 256, 256 << 20  # most heads whose phases run apart; bytes that one may leave for the next


@dataclass(frozen=True)
class Launch:
    """How kernels are started; changes their speed, not what they compute.

    Parameters
    ----------
    warps, backward_warps : int
        Warps a program.
    stages : int
        Segments whose loads are under way at once in the forward.
    group : int
        Segments from one saved state to the next; 0 chooses by length.
    split : bool
        Forward, a pass that walks and a parallel one that answers, instead of one that does both.
    apart : bool
        Backward, a kernel for each phase, all but one of them parallel over segments, instead of programs that take
        one sequence after another through all.
    block : int
        Rows of a linear memory that a program which walks takes, at most its width.
    registers : int
        Most a thread may have: with fewer more programs run at once, and values may be spilled.
    warpgroups : bool
        Products of groups of four warps in the backward on Hopper, which Triton 3.6 gets wrong in some kernels.
    """

    warps: int
    backward_warps: int
    stages: int = 1
    group: int = 0
    split: bool = False
    apart: bool = False
    block: int = 32
    registers: int = MOST_REGISTERS
    warpgroups: bool = False


@dataclass(frozen=True)
class Problem:
    """What decides on a launch."""

    depth: int
    heads: int  # batch * heads
    chunks: int
    lanes: int
    width: int  # padded


_forced: Launch | None = None


@contextmanager
def forced(launch: Launch) -> Iterator[None]:
    """Every launch inside is this one, for measurements."""
    global _forced
    before, _forced = _forced, launch
    try:
        yield
    finally:
        _forced = before


def candidates(problem: Problem) -> list[Launch]:
    """The launches worth trying, the one that is taken first.

    A tensor core's rows are features, 16 to a warp: more warps would all do the same.
    """
    warps = max(1, problem.width // 16)
    block = min(32, problem.width) if problem.depth == 1 else problem.width
    small = problem.depth == 1 and problem.width <= 32 and problem.lanes <= 16  # few values to a thread
    usual = Launch(
        warps=max(1, block // 16) * (2 if problem.depth == 1 and problem.lanes > 32 else 1),
        backward_warps=warps,
        stages=2 if problem.lanes <= 32 or (problem.depth == 1 and problem.width <= WIDE) else 1,
        split=problem.heads <= FEW_HEADS and problem.chunks >= MANY_CHUNKS,
        apart=problem.heads <= APART_HEADS and problem.chunks > ONE_GROUP,
        block=block,
        registers=FEWER_REGISTERS if small else MOST_REGISTERS,
    )
    other = replace(usual, stages=3 - usual.stages, warpgroups=warps >= 4)
    if problem.chunks <= ONE_GROUP:
        return [usual, other, replace(usual, registers=MOST_REGISTERS + FEWER_REGISTERS - usual.registers)]
    return [usual, other, replace(usual, split=not usual.split, apart=not usual.apart)]


def refusal(q: Tensor, weights: tuple[Tensor, ...], chunk_size: int) -> str | None:
    """Why the kernels cannot run this call, or None."""
    if q.device.type != "cuda" and not INTERPRETED:
        return f"needs a GPU, or TRITON_INTERPRET=1 in the environment before the first import; `q` is on {q.device}"
    if q.dtype not in DTYPES:
        return f"takes float32, bfloat16 and float16, and `q` is {q.dtype}"
    if len(weights) not in WIDEST:
        return f"takes 1 or 2 layers of weights, got {len(weights)}"
    widest = WIDEST[len(weights)]
    width = max(max(w.shape[1:]) for w in weights)
    if width > widest:
        return f"takes layers up to {widest} wide at depth {len(weights)}, got {width}"
    if q.device.type == "cuda" and _shared_memory(q.device) < shared_memory(len(weights), width, q.dtype):
        return f"takes layers up to {widest // 2} wide on this GPU, whose shared memory is small, got {width}"
    if chunk_size > MOST_LANES:
        return f"takes chunks up to {MOST_LANES}, got chunk_size = {chunk_size}"
    return None


def shared_memory(depth: int, width: int, dtype: torch.dtype) -> int:
    """Bytes of shared memory that a GPU must have for a program of these kernels; 0 where every GPU has them."""
    return SHARED_MEMORY[depth][dtype] if width > WIDEST[depth] // 2 else 0


def scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
) -> tuple[Tensor, MemoryState | None]:
    """Run the recurrence by the kernels; q, k and v as they came, the rest float32 and checked."""
    shapes = [w.shape[-2:] for w in weights]  # (in, out)
    # The kernels carry what is away from where forgetting leads to.
    initial, offset, start, chunk_start = _pack(weights), 0, None, None  # (heads, weights)
    init = initial if decay_to == "init" else None
    if state is not None:
        offset = state.offset
        away = _pack(state.weights) if init is None else _pack(state.weights) - init
        start = torch.cat([away, _pack(state.momentum)], dim=-1)  # (batch, heads, state)
        chunk_start = _pack(state.chunk_start) if offset else None
    elif init is None:
        start = torch.cat([initial, torch.zeros_like(initial)], dim=-1)  # (heads, state)
    y, final, _ = torch.ops.titans_ts.memory_scan(
        q, k, v, alpha, eta, theta, start, chunk_start, init, len(weights), initial.shape[-1], chunk_size, offset,
        return_state,
    )  # fmt: skip
    if not return_state:
        return y, None
    new, momentum, began = final.chunk(3, dim=-1)
    new = _unpack(new if init is None else new + init, shapes)
    after = (offset + q.shape[1]) % chunk_size
    return y, MemoryState(
        weights=new,
        momentum=_unpack(momentum, shapes),
        chunk_start=_unpack(began, shapes) if after else new,
        offset=after,
    )


def _pack(layers: tuple[Tensor, ...]) -> Tensor:
    """Layers (..., in, out) as one row (..., weights): each (out, in), padded with zeros to powers of two."""
    rows = []
    for w in layers:
        missing = [lanes_for(n) - n for n in w.shape[-2:]]
        if any(missing):
            w = pad(w, (0, missing[1], 0, missing[0]))
        rows.append(w.float().mT.flatten(-2))
    return torch.cat(rows, dim=-1)


def _unpack(row: Tensor, shapes: list[torch.Size]) -> tuple[Tensor, ...]:
    sizes = [(lanes_for(n_out), lanes_for(n_in)) for n_in, n_out in shapes]
    parts = row.split([math.prod(size) for size in sizes], dim=-1)
    return tuple(
        part.unflatten(-1, size)[..., :n_out, :n_in].mT
        for part, size, (n_in, n_out) in zip(parts, sizes, shapes, strict=True)
    )


def lanes_for(n: int) -> int:
    """The lanes of a tile that holds n tokens or features."""
    return max(SMALLEST_DOT, 1 << (n - 1).bit_length())


@dataclass(frozen=True)
class _Plan:
    """Sizes of one call, the same forward and backward."""

    heads: int  # batch * heads
    segments: int
    group: int  # segments from one saved state to the next
    groups: int
    lanes: int
    width: int  # D, padded
    hidden: int  # E, padded
    kept: torch.dtype  # of what one kernel leaves for another
    launch: Launch
    arithmetic: dict[str, Any]


def _plan(q: Tensor, depth: int, weights: int, chunk_size: int, offset: int) -> _Plan:
    B, T, H, D = q.shape
    segments = -(-(offset + T) // chunk_size)
    width = lanes_for(D)
    hidden = width if depth == 1 else weights // (2 * width)
    lanes = lanes_for(min(chunk_size, T))
    launch = _forced or candidates(Problem(depth, B * H, segments, lanes, max(width, hidden)))[0]
    root = 1 << math.isqrt(segments - 1).bit_length()
    group = launch.group or (segments if segments <= ONE_GROUP else max(ONE_GROUP, root))
    exact = "ieee" if INTERPRETED else "tf32x3"
    precision = exact if q.dtype == torch.float32 else "tf32"  # float16 could not hold the errors of large values
    narrow = q.dtype == torch.bfloat16
    return _Plan(
        heads=B * H,
        segments=segments,
        group=group,
        groups=-(-segments // group),
        lanes=lanes,
        width=width,
        hidden=hidden,
        kept=torch.bfloat16 if narrow else torch.float32,
        launch=launch,
        arithmetic={"DOT": tl.bfloat16 if narrow else tl.float32, "PRECISION": precision},
    )


def _blocks(plan: _Plan, rows: int) -> tuple[int, dict[str, int]]:
    """How many blocks of so many rows a linear memory's matrix has, and their size."""
    rows = min(rows, plan.width)
    return plan.width // rows, {"VP": rows}


def _slots(plan: _Plan, slot: int) -> int:
    """Segments of each sequence, whole groups of them, whose `slot` numbers fit the scratch together."""
    group = plan.heads * plan.group * slot * plan.kept.itemsize
    return min(plan.group * max(1, SCRATCH // group), plan.segments)


@torch.library.custom_op("titans_ts::memory_scan", mutates_args=())
def _memory_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    start: Tensor | None,
    chunk_start: Tensor | None,
    init: Tensor | None,
    depth: int,
    weights: int,
    chunk_size: int,
    offset: int,
    return_state: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Answers, the final state (batch, heads, 3 * weights: W, S, the last chunk's start) and the saved states."""
    B, T, H, D = q.shape
    plan = _plan(q, depth, weights, chunk_size, offset)
    launch = plan.launch
    q, k, v = (_rows_together(x) for x in (q, k, v))
    gates = [_near(g) for g in (alpha, eta, theta)]
    y = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    final = _floats(q, B, H, 3 * weights) if return_state else _floats(q, 0)
    saved = _floats(q, plan.heads, plan.groups - 1, 2 * weights)
    with on(q.device):
        A, table = _gate_tables(gates, plan, chunk_size, offset)
        kernels: Any = triton_deep
        walking = answering = 1, {"EP": plan.hidden}  # programs a sequence or segment, and their size
        if depth == 1:
            kernels = triton_linear
            walking, answering = _blocks(plan, launch.block), _blocks(plan, WIDE)
        split = launch.split and plan.groups > 1
        slots = _slots(plan, 2 * weights) if split else plan.segments
        each = torch.empty((plan.heads, slots, 2 * weights), dtype=plan.kept, device=q.device) if split else None
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        how = dict(**plan.arithmetic, num_stages=launch.stages, maxnreg=launch.registers)
        for begin in range(0, plan.segments, slots):
            end = min(begin + slots, plan.segments)
            kernels.forward[(walking[0] * plan.heads,)](
                q, k, v, y, A, table, start, chunk_start, init, saved, each, final if return_state else None,
                H, T, plan.segments, offset, chunk_size, plan.group, begin, end, slots, *strides,
                D=D, DP=plan.width, **walking[1], C=plan.lanes,
                SHARED=start is not None and start.ndim == 2, READS=not split, num_warps=launch.warps, **how,
            )  # fmt: skip
            if split:
                kernels.answers[(answering[0] * plan.heads * (end - begin),)](
                    q, k, v, y, A, table, chunk_start, init, each,
                    H, T, plan.segments, offset, chunk_size, begin, end, slots, *strides,
                    D=D, DP=plan.width, **answering[1], C=plan.lanes, num_warps=min(launch.backward_warps, 4), **how,
                )  # fmt: skip
    return y, final, saved


@_memory_scan.register_fake
def _(q: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    *_, depth, weights, chunk_size, offset, return_state = others
    B, _, H, _ = q.shape
    plan = _plan(q, depth, weights, chunk_size, offset)
    final = _floats(q, B, H, 3 * weights) if return_state else _floats(q, 0)
    saved = _floats(q, plan.heads, plan.groups - 1, 2 * weights)
    return torch.empty(q.shape, dtype=q.dtype, device=q.device), final, saved


def _phases(plan: _Plan, slots: int) -> Iterator[tuple[str, int, int, int]]:
    """The launches of the backward: phase, the segments from and to, and how many are a part; see `triton_deep`."""
    if not plan.launch.apart:
        yield "all", 0, plan.segments, plan.group
        return
    for begin in reversed(range(0, plan.segments, slots)):
        end = min(begin + slots, plan.segments)
        yield "states", begin, end, plan.group
        yield "before", begin, end, 1
        yield "walk", begin, end, slots
        yield "after", begin, end, 1


@torch.library.custom_op("titans_ts::memory_scan_backward", mutates_args=())
def _memory_scan_backward(
    dy: Tensor | None,
    dfinal: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    start: Tensor | None,
    chunk_start: Tensor | None,
    init: Tensor | None,
    saved: Tensor,
    depth: int,
    weights: int,
    chunk_size: int,
    offset: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients by q, k, v, alpha, eta, theta, start, chunk_start and init; empty where there is none."""
    B, T, H, D = q.shape
    plan = _plan(q, depth, weights, chunk_size, offset)
    shared = start is not None and start.ndim == 2
    q, k, v = (_rows_together(x) for x in (q, k, v))
    gates = [_near(g) for g in (alpha, eta, theta)]
    # A zero gradient takes no memory: every row is the same one.
    dy = q.new_zeros(D).expand(q.shape) if dy is None else _rows_together(dy)
    dfinal = None if dfinal is None else dfinal.contiguous()
    dq, dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(3))
    dgates = [_floats(q, B, T, H) for _ in range(3)]
    launch = plan.launch
    resident = _resident(q.device, launch)
    programs = H * min(B, max(1, resident // H))
    rows = plan.heads if launch.apart else programs  # of gradients that are added up over the batch
    dstart, dchunk_start, dinit = (
        _floats(q, 0) if x is None else torch.empty_like(x) for x in (start, chunk_start, init)
    )
    if shared:
        dstart = _floats(q, rows, 2 * weights).zero_()
    if init is not None:
        dinit = _floats(q, rows, weights).zero_()
    kernels = triton_linear if depth == 1 else triton_deep
    slot = kernels.slot_size(plan.width, plan.hidden, plan.lanes)
    slots = _slots(plan, slot) if launch.apart else min(plan.group, plan.segments)
    scratch = torch.empty((rows, slots, slot), dtype=plan.kept, device=q.device)
    carry = _floats(q, rows, 2 * weights)
    with on(q.device), _safe_products(q.device, launch) as options:
        A, table = _gate_tables(gates, plan, chunk_size, offset)
        dA, dtable = torch.empty_like(A), torch.empty_like(table)
        for phase, begin, end, part in _phases(plan, slots):
            blocks, sizes, warps = 1, {"EP": plan.hidden}, launch.backward_warps
            if depth == 1:
                blocks, sizes = _blocks(plan, launch.block if phase == "walk" else plan.width)
                warps = launch.warps if phase == "walk" else warps
            if phase != "all":
                programs = plan.heads * -(-(end - begin) // part)
            kernels.backward[(programs * blocks,)](
                q, k, v, A, table, start, chunk_start, init, saved, dy, dfinal,
                dq, dk, dv, dA, dtable, dstart, dchunk_start, dinit, scratch, carry,
                plan.heads, H, T, plan.segments, offset, chunk_size, plan.group, part, begin, end, slots, programs,
                *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *dy.stride()[:3],
                D=D, DP=plan.width, **sizes, C=plan.lanes, SLOT=slot, SHARED=shared, PHASE=phase, **plan.arithmetic,
                num_warps=warps, num_stages=1, maxnreg=launch.registers, **options,
            )  # fmt: skip
        del scratch, carry  # their memory is free for the gates'
        tables = A, table, dA, dtable, torch.empty_like(A)
        _for_gates(gates_backward, gates, (*tables, *dgates), plan, chunk_size, offset)
    if shared:
        dstart = dstart.view(-1, H, 2 * weights).sum(0)
    if init is not None:
        dinit = dinit.view(-1, H, weights).sum(0)
    dalpha, deta, dtheta = (g.to(x.dtype) for g, x in zip(dgates, (alpha, eta, theta), strict=True))
    return dq, dk, dv, dalpha, deta, dtheta, dstart, dchunk_start, dinit


@_memory_scan_backward.register_fake
def _(dy: Tensor | None, dfinal: Tensor | None, q: Tensor, *others: Any) -> tuple[Tensor, ...]:
    inputs = (q, *others[:8])  # q, k, v, alpha, eta, theta, start, chunk_start, init
    return tuple(_floats(q, 0) if x is None else torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in inputs)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.depth, ctx.weights, ctx.chunk_size, ctx.offset, _ = inputs
    ctx.save_for_backward(*tensors, output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dy: Tensor | None, dfinal: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    *tensors, saved = ctx.saved_tensors
    gradients = torch.ops.titans_ts.memory_scan_backward(
        dy, dfinal, *tensors, saved, ctx.depth, ctx.weights, ctx.chunk_size, ctx.offset
    )
    return (*(None if x is None else g for g, x in zip(gradients, tensors, strict=True)), None, None, None, None, None)


_memory_scan.register_autograd(_gradients, setup_context=_keep)


def _gate_tables(gates: list[Tensor], plan: _Plan, chunk_size: int, offset: int) -> tuple[Tensor, Tensor]:
    C, segments = plan.lanes, plan.heads * plan.segments
    tables = _floats(gates[0], segments, C, C), _floats(gates[0], segments, 4, C)
    _for_gates(gates_forward, gates, tables, plan, chunk_size, offset)
    return tables


def _for_gates(
    kernel: Any, gates: list[Tensor], tables: tuple[Tensor, ...], plan: _Plan, chunk_size: int, offset: int
) -> None:
    """Launch a kernel of the gates (batch, steps, heads): so many segments a program that its lanes are busy."""
    segments, together = plan.heads * plan.segments, GATE_LANES // plan.lanes
    _, T, H = gates[0].shape
    kernel[(-(-segments // together),)](
        *gates, *tables, segments, H, T, plan.segments, offset, chunk_size, *(n for g in gates for n in g.stride()),
        C=plan.lanes, M=together,
    )  # fmt: skip


def _floats(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _rows_together(x: Tensor) -> Tensor:
    """The kernels take any strides but the last, within reason."""
    return _near(x) if x.stride(-1) == 1 else x.contiguous()


def _near(x: Tensor) -> Tensor:
    """Its tokens no farther apart than the kernels can count."""
    return x if x.stride(1) < FARTHEST else x.contiguous()


@torch.compiler.assume_constant_result
@functools.cache
def _shared_memory(device: torch.device) -> int:
    """Bytes that a program may have."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block))


def _resident(device: torch.device, launch: Launch) -> int:
    """Programs of a backward that run at once."""
    if device.type != "cuda":
        return 2
    each = 32 * launch.backward_warps * (launch.registers + 1)
    return torch.cuda.get_device_properties(device).multi_processor_count * max(1, REGISTERS // each)


def _generation(device: torch.device) -> int | None:
    """The first number of a GPU's compute capability."""
    return torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else None


@contextmanager
def _safe_products(device: torch.device, launch: Launch) -> Iterator[dict[str, str]]:
    """Options for a kernel of many products, compiled within.

    On Hopper Triton 3.6 made wrong or stray reads of the backward's products of a group of four warps (seen on an H200
    at head size 64 and 16 tokens a chunk; flash-linear-attention 640 and 984 report the same up to 3.7.1; one cause is
    an assembler before CUDA 13.3 that reuses their input registers too early, triton 11781), so those of single warps
    are asked for, which ptxas can only place in registers at its first level.
    """
    if launch.backward_warps < 4 or launch.warpgroups or _generation(device) != HOPPER:
        yield {}
        return
    before = os.environ.get("DISABLE_MMA_V3")
    os.environ["DISABLE_MMA_V3"] = "1"
    try:
        yield {"ptx_options": "-O1"}
    finally:
        if before is None:
            del os.environ["DISABLE_MMA_V3"]
        else:
            os.environ["DISABLE_MMA_V3"] = before
