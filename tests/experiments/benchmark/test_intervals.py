"""Which rows of intervals are measured, and what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import record
from benchmark import interval_streams, intervals
from benchmark.interval_scores import LEVELS
from benchmark.intervals import COLUMNS
from titans_ts.datasets import Competition, Dataset


def forecasts(rows: interval_streams.Rows, model: str, half: float) -> pd.DataFrame:
    """What came as the forecast, and ends as far off as asked."""
    parts = {}
    for origin in rows.origins:
        came = rows.between(origin, origin + rows.horizon)
        ends = {f"{model}-{end}-{x}": came["y"] + sign for x in LEVELS for end, sign in (("lo", -half), ("hi", half))}
        parts[origin] = came.assign(**{model: came["y"]}, **ends).drop(columns="y")
    return rows.scored(parts)


@pytest.fixture
def runs(small: Dataset, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was run, by stand-ins for all that takes time."""
    done = list[str]()

    def fitted(rows: interval_streams.Rows) -> str:
        done.append("fit")
        return "model"

    def streamed(model: str, rows: interval_streams.Rows) -> tuple[pd.DataFrame, pd.DataFrame]:
        return forecasts(rows, "Titans", 1.0), forecasts(rows, "Titans", -1.0)

    def auto_ets(rows: interval_streams.Rows) -> pd.DataFrame:
        done.append("AutoETS")
        return forecasts(rows, "AutoETS", 1.0)

    def conformal(rows: interval_streams.Rows, name: str) -> pd.DataFrame:
        done.append(name)
        return forecasts(rows, name, 1.0)

    monkeypatch.setattr(intervals, "load_dataset", lambda name, root: small)
    monkeypatch.setattr(intervals, "peer", lambda module, benchmark: True)
    for call in (fitted, streamed, auto_ets, conformal):
        monkeypatch.setattr(interval_streams, call.__name__, call)
    return done


def test_the_rows_of_a_stream_are_measured_once(
    runs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["ETTh1", "--horizons", "6", "--out", str(tmp_path)]
    intervals.main(call)
    intervals.main(call)
    assert runs == ["fit", "AutoETS", "NHITS"]
    found = {row["method"]: row for row in record.read(tmp_path / "intervals.csv")}
    few = ["frozen, at AutoETS's origins", "adaptive, at AutoETS's origins"]
    assert list(found) == ["frozen", few[0], "adaptive", few[1], "AutoETS", "NHITS, conformal"]
    assert tuple(found["frozen"]) == COLUMNS
    # from row 800 to 1194, 25 and 275 rows apart
    assert [row["origins"] for row in found.values()] == ["16", "2", "16", "2", "2", "16"]
    assert [found[name]["coverage_80"] for name in ("frozen", "adaptive")] == ["100", "0"]
    assert (found["frozen"]["worst_80"], found["AutoETS"]["worst_80"]) == ("100", "")
    assert found["AutoETS"]["versions"].startswith(("statsforecast", "numpy"))
    assert found["frozen"]["versions"].startswith("titans-ts ")
    assert "| ETTh1, 6 | adaptive | 16 | 0.0 | 0.0 | 0.0 |" in capsys.readouterr().out
    intervals.main([*call, "--methods", "adaptive", "--again"])
    assert runs == ["fit", "AutoETS", "NHITS", "fit"]


def test_nothing_is_measured_to_print(runs: list[str], tmp_path: Path) -> None:
    intervals.main(["ETTh1", "--print", "--out", str(tmp_path)])
    assert not runs
    assert not list(tmp_path.iterdir())


def test_without_a_peer_the_rest_is_measured(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, "peer", lambda module, benchmark: None)
    intervals.main(["ETTh1", "--horizons", "6", "--out", str(tmp_path), "--methods", "frozen", "AutoETS"])
    assert runs == ["fit"]


def test_a_competition_is_measured_at_its_horizon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    years = pd.date_range("1990-01-01", periods=13, freq="YS")
    rows = pd.DataFrame({"unique_id": "a", "ds": years, "y": np.arange(13.0)})
    competition = Competition("M3 yearly", "YS", 3, 1, 1, rows[:10], rows[10:], None, None)

    def ours(given: Competition) -> pd.DataFrame:
        ends = {f"Titans-{end}-{x}": rows["y"] + sign for x in LEVELS for end, sign in (("lo", -1), ("hi", 1))}
        return rows.assign(step=rows.index - 9, Titans=rows["y"], **ends)[10:].reset_index(drop=True)

    monkeypatch.setattr(intervals, "load_competition", lambda name, root: competition)
    monkeypatch.setattr(intervals.on_competition, "ours", ours)
    monkeypatch.setitem(sys.modules, "statsforecast", None)
    intervals.main(["M3 yearly", "--out", str(tmp_path)])
    (row,) = record.read(tmp_path / "intervals.csv")
    expected = {"horizon": "3", "origins": "1", "series": "1", "coverage_95": "100", "worst_80": "", "width_80": "2"}
    assert {name: row[name] for name in expected} == expected
    assert row["method"] == "TitansForecaster"


def test_an_unknown_name_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        intervals.main(["ETTm1"])
    assert "`data` must be some of ETTh1, " in capsys.readouterr().err
