"""datasets and demo: what can be tried without a table."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from titans_ts import load_dataset


def test_data_sets_are_listed(titans: Any) -> None:
    found = pd.read_csv(io.StringIO(titans("datasets").stdout)).set_index("name")
    assert found.loc["bike_sharing"].tolist() == ["h", 17379, 1, "with the package"]
    assert found.loc["ETTh1", "series"] == 7
    assert found.loc["ETTh1", "source"].startswith("https://")


def test_a_data_set_is_written(titans: Any, tmp_path: Path) -> None:
    done = titans("datasets bike_sharing --out", tmp_path / "bikes.parquet")
    assert (done.exit_code, done.output) == (0, "")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "bikes.parquet"), load_dataset("bike_sharing").frame)


def test_an_unknown_data_set_and_one_that_is_not_there_are_errors_in_words(titans: Any, tmp_path: Path) -> None:
    done = titans("datasets ETTh9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "ETTh1" in done.stderr


def test_the_demonstration_forecasts_a_week(titans: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titans_ts.command.examples.END", "2011-05-24")  # after twenty weeks
    done = titans("demo --out", tmp_path / "demo.png")
    assert (done.exit_code, done.stdout) == (0, "")
    error, naive = map(float, re.findall(r"mean absolute error ([\d.]+).*the week before, ([\d.]+)", done.stderr)[0])
    assert 0 < error < naive
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
