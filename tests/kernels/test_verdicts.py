"""What is remembered of checked kernels, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from titans_ts.kernels import verdicts
from titans_ts.kernels.agreement import ConvolutionCase
from titans_ts.kernels.verdicts import Verdict, Verdicts

pytest.importorskip("triton", reason="needs the package triton")

CPU = torch.device("cpu")
CASE, OTHER = ConvolutionCase("float32", 5), ConvolutionCase("float32", 6)
RIGHT, WRONG = Verdict(str(CASE), True, ""), Verdict(str(OTHER), False, "y is wrong")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(verdicts.CACHE_VARIABLE, str(tmp_path))
    return tmp_path / "kernels"


def test_a_verdict_is_found_by_another_process_and_another_case_is_not() -> None:
    Verdicts().put(CASE, CPU, RIGHT)
    assert Verdicts().get(CASE, CPU) == RIGHT
    assert Verdicts().get(OTHER, CPU) is None


def test_a_failure_that_may_pass_is_forgotten_with_the_process(folder: Path) -> None:
    held, failure = Verdicts(), Verdict(str(CASE), False, "no compiler", lasting=False)
    held.put(CASE, CPU, failure)
    assert held.get(CASE, CPU) == failure
    assert Verdicts().get(CASE, CPU) is None
    assert not folder.exists()


def test_a_later_verdict_takes_the_place_of_an_earlier_one(folder: Path) -> None:
    for verdict in (RIGHT, Verdict(str(CASE), False, "now wrong")):
        Verdicts().put(CASE, CPU, verdict)
    assert Verdicts().get(CASE, CPU) == verdict
    assert len(list(folder.iterdir())) == 1


def test_cases_with_some_fields_are_found_in_the_process_and_on_disk() -> None:
    Verdicts().put(CASE, CPU, RIGHT)
    held = Verdicts()
    held.put(OTHER, CPU, WRONG)
    assert {v.case for v in held.matching(CPU, {"dtype": "float32"})} == {str(CASE), str(OTHER)}
    assert held.matching(CPU, {"head_dim": 6, "kind": "ConvolutionCase"}) == [WRONG]
    assert held.matching(CPU, {"head_dim": 6, "kind": "ScanCase"}) == []


def test_the_folder_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdicts.folder() == tmp_path / "kernels"
    monkeypatch.delenv(verdicts.CACHE_VARIABLE)
    monkeypatch.setattr(verdicts.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert verdicts.folder() == Path("/cache/titans_ts/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert verdicts.folder() == Path("/home/someone/.cache/titans_ts/kernels")
    monkeypatch.setattr(verdicts.sys, "platform", "darwin")
    assert verdicts.folder() == Path("/home/someone/Library/Caches/titans_ts/kernels")


def test_without_a_home_folder_the_process_alone_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(verdicts.CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(verdicts.Path, "home", no_home)
    monkeypatch.setattr(verdicts.sys, "platform", "linux")
    assert verdicts.folder() is None
    held = Verdicts()
    held.put(CASE, CPU, RIGHT)
    assert held.get(CASE, CPU) == RIGHT
    assert held.matching(CPU, {"head_dim": 5}) == [RIGHT]
    assert Verdicts().get(CASE, CPU) is None


def test_nothing_is_left_of_a_file_that_could_not_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(verdicts.os, "replace", full)
    held = Verdicts()
    held.put(CASE, CPU, RIGHT)
    assert held.get(CASE, CPU) == RIGHT
    assert list(folder.iterdir()) == []


def test_the_identity_says_what_built_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    import triton

    monkeypatch.setenv("DISABLE_MMA_V3", "1")
    found = verdicts.identity(CPU)
    assert found["torch"] == torch.__version__
    assert found["triton"] == triton.__version__
    assert found["DISABLE_MMA_V3"] == "1"
    assert len(found["source"]) == 64


def test_a_gpu_is_known_by_its_model_and_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    found = verdicts.identity(torch.device("cuda", 0))
    assert (found["device"], found["capability"]) == ("NVIDIA H200", "9.0")
