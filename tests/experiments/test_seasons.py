"""Cross-validation over blocks of rows, on a small set."""

from __future__ import annotations

from pathlib import Path

import pytest
import seasons
from small_benchmark import NOTHING, ROWS, TOML, data


def lines(
    changed: slice,
    arguments: list[str],
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    monkeypatch.setattr(seasons, "load_dataset", lambda name, root: data(changed))
    seasons.main([str(table), *arguments])
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


TEST, LAST, THIRD = slice(ROWS, None), slice(900, ROWS), slice(600, 900)


@pytest.mark.parametrize("forward", [False, True])
def test_no_block_reads_test_rows(forward: bool, table: Path, monkeypatch, capsys) -> None:
    arguments = ["--forward"] if forward else []
    before = lines(NOTHING, arguments, table, monkeypatch, capsys)
    judged = (
        [(first, first + 225) for first in range(600, 976, 75)]
        if forward
        else [(i, i + 300) for i in range(0, ROWS, 300)]
    )
    assert [line.split(":")[0] for line in before[:-2]] == [f"rows {first:>6} to {last:>6}" for first, last in judged]
    assert before[-2].startswith("ETTh1 96->6 titans, mean: start ")
    assert lines(TEST, arguments, table, monkeypatch, capsys) == before


def test_forward_nothing_is_learned_from_what_comes_later(table: Path, monkeypatch, capsys) -> None:
    before = lines(NOTHING, ["--forward"], table, monkeypatch, capsys)
    after = lines(LAST, ["--forward"], table, monkeypatch, capsys)
    assert before[:2] == after[:2]  # judged by rows 600 to 900
    assert all(a != b for a, b in zip(before[2:6], after[2:6], strict=True))


def test_forward_what_judges_does_not_choose() -> None:
    """Rows that only judge change nothing but what they judge: fits, choices and judges lie one after the other."""
    for fold in seasons.forward_folds(1600):
        (fitted,) = fold.fitted
        assert fold.chosen is not None
        assert fitted.start == 0
        assert fitted.stop == fold.chosen.start >= 500
        assert fold.chosen.stop == fold.judged.start
        assert (len(fold.chosen), len(fold.judged)) == (300, 300)
    assert fold.judged.stop == 1600


def test_otherwise_a_block_is_judged_by_what_the_others_taught(table: Path, monkeypatch, capsys) -> None:
    before, after = (lines(changed, [], table, monkeypatch, capsys) for changed in (NOTHING, THIRD))
    assert all(a != b for a, b in zip(before[:4], after[:4], strict=True))


def test_variants_are_run_one_after_the_other(table: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    starts = Path(seasons.__file__).parent / "starts.toml"
    found = lines(NOTHING, ["--forward", "--variants", str(starts)], table, monkeypatch, capsys)
    names = [line.split(",mean")[0].split(", mean")[0] for line in found if ", mean" in line]
    assert names == [
        f"ETTh1 96->6 {name}"
        for name in (
            *("one path for all", "own path", "own path, level", "own path, level, others"),
            *("own path, level, others by phase", "own path, level, others by four harmonics"),
        )
    ]
