import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.tseries.frequencies import to_offset

from titans_ts.tables.calendar import Calendar

pytestmark = pytest.mark.filterwarnings("error")

FIXED = ["s", "5min", "15min", "h", "6h", "36h", "D", "3D"]
ANCHORED = [
    "W-SUN",
    "W-TUE",
    "2W-WED",
    "MS",
    "2MS",
    "ME",
    "5ME",
    "QS-JAN",
    "QE-DEC",
    "QS-FEB",
    "QE-NOV",
    "2QS-MAR",
    "2QE-OCT",
]
ANCHORED += ["YS-JAN", "YE-DEC", "YS-APR", "2YE-JUN", "B"]
ZONES = [None, "UTC", "Asia/Kolkata", "America/New_York"]


def plain(index: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """The labels without the freq attribute, as from a file."""
    return pd.DatetimeIndex(index, freq=None)


@pytest.mark.parametrize("freq", [*FIXED, *ANCHORED, "2B"])
@settings(max_examples=15, deadline=None)
@given(
    start=st.datetimes(pd.Timestamp("1950-01-01"), pd.Timestamp("2050-01-01")),
    zone=st.sampled_from(ZONES),
    unit=st.sampled_from(["s", "us", "ns"]),
    rows=st.integers(3, 40),
)
def test_labels_continue_every_frequency_as_pandas_does(freq, start, zone, unit, rows):
    # Noon exists once in every day of every zone; the nights are tested one by one below.
    noon = pd.Timestamp(start).normalize() + pd.Timedelta("12h")
    whole = pd.date_range(noon, periods=rows + 5, freq=freq, tz=zone, unit=unit)
    history = plain(whole[:rows])
    calendar = Calendar.of(history, freq)
    time_index = calendar.time_index(history)
    assert np.array_equal(time_index, time_index[0] + np.arange(rows))
    pd.testing.assert_index_equal(calendar.labels(time_index), history)
    after = pd.date_range(history[-1], periods=6, freq=freq, unit=unit)[1:]
    pd.testing.assert_index_equal(calendar.labels(time_index[-1] + np.arange(1, 6)), plain(after))
    assert Calendar.of(history, calendar.freq) == calendar


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("freq", [*FIXED, *ANCHORED])
def test_frequency_is_inferred_from_the_labels_in_any_order(freq, zone):
    labels = plain(pd.date_range("2019-02-28", periods=30, freq=freq, tz=zone))
    shuffled = labels[np.random.default_rng(0).permutation(30)]
    assert to_offset(Calendar.of(shuffled).freq) == to_offset(freq)


@pytest.mark.parametrize(
    ("freq", "first", "time_index"),
    [
        ("h", "1970-01-02 01:00", 25),
        ("15min", "1970-01-01 06:15", 25),
        ("D", "1970-01-26", 25),
        ("W-SUN", "1970-01-04", 0),
        ("W-THU", "1970-01-08", 1),
        ("MS", "1972-02-01", 25),
        ("ME", "1972-02-29", 25),
        ("QS", "1976-04-01", 25),
        ("QE", "1976-06-30", 25),
        ("YS", "1995-01-01", 25),
        ("YE", "1995-12-31", 25),
        ("B", "1970-02-05", 25),
        ("D", "1969-12-31", -1),
        ("B", "1969-12-26", -4),
    ],
)
def test_the_time_index_counts_from_1970_wherever_the_series_starts(freq, first, time_index):
    labels = pd.date_range(first, periods=4, freq=freq)
    assert Calendar.of(labels).time_index(labels)[0] == time_index
    assert Calendar.of(labels[1:]).time_index(labels[1:])[0] == time_index + 1


def test_month_ends_continue_into_leap_and_common_february():
    calendar = Calendar.of(pd.to_datetime(["2018-11-30", "2018-12-31", "2019-01-31", "2019-02-28"]))
    ahead = calendar.labels(588 + np.arange(1, 4))
    assert calendar.freq == "ME"
    assert ahead.astype(str).tolist() == ["2019-02-28", "2019-03-31", "2019-04-30"]
    assert calendar.labels(600 + np.array([1])).astype(str).tolist() == ["2020-02-29"]


def test_month_starts_are_inferred_from_four_labels():
    calendar = Calendar.of(pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"]))
    assert calendar.freq == "MS"
    assert calendar.labels(np.array([652, 653])).astype(str).tolist() == ["2024-05-01", "2024-06-01"]


FIXED_OFFSETS = [pd.offsets.Day, pd.offsets.Hour, pd.offsets.Minute, pd.offsets.Second]
FIXED_OFFSETS += [pd.offsets.Milli, pd.offsets.Micro, pd.offsets.Nano]
SUPPORTED = [kind(n) for kind in FIXED_OFFSETS for n in (1, 7)]
SUPPORTED += [pd.offsets.BusinessDay(n) for n in (1, 2)]
SUPPORTED += [pd.offsets.Week(n, weekday=day) for day in range(7) for n in (1, 2)]
SUPPORTED += [kind(n) for kind in (pd.offsets.MonthBegin, pd.offsets.MonthEnd) for n in (1, 5)]
SUPPORTED += [kind(n) for kind in (pd.offsets.BMonthBegin, pd.offsets.BMonthEnd) for n in (1, 5)]
SUPPORTED += [kind(day_of_month=n) for kind in (pd.offsets.SemiMonthBegin, pd.offsets.SemiMonthEnd) for n in (6, 15)]
SUPPORTED += [pd.offsets.WeekOfMonth(week=week, weekday=day) for week in range(4) for day in (0, 4, 6)]
SUPPORTED += [pd.offsets.LastWeekOfMonth(weekday=day) for day in (0, 4, 6)]
SUPPORTED += [
    kind(n, startingMonth=month)
    for kind in (pd.offsets.QuarterBegin, pd.offsets.QuarterEnd, pd.offsets.BQuarterBegin, pd.offsets.BQuarterEnd)
    for month in range(1, 13)
    for n in (1, 3)
]
HALF_YEARS = [
    getattr(pd.offsets, name)
    for name in ("HalfYearBegin", "HalfYearEnd", "BHalfYearBegin", "BHalfYearEnd")
    if hasattr(pd.offsets, name)  # from pandas 3 on
]
SUPPORTED += [kind(startingMonth=month) for kind in HALF_YEARS for month in range(1, 13)]
SUPPORTED += [
    kind(n, month=month)
    for kind in (pd.offsets.YearBegin, pd.offsets.YearEnd, pd.offsets.BYearBegin, pd.offsets.BYearEnd)
    for month in range(1, 13)
    for n in (1, 2)
]
SUPPORTED += [
    kind(weekmask=weekmask, holidays=["2001-01-02", "2010-12-31", "2024-02-29"])
    for kind in (pd.offsets.CustomBusinessDay, pd.offsets.CBMonthBegin, pd.offsets.CBMonthEnd)
    for weekmask in ("Sun Mon Tue Wed Thu", "Mon Tue Wed Thu Fri", "Tue Sat")
]
SUPPORTED += [pd.DateOffset(months=months, day=day) for months in (1, 2, 3, 12) for day in (1, 15, 29, 30, 31)]


@pytest.mark.parametrize("offset", SUPPORTED, ids=lambda offset: offset.freqstr)
@settings(max_examples=5, deadline=None)
@given(start=st.datetimes(pd.Timestamp("1990-01-01"), pd.Timestamp("2030-01-01")), rows=st.integers(3, 12))
def test_every_fixed_and_anchored_offset_of_pandas_is_continued(offset, start, rows):
    whole = pd.date_range(pd.Timestamp(start).normalize(), periods=rows + 5, freq=offset, unit="ns")[1:]
    calendar = Calendar.of(plain(whole[:rows]), offset)
    last = calendar.time_index(whole[:rows])[-1]
    pd.testing.assert_index_equal(calendar.labels(last + np.arange(1, 5)), plain(whole[rows:]))


KINDS_SUPPORTED = {type(offset) for offset in SUPPORTED}
OTHERS = {kind for name in pd.offsets.__all__ if (kind := getattr(pd.offsets, name)) not in KINDS_SUPPORTED}


@pytest.mark.parametrize("kind", sorted(OTHERS - {pd.offsets.BaseOffset, pd.offsets.Tick}, key=str))
def test_every_other_offset_of_pandas_is_refused_by_name(kind):
    offset = kind(months=1, days=1) if kind is pd.offsets.DateOffset else kind()
    words = "`freq` '.+' is not supported; supported are fixed steps .*; for others count the rows"
    with pytest.raises(ValueError, match=words) as caught:
        Calendar.of(pd.date_range("2024-01-01", periods=4), offset)
    assert repr(offset.freqstr) in str(caught.value)


def test_labels_are_located_at_the_time_index_before_them():
    hours = Calendar.of(pd.date_range("1970-01-01", periods=4, freq="h"))
    days = Calendar.of(pd.date_range("1970-01-01", periods=4, freq="D"))
    labels = pd.to_datetime(["1970-01-01 05:00", "1970-01-01 05:30", "1970-01-03 00:00"])
    for unit in ("us", "ns"):
        assert [part.tolist() for part in hours.locate(labels.as_unit(unit))] == [[5, 5, 48], [False, True, False]]
        assert [part.tolist() for part in days.locate(labels.as_unit(unit))] == [[0, 0, 2], [True, True, False]]
    assert hours.locate(labels.as_unit("ns") + pd.Timedelta("1ns"))[1].all()


def test_gaps_do_not_change_the_inferred_frequency():
    quarters = plain(pd.date_range("2020-03-31", periods=12, freq="QE"))
    days = plain(pd.date_range("2024-01-01", periods=40, freq="D"))
    business = plain(pd.bdate_range("2024-01-01", periods=30))
    assert Calendar.of(quarters.delete(5)).freq == "QE-DEC"
    assert Calendar.of(days.delete(range(10, 20))).freq == "D"
    assert Calendar.of(business.delete(11)).freq == "B"


def test_business_days_are_inferred_only_across_a_weekend():
    assert Calendar.of(plain(pd.date_range("2024-01-01", periods=5, freq="D"))).freq == "D"
    assert Calendar.of(pd.to_datetime(["2024-01-04", "2024-01-05", "2024-01-08"])).freq == "B"


def test_same_time_of_day_is_kept_by_daily_and_longer_steps():
    labels = plain(pd.date_range("2024-01-31 09:30", periods=4, freq="ME"))
    assert [str(label) for label in Calendar.of(labels).labels(np.array([652]))] == ["2024-05-31 09:30:00"]


def test_hours_of_a_spring_and_an_autumn_night_are_counted_as_they_pass():
    for night in ("2024-03-30 22:00", "2024-10-26 22:00"):
        labels = plain(pd.date_range(night, periods=12, freq="h", tz="Europe/Berlin"))
        calendar = Calendar.of(labels[:6])
        time_index = calendar.time_index(labels)
        assert np.array_equal(np.diff(time_index), np.ones(11))
        pd.testing.assert_index_equal(calendar.labels(time_index), labels)


def test_days_keep_local_midnight_over_clock_changes():
    labels = plain(pd.date_range("2024-03-29", periods=5, freq="D", tz="Europe/Berlin"))
    calendar = Calendar.of(labels[:3])
    assert calendar.freq == "D"
    pd.testing.assert_index_equal(calendar.labels(calendar.time_index(labels[:3])[-1] + np.array([1, 2])), labels[3:])


def test_a_midnight_that_clocks_skip_is_the_first_moment_of_its_day():
    labels = pd.date_range("2018-11-02", periods=5, freq="D").tz_localize(
        "America/Sao_Paulo", nonexistent="shift_forward"
    )
    calendar = Calendar.of(labels, "D")
    assert str(labels[2]) == "2018-11-04 01:00:00-02:00"
    assert np.array_equal(np.diff(calendar.time_index(labels)), np.ones(4))
    pd.testing.assert_index_equal(calendar.labels(calendar.time_index(labels)), labels)


def test_half_hour_zone_and_utc_have_one_hourly_time_index():
    utc = plain(pd.date_range("2024-01-01", periods=5, freq="h", tz="UTC"))
    kolkata = utc.tz_convert("Asia/Kolkata")
    assert np.array_equal(Calendar.of(utc).time_index(utc), Calendar.of(kolkata).time_index(kolkata))
    assert str(Calendar.of(kolkata).labels(Calendar.of(utc).time_index(utc))[0]) == "2024-01-01 05:30:00+05:30"


@pytest.mark.parametrize("freq", ["15min", "h", "D", "W-SUN", "W-WED", "M", "2M", "Q-DEC", "Q-NOV", "Y-DEC"])
def test_periods_stay_periods(freq):
    whole = pd.period_range("2024-01-10", periods=9, freq=freq)
    calendar = Calendar.of(whole[:6])
    time_index = calendar.time_index(whole[:6])
    assert calendar.freq == whole.freqstr
    assert Calendar.of(whole, calendar.freq) == calendar
    pd.testing.assert_index_equal(calendar.labels(time_index[-1] + np.arange(1, 4)), whole[6:])


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint16", "Int64"])
def test_integers_are_divided_by_their_step(dtype):
    labels = pd.Index([107, 102, 112, 127], dtype=dtype)
    calendar = Calendar.of(labels)
    assert (calendar.freq, calendar.span) == (5, 5)
    assert calendar.time_index(labels).tolist() == [21, 20, 22, 25]
    assert calendar.labels(np.array([26])).tolist() == [132]
    assert Calendar.of(pd.RangeIndex(9, 0, -3)).freq == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("H", "h"),
        ("15T", "15min"),
        ("M", "ME"),
        ("Q-NOV", "QE-NOV"),
        ("A", "YE-DEC"),
        ("Y-JUN", "YE-JUN"),
        ("AS-APR", "YS-APR"),
    ],
)
def test_old_alias_is_translated_with_one_warning(old, new):
    labels = plain(pd.date_range("2024-01-31", periods=4, freq=new))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Calendar.of(labels, old).freq == new
    assert [(w.category, "is called" in str(w.message)) for w in caught] == [(FutureWarning, True)]


@pytest.mark.parametrize(
    ("freq", "canonical"), [("60min", "h"), ("24h", "D"), (pd.Timedelta("7D"), "7D"), ("QS", "QS-JAN")]
)
def test_freq_has_one_name(freq, canonical):
    labels = plain(pd.date_range("2024-01-01", periods=4, freq=canonical))
    assert Calendar.of(labels, freq).freq == canonical


@pytest.mark.parametrize(
    "freq", ["fortnight", "SMS-40", "bh", "-1D", "0D", "-1MS", pd.DateOffset(months=-1), pd.DateOffset(day=3), 1.5]
)
def test_unsupported_freq_is_named(freq):
    name = getattr(freq, "freqstr", str(freq))
    with pytest.raises(ValueError, match=f"{name}.*supported are fixed steps"):
        Calendar.of(pd.date_range("2024-01-01", periods=4), freq)


@pytest.mark.parametrize("freq", [f"{'9' * 20}{alias}" for alias in ("D", "h", "MS", "MD", "C-MON")])
def test_a_multiple_that_no_integer_holds_is_refused(freq):
    with pytest.raises(ValueError, match=f"`freq` must be a multiple of at most 15 digits, got '{freq}'"):
        Calendar.of(pd.date_range("2024-01-01", periods=4), freq)


@pytest.mark.parametrize(
    ("labels", "freq", "words"),
    [
        (pd.date_range("2024-01-01", periods=4), 1, "must be an alias such as 'h' for dates, got 1"),
        (pd.RangeIndex(4), "h", "must be a positive integer for integer time labels, got 'h'"),
        (pd.RangeIndex(4), 0, "must be a positive integer for integer time labels, got 0"),
        (pd.period_range("2024-01", periods=4, freq="M"), "D", "must be the periods' own 'M' or None, got 'D'"),
        (pd.period_range("2024-01", periods=4, freq="M"), "MS", "must be the periods' own 'M' or None, got 'MS'"),
        (pd.period_range("2024-01", periods=4, freq="M"), "no", "`freq` 'no' is not a pandas frequency"),
        (pd.date_range("2024-01-01", periods=4, unit="s"), "ms", "'ms' is finer than the labels' unit 's'"),
    ],
)
def test_freq_of_another_kind_of_label_is_refused(labels, freq, words):
    with pytest.raises(ValueError, match=words):
        Calendar.of(labels, freq)


def test_periods_of_business_days_are_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of pandas, which will have none
        labels = pd.period_range("2024-01-01", periods=4, freq="B")
        with pytest.raises(
            ValueError, match=r"periods of business days are not supported; use dates, with `\.to_timest"
        ):
            Calendar.of(labels)
        assert Calendar.of(labels.to_timestamp()).freq == "B"


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [
        (["2024-01-01"] * 3, "(str|object)"),
        ([pd.Timestamp("2024-01-01").date()] * 3, "object"),
        ([0.0, 1.0, 2.0], "float64"),
    ],
)
def test_labels_that_are_no_times_are_refused_with_the_remedy(labels, dtype):
    with pytest.raises(ValueError, match=f"time labels 'ds' must be dates.* got dtype {dtype}.*pd.to_datetime"):
        Calendar.of(pd.Index(labels, name="ds"))


@pytest.mark.parametrize(
    "labels", [["2024-01-01", "2024-01-03", "2024-01-10"], ["2024-01-15", "2024-03-15", "2024-08-15"]]
)
def test_irregular_labels_are_refused_by_name(labels):
    with pytest.raises(ValueError, match=f"no frequency fits the time labels {labels[0]}, {labels[1]}"):
        Calendar.of(pd.to_datetime(labels))


def test_inference_needs_three_labels():
    with pytest.raises(ValueError, match="at least 3 different time labels, got 2; pass `freq`"):
        Calendar.of(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-02"]))


@pytest.mark.parametrize(
    ("freq", "off"),
    [
        *[("MS", "2024-01-15"), ("ME", "2024-02-28"), ("W-SUN", "2024-01-01"), ("QS-JAN", "2024-02-01")],
        *[("B", "2024-01-06"), ("D", "2024-01-01 01:00:00"), ("2D", "2024-01-07"), ("h", "2024-01-01 00:30:00")],
    ],
)
def test_first_label_off_the_grid_is_named(freq, off):
    on = plain(pd.date_range("2023-01-01", periods=3, freq=freq))
    calendar = Calendar.of(on, freq)
    with pytest.raises(ValueError, match=f"time label {off} is not on the grid of '{freq}'"):
        calendar.time_index(on.append(pd.DatetimeIndex([off])))


def test_labels_of_another_time_zone_awareness_are_refused():
    labels = pd.date_range("2024-01-01", periods=3)
    with pytest.raises(ValueError, match=r"must have dtype datetime64\[.s\] as before"):
        Calendar.of(labels).time_index(labels.tz_localize("UTC"))


def test_labels_that_the_unit_fitted_cannot_hold_are_refused():
    fitted = Calendar.of(pd.date_range("2024-01-01", periods=3, freq="h", unit="us"))
    with pytest.raises(ValueError, match=r"time labels must fit into dtype datetime64\[us\], that of the data fitted"):
        fitted.time_index(pd.DatetimeIndex(np.array([2**62]).astype("M8[s]")))
