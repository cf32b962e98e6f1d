"""The competitions' Markdown, from a CSV written here, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

import record
from benchmark import competition_tables
from titans_ts.datasets import COMPETITIONS

ROWS = """group,method,source,series,smape,mase,seconds,device,versions,commit
M3 yearly,TitansForecaster,run here,645,20.0,5.0,9.00,,,
M3 yearly,AutoETS,run here,645,16.19,2.695,1.20,,,
M3 yearly,THETA,its forecasts,645,16.974,2.806,,,,
M3 yearly,NAIVE2,its forecasts,645,17.88,2.6,,,,
M3 yearly,TitansForecaster,run here,645,17,2.7,3.00,,,
M4 quarterly,TitansForecaster,run here,14891,9.5,1.05,60.00,,,
M4 quarterly,Theta,as published,24000,10.311,1.232,,,,
M4 hourly,Theta,as published,414,18.138,2.455,,,,
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "competitions.csv").write_text(ROWS)
    return tmp_path


def test_a_ranking_begins_with_the_least_smape_and_ends_with_our_place(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    competition_tables.main(["M3 yearly", "M4 yearly", "--results", str(results)])
    assert capsys.readouterr().out.splitlines() == [
        "**M3 yearly**",
        "",
        "| method | | sMAPE | MASE | seconds |",
        "|---|---|---|---|---|",
        "| AutoETS | run here | 16.19 | 2.695 | 1.20 |",
        "| THETA | its forecasts | 16.97 | 2.806 | – |",
        "| TitansForecaster | run here | 17.00 | 2.700 | 3.00 |",
        "| NAIVE2 | its forecasts | 17.88 | 2.600 | – |",
        "",
        "TitansForecaster beside those who took part, by sMAPE / MASE: 2 / 2 of 3",
        "",
    ]


def test_scores_of_more_series_than_were_forecast_are_marked_and_not_ranked(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    competition_tables.main(["M4 quarterly", "--results", str(results)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "**M4 quarterly, 14,891 of 24,000 series**"
    assert lines[5:8] == [
        "| Theta | as published* | 10.31 | 1.232 | – |",
        "",
        "TitansForecaster beside those who took part, by sMAPE / MASE: –",
    ]


def test_the_summary_has_a_column_for_each_group(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    competition_tables.main(["--summary", "--results", str(results)])
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["sMAPE / MASE", *list(COMPETITIONS)[:-1], "M4 quarterly, 14,891 of 24,000 series"]
    table = [(row[0], row[1], row[5], row[7]) for row in lines[2:]]  # M3 yearly, M4 hourly, M4 quarterly
    assert table == [
        ("`TitansForecaster()`", "17.00 / 2.700", "–", "9.50 / 1.050"),
        ("its place beside those who took part", "2 / 2 of 3", "–", "–"),
        ("its seconds", "3.00", "–", "60.00"),
        ("seasonal naive", "–", "–", "–"),
        ("Naive2", "–", "–", "–"),
        ("Theta, of those who took part", "16.97 / 2.806", "18.14 / 2.455", "10.31 / 1.232*"),
        ("best of those who took part, each figure by itself", "16.97 / 2.600", "18.14 / 2.455", "10.31 / 1.232*"),
        ("statsforecast DynamicOptimizedTheta", "–", "–", "–"),
        ("its seconds", "–", "–", "–"),
        ("statsforecast AutoETS", "16.19 / 2.695", "–", "–"),
        ("its seconds", "1.20", "–", "–"),
    ]


def test_the_results_show_what_the_committed_csv_holds(capsys: pytest.CaptureFixture[str]) -> None:
    competition_tables.main(["--summary"])
    assert f"\n{capsys.readouterr().out.strip()}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()


def test_the_committed_rows_are_each_of_one_run() -> None:
    lines = (record.RESULTS / "competitions.csv").read_text().splitlines()
    assert len(set(lines)) == len(lines)
