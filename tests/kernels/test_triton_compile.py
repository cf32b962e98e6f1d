"""The Triton kernels built for GPUs that are not there: each default launch compiles and fits the shared memory.

A case's call is made on the CPU with every launch written down instead of made; what was written down is compiled for
the GPU named. That needs a process without triton's interpreter: this file run as a script, which reads cases as JSON
and prints what the function named on its command line finds for each.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs the package triton")

KIB = 1024
MOST = {80: 163 * KIB, 86: 99 * KIB, 90: 227 * KIB}  # by compute capability
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}


@dataclass(frozen=True)
class Case:
    """One kernel of a call's, and what decides on its code."""

    kernel: str
    depth: int
    dtype: str
    D: int
    chunk_size: int
    capability: int
    full: bool = False  # from a state in mid-chunk and towards `init`, not from the shared weights towards zero
    split: bool = False  # one pass that walks and one that answers

    def __str__(self) -> str:
        what = f"{self.kernel}-{self.depth}-{self.dtype}-{self.D}x{self.chunk_size}-sm{self.capability}"
        return what + ("-full" if self.full else "") + ("-split" if self.split else "")


# Seconds each.
SAMPLE = [
    Case("gates_forward", 1, "float32", 64, 64, 86),
    Case("gates_backward", 1, "float32", 64, 64, 86),
    Case("forward", 1, "float32", 32, 16, 86),
    Case("forward", 1, "bfloat16", 64, 64, 90),
    Case("forward", 1, "bfloat16", 128, 64, 80, full=True),
    Case("forward", 1, "float16", 64, 32, 80),
    Case("backward", 1, "float32", 16, 16, 86),
    Case("backward", 1, "bfloat16", 64, 16, 90),
    Case("backward", 1, "float16", 32, 32, 80, full=True),
    Case("backward", 1, "bfloat16", 32, 16, 86, split=True),
    Case("backward_walk", 1, "bfloat16", 64, 16, 90, split=True),
    Case("backward_walk", 1, "float32", 64, 64, 86, full=True, split=True),
    Case("forward", 2, "float32", 16, 16, 86),
    Case("forward", 2, "bfloat16", 64, 64, 90),
    Case("forward", 2, "bfloat16", 64, 64, 86, full=True),
    Case("forward", 2, "float16", 32, 16, 80),
    Case("backward", 2, "bfloat16", 32, 16, 90),
    Case("backward", 2, "float16", 16, 16, 80),
]

GRID = [
    Case(kernel, depth, dtype, D, chunk_size, capability, full)
    for capability, depth, D, chunk_size, dtype, full, kernel in product(
        MOST, (1, 2), (16, 32, 64, 128), (16, 32, 64), ("float32", "bfloat16", "float16"), (False, True),
        ("forward", "backward"),
    )
    if depth == 1 or D <= 64
]  # fmt: skip
GRID += [
    Case(kernel, 1, dtype, D, chunk_size, capability, full, split=True)
    for capability, D, chunk_size, dtype, full, kernel in product(
        MOST, (16, 32, 64, 128), (16, 32, 64), ("float32", "bfloat16", "float16"), (False, True),
        ("backward", "backward_walk"),
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Any]:
    return apart("shared_memory", SAMPLE, tmp_path_factory.mktemp("sample"))


# 16 of the public reports: out of shared memory on consumer cards.
@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_fits_the_shared_memory(case: Case, sample: dict[Case, Any]) -> None:
    used = sample[case]
    assert isinstance(used, int), used
    assert used <= MOST[case.capability]


@pytest.mark.slow
@pytest.mark.parametrize("capability", sorted(MOST))
def test_the_whole_domain_fits_the_shared_memory(capability: int, tmp_path: Path) -> None:
    from titans_ts.kernels import triton_scan

    def refused(case: Case) -> bool:
        return case.D > triton_scan.WIDE and triton_scan.SHARED_MEMORY[getattr(torch, case.dtype)] > MOST[capability]

    cases = [case for case in GRID if case.capability == capability and not refused(case)]
    used = apart("shared_memory", cases, tmp_path)
    assert {str(case): x for case, x in used.items() if isinstance(x, str) or x > MOST[capability]} == {}


# 12: a compilation per length.
def test_ten_lengths_compile_once(tmp_path: Path) -> None:
    cases = [Case("all", depth, "float32", 16, 16, 90, full) for depth in (1, 2) for full in (False, True)]
    once = dict.fromkeys(("gates_forward", "forward", "backward", "gates_backward"), 1)
    split = Case("all", 1, "float32", 16, 16, 90, split=True)
    expected = dict.fromkeys(cases, once) | {split: once | {"forward": 2, "backward_walk": 1}}
    assert apart("compilations", [*cases, split], tmp_path) == expected


def apart(function: str, cases: list[Case], cache: Path) -> dict[Case, Any]:
    """What a function below finds for each case in a process without the interpreter."""
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    # The assembler's optimiser takes half of the time and none of the shared memory.
    environment |= {"TRITON_CACHE_DIR": str(cache), "DISABLE_PTXAS_OPT": "1"}
    done = subprocess.run(
        [sys.executable, __file__, function],
        input=json.dumps([asdict(case) for case in cases]),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, json.loads(done.stdout), strict=True))


def main() -> None:
    function = {"shared_memory": shared_memory, "compilations": compilations}[sys.argv[1]]
    cases = [Case(**fields) for fields in json.load(sys.stdin)]
    workers = min(len(cases), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        print(json.dumps(list(pool.map(function, cases))))


def shared_memory(case: Case) -> int | str:
    """In bytes, or what stopped the compilation."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    try:
        (function, signature, constants, attributes, options), *_ = (
            launch for launch in launches(case, 4 * case.chunk_size) if launch[0].fn.__name__ == case.kernel
        )
        source = ASTSource(function, signature, constexprs=constants, attrs=attributes)
        built = triton.compile(source, target=GPUTarget("cuda", case.capability, 32), options=options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return int(built.metadata.shared)


def compilations(case: Case) -> dict[str, int]:
    """How many different kernels of each name calls of ten lengths launch."""
    found: dict[str, set[str]] = {}
    for T in range(33, 93, 6):
        for function, *specialised in launches(case, T):
            found.setdefault(function.fn.__name__, set()).add(repr(specialised))
    return {name: len(different) for name, different in found.items()}


def launches(case: Case, T: int) -> list[tuple[Any, ...]]:
    """What a call launches forward and backward: functions, signatures, constants, attributes, options."""
    from triton.runtime.jit import JITFunction

    from titans_ts.kernels import MemoryState, triton_scan

    B, H, D, offset = 2, 2, case.D, case.chunk_size // 2

    def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, requires_grad=True)

    q, k, v = (leaf(B, T, H, D, dtype=getattr(torch, case.dtype)) for _ in range(3))
    gates = [leaf(B, T, H) for _ in range(3)]
    weights = tuple(leaf(H, D, D) for _ in range(case.depth))
    state = None
    if case.full:
        groups = [tuple(leaf(B, H, D, D) for _ in range(case.depth)) for _ in range(3)]
        state = MemoryState(weights=groups[0], momentum=groups[1], chunk_start=groups[2], offset=offset)

    written: list[tuple[Any, ...]] = []
    JITFunction.run = lambda self, *args, **named: written.append(launch(self, *args, **named))
    decay_to = "init" if case.full else "zero"
    width = triton_scan.lanes_for(D)
    problem = triton_scan.Problem(case.depth, B * H, 1, triton_scan.lanes_for(min(case.chunk_size, T)), width)
    chosen, *_ = triton_scan.candidates(problem)
    with triton_scan.forced(replace(chosen, split=True, group=1) if case.split else chosen):
        y, after = triton_scan.scan(q, k, v, *gates, weights, case.chunk_size, state, decay_to, case.full)
        total = y.float().sum()
        if after is not None:
            total = total + torch.stack([x.sum() for x in (*after.weights, *after.momentum, *after.chunk_start)]).sum()
        total.backward()
    return written


def launch(
    function: Any,
    *args: Any,
    grid: Any,
    warmup: bool,
    num_warps: int = 4,
    num_stages: int = 3,
    maxnreg: int | None = None,
    **named: Any,
) -> tuple[Any, ...]:
    """As triton specialises: None and 1 are constants, and what is divisible by 16 is known to be."""
    values = dict(zip(function.arg_names, args, strict=False)) | named
    signature, constants, attributes = {}, {}, {}
    for i, parameter in enumerate(function.params):
        name, x = parameter.name, values[parameter.name]
        free = parameter.do_not_specialize
        if parameter.is_constexpr or x is None or (not free and not isinstance(x, torch.Tensor) and x == 1):
            signature[name], constants[(i,)] = "constexpr", x
            continue
        if isinstance(x, torch.Tensor):
            signature[name], divisible = POINTERS[x.dtype], x.data_ptr() % 16 == 0
        else:
            signature[name], divisible = "i32", not free and x % 16 == 0
        if divisible:
            attributes[(i,)] = [["tt.divisibility", 16]]
    options = {"num_warps": num_warps, "num_stages": num_stages, "maxnreg": maxnreg}
    return function, signature, constants, attributes, options


if __name__ == "__main__":
    main()
