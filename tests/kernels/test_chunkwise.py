"""The closed form against the oracle: outputs, final state and every gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.kernels import memory_scan

Inputs = dict[str, Any]

# float64 sums of at most a few hundred terms in another order, by gradients through up to 127 tokens.
TOLERANCE = 1e-10

GATES = ("alpha", "eta", "theta")
PATTERNS = {
    "between": lambda gate, _: gate,
    "sprinkled": lambda gate, _: torch.where(gate < 0.15, 0, torch.where(gate > 0.35, 1, gate)),
    "0 at borders": lambda gate, border: torch.where(border, 0, gate),
    "1 at borders": lambda gate, border: torch.where(border, 1, gate),
    "0 at one token": lambda gate, _: gate.index_fill(1, torch.tensor(gate.shape[1] // 2), 0),
    "1 at one token": lambda gate, _: gate.index_fill(1, torch.tensor(gate.shape[1] // 2), 1),
    "0 everywhere": lambda gate, _: torch.zeros_like(gate),
    "1 everywhere": lambda gate, _: torch.ones_like(gate),
}


def with_patterns(inputs: Inputs, patterns: dict[str, str], chunk_size: int) -> Inputs:
    """`inputs` with the gates brought to exactly 0 and 1 where the patterns say; a border is a chunk's first token."""
    T = inputs["q"].shape[1]
    offset = inputs["state"].offset if inputs["state"] is not None else 0
    border = ((torch.arange(T) + offset) % chunk_size == 0)[:, None]
    return inputs | {name: PATTERNS[pattern](inputs[name], border) for name, pattern in patterns.items()}


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "B": draw(st.integers(1, 2)),
        "T": draw(st.sampled_from([1, 2, 15, 16, 17]) | st.integers(1, 40)),
        "H": draw(st.integers(1, 2)),
        "D": draw(st.integers(1, 4)),
        "depth": draw(st.integers(1, 4)),
        "expansion": draw(st.integers(1, 2)),
        "seed": draw(st.integers(0, 2**16)),
    }


# kernel-traps 5: gates of exactly 0 and 1; 14: a state or none.
@settings(max_examples=40, deadline=None)
@given(
    shape=shapes(),
    chunk_size=st.integers(1, 16),
    offset=st.none() | st.integers(0, 15),
    patterns=st.fixed_dictionaries({name: st.sampled_from(sorted(PATTERNS)) for name in GATES}),
    decay_to=st.sampled_from(["zero", "init"]),
)
def test_equals_the_reference(
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
    shape: dict[str, Any],
    chunk_size: int,
    offset: int | None,
    patterns: dict[str, str],
    decay_to: str,
) -> None:
    inputs = make_inputs(**shape, offset=None if offset is None else offset % chunk_size)
    inputs = with_patterns(inputs, patterns, chunk_size)
    options = {"chunk_size": chunk_size, "decay_to": decay_to}
    expected = evaluate(inputs, **options, backend="reference")
    # Steps of 1 can make a deep memory explode, and then every order of summation goes its own way.
    assume(all(x.abs().max() < 1e3 for x in expected.values()))
    assert_equal(evaluate(inputs, **options, backend="chunkwise"), expected, tolerance=TOLERANCE)


# kernel-traps 3: lengths below the chunk, and not a multiple of it.
@pytest.mark.parametrize("T", [1, 2, 15, 16, 17, 63, 65, 100, 127])
def test_equals_the_reference_at_odd_lengths(
    T: int,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
) -> None:
    inputs = make_inputs(B=1, T=T, offset=5)
    expected = evaluate(inputs, chunk_size=16, backend="reference")
    assert_equal(evaluate(inputs, chunk_size=16, backend="chunkwise"), expected, tolerance=TOLERANCE)


@pytest.mark.parametrize("decay_to", ["zero", "init"])
@pytest.mark.parametrize("pattern", sorted(PATTERNS))
def test_equals_the_reference_with_every_gate_at(
    pattern: str,
    decay_to: str,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
) -> None:
    inputs = with_patterns(make_inputs(T=11, offset=2), dict.fromkeys(GATES, pattern), chunk_size=4)
    expected = evaluate(inputs, chunk_size=4, decay_to=decay_to, backend="reference")
    values = evaluate(inputs, chunk_size=4, decay_to=decay_to, backend="chunkwise")
    assert_equal(values, expected, tolerance=TOLERANCE)


# kernel-traps 6: rounding of a cumulative sum of logarithms makes a product exceed 1, then overflow.
@pytest.mark.parametrize("alpha", [0.0, 1e-7, 1 - 1e-7])
def test_products_of_gates_never_exceed_one(alpha: float, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=300, depth=1, dtype=torch.float32)
    same = torch.ones_like(inputs["q"])
    # Where nothing is written, the output for a constant query is the product of (1 - alpha) times the first output.
    gates = {"alpha": torch.full_like(inputs["alpha"], alpha), "theta": torch.zeros_like(inputs["theta"])}
    y = memory_scan(**inputs | gates | {"q": same}, chunk_size=64, backend="chunkwise").abs()
    assert y[:, 0].min() > 0
    assert (y[:, 1:] <= y[:, :-1] * (1 + 1e-6)).all()


# The backward pass written by hand


@pytest.mark.parametrize("decay_to", ["zero", "init"])
@pytest.mark.parametrize("offset", [None, 0, 2])
def test_gradients_are_those_of_differences(
    offset: int | None, decay_to: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(B=1, T=6, H=1, D=2, depth=2, expansion=1, offset=offset)
    leaves = {name: inputs[name].requires_grad_() for name in ("q", "k", "v", *GATES)}
    weights = tuple(w.requires_grad_() for w in inputs["weights"])

    def outputs(*tensors: Tensor) -> tuple[Tensor, ...]:
        changed = dict(zip(leaves, tensors, strict=False)) | {"weights": tensors[len(leaves) :]}
        options = {"chunk_size": 4, "decay_to": decay_to, "backend": "chunkwise", "return_state": True}
        y, after = memory_scan(**inputs | changed, **options)
        return y, *after.weights, *after.momentum

    # Central differences of 1e-6 in float64 are good to about 1e-8 of values near 1.
    assert torch.autograd.gradcheck(outputs, (*leaves.values(), *weights), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("offset", [None, 1])
def test_only_the_gradients_asked_for_are_given(offset: int | None, make_inputs: Callable[..., Inputs]) -> None:
    def gradients(*names: str) -> dict[str, Tensor | None]:
        inputs = make_inputs(T=9, offset=offset)
        leaves = {name: inputs[name] for name in ("q", "k", "v", *GATES)} | {"W": inputs["weights"][1]}
        for name in names:
            leaves[name].requires_grad_()
        memory_scan(**inputs, chunk_size=4, decay_to="init", backend="chunkwise").sin().sum().backward()
        return {name: x.grad for name, x in leaves.items()}

    everything = gradients("q", "k", "v", *GATES, "W")
    some = gradients("k", "eta", "W")
    for name, expected in everything.items():
        if name in ("k", "eta", "W"):
            assert torch.equal(some[name], expected)
        else:
            assert some[name] is None


def test_a_second_derivative_is_refused(make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=5)
    q = inputs["q"].requires_grad_()
    y = memory_scan(**inputs, chunk_size=4, backend="chunkwise")
    (first,) = torch.autograd.grad(y.square().sum(), q, create_graph=True)
    assert first.count_nonzero() > 0
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()


def test_what_is_kept_grows_with_the_sequence_and_is_nothing_without_gradients(
    make_inputs: Callable[..., Inputs],
) -> None:
    def kept(chunks: int, **changes: bool) -> int:
        inputs = make_inputs(T=16 * chunks, D=4)
        inputs["q"].requires_grad_(changes.get("gradients", True))
        numbers: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: numbers.append(x.numel()) or x, lambda x: x):
            memory_scan(**inputs, chunk_size=16, backend="chunkwise")
        return sum(numbers)

    assert kept(4, gradients=False) == 0
    # Each further chunk keeps as much as the one before; the first has no momentum and shares its weights.
    assert kept(4) - kept(3) == kept(3) - kept(2) > 0


def test_two_runs_are_equal_to_the_bit(
    make_inputs: Callable[..., Inputs], evaluate: Callable[..., dict[str, Tensor]]
) -> None:
    inputs = make_inputs(B=5, T=33, D=8, dtype=torch.float32)
    first, second = (evaluate(inputs, chunk_size=16, decay_to="init", backend="chunkwise") for _ in range(2))
    assert first["gradient by k"].count_nonzero() > 0
    assert all(torch.equal(x, second[name]) for name, x in first.items())
