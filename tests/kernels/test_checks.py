"""What a process remembers of its checks; how a check is made and what it decides is in test_trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from titans_ts.kernels import checks, verdicts
from titans_ts.kernels.agreement import ConvolutionCase

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """What checks find, by the case in words, right unless it is said; in a folder and a process of their own."""
    words: dict[str, str | None] = {}
    monkeypatch.setenv("TITANS_TS_CACHE", str(tmp_path))
    monkeypatch.setattr(checks, "_process", checks.Checks())
    monkeypatch.setattr(checks, "_difference", lambda case, device: words.get(str(case)))
    return words


def case_of(head_dim: int) -> Any:
    return ConvolutionCase("float32", head_dim)


def test_cases_with_the_fields_asked_for_must_all_agree(found: dict[str, str | None]) -> None:
    found[str(case_of(16))] = "dv is off by 0.2"
    fields = dict(kind="ConvolutionCase", dtype="float32")
    for head_dim in (8, 16):
        checks.run(case_of(head_dim), CPU)
    assert checks.all_agree(CPU, **fields, head_dim=8)
    with pytest.warns(UserWarning, match=r"are wrong .* dv is off by 0\.2"):
        assert not checks.all_agree(CPU, **fields)
    with pytest.warns(UserWarning, match="not checked while"):
        assert not checks.all_agree(CPU, **fields, head_dim=32)


def test_a_check_at_will_takes_the_place_of_what_is_remembered(found: dict[str, str | None]) -> None:
    x = torch.empty(1)
    assert checks.trust(case_of(8), x)
    found[str(case_of(8))] = "y is off by 1"
    assert checks.trust(case_of(8), x)
    verdict = checks.run(case_of(8), CPU)
    assert verdict is not None
    assert not verdict.agrees
    with pytest.warns(UserWarning, match="y is off by 1"):
        assert not checks.trust(case_of(8), x)
    assert verdicts.identity(CPU)["device"]
