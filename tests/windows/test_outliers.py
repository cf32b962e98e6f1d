"""What is taken for an outlier, what is not, and what becomes of it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.windows.outliers import fill_outliers, find_outliers

WAVE = 10 * np.sin(np.arange(400) / 4)


def at(*rows: int, value: float, values: np.ndarray = WAVE) -> np.ndarray:
    changed = values.copy()
    changed[list(rows)] = value
    return changed


@pytest.mark.parametrize("value", [-9999.0, 1000.0, 1e9, 100.0, -100.0])
@pytest.mark.parametrize("rows", [(200,), (0,), (399,), (5, 100, 101, 102)])
def test_few_values_far_beyond_all_others_are_outliers(value: float, rows: tuple[int, ...]) -> None:
    assert np.flatnonzero(find_outliers(at(*rows, value=value))).tolist() == list(rows)


@pytest.mark.parametrize(
    "values",
    [
        WAVE,
        at(200, value=50.0),  # five times the amplitude is far, not absurd
        np.cumsum(np.random.default_rng(0).normal(size=2000)),
        np.random.default_rng(0).standard_t(3, size=5000),
        np.random.default_rng(0).lognormal(0, 0.8, size=5000),
        2.0 ** np.arange(40),
        np.full(100, 7.0),
        at(50, value=9.0, values=np.full(100, 7.0)),  # what is constant has no range
        np.where(np.random.default_rng(0).random(1000) < 0.02, 500.0, 0.0),  # rare sales
        np.concatenate([WAVE, WAVE[:3] + 1e4]),  # a new level
        np.array([1.0, 2.0, 1e6]),  # too few to tell
        np.zeros(0),
    ],
    ids=str,
)
def test_what_a_series_may_well_do_is_none(values: np.ndarray) -> None:
    assert not find_outliers(values).any()


def test_rain_may_pour_but_no_gauge_measures_less_than_nothing() -> None:
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(2000) < 0.1, rng.exponential(1, size=2000), 0.0)
    rain[700], rain[900] = 80.0, -9999.0
    assert np.flatnonzero(find_outliers(rain)).tolist() == [900]


def panel_of(**series: np.ndarray) -> Panel:
    index = pd.date_range("2024-01-01", periods=400, freq="h")
    return read_table(pd.DataFrame(series, index=index), missing="ffill")


def test_outliers_are_filled_by_a_line_and_named_once() -> None:
    panel = panel_of(a=WAVE, b=at(0, 200, 201, 399, value=-9999.0))
    words = (
        "4 values were taken for outliers and filled in by a line, not learned from: "
        "-9999 in series 'b' at 2024-01-01, -9999 in series 'b' at 2024-01-09 08:00:00, "
        "-9999 in series 'b' at 2024-01-09 09:00:00, -9999 in series 'b' at 2024-01-17 15:00:00. "
        "If they are real, pass `outliers='keep'`."
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(words)}$"):
        filled = fill_outliers(panel)
    assert filled.data.observed is not None
    assert np.flatnonzero(~filled.data.observed).tolist() == [400, 600, 601, 799]
    found = filled.data.values[400:]
    assert found[[0, 399]].tolist() == [WAVE[1], WAVE[398]]
    third = (WAVE[202] - WAVE[199]) / 3
    np.testing.assert_allclose(found[[200, 201]], [WAVE[199] + third, WAVE[199] + 2 * third])
    untouched = np.delete(np.arange(800), [400, 600, 601, 799])
    assert np.array_equal(filled.data.values[untouched], panel.data.values[untouched])
    assert panel.data.values[600] == -9999


def test_what_was_filled_before_stays_so_and_is_no_outlier() -> None:
    gaps = at(100, value=np.nan)
    with pytest.warns(UserWarning, match="^1 value was taken for outliers"):
        filled = fill_outliers(panel_of(a=at(300, value=1e5, values=gaps)))
    assert filled.data.observed is not None
    assert np.flatnonzero(~filled.data.observed).tolist() == [100, 300]


def test_a_panel_without_outliers_is_not_copied() -> None:
    panel = panel_of(a=WAVE)
    assert fill_outliers(panel) is panel


def test_more_than_a_few_are_counted() -> None:
    with pytest.warns(UserWarning, match=r"^7 values were .* and 2 more\. If they"):
        fill_outliers(panel_of(a=at(*range(10, 80, 10), value=1e7)))


def test_an_outlier_is_named_by_the_times_of_its_own_series() -> None:
    """Weeks that begin on Monday, and in the other series on Wednesday."""
    parts = [
        pd.DataFrame({"unique_id": name, "ds": pd.date_range(first, periods=60, freq="7D"), "y": values})
        for name, first, values in (("a", "2024-01-01", WAVE[:60]), ("b", "2024-01-03", at(7, value=1e6)[:60]))
    ]
    with pytest.warns(UserWarning, match=r"1e\+06 in series 'b' at 2024-02-21\. If"):
        fill_outliers(read_table(pd.concat(parts)))
