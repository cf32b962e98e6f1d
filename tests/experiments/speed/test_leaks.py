"""The measurement of memory over many calls, on few of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import record
from speed import leaks
from speed.report import COLUMNS


def test_each_kind_of_call_has_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "EVERY", 1)
    monkeypatch.setattr(leaks, "ROWS", 120)
    leaks.main(["--calls", "2", "--threads", str(torch.get_num_threads()), "--out", str(tmp_path)])
    rows = record.read(tmp_path / "leaks.csv")
    kinds = ["fit", "predict", "predict of others", "save and load", "update"]
    assert [row["benchmark"] for row in rows] == [kind for kind in kinds for _ in range(3)]
    assert all(tuple(row) == COLUMNS for row in rows)
    assert all(float(row["value"]) > 10 for row in rows if row["name"] == "resident memory, at last")


def test_what_is_kept_is_seen() -> None:
    kept = list[bytearray]()
    memory = leaks.resident(lambda _: kept.append(bytearray(b"x" * 2**20)), 3 * leaks.EVERY)
    assert memory[-1] - memory[0] > 1.5 * leaks.EVERY  # a MiB a call


@pytest.mark.slow
def test_memory_stays_flat_over_two_hundred_calls() -> None:
    for kind, rows in leaks.measure(leaks.CALLS):
        assert rows[0].target.endswith("met"), (kind, rows)


def test_too_few_calls_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        leaks.main(["--calls", "3"])
    assert "--calls must be at least 40" in capsys.readouterr().err
