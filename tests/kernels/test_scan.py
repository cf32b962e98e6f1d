"""`memory_scan`: what holds for both plain backends, and what it refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.kernels import MemoryState, memory_scan

Inputs = dict[str, Any]

# The same float64 products in other shapes: sums of a few terms in another order.
ROUNDING = 1e-12
# The same through 40 tokens and back, where the state is rounded nowhere but added up elsewhere.
THROUGH_THE_STATE = 1e-10

SEQUENCES = ("q", "k", "v", "alpha", "eta", "theta")
GROUPS = ("weights", "momentum", "chunk_start")

# The third, "triton", does not take float64: test_triton_scan.py has its tests.
backends = pytest.mark.parametrize("backend", ["chunkwise", "reference"])
depths = pytest.mark.parametrize("depth", [1, 2])


def row(inputs: Inputs, i: int) -> Inputs:
    """The problem of sample i alone."""
    alone = inputs | {name: inputs[name][i : i + 1] for name in SEQUENCES}
    if inputs["state"] is not None:
        alone["state"] = change_state(inputs["state"], lambda x: x[i : i + 1])
    return alone


def change_state(state: MemoryState, change: Callable[[Tensor], Tensor]) -> MemoryState:
    return dataclasses.replace(state, **{name: tuple(map(change, getattr(state, name))) for name in GROUPS})


def constant_gates(inputs: Inputs, **values: float) -> Inputs:
    return inputs | {name: torch.full_like(inputs[name], value) for name, value in values.items()}


def mlp(weights: tuple[Tensor, ...], x: Tensor) -> Tensor:
    """The output of constant weights (heads, in, out) for x (batch, steps, heads, head_dim)."""
    for i, w in enumerate(weights):
        x = torch.einsum("bthi,hij->bthj", x if i == 0 else torch.nn.functional.silu(x), w)
    return x


# The order of time


@backends
@depths
@pytest.mark.parametrize("cut", [1, 6, 8, 13])
def test_output_ignores_the_future(cut: int, depth: int, backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=17, depth=depth)
    other = make_inputs(T=17, depth=depth, seed=1)
    changed = inputs | {name: torch.cat([inputs[name][:, :cut], other[name][:, cut:]], dim=1) for name in SEQUENCES}
    y, y_changed = (memory_scan(**x, chunk_size=8, backend=backend) for x in (inputs, changed))
    torch.testing.assert_close(y_changed[:, :cut], y[:, :cut], rtol=ROUNDING, atol=ROUNDING)
    assert not torch.equal(y_changed[:, cut:], y[:, cut:])


@backends
@depths
@pytest.mark.parametrize("cut", [1, 6, 8, 13])
def test_output_has_no_gradient_by_the_future(
    cut: int, depth: int, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(T=17, depth=depth, offset=0)
    inputs["alpha"][:, ::3], inputs["eta"][:, ::4] = 1, 0
    leaves = [inputs[name].requires_grad_() for name in SEQUENCES]
    y = memory_scan(**inputs, chunk_size=8, backend=backend)
    for gradient in torch.autograd.grad(y[:, :cut].sin().sum(), leaves):
        assert gradient[:, cut:].count_nonzero() == 0
        assert gradient[:, :cut].count_nonzero() > 0


# kernel-traps 4: any split, gradients through the state too.
@settings(max_examples=30, deadline=None)
@given(
    T=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    chunk_size=st.integers(1, 16),
    offset=st.none() | st.integers(0, 15),
    depth=st.integers(1, 3),
    decay_to=st.sampled_from(["zero", "init"]),
    backend=st.sampled_from(["chunkwise", "chunkwise", "reference"]),
)
def test_parts_with_carried_state_equal_the_whole(
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
    T: int,
    cuts: list[int],
    chunk_size: int,
    offset: int | None,
    depth: int,
    decay_to: str,
    backend: str,
) -> None:
    inputs = make_inputs(B=1, T=T, H=1, depth=depth, offset=None if offset is None else offset % chunk_size)
    options = {"chunk_size": chunk_size, "decay_to": decay_to, "backend": backend}
    parts = evaluate(inputs, cuts=sorted(min(cut, T) for cut in cuts), **options)
    assert_equal(parts, evaluate(inputs, **options), tolerance=THROUGH_THE_STATE)


@backends
@depths
def test_token_by_token_equals_the_whole(
    depth: int,
    backend: str,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
) -> None:
    inputs = make_inputs(T=13, depth=depth, offset=3)
    whole = evaluate(inputs, chunk_size=8, backend=backend)
    parts = evaluate(inputs, cuts=range(1, 13), chunk_size=8, backend=backend)
    assert_equal(parts, whole, tolerance=THROUGH_THE_STATE)


@backends
def test_chunk_start_is_ignored_at_offset_0(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(offset=0)
    y = memory_scan(**inputs, chunk_size=4, backend=backend)
    without = [(), tuple(torch.full_like(x, torch.nan) for x in inputs["state"].chunk_start)]
    for chunk_start in without:
        state = dataclasses.replace(inputs["state"], chunk_start=chunk_start)
        assert torch.equal(memory_scan(**inputs | {"state": state}, chunk_size=4, backend=backend), y)


# One sample at a time


@backends
@pytest.mark.parametrize("offset", [None, 2])
def test_a_row_alone_equals_its_row_in_the_batch(
    offset: int | None,
    backend: str,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
) -> None:
    inputs = make_inputs(B=3, offset=offset)
    together = evaluate(inputs, chunk_size=4, backend=backend)
    alone = [evaluate(row(inputs, i), chunk_size=4, backend=backend) for i in range(3)]
    # The samples share W_0, so its gradients add up; everything else has its own row.
    shared = {name: sum(x[name] for x in alone) for name in together if "by weights" in name}
    own = {name: torch.cat([x[name] for x in alone]) for name in together if name not in shared}
    assert_equal(shared | own, together, tolerance=ROUNDING)


# What the gates do at their ends


@backends
@depths
def test_forgetting_all_and_writing_nothing_empties_the_memory(
    depth: int, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = constant_gates(make_inputs(depth=depth, offset=1), alpha=1, eta=0, theta=0)
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    for x in (y, *after.weights, *after.momentum):
        assert torch.equal(x, torch.zeros_like(x))


@backends
@depths
def test_forgetting_all_towards_init_restores_the_initial_memory(
    depth: int, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = constant_gates(make_inputs(depth=depth, offset=1), alpha=1, eta=0, theta=0)
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, decay_to="init", backend=backend)
    for w, w_0 in zip(after.weights, inputs["weights"], strict=True):
        assert torch.equal(w, w_0.expand_as(w))
    torch.testing.assert_close(y, mlp(inputs["weights"], inputs["q"]), rtol=ROUNDING, atol=ROUNDING)


@backends
@depths
@pytest.mark.parametrize("decay_to", ["zero", "init"])
def test_a_memory_that_neither_forgets_nor_writes_stays_as_it_began(
    decay_to: str, depth: int, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = constant_gates(make_inputs(depth=depth), alpha=0, theta=0)
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, decay_to=decay_to, backend=backend)
    torch.testing.assert_close(y, mlp(inputs["weights"], inputs["q"]), rtol=ROUNDING, atol=ROUNDING)
    for w, s, w_0 in zip(after.weights, after.momentum, inputs["weights"], strict=True):
        assert torch.equal(w, w_0.expand_as(w))
        assert torch.equal(s, torch.zeros_like(s))


@backends
@depths
def test_keys_of_zero_write_nothing(depth: int, backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(depth=depth)
    inputs["k"] = torch.zeros_like(inputs["k"]).requires_grad_()
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    kept = (1 - inputs["alpha"]).prod(dim=1)[..., None, None]
    for w, w_0 in zip(after.weights, inputs["weights"], strict=True):
        torch.testing.assert_close(w, kept * w_0, rtol=ROUNDING, atol=ROUNDING)
    (gradient,) = torch.autograd.grad(y.sum(), inputs["k"])
    assert gradient.isfinite().all()
    assert gradient.count_nonzero() > 0


# Nothing there

nothing = pytest.mark.parametrize("size", [{"T": 0}, {"B": 0}, {"B": 0, "T": 0}], ids=str)


# kernel-traps 13: an empty sequence, an empty batch.
@backends
@nothing
@pytest.mark.parametrize("offset", [None, 0, 2])
def test_nothing_in_gives_nothing_out(
    offset: int | None, size: dict[str, int], backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(**size, offset=offset)
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    assert y.shape == inputs["q"].shape
    assert y.dtype == torch.float64
    assert y.numel() == 0
    assert after.offset == ((offset or 0) + inputs["q"].shape[1]) % 4
    for w, s, w_0 in zip(after.weights, after.momentum, inputs["weights"], strict=True):
        assert w.shape == s.shape == (inputs["q"].shape[0], *w_0.shape)


@backends
@pytest.mark.parametrize("offset", [0, 2])
def test_no_steps_leave_the_state_as_it_was(offset: int, backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=0, offset=offset)
    state = inputs["state"]
    _, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    assert after.offset == offset
    for group in GROUPS if offset else GROUPS[:2]:
        for x, x_before in zip(getattr(after, group), getattr(state, group), strict=True):
            assert torch.equal(x, x_before)


@backends
def test_no_steps_without_a_state_leave_the_initial_memory(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=0)
    _, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    for w, s, w_0 in zip(after.weights, after.momentum, inputs["weights"], strict=True):
        assert torch.equal(w, w_0.expand_as(w))
        assert torch.equal(s, torch.zeros_like(s))


@backends
def test_the_gradient_by_an_empty_batch_is_zero(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(B=0)
    weights = [w.requires_grad_() for w in inputs["weights"]]
    y = memory_scan(**inputs, chunk_size=4, backend=backend)
    for gradient, w in zip(torch.autograd.grad(y.sum(), weights), weights, strict=True):
        assert torch.equal(gradient, torch.zeros_like(w))


# Gradients asked for in part


# kernel-traps 14: a state given or not, its gradient given or not, only some inputs requiring one.
@backends
@pytest.mark.parametrize("offset", [None, 0, 2])
@pytest.mark.parametrize("of", [("y",), ("state",), ("y", "state")], ids=str)
def test_a_gradient_asked_for_alone_equals_the_same_among_all(
    of: tuple[str, ...],
    offset: int | None,
    backend: str,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    assert_equal: Callable[..., None],
) -> None:
    inputs = make_inputs(T=5, offset=offset)
    options = {"of": of, "chunk_size": 4, "backend": backend}
    everything = evaluate(inputs, **options)
    names = [name.removeprefix("gradient by ") for name in everything if name.startswith("gradient by ")]
    assert len(names) == (8 if offset is None else 14)
    unused = {
        *(("q",) if of == ("state",) else ()),
        *(("weights.0", "weights.1") if offset is not None else ()),
        *(("state.chunk_start.0", "state.chunk_start.1") if offset == 0 else ()),
    }
    assert {name for name in names if everything[f"gradient by {name}"].count_nonzero() == 0} == unused
    for name in [name for name in names if name not in unused]:  # alone, nothing would depend on the others
        alone = evaluate(inputs, by=[name], **options)
        kept = {n: x for n, x in everything.items() if not n.startswith("gradient by ") or n == f"gradient by {name}"}
        assert_equal(alone, kept, tolerance=ROUNDING)


@backends
@pytest.mark.parametrize("T", [7, 8])
def test_asking_for_the_state_changes_no_output(
    T: int, backend: str, make_inputs: Callable[..., Inputs], assert_equal: Callable[..., None]
) -> None:
    inputs = make_inputs(T=T, offset=2)

    def values_and_gradients(return_state: bool) -> dict[str, Tensor]:
        leaves = {name: inputs[name].clone().requires_grad_() for name in SEQUENCES}
        result = memory_scan(**inputs | leaves, chunk_size=4, return_state=return_state, backend=backend)
        y = result[0] if return_state else result
        gradients = torch.autograd.grad(y.sin().sum(), list(leaves.values()))
        return {"y": y} | dict(zip(leaves, gradients, strict=True))

    assert_equal(values_and_gradients(False), values_and_gradients(True), tolerance=ROUNDING)


@backends
def test_detach_cuts_the_state_from_its_graph(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=6)
    weights = tuple(w.requires_grad_() for w in inputs["weights"])
    _, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    cut = after.detach()
    assert cut.offset == after.offset == 2
    for group in GROUPS:
        for x, x_cut in zip(getattr(after, group), getattr(cut, group), strict=True):
            assert x.requires_grad
            assert not x_cut.requires_grad
            assert torch.equal(x, x_cut)
    q = inputs["q"].requires_grad_()
    y = memory_scan(**inputs | {"state": cut}, chunk_size=4, backend=backend)
    gradients = torch.autograd.grad(y.sum(), [q, *weights], allow_unused=True)
    assert [g is None for g in gradients] == [False, True, True]


@backends
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_output_is_the_same_without_gradients(
    mode: Callable[[], Any], backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(offset=2)
    expected = memory_scan(**inputs, chunk_size=4, backend=backend)
    with mode():
        y = memory_scan(**inputs, chunk_size=4, backend=backend)
    assert torch.equal(y, expected)


# Layouts


# kernel-traps 8: views as inputs, and views as incoming gradients.
@backends
def test_views_equal_their_copies(
    backend: str, make_inputs: Callable[..., Inputs], assert_equal: Callable[..., None]
) -> None:
    inputs = make_inputs(T=9, D=3)
    views = inputs | {
        "q": inputs["q"].permute(0, 2, 1, 3).contiguous().transpose(1, 2),
        "k": inputs["k"][:1].expand(2, -1, -1, -1),
        "v": inputs["v"].repeat_interleave(2, dim=-1)[..., ::2],
        "alpha": inputs["alpha"][:, :, :1].expand(-1, -1, 2),
        "eta": inputs["eta"].permute(2, 1, 0).contiguous().permute(2, 1, 0),
        "theta": inputs["theta"][:, :1].expand(-1, 9, -1),
        "weights": (inputs["weights"][0][:1].expand(2, -1, -1), inputs["weights"][1].mT.contiguous().mT),
    }
    copies = {name: x.contiguous() if isinstance(x, Tensor) else x for name, x in views.items()}
    copies["weights"] = tuple(w.contiguous() for w in views["weights"])

    def values_and_gradients(inputs: Inputs) -> dict[str, Tensor]:
        leaves = {name: inputs[name].detach().requires_grad_() for name in SEQUENCES}
        weights = tuple(w.detach().requires_grad_() for w in inputs["weights"])
        y = memory_scan(**leaves, weights=weights, chunk_size=4, backend=backend)
        gradients = torch.autograd.grad(y.sin().sum(), [*leaves.values(), *weights])
        return {"y": y} | dict(zip([*leaves, "W", "W'"], gradients, strict=True))

    assert_equal(values_and_gradients(views), values_and_gradients(copies), tolerance=ROUNDING)


@backends
@pytest.mark.parametrize("layout", ["a view of a cat", "expanded", "strided"])
def test_incoming_gradients_may_be_views(
    layout: str, backend: str, make_inputs: Callable[..., Inputs], assert_equal: Callable[..., None]
) -> None:
    inputs = make_inputs(T=9)
    cotangent = torch.randn(inputs["q"].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def gradients(scalar_of: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        leaves = {name: inputs[name].detach().clone().requires_grad_() for name in SEQUENCES}
        y = memory_scan(**inputs | leaves, chunk_size=4, backend=backend)
        scalar_of(y).backward()
        return {name: x.grad for name, x in leaves.items()}

    def against(cotangent: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda y: (y * cotangent).sum()

    if layout == "a view of a cat":
        other = torch.cat([cotangent, cotangent], dim=-1)
        values = gradients(lambda y: (torch.cat([y, inputs["q"]], dim=-1) * other).sum())
    elif layout == "expanded":
        values, cotangent = gradients(Tensor.sum), torch.ones_like(cotangent)
    else:
        values = gradients(lambda y: (y.permute(3, 2, 1, 0) * cotangent.permute(3, 2, 1, 0).contiguous()).sum())
    assert_equal(values, gradients(against(cotangent)), tolerance=ROUNDING)


@backends
@pytest.mark.parametrize("offset", [None, 2])
def test_inputs_are_left_as_they_were(offset: int | None, backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs, same = make_inputs(offset=offset), make_inputs(offset=offset)
    leaves = {name: inputs[name].requires_grad_() for name in SEQUENCES}
    y, after = memory_scan(**inputs | leaves, chunk_size=4, return_state=True, backend=backend)
    (y.sum() + after.weights[0].sum()).backward()
    for name in SEQUENCES:
        assert torch.equal(inputs[name], same[name])
    groups = [(inputs["weights"], same["weights"])]
    if offset is not None:
        groups += [(getattr(inputs["state"], name), getattr(same["state"], name)) for name in GROUPS]
    for group, expected in groups:
        assert all(torch.equal(*pair) for pair in zip(group, expected, strict=True))


# Precision

# float32 sums of a few dozen terms near 1, then one rounding to the dtype of `q`: half its epsilon, relative.
SINGLE = 1e-5


# kernel-traps 9: float32 gates beside 16-bit q, k, v; 10: the state is never 16 bits.
@backends
@pytest.mark.parametrize("gates", [torch.float32, None], ids=["float32 gates", "gates as q"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_narrow_inputs_are_computed_in_float32(
    dtype: torch.dtype, gates: torch.dtype | None, backend: str, make_inputs: Callable[..., Inputs]
) -> None:
    exact = make_inputs(T=17, offset=2)
    rounded = {name: exact[name].to(dtype if name in "qkv" else gates or dtype) for name in SEQUENCES}
    rounded["weights"] = tuple(w.float() for w in exact["weights"])
    rounded["state"] = change_state(exact["state"], Tensor.float)
    same = {name: rounded[name].double() for name in SEQUENCES}

    expected, expected_after = memory_scan(**exact | same, chunk_size=8, return_state=True, backend=backend)
    y, after = memory_scan(**rounded, chunk_size=8, return_state=True, backend=backend)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), expected, rtol=torch.finfo(dtype).eps / 2 + SINGLE, atol=SINGLE)
    for group in GROUPS:
        for x, x_exact in zip(getattr(after, group), getattr(expected_after, group), strict=True):
            assert x.dtype == torch.float32
            torch.testing.assert_close(x.double(), x_exact, rtol=SINGLE, atol=SINGLE)


@backends
def test_float64_inputs_keep_a_float64_state(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs()
    single = {name: inputs[name].float() for name in ("alpha", "eta", "theta")}
    inputs |= {name: x.double() for name, x in single.items()}
    y, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend=backend)
    assert {x.dtype for x in (y, *after.weights, *after.momentum, *after.chunk_start)} == {torch.float64}
    # Narrower gates are widened without loss.
    assert torch.equal(memory_scan(**inputs | single, chunk_size=4, backend=backend), y)


@backends
def test_gradients_come_in_the_dtype_of_their_input(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(dtype=torch.float32)
    inputs |= {name: inputs[name].bfloat16() for name in ("q", "k", "v")}
    leaves = [inputs[name].requires_grad_() for name in SEQUENCES]
    memory_scan(**inputs, chunk_size=4, backend=backend).float().square().sum().backward()
    assert [x.grad.dtype for x in leaves] == 3 * [torch.bfloat16] + 3 * [torch.float32]
    assert all(x.grad.isfinite().all() and x.grad.count_nonzero() > 0 for x in leaves)


@backends
def test_autocast_changes_nothing(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(dtype=torch.float32)
    leaves = [inputs[name].requires_grad_() for name in SEQUENCES]
    expected = memory_scan(**inputs, chunk_size=4, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = memory_scan(**inputs, chunk_size=4, backend=backend)
    assert y.dtype == torch.float32
    assert torch.equal(y, expected)
    gradients = (torch.autograd.grad(x.sum(), leaves) for x in (y, expected))
    assert all(torch.equal(*pair) for pair in zip(*gradients, strict=True))


# kernel-traps 10: large values.
@backends
@depths
def test_large_values_stay_finite_and_right(depth: int, backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=17, depth=depth)
    inputs |= {"q": 1e3 * inputs["q"], "v": 1e3 * inputs["v"], "theta": 1e-2 * inputs["theta"]}
    single = {name: inputs[name].float() for name in SEQUENCES}
    single |= {"weights": tuple(w.float() for w in inputs["weights"]), "state": None}
    expected = memory_scan(**inputs, chunk_size=8, backend=backend)
    y = memory_scan(**single, chunk_size=8, backend=backend)
    assert expected.abs().max() > 1e3
    torch.testing.assert_close(y.double(), expected, rtol=SINGLE, atol=SINGLE * expected.abs().max().item())


@backends
def test_float16_inputs_near_overflow_leave_a_finite_state(backend: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs = constant_gates(make_inputs(T=17, depth=1), alpha=0, eta=0, theta=1e-3)
    largest = torch.finfo(torch.float16).max
    half = {name: inputs[name].half() for name in ("q", "k")} | {"v": torch.full_like(inputs["v"], largest).half()}
    gates = {name: inputs[name].float() for name in ("alpha", "eta", "theta")}
    weights = tuple(w.float() for w in inputs["weights"])
    _, after = memory_scan(**half, **gates, weights=weights, chunk_size=8, return_state=True, backend=backend)
    # The surprise of a single token, 2 k (k W - v), is past float16 where k is near 1.
    doubled = {name: x.double() for name, x in (half | gates).items()}
    _, exact = memory_scan(**doubled, weights=inputs["weights"], chunk_size=8, return_state=True, backend=backend)
    scale = exact.weights[0].abs().max().item()
    assert after.weights[0].isfinite().all()
    torch.testing.assert_close(after.weights[0].double(), exact.weights[0], rtol=0, atol=SINGLE * scale)


# Refusals


def shaped(*shape: int, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


# Of a problem with B = 2, T = 7, H = 2, D = 3 and the weights (2, 3, 6), (2, 6, 3).
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": shaped(2, 7, 6)}, r"`q` must have shape \(batch, steps, heads, head_dim\), got \(2, 7, 6\)"),
        ({"k": shaped(2, 6, 2, 3)}, r"`k` must have the shape of `q`, \(2, 7, 2, 3\), got \(2, 6, 2, 3\)"),
        ({"v": shaped(2, 7, 2, 4)}, r"`v` must have the shape of `q`, \(2, 7, 2, 3\), got \(2, 7, 2, 4\)"),
        (
            {"k": shaped(2, 7, 2, 3, dtype=torch.float32)},
            r"`k` must have the dtype of `q`, torch.float64, got torch.float32",
        ),
        (
            {"v": shaped(2, 7, 2, 3, dtype=torch.float16)},
            r"`v` must have the dtype of `q`, torch.float64, got torch.float16",
        ),
        ({"alpha": shaped(2, 7)}, r"`alpha` must have shape \(batch, steps, heads\) = \(2, 7, 2\), got \(2, 7\)"),
        ({"eta": shaped(2, 2, 7)}, r"`eta` must have shape \(batch, steps, heads\) = \(2, 7, 2\), got \(2, 2, 7\)"),
        ({"theta": shaped(1, 7, 2)}, r"`theta` must have shape \(batch, steps, heads\) = \(2, 7, 2\), got \(1, 7, 2\)"),
        ({"theta": shaped(2, 7, 2, dtype=torch.int64)}, r"`theta` must be floating point, got torch.int64"),
        ({"weights": [shaped(2, 3, 3)]}, r"`weights` must be a tuple of at least one tensor \(heads, in, out\)"),
        ({"weights": ()}, r"`weights` must be a tuple of at least one tensor \(heads, in, out\)"),
        (
            {"weights": (shaped(3, 3),)},
            r"`weights\[0\]` must have shape \(heads, in, out\) = \(2, 3, 3\), got \(3, 3\)",
        ),
        ({"weights": (shaped(1, 3, 3),)}, r"`weights\[0\]` must have shape .* = \(2, 3, 3\), got \(1, 3, 3\)"),
        ({"weights": (shaped(2, 3, 4),)}, r"`weights\[0\]` must have shape .* = \(2, 3, 3\), got \(2, 3, 4\)"),
        ({"weights": (shaped(2, 4, 6), shaped(2, 6, 3))}, r"`weights\[0\]` .* = \(2, 3, any\), got \(2, 4, 6\)"),
        ({"weights": (shaped(2, 3, 6), shaped(2, 5, 3))}, r"`weights\[1\]` .* = \(2, 6, 3\), got \(2, 5, 3\)"),
        ({"weights": (shaped(2, 3, 6), shaped(2, 6, 4))}, r"`weights\[1\]` .* = \(2, 6, 3\), got \(2, 6, 4\)"),
        ({"chunk_size": 0}, r"`chunk_size` must be an integer >= 1, got 0"),
        ({"chunk_size": -1}, r"`chunk_size` must be an integer >= 1, got -1"),
        ({"chunk_size": True}, r"`chunk_size` must be an integer >= 1, got True"),
        ({"chunk_size": 2.0}, r"`chunk_size` must be an integer >= 1, got 2\.0"),
        ({"backend": "cuda"}, r"`backend` must be one of \[.*'chunkwise'.*\], got 'cuda'"),
        ({"decay_to": "one"}, r"`decay_to` must be 'zero' or 'init', got 'one'"),
        ({"k": shaped(2, 7, 2, 3, device="meta")}, r"`k` must be on the device of `q`, cpu, got meta"),
        ({"eta": shaped(2, 7, 2, device="meta")}, r"`eta` must be on the device of `q`, cpu, got meta"),
        ({"weights": (shaped(2, 3, 3, device="meta"),)}, r"`weights\[0\]` must be on the device of `q`, cpu, got meta"),
    ],
)
def test_refuses_what_does_not_fit(change: Inputs, words: str, make_inputs: Callable[..., Inputs]) -> None:
    with pytest.raises(ValueError, match=words):
        memory_scan(**make_inputs() | {"chunk_size": 4} | change)


@pytest.mark.parametrize("name", ["alpha", "theta", "weights"])
def test_refuses_float64_beside_narrower_queries(name: str, make_inputs: Callable[..., Inputs]) -> None:
    inputs, wide = make_inputs(dtype=torch.float32), make_inputs()
    with pytest.raises(ValueError, match=rf"`{name}.*` is float64 beside torch.float32 queries .*; convert one"):
        memory_scan(**inputs | {name: wide[name]}, chunk_size=4)


def test_refuses_integer_queries(make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(dtype=torch.float32)
    with pytest.raises(ValueError, match=r"`q` must be floating point, got torch.int64"):
        memory_scan(**inputs | {name: inputs[name].long() for name in ("q", "k", "v")}, chunk_size=4)


# kernel-traps 9: a state of another dtype read out of bounds.
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": (shaped(2, 2, 3, 6),)}, r"`state.weights` must hold 2 layers as `weights` does, got 1"),
        ({"momentum": ()}, r"`state.momentum` must hold 2 layers as `weights` does, got 0"),
        ({"chunk_start": ()}, r"`state.chunk_start` must hold 2 layers as `weights` does, got 0"),
        (
            {"weights": (shaped(1, 2, 3, 6), shaped(1, 2, 6, 3))},
            r"`state.weights\[0\]` must have shape \(batch, heads, in, out\) = \(2, 2, 3, 6\), got \(1, 2, 3, 6\)",
        ),
        ({"momentum": (shaped(2, 2, 3, 6), shaped(2, 2, 5, 3))}, r"`state.momentum\[1\]` .* got \(2, 2, 5, 3\)"),
        ({"chunk_start": (shaped(2, 3, 6), shaped(2, 6, 3))}, r"`state.chunk_start\[0\]` .* got \(2, 3, 6\)"),
        (
            {"momentum": (shaped(2, 2, 3, 6), shaped(2, 2, 6, 3, dtype=torch.float32))},
            r"`state.momentum\[1\]` must be torch.float64 for torch.float64 inputs, got torch.float32",
        ),
        (
            {"weights": (shaped(2, 2, 3, 6, device="meta"), shaped(2, 2, 6, 3))},
            r"`state.weights\[0\]` must be on the device of `q`, cpu, got meta",
        ),
        ({"offset": 4}, r"`state.offset` must be an integer in \[0, chunk_size = 4\), got 4"),
        ({"offset": -1}, r"`state.offset` must be an integer in \[0, chunk_size = 4\), got -1"),
        ({"offset": 1.0}, r"`state.offset` must be an integer in \[0, chunk_size = 4\), got 1\.0"),
    ],
)
def test_refuses_a_state_that_does_not_fit(
    change: dict[str, Any], words: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(offset=1)
    state = dataclasses.replace(inputs["state"], **change)
    with pytest.raises(ValueError, match=words):
        memory_scan(**inputs | {"state": state}, chunk_size=4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_refuses_a_state_of_another_dtype_beside_16_bit_inputs(
    dtype: torch.dtype, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(offset=1, dtype=torch.float32)
    inputs |= {name: inputs[name].bfloat16() for name in ("q", "k", "v")}
    weights = tuple(w.to(dtype) for w in inputs["state"].weights)
    state = dataclasses.replace(inputs["state"], weights=weights)
    words = rf"`state.weights\[0\]` must be torch.float32 for torch.bfloat16 inputs, got {dtype}"
    with pytest.raises(ValueError, match=words):
        memory_scan(**inputs | {"state": state}, chunk_size=4)
