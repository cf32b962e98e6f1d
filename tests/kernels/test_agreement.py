"""The small problems on which kernels are checked: right kernels pass in every case, and a small mistake does not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.kernels import agreement, chunkwise
from titans_ts.kernels.agreement import ConvolutionCase

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_launch, triton_scan

from .small_case import LINEAR

DEVICE = torch.device("cpu" if triton_launch.INTERPRETED else "cuda")
needs_kernels = pytest.mark.skipif(
    not triton_launch.INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU or triton's interpreter"
)
APART = dataclasses.replace(LINEAR.launch, group=1, split=True, apart=True)


@needs_kernels
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"launch": APART, "decay_to": "init", "return_state": True},
        {"start": "inside a chunk", "return_state": True, "gates": ("float32", "float16", "float32")},
        {"depth": 2, "hidden": 7, "decay_to": "init", "dtype": "float16"},
        {"depth": 2, "start": "between chunks", "launch": APART, "return_state": True},
        # The interpreter gets bfloat16 wrong.
        *({"depth": depth, "dtype": "bfloat16"} for depth in (1, 2) if not triton_launch.INTERPRETED),
    ],
    ids=str,
)
def test_the_kernels_agree(change: dict[str, Any]) -> None:
    assert dataclasses.replace(LINEAR, **change).difference(DEVICE) is None


@needs_kernels
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_convolution_agrees(dtype: str) -> None:
    assert ConvolutionCase(dtype, 5).difference(DEVICE) is None


@pytest.mark.parametrize(
    ("output", "words"),
    [("y", "y is wrong by 2"), ("weights", "weights.1 is wrong by 2"), ("momentum", "momentum.0 is wrong by 2")],
)
def test_a_small_mistake_in_a_value_is_found(output: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> Any:
        y, after = chunkwise.scan(*arguments)
        spoiled = {"y": y, "weights": after.weights[1], "momentum": after.momentum[0]}[output].detach()
        spoiled[..., -1, -1] += 2e-4 * spoiled.abs().max()
        return y, after

    monkeypatch.setattr(triton_scan, "scan", wrong)
    case = dataclasses.replace(LINEAR, depth=2, return_state=True, gradients=False)
    assert str(case.difference(torch.device("cpu"))).startswith(words)


@pytest.mark.parametrize("which", ["q", "v", "eta", "weights.0"])
def test_a_small_mistake_in_a_gradient_is_found(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Spoiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, dx: Tensor) -> Tensor:
            return dx + 2e-3 * dx.abs().max() * (dx.abs() == dx.abs().max())

    def wrong(q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, eta: Tensor, theta: Tensor, weights: Any, *o: Any) -> Any:
        q, v, eta = (Spoiled.apply(x) if name == which else x for name, x in (("q", q), ("v", v), ("eta", eta)))
        weights = (Spoiled.apply(weights[0]) if which == "weights.0" else weights[0],)
        return chunkwise.scan(q, k, v, alpha, eta, theta, weights, *o)

    monkeypatch.setattr(triton_scan, "scan", wrong)
    found = LINEAR.difference(torch.device("cpu"))
    assert str(found).startswith(f"gradient of y by {which} is wrong by 2.0e-03 of its largest entry")


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_no_number_is_wrong_without_limit(bad: float) -> None:
    assert agreement.error(torch.tensor([1.0, bad]), torch.tensor([1.0, 2.0])) == torch.inf


def test_an_error_is_the_largest_difference_over_the_largest_reference() -> None:
    reference = torch.tensor([1.0, -8.0, 2.0], dtype=torch.float64)
    assert agreement.error(torch.tensor([1.5, -8.0, 1.0]), reference) == 1 / 8
    assert agreement.error(torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3)) == 0
    assert agreement.error(torch.empty(0), torch.empty(0)) == 0


def test_another_shape_is_no_result() -> None:
    with pytest.raises(ValueError, match=r"shape \(1, 3\) where \(3,\) was expected"):
        agreement.error(torch.zeros(1, 3), torch.zeros(3))


def test_the_worst_of_the_wrong_tensors_is_named() -> None:
    expected = {name: torch.ones(2) for name in ("y", "gradient of y by q", "gradient of y by k")}
    found = expected | {"y": torch.tensor([1.0, 1.2]), "gradient of y by k": torch.tensor([1.0, 1.5])}
    assert agreement.difference(found, expected, (0.1, 0.1)) == (
        "gradient of y by k is wrong by 5.0e-01 of its largest entry; 0.1 is allowed"
    )
    assert agreement.difference(found, expected, (0.5, 0.5)) is None


# The case of a call has the lanes of its chunks and the launch that the call takes.
@pytest.mark.parametrize(
    ("heads", "steps", "chunk_size", "lanes", "several"),
    [(2, 5, 16, 16, False), (2, 90, 20, 32, False), (2, 200, 16, 16, True)],
)
def test_the_case_of_a_call(heads: int, steps: int, chunk_size: int, lanes: int, several: bool) -> None:
    q, gate = torch.zeros(1, steps, heads, 6), torch.zeros(1, steps, heads)
    case = agreement.case_of(q, (gate, gate, gate), (torch.zeros(heads, 6, 6),), chunk_size, None, "zero", False, True)
    plan = triton_launch.plan(q, 1, 16 * 16, chunk_size, 0)
    assert case.lanes == lanes
    assert case.launch == dataclasses.replace(plan.launch, group=int(several))
    assert case.launch.apart is several
    assert (case.head_dim, case.hidden, case.dtype, case.start) == (6, 6, "float32", "fresh")
