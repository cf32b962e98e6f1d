"""The stream tables in print."""

from __future__ import annotations

import re

import pytest

import record as record_of_rows
from benchmark.stream_tables import channel_skill, print_tables, summary

RESULTS = (record_of_rows.RESULTS.parent / "RESULTS.md").read_text()


def record(row: str, mse: float, horizon: str = "24", channels: str = "1.0 2.0", table: str = "S2") -> dict[str, str]:
    return {
        **dict(table=table, dataset="ETTm1", column=table, lookback="336", horizon=horizon, row=row),
        **dict(mse=str(mse), mae="0.5", validation_mse="" if row == "later" else "0.4", difference="-0.1"),
        **dict(low="-0.2", high="0.05", channel_mse=channels, updates="3", seconds_per_update="0.015"),
    }


def test_a_cell_is_printed_with_what_others_published(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables([record("frozen on train", 0.6), record("later", 0.55)])
    printed = capsys.readouterr().out
    assert "Table S2, ETTm1, column S2, lookback 336, horizon 24" in printed
    line = next(line for line in printed.splitlines() if line.startswith("later"))
    assert line.split() == ["later", "0.5500", "0.5000", "-", "-0.1000", "[-0.2000,", "+0.0500]", "0.015"]
    assert "iTransformer with R-ARC (published)" in printed
    assert "0.4810" in printed
    assert "mean over" not in printed


def test_table_s1_is_printed_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_tables([record("frozen on train", 0.6, table="S1")])
    assert "published" not in capsys.readouterr().out


def test_means_are_over_horizons_that_a_row_has_all_of(capsys: pytest.CaptureFixture[str]) -> None:
    found = [record("frozen on train", 0.6), record("later", 0.5), record("frozen on train", 0.8, "48")]
    print_tables([*found, record("later", 0.62, "48"), record("half", 0.1, "48")])
    means = capsys.readouterr().out.split("mean over 24, 48")[1]
    assert [line.split() for line in means.strip().splitlines()] == [
        ["frozen", "on", "train", "0.7000", "+0.0", "%"],
        ["later", "0.5600", "-20.0", "%"],
    ]


def test_skill_is_by_channel(capsys: pytest.CaptureFixture[str]) -> None:
    found = [record("frozen on train", 1.5), record("later", 1.0, channels="0.5 3.0")]
    assert channel_skill(found[1], found) == [0.5, -0.5]
    assert channel_skill(found[1], found[1:]) is None
    print_tables(found, channels=True)
    assert "skill by channel: +0.500 -0.500" in capsys.readouterr().out


def test_a_summary_has_means_of_s1_and_each_horizon_of_s2() -> None:
    frozen, memory = "frozen on train", "long-term memory"
    first = [record(frozen, 0.25, "96", table="S1"), record(frozen, 0.35, "192", table="S1")]
    found = [record(memory, 1.5), record(frozen, 2.0), record(memory, 0.2, "96", table="S1"), *first]
    assert summary(found).split("\n") == [
        "| Table S1, column S1 | ETTm1 |",
        "|---|---|",
        "| frozen on train | .3000 |",
        "",
        "| Table S2, column S2 | ETTm1 24 |",
        "|---|---|",
        "| frozen on train | 2.0000 |",
        "| long-term memory | 1.5000 |",
    ]


def test_the_page_of_results_has_the_summary() -> None:
    assert summary(record_of_rows.read(record_of_rows.RESULTS / "stream.csv")) in RESULTS


def test_the_readme_has_rows_of_the_summary() -> None:
    readme = (record_of_rows.RESULTS.parents[1] / "README.md").read_text()
    table = re.search(r"\| Table S1, column i \|[^\n]*\n(?:\|[^\n]*\n)+", readme)
    assert table is not None
    lines = table[0].strip().split("\n")
    assert len(lines) > 3
    assert set(lines) <= set(summary(record_of_rows.read(record_of_rows.RESULTS / "stream.csv")).split("\n"))
