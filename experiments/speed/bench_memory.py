"""Time the memory on this machine: `python experiments/speed/bench_memory.py`.

Prints the median milliseconds of `memory_scan`, forward alone and with its backward pass. The rows take turns, so that
a busy moment spreads over all of them.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch.nn.functional import normalize

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import medians, milliseconds
from record import device_name
from titans_ts.kernels import memory_scan

HEADS, HEAD_DIM, CHUNK_SIZE = 4, 32, 16


class Case(NamedTuple):
    name: str
    backend: str
    batch: int
    steps: int
    depth: int


# A batch of forecasts has 32 windows of 7 channels, each of 16 patches; a stream is one series read for long.
CASES = [
    Case("forecasts, linear", "chunkwise", batch=224, steps=16, depth=1),
    Case("forecasts, deep", "chunkwise", batch=224, steps=16, depth=2),
    Case("stream, linear", "chunkwise", batch=1, steps=4096, depth=1),
    Case("stream, deep", "chunkwise", batch=1, steps=4096, depth=2),
    Case("short stream, deep", "chunkwise", batch=1, steps=64, depth=2),
    Case("short stream, deep", "reference", batch=1, steps=64, depth=2),
]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Time the memory on this machine.")
    parser.add_argument("--repeats", type=int, default=5, help="rounds measured after one of warm-up (default 5)")
    parser.add_argument("--threads", type=int, default=1, help="one (the default) repeats well on a busy machine")
    given = parser.parse_args(argv)
    if min(given.repeats, given.threads) < 1:
        parser.error("--repeats and --threads must be at least 1")
    torch.set_num_threads(given.threads)

    print(f"{device_name()}, threads: {given.threads}, torch {torch.__version__}")
    passes = [step for case in CASES for step in passes_of(case)]
    times = medians([partial(milliseconds, step) for step in passes], given.repeats)

    print(f"{'':20}{'backend':>11}{'batch':>6}{'steps':>6}{'depth':>7}{'forward':>10}{'+ backward':>12}")
    for case, forward, both in zip(CASES, times[::2], times[1::2], strict=True):
        print(f"{case.name:20}{case.backend:>11}{case.batch:6}{case.steps:6}{case.depth:7}{forward:10.1f}{both:12.1f}")
    print(f"Milliseconds, the median of {given.repeats}; {HEADS} heads of {HEAD_DIM}, chunks of {CHUNK_SIZE}, float32.")


def passes_of(case: Case) -> tuple[Callable[[], None], Callable[[], None]]:
    """The forward pass without gradients, and the forward pass with the backward one."""
    generator = torch.Generator().manual_seed(0)
    tokens = (case.batch, case.steps, HEADS)
    vectors = normalize(torch.randn(3, *tokens, HEAD_DIM, generator=generator), dim=-1)
    gates = torch.rand(3, *tokens, generator=generator) * torch.tensor([0.02, 1, 0.02]).view(3, 1, 1, 1)
    matrices = torch.randn(case.depth, HEADS, HEAD_DIM, HEAD_DIM, generator=generator) * HEAD_DIM**-0.5
    leaves = [x.requires_grad_() for x in (*vectors, *gates, *matrices)]
    q, k, v, alpha, eta, theta, *weights = leaves

    def scan() -> torch.Tensor:
        return memory_scan(q, k, v, alpha, eta, theta, tuple(weights), chunk_size=CHUNK_SIZE, backend=case.backend)

    @torch.no_grad()
    def forward() -> None:
        scan()

    def both() -> None:
        torch.autograd.grad(scan().square().mean(), leaves)

    return forward, both


if __name__ == "__main__":
    main()
