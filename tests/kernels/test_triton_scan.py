"""The Triton kernels: outputs, final state and every gradient against the float64 reference.

They run on a GPU where there is one, else in triton's interpreter. The numbers at the tests are those of the public
reports that each restates. In `experiments/gpu_check.py`: more programs than a grid takes (1), offsets past 2^31 (2),
every launch of every size (11; races are in test_triton_races.py), compilations as they happen (12; what would be
compiled is in test_triton_compile.py, as is shared memory, 16) and a second GPU (18). The exact vectors are in
test_oracle.py (20).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from titans_ts.kernels import agreement, checks, memory_scan, verdicts

triton = pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_launch, triton_scan  # noqa: E402

interpreted = pytest.mark.skipif(not triton_launch.INTERPRETED, reason="kernels run on a CPU in the interpreter alone")

Inputs = dict[str, Any]
Check = Callable[..., dict[str, Tensor]]

SMALLEST_SCALE = 0.1  # what cancels to zero leaves the rounding of terms near 1 behind
ROUNDING = 1e-6  # float32 products of gates, in another order
# The interpreter gets bfloat16 wrong.
HALVES = (torch.float16,) if triton_launch.INTERPRETED else (torch.float16, torch.bfloat16)

SEQUENCES = ("q", "k", "v", "alpha", "eta", "theta")
GATES = ("alpha", "eta", "theta")
GROUPS = ("weights", "momentum", "chunk_start")

# Of a launch, what the interpreter can show: its warps and stages are a GPU's.
Launch = partial(triton_launch.Launch, warps=4, backward_warps=4)

depths = pytest.mark.parametrize("depth", [1, 2])
decays = pytest.mark.parametrize("decay_to", ["zero", "init"])


def converted(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """`inputs` with every tensor changed."""
    new = {name: change(inputs[name]) for name in SEQUENCES} | {"weights": tuple(map(change, inputs["weights"]))}
    state = inputs["state"]
    if state is not None:
        state = dataclasses.replace(state, **{name: tuple(map(change, getattr(state, name))) for name in GROUPS})
    return new | {"state": state}


def everything(
    inputs: Inputs, scalar_of: Callable[[Tensor], Tensor] = lambda y: y.sin().sum(), **options: Any
) -> dict[str, Tensor]:
    """The outputs, and the gradients of a function of y by tensors in the very layout of `inputs`."""
    leaves = {name: inputs[name].detach().requires_grad_() for name in SEQUENCES}
    weights = tuple(w.detach().requires_grad_() for w in inputs["weights"])
    options = {"backend": "triton"} | options
    y, after = memory_scan(**leaves, weights=weights, state=inputs["state"], return_state=True, **options)
    by = [*leaves.values(), *weights]
    gradients = torch.autograd.grad(scalar_of(y), by, allow_unused=True, materialize_grads=True)
    names = [f"gradient by {name}" for name in [*leaves, *(f"weights.{i}" for i in range(len(weights)))]]
    finals = {f"final {n}.{i}": x.detach() for n in GROUPS for i, x in enumerate(getattr(after, n))}
    return {"y": y.detach(), **finals, **dict(zip(names, gradients, strict=True))}


def assert_same_bits(values: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert values.keys() == expected.keys()
    for name, x in expected.items():
        assert torch.equal(values[name], x), name
        assert x.isfinite().all(), name


@pytest.fixture(scope="session")
def make(make_inputs: Callable[..., Inputs], device: torch.device) -> Callable[..., Inputs]:
    """A small problem in float32 where the kernels run; one sample, one head, unless told."""

    def make(**size: Any) -> Inputs:
        inputs = make_inputs(**{"B": 1, "H": 1, "D": 8, "expansion": 1, "dtype": torch.float32} | size)
        return converted(inputs, lambda x: x.to(device))

    return make


@pytest.fixture(scope="session")
def compare(assert_equal: Callable[..., None], tolerances: Any) -> Callable[..., None]:
    def compare(values: dict[str, Tensor], expected: dict[str, Tensor], half: bool = False) -> None:
        assert values.keys() == expected.keys()
        outputs, gradients = tolerances[2:4] if half else tolerances[:2]
        for is_gradient, tolerance in ((False, outputs), (True, gradients)):
            names = [name for name in expected if name.startswith("gradient") == is_gradient]
            pair = ({name: x[name] for name in names} for x in (values, expected))
            assert_equal(*pair, tolerance=tolerance, smallest_scale=SMALLEST_SCALE)

    return compare


@pytest.fixture
def check(evaluate: Callable[..., dict[str, Tensor]], compare: Callable[..., None]) -> Check:
    """The kernels' values, once they equal those that the reference has for the same numbers in float64."""

    def check(inputs: Inputs, *, cuts: Sequence[int] = (), half: bool = False, **options: Any) -> dict[str, Tensor]:
        expected = evaluate(converted(inputs, Tensor.double), backend="reference", **options)
        values = evaluate(inputs, cuts=cuts, backend="triton", **options)
        compare(values, expected, half)
        return values

    return check


# Lengths, chunks and sizes


# 3: lengths below the chunk and not a multiple of it; 14: a state or none.
@depths
@pytest.mark.parametrize(
    ("T", "chunk_size", "offset", "decay_to"),
    [
        (1, 16, None, "zero"),
        (1, 16, 5, "init"),
        (3, 16, 5, "zero"),  # ends in the chunk it began in
        (15, 16, 0, "init"),
        (16, 16, None, "init"),
        (17, 16, 0, "zero"),
        (33, 16, 5, "init"),
        (63, 16, None, "zero"),
        (100, 16, 9, "init"),
        (5, 1, 0, "init"),
        (17, 8, 3, "init"),
        (33, 13, 12, "zero"),
        (63, 64, 5, "zero"),
        (100, 64, None, "init"),
    ],
)
def test_equals_the_reference(
    T: int, chunk_size: int, offset: int | None, decay_to: str, depth: int, make: Callable[..., Inputs], check: Check
) -> None:
    check(make(T=T, depth=depth, offset=offset), chunk_size=chunk_size, decay_to=decay_to)


# 7: padded lanes, of tokens, of the head and of the hidden layer.
@depths
@pytest.mark.parametrize(
    ("D", "expansion", "offset", "decay_to"),
    [(1, 1, None, "zero"), (3, 2, 2, "init"), (20, 1, 2, "zero"), (16, 2, None, "init"), (32, 1, None, "zero")],
)
def test_equals_the_reference_at_any_width(
    D: int, expansion: int, offset: int | None, decay_to: str, depth: int, make: Callable[..., Inputs], check: Check
) -> None:
    check(make(T=9, depth=depth, D=D, expansion=expansion, offset=offset), chunk_size=8, decay_to=decay_to)


@depths
def test_gates_of_chunks_are_those_of_their_tokens(depth: int, make: Callable[..., Inputs], check: Check) -> None:
    inputs = make(T=9, depth=depth, offset=3)
    held = {name: inputs[name][:, :3] for name in ("alpha", "eta")}
    check(inputs | held, chunk_size=4, gates="chunk")


# The gradients by what the samples share are added up: over programs, and over the samples that a program takes.
@depths
@decays
def test_equals_the_reference_for_more_samples_than_programs(
    decay_to: str, depth: int, make: Callable[..., Inputs], check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_launch, "resident", lambda device, launch: 2)
    check(make(B=3, H=2, T=5, depth=depth), chunk_size=8, decay_to=decay_to)


# 4: any split, gradients through the state too.
@depths
@pytest.mark.parametrize(("cuts", "decay_to"), [([13], "zero"), ([1, 8, 8], "init"), ([3, 5], "zero")], ids=str)
def test_parts_with_carried_state_equal_the_whole(
    cuts: list[int], decay_to: str, depth: int, make: Callable[..., Inputs], check: Check
) -> None:
    check(make(T=17, depth=depth, offset=2), cuts=cuts, chunk_size=8, decay_to=decay_to)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    T=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 40), max_size=3),
    chunk_size=st.integers(4, 20),
    offset=st.none() | st.integers(0, 19),
    size=st.fixed_dictionaries(
        {
            "B": st.integers(1, 3),
            "H": st.integers(1, 2),
            "D": st.integers(1, 9),
            "depth": st.integers(1, 2),
            "expansion": st.integers(1, 2),
            "seed": st.integers(0, 2**16),
        }
    ),
    ends=st.fixed_dictionaries({name: st.sampled_from([None, 0.0, 1.0]) for name in GATES[:2]}),
    decay_to=st.sampled_from(["zero", "init"]),
)
def test_any_problem_in_any_parts_equals_the_reference(
    make: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    compare: Callable[..., None],
    T: int,
    cuts: list[int],
    chunk_size: int,
    offset: int | None,
    size: dict[str, int],
    ends: dict[str, float | None],
    decay_to: str,
) -> None:
    inputs = make(T=T, offset=None if offset is None else offset % chunk_size, **size)
    inputs["theta"] /= chunk_size
    for name, end in ends.items():
        if end is not None:
            inputs[name][:, ::3] = end
    options: dict[str, Any] = {"chunk_size": chunk_size, "decay_to": decay_to}
    expected = evaluate(converted(inputs, Tensor.double), backend="reference", **options)
    values = evaluate(inputs, cuts=sorted(min(cut, T) for cut in cuts), backend="triton", **options)
    compare(values, expected)


# Gates and values at their ends


# 5: gates of exactly 0 and 1.
PATTERNS = {
    "0 everywhere": lambda gate, _: torch.zeros_like(gate),
    "1 everywhere": lambda gate, _: torch.ones_like(gate),
    "0 at borders": lambda gate, border: gate.masked_fill(border, 0),
    "1 at borders": lambda gate, border: gate.masked_fill(border, 1),
    "0 at one token": lambda gate, _: gate.index_fill(1, torch.tensor(3, device=gate.device), 0),
    "1 at one token": lambda gate, _: gate.index_fill(1, torch.tensor(3, device=gate.device), 1),
    "0 and 1 sprinkled": lambda gate, _: (3 * gate - 1).clamp(0, 1),
}


@pytest.mark.parametrize(
    ("depth", "decay_to"),
    [(1, "zero"), (2, "init"), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((1, "init"), (2, "zero")))],
)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_equals_the_reference_with_every_gate_at(
    pattern: str, depth: int, decay_to: str, make: Callable[..., Inputs], check: Check
) -> None:
    T, chunk_size, offset = 9, 4, 2
    inputs = make(T=T, depth=depth, offset=offset)
    border = ((torch.arange(T, device=inputs["q"].device) + offset) % chunk_size == 0)[:, None]
    check(inputs | {name: PATTERNS[pattern](inputs[name], border) for name in GATES}, chunk_size=4, decay_to=decay_to)


# 6: rounding of a sum of logarithms makes a product exceed 1, then overflow.
@pytest.mark.parametrize("alpha", [0.0, 1e-7, 1 - 1e-7])
def test_products_of_gates_never_exceed_one(alpha: float, make: Callable[..., Inputs]) -> None:
    inputs = make(T=300, depth=1)
    same = torch.ones_like(inputs["q"])
    # Where nothing is written, the output for a constant query is the product of (1 - alpha) times the first output.
    gates = {"alpha": torch.full_like(inputs["alpha"], alpha), "theta": torch.zeros_like(inputs["theta"])}
    y = memory_scan(**inputs | gates | {"q": same}, chunk_size=64, backend="triton").abs()
    assert y.isfinite().all()
    assert y[:, 0].min() > 0
    assert (y[:, 1:] <= y[:, :-1] * (1 + ROUNDING)).all()


# 5: keys of zero; 19: a memory that starts at exactly zero.
@depths
def test_equals_the_reference_for_keys_of_zero(depth: int, make: Callable[..., Inputs], check: Check) -> None:
    inputs = make(T=5, depth=depth, offset=1)
    values = check(inputs | {"k": torch.zeros_like(inputs["k"])}, chunk_size=4)
    assert values["gradient by k"].count_nonzero() > 0


def test_equals_the_reference_for_a_memory_that_starts_at_zero(make: Callable[..., Inputs], check: Check) -> None:
    inputs = make(T=5, depth=1)
    values = check(inputs | {"weights": (torch.zeros_like(inputs["weights"][0]),)}, chunk_size=4)
    assert values["gradient by weights.0"].count_nonzero() > 0


# 10: large values. NumPy warns of exp(1000), through whose infinity the sigmoid is right.
@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@depths
def test_equals_the_reference_for_large_values(depth: int, make: Callable[..., Inputs], check: Check) -> None:
    inputs = make(T=17, depth=depth)
    inputs |= {"q": 1e3 * inputs["q"], "v": 1e3 * inputs["v"], "theta": 1e-2 * inputs["theta"]}
    assert check(inputs, chunk_size=8)["y"].abs().max() > 1e3


# Precision


# 9: float32 gates beside 16-bit q, k, v.
@depths
@pytest.mark.parametrize(("dtype", "gates"), [(h, g) for h in HALVES for g in (torch.float32, h)], ids=str)
def test_equals_the_reference_for_16_bit_inputs(
    dtype: torch.dtype, gates: torch.dtype, depth: int, make: Callable[..., Inputs], check: Check
) -> None:
    inputs = make(T=9, depth=depth, offset=2)
    inputs |= {name: inputs[name].to(gates if name in GATES else dtype) for name in SEQUENCES}
    values = check(inputs, chunk_size=8, decay_to="init", half=True)
    assert values["y"].dtype == dtype
    assert values["final weights.0"].dtype == torch.float32
    assert {name: values[f"gradient by {name}"].dtype for name in SEQUENCES} == {n: inputs[n].dtype for n in SEQUENCES}


# 10: float16 inputs near overflow; the surprise of a token, 2 k (k W - v), is past float16.
@depths
def test_float16_inputs_near_overflow_leave_an_exact_state(
    depth: int, make: Callable[..., Inputs], compare: Callable[..., None]
) -> None:
    inputs = make(T=9, depth=depth)
    inputs |= {name: torch.full_like(inputs[name], x) for name, x in (("alpha", 0), ("eta", 0), ("theta", 1e-6))}
    inputs |= {"q": inputs["q"].half(), "k": inputs["k"].half()}
    inputs["v"] = torch.full_like(inputs["q"], torch.finfo(torch.float16).max)

    def state(inputs: Inputs, backend: str) -> dict[str, Tensor]:
        _, after = memory_scan(**inputs, chunk_size=8, return_state=True, backend=backend)
        return {f"{name} {i}": x for name in GROUPS for i, x in enumerate(getattr(after, name))}

    # The interpreter's products of float16 inputs are float32 ones.
    half = not triton_launch.INTERPRETED
    compare(state(inputs, "triton"), state(converted(inputs, Tensor.double), "reference"), half)


# 9: a state of another dtype read out of bounds.
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
def test_refuses_a_state_of_another_dtype(dtype: torch.dtype, make: Callable[..., Inputs]) -> None:
    inputs = make(depth=1, offset=1)
    state = dataclasses.replace(inputs["state"], momentum=(inputs["state"].momentum[0].to(dtype),))
    with pytest.raises(ValueError, match=rf"`state.momentum\[0\]` must be torch.float32 .*, got {dtype}"):
        memory_scan(**inputs | {"state": state}, chunk_size=4, backend="triton")


# 9: autocast.
def test_autocast_changes_nothing(make: Callable[..., Inputs], device: torch.device) -> None:
    inputs = make(T=5)
    expected = everything(inputs, chunk_size=4)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        values = everything(inputs, chunk_size=4)
    assert values["y"].dtype == torch.float32
    assert_same_bits(values, expected)


# Gradients in part


# 14: a state given or not, a gradient by the final state or not.
@pytest.mark.parametrize(
    ("depth", "offset", "of"),
    [
        *((depth, offset, (of,)) for depth, offset, of in product((1, 2), (None, 2), ("y", "state"))),
        *((depth, 0, of) for depth, of in ((1, ("state",)), (2, ("y",)))),  # others have both outputs
    ],
    ids=str,
)
def test_equals_the_reference_where_only_some_outputs_are_used(
    of: tuple[str, ...], offset: int | None, depth: int, make: Callable[..., Inputs], check: Check
) -> None:
    check(make(T=4, depth=depth, offset=offset), of=of, chunk_size=4, decay_to="zero" if offset == 0 else "init")


# 14: only some inputs requiring a gradient.
@pytest.mark.parametrize(
    "by",
    [["q"], ["v", "eta", "weights.1"], ["state.weights.0"], ["theta", "state.momentum.1", "state.chunk_start.0"]],
    ids=str,
)
def test_equals_the_reference_where_only_some_inputs_require_a_gradient(
    by: list[str], make: Callable[..., Inputs], check: Check
) -> None:
    values = check(make(T=4, offset=2), by=by, chunk_size=4, decay_to="init")
    assert all(values[f"gradient by {name}"].count_nonzero() > 0 for name in by)


@pytest.mark.parametrize("return_state", [False, True])
def test_output_is_the_same_without_gradients_and_without_the_state(
    return_state: bool, make: Callable[..., Inputs]
) -> None:
    inputs = make(T=5, offset=2)
    expected = everything(inputs, chunk_size=4)["y"]
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            result = memory_scan(**inputs, chunk_size=4, return_state=return_state, backend="triton")
        assert torch.equal(result[0] if return_state else result, expected)


# 17: a double backward runs and is silently wrong.
@depths
def test_a_gradient_of_the_gradient_raises(depth: int, make: Callable[..., Inputs]) -> None:
    inputs = make(T=3, depth=depth)
    q = inputs["q"].requires_grad_()
    y = memory_scan(**inputs, chunk_size=4, backend="triton")
    (gradient,) = torch.autograd.grad(y.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        gradient.sum().backward()


# Layouts


# 8: transposed, expanded and strided inputs.
@depths
def test_views_equal_their_copies(depth: int, make: Callable[..., Inputs]) -> None:
    inputs = make(B=2, H=2, T=5, depth=depth)
    views = inputs | {
        "q": inputs["q"].permute(0, 2, 1, 3).contiguous().transpose(1, 2),
        "k": inputs["k"][:1].expand(2, -1, -1, -1),
        "v": inputs["v"].repeat_interleave(2, dim=-1)[..., ::2],
        "alpha": inputs["alpha"][:, :, :1].expand(-1, -1, 2),
        "eta": inputs["eta"].permute(2, 1, 0).contiguous().permute(2, 1, 0),
        "theta": inputs["theta"][:, :1].expand(-1, 5, -1),
        "weights": (*inputs["weights"][:-1], inputs["weights"][-1].mT.contiguous().mT),
    }
    copies = converted(views, Tensor.contiguous)
    assert not any(torch.equal(torch.tensor(views[n].stride()), torch.tensor(copies[n].stride())) for n in SEQUENCES)
    assert_same_bits(everything(views, chunk_size=4), everything(copies, chunk_size=4))


# 8: the incoming gradient is a view of a cat, an expand of stride 0, or strided.
@depths
@pytest.mark.parametrize(
    "scalar_of",
    [
        pytest.param(lambda y: torch.cat([y, 2 * y], dim=-1).square().sum(), id="a view of a cat"),
        pytest.param(Tensor.sum, id="expanded"),
        pytest.param(lambda y: (y.permute(3, 2, 1, 0) * waves(y.permute(3, 2, 1, 0))).sum(), id="strided"),
    ],
)
def test_incoming_gradients_may_be_views(
    scalar_of: Callable[[Tensor], Tensor], depth: int, make: Callable[..., Inputs], compare: Callable[..., None]
) -> None:
    inputs = make(H=2, T=5, depth=depth)
    exact = everything(converted(inputs, Tensor.double), scalar_of, chunk_size=4, backend="reference")
    compare(everything(inputs, scalar_of, chunk_size=4), exact)


def waves(x: Tensor) -> Tensor:
    """Contiguous, of the shape of `x`."""
    return torch.arange(x.numel(), dtype=x.dtype, device=x.device).cos().view(x.shape)


# 7: what lies beside the tokens, the heads and the columns is read by no lane.
@depths
@pytest.mark.parametrize("poison", [torch.nan, 1e30])
def test_what_lies_around_the_inputs_changes_no_bit(poison: float, depth: int, make: Callable[..., Inputs]) -> None:
    inputs = make(T=5, D=7, depth=depth)

    def inside(x: Tensor) -> Tensor:
        buffer = x.new_full([n + 9 for n in x.shape], poison)
        middle = buffer[tuple(slice(4, 4 + n) for n in x.shape)]
        return middle.copy_(x)

    surrounded = inputs | {name: inside(inputs[name]) for name in SEQUENCES}
    cotangent = waves(inputs["q"])
    values, expected = (
        everything(x, lambda y, c=c: CotangentOf.apply(y, c), chunk_size=4)
        for x, c in ((surrounded, inside(cotangent)), (inputs, cotangent))
    )
    assert_same_bits(values, expected)


class CotangentOf(torch.autograd.Function):
    """The sum of y * cotangent, whose gradient is `cotangent` itself, in its own layout."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, cotangent: Tensor) -> Tensor:
        ctx.cotangent = cotangent
        return (y * cotangent).sum()

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.cotangent, None


# 7: every number that comes out was written.
@depths
@pytest.mark.parametrize("launch", [Launch(), Launch(split=True, group=1), Launch(apart=True, group=1)], ids=str)
def test_outputs_poisoned_before_the_kernels_come_out_the_same(
    launch: triton_launch.Launch, depth: int, make: Callable[..., Inputs], request: pytest.FixtureRequest
) -> None:
    inputs = make(T=9, D=7, depth=depth, offset=2)
    options = {"chunk_size": 8, "decay_to": "init"}
    with triton_launch.forced(launch):
        expected = everything(inputs, **options)
        request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
        torch.use_deterministic_algorithms(True)
        assert torch.empty(3).isnan().all()  # what that does to new tensors
        values = everything(inputs, **options)
    assert_same_bits(values, expected)


# Shapes of work


@depths
@pytest.mark.parametrize(("offset", "decay_to"), [(None, "zero"), (2, "init")])
def test_every_launch_computes_the_same(
    offset: int | None,
    decay_to: str,
    depth: int,
    make: Callable[..., Inputs],
    assert_equal: Callable[..., None],
    tolerances: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = make(T=11, D=17, depth=depth, offset=offset)
    monkeypatch.setattr(triton_launch, "WIDE", 16)  # rows of a block of the readout
    expected = everything(inputs, chunk_size=4, decay_to=decay_to)
    apart = (Launch(group=group, split=group == 1, apart=True, block=16) for group in (1, 2))
    for launch in (Launch(group=1, block=16), Launch(group=2), *apart):
        with triton_launch.forced(launch):
            values = everything(inputs, chunk_size=4, decay_to=decay_to)
        assert_equal(values, expected, tolerance=tolerances.reordered, smallest_scale=SMALLEST_SCALE)


# What one kernel leaves for another does not fit the scratch at once: it is run in parts, from the last to the first.
@depths
def test_a_small_scratch_changes_no_bit(
    depth: int, make: Callable[..., Inputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = make(T=27, D=7, depth=depth, offset=2)
    options = {"chunk_size": 4, "decay_to": "init"}
    with triton_launch.forced(Launch(group=2, split=True, apart=True)):
        expected = everything(inputs, **options)
        monkeypatch.setattr(triton_launch, "SCRATCH", 1)
        parts: list[tuple[str, int, int, int]] = []
        phases = triton_launch.Plan.phases

        def noted(plan: triton_launch.Plan, slots: int) -> Iterator[tuple[str, int, int, int]]:
            for phase in phases(plan, slots):
                parts.append(phase)
                yield phase

        monkeypatch.setattr(triton_launch.Plan, "phases", noted)
        values = everything(inputs, **options)
    scans = [(begin, end) for phase, begin, end, _ in parts if phase == "reverse_scan"]
    assert scans == [(6, 8), (4, 6), (2, 4), (0, 2)]
    assert_same_bits(values, expected)


# Nothing there


# 13: an empty sequence, an empty batch.
@pytest.mark.parametrize("size", [{"T": 0}, {"B": 0}], ids=str)
@pytest.mark.parametrize("offset", [None, 2])
def test_nothing_in_gives_nothing_out(offset: int | None, size: dict[str, int], make: Callable[..., Inputs]) -> None:
    inputs = make(**{"T": 7} | size, offset=offset)
    halves = inputs | {name: inputs[name].half() for name in SEQUENCES}
    halves["weights"] = tuple(w.half() for w in inputs["weights"])
    for name, x in everything(halves, chunk_size=4).items():
        assert x.dtype == (torch.float32 if name.startswith("final") else torch.float16), name
    values = everything(inputs, chunk_size=4)
    before = inputs["weights"] if offset is None else inputs["state"].weights
    assert values["y"].shape == inputs["q"].shape
    for i, w in enumerate(before):
        final = values[f"final weights.{i}"]
        assert torch.equal(final, w.expand_as(final))
        assert values[f"gradient by weights.{i}"].count_nonzero() == 0


# Entry points


# 15: a compiled function is not what eager runs; a layout asked for may be ignored.
@pytest.mark.parametrize(("depth", "offset"), [(1, 2), (2, None)])
def test_compiled_equals_eager(offset: int | None, depth: int, make: Callable[..., Inputs]) -> None:
    inputs = make(T=5, H=2, depth=depth, offset=offset)
    inputs["q"] = inputs["q"].transpose(1, 2).contiguous().transpose(1, 2)
    inputs["v"] = inputs["v"].repeat_interleave(2, dim=-1)[..., ::2]
    options = {"chunk_size": 4, "decay_to": "init" if offset else "zero", "return_state": True, "backend": "triton"}
    leaves = [inputs[name].requires_grad_() for name in SEQUENCES]
    leaves += [x.requires_grad_() for x in inputs["weights"]]

    def values() -> tuple[Tensor, ...]:
        y, after = memory_scan(**inputs, **options)
        return (y, *after.weights, *after.momentum, *after.chunk_start)

    torch.compiler.reset()
    compiled, eager = torch.compile(values, fullgraph=True, backend="aot_eager")(), values()
    gradients = [
        torch.autograd.grad([x.sin().sum() for x in outputs], leaves, allow_unused=True, materialize_grads=True)
        for outputs in (compiled, eager)
    ]
    for x, expected in zip((*compiled, *gradients[0]), (*eager, *gradients[1]), strict=True):
        assert torch.equal(x, expected)


# Tensors that are said to be on a GPU and hold nothing: as far as `torch.compile(fullgraph=True)` goes without one.
@depths
def test_a_call_on_a_gpu_is_traced_whole_to_the_kernel(
    depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scan(torch.nn.Module):
        def forward(self, sequences: tuple[Tensor, ...], gates: tuple[Tensor, ...], w: tuple[Tensor, ...]) -> Tensor:
            y = memory_scan(*sequences, *gates, w, chunk_size=16)
            assert isinstance(y, Tensor)
            return y

    monkeypatch.setattr(triton_launch, "shared_memory_of", lambda _: 227 * 1024)
    monkeypatch.setattr(verdicts, "identity", lambda device: {"device": "a GPU"})
    monkeypatch.setenv(verdicts.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(checks, "_process", checks.Checks())
    B, T, H, D = 2, 40, 2, 16
    q, gate, w = torch.empty(B, T, H, D, dtype=torch.bfloat16), torch.empty(B, T, H), torch.empty(H, D, D)
    case = agreement.case_of(q, (gate, gate, gate), depth * (w,), 16, None, "zero", False, True)
    verdicts.Verdicts().put(case, torch.device("cuda"), verdicts.Verdict(str(case), True, ""))
    with FakeTensorMode(), torch.device("cuda"):
        sequences = tuple(torch.empty(B, T, H, D, dtype=torch.bfloat16) for _ in range(3))
        gates, weights = (
            tuple(torch.empty(shape) for _ in range(n)) for n, shape in ((3, (B, T, H)), (depth, (H, D, D)))
        )
        program = torch.export.export(Scan(), (sequences, gates, weights), strict=True)
    assert "torch.ops.titans_ts.memory_scan.default" in str(program)
    assert program.graph.output_node().args[0][0].meta["val"].device.type == "cuda"  # type: ignore[union-attr,index]


@pytest.mark.parametrize(("depth", "offset"), [(1, None), (2, 2)])
def test_operators_keep_to_what_torch_expects(offset: int | None, depth: int, make: Callable[..., Inputs]) -> None:
    inputs = make(T=2, depth=depth, offset=offset)
    packed = triton_scan._pack(inputs["weights"])
    start, chunk_start, init = torch.cat([packed, torch.zeros_like(packed)], dim=-1), None, None
    if offset is not None:
        state = inputs["state"]
        start = torch.cat([triton_scan._pack(x) for x in (state.weights, state.momentum)], dim=-1)
        chunk_start, init = triton_scan._pack(state.chunk_start), packed
    tensors = [*(inputs[name] for name in SEQUENCES), start, chunk_start, init]
    numbers = (depth, packed.shape[-1], 4, offset or 0)
    operators = torch.ops.titans_ts
    y, final, saved = operators.memory_scan(*tensors, *numbers, True)
    checks = torch.library.opcheck(operators.memory_scan_backward, (y, final, *tensors, saved, *numbers))
    assert set(checks.values()) == {"SUCCESS"}
    leaves = [None if x is None else x.clone().requires_grad_() for x in tensors]
    checks = torch.library.opcheck(operators.memory_scan, (*leaves, *numbers, True))
    assert set(checks.values()) == {"SUCCESS"}


@interpreted
def test_auto_on_a_cpu_takes_chunkwise(make: Callable[..., Inputs]) -> None:
    inputs = make(T=5, offset=2)
    auto, chunked, fused = (memory_scan(**inputs, chunk_size=4, backend=x) for x in ("auto", "chunkwise", "triton"))
    assert torch.equal(auto, chunked)
    assert not torch.equal(auto, fused)
