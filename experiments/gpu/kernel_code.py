"""What the Triton kernels are compiled to, without a GPU: `python experiments/gpu/kernel_code.py`.

For each shape that `gpu_check.py` times, in bfloat16, and each launch that the kernels may take for it, by kernel:
registers of a thread, bytes of its stack and of shared memory, and of the loops with products, or of the whole where
there is none, how many instructions, how many of them are products and how many move values between registers and the
stack. A value on the stack costs time; where all programs' stacks outgrow the caches, much. Seconds are not predicted.

Rows go to results/kernel_code.csv.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from gpu.common import SEQUENCES, Problem, Setup, launched, launches, make, shapes, timed
from gpu.compiled import Launched, built, code, recorded
from record import RESULTS

COLUMNS = (
    *("shape", "launch", "kernel", "registers", "stack", "shared"),
    *("instructions", "products", "spills", "capability", "triton"),
)
SETUP = Setup(device=torch.device("cpu"))


@functools.cache
def jobs(which: tuple[str, ...], chunks: tuple[int, ...]) -> list[tuple[str, str, Launched]]:
    """Shape, launch and kernel, each code once; of shapes as many sequences and steps as decide on the code."""
    found: dict[str, tuple[str, str, Launched]] = {}
    for shape, depth, chunk in product(which, (1, 2), chunks):
        problem = replace(timed(SETUP, shape, depth, chunk), dtype=torch.bfloat16)
        label = f"{shape}, {'linear' if depth == 1 else 'deep'} C{chunk}"
        small = replace(problem, batch=1, heads=2, steps=min(problem.steps, 4 * chunk))
        for launch in launches(problem, "triton"):
            several = problem.steps > small.steps  # groups of segments
            for kernel in recorded(partial(_call, small, replace(launch, group=1) if several else launch)):
                found.setdefault(f"{label} {kernel.name} {kernel.specialised}", (label, f"{launch}", kernel))
    return list(found.values())


def _call(problem: Problem, launch: Any) -> None:
    """Both passes, from a fresh memory."""
    from titans_ts.kernels import triton_scan

    x = make(problem, SETUP.device, extremes=False)
    leaves = {n: value.requires_grad_() for n, value in x.items() if not n.startswith("cotangent.")}
    q, k, v, alpha, eta, theta = (leaves[name] for name in SEQUENCES)
    weights = tuple(leaves[f"weights.{i}"] for i in range(problem.depth))
    with launched(launch):
        y, _ = triton_scan.scan(
            *(q, k, v, alpha, eta, theta), weights, problem.chunk_size, None, problem.decay_to, return_state=False
        )
        torch.autograd.grad(y, list(leaves.values()), x["cotangent.y"], allow_unused=True)


def _row(which: tuple[str, ...], chunks: tuple[int, ...], capability: int, number: int) -> dict[str, Any]:
    import triton

    shape, launch, kernel = jobs(which, chunks)[number]
    found = code(built(kernel, capability))._asdict()
    stamp = dict(capability=capability, triton=triton.__version__)
    return dict(shape=shape, launch=launch, kernel=kernel.name, **found, **stamp)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    known = list(shapes(SETUP))
    parser.add_argument("--shapes", nargs="+", choices=known, default=known)
    parser.add_argument("--chunks", nargs="+", type=int, choices=(16, 64), default=[16, 64])
    parser.add_argument("--capability", type=int, default=90, help="such as 80, 86, 90 (default 90, Hopper)")
    parser.add_argument("--out", type=Path, default=RESULTS / "kernel_code.csv")
    args = parser.parse_args(argv)
    if os.environ.get("TRITON_INTERPRET"):
        parser.error("TRITON_INTERPRET is set, with which triton compiles nothing; unset it.")

    which = tuple(args.shapes), tuple(args.chunks)
    numbers = range(len(jobs(*which)))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        rows = list(pool.map(partial(_row, *which, args.capability), numbers))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for before, row in pairwise([{"shape": "", "launch": ""}, *rows]):
        if (before["shape"], before["launch"]) != (row["shape"], row["launch"]):
            print(f"\n{row['shape']}, {row['launch']}")
            print(f"{'':<18}" + "".join(f"{column:>13}" for column in COLUMNS[3:9]))
        print(f"{row['kernel']:<18}" + "".join(f"{row[column]:>13}" for column in COLUMNS[3:9]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
