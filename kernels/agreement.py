"""Whether Triton kernels agree with plain PyTorch on a device, shown on small problems.

A case names what decides which compiled code runs. Its problem is small, two and a half chunks of two samples and two
heads, and is computed by the kernels and, from the same numbers in float64, by the chunkwise form: values, final state
and gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad, silu

from . import chunkwise
from .state import MemoryState

# The largest error of a value and of a gradient, over the largest entry of its tensor. On an H200 the kernels' errors
# were at most 7e-7 and 9e-7 in float32 and 4e-3 and 6e-3 in bfloat16 (experiments/results/gpu.csv); a miscompiled
# gradient was off by 0.2. Float16 inputs are as wide as bfloat16 ones to the products, which take 10 bits.
LIMITS = {torch.float32: (1e-4, 1e-3), torch.bfloat16: (1e-2, 2e-2), torch.float16: (1e-2, 2e-2)}
BATCH, HEADS = 2, 2
CONVOLVED, BEFORE, WIDTH, EPS = 70, 3, 4, 1e-6  # tokens, rows before them, taps, and what the layer adds to a norm

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class ScanCase:
    """What decides on the compiled code of `memory_scan`; dtypes by name, `launch` a `triton_launch.Launch`."""

    depth: int
    dtype: str
    gates: tuple[str, str, str]  # dtypes of alpha, eta and theta
    head_dim: int
    hidden: int  # as head_dim where there is one layer
    lanes: int  # of a chunk, padded
    decay_to: str
    start: str  # "fresh", or a state "between chunks" or "inside a chunk"
    return_state: bool
    gradients: bool  # whether the backward is to be trusted too
    launch: Any

    def __str__(self) -> str:
        kind = "linear memory" if self.depth == 1 else f"memory of {self.depth} layers"
        passes = "forward and backward" if self.gradients else "forward"
        return (
            f"{kind}, {self.dtype}, head_dim {self.head_dim}, hidden {self.hidden}, chunks of {self.lanes}, "
            f"decay_to {self.decay_to!r}, {self.start}, {passes}, {self.launch}"
        )

    def difference(self, device: torch.device) -> str | None:
        """What the kernels get wrong on `device`, or None."""
        from . import triton_launch, triton_scan

        x = self._inputs(device)
        with triton_launch.forced(self.launch):
            found = self._evaluate(triton_scan.scan, x)
        expected = self._evaluate(chunkwise.scan, {name: value.double() for name, value in x.items()})
        return difference(found, expected, LIMITS[_dtype(self.dtype)])

    def _inputs(self, device: torch.device) -> Tensors:
        """Random inputs for which the memory neither explodes nor dies; some gates are exactly 0 and 1."""
        B, H, T = BATCH, HEADS, 2 * self.lanes + self.lanes // 2 + 1
        generator = torch.Generator().manual_seed(0)  # the caller's random numbers stay as they are

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")

        def uniform() -> Tensor:
            return torch.rand((B, T, H), generator=generator, dtype=torch.float32, device="cpu")

        x = {name: normalize(normal(B, T, H, self.head_dim), dim=-1).to(_dtype(self.dtype)) for name in ("q", "k", "v")}
        gates = {"alpha": 0.05 * uniform(), "eta": uniform()}
        gates["alpha"][:, T // 3, 0], gates["alpha"][:, T // 2, 0] = 0, 1
        gates["eta"][:, T // 4, 0], gates["eta"][:, T // 5, 0] = 0, 1
        gates["theta"] = 0.5 / self.lanes * (1 - gates["eta"]) * uniform()
        x |= {name: gate.to(_dtype(dtype)) for (name, gate), dtype in zip(gates.items(), self.gates, strict=True)}
        for i, (n_in, n_out) in enumerate(self._shapes()):
            x[f"weights.{i}"] = normal(H, n_in, n_out) * n_in**-0.5
            if self.start != "fresh":
                x[f"state.weights.{i}"] = start = normal(B, H, n_in, n_out) * n_in**-0.5
                x[f"state.momentum.{i}"] = 0.01 * normal(B, H, n_in, n_out)
                x[f"state.chunk_start.{i}"] = start + 0.01 * normal(B, H, n_in, n_out)
        return {name: value.to(device) for name, value in x.items()}

    def _shapes(self) -> list[tuple[int, int]]:
        widths = [self.head_dim, *(self.depth - 1) * [self.hidden], self.head_dim]
        return list(pairwise(widths))

    def _evaluate(self, scan: Callable[..., Any], x: Tensors) -> Tensors:
        """Values, and gradients of weighted sums of y and of y and the final state, by every input."""
        leaves = {name: value.detach().requires_grad_(self.gradients) for name, value in x.items()}

        def group(prefix: str) -> tuple[Tensor, ...]:
            return tuple(leaves[f"{prefix}.{i}"] for i in range(self.depth))

        state = None
        if self.start != "fresh":
            fields = {name: group(f"state.{name}") for name in ("weights", "momentum", "chunk_start")}
            state = MemoryState(**fields, offset=self.lanes // 2 if self.start == "inside a chunk" else 0)
        sequences = (leaves[name] for name in ("q", "k", "v", "alpha", "eta", "theta"))
        y, after = scan(*sequences, group("weights"), self.lanes, state, self.decay_to, self.return_state)
        values = {"y": y}
        if after is not None:
            for name in ("weights", "momentum", "chunk_start") if after.offset else ("weights", "momentum"):
                values |= {f"{name}.{i}": value for i, value in enumerate(getattr(after, name))}
        found = {name: value.detach() for name, value in values.items()}
        if self.gradients:
            found |= gradients(leaves, {"y": y}, "of y")
            if after is not None:
                found |= gradients(leaves, values, "of y and the state")
        return found


@dataclass(frozen=True)
class ConvolutionCase:
    """What decides on the compiled code of `convolution_kernel`'s kernels."""

    dtype: str
    head_dim: int

    def __str__(self) -> str:
        return f"convolution, {self.dtype}, head_dim {self.head_dim}, forward and backward"

    def difference(self, device: torch.device) -> str | None:
        """What the kernels get wrong on `device`, or None; for parameters in float32 and in the dtype of the input."""
        from . import triton_convolution

        generator = torch.Generator().manual_seed(0)
        channels = 3 * HEADS * self.head_dim
        shapes = {"x": (BATCH, BEFORE + CONVOLVED, channels), "weight": (WIDTH, channels), "bias": (channels,)}
        dtype = _dtype(self.dtype)
        for parameters in dict.fromkeys((torch.float32, dtype)):
            x = {
                name: torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
                .to(dtype if name == "x" else parameters)
                .to(device)
                for name, shape in shapes.items()
            }
            found = self._evaluate(triton_convolution.convolve, x)
            expected = self._evaluate(convolve, {name: value.double() for name, value in x.items()})
            if words := difference(found, expected, LIMITS[dtype]):
                return f"{words}, parameters in {dtype_name(parameters)}"
        return None

    def _evaluate(self, convolution: Callable[..., Any], x: Tensors) -> Tensors:
        leaves = {name: value.detach().requires_grad_() for name, value in x.items()}
        values = dict(zip("qkv", convolution(*leaves.values(), HEADS, BEFORE, EPS), strict=True))
        found = {name: value.detach() for name, value in values.items()}
        return found | gradients(leaves, values, "of q, k and v")


Case = ScanCase | ConvolutionCase


def convolve(x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float) -> tuple[Tensor, ...]:
    """`triton_convolution.convolve` in plain PyTorch."""
    padded = pad(x, (0, 0, WIDTH - 1, 0))
    out = bias + torch.stack([weight[i] * padded[:, i : i + x.shape[1]] for i in range(WIDTH)]).sum(0)
    q, k, v = silu(out[:, before:]).unflatten(-1, (3, heads, -1)).unbind(2)
    return *(y * (y.square().sum(-1, keepdim=True) + eps).rsqrt() for y in (q, k)), v


def gradients(leaves: Tensors, values: Tensors, of: str) -> Tensors:
    """The gradients by the leaves of a fixed weighted sum of the values."""
    weights = [torch.arange(x.numel(), device=x.device).sin().view(x.shape).to(x.dtype) for x in values.values()]
    found = torch.autograd.grad(
        list(values.values()),
        list(leaves.values()),
        weights,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return {f"gradient {of} by {name}": gradient for name, gradient in zip(leaves, found, strict=True)}


def difference(found: Tensors, expected: Tensors, limits: Sequence[float]) -> str | None:
    """Which tensor is wrong by most, beyond its limit, and by how much; None where all are right."""
    of_values, of_gradients = limits
    wrong = {}
    for name, reference in expected.items():
        limit = of_gradients if name.startswith("gradient") else of_values
        largest = error(found[name], reference)
        if not largest <= limit:
            wrong[name] = (
                largest / limit,
                f"{name} is wrong by {largest:.1e} of its largest entry; {limit:g} is allowed",
            )
    return max(wrong.values())[1] if wrong else None


def error(value: Tensor, reference: Tensor) -> float:
    """The largest absolute difference over the largest absolute reference; infinite where a value is no number."""
    if value.shape != reference.shape:
        raise ValueError(f"A result has shape {tuple(value.shape)} where {tuple(reference.shape)} was expected.")
    if value.numel() == 0:
        return 0.0
    largest = (value.to(reference.dtype) - reference).abs().max().item()
    scale = reference.abs().max().item()
    return largest / (scale or 1.0) if largest == largest else float("inf")


def case_of(
    q: Tensor,
    gates: Sequence[Tensor],
    weights: tuple[Tensor, ...],
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
    gradients: bool,
) -> ScanCase:
    """The case that a call of `memory_scan` belongs to."""
    from . import triton_launch

    hidden = weights[0].shape[-1]
    lanes = triton_launch.lanes_for
    packed = len(weights) * lanes(q.shape[-1]) * lanes(hidden)
    plan = triton_launch.plan(q, len(weights), packed, chunk_size, 0 if state is None else state.offset)
    start = "fresh" if state is None else "inside a chunk" if state.offset else "between chunks"
    alpha, eta, theta = (dtype_name(gate.dtype) for gate in gates)
    return ScanCase(
        depth=len(weights),
        dtype=dtype_name(q.dtype),
        gates=(alpha, eta, theta),
        head_dim=q.shape[-1],
        hidden=hidden,
        lanes=plan.lanes,
        decay_to=decay_to,
        start=start,
        return_state=return_state,
        gradients=gradients,
        # How many segments a group has is no part of the code, but whether there are several groups.
        launch=dataclasses.replace(plan.launch, group=1 if plan.groups > 1 else 0),
    )


def dtype_name(dtype: torch.dtype) -> str:
    """Such as "float32"."""
    return str(dtype).removeprefix("torch.")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype)
    return dtype
