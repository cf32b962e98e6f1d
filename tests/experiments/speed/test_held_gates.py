"""The benchmark of gates per chunk, on the smallest sizes, and its table in RESULTS.md."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import record
from speed import held_gates
from speed.report import COLUMNS


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_gates, "SHAPES", {"stream": (1, 8)})
    monkeypatch.setattr(held_gates, "CHUNK_SIZES", (4,))


@pytest.mark.usefixtures("small")
def test_every_pass_has_a_row_of_each_kind_of_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["--repeats", "1", "--threads", str(torch.get_num_threads()), "--out", str(tmp_path)]
    held_gates.main(call)
    rows = record.read(tmp_path / "held_gates.csv")
    assert [row["benchmark"] for row in rows] == ["stream, 1, 4"] * 8 + ["stream, 2, 4"] * 8
    assert all(tuple(row) == COLUMNS and float(row["value"]) > 0 for row in rows)
    for held, free in zip(rows[::2], rows[1::2], strict=True):
        assert held["name"].removesuffix("chunk") == free["name"].removesuffix("token")
        assert float(free["ratio"]) == pytest.approx(float(free["value"]) / float(held["value"]), rel=1e-4)
    table = "\n".join(held_gates.table(rows))
    assert table in capsys.readouterr().out
    held_gates.main([*call, "--table"])
    assert capsys.readouterr().out == table + "\n"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("what", held_gates.WHAT)
def test_the_backward_pass_reaches_every_leaf(what: str) -> None:
    case = held_gates.Case("stream", 2, 4, what)
    for gates in held_gates.GATES:
        forward, both = held_gates.passes_of(case, gates)
        assert not forward().requires_grad
        assert all(gradient.count_nonzero() > 0 for gradient in both())


def test_the_page_of_results_has_the_table_of_the_rows() -> None:
    table = "\n".join(held_gates.table(record.read(record.RESULTS / "held_gates.csv")))
    assert len(table.splitlines()) == 2 + 12
    assert table in (record.RESULTS.parent / "RESULTS.md").read_text()
