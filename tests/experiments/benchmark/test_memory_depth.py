"""Error and time of the long-term memory by depth and history, on a small data set."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

import record
from benchmark import memory_depth
from benchmark.memory_depth import main, measure, table
from benchmark.memory_origins import Subject
from titans_ts.datasets import Dataset


def test_a_history_ends_where_test_begins(small: Dataset) -> None:
    subject = Subject(small, 12)
    short, long, most = (measure(subject, 1, history) for history in (100, 700, 1000))
    whole = subject.errors(subject.memory(subject.config))
    assert short["frozen_mse"] == pytest.approx(whole.frozen_test)
    assert short["mse"] != long["mse"]
    assert long["mse"] == pytest.approx(subject.errors(subject.memory(subject.config), 100).test)
    assert most["mse"] is None  # there are 704 origins before the test rows
    assert min(row["seconds_per_1000"] for row in (short, long, most)) > 0
    with pytest.raises(ValueError, match="`history` must be at most the 1104 origins"):
        measure(subject, 1, 1105)


def test_rows_are_measured_once_and_drawn(tmp_path: Path, small: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    given = ["etth1", "--horizon", "12", "--depths", "1", "2", "--histories", "200", "1000", "--out", str(out)]
    with patch.object(memory_depth, "load_dataset", lambda name, root: small):
        main(given)
        first = out.read_text()
        main(given)
    assert out.read_text() == first
    rows = record.read(out)
    assert [(row["depth"], row["history"], bool(row["mse"])) for row in rows] == [
        ("1", "200", True), ("1", "1000", False), ("2", "200", True), ("2", "1000", False)
    ]  # fmt: skip
    assert out.with_suffix(".png").stat().st_size > 5000
    assert "| ETTh1, 2 series, depth 2 |" in capsys.readouterr().out


def test_the_table_has_the_change_and_the_time() -> None:
    row = {"dataset": "a", "n_series": "7", "depth": "1", "frozen_mse": "2", "seconds_per_1000": "0.456"}
    lines = table([row | {"history": "1000", "mse": "1.8"}, row | {"history": "50000", "mse": ""}])
    assert lines[-1] == "| a, 7 series, depth 1 | -10.0 / 0.46 | – / 0.46 |"
