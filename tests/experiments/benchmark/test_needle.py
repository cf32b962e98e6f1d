"""The needle's command: rows kept at once and measured once, tables and a picture of what is held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import record
from benchmark import needle as module
from benchmark.needle import COLUMNS, LOAD, draw, held, main, tables
from benchmark.needle_rows import ROWS, SHAPE_KNOWN

CHEAP = "season known, no shape"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    main(["--rows", SHAPE_KNOWN, CHEAP, "--distances", "100", "208", "--loads", "--seeds", "0", "--out", str(tmp_path)])
    return tmp_path


def test_each_row_is_measured_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = record.read(folder / "needle.csv")
    assert list(found[0]) == list(COLUMNS)
    assert held(folder / "needle.csv") == {(n, 0, d, LOAD) for n in (SHAPE_KNOWN, CHEAP) for d in (100, 208)}
    capsys.readouterr()
    main(["--rows", SHAPE_KNOWN, "--distances", "100", "--loads", "--seeds", "0", "--out", str(folder)])
    assert "seed" not in capsys.readouterr().out
    assert len(record.read(folder / "needle.csv")) == 4


def test_print_measures_nothing_and_draws(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measured", None)
    main(["--print", "--out", str(folder)])
    assert (folder / "needle.png").stat().st_size > 10_000


def test_tables_are_means_over_seeds_in_the_order_of_rows(tmp_path: Path) -> None:
    found = [
        {"row": name, "seed": str(seed), "distance": str(d), "load": str(load), "mse": str(mse), "ordinary_mse": "0.1"}
        for name, seed, d, load, mse in [
            ("long-term memory", 0, 100, 2, 0.3),
            ("long-term memory", 1, 100, 2, 0.5),
            ("long-term memory", 0, 6400, 8, 0.7),
            ("long-term memory", 0, 6400, 2, 0.6),
            (SHAPE_KNOWN, 0, 100, 2, 0.09),
        ]
    ]
    by_distance, by_load = tables(found).split("\n\n")
    assert by_distance.splitlines()[2:] == [
        f"| {SHAPE_KNOWN} | .09 | – | .100 |",
        "| long-term memory | .40 ± .10 | .60 | .100 |",
    ]
    assert by_load.splitlines()[2:] == ["| long-term memory | .60 | .70 | .100 |"]
    draw(found, tmp_path / "needle.png")
    assert (tmp_path / "needle.png").exists()


def test_results_hold_only_known_rows() -> None:
    for row in record.read(record.RESULTS / "needle.csv"):
        assert row["row"] in ROWS
        assert np.isfinite([float(row["mse"]), float(row["ordinary_mse"])]).all()


def test_the_tables_of_results_are_those_of_the_csv() -> None:
    page = (record.RESULTS.parent / "RESULTS.md").read_text()
    for table in tables(record.read(record.RESULTS / "needle.csv")).split("\n\n"):
        assert f"\n{table}\n" in page
