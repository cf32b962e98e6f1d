"""The benchmark of updates, on a few small series."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import record
from benchmark.peer_models import to_long
from speed import update
from speed.generated import wide_table
from speed.report import COLUMNS

THREADS = ["--threads", str(torch.get_num_threads())]


def test_each_history_has_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update, "LOOKBACK", 30)
    monkeypatch.setattr(update, "HORIZON", 6)
    call = ["--series", "3", "--histories", "100", "140", "--updates", "2", "--forecasts", "1", "--out", str(tmp_path)]
    update.main([*call, *THREADS])
    rows = record.read(tmp_path / "update.csv")
    assert [row["benchmark"] for row in rows] == ["3 x 100"] * 5 + ["3 x 140"] * 5
    updates = ["update, p50", "update, p95", "update, p50 of processor time"]
    assert [row["name"] for row in rows] == [*updates, "predict() after it, p50", "predict(df=everything), p50"] * 2
    assert all(tuple(row) == COLUMNS and float(row["value"]) > 0 for row in rows)
    assert float(rows[1]["value"]) >= float(rows[0]["value"])
    assert rows[0]["target"].startswith("< 50 ms: ")
    assert all(row["name"] in capsys.readouterr().out for row in rows[:1])


def test_histories_leave_room_for_the_rows_between(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        update.main(["--histories", "100", "110", "--updates", "10"])
    assert "--histories must rise by more than the rows added" in capsys.readouterr().err


def test_what_is_timed_forecasts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "LOOKBACK", 30)
    monkeypatch.setattr(update, "HORIZON", 6)
    wide = wide_table(3, 120)
    model = update.fitted(wide[:100])
    again = model.predict(df=to_long(wide))
    assert model.update(to_long(wide[100:])).predict()["Titans"].to_numpy() == pytest.approx(
        again["Titans"].to_numpy(), abs=1e-5
    )
