"""The command that measures covariates: which rows it measures, their errors, and the table that it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import record
from benchmark import covariates
from benchmark.covariates_data import Problem


def test_errors_are_in_per_cent_of_each_mean_over_known_values(weather_problem: Problem) -> None:
    scale = weather_problem.scale[weather_problem.ids].to_numpy()[:, None, None]
    forecast = weather_problem.actual() + scale * np.array([0.03, -0.05])[:, None, None]
    weather_problem.frame.loc[weather_problem.frame.index[-1], "y"] = np.nan
    mae, rmse = covariates.errors(weather_problem, forecast)
    n = weather_problem.actual().size
    assert mae == pytest.approx((3 * n / 2 + 5 * (n / 2 - 1)) / (n - 1))
    assert rmse == pytest.approx(np.sqrt((9 * n / 2 + 25 * (n / 2 - 1)) / (n - 1)))


def test_a_forecast_that_is_not_finite_is_refused(weather_problem: Problem) -> None:
    forecast = weather_problem.actual()
    forecast[0, 0, 0] = np.inf
    with pytest.raises(ValueError, match="must be finite, got 1"):
        covariates.errors(weather_problem, forecast)


def test_rows_that_the_csv_holds_are_not_measured_again(
    weather_problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(covariates, "PROBLEMS", {"weather": lambda root, horizon: weather_problem})
    arguments = ["weather", "--rows", "seasonal naive", "--out", str(tmp_path)]
    covariates.main(arguments)
    covariates.main(arguments)
    (row,) = record.read(tmp_path / "covariates.csv")
    assert (row["dataset"], row["model"], row["origins"]) == ("weather", "seasonal naive", "3")
    covariates.main([*arguments, "--again"])
    assert len(record.read(tmp_path / "covariates.csv")) == 2
    assert "| seasonal naive |" in capsys.readouterr().out


def test_an_absent_package_leaves_its_row_out_and_says_so(
    weather_problem: Problem, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlforecast", None)
    assert list(covariates.measure(weather_problem, ["LightGBM, recursive"], set())) == []
    assert "mlforecast cannot be imported" in capsys.readouterr().out


def test_the_table_sets_each_model_against_ours_without_covariates() -> None:
    def row(model: str, mae: str, rmse: str) -> dict[str, str]:
        return dict(dataset="d", model=model, horizon="24", mae=mae, rmse=rmse, fit_seconds="3.4")

    rows = [row("ours", "9", "9"), row("TiDE", "6", "15"), row("ours", "8", "10")]
    assert covariates.table(rows) == [
        "**d**, 24 hours ahead",
        "",
        "| model | MAE, % | RMSE, % | MAE to without | RMSE to without | fit, s |",
        "|---|---|---|---|---|---|",
        "| ours | 8.00 | 10.00 | 1.000 | 1.000 | 3 |",
        "| TiDE | 6.00 | 15.00 | 0.750 | 1.500 | 3 |",
    ]


def test_the_results_show_what_the_committed_csv_holds() -> None:
    table = "\n".join(covariates.table(record.read(record.RESULTS / "covariates.csv")))
    assert table
    assert f"\n{table}\n" in (record.RESULTS.parent / "RESULTS.md").read_text()
