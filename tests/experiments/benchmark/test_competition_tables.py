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
        ("drift", "–", "–", "–"),
        ("closed form", "–", "–", "–"),
        ("mean of seasonal naive, drift and closed form", "–", "–", "–"),
        ("Theta, of those who took part", "16.97 / 2.806", "18.14 / 2.455", "10.31 / 1.232*"),
        ("best of those who took part, each figure by itself", "16.97 / 2.600", "18.14 / 2.455", "10.31 / 1.232*"),
        ("statsforecast DynamicOptimizedTheta", "–", "–", "–"),
        ("its seconds", "–", "–", "–"),
        ("statsforecast AutoETS", "16.19 / 2.695", "–", "–"),
        ("its seconds", "1.20", "–", "–"),
    ]


TRAINED = """group,variant,epochs,seed,smape,mase,error_before,error_after,kept_epoch,network_weight,combined_error,\
seconds
M4 hourly,closed form,0,0,12.5,1.5,0.8,,0,0.25,0.7,9.6
M3 yearly,memory,2,0,9.0,9.0,0.8,0.9,0,0.5,0.75,20
M3 yearly,memory,2,1,18.5,2.75,0.8,0.78,1.25,0.75,0.7,40
M3 yearly,memory,2,0,17.5,2.25,0.8,0.76,2,0.25,0.72,30
M3 yearly,memory,1,0,16.5,2.5,0.8,0.81,0,0,0.75,4
"""


def test_trained_networks_are_means_over_seeds_in_the_order_of_the_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "competitions_training.csv").write_text(TRAINED)
    competition_tables.main(["--training", "--results", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| M3 yearly | memory | 2 | 2 | 18.00 / 2.500 | 0.8000 | 0.7700 | 1.62 | 0.50 | 0.7100 | 35 |",
        "| M3 yearly | memory | 1 | 1 | 16.50 / 2.500 | 0.8000 | 0.8100 | 0.00 | 0.00 | 0.7500 | 4 |",
        "| M4 hourly | closed form | 0 | 1 | 12.50 / 1.500 | 0.8000 | – | 0.00 | 0.25 | 0.7000 | 10 |",
    ]


@pytest.mark.parametrize("table", ["--summary", "--training"])
def test_the_results_show_what_the_committed_csv_holds(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    competition_tables.main([table])
    assert f"\n{capsys.readouterr().out.strip()}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()


def test_the_readme_shows_the_first_columns_of_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    competition_tables.main(["--summary"])
    readme = (record.RESULTS.parents[1] / "README.md").read_text()
    shown = [line.rpartition(" |")[0].rpartition(" |")[0] for line in capsys.readouterr().out.splitlines()]
    ours = [line for line in shown if line.startswith(("| `Titans", "| stats", "| best of those"))]
    assert len(ours) == 4
    assert all(f"\n{line} |\n" in readme for line in ours)


@pytest.mark.parametrize("name", ["competitions", "competitions_training"])
def test_the_committed_rows_are_each_of_one_run(name: str) -> None:
    lines = (record.RESULTS / f"{name}.csv").read_text().splitlines()
    assert len(set(lines)) == len(lines)
