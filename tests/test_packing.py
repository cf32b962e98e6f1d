"""Values, labels and dataclasses as JSON: they come back as they were, or are refused."""

import datetime
import json
import math
from dataclasses import dataclass, replace

import dateutil.tz
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from titans_ts.packing import pack, pack_fields, unpack, unpack_all
from titans_ts.tables.calendar import Calendar


def sent(value):
    """What comes back from JSON."""
    return unpack(json.loads(json.dumps(pack(value, "value"), allow_nan=False)))


labels = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=5,
)


@given(labels)
def test_values_of_every_kind_come_back(name):
    # `repr` tells 1 from True and 1.0, and lets NaN equal NaN.
    assert repr(sent(name)) == repr(name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.bool_(True), True), (np.int64(3), 3), (np.float32(0.5), 0.5), (np.float64("-inf"), float("-inf"))],
)
def test_numbers_of_numpy_come_back_as_pythons(value, expected):
    assert (type(sent(value)), sent(value)) == (type(expected), expected)


@pytest.mark.parametrize(
    ("value", "packed"),
    [
        (None, None),
        ("a", "a"),
        ((1, ("b", None)), [1, ["b", None]]),
        (float("nan"), {"float": "nan"}),
        (np.dtype("int8"), {"dtype": "int8"}),
        (pd.RangeIndex(2, 8, 3, name="n"), {"index": {"name": "n", "dtype": "int64", "range": [2, 8, 3]}}),
    ],
)
def test_what_is_written_is_plain_json(value, packed):
    assert pack(value, "value") == packed


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(0),
        pd.Index([3, 1], dtype="int16"),
        pd.Index([1, 2], dtype="Int64"),
        pd.Index(["a", "b"], name=("x", 1), tupleize_cols=False),
        pd.Index(["a", "b"], dtype="string"),
        pd.Index([("a", 1), ("b", None)], tupleize_cols=False),
        pd.Index([0.1, np.nan]),
        pd.CategoricalIndex(["q", "p"], categories=["q", "p", "r"], ordered=True),
        pd.DatetimeIndex(["2024-03-30", "2024-04-01"], tz="Europe/Berlin").as_unit("s"),
        pd.DatetimeIndex(["1960-01-01", "2200-01-01"]),
        pd.period_range("2024Q1", periods=2, freq="Q-NOV"),
    ],
    ids=lambda index: f"{type(index).__name__}, {index.dtype}",
)
def test_an_index_comes_back_with_kind_dtype_and_name(index):
    pd.testing.assert_index_equal(sent(index), index, exact=True)
    assert type(sent(index)) is type(index)


@pytest.mark.parametrize(
    "dtype", ["float32", "Int64", "datetime64[ms]", "datetime64[us, Asia/Kolkata]", "period[W-TUE]", "string"]
)
def test_a_dtype_comes_back(dtype):
    expected = pd.api.types.pandas_dtype(dtype)
    assert sent(expected) == expected


def test_a_moment_and_a_period_come_back():
    for label in (pd.Timestamp("2024-03-31 01:30", tz="Europe/Berlin"), pd.Period("2024-05", "M")):
        assert (type(sent(label)), sent(label)) == (type(label), label)


def test_a_dict_comes_back_with_its_keys_as_they_were():
    value = {"a": 1.5, 3: None, pd.Timestamp("2024-01-01"): -math.inf}
    assert sent(value) == value


@pytest.mark.parametrize(
    "value",
    [
        *(b"a", [1], {"a": 1j}, 1j, datetime.date(2024, 1, 1), object),
        *(pd.interval_range(0, 2), pd.Index([b"a"]), pd.Index([1, None], dtype="Int64")),
    ],
)
def test_what_does_not_come_back_is_refused_by_name(value):
    with pytest.raises(TypeError, match=r"^`series names` must be text, numbers, dates, periods, categories or tuples"):
        pack(value, "series names")


@dataclass
class Pair:
    first: tuple[int, ...]
    second: float


def test_a_dataclass_is_its_fields_by_name():
    pair = Pair((1, 2), float("inf"))
    packed = pack_fields(pair)
    assert packed == {"first": [1, 2], "second": {"float": "inf"}}
    assert Pair(**unpack_all(packed)) == pair
    assert pack_fields(pair, but="first") == {"second": {"float": "inf"}}


@pytest.mark.parametrize("packed", [{"eval": "1"}, {"dtype": "__import__('os')"}, {"index": {"dtype": "object"}}, {}])
def test_what_was_not_packed_is_not_read(packed):
    with pytest.raises((KeyError, TypeError, ValueError)):
        unpack(packed)


@pytest.mark.parametrize(
    "offset",
    [
        pd.DateOffset(months=1, day=31),
        pd.offsets.CustomBusinessDay(2, weekmask="Sun Mon Tue Wed Thu", holidays=["2024-01-02"]),
        pd.offsets.CBMonthEnd(holidays=["2024-01-31"]),
    ],
)
def test_an_offset_that_no_alias_says_comes_back(offset):
    dates = pd.date_range("2024-01-01", periods=40, freq=offset)
    assert type(sent(offset)) is type(offset)
    assert pd.date_range("2024-01-01", periods=40, freq=sent(offset)).tolist() == dates.tolist()


def test_a_calendar_comes_back_with_its_phases():
    mondays, wednesdays = (pd.date_range(day, periods=4, freq="7D") for day in ("2024-01-01", "2024-01-03"))
    own = Calendar.of(wednesdays, "W-WED")
    calendar = replace(Calendar.of(mondays, "W-MON"), phases=((own, ("b", 3, pd.Timestamp(0))),))
    assert sent(calendar) == calendar
    days = Calendar.of(mondays, pd.offsets.CustomBusinessDay(weekmask="Mon", holidays=["2024-02-05"]))
    assert sent(days) == days
    assert days.holidays == ("2024-02-05",)


@pytest.mark.parametrize(
    "zone", [dateutil.tz.tzutc(), dateutil.tz.tzoffset("CET", 3600), dateutil.tz.gettz("Asia/Tokyo")]
)
def test_zones_of_other_libraries_come_back_as_the_same_times(zone):
    index = pd.DatetimeIndex(["2024-03-30", "2024-04-01"], tz=zone)
    assert [time.isoformat() for time in sent(index)] == [time.isoformat() for time in index]
    assert sent(index.dtype).unit == index.unit


@pytest.mark.parametrize("name", ["datetime64[s, dateutil//etc/passwd]", "datetime64[s, dateutil/../x]", 7, None])
def test_a_dtype_opens_no_file(name):
    with pytest.raises(ValueError, match="a dtype must be named by text, and its zone by a name of zones"):
        unpack({"dtype": name})
