"""The demonstration: what it reads, what it prints, what it draws."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import demo
import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster
from titans_ts.datasets import Dataset

QUICK: dict[str, Any] = dict(lookback=48, max_epochs=0, linear_path=True, context="window", combine=False)


def rentals(weeks: int) -> pd.DataFrame:
    """A day's rhythm, noise, and what the temperature adds."""
    rng, hour = np.random.default_rng(0), np.arange(weeks * demo.WEEK)
    table = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=len(hour), freq="h")})
    table["temp"] = rng.normal(0.5, 0.1, len(hour))
    table["cnt"] = 100 + 50 * np.sin(hour * 2 * np.pi / 24) + 200 * table["temp"] + rng.normal(0, 10, len(hour))
    return table


def test_it_says_how_good_it_is_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Dataset(rentals(8), "bike_sharing", "h", None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(demo, "load_dataset", lambda name: data)
    monkeypatch.setattr(demo, "LAST", "2024-02-25")  # the last day
    monkeypatch.setattr(demo, "COVARIATES", ["temp"])
    monkeypatch.setattr(demo, "TitansForecaster", partial(TitansForecaster, **QUICK))
    demo.main(["--picture", str(tmp_path / "demo.png")])
    printed = capsys.readouterr().out
    assert f"{6 * demo.WEEK} hours to learn from, {2 * demo.WEEK} held out" in printed
    found = {line[2:20].strip(): line[20:] for line in printed.splitlines() if line.startswith("  ")}
    ours, without, closed, naive = (
        float(found[name]) for name in ("titans_ts", "without covariates", "closed form alone", "seasonal naive")
    )
    assert 7.5 < ours < 10 < 16 < min(without, closed) < naive  # the noise's mean absolute value is 8, with warmth 18
    change = float(printed.split("titans_ts is ")[1].partition("%")[0])
    assert change == pytest.approx(100 * (1 - ours / naive), abs=1)  # of errors that are printed to a tenth
    assert "better than repeating the last week" in printed
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_errors_are_those_of_a_forecast_a_day_and_missing_hours_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def forecasts(model: Any, rows: pd.DataFrame, **windows: Any) -> pd.DataFrame:
        asked.append(windows)
        rows = rows.assign(unique_id="cnt", cutoff=0)[["unique_id", "ds", "cutoff", "cnt"]]
        return rows.assign(found=rows["cnt"] + len(asked))

    monkeypatch.setattr(demo, "cross_validation", forecasts)
    found = demo.held_out_errors(TitansForecaster(), rentals(5))
    assert list(found.values()) == pytest.approx([1, 2, 3, 4])
    assert asked == [dict(h=demo.WEEK, n_windows=8, step_size=demo.DAY, refit=False)] * 4
