"""The Triton kernels built for GPUs that are not there: each default launch compiles and fits the shared memory.

What a call would launch is noted by experiments/gpu/compiled.py and compiled for the GPU named. That needs a
process without triton's interpreter: this file run as a script, which reads cases as JSON and prints what the function
named on its command line finds for each.
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
EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PHASES = ("states", "before", "reverse_scan", "after")


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
    split: bool = False  # the forward in two passes, and the backward's phases apart

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
    Case("forward", 1, "bfloat16", 64, 64, 90, split=True),
    Case("readout", 1, "bfloat16", 128, 64, 80, full=True, split=True),
    Case("backward all", 1, "float32", 16, 16, 86),
    Case("backward all", 1, "float16", 16, 16, 80, full=True),
    *(Case(f"backward {phase}", 1, "bfloat16", 64, 16, 90, split=True) for phase in PHASES),
    Case("backward reverse_scan", 1, "float32", 64, 64, 86, full=True, split=True),
    Case("forward", 2, "bfloat16", 64, 64, 90),
    Case("forward", 2, "bfloat16", 64, 64, 86, full=True),
    Case("readout", 2, "bfloat16", 64, 64, 86, full=True, split=True),
    Case("backward all", 2, "bfloat16", 16, 16, 90),
    *(Case(f"backward {phase}", 2, "bfloat16", 64, 16, 90, split=True) for phase in PHASES),
    Case("convolve_forward", 1, "bfloat16", 64, 64, 90),
    Case("convolve_backward", 1, "float32", 256, 64, 86),
]

GRID = [
    Case(kernel, depth, dtype, D, chunk_size, capability, full, kernel not in ("forward", "backward all"))
    for capability, depth, D, chunk_size, dtype, full, kernel in product(
        MOST, (1, 2), (16, 32, 64, 128), (16, 32, 64), ("float32", "bfloat16", "float16"), (False, True),
        ("forward", "readout", "backward all", *(f"backward {phase}" for phase in PHASES)),
    )
    if depth == 1 or D <= 64
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
    from titans_ts.kernels import triton_launch

    def refused(case: Case) -> bool:
        return triton_launch.shared_memory(case.depth, case.D, getattr(torch, case.dtype)) > MOST[capability]

    cases = [case for case in GRID if case.capability == capability and not refused(case)]
    used = apart("shared_memory", cases, tmp_path)
    assert {str(case): x for case, x in used.items() if isinstance(x, str) or x > MOST[capability]} == {}


# 12: a compilation per length.
def test_ten_lengths_compile_once(tmp_path: Path) -> None:
    cases = [Case("all", depth, "float32", 16, 16, 90, full) for depth in (1, 2) for full in (False, True)]
    gates = ("gates_forward", "gates_backward")
    expected = dict.fromkeys(cases, dict.fromkeys((*gates, "forward", "backward all"), 1))
    phases = dict.fromkeys((*gates, "forward", "readout", *(f"backward {phase}" for phase in PHASES)), 1)
    expected |= {Case("all", depth, "float32", 16, 16, 90, split=True): phases for depth in (1, 2)}
    expected[Case("convolve", 1, "float32", 16, 16, 90)] = dict.fromkeys(
        ("convolve_forward", "convolve_backward", "convolve_back"), 1
    )
    assert apart("compilations", list(expected), tmp_path) == expected


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
    from gpu.compiled import built

    try:
        kernel = next(kernel for kernel in launches(case, 4 * case.chunk_size) if kernel.name == case.kernel)
        kernel = replace(kernel, options=kernel.options | {"ptx_options": None})  # which is the assembler's optimiser's
        return int(built(kernel, case.capability).metadata.shared)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def compilations(case: Case) -> dict[str, int]:
    """How many different kernels of each name calls of ten lengths launch."""
    found: dict[str, set[str]] = {}
    for T in range(33, 93, 6):
        for kernel in launches(case, T):
            found.setdefault(kernel.name, set()).add(kernel.specialised)
    return {name: len(different) for name, different in found.items()}


def launches(case: Case, T: int) -> list[Any]:
    """What a call launches forward and backward."""
    from gpu.compiled import recorded
    from titans_ts.kernels import MemoryState, triton_convolution, triton_launch, triton_scan

    B, H, D, offset = 2, 2, case.D, case.chunk_size // 2

    def leaf(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, requires_grad=True)

    if case.kernel.startswith("convolve"):
        x, weight, bias = leaf(B, T, 3 * H * D, dtype=getattr(torch, case.dtype)), leaf(4, 3 * H * D), leaf(3 * H * D)

        def convolved() -> None:
            torch.stack(triton_convolution.convolve(x, weight, bias, H, T % 4, 1e-6)).sum().backward()

        return list(recorded(convolved, case.capability // 10))

    q, k, v = (leaf(B, T, H, D, dtype=getattr(torch, case.dtype)) for _ in range(3))
    gates = [leaf(B, T, H) for _ in range(3)]
    weights = tuple(leaf(H, D, D) for _ in range(case.depth))
    state = None
    if case.full:
        groups = [tuple(leaf(B, H, D, D) for _ in range(case.depth)) for _ in range(3)]
        state = MemoryState(weights=groups[0], momentum=groups[1], chunk_start=groups[2], offset=offset)
    decay_to = "init" if case.full else "zero"
    width = triton_launch.lanes_for(D)
    problem = triton_launch.Problem(case.depth, B * H, 1, triton_launch.lanes_for(min(case.chunk_size, T)), width)
    chosen, *_ = triton_launch.candidates(problem)

    def both() -> None:
        y, after = triton_scan.scan(q, k, v, *gates, weights, case.chunk_size, state, decay_to, case.full)
        total = y.float().sum()
        if after is not None:
            total = total + torch.stack([x.sum() for x in (*after.weights, *after.momentum, *after.chunk_start)]).sum()
        total.backward()

    with triton_launch.forced(replace(chosen, split=True, apart=True, group=1) if case.split else chosen):
        return list(recorded(both, case.capability // 10))


if __name__ == "__main__":
    sys.path.insert(0, str(EXPERIMENTS))
    main()
