"""Times of many kinds through the estimator: fit, predict, save and load date the forecasts as the rows are dated.

A number in a claim is that of the case: an input that broke other toolkits, or ours before.
"""

from __future__ import annotations

import datetime
import pickle
import zoneinfo
from pathlib import Path

import dateutil.tz
import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster
from titans_ts.tables.dates import read_dates
from titans_ts.tables.read import read_table

pytestmark = pytest.mark.filterwarnings("error")

BERLIN = "Europe/Berlin"
SUNDAY_TO_THURSDAY = pd.offsets.CustomBusinessDay(weekmask="Sun Mon Tue Wed Thu")
LAST_FRIDAYS = pd.offsets.LastWeekOfMonth(weekday=4)  # whose alias pandas 2 writes and does not read
HOLIDAYS = pd.offsets.CustomBusinessDay(holidays=["2024-02-12", "2024-03-29", "2024-04-01"])


def forecaster(**parameters: object) -> TitansForecaster:
    given = dict(horizon=3, lookback=8, d_model=16, n_layers=1, max_epochs=0, random_state=0, verbose=0)
    return TitansForecaster(**(given | parameters))


def one(times: object) -> pd.DataFrame:
    """One series over times."""
    times = pd.Index(times)
    return pd.DataFrame({"ds": times, "y": np.sin(np.arange(len(times)) / 2)})


def long(**series: object) -> pd.DataFrame:
    """A long table: series by name over times of their own."""
    parts = [one(times).assign(unique_id=name) for name, times in series.items()]
    return pd.concat(parts, ignore_index=True)


def plain(times: pd.DatetimeIndex) -> pd.DatetimeIndex:
    """Without the freq, as from a file."""
    return pd.DatetimeIndex(times, freq=None)


def text(times: object) -> list[str]:
    return [str(time).removesuffix(" 00:00:00") for time in times]


def saved(model: TitansForecaster, folder: Path) -> TitansForecaster:
    model.save(folder / "model")
    return TitansForecaster.load(folder / "model")


def ahead(model: TitansForecaster, folder: Path, *, h: int = 3, df: pd.DataFrame | None = None) -> pd.DataFrame:
    """The forecast, which a copy by pickle and a saved model make alike."""
    forecast = model.predict(h, df)
    for other in (pickle.loads(pickle.dumps(model)), saved(model, folder)):
        pd.testing.assert_frame_equal(other.predict(h, df), forecast)
        assert other.freq_ == model.freq_
    return forecast


# 44: a day of the month


@pytest.mark.parametrize(
    ("labels", "freq", "after"),
    [
        (["2024-07-15", "2024-08-15", "2024-09-15"], "MD-15", ["2024-10-15", "2024-11-15", "2024-12-15"]),
        (["2023-02-15", "2023-03-15", "2023-04-15"], "MD-15", ["2023-05-15", "2023-06-15", "2023-07-15"]),
        (["2023-11-29", "2023-12-29", "2024-01-29"], "MD-29", ["2024-02-29", "2024-03-29", "2024-04-29"]),
        (["2022-11-29", "2022-12-29", "2023-01-29"], "MD-29", ["2023-02-28", "2023-03-29", "2023-04-29"]),
        (["2024-01-30", "2024-02-29", "2024-03-30"], "MD-30", ["2024-04-30", "2024-05-30", "2024-06-30"]),
        (["2023-12-31", "2024-01-31", "2024-02-29"], "ME", ["2024-03-31", "2024-04-30", "2024-05-31"]),
        (["2020-03-10", "2021-03-10", "2022-03-10"], "YD-MAR-10", ["2023-03-10", "2024-03-10", "2025-03-10"]),
        (["2020-02-29", "2021-02-28", "2022-02-28"], "YE-FEB", ["2023-02-28", "2024-02-29", "2025-02-28"]),
        (["2024-02-10", "2024-05-10", "2024-08-10"], "QD-FEB-10", ["2024-11-10", "2025-02-10", "2025-05-10"]),
        (["2024-01-15", "2024-04-15", "2024-07-15"], "QD-JAN-15", ["2024-10-15", "2025-01-15", "2025-04-15"]),
        (["2024-01-15", "2024-03-15", "2024-05-15"], "2MD-15", ["2024-07-15", "2024-09-15", "2024-11-15"]),
        (["2024-01-28", "2024-02-25", "2024-03-24"], "4W-SUN", ["2024-04-21", "2024-05-19", "2024-06-16"]),
        (["2024-07-15", "2024-08-15", "2024-09-15", "2024-10-16"], "31D", ["2024-11-16", "2024-12-17", "2025-01-17"]),
    ],
)
def test_case_44_a_day_of_the_month_is_continued_and_no_number_of_days(labels, freq, after, tmp_path):
    if freq == "31D":
        labels = pd.date_range("2024-07-15", periods=4, freq="31D")
    model = forecaster(lookback=None, horizon=2).fit(one(pd.to_datetime(pd.Index(labels))))
    assert model.freq_ == freq
    if freq != "31D":
        assert text(ahead(model, tmp_path)["ds"]) == after


@pytest.mark.parametrize(
    ("freq", "start", "found", "after"),
    [
        (pd.DateOffset(months=1), "2024-01-15", "MD-15", ["2025-09-15", "2025-10-15"]),
        (pd.DateOffset(months=1, day=31), "2024-01-31", "ME", ["2025-09-30", "2025-10-31"]),
        (pd.DateOffset(months=1, day=30), "2024-01-30", "MD-30", ["2025-09-30", "2025-10-30"]),
        (pd.DateOffset(months=1), "2024-01-01", "MS", ["2025-09-01", "2025-10-01"]),
        (pd.DateOffset(years=1), "2004-03-10", "YD-MAR-10", ["2024-03-10", "2025-03-10"]),
        (pd.DateOffset(months=3), "2020-02-10", "QD-FEB-10", ["2025-02-10", "2025-05-10"]),
        (pd.DateOffset(weeks=2), "2024-01-03", "2W-WED", ["2024-10-09", "2024-10-23"]),
        (pd.DateOffset(days=1), "2024-01-15", "D", ["2024-02-04", "2024-02-05"]),
        (np.timedelta64(6, "h"), "2024-01-15", "6h", ["2024-01-20", "2024-01-20 06:00:00"]),
        (pd.DateOffset(hours=6), "2024-01-15", "6h", ["2024-01-20", "2024-01-20 06:00:00"]),
    ],
)
def test_case_44_an_offset_of_pandas_is_accepted_and_so_is_the_name_it_gets(freq, start, found, after, tmp_path):
    times = plain(pd.date_range(start, periods=20, freq=found if found == "6h" else freq))
    for table in (one(times), one(times)[::-1]):
        model = forecaster(freq=freq).fit(table)
        assert model.freq_ == found
        assert text(ahead(model, tmp_path, h=2)["ds"]) == after
    assert forecaster(freq=found).fit(one(times)).predict(2)["ds"].tolist() == model.predict(2)["ds"].tolist()
    assert saved(model, tmp_path).fit(one(times)).freq_ == found


def test_case_44_a_short_name_takes_the_day_from_the_rows_and_another_day_is_refused():
    times = pd.date_range("2024-01-15", periods=12, freq=pd.DateOffset(months=1))
    assert forecaster(freq="MD").fit(one(times)).freq_ == "MD-15"
    with pytest.raises(ValueError, match=r"2024-01-15 .*not on the grid of 'MD-14'; .*looks like freq 'MD-15': pass"):
        forecaster(freq="MD-14").fit(one(times))
    with pytest.raises(ValueError, match="`freq` 'MD-32' must have a day from 1 to 31"):
        forecaster(freq="MD-32").fit(one(times))


def test_case_44_an_index_keeps_its_freq(tmp_path):
    times = pd.date_range("2024-01-15", periods=12, freq=pd.DateOffset(months=1))
    model = forecaster().fit(pd.Series(np.arange(12.0), index=times))
    assert model.freq_ == "MD-15"
    for other in (model, saved(model, tmp_path)):
        assert other.predict().index.freq == pd.DateOffset(months=1, day=15)
        assert text(other.predict().index) == ["2025-01-15", "2025-02-15", "2025-03-15"]


@pytest.mark.parametrize(
    "freq",
    [
        *("BME", "BMS", "2BME", "BQE-DEC", "BQS-JAN", "BQE-JAN", "BYE-DEC", "BYS-JAN", "BYE-JUN"),
        *("SME-15", "SMS-15", "WOM-3FRI", "WOM-1MON", "LWOM-FRI"),
    ],
)
def test_case_44_edges_of_business_months_and_weeks_of_a_month_are_found_and_continued(freq, tmp_path):
    times = plain(pd.date_range("2019-01-01", periods=33, freq=LAST_FRIDAYS if freq == "LWOM-FRI" else freq))
    given, model = forecaster(freq=freq).fit(one(times[:30])), forecaster().fit(one(times[:30]))
    assert [given.freq_, model.freq_] == [freq, freq.replace("BQE-JAN", "BQE-OCT")]
    assert given.predict()["ds"].tolist() == times[30:].tolist()
    assert ahead(model, tmp_path)["ds"].tolist() == times[30:].tolist()


@pytest.mark.parametrize("freq", [pd.offsets.Easter(), pd.offsets.BusinessHour(), pd.DateOffset(months=1, days=1)])
def test_an_offset_that_has_no_grid_is_refused_and_counted_rows_are_the_way_out(freq):
    times = pd.date_range("2024-01-01", periods=12, freq=freq)
    with pytest.raises(ValueError, match=r"is not supported; .*count the rows 0, 1, \.\.\. and pass these as times"):
        forecaster(freq=freq).fit(one(times))
    assert forecaster().fit(one(times).assign(ds=np.arange(12))).predict()["ds"].tolist() == [12, 13, 14]


# 51: days of a week of one's own


def test_case_51_days_from_sunday_to_thursday_are_found_and_continued(tmp_path):
    times = plain(pd.date_range("2024-01-07", periods=60, freq=SUNDAY_TO_THURSDAY))
    model = forecaster().fit(one(times[:57]))
    assert model.freq_ == "C-MON,TUE,WED,THU,SUN"
    assert ahead(model, tmp_path)["ds"].tolist() == times[57:].tolist()
    assert forecaster(freq=model.freq_).fit(one(times)).predict()["ds"].dt.day_name().tolist() == [
        *("Sunday", "Monday", "Tuesday")
    ]
    assert (model.fitted_.network.config.cycle, forecaster(lookback=None, horizon=None).fit(one(times)).horizon_) == (
        *(5, 10),
    )


@pytest.mark.parametrize("rows", [7, 12, 60])
@pytest.mark.parametrize("freq", [SUNDAY_TO_THURSDAY, HOLIDAYS])
def test_case_51_custom_business_days_are_accepted_with_their_holidays(freq, rows, tmp_path):
    times = plain(pd.date_range("2024-01-29", periods=rows + 3, freq=freq))
    model = forecaster(freq=freq).fit(one(times[:rows]))
    assert ahead(model, tmp_path)["ds"].tolist() == times[rows:].tolist()
    again = saved(model, tmp_path).fit(one(times[:rows]))
    assert ahead(again, tmp_path)["ds"].tolist() == times[rows:].tolist()


def test_case_51_a_gap_names_the_call_that_reads_such_days(tmp_path):
    times = plain(pd.date_range("2024-01-29", periods=40, freq=HOLIDAYS))
    with pytest.raises(
        ValueError, match=r"a gap of 1 row .*freq 'B'.*`pd.offsets.CustomBusinessDay\(weekmask='Sun Mon"
    ):
        forecaster().fit(one(times))
    few = plain(pd.date_range("2024-01-07", periods=7, freq=SUNDAY_TO_THURSDAY))
    with pytest.raises(ValueError, match=r"a gap of 2 rows .*freq 'D'.*pass the `freq` of the rows, such as `pd.offs"):
        forecaster().fit(one(few))
    model = forecaster(freq=HOLIDAYS).fit(one(times))
    with pytest.raises(ValueError, match="time label 2024-02-12 is not on the grid of 'C-MON,TUE,WED,THU,FRI'"):
        model.predict(df=one(pd.to_datetime(["2024-02-12"])))


def test_case_51_an_index_keeps_custom_days_as_its_freq(tmp_path):
    times = pd.date_range("2024-01-29", periods=40, freq=HOLIDAYS)
    model = forecaster().fit(pd.Series(np.arange(40.0), index=times))
    for other in (model, saved(model, tmp_path)):
        after = other.predict().index
        assert after.tolist() == pd.date_range(times[-1], periods=4, freq=HOLIDAYS)[1:].tolist()
        assert after.freq.holidays == HOLIDAYS.holidays


@pytest.mark.parametrize(
    ("weekdays", "rows", "freq"),
    [
        ("Mon Wed Fri", 20, "C-MON,WED,FRI"),
        ("Mon Tue Wed Thu Fri Sat", 20, "C-MON,TUE,WED,THU,FRI,SAT"),
        ("Mon Tue Wed Thu", 20, "C-MON,TUE,WED,THU"),
        ("Mon Tue Wed Thu Fri", 20, "B"),
        ("Mon Tue Wed Thu Fri Sat", 13, "D"),  # two Sundays left out are gaps
        ("Mon Tue Wed Thu Fri Sat", 19, "C-MON,TUE,WED,THU,FRI,SAT"),
    ],
)
def test_case_51_weekdays_are_found_where_the_others_are_left_out_twice(weekdays, rows, freq):
    times = plain(pd.date_range("2024-01-01", periods=rows, freq=pd.offsets.CustomBusinessDay(weekmask=weekdays)))
    assert forecaster(missing="ffill").fit(one(times)).freq_ == freq


# 50: one step, many phases

PHASES = {
    "quarter ends": (("QE-JAN", "2018-01-31"), ("QE-DEC", "2018-03-31")),
    "quarter starts": (("QS-FEB", "2018-02-01"), ("QS-JAN", "2018-01-01")),
    "years": (("YE-JUN", "2000-06-30"), ("YE-DEC", "2000-12-31")),
    "weeks": (("W-MON", "2024-01-01"), ("W-WED", "2024-01-03")),
    "hours": (("h", "2024-01-01 00:00"), ("h", "2024-01-01 00:30")),
    "days": (("D", "2024-01-01 06:00"), ("D", "2024-01-01 18:00")),
    "two days": (("2D", "2024-01-01"), ("2D", "2024-01-02")),
    "months": (("MS", "2018-01-01"), (pd.DateOffset(months=1), "2018-01-15")),
    "month ends": (("ME", "2018-01-31"), ("MS", "2018-01-01")),
    "business months": (("BME", "2018-01-31"), ("ME", "2018-01-31")),
    "weeks of months": (("WOM-2TUE", "2018-01-01"), ("WOM-3THU", "2018-01-01")),
    "last weeks of months": (("WOM-2TUE", "2018-01-01"), (LAST_FRIDAYS, "2018-01-01")),
    "business quarters": (("BQE-MAR", "2018-03-01"), ("BQE-JAN", "2018-01-01")),
    "days of quarters": ((pd.DateOffset(months=3), "2018-01-15"), (pd.DateOffset(months=3), "2018-02-20")),
    "two business days": (("2B", "2024-01-01"), ("2B", "2024-01-02")),
}


def two_phases(name: str, rows: int, zone: str | None = None) -> dict[str, pd.DatetimeIndex]:
    """Times of series a and b, of three series more on the phase of a, and of one more on that of b."""
    (one_freq, one_start), (other_freq, other_start) = PHASES[name]
    a = plain(pd.date_range(one_start, periods=rows, freq=one_freq, tz=zone))
    b = plain(pd.date_range(other_start, periods=rows, freq=other_freq, tz=zone))
    return {"a": a, "b": b[2:], "c": a[:-1], "d": b[3:], "e": a[1:]}


@pytest.mark.parametrize("zone", [None, "America/New_York"])
@pytest.mark.parametrize("name", PHASES)
def test_case_50_each_series_keeps_its_own_phase(name, zone, tmp_path):
    whole = two_phases(name, 43, zone)
    model = forecaster(freq="2B" if name == "two business days" else None).fit(
        long(**{key: times[:-3] for key, times in whole.items()}).sample(frac=1, random_state=0)
    )
    forecast = ahead(model, tmp_path)
    for key, times in whole.items():
        assert forecast.loc[forecast["unique_id"] == key, "ds"].tolist() == times[-3:].tolist()
    later = {key: whole[key][-2:-1] for key in ("d", "a")}  # one row each, which shows no phase
    next_rows = ahead(model, tmp_path, h=1, df=long(**later))
    assert next_rows["ds"].tolist() == [whole["a"][-1], whole["d"][-1]]
    if name != "business months":  # of which three may be whole ones as well
        unseen = ahead(model, tmp_path, h=1, df=long(z=whole["b"][-4:-1]))
        assert unseen["ds"].tolist() == [whole["b"][-1]]


@pytest.mark.parametrize("name", [name for name in PHASES if name != "two business days"])
def test_case_50_a_series_may_come_on_a_phase_that_was_not_fitted(name, tmp_path):
    times = two_phases(name, 43)
    model = forecaster().fit(long(a=times["a"], c=times["c"]))
    assert ahead(model, tmp_path, h=1, df=long(z=times["b"][:-1]))["ds"].tolist() == [times["b"][-1]]


@pytest.mark.parametrize("step", [1, 7])
def test_case_50_days_of_no_one_week_of_the_month_are_off_the_grid_of_one_that_is(step):
    times = two_phases("weeks of months", 43)
    model = forecaster().fit(long(a=times["a"]))
    others = times["b"][:9] + pd.to_timedelta(step * (np.arange(9) % 2), unit="D")
    with pytest.raises(ValueError, match="of series 'z' is not on the grid of 'WOM-2TUE'"):
        model.predict(df=long(z=others))


def test_case_50_a_single_row_shows_no_phase(tmp_path):
    hours = pd.date_range("2024-01-01", periods=40, freq="h")
    model = forecaster().fit(long(a=hours, b=hours))
    late = ahead(model, tmp_path, h=1, df=long(z=hours[:5] + pd.Timedelta("20min")))
    assert text(late["ds"]) == ["2024-01-01 05:20:00"]
    with pytest.raises(ValueError, match=r"00:20:00 of series 'z' is not on the grid of 'h'"):
        model.predict(df=long(z=hours[:1] + pd.Timedelta("20min")))


def test_case_50_periods_of_several_months_keep_their_own_phase(tmp_path):
    a, b = (pd.period_range(start, periods=30, freq="2M") for start in ("2018-01", "2018-02"))
    forecast = ahead(forecaster().fit(long(a=a[:29], b=b[:29], c=a[:20])), tmp_path, h=1)
    assert forecast["ds"].tolist() == [a[29], b[29], a[20]]


def test_case_50_polars_rows_keep_their_own_phase(tmp_path):
    polars = pytest.importorskip("polars")
    times = two_phases("weeks", 43)
    table = polars.DataFrame({name: column.to_numpy() for name, column in long(a=times["a"], b=times["b"]).items()})
    model = forecaster().fit(table[:41].vstack(table[43:-2]))
    forecast = saved(model, tmp_path).predict(2)
    assert forecast["ds"].to_list() == [*times["a"][-2:], *times["b"][-2:]]
    assert np.isfinite(model.score(table[41:43].vstack(table[-2:])))


@pytest.mark.parametrize("freq", ["h", 10, "D"])
def test_case_50_a_freq_that_names_no_phase_leaves_each_series_its_own(freq, tmp_path):
    if freq == 10:
        times = {"a": np.arange(0, 400, 10), "b": np.arange(7, 400, 10)}
    else:
        start = pd.Timestamp("2024-01-01")
        times = {
            key: pd.date_range(start + shift * pd.Timedelta("20min"), periods=40, freq=freq)
            for key, shift in (("a", 0), ("b", 1))
        }
    for model in (forecaster(freq=freq), forecaster()):
        forecast = ahead(model.fit(long(**times)), tmp_path, h=1)
        step = times["b"][1] - times["b"][0]
        assert forecast["ds"].tolist() == [times["a"][-1] + step, times["b"][-1] + step]


def test_case_50_a_gap_of_a_series_is_dated_on_its_phase_and_filled():
    times = two_phases("quarter ends", 40)
    table = long(a=times["a"], b=times["b"].delete(10))
    with pytest.raises(
        ValueError, match=r"series 'b' has a gap of 1 row between 2020-12-31 and 2021-06-30 \(freq 'QE-D"
    ):
        forecaster().fit(table)
    panel = read_table(table, missing="interpolate")
    assert panel.data.lengths.tolist() == [40, 38]
    assert panel.take(np.array([1])).tail(5).write(np.zeros((1, 1, 1)))["ds"].tolist() == [pd.Timestamp("2028-03-31")]
    assert panel.head(np.array([3, 2])).write(np.zeros((2, 1, 1)))["ds"].astype(str).tolist() == [
        *("2018-10-31", "2019-03-31")
    ]
    whole = long(a=times["a"], b=times["b"])
    with pytest.raises(ValueError, match="column 'y' of series 'b' has 1 missing value, the first at 2020-03-31"):
        read_table(whole.assign(y=whole["y"].where(whole.index != 46)))


def test_case_50_series_of_other_steps_are_refused_with_a_remedy_that_works():
    days, weeks = pd.date_range("2024-01-01", periods=40), pd.date_range("2024-01-01", periods=9, freq="W")
    for table, freq in (
        (long(a=days, b=weeks), "D"),
        (
            long(
                a=pd.date_range("2024-01-01", periods=40, freq="h"),
                b=pd.date_range("2024-01-01", periods=9, freq="30min"),
            ),
            "30min",
        ),
    ):
        with pytest.raises(ValueError, match=f"pass `freq='{freq}'` and `missing='interpolate'`"):
            forecaster().fit(table)
        assert forecaster(freq=freq, missing="interpolate").fit(table).freq_ == freq
    with pytest.raises(
        ValueError, match=r"series 'a' has 'MS' and 1 not \('b'\): series 'b' has 'h'\. Fit them apart\.$"
    ):
        forecaster().fit(
            long(
                a=pd.date_range("2024-01-01", periods=40, freq="MS"),
                b=pd.date_range("2024-01-01 00:30", periods=9, freq="h"),
            )
        )


def test_case_50_a_freq_that_names_a_phase_is_kept_to_and_the_remedy_works():
    times = two_phases("quarter ends", 40)
    with pytest.raises(
        ValueError, match=r"'b' is not on the grid of 'QE-JAN'.*leave `freq` out, so that each series may"
    ):
        forecaster(freq="QE-JAN").fit(long(a=times["a"], b=times["b"]))
    assert forecaster().fit(long(a=times["a"], b=times["b"])).freq_ in ("QE-OCT", "QE-DEC")


# 48: zones of every library

ZONES = {
    "dateutil UTC": dateutil.tz.tzutc(),
    "dateutil": dateutil.tz.gettz(BERLIN),
    "dateutil offset": dateutil.tz.tzoffset(None, 5400),
    "dateutil named offset": dateutil.tz.tzoffset("BRT", -10800),
    "zoneinfo": zoneinfo.ZoneInfo(BERLIN),
    "offset": datetime.timezone(datetime.timedelta(hours=-3, minutes=-30)),
    "named offset": datetime.timezone(datetime.timedelta(hours=1), "CET"),
    "UTC": datetime.UTC,
}


@pytest.mark.parametrize("freq", ["h", "D"])
@pytest.mark.parametrize("zone", ZONES.values(), ids=ZONES)
def test_case_48_times_in_a_zone_of_any_library_are_continued_and_saved(zone, freq, tmp_path):
    times = plain(pd.date_range("2024-03-01", periods=63, freq=freq, tz=zone))
    model = forecaster().fit(one(times[:60]))
    forecast = model.predict()
    assert forecast["ds"].dtype == times.dtype
    assert forecast["ds"].tolist() == times[60:].tolist()
    again = saved(model, tmp_path).predict()
    assert [str(time) for time in again["ds"]] == [str(time) for time in times[60:]]
    wide = forecaster().fit(pd.DataFrame({"a": np.arange(60.0)}, index=times[:60]))
    assert [str(time) for time in saved(wide, tmp_path).predict().index] == [str(time) for time in times[60:]]


with open(dateutil.tz.gettz(BERLIN)._filename, "rb") as file:
    KEYLESS = zoneinfo.ZoneInfo.from_file(file)


@pytest.mark.parametrize("zone", [dateutil.tz.tzlocal(), KEYLESS], ids=str)
def test_case_48_a_zone_without_a_name_is_refused_at_fit_and_the_remedy_works(zone, tmp_path):
    times = plain(pd.date_range("2024-03-01", periods=40, freq="h", tz="UTC")).tz_convert(zone)
    table = one(times)
    with pytest.raises(ValueError, match=r"time labels 'ds' must be in a time zone with a name .*got ") as caught:
        forecaster().fit(table)
    remedy = str(caught.value).split("`")[1]
    converted = table.assign(ds=eval(f"table['ds']{remedy}"))
    assert str(ahead(forecaster().fit(converted), tmp_path)["ds"][0]) == "2024-03-02 17:00:00+01:00"


# 49: text with offsets from UTC


def offsets_text(zone: str, periods: int = 60) -> list[str]:
    return [time.isoformat() for time in pd.date_range("2024-03-30", periods=periods, freq="h", tz=zone)]


@pytest.mark.parametrize("form", ["text", "text with fractions", "objects", "days"])
def test_case_49_text_over_a_change_of_clocks_is_refused_and_the_remedy_works(form, tmp_path):
    whole = pd.date_range("2024-03-30", periods=63, freq="D" if form == "days" else "h", tz=BERLIN)
    timespec = "milliseconds" if form == "text with fractions" else "seconds"
    times = [time.isoformat(timespec=timespec) for time in whole[:60]]
    if form == "objects":
        times = pd.Index([datetime.datetime.fromisoformat(time) for time in times], dtype=object)
    table = one(times)
    with pytest.raises(ValueError, match=r"'ds' must keep one offset from UTC, got '\+01:00' and '\+02:00'") as caught:
        forecaster().fit(table)
    remedy = str(caught.value).split("`")[1]
    table = table.assign(ds=eval(remedy.replace("...", "table['ds']")))
    assert ahead(forecaster().fit(table), tmp_path)["ds"].tolist() == whole[60:].tolist()
    dates, written = read_dates(pd.Index(times), tz=BERLIN)
    assert dates.tolist() == whole[:60].tolist()
    assert written is None
    by_time = pd.DataFrame({"a": np.arange(60.0)}, index=pd.Index(times))
    with pytest.raises(ValueError, match="must keep one offset from UTC"):
        forecaster().fit(by_time)
    by_time.index = eval(remedy.replace("...", "by_time.index"))
    assert forecaster().fit(by_time).predict().index.tolist() == whole[60:].tolist()


def test_case_49_text_is_read_into_one_zone_on_request():
    labels = pd.Index(offsets_text(BERLIN))
    dates, written = read_dates(labels, tz=BERLIN)
    assert (str(dates.dtype.tz), written) == (BERLIN, None)
    assert [time.isoformat() for time in dates] == labels.tolist()
    model = forecaster().fit(one(dates))
    assert [time.isoformat() for time in model.predict()["ds"]] == offsets_text(BERLIN, 63)[60:]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_case_49_text_of_one_offset_comes_back_with_it(zone, tmp_path):
    whole = offsets_text(zone, 63)
    forecast = ahead(forecaster().fit(one(whole[:60])), tmp_path)
    assert forecast["ds"].tolist() == whole[60:]


def test_case_49_rows_with_another_offset_than_those_fitted_are_the_same_moments(tmp_path):
    winter = [f"2024-01-{day:02}T{hour:02}:00+01:00" for day in (1, 2) for hour in range(24)]
    summer = [f"2024-06-01T{hour:02}:00+02:00" for hour in range(24)]
    forecast = ahead(forecaster().fit(one(winter)), tmp_path, h=1, df=one(summer))
    assert pd.Timestamp(forecast["ds"][0]) == pd.Timestamp("2024-06-02T00:00+02:00")


# 54: integers at the ends of their types


@pytest.mark.parametrize("dtype", ["int8", "Int8", "uint8", "UInt8", "int64", "uint64", "UInt64", "int32"])
def test_case_54_small_integers_are_continued_past_their_largest(dtype, tmp_path):
    times = pd.Index(np.arange(88, 128), dtype=dtype)
    forecast = ahead(forecaster().fit(one(times)), tmp_path)
    assert forecast["ds"].tolist() == [128, 129, 130]
    wide = forecaster().fit(pd.DataFrame({"a": np.arange(40.0)}, index=times))
    assert saved(wide, tmp_path).predict().index.tolist() == [128, 129, 130]


@pytest.mark.parametrize(
    ("first", "dtype"),
    [(2**63, "uint64"), (2**64 - 40, "uint64"), (2**63 - 40, "int64"), (-(2**63), "int64"), (2**63, "UInt64")],
)
def test_case_54_integers_too_large_to_count_are_refused_at_fit_and_the_remedy_works(first, dtype):
    times = pd.Index(pd.array([first + k for k in range(40)], dtype=dtype))
    with pytest.raises(
        ValueError, match=r"integer time labels.* must lie between -2\*\*62 and 2\*\*62, got -?\d+; subtract"
    ):
        forecaster().fit(one(times))
    assert forecaster().fit(one(times - times[0])).predict()["ds"].tolist() == [40, 41, 42]


def test_case_54_integers_read_later_are_not_wrapped_either():
    model = forecaster().fit(one(np.arange(40)))
    with pytest.raises(ValueError, match="must lie between"):
        model.predict(df=one(np.arange(40, dtype=np.uint64) + np.uint64(2**63)))


def test_case_54_dates_at_the_end_of_their_unit_are_refused_by_name_and_the_remedy_works():
    times, days = (
        pd.date_range(f"2262-04-{day}", periods=40, freq=freq, unit="s")
        for day, freq in (("10 08:00", "h"), ("01", "D"))
    )
    times, days = times[times <= pd.Timestamp.max.floor("h")], days[days <= pd.Timestamp.max.floor("D")]
    for labels, after in ((plain(times.as_unit("ns")), "2262-04-12"), (plain(days.as_unit("ns")), "2262-04-12")):
        with pytest.raises(
            ValueError, match=r"datetime64\[ns\] end before the steps that are asked for; use `.as_unit\('s'"
        ):
            forecaster().fit(one(labels)).predict()
        assert text(forecaster().fit(one(labels.as_unit("s"))).predict()["ds"])[0] == after
