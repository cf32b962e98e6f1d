"""backtest and compare: the scores of forecasts that knew only the rows before."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

NAMES = "--id-col shop --time-col day --target-col sold"


def test_scores_are_those_of_the_forecasts_written(titans: Any, shops_file: Path, small: str, tmp_path: Path) -> None:
    how = "--windows 2 --step 4 --level 80 --no-refit"
    done = titans("backtest", shops_file, NAMES, small, how, "--out", tmp_path / "b.parquet")
    assert done.exit_code == 0, done.output
    scores = pd.read_csv(io.StringIO(done.stdout))
    assert list(scores.columns) == ["model", "mase", "mae", "rmse", "smape", "coverage-80"]
    frame = pd.read_parquet(tmp_path / "b.parquet")
    assert frame["cutoff"].nunique() == 2
    np.testing.assert_allclose(scores["mae"], (frame["sold"] - frame["Titans"]).abs().mean())
    inside = frame["sold"].between(frame["Titans-lo-80"], frame["Titans-hi-80"])
    np.testing.assert_allclose(scores["coverage-80"], inside.mean())


def test_windows_are_drawn_and_the_horizon_is_the_frequencys(titans: Any, sales_file: Path, small: str) -> None:
    out = sales_file.with_name("b.png")
    done = titans("backtest --windows 1", sales_file, small.replace("--horizon 3", "").replace("-q", ""), "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stderr == "windows: 1, of 12 steps each\n"
    assert out.read_bytes().startswith(b"\x89PNG")


def test_too_few_rows_are_an_error_in_words(titans: Any, sales_file: Path, small: str) -> None:
    done = titans("backtest --windows 20", sales_file, small)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "lower `--windows`, `--horizon` or `--step`" in done.stderr
    assert titans("backtest --quantile 0.5", sales_file, small).exit_code == 2


def test_models_are_compared(titans: Any, sales_file: Path, small: str) -> None:
    done = titans("compare --windows 2", sales_file, small)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(io.StringIO(done.stdout))
    assert list(found.columns) == ["model", "mase", "mae", "rmse", "smape", "wins"]
    assert set(found["model"]) == {"TitansForecaster", "ClosedForm", "SeasonalNaive", "Drift", "MeanForecaster"}
    assert titans("compare --out c.png", sales_file, small).exit_code == 2
