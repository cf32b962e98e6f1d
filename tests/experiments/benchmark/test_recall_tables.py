"""Means, spreads and gaps of the recall tables."""

from __future__ import annotations

import pytest

import record
from benchmark.recall_tables import grids, means, table


def row(name: str, accuracy: float, length: int = 512, **others: object) -> dict[str, str]:
    return {"row": name, "accuracy": str(accuracy), "length": str(length)} | {k: str(v) for k, v in others.items()}


RECALL = [
    row("lmm", 0.9, pairs=16),
    row("lmm", 1.0, pairs=16),
    row("lmm", 0.75, 2048, pairs=16),
    row("lmm", 0.5, pairs=4),
    row("mamba", 0.016, pairs=16),
]


def test_recall_is_shown_by_length_and_by_pairs() -> None:
    assert list(table(RECALL, "recall")) == [
        "| 16 pairs, by length | 512 | 2,048 |",
        "|---|---|---|",
        "| lmm | .95 ± .05 | .75 |",
        "| mamba | .02 | – |",
        "",
        "| 512 tokens, by pairs | 4 | 16 |",
        "|---|---|---|",
        "| lmm | .50 | .95 ± .05 |",
        "| mamba | – | .02 |",
        "",
    ]


def test_permutations_have_a_table_for_each_group() -> None:
    rows = [row("lmm", 1.0, 32, group=5), row("lmm", 0.2, 64, group=3), row("lmm", 0.4, 32, group=3)]
    assert [line for line in table(rows, "permutations") if "lmm" in line] == ["| lmm | .40 | .20 |", "| lmm | 1.00 |"]
    assert [grid.title for grid in grids(rows, "permutations")] == ["S3, by length", "S5, by length"]


def test_nothing_measured_is_an_empty_table() -> None:
    assert list(table([], "permutations")) == []
    assert len(list(table([], "recall"))) == 6


def test_seeds_are_gathered_by_rising_length() -> None:
    rows = [row("a", 0.5, 2048), row("a", 0.25, 512), row("a", 0.75, 512), row("b", 1, 512)]
    assert list(means(rows, "a", "length").items()) == [(512, [0.25, 0.75]), (2048, [0.5])]


@pytest.mark.parametrize("task", ["recall", "permutations"])
def test_the_results_show_what_the_committed_csv_holds(task: str) -> None:
    shown = (record.RESULTS.parent / "RESULTS.md").read_text()
    printed = "\n".join(table(record.read(record.RESULTS / f"{task}.csv"), task)).strip()
    assert printed
    assert f"\n{printed}\n" in shown
