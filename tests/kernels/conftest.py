"""What the tests of the memory share: a random problem, everything a scan gives for it, and a comparison.

An `Inputs` is the arguments of `memory_scan` by name, the options left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.kernels import MemoryState, memory_scan

Inputs = dict[str, Any]
SEQUENCES = ("q", "k", "v", "alpha", "eta", "theta")
# A tensor that cancels to zero is held to this scale: the terms it came from are near 1 and leave rounding behind.
SMALLEST_SCALE = 1e-3


@pytest.fixture(scope="session")
def make_inputs() -> Callable[..., Inputs]:
    return _make_inputs


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., dict[str, Tensor]]:
    return _evaluate


@pytest.fixture(scope="session")
def assert_equal() -> Callable[..., None]:
    return _assert_equal


def _make_inputs(
    *,
    B: int = 2,
    T: int = 7,
    H: int = 2,
    D: int = 3,
    depth: int = 2,
    expansion: int = 2,
    offset: int | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Inputs:
    """A random problem in which the memory neither explodes nor dies; with a state where `offset` is given."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=dtype)

    widths = [D, *(depth - 1) * [expansion * D], D]
    shapes = [(H, *pair) for pair in pairwise(widths)]
    state = None
    if offset is not None:
        groups = [tuple(normal(B, *s) * s[1] ** -0.5 for s in shapes) for _ in range(3)]
        state = MemoryState(
            weights=groups[0], momentum=tuple(0.1 * s for s in groups[1]), chunk_start=groups[2], offset=offset
        )
    return {
        "q": normal(B, T, H, D),
        "k": 0.3 * normal(B, T, H, D),
        "v": normal(B, T, H, D),
        "alpha": uniform(B, T, H),
        "eta": uniform(B, T, H),
        "theta": 0.5 * uniform(B, T, H),
        "weights": tuple(normal(*s) * s[1] ** -0.5 for s in shapes),
        "state": state,
    }


def _evaluate(
    inputs: Inputs,
    *,
    cuts: Sequence[int] = (),
    of: Sequence[str] = ("y", "state"),
    by: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, Tensor]:
    """All that `memory_scan` gives for `inputs`, by name; the sequence is read in parts where `cuts` are given.

    That is the outputs, the final state, and the gradients of a fixed weighted sum of the values `of`: by every
    input, or by the only ones `by` names, the others requiring none.
    """
    leaves = {name: x.detach().clone().requires_grad_(by is None or name in by) for name, x in _tensors(inputs).items()}
    weights = tuple(x for name, x in leaves.items() if name.startswith("weights."))
    state = inputs["state"]
    if state is not None:
        fields = ("weights", "momentum", "chunk_start")
        groups = {f: tuple(x for name, x in leaves.items() if name.startswith(f"state.{f}.")) for f in fields}
        state = MemoryState(**groups, offset=state.offset)

    outputs = []
    for first, last in pairwise([0, *cuts, inputs["q"].shape[1]]):
        part = {name: leaves[name][:, first:last] for name in SEQUENCES}
        y, state = memory_scan(**part, weights=weights, state=state, return_state=True, **options)
        outputs.append(y)
    final = {f"final {name}": x for name, x in _state_tensors(state).items()}
    values = {"y": torch.cat(outputs, dim=1), **final}

    # The same weighting for every sample, so that a sample's gradients do not depend on its neighbours.
    cotangents = {
        n: torch.arange(x.shape[1:].numel(), dtype=x.dtype).cos().view(x.shape[1:]) for n, x in values.items()
    }
    chosen = [n for n in values if ("y" if n == "y" else "state") in of]
    scalar = torch.stack([(values[n] * cotangents[n]).sum() for n in chosen]).sum()
    wanted = {name: x for name, x in leaves.items() if x.requires_grad}
    gradients = torch.autograd.grad(scalar, list(wanted.values()), allow_unused=True, materialize_grads=True)
    return {
        **{name: x.detach() for name, x in values.items()},
        "final offset": torch.full(inputs["q"].shape[:1], float(state.offset)),
        **{f"gradient by {name}": g for name, g in zip(wanted, gradients, strict=True)},
    }


def _tensors(inputs: Inputs) -> dict[str, Tensor]:
    """Every tensor among `inputs` by name, such as q, weights.0 or state.momentum.1."""
    named = {name: inputs[name] for name in SEQUENCES}
    named |= {f"weights.{i}": w for i, w in enumerate(inputs["weights"])}
    if inputs["state"] is not None:
        named |= {f"state.{name}": x for name, x in _state_tensors(inputs["state"], always=True).items()}
    return named


def _state_tensors(state: MemoryState, always: bool = False) -> dict[str, Tensor]:
    """The state's tensors by name; without `chunk_start` where the offset leaves it without meaning."""
    groups = {"weights": state.weights, "momentum": state.momentum}
    if always or state.offset > 0:
        groups["chunk_start"] = state.chunk_start
    return {f"{name}.{i}": x for name, group in groups.items() for i, x in enumerate(group)}


def _assert_equal(
    values: dict[str, Tensor],
    expected: dict[str, Tensor],
    *,
    tolerance: float,
    smallest_scale: float = SMALLEST_SCALE,
) -> None:
    """Each tensor's largest absolute difference is within `tolerance` of its largest reference, all finite."""
    assert values.keys() == expected.keys()
    for name, reference in expected.items():
        assert values[name].shape == reference.shape, name
        assert reference.isfinite().all(), name
        if reference.numel() == 0:
            continue
        scale = max(reference.abs().max().item(), smallest_scale)
        difference = (values[name] - reference).abs().max().item()
        assert difference <= tolerance * scale, f"{name}: {difference:.1e} beside {scale:.1e}"
