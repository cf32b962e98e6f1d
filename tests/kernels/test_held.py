"""Gates that are held for a chunk: their powers against the products of gates of tokens, and whole scans by them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.kernels import chunk, held, memory_scan

Inputs = dict[str, Any]

ROUNDING = 1e-12  # float64 sums of a few terms in another order
TOLERANCE = 1e-10  # the same through up to 33 tokens and back

VALUES = [None, 0.0, 1.0]
chunks_of = st.integers(1, 16)
offsets = st.none() | st.integers(0, 15)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gates(alpha: float | None, eta: float | None) -> tuple[Tensor, Tensor]:
    """alpha and eta of two chunks; those of the second at the value that is given."""
    found = random(1, 2, 1), random(1, 2, 1, seed=1)
    for gate, value in zip(found, (alpha, eta), strict=True):
        if value is not None:
            gate[:, 1] = value
    return found


def of_tokens(alpha: Tensor, eta: Tensor, theta: Tensor) -> chunk.Products:
    """The products of the same gates at every token."""
    return chunk.multiply_out(alpha.expand_as(theta), eta.expand_as(theta), theta)


def held_inputs(inputs: Inputs, chunk_size: int, alpha: float | None = None, eta: float | None = None) -> Inputs:
    """`inputs` with alpha and eta of chunks, every other one at the value that is given; theta may be 0 and 1."""
    offset = 0 if inputs["state"] is None else inputs["state"].offset
    T = inputs["q"].shape[1]
    chunks = -(-(offset + T) // chunk_size) if T else 0
    new = {"theta": torch.where(inputs["theta"] < 0.1, 0, inputs["theta"])}
    for name, value in (("alpha", alpha), ("eta", eta)):
        new[name] = inputs[name][:, :1] * (0.5 + random(1, chunks, 1, seed=len(name)) / 2)
        if value is not None:
            new[name][:, ::2] = value
    return inputs | new


# The formulas


def sizes_and_values(test: Callable[..., None]) -> Callable[..., None]:
    for name in ("alpha", "eta"):
        test = pytest.mark.parametrize(name, VALUES)(test)
    return pytest.mark.parametrize("size", [1, 2, 5, 16])(test)


@sizes_and_values
def test_a_graph_has_the_same_powers(
    size: int, alpha: float | None, eta: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = *gates(alpha, eta), random(1, 2, size, seed=2)
    expected = held.gates_of(held.raise_gates(*problem))
    for module in (chunk, held):
        monkeypatch.setattr(module, "is_exporting", lambda: True)
    for x, exact in zip(held.gates_of(held.raise_gates(*problem)), expected, strict=True):
        torch.testing.assert_close(x, exact, rtol=ROUNDING, atol=ROUNDING)


@sizes_and_values
def test_powers_are_the_products_of_gates_of_tokens(size: int, alpha: float | None, eta: float | None) -> None:
    problem = *gates(alpha, eta), random(1, 2, size, seed=2)
    found, expected = held.gates_of(held.raise_gates(*problem)), chunk.gates_of(of_tokens(*problem))
    for x, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(x, wanted, rtol=ROUNDING, atol=ROUNDING)


@sizes_and_values
def test_gradients_are_the_sums_of_those_by_gates_of_tokens(size: int, alpha: float | None, eta: float | None) -> None:
    problem = *gates(alpha, eta), random(1, 2, size, seed=2)
    powers, products = held.raise_gates(*problem), of_tokens(*problem)
    by = chunk.Gates(*(random(*x.shape, seed=10 + i) for i, x in enumerate(held.gates_of(powers))))
    found, expected = held.gates_backward(powers, by), chunk.gates_backward(products, by)
    for gradient, wanted in zip(found, [*(g.sum(-1, keepdim=True) for g in expected[:2]), expected[2]], strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(
    ("steps", "chunk_size", "offset", "expected"),
    [
        (7, 4, 0, [0, 0, 0, 0, 1, 1, 1]),
        (7, 4, 3, [0, 1, 1, 1, 1, 2, 2]),
        (2, 100, 97, [0, 0]),
        (2, 1, 0, [0, 1]),
        (0, 4, 3, []),
    ],
)
def test_every_token_has_the_gates_of_its_chunk(steps: int, chunk_size: int, offset: int, expected: list[int]) -> None:
    gate = random(2, max(expected, default=-1) + 1, 3)
    assert torch.equal(held.to_tokens(gate, steps, chunk_size, offset), gate[:, expected])


# Whole scans


@settings(max_examples=40, deadline=None)
@given(
    T=st.integers(1, 33),
    chunk_size=chunks_of,
    offset=offsets,
    depth=st.integers(1, 3),
    alpha=st.sampled_from(VALUES),
    eta=st.sampled_from(VALUES),
    decay_to=st.sampled_from(["zero", "init"]),
    seed=st.integers(0, 2**16),
)
def test_chunkwise_equals_the_reference(
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
    T: int,
    chunk_size: int,
    offset: int | None,
    depth: int,
    alpha: float | None,
    eta: float | None,
    decay_to: str,
    seed: int,
) -> None:
    inputs = make_inputs(T=T, depth=depth, offset=None if offset is None else offset % chunk_size, seed=seed)
    inputs = held_inputs(inputs, chunk_size, alpha, eta)
    options = {"chunk_size": chunk_size, "decay_to": decay_to, "gates": "chunk"}
    expected = evaluate(inputs, **options, backend="reference")
    # Large steps can make a deep memory explode, and then every order of summation goes its own way.
    assume(all(x.abs().max() < 1e3 for x in expected.values()))
    assert_equal(evaluate(inputs, **options, backend="chunkwise"), expected, tolerance=TOLERANCE)


@pytest.mark.parametrize("backend", ["reference", "chunkwise"])
@pytest.mark.parametrize("offset", [None, 0, 3])
def test_equals_the_same_gates_given_to_every_token(
    offset: int | None, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = held_inputs(make_inputs(T=10, offset=offset), 4, alpha=1, eta=0)
    leaves = {name: inputs[name].requires_grad_() for name in ("alpha", "eta", "theta", "k")}
    chunk_of = (torch.arange(10) + (offset or 0)) // 4
    repeated = {name: inputs[name][:, chunk_of] for name in ("alpha", "eta")}
    found = memory_scan(**inputs, chunk_size=4, gates="chunk", backend=backend)
    expected = memory_scan(**inputs | repeated, chunk_size=4, backend=backend)
    torch.testing.assert_close(found, expected, rtol=ROUNDING, atol=ROUNDING)
    by, by_expected = (torch.autograd.grad(y.sin().sum(), list(leaves.values())) for y in (found, expected))
    for gradient, wanted in zip(by, by_expected, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(
    T=st.integers(1, 30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    chunk_size=chunks_of,
    offset=offsets,
    depth=st.integers(1, 2),
)
def test_parts_with_carried_state_equal_the_whole(
    make_inputs: Callable[..., Inputs], T: int, cuts: list[int], chunk_size: int, offset: int | None, depth: int
) -> None:
    begun = None if offset is None else offset % chunk_size
    inputs = held_inputs(make_inputs(T=T, depth=depth, offset=begun), chunk_size, eta=1)
    inputs["theta"] = 0.02 * inputs["theta"]  # momentum that is carried on whole makes a deep memory explode
    leaves = {name: inputs[name].requires_grad_() for name in ("q", "k", "v", "alpha", "eta", "theta")}
    options = {"chunk_size": chunk_size, "gates": "chunk", "backend": "chunkwise", "return_state": True}
    y, after = memory_scan(**inputs, **options)
    parts, state = [], inputs["state"]
    for first, last in pairwise([0, *sorted(min(cut, T) for cut in cuts), T]):
        at = (begun or 0) + first
        of = slice(at // chunk_size, -(-((begun or 0) + last) // chunk_size) if last > first else at // chunk_size)
        part = {name: x[:, of if name in ("alpha", "eta") else slice(first, last)] for name, x in leaves.items()}
        part_y, state = memory_scan(**part, weights=inputs["weights"], state=state, **options)
        parts.append(part_y)
    ends = [(torch.cat(parts, dim=1), y), *zip(state.weights, after.weights, strict=True)]
    ends += zip(state.momentum, after.momentum, strict=True)
    sums = [sum(pair[i].sin().sum() for pair in ends) for i in (0, 1)]
    found, expected = (torch.autograd.grad(total, list(leaves.values())) for total in sums)
    for x, wanted in (*ends, *zip(found, expected, strict=True)):
        torch.testing.assert_close(x, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_less_is_kept_for_the_backward_than_by_gates_of_tokens(make_inputs: Callable[..., Inputs]) -> None:
    """No matrices of tokens by tokens: three of 16 x 16 for each chunk and head."""

    def kept(inputs: Inputs, gates: str) -> int:
        numbers: list[int] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: numbers.append(x.numel()) or x, lambda x: x):
            memory_scan(**inputs, chunk_size=16, gates=gates, backend="chunkwise")
        return sum(numbers)

    inputs = make_inputs(B=2, T=64, H=2, D=3)
    inputs["q"].requires_grad_()
    assert kept(inputs, "token") - kept(held_inputs(inputs, 16), "chunk") > 2 * 2 * 4 * (2 * 16 * 16)


# Refusals


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("alpha", (2, 7, 2), r"`alpha` must have shape \(batch, chunks, heads\) = \(2, 3, 2\) as `gates` is 'chunk'"),
        ("eta", (2, 2, 2), r"`eta` must have shape .* \(steps 7 from offset 3 on\), got \(2, 2, 2\)"),
        ("theta", (2, 3, 2), r"`theta` must have shape \(batch, steps, heads\) = \(2, 7, 2\), got \(2, 3, 2\)"),
    ],
)
def test_refuses_gates_of_another_number_of_chunks(
    name: str, shape: tuple[int, ...], words: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = held_inputs(make_inputs(offset=3), 4)
    with pytest.raises(ValueError, match=words):
        memory_scan(**inputs | {name: random(*shape)}, chunk_size=4, gates="chunk")


def test_refuses_another_kind_of_gates(make_inputs: Callable[..., Inputs]) -> None:
    with pytest.raises(ValueError, match=r"`gates` must be 'token' or 'chunk', got 'head'"):
        memory_scan(**make_inputs(), chunk_size=4, gates="head")


@pytest.mark.parametrize("offset", [None, 0, 2])
def test_no_steps_need_no_gates(offset: int | None, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=0, offset=offset)
    y, after = memory_scan(**inputs, chunk_size=4, gates="chunk", return_state=True)
    assert y.shape == inputs["q"].shape
    assert after.offset == (offset or 0)
    for w, w_before in zip(
        after.weights, inputs["weights"] if offset is None else inputs["state"].weights, strict=True
    ):
        assert torch.equal(w, w_before.expand_as(w))
