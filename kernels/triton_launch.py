"""Which calls the Triton kernels take, and how they are launched: warps, segments a program, bytes of scratch.

Peak memory, beside inputs, outputs and their gradients, for a chunk of C lanes (chunk_size padded to a power of two, at
least 16): a float32 state (two matrices a layer) every `group` chunks a head, `group` about the root of the number of
chunks; in the backward, 4 (3 C + 11) bytes a token and head for the gates' tables and gradients, and a scratch. The
scratch holds 2 states and 3 tokens' worth of features (11 where there are two layers) for each of a chunk's lanes, in
bfloat16 where the inputs are, else float32: for `group` chunks of the few hundred sequences that a GPU runs at once,
or, where the phases of the backward are kernels of their own, for as many as 256 MiB hold, at least a group of each.
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

from .triton_backward import PHASES
from .triton_common import DTYPES
from .triton_common import INTERPRETED as INTERPRETED

MOST_LANES, SMALLEST_DOT = 64, 16
WIDEST = {1: 128, 2: 64}  # head size, and hidden size, by depth
# Bytes of shared memory that the kernels may take at more than half of the widest. Narrower kernels fit every GPU that
# Triton supports, as do two layers in bfloat16.
WIDE = 64
SHARED_MEMORY = {
    1: {torch.bfloat16: 144 << 10, torch.float16: 160 << 10, torch.float32: 192 << 10},
    2: {torch.bfloat16: 0, torch.float16: 112 << 10, torch.float32: 176 << 10},
}
# Of a thread. Without a number, ptxas of Triton 3.6 allots 32 to some kernels and spills the rest.
MOST_REGISTERS, FEWER_REGISTERS = 255, 168
REGISTERS = 65_536  # of a multiprocessor
HOPPER = 9  # of compute capability 9.0
FEW_HEADS, MANY_CHUNKS = 64, 32  # where one pass would leave most of a GPU idle
ONE_GROUP = 8  # chunks of which no state is saved
APART_HEADS, SCRATCH = 256, 256 << 20  # most heads whose phases run apart; bytes of scratch


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
        Forward, a pass that updates the state and a parallel one that reads it, instead of one that does both.
    apart : bool
        Backward, a kernel for each phase, all but the reverse scan parallel over segments, instead of programs that
        take one sequence after another through all phases.
    block : int
        Rows of a linear memory that a program of a sequential pass takes, at most its width.
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


_forced: Launch | None = None
_built_for: int | None = None


@contextmanager
def forced(launch: Launch) -> Iterator[None]:
    """Every launch within the block is this one, for measurements."""
    global _forced
    before, _forced = _forced, launch
    try:
        yield
    finally:
        _forced = before


@contextmanager
def built_for(generation: int) -> Iterator[None]:
    """Every launch within the block is as for a GPU of this generation, to build kernels without that GPU."""
    global _built_for
    before, _built_for = _built_for, generation
    try:
        yield
    finally:
        _built_for = before


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
    if q.device.type == "cuda" and shared_memory_of(q.device) < shared_memory(len(weights), width, q.dtype):
        return f"takes layers up to {widest // 2} wide on this GPU, whose shared memory is small, got {width}"
    if chunk_size > MOST_LANES:
        return f"takes chunks up to {MOST_LANES}, got chunk_size = {chunk_size}"
    return None


def shared_memory(depth: int, width: int, dtype: torch.dtype) -> int:
    """Bytes of shared memory that a GPU must have for a program of these kernels; 0 where every GPU has them."""
    return SHARED_MEMORY[depth][dtype] if width > WIDEST[depth] // 2 else 0


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # torch leaves it without types
@functools.cache
def shared_memory_of(device: torch.device) -> int:
    """Bytes of shared memory that a program may have."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block))


def lanes_for(n: int) -> int:
    """The lanes of a tile that holds n tokens or features."""
    return max(SMALLEST_DOT, 1 << (n - 1).bit_length())


@dataclass(frozen=True)
class Plan:
    """Sizes of one call, the same forward and backward."""

    depth: int
    heads: int  # batch * heads
    segments: int
    group: int  # segments from one saved state to the next
    groups: int
    lanes: int
    width: int  # D, padded
    hidden: int  # E, padded; D where there is one layer
    stored: torch.dtype  # of what one kernel leaves for another
    launch: Launch
    arithmetic: dict[str, Any]

    def blocks(self, rows: int) -> tuple[int, int]:
        """How many blocks of so many rows a linear memory's matrix has, and their size; one of all rows if deep."""
        rows = min(rows, self.width) if self.depth == 1 else self.width
        return self.width // rows, rows

    def slots(self, slot: int) -> int:
        """Segments of each sequence, whole groups of them, whose `slot` numbers fit the scratch together."""
        group = self.heads * self.group * slot * self.stored.itemsize
        return min(self.group * max(1, SCRATCH // group), self.segments)

    def phases(self, slots: int) -> Iterator[tuple[str, int, int, int]]:
        """The launches of the backward: phase, the segments from and to, and how many are a part."""
        if not self.launch.apart:
            yield "all", 0, self.segments, self.group
            return
        for begin in reversed(range(0, self.segments, slots)):
            end = min(begin + slots, self.segments)
            for phase, part in zip(PHASES, (self.group, 1, slots, 1), strict=True):
                yield phase, begin, end, part


def plan(q: Tensor, depth: int, weights: int, chunk_size: int, offset: int) -> Plan:
    """The sizes of a call, whose packed weights are so many numbers, and its launch."""
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
    return Plan(
        depth=depth,
        heads=B * H,
        segments=segments,
        group=group,
        groups=-(-segments // group),
        lanes=lanes,
        width=width,
        hidden=hidden,
        stored=torch.bfloat16 if narrow else torch.float32,
        launch=launch,
        arithmetic={"DOT": tl.bfloat16 if narrow else tl.float32, "PRECISION": precision},
    )


def resident(device: torch.device, launch: Launch) -> int:
    """Programs of a backward that run at once."""
    if device.type != "cuda":
        return 2
    each = 32 * launch.backward_warps * (launch.registers + 1)
    return torch.cuda.get_device_properties(device).multi_processor_count * max(1, REGISTERS // each)


@contextmanager
def safe_products(device: torch.device, launch: Launch) -> Iterator[dict[str, str]]:
    """Options for a kernel of many products, compiled within the block.

    On Hopper Triton 3.6 made wrong or stray reads of the backward's products of a group of four warps (seen on an H200
    at head size 64 and 16 tokens a chunk; flash-linear-attention 640 and 984 report the same up to 3.7.1; one cause is
    an assembler before CUDA 13.3 that reuses their input registers too early, triton 11781). So products of single
    warps are asked for, which ptxas can only place in registers at its first level.
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


def _generation(device: torch.device) -> int | None:
    """The first number of a GPU's compute capability."""
    if _built_for is not None:
        return _built_for
    return torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else None
