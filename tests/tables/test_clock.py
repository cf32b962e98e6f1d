"""Local clocks beside elapsed time: every change of a zone, and seasons that follow them (case 56)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster
from titans_ts.tables.calendar import Calendar
from titans_ts.tables.clock import LocalClock


def hours(first: str, periods: int, tz: str | None, freq: str = "h") -> pd.DatetimeIndex:
    return pd.date_range(first, periods=periods, freq=freq, tz=tz)


@pytest.mark.parametrize("freq", ["h", "15min", "6h"])
@pytest.mark.parametrize("tz", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"])
def test_the_shift_is_that_of_the_zone_at_every_step(freq: str, tz: str) -> None:
    labels = pd.date_range("2023-01-01", "2025-01-01", freq=freq, tz=tz)
    calendar = Calendar.of(labels)
    time_index = calendar.time_index(labels)
    clock = calendar.local_clock(int(time_index[0]), int(time_index[-1]))
    assert clock is not None
    ahead = pd.Index([label.utcoffset() for label in labels]) // pd.Timedelta(freq if freq != "h" else "1h")
    assert clock.shift(time_index).tolist() == ahead.tolist()


def test_times_after_those_that_clocks_are_looked_up_to_keep_the_shift_of_the_first() -> None:
    labels = pd.date_range("2190-01-01", periods=100, freq="h", tz="Europe/Berlin").as_unit("us")
    calendar = Calendar.of(labels)
    clock = calendar.local_clock(int(calendar.time_index(labels[:1])[0]), int(calendar.time_index(labels[-1:])[0]))
    assert clock is not None
    assert clock.shifts.tolist() == [1]


def test_before_the_first_change_and_after_the_last_the_nearest_shift_holds() -> None:
    clock = LocalClock(np.array([10, 20]), np.array([1, 2]))
    assert clock.shift(np.array([[-5, 10], [19, 20], [10**9, 0]])).tolist() == [[1, 1], [1, 2], [2, 1]]


@pytest.mark.parametrize(
    "labels", [hours("2024-01-01", 9, None), pd.RangeIndex(9), hours("2024", 9, "Europe/Berlin", "D")]
)
def test_times_without_a_zone_and_days_follow_no_clock(labels: pd.Index) -> None:
    assert Calendar.of(labels).local_clock(0, 100) is None


def evenings(first: str, periods: int, tz: str | None) -> pd.DataFrame:
    """A pulse at 18:00 on local clocks."""
    index = hours(first, periods, tz)
    return pd.DataFrame({"a": np.where(index.hour == 18, 10.0, 0.0) + 0.01 * np.arange(periods) % 0.05}, index=index)


def fitted(table: Any, **parameters: Any) -> TitansForecaster:
    given = dict(horizon=24, lookback=30, cycle=24, max_epochs=0, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**given, **parameters}).fit(table)


@pytest.mark.parametrize("change", ["2024-03-31", "2024-10-27"])
@pytest.mark.parametrize("linear_path", [True, "per_series"])
def test_case_56_a_pulse_at_18_stays_there_when_clocks_change(change: str, linear_path: Any, tmp_path: Path) -> None:
    day = pd.Timestamp(change, tz="Europe/Berlin")
    table = evenings("2024-01-01", 10_000, "Europe/Berlin")
    model = fitted(table[: day - pd.Timedelta(hours=2)], linear_path=linear_path)
    forecast = model.predict(24 * 5)["a"]
    assert forecast.index[0] < day < forecast.index[-1]
    assert forecast[forecast > 5].index.hour.tolist() == [18] * 5
    model.save(tmp_path / "model")
    again = TitansForecaster.load(tmp_path / "model", "cpu").predict(24 * 5)["a"]
    np.testing.assert_array_equal(again, forecast)
    later = model.predict(24, df=table[day : day + pd.Timedelta(days=9)])["a"]
    assert later[later > 5].index.hour.tolist() == [18]


def test_case_56_both_times_of_the_year_are_one_season() -> None:
    """Trained on half a year with a change in it, the profile is one pulse, not two half ones."""
    model = fitted(evenings("2024-01-01", 24 * 180, "Europe/Berlin"), val_size=24 * 20)
    profile = model.network_.cycle.profile.detach().numpy()[0]
    assert (profile > profile.max() / 2).sum() == 1


def test_a_zone_whose_clocks_do_not_change_forecasts_as_utc_does() -> None:
    table = evenings("2024-01-01", 800, "UTC")
    kolkata = table.tz_convert("Asia/Kolkata")
    np.testing.assert_allclose(fitted(kolkata).predict(), fitted(table).predict(), rtol=0, atol=1e-5)


def test_an_unseen_series_has_its_season_by_local_clocks_too() -> None:
    table = evenings("2024-01-01", 10_000, "Europe/Berlin")
    model = fitted(table[:4000])
    other = table[6000:7230].rename(columns={"a": "other"})  # the clocks change on the way
    forecast = model.predict(24, df=other)["other"]
    assert forecast[forecast > 5].index.hour.tolist() == [18]
