"""Rows of the speed benchmarks, as printed and as kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import record
from speed.report import COLUMNS, Report, Row, with_target


def test_a_row_is_printed_and_kept_with_where_it_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(tmp_path / "rows.csv", ("torch",), threads=2)
    report.add("layer", Row("titans", 1234.5678, "ms"))
    report.add("layer", with_target(Row("theirs", 0.5, "ms", 0.25), ">= 10", met=False))

    first, second = record.read(report.path)
    assert tuple(first) == COLUMNS
    assert (first["value"], first["ratio"], first["threads"]) == ("1234.57", "", "2")
    assert (second["ratio"], second["target"]) == ("0.25", ">= 10: missed")
    assert first["device"] == record.device_name()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{record.device_name()}, threads: 2"
    assert printed[-2].split() == ["layer", "titans", "1,235", "ms"]
    assert printed[-1].split() == ["layer", "theirs", "0.5", "ms", "0.25", "x", "ours", ">=", "10:", "missed"]
