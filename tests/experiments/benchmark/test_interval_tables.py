"""The tables of intervals in print."""

from __future__ import annotations

import record
from benchmark.interval_scores import SCORED
from benchmark.interval_tables import tables

RESULTS = (record.RESULTS.parent / "RESULTS.md").read_text()


def row(data: str, method: str, origins: int, coverage: float, horizon: int = 24) -> dict[str, str]:
    worst = "70.5" if origins > 1 else ""
    return {
        **dict(data=data, horizon=str(horizon), method=method, series="7", origins=str(origins)),
        **dict(coverage_50="51.26", coverage_80=str(coverage), coverage_95="94", worst_80=worst),
        **dict(early_80="81", middle_80="80", late_80="79.96", crps="0.31234", width_80="1.5", seconds="3.6"),
    }


def test_streams_and_competitions_have_a_table_each_with_the_columns_that_they_have() -> None:
    found = [
        row("ETTh1", "adaptive", 100, 82, horizon=96),
        row("M3 yearly", "AutoETS", 1, 77),
        row("ETTh1", "adaptive", 100, 90),
        row("ETTh1", "adaptive", 100, 81),
    ]
    streams, competitions = tables(found)
    head, line = "| 50 % | 80 % | 95 % | 80 %, thirds of the horizon |", "51.3 | {} | 94.0 | 81.0 80.0 80.0 |"
    assert streams.splitlines() == [
        f"| data, steps | method | origins {head} 80 %, worst channel | CRPS | width of 80 % | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        f"| ETTh1, 24 | adaptive | 100 | {line.format('81.0')} 70.5 | 0.3123 | 1.500 | 4 |",
        f"| ETTh1, 96 | adaptive | 100 | {line.format('82.0')} 70.5 | 0.3123 | 1.500 | 4 |",
    ]
    assert competitions.splitlines() == [
        f"| data, steps | method {head} CRPS | width of 80 % | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| M3 yearly, 24 | AutoETS | {line.format('77.0')} 0.3123 | 1.500 | 4 |",
    ]


def test_the_results_show_what_the_committed_csv_holds() -> None:
    found = tables(record.read(record.RESULTS / "intervals.csv"))
    assert len(found) == 2
    assert all(f"\n{table}\n" in RESULTS for table in found)


BEYOND = {("ETTh2", "96", 80), ("weather", "96", 50)}  # RESULTS.md says why


def test_adaptive_intervals_are_within_three_points_of_nominal_but_where_the_results_say_so() -> None:
    adaptive = [x for x in record.read(record.RESULTS / "intervals.csv") if x["method"] == "adaptive"]
    assert len(adaptive) == 6
    cells = {
        (x["data"], x["horizon"], level): float(x[f"coverage_{level}"]) - level for x in adaptive for level in SCORED
    }
    assert {cell for cell, apart in cells.items() if abs(apart) > 3} == BEYOND
    assert max(map(abs, cells.values())) < 4
