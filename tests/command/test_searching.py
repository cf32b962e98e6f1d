"""tune: ranges as they are typed, a row for each trial, and the best model saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from titans_ts import TitansForecaster
from titans_ts.command.searching import distribution


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d_model=8,16", CategoricalDistribution([8, 16])),
        ("loss=mse,mae", CategoricalDistribution(["mse", "mae"])),
        ("n_layers=1:3", IntDistribution(1, 3)),
        ("dropout=0.0:0.5", FloatDistribution(0.0, 0.5)),
        ("learning_rate=1e-4:1e-2:log", FloatDistribution(1e-4, 1e-2, log=True)),
    ],
)
def test_ranges_are_read_as_typed(text: str, expected: Any) -> None:
    assert distribution(text)[1] == expected


@pytest.mark.parametrize(
    "text", ["d_model", "=1:2", "d_model=", "d_model=a:b", "d_model=1:2:3", "n_layers=3:1", "x=1:log"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="NAME=16,32,64"):
        distribution(text)


def test_a_study_goes_on_and_its_best_model_is_saved(titans: Any, sales_file: Path, small: str, tmp_path: Path) -> None:
    how = f"{small.replace('-q ', '')} --space dropout=0.0,0.3 --storage {tmp_path / 'journal'}"
    first = titans("tune --trials 1", sales_file, how)
    assert first.exit_code == 0, first.output
    assert first.stderr.startswith("trial 0 complete: relative error ")
    done = titans("tune --trials 2", sales_file, how, "--model", tmp_path / "m", "--out", tmp_path / "t.csv")
    assert (done.exit_code, done.stdout) == (0, "")
    found = pd.read_csv(tmp_path / "t.csv")
    assert list(found.columns) == ["trial", "state", "relative_error", "dropout"]
    assert found["relative_error"].is_monotonic_increasing
    best = TitansForecaster.load(tmp_path / "m")
    assert best.dropout == found["dropout"][0]
    assert best.get_params()["lookback"] == 16


def test_a_parameter_that_there_is_not_is_refused(titans: Any, sales_file: Path) -> None:
    done = titans("tune --space d_modle=8,16", sales_file)
    assert done.exit_code == 2
    assert "did you mean 'd_model'" in done.stderr


def test_where_no_trial_completes_the_reason_is_told(titans: Any, sales_file: Path, small: str) -> None:
    done = titans("tune --trials 1 --space n_heads=3,3", sales_file, small)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "none of the 1 trials completed" in done.stderr
