"""What the GPU checks share: random problems, what is timed, all that a scan gives for one, and rows of results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from titans_ts.kernels import MemoryState, memory_scan
from titans_ts.kernels.agreement import error
from titans_ts.model import ModelConfig, NeuralMemory

SEQUENCES = ("q", "k", "v", "alpha", "eta", "theta")
FIELDS = ("weights", "momentum", "chunk_start")
DECAYS = {1: "zero", 2: "init"}  # the layer's own, by depth
Tensors = dict[str, Tensor]


class Row(NamedTuple):
    """One result; `ok` is "ok", "FAIL" (a check), "missed" (a speed or size), or empty where there is no target."""

    name: str
    value: float | None = None
    unit: str = ""
    target: str = ""
    ok: str = ""
    ratio: float | None = None
    note: str = ""


class Case(NamedTuple):
    """A few results that are measured together; what it raises becomes a row."""

    name: str
    run: Callable[[], Iterable[Row]]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Where the checks run; `smoke` makes everything tiny."""

    device: torch.device
    backend: str = "triton"
    smoke: bool = False
    data: Path | None = None
    oracle: Path | None = None

    @property
    def interpreted(self) -> bool:
        """Triton's interpreter gets bfloat16 wrong, without a word."""
        return self.device.type == "cpu" and self.backend == "triton"

    @property
    def half(self) -> torch.dtype:
        """The dtype of what is timed and repeated."""
        return torch.float16 if self.interpreted else torch.bfloat16


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A call of `memory_scan`; `offset` is that of the state it starts from, None for no state."""

    depth: int
    chunk_size: int
    head_dim: int
    dtype: torch.dtype
    steps: int
    batch: int = 2
    heads: int = 2
    decay_to: str = "zero"
    offset: int | None = None

    def __str__(self) -> str:
        kind = "linear" if self.depth == 1 else "deep"
        state = "" if self.offset is None else f" state+{self.offset}"
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{kind} C{self.chunk_size} D{self.head_dim} {dtype} {self.decay_to}{state} T{self.steps}"

    @property
    def tokens(self) -> int:
        return self.batch * self.steps


def shapes(setup: Setup) -> dict[str, dict[str, int]]:
    """A long sequence of each of few samples, and the many short ones of a forecast."""
    if setup.smoke:
        return {"long": dict(batch=1, steps=70, heads=2, head_dim=16)}
    return {
        "long": dict(batch=8, steps=4096, heads=16, head_dim=64),
        "forecast": dict(batch=6896, steps=96, heads=4, head_dim=32),
    }


def timed(setup: Setup, shape: str, depth: int, chunk: int) -> Problem:
    size = shapes(setup)[shape]
    return Problem(**size, depth=depth, chunk_size=chunk, dtype=setup.half, decay_to=DECAYS[depth])


def launches(problem: Problem, backend: str) -> list[Any]:
    """The launch settings that the kernels may take for this problem, their own first; [None] for other backends."""
    if backend != "triton":
        return [None]
    from titans_ts.kernels import triton_launch

    size = triton_launch.Problem(
        depth=problem.depth,
        heads=problem.batch * problem.heads,
        chunks=-(-problem.steps // problem.chunk_size),
        lanes=triton_launch.lanes_for(problem.chunk_size),
        width=triton_launch.lanes_for(problem.head_dim),
    )
    return [*triton_launch.candidates(size)]


def launched(launch: Any) -> AbstractContextManager[Any]:
    """Within it every launch takes the given settings; the kernels' own choice where there are none given."""
    if launch is None:
        return nullcontext()
    from titans_ts.kernels import triton_launch

    return triton_launch.forced(launch)


def make(problem: Problem, device: torch.device, seed: int = 0, extremes: bool = True) -> Tensors:
    """Random inputs for which the memory neither explodes nor dies, and cotangents, by name.

    With `extremes` some of the first head's gates are exactly 0 or 1.
    """
    generator = torch.Generator(device).manual_seed(seed)
    tokens = (problem.batch, problem.steps, problem.heads)
    float64 = problem.dtype == torch.float64
    wide = torch.float64 if float64 else torch.float32

    def normal(*shape: int, dtype: torch.dtype = wide) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    def uniform() -> Tensor:
        return torch.rand(tokens, generator=generator, device=device, dtype=wide)

    x = {name: normalize(normal(*tokens, problem.head_dim), dim=-1).to(problem.dtype) for name in ("q", "k", "v")}
    x |= {"alpha": 0.05 * uniform(), "eta": uniform()}
    if extremes:
        for name, value, part in (("alpha", 0, 5), ("alpha", 1, 2), ("eta", 0, 3), ("eta", 1, 7)):
            x[name][:, problem.steps // part :: problem.steps, 0] = value
    x["theta"] = 0.5 / problem.chunk_size * (1 - x["eta"]) * uniform()
    shape = (problem.heads, problem.head_dim, problem.head_dim)
    for i in range(problem.depth):
        x[f"weights.{i}"] = normal(*shape) * problem.head_dim**-0.5
        if problem.offset is not None:
            start = normal(problem.batch, *shape) * problem.head_dim**-0.5
            x[f"state.weights.{i}"] = start
            x[f"state.momentum.{i}"] = 0.01 * normal(problem.batch, *shape)
            x[f"state.chunk_start.{i}"] = start + 0.01 * normal(problem.batch, *shape)
    x["cotangent.y"] = normal(*tokens, problem.head_dim).to(problem.dtype)
    for field in FIELDS:
        x |= {f"cotangent.{field}.{i}": normal(problem.batch, *shape) for i in range(problem.depth)}
    return x


def scan(problem: Problem, x: Tensors, backend: str, **options: Any) -> Any:
    """`memory_scan` of inputs by name."""
    depth = range(problem.depth)
    state = None
    if problem.offset is not None:
        groups = {field: tuple(x[f"state.{field}.{i}"] for i in depth) for field in FIELDS}
        state = MemoryState(**groups, offset=problem.offset)
    q, k, v, alpha, eta, theta = (x[name] for name in SEQUENCES)
    return memory_scan(
        *(q, k, v, alpha, eta, theta),
        tuple(x[f"weights.{i}"] for i in depth),
        chunk_size=problem.chunk_size,
        state=state,
        decay_to=problem.decay_to,
        backend=backend,
        **options,
    )


def everything(problem: Problem, x: Tensors, backend: str) -> Tensors:
    """Outputs, final state and the gradients of their sum weighted by the cotangents, by every input."""
    leaves = {n: value.detach().requires_grad_() for n, value in x.items() if not n.startswith("cotangent.")}
    y, state = scan(problem, leaves, backend, return_state=True)
    values = {"y": y}
    for field in FIELDS if state.offset else FIELDS[:2]:
        values |= {f"{field}.{i}": value for i, value in enumerate(getattr(state, field))}
    cotangents = [x[f"cotangent.{name}"].to(value.dtype) for name, value in values.items()]
    gradients = torch.autograd.grad(
        list(values.values()), list(leaves.values()), cotangents, allow_unused=True, materialize_grads=True
    )
    found = {name: value.detach() for name, value in values.items()}
    return found | {f"gradient by {name}": g for name, g in zip(leaves, gradients, strict=True)}


def exact(problem: Problem, x: Tensors) -> Tensors:
    """The same in float64 by the plain implementation, which is tested against exact vectors."""
    return everything(problem, {name: value.double() for name, value in x.items()}, "chunkwise")


def worst(found: Tensors, expected: Tensors, gradients: bool) -> tuple[float, str]:
    """The largest error among gradients, or among values, and whose it is."""
    names = [name for name in expected if name.startswith("gradient by ") == gradients]
    return max((error(found[name], expected[name]), name) for name in names)


def compared(name: str, found: Tensors, expected: Tensors, limits: tuple[float, float], note: str = "") -> list[Row]:
    """A row for the worst value and one for the worst gradient; limits are inclusive, so 0 asks for equality."""
    rows = []
    for gradients, limit in zip((False, True), limits, strict=True):
        if not any(n.startswith("gradient by ") == gradients for n in expected):
            continue
        largest, whose = worst(found, expected, gradients)
        kind = "gradients" if gradients else "values"
        words = "; ".join(filter(None, (f"worst: {whose}", note)))
        rows.append(Row(f"{name}: {kind}", largest, "error", f"<= {limit:g}", verdict(largest <= limit), note=words))
    return rows


def verdict(holds: bool, otherwise: str = "FAIL") -> str:
    return "ok" if holds else otherwise


def layer_of(setup: Setup, heads: int, head_dim: int, chunk_size: int = 16, steps: int = 96) -> NeuralMemory:
    """A layer of two-layer memories on the device."""
    size: dict[str, Any] = dict(lookback=steps, horizon=1, d_model=heads * head_dim, n_heads=heads, memory_depth=2)
    return NeuralMemory(ModelConfig(**size, chunk_size=chunk_size), backend=setup.backend).to(setup.device)


def plain_of(layer: NeuralMemory) -> NeuralMemory:
    """The same layer without kernels."""
    plain = copy.deepcopy(layer)
    plain.backend = "chunkwise"
    return plain


def convolved(
    layer: NeuralMemory, x: Tensor, before: Tensor | None, cotangent_of: Callable[[Tensor], Tensor]
) -> Tensors:
    """A layer's q, k and v of x, and the gradients by x and the convolution."""
    found, conv = layer.project_inputs(x, before)[:3], layer.conv
    assert conv is not None  # as configured
    gradients = torch.autograd.grad(found, [x, conv.weight, conv.bias], [cotangent_of(y) for y in found])
    names = ("q", "k", "v", *(f"gradient by {name}" for name in ("x", "weight", "bias")))
    return dict(zip(names, (*found, *gradients), strict=True))


def where_it_fits(name: str, run: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """The rows of `run`, or a word that the card's memory is too small for it."""
    try:
        yield from run()
    except torch.OutOfMemoryError as failure:
        yield Row(name, note=f"skipped: {first_line(failure)}")


def first_line(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {(str(failure).strip() or 'no words').splitlines()[0][:200]}"


def halves(problem: Problem, x: Tensors) -> Iterator[tuple[Problem, Tensors]]:
    """The first and the second half of the batch."""
    part = replace(problem, batch=problem.batch // 2)
    for half in (slice(None, part.batch), slice(part.batch, None)):
        yield part, {name: value if name.startswith("weights.") else value[half] for name, value in x.items()}
