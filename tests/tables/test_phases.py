"""Series of one step on calendars of their own."""

import numpy as np
import pandas as pd

from titans_ts.tables.calendar import Calendar
from titans_ts.tables.layouts import Layout, Rows
from titans_ts.tables.phases import locate, with_phases

MONDAYS, WEDNESDAYS = (pd.date_range(start, periods=4, freq="7D") for start in ("2024-01-01", "2024-01-03"))


def rows(*series: pd.DatetimeIndex) -> Rows:
    codes = np.repeat(np.arange(len(series)), [len(times) for times in series])
    labels = series[0].append(list(series[1:]))
    return Rows(Layout("long"), pd.Index(list("abc")[: len(series)]), labels, np.zeros((1, len(labels))), codes)


def test_each_row_is_located_on_the_calendar_of_its_series():
    calendar = Calendar.of(MONDAYS, "W-MON")
    both = rows(MONDAYS, WEDNESDAYS)
    assert locate(both, calendar)[1].tolist() == [False] * 4 + [True] * 4
    found = with_phases(both, both.codes, calendar, np.array([False, True]), Calendar.of)
    assert [(phase.freq, names) for phase, names in found.phases] == [("W-WED", ("b",))]
    time_index, off = locate(both, found)
    assert not off.any()
    assert (time_index[:4] == time_index[4:]).all()
    assert found.of_series("b").label(int(time_index[4])) == WEDNESDAYS[0]
    assert found.of_series("a") is found
    assert found.phase_of(pd.Index(["z", "b"])).tolist() == [0, 1]


def test_series_of_another_step_or_with_one_row_get_no_phase():
    calendar = Calendar.of(MONDAYS, "W-MON")
    others = rows(MONDAYS, pd.date_range("2024-01-02", periods=5, freq="D"), WEDNESDAYS[:1])
    misfit = np.array([False, True, True])
    assert with_phases(others, others.codes, calendar, misfit, calendar.rephased).phases == ()


def test_a_phase_that_is_known_stays_and_is_shared():
    calendar = Calendar.of(MONDAYS, "W-MON")
    three = rows(MONDAYS, WEDNESDAYS, WEDNESDAYS)
    first = with_phases(three, three.codes, calendar, np.array([False, True, False]), calendar.rephased)
    both = with_phases(three, three.codes, first, np.array([False, True, True]), first.rephased)
    assert [names for _, names in both.phases] == [("b", "c")]
