"""The frequency that labels show, and where they show none."""

import re

import numpy as np
import pandas as pd
import pytest

from titans_ts.tables.infer import infer_freq, regular_step, show


@pytest.mark.parametrize(
    ("labels", "freq"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-29"], "BME"),
        (["2024-07-01", "2024-08-01", "2024-09-02"], "BMS"),
        (["2024-01-19", "2024-02-16", "2024-03-15"], "4W-FRI"),
        (["2024-01-19", "2024-02-16", "2024-03-15", "2024-04-19"], "WOM-3FRI"),
        (["2024-01-26", "2024-02-23", "2024-03-29"], "LWOM-FRI"),
        (["2024-01-15", "2024-01-31", "2024-02-15"], "SME-15"),
        (["2024-01-15", "2024-02-15", "2024-05-15"], "MD-15"),
        (["2024-01-04", "2024-01-05", "2024-01-08"], "B"),
        (["2024-01-01 06:00", "2024-01-01 18:00", "2024-01-02 06:00"], "12h"),
        (["2024-01-15 06:00", "2024-02-15 06:00", "2024-03-15 06:00"], "MD-15"),
    ],
)
def test_the_coarsest_grid_is_found_in_any_order(labels, freq):
    assert re.sub(r"^1(?!2)", "", infer_freq(pd.to_datetime(labels)[::-1])) == freq


def test_a_regular_step_divides_all_distances_and_is_half_of_them():
    assert regular_step(pd.RangeIndex(4), np.array([6, 0, 3, 12])) == 3
    for ordinals in ([0, 2, 5, 7], [0, 1, 3, 6, 10]):
        with pytest.raises(ValueError, match="no frequency fits the time labels 0, 1, 2, 3"):
            regular_step(pd.RangeIndex(4), np.array(ordinals))
    with pytest.raises(ValueError, match="at least 3 different time labels, got 1"):
        regular_step(pd.RangeIndex(2), np.array([4, 4]))


def test_mondays_of_no_one_week_have_no_frequency():
    labels = pd.DatetimeIndex(["2020-01-06", "2020-01-27", "2020-02-17", "2020-03-02", "2020-03-30", "2020-04-06"])
    with pytest.raises(ValueError, match="no frequency fits the time labels 2020-01-06, 2020-01-27, 2020-02-17, 2020"):
        infer_freq(labels)


def test_a_time_of_day_is_shown_where_there_is_one():
    assert show(pd.Timestamp("2024-01-01")) == "2024-01-01"
    assert show(pd.Timestamp("2024-01-01 00:30")) == "2024-01-01 00:30:00"


def test_times_too_far_apart_for_any_frequency_are_named():
    labels = pd.DatetimeIndex(np.array([-(2**62), 7, 2**62 + 14]).astype("M8[s]"))  # at two times of day
    with pytest.raises(ValueError, match="lie too far apart for any frequency; look for one amiss"):
        infer_freq(labels)
