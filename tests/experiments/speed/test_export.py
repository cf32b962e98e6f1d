"""The benchmark of exported graphs, on a few small series and by the closed form alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import record
from speed import export
from speed.report import COLUMNS
from titans_ts import TitansForecaster


def closed_form_alone(wide: pd.DataFrame) -> Any:
    how = dict(combine=False, context="window", linear_path=True, max_epochs=0, random_state=0, device="cpu", verbose=0)
    yield "closed form", TitansForecaster(horizon=6, lookback=24, **how).fit(wide)


def test_each_batch_has_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "models", closed_form_alone)
    monkeypatch.setattr(export, "LOOKBACK", 24)
    monkeypatch.setattr(export, "ROWS", 120)
    export.main(["--series", "3", "--repeats", "1", "--out", str(tmp_path)])
    rows = record.read(tmp_path / "export.csv")
    assert [row["benchmark"] for row in rows] == [
        *["closed form"] * 2,
        *["closed form, batch 1"] * 4,
        *["closed form, batch 3"] * 4,
    ]
    assert all(tuple(row) == COLUMNS and float(row["value"]) >= 0 for row in rows)
    assert [row["target"] for row in rows if row["name"].startswith("difference")] == ["< 0.0001: met"] * 2
    assert [row["threads"] for row in rows] == ["1"] * 10
