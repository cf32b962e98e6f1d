"""The tables' Markdown, from a CSV written here."""

from __future__ import annotations

from pathlib import Path

import pytest

import record
from benchmark import tables

ROWS = """dataset,model,column,lookback,horizon,seed,mse,mae
ETTh1,titans,i,96,96,0,0.5,0.9
ETTh1,titans,i,96,96,1,0.3,0.4
ETTh1,titans,i,96,192,0,0.5,0.4
ETTh1,titans,i,96,336,0,0.6,0.5
ETTh1,titans,i,96,720,0,0.7,0.6
ETTh1,peer,i,96,96,0,0.1234567,0.2
ETTh1,titans,ii,96,96,0,0.2,0.1
ETTh1,titans,i,96,96,0,0.4,0.4
"""


def test_means_over_seeds_and_horizons_gaps_and_rows_measured_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etth1.csv").write_text(ROWS)
    tables.main(["etth1", "--results", str(tmp_path)])
    first, second = capsys.readouterr().out.strip().split("\n\n**")
    assert first.splitlines() == [
        "**ETTh1**, column (i): lookback 96",
        "",
        "| model | 96 | 192 | 336 | 720 | mean MSE | mean MAE |",
        "|---|---|---|---|---|---|---|",
        "| titans | .3500 ± .0500 | .5000 | .6000 | .7000 | .5375 | .4750 |",
        "| peer | .1235 | – | – | – | – | – |",
        "| best published that counts every window | – | – | – | – | .420 | – |",
    ]
    assert second.splitlines()[4:] == [
        "| titans | .2000 | – | – | – | – | – |",
        "| Titans (as published) | – | – | – | – | .420 | .421 |",
        "| SiMBA (as published) | – | – | – | – | .441 | .432 |",
    ]


def test_a_subset_is_called_one_and_stands_beside_nothing_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etth1_subset.csv").write_text(ROWS)
    tables.main(["etth1_subset", "--columns", "i", "--results", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "**ETTh1, some of its series**, column (i): lookback 96"
    assert [line.split(" | ")[0] for line in lines[4:] if line] == ["| titans", "| peer"]


def test_the_time_to_a_peers_error_is_that_of_the_quickest_row_that_is_good_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etth1.csv").write_text(
        """dataset,model,column,horizon,seed,mse,seconds,device
ETTh1,closed-form,i,96,0,0.41,0.5,here
ETTh1,titans,i,96,0,0.39,20.0,here
ETTh1,closed-form,i,96,0,0.31,0.2,elsewhere
ETTh1,titans,i,96,1,0.40,25.0,here
ETTh1,titans,iii,96,0,0.30,0.1,here
ETTh1,simba-none,i,96,0,0.30,0.1,here
ETTh1,DLinear,i,96,0,0.42,100.0,here
ETTh1,NHITS,i,96,0,0.40,90.0,here
ETTh1,PatchTST,i,96,0,0.38,300.0,here
ETTh1,DLinear,i,192,0,0.50,100.0,here
"""
    )
    tables.main(["etth1", "--quality", "--results", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| ETTh1, 96 | DLinear | .4200 | 100.0 | .4100 (closed-form) | 0.5 | 200 |",
        "| ETTh1, 96 | NHITS | .4000 | 90.0 | .3900 (titans) | 20.0 | 4 |",
        "| ETTh1, 96 | PatchTST | .3800 | 300.0 | – | not reached | – |",
        "| ETTh1, 192 | DLinear | .5000 | 100.0 | – | not timed | – |",
    ]


def test_an_ablation_has_a_column_for_each_horizon_and_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "etth1.csv").write_text("\n".join(ROWS.splitlines()[:4]))
    (tmp_path / "etth2.csv").write_text("dataset,model,column,lookback,horizon,seed,mse,mae\nETTh2,x,i,96,96,0,.2,.1\n")
    tables.main(["etth1", "etth2", "--ablation", "--results", str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        "| | ETTh1, 96 | ETTh2, 96 | ETTh1, 192 | ETTh2, 192 |",
        "|---|---|---|---|---|",
        "| titans | .4000 ± .1000 | – | .5000 | – |",
        "| x | – | .2000 | – | – |",
    ]


RESULTS = (tables.HERE.parent / "RESULTS.md").read_text()
ALL = ("etth1", "etth2", "ettm1", "ettm2", "weather")


@pytest.mark.parametrize(
    "arguments",
    [
        *([name] for name in (*ALL, "electricity_subset", "traffic_subset")),
        [*ALL, "--summary"],
        ["etth1", "etth2", "--quality"],
        ["etth1", "etth2", "--quality", "--results", str(record.RESULTS / "two_cores")],
        ["plain_etth1", "plain_etth2", "--ablation", "--results", str(record.RESULTS / "ablation")],
        ["etth1", "etth2", "--ablation", "--results", str(record.RESULTS / "ablation")],
    ],
    ids=" ".join,
)
def test_the_results_show_what_the_committed_csvs_hold(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tables.main(arguments)
    printed = capsys.readouterr().out.strip()
    assert printed
    assert f"\n{printed}\n" in RESULTS


def test_the_readme_shows_the_summary() -> None:
    readme = (tables.HERE.parents[1] / "README.md").read_text()
    assert "\n".join(["", *tables.summary([*ALL], record.RESULTS), ""]) in readme


def test_the_summary_has_means_over_the_horizons_what_was_published_and_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "etth1.csv").write_text(ROWS.replace("titans", "closed-form"))
    tables.main(["etth1", "electricity", "--summary", "--results", str(tmp_path)])
    assert capsys.readouterr().out.splitlines() == [
        "| lookback | | ETTh1 | electricity |",
        "|---|---|---|---|",
        "| 96 | `TitansForecaster` as it comes | .5375 | – |",
        "| 96 | best published that counts every window | .420 | – |",
        "| 512 | `TitansForecaster` as it comes | – | – |",
        "| 512 | best published that counts every window | .398 | – |",
        "| 96, last partial batch dropped | `TitansForecaster` as it comes | – | – |",
        "| 96, last partial batch dropped | Titans (as published) | .420 | .162 |",
        "| 96, last partial batch dropped | SiMBA (as published) | .441 | .169 |",
    ]
