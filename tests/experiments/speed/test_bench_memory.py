"""The clock of the memory alone, on two cases."""

from __future__ import annotations

import pytest
import torch

from speed import bench_memory


def test_every_case_is_timed_forward_and_with_its_backward(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [case._replace(batch=1, steps=16) for case in bench_memory.CASES[:2]]
    monkeypatch.setattr(bench_memory, "CASES", cases)
    bench_memory.main(["--repeats", "1", "--threads", str(torch.get_num_threads())])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:20].strip() for line in lines[2:4]] == [case.name for case in cases]
    assert all(float(number) > 0 for line in lines[2:4] for number in line.split()[-2:])


def test_the_backward_pass_reaches_every_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, both = bench_memory.passes_of(bench_memory.CASES[1]._replace(batch=1, steps=16))
    asked: list[int] = []
    monkeypatch.setattr(torch.autograd, "grad", lambda loss, leaves: asked.append(len(leaves)))
    forward()
    both()
    assert asked == [6 + 2]  # q, k, v, the gates, and the weights of two layers
