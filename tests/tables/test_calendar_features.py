"""Features of the calendar against pandas, by the clocks of a zone, and holidays against the package holidays."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.tables.calendar import Calendar
from titans_ts.tables.calendar_features import CATEGORIES, calendar_features, check_feature

ONE = pd.Index(["a"])


def features(labels: pd.Index, *names: str) -> np.ndarray:
    calendar = Calendar.of(labels)
    time_index = calendar.time_index(labels)
    return calendar_features(names, calendar, ONE, np.zeros(len(labels), dtype=int), time_index)


@settings(max_examples=15, deadline=None)
@given(st.datetimes(min_value=pd.Timestamp("1975-01-01"), max_value=pd.Timestamp("2060-01-01")), st.data())
def test_each_feature_is_that_of_pandas_and_has_a_category(start: Any, data: st.DataObject) -> None:
    freq = data.draw(st.sampled_from(["min", "h", "D", "W", "MS"]))
    labels = pd.date_range(pd.Timestamp(start).floor("min"), periods=12, freq=freq)
    found = features(labels, *CATEGORIES)
    for i, (name, categories) in enumerate(CATEGORIES.items()):
        if name == "week":
            expected = labels.isocalendar().week
        else:
            expected = getattr(labels, "day_of_week" if name == "weekday" else name)
        assert [categories[int(code)] for code in found[:, i]] == list(expected)


def test_hours_follow_the_clocks_of_the_zone() -> None:
    labels = pd.date_range("2024-03-30 22:00", periods=6, freq="h", tz="Europe/Berlin")
    assert features(labels, "hour")[:, 0].tolist() == [22, 23, 0, 1, 3, 4]  # 02:00 does not come


def test_periods_have_the_features_of_their_beginning() -> None:
    labels = pd.period_range("2024-01", periods=14, freq="M")
    assert features(labels, "month", "quarter")[:4].tolist() == [[0, 0], [1, 0], [2, 0], [3, 1]]


def test_series_of_other_phases_have_features_of_their_own_days() -> None:
    mondays, fridays = pd.date_range("2024-01-01", periods=5, freq="W-MON"), pd.date_range("2024-01-05", periods=1)
    calendar = Calendar.of(mondays)
    calendar = replace(calendar, phases=((calendar.rephased(fridays), ("b",)),))
    ids, series = pd.Index(["a", "b"]), np.array([0, 1, 1])
    start = calendar.time_index(mondays)[0]
    found = calendar_features(("weekday",), calendar, ids, series, start + np.array([0, 0, 3]))
    assert found[:, 0].tolist() == [0, 4, 4]


def test_the_order_of_rows_does_not_matter() -> None:
    labels = pd.date_range("2024-01-01", periods=50, freq="h")
    calendar = Calendar.of(labels)
    time_index, order = calendar.time_index(labels), np.random.default_rng(0).permutation(50)
    series = np.zeros(50, dtype=int)
    found = calendar_features(("hour",), calendar, ONE, series, time_index[order])
    assert np.array_equal(found, calendar_features(("hour",), calendar, ONE, series, time_index)[order])


def test_series_may_lie_centuries_apart() -> None:
    labels = pd.DatetimeIndex(["1900-01-01 10:00", "2200-07-04 23:59"]).as_unit("s")
    calendar = Calendar.of(labels, "min")
    series = np.array([0, 1])
    found = calendar_features(
        ("hour", "holidays:US"), calendar, pd.Index(["a", "b"]), series, calendar.time_index(labels)
    )
    assert found[:, 0].tolist() == [10, 23]


def test_holidays_are_those_of_the_country() -> None:
    labels = pd.date_range("2023-12-20", "2024-07-10", freq="D")
    found = features(labels, "holidays:US")[:, 0]
    days = set(labels[found == 1].strftime("%m-%d"))
    assert {"12-25", "01-01", "07-04"} <= days
    assert "03-05" not in days


def test_a_part_of_a_country_has_holidays_of_its_own() -> None:
    corpus_christi = pd.date_range("2024-05-28", periods=5, freq="D")  # 30 May, in Bavaria
    assert features(corpus_christi, "holidays:DE-BY", "holidays:DE-BE")[:, 0].tolist() == [0, 0, 1, 0, 0]
    assert not features(corpus_christi, "holidays:DE-BE").any()


def test_all_hours_of_a_local_day_are_of_its_holiday() -> None:
    labels = pd.date_range("2024-07-03 22:00", periods=28, freq="h", tz="America/New_York")
    assert features(labels, "holidays:US")[:, 0].tolist() == [0, 0, *[1] * 24, 0, 0]


@pytest.mark.parametrize("name", ["holidays:XX", "holidays:", "holidays:US-QQ"])
def test_an_unknown_country_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"`calendar` has {name!r}, whose holidays are not known"):
        check_feature(name)


def test_without_the_package_holidays_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    check_feature("hour")
    with pytest.raises(ModuleNotFoundError, match=r"'holidays:US' needs .*pip install 'titans-ts\[holidays\]'"):
        check_feature("holidays:US")


def test_integer_times_are_refused() -> None:
    with pytest.raises(TypeError, match="`calendar` needs dates, but times are numbers such as 3; leave it out"):
        features(pd.Index([3, 4, 5, 6]), "hour")


def test_no_names_are_no_features() -> None:
    assert features(pd.date_range("2024-01-01", periods=5)).shape == (5, 0)
