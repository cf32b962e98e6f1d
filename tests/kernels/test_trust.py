"""When `backend="auto"` uses a kernel: with kernels in triton's interpreter, a CPU that counts as a GPU."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from titans_ts.kernels import agreement, checks, convolution_kernel, memory_scan, trust, verdicts, verify

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_convolution, triton_launch, triton_scan

from .small_case import LINEAR

pytestmark = pytest.mark.skipif(not triton_launch.INTERPRETED, reason="a CPU has kernels in triton's interpreter alone")

Inputs = dict[str, Any]
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of verdicts, a process that remembers none, and "auto" that looks for kernels on a CPU."""
    monkeypatch.setenv(verdicts.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(checks, "_process", checks.Checks())
    monkeypatch.setattr(trust, "considered", lambda device: True)
    return tmp_path / "kernels"


@pytest.fixture
def inputs(make_inputs: Callable[..., Inputs]) -> Inputs:
    return make_inputs(B=1, T=5, H=1, depth=1, dtype=torch.float32) | {"chunk_size": 4}


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases that are checked, as they are."""
    run: list[str] = []
    difference = checks._difference

    def noted(case: Any, device: torch.device) -> str | None:
        run.append(type(case).__name__)
        return difference(case, device)

    monkeypatch.setattr(checks, "_difference", noted)
    return run


def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the process remembers, as the next one has."""
    monkeypatch.setattr(checks, "_process", checks.Checks())


def uses_kernels(inputs: Inputs) -> bool:
    """Whether "auto" computes what the kernels do, to the bit, or what the chunkwise form does."""
    y, fused, plain = (memory_scan(**inputs, backend=backend) for backend in ("auto", "triton", "chunkwise"))
    assert not torch.equal(fused, plain)
    assert torch.equal(y, fused) or torch.equal(y, plain)
    return torch.equal(y, fused)


class Wrong(torch.autograd.Function):
    """The same values, with a gradient that is off by a tenth."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Tensor:
        return 1.1 * dx


def break_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = triton_scan.scan

    def wrong(q: Tensor, *others: Any) -> Any:
        y, after = scan(q, *others)
        return y + 0.1 * y.abs().max(), after

    monkeypatch.setattr(triton_scan, "scan", wrong)


def break_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = triton_scan.scan
    monkeypatch.setattr(triton_scan, "scan", lambda q, k, *others: scan(q, Wrong.apply(k), *others))


def test_a_right_kernel_is_used_and_checked_once(inputs: Inputs, checked: list[str], folder: Path) -> None:
    assert uses_kernels(inputs)
    assert uses_kernels(inputs)
    assert checked == ["ScanCase"]
    assert len(list(folder.glob("*.json"))) == 1


def test_a_kernel_with_wrong_values_is_not_used(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    break_forward(monkeypatch)
    with pytest.warns(UserWarning, match=r"linear memory, float32, head_dim 3, .*: y is wrong by 1\.0e-01") as caught:
        assert not uses_kernels(inputs)
    assert len(caught) == 1


def test_a_kernel_with_wrong_gradients_alone_is_not_used_for_training(
    inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_backward(monkeypatch)
    assert uses_kernels(inputs)  # the forward is right
    inputs["v"].requires_grad_()
    with pytest.warns(UserWarning, match=r"gradient of y by k is wrong by 1\.0e-01 of its largest entry"):
        assert not uses_kernels(inputs)
    with torch.no_grad():
        assert uses_kernels(inputs)


def test_a_wrong_kernel_is_named_in_one_warning(inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    break_forward(monkeypatch)
    with pytest.warns(UserWarning, match="`backend='auto'` uses plain PyTorch for it") as caught:
        memory_scan(**inputs)
    assert [warning.filename for warning in caught] == [__file__]
    memory_scan(**inputs)  # a warning would be an error


def test_a_kernel_that_cannot_run_is_not_used_and_tried_again_by_the_next_process(
    inputs: Inputs, checked: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: Any) -> Any:
        raise RuntimeError("Failed to find C compiler.\nPlease install one.")

    with monkeypatch.context() as patch:
        patch.setattr(triton_scan, "scan", fails)
        with pytest.warns(UserWarning, match=r"RuntimeError: Failed to find C compiler\. `backend"):
            memory_scan(**inputs)
        memory_scan(**inputs)
    assert not folder.exists()
    new_process(monkeypatch)
    assert uses_kernels(inputs)
    assert len(checked) == 2


def test_a_check_without_memory_decides_nothing(inputs: Inputs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> Any:
        raise torch.OutOfMemoryError

    with monkeypatch.context() as patch:
        patch.setattr(checks, "_difference", full)
        assert not uses_kernels(inputs)
    assert not folder.exists()
    assert uses_kernels(inputs)


@pytest.mark.parametrize("broken", [False, True])
def test_the_next_process_finds_the_verdict(
    broken: bool, inputs: Inputs, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken:
        break_forward(monkeypatch)
    for _ in range(2):
        new_process(monkeypatch)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert uses_kernels(inputs) is not broken
        assert len(caught) == broken
    assert checked == ["ScanCase"]


@pytest.mark.parametrize("changed", ["source", "torch", "driver"])
def test_another_version_is_checked_anew(
    changed: str, inputs: Inputs, checked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uses_kernels(inputs)
    new_process(monkeypatch)
    identity = verdicts.identity
    monkeypatch.setattr(verdicts, "identity", lambda device: identity(device) | {changed: "another"})
    assert uses_kernels(inputs)
    assert checked == ["ScanCase", "ScanCase"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"fields": {}, "case": "", "words": ""}', '{"agrees": 1}'])
def test_a_file_that_makes_no_sense_is_checked_anew_and_written_anew(
    text: str, inputs: Inputs, checked: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uses_kernels(inputs)
    (file,) = folder.iterdir()
    right = file.read_text()
    file.write_text(text)
    new_process(monkeypatch)
    assert uses_kernels(inputs)
    assert len(checked) == 2
    assert file.read_text() == right


def test_a_folder_that_cannot_be_written_is_done_without(
    inputs: Inputs, checked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a file"
    file.touch()
    monkeypatch.setenv(verdicts.CACHE_VARIABLE, str(file))
    assert uses_kernels(inputs)
    assert uses_kernels(inputs)
    assert checked == ["ScanCase"]


@pytest.mark.parametrize(
    "change",
    [
        {"decay_to": "init"},
        {"return_state": True},
        {"chunk_size": 20},
        {"B": 2, "expected": False},
        {"depth": 2},
        {"D": 5},
        {"offset": 0},
        {"offset": 2},
        {"T": 70},
    ],
    ids=str,
)
def test_what_decides_on_the_code_is_checked_by_itself(
    change: dict[str, Any],
    make_inputs: Callable[..., Inputs],
    checked: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_difference", lambda case, device: checked.append("") or None)  # type: ignore[func-returns-value]
    size: dict[str, Any] = {"B": 1, "T": 20, "H": 1, "depth": 1, "expansion": 1, "dtype": torch.float32}
    new = change.get("expected", True)
    shape = {name: value for name, value in change.items() if name in ("B", "T", "D", "depth", "offset")}
    options = {"chunk_size": 4} | {n: change[n] for n in ("decay_to", "return_state", "chunk_size") if n in change}
    memory_scan(**make_inputs(**size), chunk_size=4)
    memory_scan(**make_inputs(**size | shape), **options)
    assert len(checked) == 1 + new


def test_explicit_backends_are_not_checked(inputs: Inputs, checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    break_forward(monkeypatch)
    fused, plain = (memory_scan(**inputs, backend=backend) for backend in ("triton", "chunkwise"))
    assert (fused - plain).abs().max() > 0.05
    assert checked == []


# What the check must not disturb


def test_a_check_draws_no_random_numbers_of_the_caller(inputs: Inputs, checked: list[str]) -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    memory_scan(**inputs)
    assert torch.equal(torch.rand(3), expected)
    assert checked == ["ScanCase"]


@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
        lambda: torch.autograd.graph.saved_tensors_hooks(forbidden, forbidden),
    ],
    ids=["no_grad", "inference_mode", "autocast", "default device", "saved tensors"],
)
def test_a_check_meets_no_mode_of_the_caller(mode: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case = dataclasses.replace(LINEAR, head_dim=3, hidden=3)
    with mode():
        verdict = checks._process.run(case, CPU)
    assert verdict == verdicts.Verdict(str(case), True, "")


def forbidden(x: object) -> object:
    raise AssertionError("met a hook of the caller")


def test_threads_that_meet_a_new_case_check_it_once(inputs: Inputs, checked: list[str]) -> None:
    case = agreement.ConvolutionCase("float32", 5)
    threads = [threading.Thread(target=checks._process.trust, args=(case, inputs["q"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert checked == ["ConvolutionCase"]


def test_nothing_is_checked_while_a_graph_is_captured(checked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "identity", lambda device: {"device": "a GPU"})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    x: Any = SimpleNamespace(device=torch.device("cuda", 0))
    known, other = agreement.ConvolutionCase("float32", 5), agreement.ConvolutionCase("float32", 6)
    verdicts.Verdicts().put(known, x.device, verdicts.Verdict(str(known), True, ""))
    assert checks._process.trust(known, x)
    with pytest.warns(UserWarning, match=r"not checked while a CUDA graph is captured .*: convolution, float32, .* 6"):
        assert not checks._process.trust(other, x)
    assert checked == []


def test_tensors_that_hold_nothing_are_not_checked(inputs: Inputs, checked: list[str]) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = {name: mode.from_tensor(x) if isinstance(x, Tensor) else x for name, x in inputs.items()}
        fake["weights"] = tuple(mode.from_tensor(w) for w in inputs["weights"])
        with pytest.warns(UserWarning, match="are not checked while"):
            memory_scan(**fake)
    assert checked == []


# The convolution


def test_a_right_convolution_is_used_and_checked_once(checked: list[str]) -> None:
    x = torch.randn(2, 9, 3 * 2 * 5)
    for _ in range(2):
        assert convolution_kernel(x, 2, "auto") is triton_convolution.convolve
    assert checked == ["ConvolutionCase"]


@pytest.mark.parametrize("wrong", ["values", "gradients"])
def test_a_wrong_convolution_is_not_used(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    convolve = triton_convolution.convolve

    def broken(x: Tensor, weight: Tensor, *others: Any) -> tuple[Tensor, ...]:
        if wrong == "gradients":
            return convolve(x, Wrong.apply(weight), *others)
        q, k, v = convolve(x, weight, *others)
        return q, 1.1 * k, v

    monkeypatch.setattr(triton_convolution, "convolve", broken)
    x = torch.randn(2, 9, 3 * 2 * 5)
    words = "gradient of q, k and v by weight" if wrong == "gradients" else "k"
    with pytest.warns(UserWarning, match=rf"convolution, float32, head_dim 5, .*: {words} is wrong by 1\.0e-01"):
        assert convolution_kernel(x, 2, "auto") is None
    assert convolution_kernel(x, 2, "auto") is None
    assert convolution_kernel(x, 2, "triton") is broken


# verify


def test_verify_says_what_is_right_and_what_is_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "SHAPES", ((2, 40),))
    sizes: dict[str, Any] = dict(depths=(1,), head_dims=(3,), chunk_sizes=(16,), dtypes=(torch.float32,))
    found = verify("cpu", **sizes)
    assert found.agrees
    assert str(found).startswith("cpu, Triton's interpreter: 5 cases, 0 wrong\nok     convolution, float32, head_dim 3")
    assert len(list(folder.iterdir())) == 5

    break_backward(monkeypatch)
    found = verify("cpu", **sizes)  # although all are remembered
    assert not found.agrees
    assert [verdict.agrees for verdict in found.verdicts] == [True, False, True, True, True]
    assert "\nWRONG  linear memory, float32, head_dim 3" in str(found)
    assert "gradient of y by k is wrong by 1.0e-01" in str(found)


def test_verify_refuses_a_device_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="`device` must be a GPU that torch can use, got cuda"):
        verify()
    monkeypatch.setattr(triton_launch, "INTERPRETED", False)
    with pytest.raises(ValueError, match="`device` must be a GPU, got cpu"):
        verify("cpu")
