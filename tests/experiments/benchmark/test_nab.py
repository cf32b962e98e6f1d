"""The rows and the table of NAB's detectors, on made-up files and on the real ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import record
from benchmark import nab
from benchmark.nab import COLUMNS, PUBLISHED, measure, table
from benchmark.nab_data import LabelledFile
from benchmark.nab_detectors import detectors
from benchmark.nab_score import PROFILES


def made_up() -> list[LabelledFile]:
    """Two files of 400 hours, a spike in the window of the first."""
    timestamps = np.datetime64("2014-04-01", "ns") + np.arange(400) * np.timedelta64(1, "h")
    first, second = np.random.default_rng(0).normal(size=(2, 400))
    first[300] = 50
    return [LabelledFile("a", timestamps, first, [(300, 339)]), LabelledFile("b", timestamps, second, [])]


def test_each_detector_has_a_row_for_each_profile() -> None:
    rows = list(measure(made_up(), {"z": detectors()["rolling z-score"], "none": lambda t, values: 0 * values}))
    assert [(row["detector"], row["profile"]) for row in rows] == [(d, p) for d in ("z", "none") for p in PROFILES]
    assert all(set(row) == set(COLUMNS) for row in rows)
    assert {row["score"] for row in rows[:3]} == {"100.0000"}
    assert {row["score"] for row in rows[3:]} == {"0.0000"}
    assert [(row["windows_found"], row["false_rows"], row["files"]) for row in rows] == [(1, 0, 2)] * 3 + [
        (0, 0, 2)
    ] * 3


def test_the_table_has_the_published_scores_and_the_best_first() -> None:
    rows = [
        dict(detector="ours", profile=profile, score="50.0", seconds="1.234") for profile in PROFILES for _ in range(2)
    ]
    head, rule, *lines = table(rows)
    assert head == "| detector | standard | reward_low_FP_rate | reward_low_FN_rate | measured in |"
    assert rule == "|---|---|---|---|---|"
    assert lines[0] == "| ARTime | 74.9 | 65.1 | 80.4 | published |"
    assert lines[8] == "| ours | 50.0 | 50.0 | 50.0 | 1.23 s |"
    assert lines[-1] == "| Null | 0.0 | 0.0 | 0.0 | published |"
    assert len(lines) == len(PUBLISHED) + 1


def test_what_the_csv_holds_is_measured_again_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nab, "load_nab", lambda root: made_up())
    call = ["random", "rolling z-score", "--out", str(tmp_path)]
    nab.main(call)
    assert "| rolling z-score | 100.0 | 100.0 | 100.0 |" in capsys.readouterr().out
    nab.main(call)
    assert len(record.read(tmp_path / "nab.csv")) == 6
    nab.main([*call, "--again"])
    assert len(record.read(tmp_path / "nab.csv")) == 12


def test_an_unknown_detector_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        nab.main(["rolling"])
    assert "must be some of random, rolling z-score" in capsys.readouterr().err


def test_the_results_show_every_score_that_the_csv_holds() -> None:
    page = (record.RESULTS.parent / "RESULTS.md").read_text()
    _, _, *lines = table(record.read(record.RESULTS / "nab.csv"))
    for line in lines:
        name, *scores, where = line.strip("| ").split(" | ")
        shown = f"{name} (published)" if where == "published" else name
        assert f"\n| {shown} | {' | '.join(scores)} |\n" in page


@pytest.mark.data
def test_the_csv_holds_what_the_detectors_score_on_the_real_files(data_folder: Path) -> None:
    held = {(row["detector"], row["profile"]): row for row in record.read(record.RESULTS / "nab.csv")}
    names = ("rolling z-score", "seasonal naive error: likelihood", "naive error: tail, quiet")
    for row in measure(nab.load_nab(data_folder), {name: detectors()[name] for name in names}):
        kept = held[row["detector"], row["profile"]]
        assert float(row["score"]) == pytest.approx(float(kept["score"]), abs=0.01)
        assert (row["windows_found"], row["false_rows"]) == (int(kept["windows_found"]), int(kept["false_rows"]))
