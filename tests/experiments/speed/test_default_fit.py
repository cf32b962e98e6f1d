"""The benchmark of the default fit, on small tables and on files that are absent."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

import record
from speed import default_fit
from speed.default_fit import COLUMNS, Case


def test_a_fit_is_a_row_and_an_absent_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"horizon": 3, "lookback": 8, "d_model": 8}
    cases = (
        Case("few rows", lambda root: default_fit.readme(root)[:100], 60, small),
        Case("M3 monthly", default_fit.m3_monthly, 30, {}),
    )
    monkeypatch.setattr(default_fit, "CASES", cases)
    default_fit.main(["--root", str(tmp_path), "--out", str(tmp_path), "--threads", str(torch.get_num_threads())])
    (row,) = record.read(tmp_path / "default_fit.csv")
    assert tuple(row) == COLUMNS
    assert (row["series"], row["rows"], row["steps"], row["stopped"]) == ("1", "100", "0", "few series")
    assert 0 < float(row["first_evaluation"]) <= float(row["seconds"])
    assert row["target"] == "<= 60 s: met"
    assert row["initial_error"] == row["error"]
    assert "M3 monthly: skipped" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "stopped", "words"), [(31.0, "probe", "missed"), (31.0, "patience", "met"), (9.0, "few series", "met")]
)
def test_the_seconds_of_a_training_that_went_on_are_in_addition(seconds: float, stopped: str, words: str) -> None:
    assert default_fit._target(30, seconds, 8.0, stopped) == f"<= 30 s: {words}"


def test_m3_and_m4_are_read_without_their_values_to_forecast(tmp_path: Path) -> None:
    for folder in ("m3", "m4"):
        (tmp_path / folder).mkdir()
    facts = {"x": [1.0, 2.0], "xx": [3.0], "period": ["MONTHLY"]}
    series = {"N1": facts, "N2": {**facts, "period": ["YEARLY"]}}
    (tmp_path / "m3" / "m3_data.json").write_text(json.dumps(series))
    table = default_fit.m3_monthly(tmp_path)
    assert table["y"].tolist() == [1.0, 2.0]
    assert table["ds"].tolist() == [pd.Timestamp("2000-01-01"), pd.Timestamp("2000-02-01")]

    pd.DataFrame({"V1": ["H1", "H2"], "V2": [1, 4], "V3": [2, None]}).to_csv(
        tmp_path / "m4" / "Hourly-train.csv.gz", index=False
    )
    table = default_fit.m4_hourly(tmp_path)
    assert list(zip(table["unique_id"], table["y"], strict=True)) == [("H1", 1.0), ("H1", 2.0), ("H2", 4.0)]
