"""What gates per chunk save beside gates per token: `python experiments/speed/held_gates.py`.

Median milliseconds of `memory_scan` and of the whole layer, forward alone and with its backward pass, for one long
stream and for a batch of windows. All rows take turns, so that a busy moment of the machine spreads over all of them;
"x ours" is per token over per chunk.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import medians, milliseconds
from record import RESULTS
from speed.report import Report, Row
from titans_ts.kernels import memory_scan
from titans_ts.model import ModelConfig, NeuralMemory

PACKAGES = ("titans-ts", "torch")
HEADS, HEAD_DIM = 4, 32
SHAPES = {"stream": (1, 4096), "windows": (32, 128)}  # batch and steps
CHUNK_SIZES, DEPTHS = (16, 32, 64), (1, 2)
GATES = ("chunk", "token")

Passes = tuple[Callable[[], object], Callable[[], object]]


class Case(NamedTuple):
    """What is timed with gates per chunk and per token."""

    shape: str
    depth: int
    chunk_size: int
    what: str  # "scan" or "layer"

    def __str__(self) -> str:
        return f"{self.shape}, depth {self.depth}, chunk {self.chunk_size}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="rounds measured after one of warm-up (default 15)")
    parser.add_argument("--threads", type=int, default=1, help="one (the default) repeats well on a busy machine")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if min(args.repeats, args.threads) < 1:
        parser.error("--repeats and --threads must be at least 1")

    torch.set_num_threads(args.threads)
    report = Report(args.out / "held_gates.csv", PACKAGES, args.threads)
    for case, row in measure(args.repeats):
        report.add(str(case), row)
    print(f"rows appended to {report.path}")


def measure(repeats: int) -> Iterator[tuple[Case, Row]]:
    cases = [Case(*c) for c in product(SHAPES, DEPTHS, CHUNK_SIZES, ("scan", "layer"))]
    passes = [step for case in cases for gates in GATES for step in passes_of(case, gates)]
    times = iter(medians([partial(milliseconds, step) for step in passes], repeats))
    for case in cases:
        ours, theirs = ((next(times), next(times)) for _ in GATES)
        for name, mine, other in zip(("forward", "forward and backward"), ours, theirs, strict=True):
            yield case, Row(f"{case.what}, {name}, per chunk", mine, "ms", 1.0)
            yield case, Row(f"{case.what}, {name}, per token", other, "ms", other / mine)


def passes_of(case: Case, gates: str) -> Passes:
    """The forward pass without gradients, and the forward pass with the backward one."""
    return scan_of(case, gates) if case.what == "scan" else layer_of(case, gates)


def scan_of(case: Case, gates: str) -> Passes:
    batch, steps = SHAPES[case.shape]
    generator = torch.Generator().manual_seed(0)
    q, k, v = normalize(torch.randn(3, batch, steps, HEADS, HEAD_DIM, generator=generator), dim=-1)
    alpha, eta, theta = torch.rand(3, batch, steps, HEADS, generator=generator) * torch.tensor(
        [0.02, 1, 0.5 / case.chunk_size]
    ).view(3, 1, 1, 1)
    if gates == "chunk":
        alpha, eta = alpha[:, :: case.chunk_size].contiguous(), eta[:, :: case.chunk_size].contiguous()
    matrices = torch.randn(case.depth, HEADS, HEAD_DIM, HEAD_DIM, generator=generator) * HEAD_DIM**-0.5
    leaves = [x.requires_grad_() for x in (q, k, v, alpha, eta, theta, *matrices)]
    decay_to = "zero" if case.depth == 1 else "init"  # as in the layer
    scan = partial(memory_scan, chunk_size=case.chunk_size, decay_to=decay_to, gates=gates, backend="chunkwise")
    return _passes(lambda: scan(*leaves[:6], tuple(leaves[6:])), leaves)


def layer_of(case: Case, gates: str) -> Passes:
    batch, steps = SHAPES[case.shape]
    torch.manual_seed(0)
    layer = NeuralMemory(
        ModelConfig(
            lookback=96,
            horizon=24,
            d_model=HEADS * HEAD_DIM,
            n_heads=HEADS,
            chunk_size=case.chunk_size,
            memory_depth=case.depth,
            memory_gates=gates,
        )
    )
    x = torch.randn(batch, steps, HEADS * HEAD_DIM).requires_grad_()
    return _passes(lambda: layer(x), [x, *layer.parameters()])


def _passes(run: Callable[[], Tensor], leaves: list[Tensor]) -> Passes:
    return torch.no_grad()(run), lambda: torch.autograd.grad(run().square().mean(), leaves)


if __name__ == "__main__":
    main()
