"""What the tests of the memory share: a random problem, everything a scan gives for it, and a comparison.

An `Inputs` is the arguments of `memory_scan` by name, the options left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from titans_ts.kernels import MemoryState, memory_scan

Inputs = dict[str, Any]
SEQUENCES = ("q", "k", "v", "alpha", "eta", "theta")
# A tensor that cancels to zero is held to this scale: the terms it came from are near 1 and leave rounding behind.
SMALLEST_SCALE = 1e-3


class Tolerances(NamedTuple):
    """How far Triton kernels may be from float64, and from themselves in another order, over the largest entry."""

    outputs: float
    gradients: float
    half_outputs: float  # of inputs in 16 bits
    half_gradients: float
    reordered: float


# The interpreter adds up float32 products, of up to a few hundred terms; a gradient comes through twice as many, and
# recomputed ones. Inputs of 16 bits are rounded once on their way in and once out, by half of float16's epsilon each.
IN_INTERPRETER = Tolerances(1e-5, 1e-4, 2e-3, 2e-3, 1e-6)
# A GPU makes a float32 product of three in TF32, good to 1e-6 of its terms, and products of 16-bit inputs in TF32 (10
# bits) or bfloat16 (8 bits). No better than `titans_ts.kernels.agreement.LIMITS`, beyond which kernels are not trusted.
ON_GPU = Tolerances(1e-4, 1e-3, 1e-2, 2e-2, 1e-4)


@pytest.fixture(scope="session")
def device() -> torch.device:
    """Where Triton kernels run: on a CPU in triton's interpreter, else on the GPU."""
    if find_spec("triton") is None:
        pytest.skip("needs the package triton")
    from titans_ts.kernels.triton_common import INTERPRETED

    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("needs a GPU, or triton's interpreter")
    return torch.device("cpu" if INTERPRETED else "cuda")


@pytest.fixture(scope="session")
def tolerances(device: torch.device) -> Tolerances:
    return IN_INTERPRETER if device.type == "cpu" else ON_GPU


@pytest.fixture(scope="session", autouse=True)
def _quick_interpreter() -> Iterator[None]:
    """Leave out half of what triton's interpreter does: at each call of a function in a kernel it replaces the language
    again, and at each sum of integers it looks for overflow, of which problems this small have none.
    """
    if find_spec("triton") is None:
        yield
        return
    import triton.language as tl
    from triton.runtime import interpreter

    replace = interpreter._patch_lang

    def replace_once(function: Callable[..., Any]) -> Any:
        language = [x for x in function.__globals__.values() if x is tl or x is tl.core]
        done = not any(tl.core.is_builtin(module.load) for module in language)
        return interpreter._LangPatchScope() if done else replace(function)

    builder = interpreter.interpreter_builder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", replace_once)
        patch.setattr(builder, "options", dataclasses.replace(builder.options, sanitize_overflow=False))
        yield


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
        n: torch.arange(x.shape[1:].numel(), dtype=x.dtype, device=x.device).cos().view(x.shape[1:])
        for n, x in values.items()
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
