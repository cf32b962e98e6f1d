"""Which kernels a compiled function has: those that were checked before, with kernels in triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.kernels import agreement, checks, memory_scan, trust, verdicts

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import traced, triton_launch
from titans_ts.kernels.verdicts import Verdict, Verdicts

pytestmark = pytest.mark.skipif(not triton_launch.INTERPRETED, reason="a CPU has kernels in triton's interpreter alone")

Inputs = dict[str, Any]
CPU = torch.device("cpu")
UNCHECKED = "not checked while a CUDA graph is captured or a function is compiled"


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of verdicts, a process that remembers none, and "auto" that looks for kernels on a CPU."""
    monkeypatch.setenv(verdicts.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(checks, "_process", checks.Checks())
    monkeypatch.setattr(trust, "considered", lambda device: True)


@pytest.fixture
def inputs(make_inputs: Callable[..., Inputs]) -> Inputs:
    return make_inputs(B=1, T=5, H=1, depth=1, dtype=torch.float32) | {"chunk_size": 4}


def remember(inputs: Inputs, agrees: bool, gradients: bool, steps: int = 5) -> None:
    q, gate = inputs["q"].new_zeros(1, steps, 1, 3), inputs["q"].new_zeros(1, steps, 1)
    case = agreement.case_of(q, (gate, gate, gate), inputs["weights"], 4, None, "zero", False, gradients)
    Verdicts().put(case, CPU, Verdict(str(case), agrees, "" if agrees else "y is wrong"))


def compiled(inputs: Inputs) -> str:
    """The operators that `torch.compile` makes of a call."""
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        graphs.append(str(graph.graph))
        return graph.forward

    torch.compiler.reset()
    torch.compile(lambda **x: memory_scan(**x), fullgraph=True, backend=backend)(**inputs)
    return graphs[0]


def test_a_compiled_function_has_no_kernel_that_was_not_checked(inputs: Inputs) -> None:
    with pytest.warns(UserWarning, match=UNCHECKED):
        assert "titans_ts.memory_scan" not in compiled(inputs)


def test_a_compiled_function_has_the_kernel_that_a_step_before_it_checked(inputs: Inputs) -> None:
    memory_scan(**inputs)
    assert "titans_ts.memory_scan" in compiled(inputs)


def test_a_kernel_that_is_wrong_in_another_length_is_in_no_compiled_function(inputs: Inputs) -> None:
    remember(inputs, agrees=True, gradients=False)
    remember(inputs, agrees=False, gradients=False, steps=200)
    with pytest.warns(UserWarning, match="are wrong on cpu, .*: y is wrong"):
        assert "titans_ts.memory_scan" not in compiled(inputs)


def test_a_kernel_checked_without_gradients_is_in_no_compiled_training_step(inputs: Inputs) -> None:
    remember(inputs, agrees=True, gradients=False)
    sizes = (CPU, torch.float32, 1, 3, 3, "zero")
    assert traced.scan_agreed_before(*sizes, False)
    with pytest.warns(UserWarning, match=UNCHECKED):
        assert not traced.scan_agreed_before(*sizes, True)
    remember(inputs, agrees=True, gradients=True)
    assert traced.scan_agreed_before(*sizes, True)


def test_the_convolution_is_known_by_its_dtype_and_width() -> None:
    case = agreement.ConvolutionCase("float16", 5)
    Verdicts().put(case, CPU, Verdict(str(case), True, ""))
    assert traced.convolution_agreed_before(CPU, torch.float16, 5)
    with pytest.warns(UserWarning, match=UNCHECKED):
        assert not traced.convolution_agreed_before(CPU, torch.float16, 6)
