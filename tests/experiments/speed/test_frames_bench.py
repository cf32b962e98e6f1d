"""The benchmark of preparing tables: ours at tiny sizes, beside a package that is absent."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from speed import frames_bench
from titans_ts.tables.read import read_table


def test_every_row_is_printed_and_in_the_csv_and_an_absent_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "neuralforecast", None)
    monkeypatch.setattr(frames_bench, "in_a_process", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(frames_bench, "SIZES", ((3, 150),))

    frames_bench.main(["--repeats", "1", "--threads", str(torch.get_num_threads()), "--out", str(tmp_path)])

    with (tmp_path / "frames_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["benchmark"] for row in rows] == ["3 x 150"] * 4 + ["3 x 150, shuffled"] * 4
    assert [row["unit"] for row in rows[:4]] == ["ms", "ms", "MiB", "MiB"]
    assert all(float(row["value"]) > 0 for row in rows if row["unit"] == "ms")
    printed = capsys.readouterr().out
    assert all(row["name"] in printed for row in rows)
    assert "neuralforecast cannot be imported" in printed


def test_what_is_met_is_told_from_what_is_missed() -> None:
    found = frames_bench._rows([frames_bench.OURS, frames_bench.THEIRS], [2.0, 1.0], "ms")
    assert [(row.ratio, row.target) for row in found] == [(1.0, ""), (0.5, ">= 1: missed")]
    assert frames_bench._rows([frames_bench.OURS, frames_bench.THEIRS], [2.0, 2.0], "ms")[1].target == ">= 1: met"


def test_the_shuffled_table_is_the_same_table() -> None:
    panels = [read_table(frames_bench.example(3, 50, shuffled)) for shuffled in (False, True)]
    assert np.array_equal(panels[0].data.values, panels[1].data.values)
