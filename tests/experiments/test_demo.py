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


def rentals(weeks: int) -> pd.DataFrame:
    hour = np.arange(weeks * demo.WEEK)
    times = pd.date_range("2024-01-01", periods=len(hour), freq="h")
    return pd.DataFrame({"ds": times, "cnt": 100 + 50 * np.sin(hour * 2 * np.pi / 24)})


def test_it_says_how_good_it_is_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noisy = rentals(8)
    noisy["cnt"] += np.random.default_rng(0).normal(0, 10, len(noisy))
    monkeypatch.setattr(demo, "load_dataset", lambda name: Dataset(noisy, name, "h", None, None))  # type: ignore[arg-type]
    monkeypatch.setattr(demo, "LAST", "2024-02-25")  # the last day
    quick: dict[str, Any] = dict(lookback=48, max_epochs=0, linear_path=True, context="window", combine=False)
    monkeypatch.setattr(demo, "TitansForecaster", partial(TitansForecaster, **quick))
    demo.main(["--picture", str(tmp_path / "demo.png")])
    printed = capsys.readouterr().out
    assert f"{6 * demo.WEEK} hours to learn from, {2 * demo.WEEK} held out" in printed
    found = {line[2:17].strip(): line[17:] for line in printed.splitlines() if line.startswith("  ")}
    ours, theirs = float(found["titans_ts"]), float(found["seasonal naive"])
    assert 7.5 < ours < theirs  # the noise's mean absolute value is 8
    change = float(printed.split("titans_ts is ")[1].partition("%")[0])
    assert change == pytest.approx(100 * (1 - ours / theirs), abs=1)  # of errors that are printed to a tenth
    assert "better than repeating the last week" in printed
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_errors_are_those_of_every_midnight_held_out() -> None:
    class Nothing:
        horizon_ = demo.WEEK

        def __init__(self) -> None:
            self.origins: list[pd.Timestamp] = []

        def predict(self, df: pd.DataFrame) -> pd.DataFrame:
            times = pd.date_range(df["ds"].iloc[-1], periods=demo.WEEK + 1, freq="h")[1:]
            self.origins.append(times[0])
            return pd.DataFrame({"ds": times, "Titans": 0.0})

    model: Any = Nothing()
    hours = rentals(5)
    hours = hours.drop(index=[3 * demo.WEEK + 5])  # a missing hour is not counted
    found = demo.held_out_errors(model, hours, pd.Timestamp("2024-01-22"))
    assert model.origins == pd.date_range("2024-01-22", periods=8, freq="D").tolist()
    assert found["titans_ts"] == pytest.approx(100, rel=0.01)
    assert found["seasonal naive"] == pytest.approx(0, abs=0.05)  # but for what stands for the missing hour


def test_the_picture_shows_what_was_held_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hours, drawn = rentals(5), []
    plot = demo.plot_forecast
    monkeypatch.setattr(demo, "plot_forecast", lambda *a, **how: drawn.append(plot(*a, **how)) or drawn[-1])
    past = hours[: 3 * demo.WEEK]
    how: dict[str, Any] = dict(lookback=48, max_epochs=0, linear_path=True, context="window", combine=False, verbose=0)
    model = TitansForecaster(**demo.NAMES, **how, horizon=demo.WEEK).fit(past)
    demo.draw(past, model.predict(), hours, tmp_path / "demo.png")
    lines = {each.get_label(): np.asarray(each.get_ydata()) for each in drawn[0].lines}
    assert len(lines["history"]) == len(lines["actual"]) == demo.WEEK
    np.testing.assert_allclose(lines["forecast"], lines["actual"], atol=1)  # a clean season is forecast
    assert drawn[0].get_ylabel() == "rentals an hour"
