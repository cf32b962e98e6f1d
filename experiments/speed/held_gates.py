"""What gates per chunk save beside gates per token: `python experiments/speed/held_gates.py`.

Median milliseconds of processor time of `memory_scan` and of the whole layer, forward alone and with its backward pass,
for one long stream and for a batch of windows. All rows take turns, and processor time leaves out what other programs
take, so that a busy moment of the machine does little harm; "x ours" is per token over per chunk. `--table` prints what
RESULTS.md has of the rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from measure import medians
from speed.report import Report, Row
from titans_ts.kernels import memory_scan
from titans_ts.model import ModelConfig, NeuralMemory

PACKAGES = ("titans-ts", "torch")
HEADS, HEAD_DIM = 4, 32
SHAPES = {"stream": (1, 4096), "windows": (32, 128)}  # batch and steps
CHUNK_SIZES, DEPTHS = (16, 32, 64), (1, 2)
WHAT, PASSES, GATES = ("scan", "layer"), ("forward", "both"), ("chunk", "token")

Passes = tuple[Callable[[], object], Callable[[], object]]


class Case(NamedTuple):
    """What is timed with gates per chunk and per token."""

    shape: str
    depth: int
    chunk_size: int
    what: str

    def __str__(self) -> str:
        return f"{self.shape}, {self.depth}, {self.chunk_size}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15, help="rounds measured after one of warm-up (default 15)")
    parser.add_argument("--threads", type=int, default=1, help="one (the default) repeats well on a busy machine")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV")
    parser.add_argument("--table", action="store_true", help="print the table of the rows there are, and stop")
    args = parser.parse_args(argv)
    if min(args.repeats, args.threads) < 1:
        parser.error("--repeats and --threads must be at least 1")

    path = args.out / "held_gates.csv"
    if not args.table:
        torch.set_num_threads(args.threads)
        report = Report(path, PACKAGES, args.threads)
        for case, row in measure(args.repeats):
            report.add(str(case), row)
        print(f"rows appended to {path}")
    print("\n".join(table(record.read(path))))


def measure(repeats: int) -> Iterator[tuple[Case, Row]]:
    cases = [Case(*c) for c in product(SHAPES, DEPTHS, CHUNK_SIZES, WHAT)]
    runs = [run for case in cases for gates in GATES for run in passes_of(case, gates)]
    times = iter(medians([partial(_processor_milliseconds, run) for run in runs], repeats))
    for case in cases:
        held, free = ([next(times) for _ in PASSES] for _ in GATES)
        for name, ours, other in zip(PASSES, held, free, strict=True):
            yield case, Row(f"{case.what}, {name}, per chunk", ours, "ms", 1.0)
            yield case, Row(f"{case.what}, {name}, per token", other, "ms", other / ours)


def table(rows: Iterable[dict[str, str]]) -> list[str]:
    """Milliseconds by gates per chunk, and how many times as long gates per token take; of the last run."""
    last = {(row["benchmark"], row["name"]): row for row in rows}
    lines = [
        "| shape, depth, chunk | scan, forward | scan, both | layer, forward | layer, both |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(benchmark for benchmark, _ in last):
        cells = []
        for what, one in product(WHAT, PASSES):
            held, free = (last[name, f"{what}, {one}, per {gates}"] for gates in GATES)
            cells.append(f"{float(held['value']):.1f} ({float(free['ratio']):.2f})")
        lines.append(f"| {' | '.join([name, *cells])} |")
    return lines


def passes_of(case: Case, gates: str) -> Passes:
    """The forward pass without gradients, and the forward pass with the backward one."""
    batch, steps = SHAPES[case.shape]
    if case.what == "scan":
        return scan_of(case, batch, steps, gates)
    return layer_of(case, batch, steps, gates)


def scan_of(case: Case, batch: int, steps: int, gates: str) -> Passes:
    generator = torch.Generator().manual_seed(0)
    q, k, v = normalize(torch.randn(3, batch, steps, HEADS, HEAD_DIM, generator=generator), dim=-1)
    alpha, eta, theta = torch.rand(3, batch, steps, HEADS, generator=generator)
    alpha, theta = 0.02 * alpha, 0.5 / case.chunk_size * theta
    if gates == "chunk":
        alpha, eta = (gate[:, :: case.chunk_size].contiguous() for gate in (alpha, eta))
    matrices = torch.randn(case.depth, HEADS, HEAD_DIM, HEAD_DIM, generator=generator) * HEAD_DIM**-0.5
    leaves = [x.requires_grad_() for x in (q, k, v, alpha, eta, theta, *matrices)]
    decay_to = "zero" if case.depth == 1 else "init"  # as in the layer
    scan = partial(memory_scan, chunk_size=case.chunk_size, decay_to=decay_to, gates=gates, backend="chunkwise")
    return _passes(lambda: scan(*leaves[:6], tuple(leaves[6:])), leaves)


def layer_of(case: Case, batch: int, steps: int, gates: str) -> Passes:
    torch.manual_seed(0)
    config = ModelConfig(
        lookback=96,
        horizon=24,
        d_model=HEADS * HEAD_DIM,
        n_heads=HEADS,
        chunk_size=case.chunk_size,
        memory_depth=case.depth,
        memory_gates=gates,
    )
    layer = NeuralMemory(config)
    x = torch.randn(batch, steps, config.d_model).requires_grad_()
    return _passes(lambda: layer(x), [x, *layer.parameters()])


def _passes(run: Callable[[], Tensor], leaves: list[Tensor]) -> Passes:
    return torch.no_grad()(run), lambda: torch.autograd.grad(run().square().mean(), leaves)


def _processor_milliseconds(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return 1e3 * (time.process_time() - begun)


if __name__ == "__main__":
    main()
