"""The series that the speed benchmarks make up."""

from __future__ import annotations

import numpy as np

from speed.generated import wide_table, windows_of


def test_a_table_has_a_daily_season_and_is_the_same_each_time() -> None:
    table = wide_table(3, 24 * 50)
    assert table.equals(wide_table(3, 24 * 50))
    days = table.to_numpy().reshape(50, 24, 3).mean(0)
    hours = np.arange(24)[:, None] + np.arange(3)
    np.testing.assert_allclose(days, 3 * np.sin(hours * 2 * np.pi / 24), atol=0.6)  # four deviations of the means


def test_there_is_a_window_for_each_origin_and_series() -> None:
    windows = windows_of(wide_table(2, 150), horizon=24)
    assert len(windows) == 2 * (150 - 96 - 24 + 1)
    assert (windows.lookback, windows.horizon) == (96, 24)
