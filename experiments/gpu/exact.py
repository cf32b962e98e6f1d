"""The GPU checks of what the kernels compute: exact, repeatable, at any size."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpu.common import (
    SEQUENCES,
    Case,
    Problem,
    Row,
    Setup,
    Tensors,
    compared,
    convolved,
    everything,
    exact,
    first_line,
    halves,
    launched,
    launches,
    layer_of,
    make,
    plain_of,
    scan,
    verdict,
    where_it_fits,
)
from titans_ts.kernels import MemoryState, memory_scan
from titans_ts.kernels.agreement import LIMITS
from titans_ts.model import NeuralMemory

STARTS = (("zero", None), ("init", 5), ("zero", 5), ("init", None), ("zero", 0))  # forgetting, the state's offset
REPEATS = 20
LENGTHS = range(33, 97, 7)
ODD_HEAD = 48  # of a size that nothing else here has, so that its kernels are not yet compiled
FAR_ELEMENTS = 2**31  # where 32-bit offsets end


def problems(setup: Setup) -> list[Problem]:
    """Every size and dtype, each with one way to start; then every way to start at the sizes most used."""
    if setup.smoke:
        kinds = [torch.float32] if setup.interpreted else [torch.float32, torch.bfloat16]
        sizes = [(depth, 16, 16, dtype) for depth, dtype in product((1, 2), kinds)]
        return [_started(size, STARTS[i]) for i, size in enumerate(sizes)]
    chunked = [(chunk, dtype) for dtype in (torch.float32, torch.bfloat16) for chunk in (16, 32, 64)]
    chunked.remove((32, torch.float32))  # the slowest to compile
    sizes = [
        (depth, chunk, head_dim, dtype)
        for depth, dims in ((1, (32, 64, 128)), (2, (32, 64)))
        for (chunk, dtype), head_dim in product(chunked, dims)
    ]
    found = [_started(size, STARTS[i % len(STARTS)]) for i, size in enumerate(sizes)]
    found += [_started((depth, 16, 64, torch.bfloat16), start) for depth, start in product((1, 2), STARTS)]
    found += [_started((depth, 64, 64, torch.bfloat16), ("init", 5)) for depth in (1, 2)]
    found += [_started((depth, 32, 64, torch.float16), ("init", 5)) for depth in (1, 2)]
    return list(dict.fromkeys(found))


def _started(size: tuple[int, int, int, torch.dtype], start: tuple[str, int | None]) -> Problem:
    depth, chunk, head_dim, dtype = size
    decay_to, offset = start
    steps = (2 if head_dim < 32 else 9) * chunk + 5  # several groups of chunks, and a ragged last one
    shape: dict[str, Any] = dict(depth=depth, chunk_size=chunk, head_dim=head_dim, steps=steps)
    return Problem(**shape, dtype=dtype, decay_to=decay_to, offset=offset)


def exactness(setup: Setup) -> Iterator[Case]:
    """Against float64, with every launch setting; then the exact vectors in float32."""
    for size in convolutions(setup):
        yield Case(f"convolution {size}", partial(_convolution, setup, size))
    for seed, problem in enumerate(problems(setup)):
        yield Case(str(problem), partial(_exactness, setup, problem, seed))
    for path in sorted(setup.oracle.glob("*.npz")) if setup.oracle else ():
        if np.load(path)["depth"].item() <= 2:
            yield Case(path.stem, partial(_vector, setup, path))


def _exactness(setup: Setup, problem: Problem, seed: int) -> Iterator[Row]:
    x = make(problem, setup.device, seed)
    expected = exact(problem, x)
    for launch in launches(problem, setup.backend):
        try:
            with launched(launch):
                found = everything(problem, x, setup.backend)
            yield from compared(str(problem), found, expected, LIMITS[problem.dtype], str(launch or ""))
        except Exception as failure:  # the next setting may do
            yield Row(str(problem), ok="FAIL", note=f"{launch}: {first_line(failure)}")
            if setup.device.type == "cuda":
                torch.cuda.synchronize()  # raises where nothing more can run in this process


def _vector(setup: Setup, path: Path) -> list[Row]:
    with np.load(path) as file:
        vector = {name: torch.from_numpy(file[name]).to(setup.device) for name in file if file[name].dtype.kind == "f"}
        options: dict[str, Any] = {name: file[name].item() for name in ("depth", "chunk_size", "offset_in", "decay_to")}
    depth, offset = range(options["depth"]), options["offset_in"]
    x = {n.removeprefix("in_"): value.float().requires_grad_() for n, value in vector.items() if n.startswith("in_")}

    def group(prefix: str) -> tuple[Tensor, ...]:
        return tuple(x[f"{prefix}{i}"] for i in depth)

    state, weights = None, group("W")
    if "S0" in x:
        start = group("Wstart") if offset else weights
        state = MemoryState(weights=weights, momentum=group("S"), chunk_start=start, offset=offset)
        weights = group("Winit") if "Winit0" in x else tuple(w[0].detach() for w in weights)
    how: dict[str, Any] = dict(chunk_size=options["chunk_size"], decay_to=options["decay_to"], backend=setup.backend)
    q, k, v, alpha, eta, theta = (x[name] for name in SEQUENCES)
    y, after = memory_scan(q, k, v, alpha, eta, theta, weights, state=state, return_state=True, **how)
    values = {"y": y}
    for i in depth:
        values |= {f"W{i}_final": after.weights[i], f"S{i}_final": after.momentum[i]}
    cotangents = [vector[f"cot_{name}"].float() for name in values]
    gradients = torch.autograd.grad(
        list(values.values()), list(x.values()), cotangents, allow_unused=True, materialize_grads=True
    )
    found = {**values, **{f"gradient by {name}": g for name, g in zip(x, gradients, strict=True)}}
    expected = {name: vector[f"out_{name}"] for name in values}
    expected |= {f"gradient by {name}": vector[f"grad_{name}"] for name in x}
    return compared(f"vector {path.stem}", found, expected, LIMITS[torch.float32])


class Convolution(NamedTuple):
    """A layer's convolution: tokens read after so many rows from before."""

    dtype: torch.dtype
    head_dim: int
    tokens: int
    before: int

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"D{self.head_dim} {dtype} T{self.tokens}{f' after {self.before}' if self.before else ''}"


def convolutions(setup: Setup) -> list[Convolution]:
    sizes = ((16, 9, 0), (16, 9, 3)) if setup.smoke else ((32, 12, 0), (48, 301, 3), (64, 4096, 0), (128, 65, 3))
    dtypes = (torch.float32, setup.half)
    return [Convolution(dtype, *size) for dtype, size in product(dtypes, sizes)]


def _convolution(setup: Setup, size: Convolution) -> list[Row]:
    """q, k and v, and the gradients by the layer's input and its convolution, against float64."""
    layer = layer_of(setup, 4, size.head_dim)
    generator = torch.Generator(setup.device).manual_seed(0)
    rows = torch.randn(3, size.before + size.tokens, 12 * size.head_dim, generator=generator, device=setup.device)
    rows = rows.to(size.dtype)

    def run(layer: NeuralMemory, rows: Tensor) -> Tensors:
        before, x = rows[:, : size.before], rows[:, size.before :].detach().requires_grad_()
        return convolved(layer, x, before if size.before else None, _waves)

    found, expected = run(layer, rows), run(plain_of(layer).double(), rows.double())
    return compared(f"convolution {size}", found, expected, LIMITS[size.dtype])


def _waves(y: Tensor) -> Tensor:
    return torch.arange(y.numel(), device=y.device).sin().view(y.shape).to(y.dtype)


def repeatability(setup: Setup) -> Iterator[Case]:
    """The same to the bit every time."""
    for depth, chunk in product((1, 2), (16,) if setup.smoke else (16, 64)):
        head_dim, steps = (16, 2 * chunk + 5) if setup.smoke else (64, 16 * chunk + 5)
        size: dict[str, Any] = dict(depth=depth, chunk_size=chunk, head_dim=head_dim, steps=steps)
        problem = Problem(**size, batch=2 if setup.smoke else 32, dtype=setup.half, decay_to="init", offset=5)
        yield Case(str(problem), partial(_repeats, setup, problem))


def _repeats(setup: Setup, problem: Problem) -> Iterator[Row]:
    x = make(problem, setup.device)
    repeats = 2 if setup.smoke else REPEATS
    for launch in launches(problem, setup.backend):
        with launched(launch):
            first = everything(problem, x, setup.backend)
            differ: set[str] = set()
            for _ in range(repeats - 1):
                again = everything(problem, x, setup.backend)
                differ |= {name for name in first if not torch.equal(first[name], again[name])}
        words = "; ".join(filter(None, (", ".join(sorted(differ)), str(launch or ""))))
        yield Row(str(problem), len(differ), "tensors", f"0 differ in {repeats}", verdict(not differ), note=words)


def grid(setup: Setup) -> Iterator[Case]:
    """65,600 batch x heads equal two halves to the bit: more than a grid's second axis holds."""
    for depth in (1, 2):
        size: dict[str, Any] = dict(
            depth=depth, chunk_size=16, head_dim=16, steps=3, batch=8 if setup.smoke else 16_400, heads=4
        )
        problem = Problem(**size, dtype=torch.float32)
        yield Case(str(problem), partial(_halves, setup, problem))


def _halves(setup: Setup, problem: Problem) -> list[Row]:
    x = make(problem, setup.device)
    whole = everything(problem, x, setup.backend)
    parts = [everything(part, half, setup.backend) for part, half in halves(problem, x)]
    # The gradient by what the batch shares is a sum, and so differs by its order.
    shared = {name for name in whole if name.startswith("gradient by weights.")}
    expected = {name: torch.cat([part[name] for part in parts]) for name in whole if name not in shared}
    sums = {name: parts[0][name] + parts[1][name] for name in shared}
    name = f"{problem.batch * problem.heads:,} batch x heads, depth {problem.depth}"
    return [
        *compared(name, whole, expected, (0, 0)),
        *compared(f"{name}, by the weights", whole, sums, (0, 1e-4)),
    ]


def far(setup: Setup) -> Iterator[Case]:
    """More than 2^31 elements in each sequence: the last sample is what it is alone."""
    for problem, gradients in product(far_problems(setup), (False, True)):
        name = f"{problem}{', gradients' if gradients else ''}"
        yield Case(name, partial(where_it_fits, name, partial(_last_sample, setup, problem, gradients, name)))


def far_problems(setup: Setup) -> list[Problem]:
    batch, heads = (2, 2) if setup.smoke else (64, 16)
    found = []
    for depth, head_dim in ((1, 128), (2, 64)):
        steps = 40 if setup.smoke else FAR_ELEMENTS // (batch * heads * head_dim) + 64
        size: dict[str, Any] = dict(depth=depth, head_dim=head_dim, steps=steps, batch=batch, heads=heads)
        found.append(Problem(**size, chunk_size=64, dtype=setup.half))
    return found


def _last_sample(setup: Setup, problem: Problem, gradients: bool, name: str) -> list[Row]:
    alone = replace(problem, batch=1)
    one = {n: value for n, value in make(alone, setup.device).items() if n in SEQUENCES or n.startswith("weights.")}
    many = {n: value if n.startswith("weights.") else _rolled(value, problem.batch) for n, value in one.items()}
    found, expected = (_of_last(p, x, setup, gradients) for p, x in ((problem, many), (alone, one)))
    equal = all(torch.equal(found[n], expected[n]) for n in expected)
    elements = problem.tokens * problem.heads * problem.head_dim
    words = f"{elements / FAR_ELEMENTS:.3f} x 2^31 elements; {'equal' if equal else 'not equal'} to the bit"
    del many
    gc.collect()
    return compared(name, found, expected, LIMITS[problem.dtype], words)


def _rolled(sample: Tensor, batch: int) -> Tensor:
    """(batch, ...): every sample another one, the last as given."""
    out = sample.new_empty(batch, *sample.shape[1:])
    for i in range(batch):
        out[i] = sample[0].roll(batch - 1 - i, 0)
    return out


def _of_last(problem: Problem, x: Tensors, setup: Setup, gradients: bool) -> Tensors:
    leaves = {n: value.requires_grad_(gradients and n in SEQUENCES) for n, value in x.items()}
    with torch.set_grad_enabled(gradients):
        y = scan(problem, leaves, setup.backend)
    if not gradients:
        return {"y": y[-1:]}
    names = [n for n in leaves if n in SEQUENCES]
    by = torch.autograd.grad(y, [leaves[n] for n in names], y.detach())
    return {"y": y[-1:].detach(), **{f"gradient by {n}": g[-1:] for n, g in zip(names, by, strict=True)}}


def lengths(setup: Setup) -> Iterator[Case]:
    """Ten lengths are one compilation."""
    for depth in (1, 2):
        yield Case(f"ten lengths, depth {depth}", partial(_lengths, setup, depth))


def _lengths(setup: Setup, depth: int) -> list[Row]:
    from triton import knobs

    size: dict[str, Any] = dict(depth=depth, chunk_size=32, head_dim=ODD_HEAD, dtype=setup.half)
    compiled: list[str] = []
    before = knobs.runtime.jit_post_compile_hook
    knobs.runtime.jit_post_compile_hook = lambda **call: compiled.append(str(call.get("repr")))
    try:
        counts = []
        for steps in LENGTHS[:2] if setup.smoke else LENGTHS:
            problem = Problem(**size, steps=steps)
            everything(problem, make(problem, setup.device, extremes=False), setup.backend)
            counts.append(len(compiled))
    finally:
        knobs.runtime.jit_post_compile_hook = before
    name = f"{len(counts)} lengths, depth {depth}"
    if not counts[0]:
        return [Row(name, note="nothing was compiled here at all, so nothing is shown")]
    later = counts[-1] - counts[0]
    words = f"{counts[0]} at the first length" + (f"; then {compiled[counts[0]][:150]}" if later else "")
    return [Row(f"{name}: compiled after the first", later, "kernels", "0", verdict(later == 0), note=words)]


def compilations(setup: Setup) -> tuple[list[Problem], list[Problem]]:
    """What the sections above compile: with a state to return, and without."""
    others = [
        Problem(depth=depth, chunk_size=chunk, head_dim=head_dim, dtype=dtype, steps=steps, heads=heads)
        for depth in (1, 2)
        for head_dim, chunk, dtype, steps, heads in ((16, 16, torch.float32, 3, 4), (ODD_HEAD, 32, setup.half, 33, 2))
    ]
    plain = [
        Problem(depth=depth, chunk_size=16, head_dim=32, dtype=dtype, steps=37)
        for depth, dtype in product((1, 2), (setup.half, torch.float32))
    ]
    return [*problems(setup), *others], [*plain, *(replace(problem, batch=2) for problem in far_problems(setup))]
