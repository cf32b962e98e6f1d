"""Tables of every kind to one panel: the same values whatever the kind of a table and the order of its rows."""

import copy
import zoneinfo
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table

from .sample_tables import long_table, wide_table

pytestmark = pytest.mark.filterwarnings("error")

PERIODS = {"15min": "15min", "h": "h", "D": "D", "MS": "M", "ME": "M", "QE-DEC": "Q-DEC", "YS-JAN": "Y-DEC"}
FREQS = [*PERIODS, "s", "36h", "B", "2D", "W-SUN", "W-WED", "QS-FEB", "2MS", "YE-JUN"]
SOME_FREQS = ["15min", "h", "D", "B", "W-SUN", "MS", "ME", "QS-JAN", "QE-DEC", "YS-JAN", "YE-DEC"]
# As zoneinfo has them: pandas 2 reads their names as zones of pytz, which polars does not take.
ZONES = [None, *map(zoneinfo.ZoneInfo, ("UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York"))]
IDS = st.one_of(
    st.lists(st.text("aBé7 _", min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4, unique=True),
)


def by_id(panel: Panel, first: int = 0) -> dict:
    """The time index of each series' first row, minus `first`, and its values."""
    data = panel.data
    return {
        name: (int(data.starts[i]) - first, data.values[data.rows_of(i)].tolist())
        for i, name in enumerate(panel.ids.tolist())
    }


def test_long_table_lays_series_end_to_end():
    panel = read_table(long_table({"a": 4, "b": 3}))
    assert panel.ids.tolist() == ["a", "b"]
    assert panel.data.values.tolist() == [0, 1, 2, 3, 100, 101, 102]
    assert panel.data.lengths.tolist() == [4, 3]
    assert panel.data.offsets.tolist() == [0, 4]
    assert panel.data.starts.tolist() == [19723, 19724]
    assert panel.data.ends.tolist() == [19727, 19727]
    data = panel.data
    assert (data.values.dtype, data.lengths.dtype, data.starts.dtype) == (np.float64, np.int64, np.int64)
    assert panel.calendar.freq == "D"
    assert panel.n_series == 2
    assert panel.feature_names is None


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.dictionaries(st.text(min_size=1, max_size=3), st.integers(3, 12), min_size=1, max_size=5),
    freq=st.sampled_from(SOME_FREQS),
    random=st.randoms(use_true_random=False),
)
def test_order_of_rows_changes_nothing(lengths, freq, random):
    table = long_table(lengths, freq)
    order = list(range(len(table)))
    random.shuffle(order)
    panel, shuffled = read_table(table, freq=freq), read_table(table.iloc[order], freq=freq)
    assert by_id(shuffled) == by_id(panel)
    assert shuffled.ids.tolist() == panel.ids.tolist() == sorted(lengths)
    forecast = np.arange(2.0 * len(lengths)).reshape(-1, 2, 1)
    pd.testing.assert_frame_equal(shuffled.write(forecast), panel.write(forecast))


@settings(max_examples=60, deadline=None)
@given(
    freq=st.sampled_from(SOME_FREQS),
    zone=st.sampled_from([None, "UTC", "Asia/Kolkata", "Europe/Berlin"]),
    rows=st.integers(3, 30),
    channels=st.integers(1, 4),
    horizon=st.integers(1, 5),
)
def test_long_and_wide_forms_agree_and_continue_the_history(freq, zone, rows, channels, horizon):
    index = pd.date_range("2019-02-28 12:00", periods=rows, freq=freq, tz=zone, name="ds")
    values = np.random.default_rng(rows).normal(size=(rows, channels))
    wide = pd.DataFrame(values, index=index, columns=[f"c{i}" for i in range(channels)])
    melted = wide.rename_axis(columns="unique_id").T.stack().rename("y").reset_index()
    one, other = read_table(wide, freq=freq), read_table(melted, freq=freq)
    for attribute in ("values", "lengths", "starts"):
        assert np.array_equal(getattr(one.data, attribute), getattr(other.data, attribute))
    assert one.calendar == other.calendar
    forecast = np.arange(float(channels * horizon)).reshape(channels, horizon, 1)
    after = pd.date_range(index[-1], periods=horizon + 1, freq=freq, name="ds")[1:]
    pd.testing.assert_frame_equal(
        one.write(forecast), pd.DataFrame(forecast[..., 0].T, index=after, columns=wide.columns)
    )
    rows_ahead = other.write(forecast)
    assert rows_ahead.columns.tolist() == ["unique_id", "ds", "Titans"]
    assert rows_ahead["unique_id"].tolist() == np.repeat(wide.columns, horizon).tolist()
    assert rows_ahead["ds"].tolist() == list(after) * channels
    assert rows_ahead["Titans"].tolist() == forecast.ravel().tolist()


def test_times_in_a_half_hour_zone_have_the_values_of_utc():
    table = long_table({"a": 30, "b": 24}, "h")
    table["ds"] = table["ds"].dt.tz_localize("UTC")
    local = table.assign(ds=table["ds"].dt.tz_convert("Asia/Kolkata"))
    assert by_id(read_table(local)) == by_id(read_table(table))
    written = read_table(local).write(np.zeros((2, 1, 1)))
    assert written["ds"].dtype == local["ds"].dtype
    assert str(written["ds"][0]) == "2024-01-02 11:30:00+05:30"


def test_large_values_keep_their_small_movement():
    values = 1e9 + np.sin(np.arange(50.0))
    assert np.array_equal(read_table(values[:, None]).data.values, values)


@pytest.mark.parametrize("dtype", ["int64", "Int64", "Float64", "float32", "uint8"])
def test_numbers_are_cast_to_float64(dtype):
    for table in (long_table({"a": 3}).astype({"y": dtype}), pd.Series([0, 1, 2], dtype=dtype)):
        assert read_table(table).data.values.tolist() == [0.0, 1.0, 2.0]
        assert read_table(table).data.values.dtype == np.float64


def test_panel_shares_no_memory_and_inputs_stay_as_they_were():
    series = pd.Series(np.arange(5.0))
    array = np.arange(6.0).reshape(3, 2)
    for table in (long_table({"a": 5, "b": 4}), wide_table(), wide_table().reset_index(), series, array):
        before = copy.deepcopy(table)
        panel = read_table(table)
        panel.data.values[:] = -1.0
        panel.write(np.zeros((panel.n_series, 2, 1)))
        assert np.array_equal(np.asarray(table), np.asarray(before))
        assert panel.data.values.flags.owndata or panel.data.values.base.flags.owndata


def test_other_tables_are_refused_with_their_remedy():
    lazy = type("LazyFrame", (), {"__module__": "polars.lazyframe.frame"})()
    for table, words in (
        (lazy, r"got polars.lazyframe.frame.LazyFrame; use `.collect\(\)`"),
        ([1.0, 2.0, 3.0], r"got builtins.list; use `np.array\(...\).reshape\(-1, 1\)`"),
        (sparse.csr_array(np.eye(3)), r"csr_array; sparse input is not supported, use `.toarray\(\)`"),
        (np.ma.masked_array(np.zeros((3, 1))), r"use `.filled\(\)`"),
        (np.array([["a"]] * 3), "must hold real numbers, got dtype <U1"),
        (np.array([[True]] * 3), "must hold real numbers, got dtype bool"),
        (None, "polars DataFrame or Series .* got builtins.NoneType"),
    ):
        with pytest.raises(TypeError, match=words):
            read_table(table)


def test_a_panel_comes_back_as_it_is():
    panel = read_table(wide_table())
    assert read_table(panel, freq="D", missing="ffill") is panel


def test_rows_keep_to_the_calendar_that_is_given():
    calendar = read_table(wide_table(freq="h")).calendar
    later = read_table(wide_table(1).shift(7, freq="h"), min_rows=1, calendar=calendar)
    assert later.calendar is calendar
    assert later.data.starts.tolist() == [473_359, 473_359]  # hours since 1970
    with pytest.raises(ValueError, match="00:30:00 is not on the grid of 'h'"):
        read_table(wide_table().shift(30, freq="min"), calendar=calendar)


# Tables drawn at random


def polars():
    return pytest.importorskip("polars")


@dataclass
class Case:
    """Series of small whole numbers, which every dtype holds, over one grid."""

    freq: str
    series: dict  # id -> Series over its times
    order: np.ndarray  # of the rows of a long table
    dtype: str

    def rows(self) -> pd.DataFrame:
        parts = [pd.DataFrame({"unique_id": name, "ds": y.index, "y": y.to_numpy()}) for name, y in self.series.items()]
        return pd.concat(parts, ignore_index=True).iloc[self.order].astype({"y": self.dtype})


@st.composite
def cases(draw, zones=ZONES) -> Case:
    freq, zone = draw(st.sampled_from(FREQS)), draw(st.sampled_from(zones))
    ids = draw(IDS)
    last = "2040-01-01" if pd.__version__ >= "3" else "2017-01-01"  # zones of pandas 2 end in 2037
    day = draw(st.dates(pd.Timestamp("1980-01-01").date(), pd.Timestamp(last).date()))
    times = pd.date_range(day, periods=20, freq=freq, unit="us")
    if zone is not None:  # fixed steps as they pass, longer ones by local days
        fixed = freq in ("s", "15min", "h", "36h")
        times = times.tz_localize("UTC").tz_convert(zone) if fixed else times.tz_localize(zone)
    series = {}
    for name in ids:
        first, rows = draw(st.integers(0, 6)), draw(st.integers(3, 12))
        values = draw(st.lists(st.integers(-99, 99), min_size=rows, max_size=rows))
        series[name] = pd.Series(values, index=times[first : first + rows])
    order = np.array(draw(st.permutations(range(sum(map(len, series.values()))))))
    return Case(freq, series, order, draw(st.sampled_from(["float64", "float32", "int64", "Int64", "int8"])))


@settings(max_examples=80, deadline=None)
@given(cases())
def test_kind_and_order_of_a_long_table_change_nothing(case):
    rows = case.rows()
    expected = by_id(read_table(rows.sort_values(["unique_id", "ds"]).astype({"y": float}), freq=case.freq))
    assert {name: values for name, (_, values) in expected.items()} == {n: y.tolist() for n, y in case.series.items()}
    categories = rows.assign(unique_id=rows["unique_id"].astype("category"))
    native = polars().DataFrame({name: column.tolist() for name, column in rows.items()})
    for table in (rows, categories, native):
        assert by_id(read_table(table, freq=case.freq)) == expected


@settings(max_examples=60, deadline=None)
@given(cases(zones=[None]))
def test_dates_as_text_objects_or_periods_are_the_same_dates(case):
    rows = case.rows()
    panel = read_table(rows, freq=case.freq)
    expected = by_id(panel)
    written = "%Y-%m-%d %H:%M:%S" if case.freq in ("s", "15min", "h", "36h") else "%Y-%m-%d"
    forms = {"text": rows["ds"].dt.strftime(written)}
    if written == "%Y-%m-%d":
        forms["objects"] = rows["ds"].dt.date
    forecast = np.arange(2.0 * panel.n_series).reshape(-1, 2, 1)
    for form, times in forms.items():
        other = read_table(rows.assign(ds=times), freq=case.freq)
        assert by_id(other) == expected
        found, dates = other.write(forecast), panel.write(forecast)
        after = dates["ds"].dt.strftime(written) if form == "text" else dates["ds"].dt.date
        pd.testing.assert_frame_equal(found, dates.assign(ds=after), check_dtype=form == "text")
    if case.freq in PERIODS:
        other = read_table(rows.assign(ds=rows["ds"].dt.to_period(PERIODS[case.freq])))
        assert by_id(other, other.data.starts[0]) == by_id(panel, panel.data.starts[0])


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(1, 4))
def test_every_forecast_goes_on_where_its_series_ends(case, horizon):
    panel = read_table(case.rows(), freq=case.freq)
    forecast = np.arange(float(panel.n_series * horizon)).reshape(-1, horizon, 1)
    written = panel.write(forecast)
    assert written["ds"].dtype == case.rows()["ds"].dtype
    for i, name in enumerate(sorted(case.series)):
        ahead = written[written["unique_id"] == name]
        history = case.series[name].index
        naive = history if case.freq in ("s", "15min", "h", "36h") else history.tz_localize(None)
        after = pd.date_range(naive[-1], periods=horizon + 1, freq=case.freq)[1:]
        assert ahead["ds"].tolist() == list(after if after.tz is not None else after.tz_localize(history.tz))
        assert ahead["Titans"].tolist() == forecast[i, :, 0].tolist()


@settings(max_examples=60, deadline=None)
@given(cases())
def test_wide_tables_and_series_hold_the_same_as_long_ones(case):
    name, y = next(iter(case.series.items()))
    long = read_table(pd.DataFrame({"unique_id": name, "ds": y.index, "y": y.to_numpy()}), freq=case.freq)
    backwards = y.astype(case.dtype)[::-1]
    tables = [
        backwards.rename(name),
        backwards.to_frame(name),
        backwards.to_frame(name).rename_axis("when").reset_index(),
    ]
    tables.append(polars().DataFrame({"when": y.index[::-1].to_list(), str(name): y[::-1].to_list()}))
    for table in tables:
        panel = read_table(table, freq=case.freq)
        assert panel.data.values.tolist() == long.data.values.tolist()
        assert panel.data.starts.tolist() == long.data.starts.tolist()


def test_rows_of_series_that_lie_too_far_apart_for_one_key_are_sorted_too():
    far = 2**61
    ids, times = ["a"] * 3 + ["b"] * 3, [2, 1, 0, far + 2, far, far + 1]
    panel = read_table(pd.DataFrame({"unique_id": ids, "ds": times, "y": [3.0, 2, 1, 6, 4, 5]}), freq=1)
    assert panel.data.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert panel.data.starts.tolist() == [0, far]
