"""The GPU measurements: speed and memory beside other packages, by length, over origins, and of an epoch."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gpu.common import (
    DECAYS,
    Case,
    Problem,
    Row,
    Setup,
    Tensors,
    convolved,
    first_line,
    launched,
    launches,
    layer_of,
    make,
    plain_of,
    scan,
    shapes,
    timed,
    verdict,
    where_it_fits,
)
from gpu.peers import layers, peers, shorten_autotuning
from titans_ts.model import ModelConfig, NeuralMemory
from titans_ts.tables.read import read_table
from titans_ts.training.closed_form import initialised_network
from titans_ts.training.config import TrainConfig
from titans_ts.training.loop import fit_network
from titans_ts.windows.scaler import Scaler
from titans_ts.windows.windows import Windows, on_device

ROUNDS = 3  # in which what is compared takes turns
LENGTHS = (4096, 16_384, 65_536, 262_144)
ORIGINS, ORIGIN_BATCHES = (1000, 5000, 20_000, 50_000), (7, 21)
LENGTH_TARGET, MEMORY_TARGET, LAYER_TARGET = 0.85, 4.0, 20.0
LOOKBACK, HORIZON, DAY = 512, 96, 96
ETTM1 = dict(rows=69_680, channels=7, train=34_560, end=46_080)


def speed(setup: Setup) -> Iterator[Case]:
    """Forward, and forward with backward, beside other packages' kernels; then layer beside layer."""
    ceilings: list[float] = []
    yield Case("ceilings", partial(_ceilings, setup, ceilings))
    for shape, depth, chunk in product(shapes(setup), (1, 2), (16, 64)):
        problem = timed(setup, shape, depth, chunk)
        for backward in (False, True):
            name = f"{shape}, {'linear' if depth == 1 else 'deep'} C{chunk}, {'both passes' if backward else 'forward'}"
            run = partial(_compared, setup, name, problem, backward, ceilings)
            yield Case(name, partial(where_it_fits, name, run))
    for shape in shapes(setup):
        name = f"convolution, {shape}, both passes"
        yield Case(name, partial(where_it_fits, name, partial(_convolution_timed, setup, name, shape)))
    for chunk in (64, 16):
        name = f"layer C{chunk}, both passes"
        yield Case(name, partial(where_it_fits, name, partial(_layers_timed, setup, name, chunk)))


def _ceilings(setup: Setup, found: list[float]) -> list[Row]:
    """Operations and bytes a second of a large product and a large copy; a copied byte is read and written."""
    n = 256 if setup.smoke else 8192
    a, b = (torch.randn(n, n, device=setup.device, dtype=torch.bfloat16) for _ in range(2))
    rate = 2 * n**3 / (1e-3 * milliseconds(setup, lambda: a @ b))
    source = torch.randn(2**22 if setup.smoke else 2**30, device=setup.device)
    target = torch.empty_like(source)
    bandwidth = 2 * source.numel() * 4 / (1e-3 * milliseconds(setup, lambda: target.copy_(source)))
    found[:] = rate, bandwidth
    return [
        Row(f"{n}^3 bfloat16 product", rate / 1e12, "TFLOP/s"),
        Row("copy, bytes read and written", bandwidth / 1e12, "TB/s"),
    ]


def operations(problem: Problem, backward: bool) -> float:
    """Floating-point operations of a token's and head's dot products.

    A layer sends keys through C, errors back through the C of all layers but the first, queries through W, S and,
    where forgetting leads there, W_0; Q X^T and its product with E are n wide, the gates' table is n x n x n a chunk;
    the writes of W and of S are one product each. Every dot product has two in the backward, which also has to
    recompute; that is not counted.
    """
    n, width = min(problem.chunk_size, problem.steps), problem.head_dim
    to_init = problem.decay_to == "init"
    total = 2.0 * n * n
    for layer in range(problem.depth):
        matrices = 1 + (layer > 0) + 2 + to_init + 2
        total += 2 * width * width * matrices + 2 * n * 2 * width
    return total * (3 if backward else 1)


def bytes_moved(problem: Problem, backward: bool) -> float:
    """The fewest bytes a token and head: q, k, v, y once, gates in float32; in the backward gradients too."""
    size, gates = problem.dtype.itemsize * problem.head_dim, 3 * 4
    return 4.0 * size + gates + ((7 * size + 2 * gates) if backward else 0)


def floor(problem: Problem, backward: bool, rate: float, bandwidth: float) -> float:
    """Seconds that no version can beat: of arithmetic or of moving bytes, whichever is longer."""
    count = problem.tokens * problem.heads
    return count * max(operations(problem, backward) / rate, bytes_moved(problem, backward) / bandwidth)


def _compared(setup: Setup, name: str, problem: Problem, backward: bool, ceilings: list[float]) -> Iterator[Row]:
    x = make(problem, setup.device, extremes=False)
    ours = our_pass(setup, problem, x, backward)
    ours()
    settings = launches(problem, setup.backend)
    for launch in settings[1:]:
        with launched(launch):
            rate = problem.tokens / (1e-3 * milliseconds(setup, ours)) / 1e6
        yield Row(name, rate, "M tokens/s", note=f"{launch}")
    alone = milliseconds(setup, ours)
    yield Row(
        name, problem.tokens / (1e-3 * alone) / 1e6, "M tokens/s", note=f"{settings[0] or setup.backend}, its choice"
    )
    if ceilings:
        share = floor(problem, backward, *ceilings) / (1e-3 * alone)
        yield Row(f"{name}: share of the floor", share, note="arithmetic at the product's rate, bytes at the copy's")
    for peer in peers(problem, x, backward):
        label = f"{name} / {peer.name}"
        try:
            theirs = a_pass(peer.call, peer.inputs, x["cotangent.y"], backward)
            theirs()
        except torch.OutOfMemoryError:
            raise
        except ImportError as failure:
            yield Row(label, note=f"absent: {first_line(failure)}")
            continue
        except Exception as failure:
            yield Row(label, note=f"refused: {first_line(failure)}")
            continue
        mine, other = in_turns(setup, ours, theirs)
        target = None if setup.smoke else peer.target
        yield ratio_row(label, other / mine, target, f"ours {mine:.3f} ms, theirs {other:.3f} ms")
        if setup.device.type == "cuda":
            yield _without_launching(f"{label}, replayed", ours, theirs)


def _without_launching(label: str, ours: Callable[[], None], theirs: Callable[[], None]) -> Row:
    """Both as CUDA graphs: the kernels' own time, without what Python takes to launch them."""
    from triton.testing import do_bench_cudagraph

    try:
        mine, other = (do_bench_cudagraph(run, rep=20, return_mode="median") for run in (ours, theirs))
    except torch.OutOfMemoryError:
        raise
    except Exception as failure:  # a peer that cannot be recorded
        torch.cuda.synchronize()
        return Row(label, note=f"not recorded: {first_line(failure)}")
    return ratio_row(label, other / mine, None, f"ours {mine:.3f} ms, theirs {other:.3f} ms")


def ratio_row(label: str, ratio: float, target: float | None, note: str) -> Row:
    if target is None:
        return Row(label, ratio, "x as fast", ratio=ratio, note=note)
    met = verdict(ratio >= target, "missed")
    return Row(label, ratio, "x as fast", f">= {target:g}", met, ratio, note)


def our_pass(setup: Setup, problem: Problem, x: Tensors, backward: bool) -> Callable[[], None]:
    inputs = {n: value for n, value in x.items() if not n.startswith("cotangent.")}
    return a_pass(lambda **x: scan(problem, x, setup.backend), inputs, x["cotangent.y"], backward)


def a_pass(call: Callable[..., Tensor], inputs: Tensors, cotangent: Tensor, backward: bool) -> Callable[[], None]:
    """One forward pass without gradients, or one with the gradients by every input."""
    leaves = {n: value.detach().requires_grad_() for n, value in inputs.items()}

    def forward() -> None:
        with torch.no_grad():
            call(**leaves)

    def both() -> None:
        torch.autograd.grad(call(**leaves), list(leaves.values()), cotangent, allow_unused=True)

    return both if backward else forward


def milliseconds(setup: Setup, run: Callable[[], Any]) -> float:
    """The median; on a GPU with the cache emptied between runs."""
    if setup.device.type == "cuda":
        from triton.testing import do_bench

        found: float = do_bench(run, warmup=10, rep=60, return_mode="median")
        return found
    times = []
    for _ in range(2):
        begun = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times)


def in_turns(setup: Setup, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """The median milliseconds of each; they take turns, so that a busy or hot moment spreads over both."""
    rounds = [(milliseconds(setup, ours), milliseconds(setup, theirs)) for _ in range(ROUNDS)]
    mine, other = zip(*rounds, strict=True)
    return statistics.median(mine), statistics.median(other)


def _convolution_timed(setup: Setup, name: str, shape: str) -> list[Row]:
    """A layer's convolution, silu and norm as kernels, beside plain PyTorch."""
    size = shapes(setup)[shape]
    heads, head_dim = size["heads"], size["head_dim"]
    layer = layer_of(setup, heads, head_dim)
    x = torch.randn(size["batch"], size["steps"], 3 * heads * head_dim, device=setup.device).to(setup.half)
    x.requires_grad_()
    ours, plain = (partial(convolved, of, x, None, torch.ones_like) for of in (layer, plain_of(layer)))
    ours()
    mine, other = in_turns(setup, ours, plain)
    return [ratio_row(f"{name} / plain", other / mine, None, f"ours {mine:.3f} ms, plain {other:.3f} ms")]


def layer_sizes(setup: Setup, chunk: int) -> list[tuple[int, int]]:
    """(batch, steps), the largest first; theirs holds every chunk's weights."""
    return [(1, 64)] if setup.smoke else [(8, 64 * chunk), (8, 16 * chunk), (8, 4 * chunk)]


def _layers_timed(setup: Setup, name: str, chunk: int) -> list[Row]:
    def rows(size: tuple[int, int]) -> list[Row]:
        ours, theirs = layers(setup, chunk, *size)
        ours()
        label = f"{name} / titans-pytorch's layer"
        try:
            theirs()
        except ImportError as failure:
            return [Row(label, note=f"absent: {first_line(failure)}")]
        mine, other = in_turns(setup, ours, theirs)
        words = f"ours {mine:.2f} ms, theirs {other:.2f} ms; batch {size[0]}, {size[1]} steps, layer beside layer"
        return [ratio_row(label, other / mine, LAYER_TARGET, words)]

    return _largest_that_fits(layer_sizes(setup, chunk), rows)


def _largest_that_fits(sizes: list[tuple[int, int]], rows: Callable[[tuple[int, int]], list[Row]]) -> list[Row]:
    for size in sizes[:-1]:
        try:
            return rows(size)
        except torch.OutOfMemoryError:
            gc.collect()
            torch.cuda.empty_cache()
    return rows(sizes[-1])


def memory(setup: Setup) -> Iterator[Case]:
    """Peak memory of forward and backward, what was held before it left out."""
    if setup.device.type != "cuda":
        yield Case("peak memory", lambda: [Row("peak memory", note="skipped: needs a GPU")])
        return
    for chunk in (64, 16):
        yield Case(f"layer C{chunk}, peak memory", partial(_layers_memory, setup, chunk))
    for depth, chunk in product((1, 2), (64, 16)):
        problem = timed(setup, "long", depth, chunk)
        name = f"scan, {problem}, peak memory"
        yield Case(name, partial(where_it_fits, name, partial(_scan_memory, setup, name, problem)))


def _layers_memory(setup: Setup, chunk: int) -> list[Row]:
    def rows(size: tuple[int, int]) -> list[Row]:
        ours, theirs = layers(setup, chunk, *size)
        label = f"layer C{chunk}, peak memory"
        mine = peak(ours)
        words = f"batch {size[0]}, {size[1]} steps"
        found = [Row(label, mine / 2**20, "MiB", note=words)]
        try:
            other = peak(theirs)
        except ImportError as failure:
            return [*found, Row(f"{label} / titans-pytorch's", note=f"absent: {first_line(failure)}")]
        ratio = other / max(mine, 1)
        met = verdict(ratio >= MEMORY_TARGET, "missed")
        name, target = f"{label}, titans-pytorch's / ours", f">= {MEMORY_TARGET:g}"
        return [*found, Row(name, other / 2**20, "MiB", target, met, ratio, words)]

    return _largest_that_fits(layer_sizes(setup, chunk), rows)


def _scan_memory(setup: Setup, name: str, problem: Problem) -> list[Row]:
    x = make(problem, setup.device, extremes=False)
    held = peak(our_pass(setup, problem, x, backward=True))
    each = held / problem.tokens / problem.heads
    return [Row(name, held / 2**20, "MiB", note=f"{each:.0f} bytes a token and head, outputs and gradients included")]


def peak(run: Callable[[], None]) -> float:
    """Bytes above those held before; a first run leaves what is kept from then on."""
    run()
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def scaling(setup: Setup) -> Iterator[Case]:
    """Tokens a second by length: where the heads fill the card it is to stay within 15%."""
    lengths = (64, 128) if setup.smoke else LENGTHS
    for batch, heads in ((8, 16), (1, 8)):
        for depth, backward in product((2, 1), (False, True)):
            first: list[float] = []
            for steps in lengths:
                size: dict[str, Any] = dict(
                    batch=batch, heads=heads, steps=steps, head_dim=64, depth=depth, chunk_size=64
                )
                if setup.smoke:
                    size |= dict(batch=1, heads=2, head_dim=16, chunk_size=16)
                problem = Problem(**size, dtype=setup.half, decay_to=DECAYS[depth])
                kind = f"{'linear' if depth == 1 else 'deep'}, {'both passes' if backward else 'forward'}"
                name = f"{batch * heads} batch x heads, {kind}, {steps} steps"
                run = partial(_length, setup, name, problem, backward, first)
                yield Case(name, partial(where_it_fits, name, run))


def _length(setup: Setup, name: str, problem: Problem, backward: bool, first: list[float]) -> list[Row]:
    x = make(problem, setup.device, extremes=False)
    run = our_pass(setup, problem, x, backward)
    run()
    rate = problem.tokens / (1e-3 * milliseconds(setup, run)) / 1e6
    ratio = rate / first[0] if first else 1.0
    first.append(rate)
    if problem.batch * problem.heads < 128:
        return [Row(name, rate, "M tokens/s", ratio=ratio)]
    target, met = f">= {LENGTH_TARGET:g} of the first", verdict(ratio >= LENGTH_TARGET, "missed")
    return [Row(name, rate, "M tokens/s", target, met, ratio)]


def origins(setup: Setup) -> Iterator[Case]:
    """The long-term memory's own shapes: few series, six heads, as many tokens as a series has origins."""
    for depth, problems in ((depth, origin_problems(setup, depth)) for depth in (1, 2)):
        for problem in problems:
            kind = "linear" if depth == 1 else "deep"
            name = f"origins, {problem.batch} series, {kind}, {problem.steps} steps, forward"
            yield Case(name, partial(where_it_fits, name, partial(_origins_timed, setup, name, problem)))


def origin_problems(setup: Setup, depth: int) -> list[Problem]:
    """By batch and length; chunks are a quarter of a day of 15 minutes."""
    batches, lengths = ((2,), (70,)) if setup.smoke else (ORIGIN_BATCHES, ORIGINS)
    width = dict(heads=2, head_dim=16, chunk_size=16) if setup.smoke else dict(heads=6, head_dim=32, chunk_size=24)
    return [
        Problem(batch=batch, steps=steps, **width, depth=depth, dtype=torch.float32, decay_to=DECAYS[depth])
        for batch, steps in product(batches, lengths)
    ]


def _origins_timed(setup: Setup, name: str, problem: Problem) -> list[Row]:
    run = our_pass(setup, problem, make(problem, setup.device, extremes=False), backward=False)
    run()
    seconds = 1e-3 * milliseconds(setup, run)
    note = f"{1e3 * seconds * 1000 / problem.steps:.3f} ms for 1,000 origins of each series"
    return [Row(name, problem.tokens / seconds / 1e6, "M tokens/s", note=note)]


def epoch(setup: Setup) -> Iterator[Case]:
    """Seconds of one epoch on ETTm1 by backend, with the training step in a CUDA graph and without."""
    yield Case("epoch", partial(_epoch, setup))


def _epoch(setup: Setup) -> Iterator[Row]:
    values, words = _ettm1(setup)
    rows = dict(train=700, end=1000) if setup.smoke else ETTM1
    channels = values.shape[1]
    data = read_table(values[: rows["end"]]).data
    scaled = on_device(Scaler.fit(data, np.full(channels, rows["train"])).transform(data), setup.device)
    size: dict[str, Any] = dict(lookback=96 if setup.smoke else LOOKBACK, horizon=24 if setup.smoke else HORIZON)

    def windows(first: int, last: int) -> Windows:
        span: dict[str, Any] = dict(first=np.full(channels, max(first, size["lookback"])), last=np.full(channels, last))
        return Windows(scaled, **size, **span)

    train, validation = windows(0, rows["train"]), windows(rows["train"], rows["end"])
    small: dict[str, Any] = dict(d_model=16, n_layers=1) if setup.smoke else {}
    model = ModelConfig(**size, **small, n_series=channels, cycle=DAY, scale_windows=False)
    most, batch = (64, 16) if setup.smoke else (2**15, 256)
    how = TrainConfig(
        batch_size=batch, max_epochs=1, most_windows=most, evaluations_per_epoch=1, most_validation_windows=2048
    )
    backends = dict.fromkeys((setup.backend, "chunkwise"))
    plans = product(backends, (True, False) if setup.device.type == "cuda" else (False,))
    first = None
    for backend, graph in plans:
        network = initialised_network(model, train, None, None, 0)
        for module in network.modules():
            if isinstance(module, NeuralMemory):
                module.backend = backend
        fit_network(network, train, None, replace(how, most_windows=4 * batch, cuda_graph=False))  # compiles
        begun = time.perf_counter()
        history = fit_network(network, train, validation, replace(how, cuda_graph=graph))
        seconds = time.perf_counter() - begun
        first = first or seconds
        name = f"ETTm1, {most} windows of {size['lookback']}, {backend}, {'CUDA graph' if graph else 'eager'}"
        last = history.evaluations[-1]
        loss = f"validation {last.validation_loss:.4f}, train {last.train_loss:.4f}"
        yield Row(name, seconds, "s", ratio=seconds / first, note=f"{words}; {loss}")


def _ettm1(setup: Setup) -> tuple[np.ndarray, str]:
    """The published rows, or generated ones of their shape."""
    path = setup.data / "ETTm1.csv" if setup.data else None
    if path is not None and path.exists():
        return pd.read_csv(path, index_col=0).to_numpy(np.float64), "the published file"
    shape = (1000, 2) if setup.smoke else (ETTM1["rows"], ETTM1["channels"])
    noise = np.random.default_rng(0).standard_normal(shape)
    day = np.sin((np.arange(shape[0])[:, None] + np.arange(shape[1])) * 2 * np.pi / DAY)
    return 3 * day + noise, "generated rows of its shape"


def compilations(setup: Setup) -> Iterator[Problem]:
    """What the sections above compile."""
    for shape, depth, chunk in product(shapes(setup), (2, 1), (64, 16)):
        yield timed(setup, shape, depth, chunk)
    if setup.smoke:
        return
    for depth in (2, 1):  # few heads, whose forward is split
        size: dict[str, Any] = dict(batch=1, heads=8, steps=LENGTHS[0], head_dim=64, chunk_size=64)
        yield Problem(**size, depth=depth, dtype=setup.half, decay_to=DECAYS[depth])
        yield from (problem for problem in origin_problems(setup, depth) if problem.steps == ORIGINS[0])
    size = dict(batch=256, heads=4, steps=68, head_dim=32, chunk_size=16)  # the default network's, of `LOOKBACK` steps
    yield Problem(**size, depth=2, dtype=torch.float32, decay_to=DECAYS[2])


def compile_pass(setup: Setup, problem: Problem) -> None:
    x = make(problem, setup.device, extremes=False)
    for backward in (False, True):
        our_pass(setup, problem, x, backward)()


def compile_peers(setup: Setup, share: tuple[int, int]) -> None:
    """Run every peer once with its part of the autotuner's configurations, so that a later run finds them compiled."""
    shorten_autotuning(share)
    for shape, depth, chunk, backward in product(shapes(setup), (1, 2), (64, 16), (False, True)):
        problem = timed(setup, shape, depth, chunk)  # its whole batch, which some compile for
        x = make(problem, setup.device, extremes=False)
        for peer in peers(problem, x, backward):
            try:
                a_pass(peer.call, peer.inputs, x["cotangent.y"], backward)()
            except Exception as failure:  # the comparison says so, in its place
                print(f"{peer.name}: {first_line(failure)}", flush=True)
