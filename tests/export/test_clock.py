"""The shifts of local clocks, counted instead of searched for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.export.clock import ClockShift, clock_around
from titans_ts.tables.calendar import Calendar
from titans_ts.tables.clock import LocalClock


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_shifts_are_those_of_the_clock_with_any_number_of_changes_in_a_window(length: int) -> None:
    clock = LocalClock(np.array([0, 7, 9, 20, 50]), np.array([1, 2, 1, 3, 0]))
    time_index = torch.arange(-60, 90)
    expected = clock.shift(time_index.numpy()[:, None] + np.arange(length))
    assert (ClockShift(clock, length)(time_index).numpy() == expected).all()


def test_clocks_are_known_for_years_before_and_after() -> None:
    hours = pd.date_range("2024-06-01", periods=5, freq="h", tz="Europe/Berlin")
    calendar = Calendar.of(hours)
    first, *_, last = calendar.time_index(hours)
    clock = clock_around(calendar, int(first), int(last))
    assert clock is not None
    for year in (2006, 2024, 2042):
        days = pd.date_range(f"{year}-01-01", f"{year}-12-31", freq="D", tz="Europe/Berlin")
        shift = clock.shift(calendar.time_index(days.as_unit(hours.unit)))
        assert shift.tolist() == [offset.utcoffset().seconds // 3600 for offset in days.to_pydatetime()]
    assert clock_around(Calendar.of(hours.tz_localize(None)), 0, 1) is None
