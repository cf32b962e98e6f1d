"""Which calls the Triton kernels take, and how they are launched."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from titans_ts.kernels import memory_scan

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_launch

Inputs = dict[str, Any]
Launch = partial(triton_launch.Launch, warps=4, backward_warps=4)
CPU = torch.device("cpu")


@pytest.fixture
def make(make_inputs: Callable[..., Inputs]) -> Callable[..., Inputs]:
    return partial(make_inputs, **{"B": 1, "H": 1, "D": 8, "expansion": 1, "dtype": torch.float32})


# What is taken


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ({"dtype": torch.float64}, "takes float32, bfloat16 and float16, and `q` is torch.float64"),
        ({"depth": 3}, "takes 1 or 2 layers of weights, got 3"),
        ({"depth": 1, "D": 129}, "takes layers up to 128 wide at depth 1, got 129"),
        ({"depth": 2, "D": 65}, "takes layers up to 64 wide at depth 2, got 65"),
        ({"depth": 2, "D": 33, "expansion": 2}, "takes layers up to 64 wide at depth 2, got 66"),
        ({"chunk_size": 65}, "takes chunks up to 64, got chunk_size = 65"),
    ],
    ids=str,
)
def test_refuses_what_the_kernels_do_not_take(problem: dict[str, Any], words: str, make: Callable[..., Inputs]) -> None:
    chunk_size = problem.get("chunk_size", 4)
    inputs = make(**{name: x for name, x in problem.items() if name != "chunk_size"})
    with pytest.raises(ValueError, match=f"`backend='triton'` {words}; use 'chunkwise' or 'auto'"):
        memory_scan(**inputs, chunk_size=chunk_size, backend="triton")
    # Where it may choose, it does.
    chunked = memory_scan(**inputs, chunk_size=chunk_size, backend="chunkwise")
    assert torch.equal(memory_scan(**inputs, chunk_size=chunk_size), chunked)


def test_refuses_a_cpu_without_the_interpreter(
    make_inputs: Callable[..., Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_launch, "INTERPRETED", False)
    with pytest.raises(ValueError, match=r"`backend='triton'` needs a GPU, or TRITON_INTERPRET=1 .*; `q` is on cpu"):
        memory_scan(**make_inputs(dtype=torch.float32), chunk_size=4, backend="triton")


# 16: what a card's shared memory cannot hold is for another backend.
@pytest.mark.parametrize(
    ("depth", "dtype", "kib", "width", "fits"),
    [
        (2, torch.bfloat16, 99, 64, True),
        (2, torch.float16, 99, 64, False),
        (2, torch.float16, 163, 64, True),
        (2, torch.float32, 163, 64, False),
        (2, torch.float32, 163, 32, True),
        (2, torch.float32, 227, 64, True),
        (1, torch.bfloat16, 99, 128, False),
        (1, torch.float32, 99, 64, True),
        (1, torch.float32, 227, 128, True),
    ],
)
def test_small_shared_memory_is_refused(
    depth: int, dtype: torch.dtype, kib: int, width: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_launch, "shared_memory_of", lambda device: kib << 10)
    q = SimpleNamespace(device=torch.device("cuda", 0), dtype=dtype)
    refused = triton_launch.refusal(q, (torch.empty(1, width, width),) * depth, 16)  # type: ignore[arg-type]
    if fits:
        assert refused is None
    else:
        assert refused == (
            f"takes layers up to {triton_launch.WIDEST[depth] // 2} wide on this GPU, whose shared memory is small, "
            f"got {width}"
        )


# 11: what Triton compiles wrong on Hopper, seen on a card.
@pytest.mark.parametrize(
    ("capability", "launch", "safe"),
    [
        ((9, 0), Launch(), True),
        ((9, 0), Launch(warpgroups=True), False),
        ((9, 0), Launch(backward_warps=2), False),
        ((8, 0), Launch(backward_warps=8), False),
    ],
)
@pytest.mark.parametrize("before", [None, "0"])
def test_products_of_four_warps_are_avoided_on_hopper(
    before: str | None,
    capability: tuple[int, int],
    launch: triton_launch.Launch,
    safe: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.delenv("DISABLE_MMA_V3", raising=False)
    if before is not None:
        monkeypatch.setenv("DISABLE_MMA_V3", before)
    with triton_launch.safe_products(torch.device("cuda", 0), launch) as options:
        assert os.environ.get("DISABLE_MMA_V3") == ("1" if safe else before)
        assert options == ({"ptx_options": "-O1"} if safe else {})
    assert os.environ.get("DISABLE_MMA_V3") == before


# How it is launched


@pytest.mark.parametrize(
    ("heads", "chunks", "split", "apart"),
    [
        (8, 256, True, True),
        (64, 31, False, True),
        (128, 256, False, True),
        (257, 256, False, False),
        (8, 8, False, False),
    ],
)
def test_few_heads_of_long_sequences_are_spread_over_programs(
    heads: int, chunks: int, split: bool, apart: bool
) -> None:
    for depth in (1, 2):
        launch, *others = triton_launch.candidates(triton_launch.Problem(depth, heads, chunks, 16, 64))
        assert (launch.split, launch.apart) == (split, apart)
        assert len({launch, *others}) == 3


def plan(steps: int, depth: int = 1, **changes: Any) -> triton_launch.Plan:
    q = torch.empty(1, dtype=changes.pop("dtype", torch.float32)).expand(2, steps, 3, 20)
    with triton_launch.forced(Launch(**changes)):
        return triton_launch.plan(q, depth, depth * 32 * 32, chunk_size=16, offset=5)


def test_a_plan_has_the_sizes_of_the_call() -> None:
    found = plan(steps=100)
    assert (found.heads, found.segments, found.lanes, found.width, found.hidden) == (6, 7, 16, 32, 32)
    assert (found.group, found.groups) == (7, 1)
    assert plan(steps=1000).group == 8  # a power of two near the root of 63
    assert plan(steps=1000, group=3).groups == 21
    assert plan(steps=3).lanes == 16
    assert plan(steps=100, dtype=torch.bfloat16).stored == torch.bfloat16
    assert plan(steps=100, dtype=torch.float16).stored == torch.float32


@pytest.mark.parametrize(("rows", "blocks"), [(16, (2, 16)), (32, (1, 32)), (64, (1, 32))])
def test_only_a_linear_memory_is_cut_into_blocks_of_rows(rows: int, blocks: tuple[int, int]) -> None:
    assert plan(100).blocks(rows) == blocks
    assert plan(100, depth=2).blocks(rows) == (1, 32)


@pytest.mark.parametrize("scratch", [1, 3000, 1 << 20])
def test_the_phases_take_every_segment_once_from_the_last_to_the_first(
    scratch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_launch, "SCRATCH", scratch)
    found = plan(steps=150, group=2, apart=True)
    slots = found.slots(10)
    taken: dict[str, list[int]] = {}
    for phase, begin, end, part in found.phases(slots):
        assert begin % found.group == 0
        assert end - begin <= slots
        assert part == {"states": 2, "before": 1, "reverse_scan": slots, "after": 1}[phase]
        taken.setdefault(phase, []).extend(reversed(range(begin, end)))
    assert list(taken) == ["states", "before", "reverse_scan", "after"]
    assert all(segments == list(reversed(range(found.segments))) for segments in taken.values())
    assert list(plan(steps=150, group=2).phases(slots)) == [("all", 0, found.segments, 2)]


def test_a_forced_launch_ends_with_its_block() -> None:
    first, second = Launch(block=16), Launch(block=32)
    with triton_launch.forced(first):
        with triton_launch.forced(second):
            assert plan_of_now() == second
        assert plan_of_now() == first
    assert plan_of_now() not in (first, second)


def plan_of_now() -> triton_launch.Launch:
    return triton_launch.plan(torch.empty(1, 20, 1, 16), 1, 256, 16, 0).launch


def test_kernels_are_built_for_a_gpu_that_is_not_there() -> None:
    with triton_launch.built_for(9), triton_launch.safe_products(CPU, Launch()) as options:
        assert options == {"ptx_options": "-O1"}
    with triton_launch.built_for(8), triton_launch.safe_products(CPU, Launch()) as options:
        assert options == {}
    with triton_launch.safe_products(CPU, Launch()) as options:
        assert options == {}
