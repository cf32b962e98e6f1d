"""The benchmark's CSV."""

from __future__ import annotations

from pathlib import Path

import torch

import record
from benchmark import rows


def test_what_was_appended_is_held_with_fixed_digits(tmp_path: Path) -> None:
    path = tmp_path / "etth1.csv"
    assert rows.held(path) == set()
    key = rows.Key("titans", "i", 96, 192, 2, "69e76e0c0e1a")
    numbers = {"mse": 0.1234567, "mae": 1.0, "seconds": 12.345}
    where = {"device": "here, 2 threads", "versions": "torch 2", "commit": "abc"}
    rows.append(path, {"dataset": "ETTh1", **key._asdict(), **numbers, **where})
    assert rows.held(path) == {key}
    assert path.read_text().splitlines()[1] == (
        'ETTh1,titans,i,96,192,2,0.123457,1.000000,12.35,"here, 2 threads",torch 2,abc,69e76e0c0e1a'
    )


def test_the_committed_rows_are_each_of_one_run() -> None:
    """A file that was merged twice would hold its rows twice."""
    found = [path for path in record.RESULTS.rglob("*.csv") if path.read_text().startswith(",".join(rows.COLUMNS))]
    assert len(found) == 13
    for path in found:
        lines = path.read_text().splitlines()
        assert len(set(lines)) == len(lines), path
        assert rows.held(path)


def test_a_processor_is_stamped_with_its_threads() -> None:
    found = rows.stamp("no-such-package")
    assert found["device"].endswith(f", {torch.get_num_threads()} threads")
    assert found["versions"].startswith("torch ")
