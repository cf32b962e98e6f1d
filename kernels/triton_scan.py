"""The Triton backend: the memory as operators that torch sees, with their gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import triton_deep, triton_launch, triton_linear
from .state import MemoryState
from .triton_backward import backward
from .triton_common import on
from .triton_gates import gates_backward, gates_forward
from .triton_launch import Plan, lanes_for, plan

GATE_LANES = 256  # tokens whose gates a program multiplies out
FARTHEST = 2**31 // triton_launch.MOST_LANES  # numbers from one token to the next, so that 32 bits reach across a chunk


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
    """Run the recurrence in the kernels; arguments as `memory_scan` hands them on, checked."""
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
    """y, the final state (batch, heads, 3 * weights: W, S, the last chunk's start) and the saved states."""
    B, T, H, D = q.shape
    how = plan(q, depth, weights, chunk_size, offset)
    launch = how.launch
    q, k, v = (_rows_together(x) for x in (q, k, v))
    gates = [_near(g) for g in (alpha, eta, theta)]
    y = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    final = _floats(q, B, H, 3 * weights) if return_state else _floats(q, 0)
    saved = _floats(q, how.heads, how.groups - 1, 2 * weights)
    with on(q.device):
        A, table = _gate_tables(gates, how, chunk_size, offset)
        kernels: Any = triton_linear if depth == 1 else triton_deep
        updating, reading = how.blocks(launch.block), how.blocks(triton_launch.WIDE)
        split = launch.split and how.groups > 1
        slots = how.slots(2 * weights) if split else how.segments
        each = torch.empty((how.heads, slots, 2 * weights), dtype=how.stored, device=q.device) if split else None
        strides = (*q.stride()[:3], *k.stride()[:3], *v.stride()[:3])
        options = dict(**how.arithmetic, num_stages=launch.stages, maxnreg=launch.registers)
        for begin in range(0, how.segments, slots):
            end = min(begin + slots, how.segments)
            kernels.forward[(updating[0] * how.heads,)](
                q, k, v, y, A, table, start, chunk_start, init, saved, each, final if return_state else None,
                H, T, how.segments, offset, chunk_size, how.group, begin, end, slots, *strides,
                D=D, DP=how.width, EP=how.hidden, VP=updating[1], C=how.lanes,
                SHARED=start is not None and start.ndim == 2, READS=not split, num_warps=launch.warps, **options,
            )  # fmt: skip
            if split:
                kernels.readout[(reading[0] * how.heads * (end - begin),)](
                    q, k, v, y, A, table, chunk_start, init, each,
                    H, T, how.segments, offset, chunk_size, begin, end, slots, *strides,
                    D=D, DP=how.width, EP=how.hidden, VP=reading[1], C=how.lanes,
                    num_warps=min(launch.backward_warps, 4), **options,
                )  # fmt: skip
    return y, final, saved


@_memory_scan.register_fake
def _(q: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    *_, depth, weights, chunk_size, offset, return_state = others
    B, _, H, _ = q.shape
    how = plan(q, depth, weights, chunk_size, offset)
    final = _floats(q, B, H, 3 * weights) if return_state else _floats(q, 0)
    saved = _floats(q, how.heads, how.groups - 1, 2 * weights)
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
    how = plan(q, depth, weights, chunk_size, offset)
    shared = start is not None and start.ndim == 2
    q, k, v = (_rows_together(x) for x in (q, k, v))
    gates = [_near(g) for g in (alpha, eta, theta)]
    # A zero gradient takes no memory: every row is the same one.
    dy = q.new_zeros(D).expand(q.shape) if dy is None else _rows_together(dy)
    dfinal = None if dfinal is None else dfinal.contiguous()
    dq, dk, dv = (torch.empty(q.shape, dtype=q.dtype, device=q.device) for _ in range(3))
    dgates = [_floats(q, B, T, H) for _ in range(3)]
    launch = how.launch
    programs = H * min(B, max(1, triton_launch.resident(q.device, launch) // H))
    rows = how.heads if launch.apart else programs  # of gradients that are added up over the batch
    dstart, dchunk_start, dinit = (
        _floats(q, 0) if x is None else torch.empty_like(x) for x in (start, chunk_start, init)
    )
    if shared:
        dstart = _floats(q, rows, 2 * weights).zero_()
    if init is not None:
        dinit = _floats(q, rows, weights).zero_()
    slot = triton_linear.slot_size(how.width, how.lanes)
    if depth == 2:
        slot = triton_deep.slot_size(how.width, how.hidden, how.lanes)
    slots = how.slots(slot) if launch.apart else min(how.group, how.segments)
    scratch = torch.empty((rows, slots, slot), dtype=how.stored, device=q.device)
    carry = _floats(q, rows, 2 * weights)
    with on(q.device), triton_launch.safe_products(q.device, launch) as options:
        A, table = _gate_tables(gates, how, chunk_size, offset)
        dA, dtable = torch.empty_like(A), torch.empty_like(table)
        for phase, begin, end, part in how.phases(slots):
            blocks, rows_each, warps = 1, how.width, launch.backward_warps
            if depth == 1 and phase == "reverse_scan":
                (blocks, rows_each), warps = how.blocks(launch.block), launch.warps
            if phase != "all":
                programs = how.heads * -(-(end - begin) // part)
            backward[(programs * blocks,)](
                q, k, v, A, table, start, chunk_start, init, saved, dy, dfinal,
                dq, dk, dv, dA, dtable, dstart, dchunk_start, dinit, scratch, carry,
                how.heads, H, T, how.segments, offset, chunk_size, how.group, part, begin, end, slots, programs,
                *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *dy.stride()[:3],
                DEPTH=depth, D=D, DP=how.width, EP=how.hidden, VP=rows_each, C=how.lanes,
                SLOT=slot, SHARED=shared, PHASE=phase, **how.arithmetic,
                num_warps=warps, num_stages=1, maxnreg=launch.registers, **options,
            )  # fmt: skip
        del scratch, carry  # their memory is free for the gates'
        tables = A, table, dA, dtable, torch.empty_like(A)
        _for_gates(gates_backward, gates, (*tables, *dgates), how, chunk_size, offset)
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


def _gate_tables(gates: list[Tensor], how: Plan, chunk_size: int, offset: int) -> tuple[Tensor, Tensor]:
    C, segments = how.lanes, how.heads * how.segments
    tables = _floats(gates[0], segments, C, C), _floats(gates[0], segments, 4, C)
    _for_gates(gates_forward, gates, tables, how, chunk_size, offset)
    return tables


def _for_gates(
    kernel: Any, gates: list[Tensor], tables: tuple[Tensor, ...], how: Plan, chunk_size: int, offset: int
) -> None:
    """Launch a kernel of the gates (batch, steps, heads): so many segments a program that its lanes are busy."""
    segments, together = how.heads * how.segments, GATE_LANES // how.lanes
    _, T, H = gates[0].shape
    kernel[(-(-segments // together),)](
        *gates, *tables, segments, H, T, how.segments, offset, chunk_size, *(n for g in gates for n in g.stride()),
        C=how.lanes, M=together,
    )  # fmt: skip


def _floats(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _rows_together(x: Tensor) -> Tensor:
    """`x` with its last stride 1, as the kernels need it, and its tokens near."""
    return _near(x) if x.stride(-1) == 1 else x.contiguous()


def _near(x: Tensor) -> Tensor:
    """`x` with its tokens no farther apart than 32 bits reach across a chunk."""
    return x if x.stride(1) < FARTHEST else x.contiguous()
