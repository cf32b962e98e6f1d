"""Names of time zones that pandas reads as the same zone."""

import datetime
import zoneinfo

import dateutil.tz
import pandas as pd
import pytest

from titans_ts.tables.zones import check_zone, check_zone_name, dtype_name, zone_name

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


class OfAnotherLibrary(datetime.tzinfo):
    """A zone that calls itself by a name which pandas does not know."""

    zone = "Nowhere/City"

    def utcoffset(self, _):
        return datetime.timedelta(hours=2)

    def dst(self, _):
        return datetime.timedelta(0)

    def __repr__(self):
        return self.zone


NAMES = [
    (OfAnotherLibrary(), None),
    (BERLIN, "Europe/Berlin"),
    (dateutil.tz.gettz("Europe/Berlin"), "dateutil/Europe/Berlin"),
    (dateutil.tz.tzutc(), "UTC"),
    (datetime.UTC, "UTC"),
    (dateutil.tz.tzoffset("BRT", -10_800), "UTC-03:00"),
    (datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)), "UTC-03:30"),
    (datetime.timezone(datetime.timedelta(hours=1), "CET"), "UTC+01:00"),
    (dateutil.tz.tzlocal(), None),
    (datetime.timezone(datetime.timedelta(seconds=3601)), None),
]


@pytest.mark.parametrize(("zone", "name"), NAMES, ids=lambda part: repr(part))
def test_a_zone_has_the_name_that_pandas_reads_as_the_same_times(zone, name):
    assert zone_name(zone) == name
    if name is not None:
        times = pd.DatetimeIndex(["2024-01-15 12:00", "2024-07-15 12:00"], tz=zone)
        again = times.tz_convert(pd.api.types.pandas_dtype(dtype_name(times.dtype)).tz)
        assert [time.isoformat() for time in again] == [time.isoformat() for time in times]


def test_a_dtype_without_a_zone_has_its_own_name():
    for dtype in ("int8", "datetime64[ms]", "period[M]", "string"):
        assert dtype_name(pd.api.types.pandas_dtype(dtype)) == dtype


def test_times_in_a_zone_without_a_name_are_refused_by_name():
    times = pd.DatetimeIndex(["2024-01-15"], tz=dateutil.tz.tzlocal(), name="when")
    with pytest.raises(
        ValueError, match=r"time labels 'when' must be in a time zone with a name .*got tzlocal\(\); conv"
    ):
        check_zone(times)
    check_zone(times.tz_convert(BERLIN))
    check_zone(pd.RangeIndex(3))


@pytest.mark.parametrize("name", ["Europe/Bonn", "", 5, None])
def test_what_names_no_zone_is_refused(name):
    with pytest.raises(ValueError, match="`tz` must be the name of a time zone, such as 'Europe/Berlin', got"):
        check_zone_name(name)


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "+01:00", zoneinfo.ZoneInfo("Asia/Kolkata")])
def test_zones_and_their_names_are_taken(name):
    check_zone_name(name)
    assert pd.Timestamp("2024-01-01", tz="UTC").tz_convert(name).tzinfo is not None
