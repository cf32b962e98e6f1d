"""Dates as text and as objects: read without guessing, written back as they were."""

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titans_ts.tables.dates import holds_dates, parse, read_dates, write_dates

pytestmark = pytest.mark.filterwarnings("error")

FORMATS = [
    ("2024", "%Y"),
    ("2021-05", "%Y-%m"),
    ("2021/05", "%Y/%m"),
    ("2021-05-31", "%Y-%m-%d"),
    ("2021.05.31", "%Y.%m.%d"),
    ("20210531", "%Y%m%d"),
    ("2021-05-31 07:15", "%Y-%m-%d %H:%M"),
    ("2021-05-31T07:15:09", "%Y-%m-%dT%H:%M:%S"),
    ("2021-05-31T07:15:09Z", "%Y-%m-%dT%H:%M:%SZ"),
]


@pytest.mark.parametrize(("text", "written"), FORMATS)
@pytest.mark.parametrize("dtype", ["str", "object"])
def test_text_with_the_year_first_comes_back_as_it_was(text, written, dtype):
    labels = pd.Index([text, text], dtype=dtype)
    dates, found = read_dates(labels)
    assert found == written
    assert dates[0] == datetime.datetime.strptime(text, written)
    assert write_dates(dates, found).tolist() == [text, text]


@given(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)), st.sampled_from(FORMATS))
def test_any_date_comes_back_from_its_text(moment, written):
    text = moment.strftime(written[1])
    dates, found = read_dates(pd.Index([text]))
    assert write_dates(dates, found).tolist() == [text]


def test_date_objects_come_back_as_objects():
    labels = pd.Index([datetime.date(2024, 1, d) for d in (1, 2)])
    dates, written = read_dates(labels)
    assert dates.tolist() == [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02")]
    assert write_dates(dates, written).tolist() == labels.tolist()


def test_objects_that_are_datetimes_or_periods_become_what_they_are():
    moments = pd.Index([datetime.datetime(2024, 1, 1, 5)] * 2, dtype=object)
    assert read_dates(moments)[0].dtype.kind == "M"
    assert read_dates(pd.Index([pd.Period("2024-05", "M")], dtype=object))[0].dtype == "period[M]"


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["01/02/2024", "02/03/2024"], r"'01/02/2024', whose day and month could be either; .*format='%d/%m/%Y'"),
        (["01.02.2024", "31.02.2024"], r"got '01.02.2024'; convert.*format='%d.%m.%Y'"),
        (["01/02/2024 10:00", "01/31/2024 11:00"], r"'01/02/2024 10:00'; .*format='%m/%d/%Y %H:%M'"),
        (["1/31/2024 1:05:00 PM"], r"'1/31/2024 1:05:00 PM'; .*format='%m/%d/%Y %I:%M:%S %p'"),
        (["1-2-24", "2-2-24"], r"'1-2-24', whose day and month could be either; .*format='%d-%m-%y'"),
    ],
)
def test_text_with_the_year_last_is_refused_with_the_remedy(labels, words):
    with pytest.raises(ValueError, match=f"time labels 'ds' must have the year first.*{words}"):
        read_dates(pd.Index(labels, name="ds"))


@pytest.mark.parametrize("other", ["2024-02", "2024-13-01", "x", "2024-01-01 05:00"])
def test_the_first_label_of_another_format_is_named(other):
    with pytest.raises(ValueError, match=f"must all have the format '%Y-%m-%d', got '{other}' in row 1"):
        read_dates(pd.Index(["2024-01-01", other]))


def test_what_is_no_date_stays_as_it_is():
    for labels in (pd.Index(["a", "b"]), pd.Index(["202405"]), pd.RangeIndex(3), pd.Index([1, "x"], dtype=object)):
        found, written = read_dates(labels)
        assert found.equals(labels)
        assert written is None


def test_columns_of_dates_are_told_by_their_first_value():
    for column in (["2024-01-01"], [None, "2024-01"], ["31.01.2024"], [datetime.date(2024, 1, 1)], [pd.Timestamp(0)]):
        assert holds_dates(pd.Series(column, dtype=object))
    for column in (["a"], [None], ["1"], [1.5], [True]):
        assert not holds_dates(pd.Series(column, dtype=object))
    assert holds_dates(pd.Series(pd.period_range("2024", periods=2)))
    assert not holds_dates(pd.Series(np.arange(2.0)))


@pytest.mark.parametrize(
    ("text", "written", "moment"),
    [
        ("2024-03-31T07:15:09+01:00", "%Y-%m-%dT%H:%M:%S%:z", "2024-03-31T06:15:09+00:00"),
        ("2024-03-31 07:15-0330", "%Y-%m-%d %H:%M%z", "2024-03-31T10:45:00+00:00"),
        ("2024-03-31 07:15:00+00:00", "%Y-%m-%d %H:%M:%S%:z", "2024-03-31T07:15:00+00:00"),
    ],
)
def test_text_with_one_offset_from_utc_is_that_moment_and_comes_back(text, written, moment):
    dates, found = read_dates(pd.Index([text, text]))
    assert found == written
    assert dates[0].tz_convert("UTC").isoformat() == moment
    assert write_dates(dates, found).tolist() == [text, text]
    assert holds_dates(pd.Series([text]))


def test_datetimes_in_zones_that_are_one_offset_are_in_that_offset():
    zones = (datetime.timezone(datetime.timedelta(hours=1)), zoneinfo.ZoneInfo("Africa/Lagos"))
    times = [datetime.datetime(2024, 1, 1 + i, tzinfo=zones[i % 2]) for i in range(4)]
    found, written = read_dates(pd.Index(times, dtype=object, name="ds"))
    assert (found.tolist(), found.name, written) == (times, "ds", None)
    assert str(found.tz) == "UTC+01:00"
    times[3] = times[3].replace(tzinfo=datetime.UTC)
    with pytest.raises(ValueError, match=r"'ds' must keep one offset from UTC, got '\+01:00' and '\+00:00' in row 3"):
        read_dates(pd.Index(times, dtype=object, name="ds"))
    assert read_dates(pd.Index(times, dtype=object), tz="Europe/Berlin")[0].tolist() == times


def test_text_with_several_offsets_is_read_into_the_zone_that_is_asked_for():
    labels = pd.Index(["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"], name="ds")
    with pytest.raises(
        ValueError, match=r"'ds' must keep one offset from UTC, got '\+01:00' and '\+02:00' in row 1, as"
    ):
        read_dates(labels)
    with pytest.raises(ValueError, match=r"as where clocks change; pass `tz`\.$"):
        read_dates(labels, zone_remedy="pass `tz`")
    dates, written = read_dates(labels, tz="Europe/Berlin")
    assert [date.isoformat() for date in dates] == ["2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"]
    assert written is None
    assert parse(labels, "%Y-%m-%dT%H:%M%z", tz="UTC").tolist() == dates.tz_convert("UTC").tolist()
    with pytest.raises(ValueError, match=r"must all have the format .*, got '2024-03-31T03:00' in row 1"):
        read_dates(pd.Index([labels[0], "2024-03-31T03:00"]), tz="UTC")
