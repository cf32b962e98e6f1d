"""Rows of recall and of permutations are measured once, by small models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import record
from benchmark import recall
from benchmark.recall import COLUMNS, LENGTHS, LOADS, PROBLEMS, Problem, main
from benchmark.recall_training import Training


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Few questions and short sequences; the seeds that are trained."""
    trained = []
    real = recall.train

    def counted(model: object, draw: object, training: Training, seed: int) -> object:
        trained.append(seed)
        return real(model, draw, replace(training, tokens=64), seed)

    monkeypatch.setattr(recall, "train", counted)
    monkeypatch.setattr(recall, "QUESTIONS", 32)
    monkeypatch.setitem(LENGTHS, "recall", (64,))
    return trained


@pytest.mark.parametrize(("task", "load"), [("recall", "4"), ("permutations", "3")])
def test_what_the_csv_holds_is_not_measured_again(
    task: str, load: str, small: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [task, "--rows", "lmm", "--seeds", "0", "1", "--steps", "2", "--loads", load, "--out", str(tmp_path)]
    main([*given, "--lengths", "128"])
    assert small == [0, 1]
    first = (tmp_path / f"{task}.csv").read_text()
    main([*given, "--lengths", "128"])
    assert (tmp_path / f"{task}.csv").read_text() == first
    main([*given, "--lengths", "128", "130"])
    assert small == [0, 1, 0, 1]
    rows = record.read(tmp_path / f"{task}.csv")
    asked = [(row["row"], row["seed"], row["length"]) for row in rows]
    assert len(asked) == len({(*one, row[COLUMNS[task][2]]) for one, row in zip(asked, rows, strict=True)})
    assert {row["length"] for row in rows} >= {"128", "130"}
    assert all(0 <= float(row["accuracy"]) <= 1 and row["questions"] == "32" for row in rows)
    capsys.readouterr()
    main([task, "--print", "--out", str(tmp_path)])
    assert "| lmm |" in capsys.readouterr().out
    main([task, "--draw", "--out", str(tmp_path)])
    assert (tmp_path / f"{task}.png").exists()


def test_a_seed_measures_the_same(tmp_path: Path) -> None:
    given = ["permutations", "--rows", "lmm", "--seeds", "0", "--steps", "3", "--loads", "3", "--lengths", "32"]
    found = []
    for name in ("a", "b"):
        main([*given, "--out", str(tmp_path / name)])
        found.append([row["accuracy"] for row in record.read(tmp_path / name / "permutations.csv")])
    assert found[0] == found[1]


@pytest.mark.parametrize("task", PROBLEMS)
def test_a_cell_has_a_standard_error_below_two_hundredths(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    problems: list[Problem] = PROBLEMS[task](LENGTHS[task], LOADS[task])
    for problem in problems:
        asked = [cell.sequences * (problem.last or cell.load) for cell in problem.cells]
        assert 0.5 / min(asked) ** 0.5 < 0.02
        assert len(problem.cells) == len({(cell.load, cell.length) for cell in problem.cells})
