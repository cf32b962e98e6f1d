"""Tokens a second of training by length, of the blocks that `speed/throughput.py` times on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import torch

from gpu.common import Case, Row, Setup, where_it_fits
from gpu.speed import milliseconds
from speed.sequences import KINDS, block_of, training_pass
from titans_ts.model import NeuralMemory

LENGTHS, TOKENS = (2048, 4096, 8192, 16_384, 32_768), 65_536  # of a sequence; of a batch
SHAPE = dict(d_model=1024, n_heads=16, chunk_size=64, attention_window=512)
SMALL = dict(d_model=32, n_heads=2, chunk_size=16, attention_window=16)
ONCE = 250  # milliseconds beyond which a pass is not repeated


def throughput(setup: Setup) -> Iterator[Case]:
    """Forward and backward of one block under autocast, as many tokens at every length."""
    lengths, tokens = ((32, 64), 64) if setup.smoke else (LENGTHS, TOKENS)
    for steps, kind in product(lengths, KINDS):
        name = f"{kind}, {tokens // steps} x {steps} tokens, both passes"
        yield Case(name, partial(where_it_fits, name, partial(_timed, setup, name, kind, tokens // steps, steps)))


def _timed(setup: Setup, name: str, kind: str, batch: int, steps: int) -> list[Row]:
    torch.manual_seed(0)
    block = block_of(kind, **(SMALL if setup.smoke else SHAPE)).to(setup.device)
    for module in block.modules():
        if isinstance(module, NeuralMemory):
            module.backend = setup.backend
    run = training_pass(block, batch, steps, autocast=None if setup.interpreted else torch.bfloat16)
    _once(setup, run)  # compiles
    first = _once(setup, run)
    found = first if first > ONCE else milliseconds(setup, run)
    note = f"{found:.1f} ms{', one pass' if first > ONCE else ''}"
    return [Row(name, batch * steps / found / 1e3, "M tokens/s", note=note)]


def _once(setup: Setup, run: Callable[[], None]) -> float:
    begun = time.perf_counter()
    run()
    if setup.device.type == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begun)
