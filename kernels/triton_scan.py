"""The Triton backend: what it takes, how it is launched, and the operators that torch sees.

Peak memory, beside inputs, outputs and their gradients, for a chunk of C lanes (chunk_size padded to a power of two, at
least 16): a float32 state (two matrices a layer) every `group` chunks a head, `group` about the root of the number of
chunks; in the backward, 4 (3 C + 11) bytes a token and head for the gates' tables and gradients, and `group` states a
program, of which a GPU runs a few hundred. A linear memory's backward that is split saves as many states again.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from . import triton_deep, triton_linear
from .state import MemoryState
from .triton_common import gates_backward, gates_forward

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_LANES, SMALLEST_DOT = 64, 16
GATE_LANES = 256  # tokens whose gates a program multiplies out
WIDEST = {1: 128, 2: 64}  # head size, and hidden size, by depth
INTERPRETED = triton.knobs.runtime.interpret  # read once, as when the kernels are made
# Bytes of shared memory that the kernels may take at 128 wide; narrower ones fit every GPU that Triton knows.
WIDE, SHARED_MEMORY = 64, {torch.bfloat16: 144 << 10, torch.float16: 160 << 10, torch.float32: 192 << 10}
REGISTERS = 255  # a thread, said aloud: ptxas of Triton 3.6 otherwise allots 32 to some kernels, and spills the rest
FARTHEST = 2**31 // MOST_LANES  # numbers from one token to the next, so that 32 bits reach across a chunk
FEW_HEADS, MANY_CHUNKS = 64, 32  # where one pass would leave most of a GPU idle


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
        A pass that walks and a parallel one that answers, instead of one that does both; in the backward of a linear
        memory too.
    block : int
        Rows of a linear memory that a program which walks takes, at most its width.
    """

    warps: int
    backward_warps: int
    stages: int = 1
    group: int = 0
    split: bool = False
    block: int = 32


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
    usual = Launch(
        warps=max(1, block // 16) * (2 if problem.depth == 1 and problem.lanes > 32 else 1),
        backward_warps=warps,
        stages=2 if problem.lanes <= 32 or (problem.depth == 1 and problem.width <= WIDE) else 1,
        block=block,
    )
    split = replace(usual, split=True)
    if problem.heads <= FEW_HEADS and problem.chunks >= MANY_CHUNKS:
        return [split, usual]
    return [usual, replace(usual, stages=3 - usual.stages), split]


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
    if width > WIDE and q.device.type == "cuda" and _shared_memory(q.device) < SHARED_MEMORY[q.dtype]:
        return f"takes layers up to {WIDE} wide on this GPU, whose shared memory is small, got {width}"
    if chunk_size > MOST_LANES:
        return f"takes chunks up to {MOST_LANES}, got chunk_size = {chunk_size}"
    return None


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
    launch: Launch
    arithmetic: dict[str, Any]


def _plan(q: Tensor, depth: int, weights: int, chunk_size: int, offset: int) -> _Plan:
    B, T, H, D = q.shape
    segments = -(-(offset + T) // chunk_size)
    width = lanes_for(D)
    hidden = width if depth == 1 else weights // (2 * width)
    lanes = lanes_for(min(chunk_size, T))
    launch = _forced or candidates(Problem(depth, B * H, segments, lanes, max(width, hidden)))[0]
    group = launch.group or (segments if segments <= 8 else max(8, 1 << math.isqrt(segments - 1).bit_length()))
    exact = "ieee" if INTERPRETED else "tf32x3"
    precision = exact if q.dtype == torch.float32 else "tf32"  # float16 could not hold the errors of large values
    number = tl.bfloat16 if q.dtype == torch.bfloat16 else tl.float32
    return _Plan(
        heads=B * H,
        segments=segments,
        group=group,
        groups=-(-segments // group),
        lanes=lanes,
        width=width,
        hidden=hidden,
        launch=launch,
        arithmetic={"DOT": number, "PRECISION": precision},
    )


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
    with _on(q.device):
        A, table = _gate_tables(gates, plan, chunk_size, offset)
        kernel = triton_linear.forward if depth == 1 else triton_deep.forward
        blocks, sizes = 1, {"EP": plan.hidden}
        if depth == 1:
            block = min(launch.block, plan.width)
            blocks, sizes = plan.width // block, {"VP": block}
        for reads, walks in ((False, True), (True, False)) if launch.split and plan.groups > 1 else ((True, True),):
            kernel[(blocks * plan.heads * (1 if walks else plan.groups),)](
                q, k, v, y, A, table, start, chunk_start, init, saved, final if return_state and walks else None,
                H, T, plan.segments, offset, chunk_size, plan.group, plan.groups,
                *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
                D=D, DP=plan.width, **sizes, C=plan.lanes,
                SHARED=start is not None and start.ndim == 2, READS=reads, WALKS=walks, **plan.arithmetic,
                num_warps=launch.warps, num_stages=launch.stages, maxnreg=REGISTERS,
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
    walks_apart = depth == 1 and plan.launch.split and plan.groups > 1
    resident = _resident(q.device, plan.launch.backward_warps)
    programs = H * min(B, max(1, resident // H))
    if walks_apart:
        programs = min(plan.heads * plan.groups, resident)
    rows = plan.heads if walks_apart else programs  # of gradients that are added up over the batch
    dstart, dchunk_start, dinit = (
        _floats(q, 0) if x is None else torch.empty_like(x) for x in (start, chunk_start, init)
    )
    if shared:
        dstart = _floats(q, rows, 2 * weights).zero_()
    if init is not None:
        dinit = _floats(q, rows, weights).zero_()
    scratch = _floats(q, programs, plan.group, 2 * weights)
    with _on(q.device), _safe_products(q.device, plan.launch.backward_warps) as options:
        A, table = _gate_tables(gates, plan, chunk_size, offset)
        dA, dtable, S = torch.empty_like(A), torch.empty_like(table), torch.empty_like(A)
        kernel = triton_linear.backward if depth == 1 else triton_deep.backward
        walked: list[Tensor | None] = [None] if depth == 1 else []
        if walks_apart:
            block = min(plan.launch.block, plan.width)
            walked = [_floats(q, plan.heads, plan.groups, 2 * weights)]
            triton_linear.backward_walk[(plan.width // block * plan.heads,)](
                q, k, A, table, start, chunk_start, init, dy, dfinal, dv, dstart, dchunk_start, dinit, *walked,
                H, T, plan.segments, offset, chunk_size, plan.group, plan.groups,
                *q.stride()[:3], *k.stride()[:3], *dy.stride()[:3],
                D=D, DP=plan.width, VP=block, C=plan.lanes, **plan.arithmetic,
                num_warps=plan.launch.warps, num_stages=1, maxnreg=REGISTERS, **options,
            )  # fmt: skip
        kernel[(programs,)](
            q, k, v, A, table, start, chunk_start, init, saved, *walked, dy, dfinal,
            dq, dk, dv, dA, dtable, dstart, dchunk_start, dinit, scratch,
            plan.heads, H, T, plan.segments, offset, chunk_size, plan.group, plan.groups, programs,
            *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *dy.stride()[:3],
            D=D, DP=plan.width, **({"WALKS": not walks_apart} if depth == 1 else {"EP": plan.hidden}), C=plan.lanes,
            SHARED=shared,
            **plan.arithmetic,
            num_warps=plan.launch.backward_warps, num_stages=1, maxnreg=REGISTERS, **options,
        )  # fmt: skip
        _for_gates(gates_backward, gates, (A, table, dA, dtable, S, *dgates), plan, chunk_size, offset)
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


def _resident(device: torch.device, warps: int) -> int:
    """Programs of a backward that run at once, at 255 registers a thread."""
    if device.type != "cuda":
        return 2
    return torch.cuda.get_device_properties(device).multi_processor_count * max(1, 8 // warps)


@contextmanager
def _safe_products(device: torch.device, warps: int) -> Iterator[dict[str, str]]:
    """Options for a kernel of many products, compiled within.

    On Hopper Triton 3.6 made wrong or stray reads of the backward's products of a group of four warps (seen on an H200
    at head size 64 and 16 tokens a chunk; flash-linear-attention 640 and 984 report the same up to 3.7.1), so those of
    single warps are asked for, which ptxas can only place in registers at its first level.
    """
    if warps < 4 or device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
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


def _on(device: torch.device) -> Any:
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
