"""Whatever the kind of a table and the order of its rows: the same values, and a forecast that goes on from its end."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.frames import Panel, read_table

pl = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("error")

PERIODS = {"15min": "15min", "h": "h", "D": "D", "MS": "M", "ME": "M", "QE-DEC": "Q-DEC", "YS-JAN": "Y-DEC"}
FREQS = [*PERIODS, "s", "36h", "B", "2D", "W-SUN", "W-WED", "QS-FEB", "2MS", "YE-JUN"]
ZONES = [None, "UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York"]
IDS = st.one_of(
    st.lists(st.text("aBé7 _", min_size=1, max_size=4), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=4, unique=True),
)


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
    day = draw(st.dates(pd.Timestamp("1980-01-01").date(), pd.Timestamp("2040-01-01").date()))
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


def content(panel: Panel, first: int = 0) -> dict:
    """Values and first step of each series, less `first`."""
    starts = (panel.starts - first).tolist()
    return {name: (starts[i], panel.series(i).tolist()) for i, name in enumerate(panel.ids.tolist())}


@settings(max_examples=80, deadline=None)
@given(cases())
def test_kind_and_order_of_a_long_table_change_nothing(case):
    rows = case.rows()
    expected = content(read_table(rows.sort_values(["unique_id", "ds"]).astype({"y": float}), freq=case.freq))
    assert {name: values for name, (_, values) in expected.items()} == {n: y.tolist() for n, y in case.series.items()}
    categories = rows.assign(unique_id=rows["unique_id"].astype("category"))
    native = pl.DataFrame({name: column.tolist() for name, column in rows.items()})
    for table in (rows, categories, native):
        assert content(read_table(table, freq=case.freq)) == expected


@settings(max_examples=60, deadline=None)
@given(cases(zones=[None]))
def test_dates_as_text_objects_or_periods_are_the_same_dates(case):
    rows = case.rows()
    panel = read_table(rows, freq=case.freq)
    expected = content(panel)
    written = "%Y-%m-%d %H:%M:%S" if case.freq in ("s", "15min", "h", "36h") else "%Y-%m-%d"
    forms = {"text": rows["ds"].dt.strftime(written)}
    if written == "%Y-%m-%d":
        forms["objects"] = rows["ds"].dt.date
    forecast = np.arange(2.0 * panel.n_series).reshape(-1, 2)
    for form, times in forms.items():
        other = read_table(rows.assign(ds=times), freq=case.freq)
        assert content(other) == expected
        found, dates = other.write(forecast), panel.write(forecast)
        after = dates["ds"].dt.strftime(written) if form == "text" else dates["ds"].dt.date
        pd.testing.assert_frame_equal(found, dates.assign(ds=after), check_dtype=form == "text")
    if case.freq in PERIODS:
        other = read_table(rows.assign(ds=rows["ds"].dt.to_period(PERIODS[case.freq])))
        assert content(other, other.starts[0]) == content(panel, panel.starts[0])


@settings(max_examples=80, deadline=None)
@given(cases(), st.integers(1, 4))
def test_every_forecast_goes_on_where_its_series_ends(case, horizon):
    panel = read_table(case.rows(), freq=case.freq)
    forecast = np.arange(float(panel.n_series * horizon)).reshape(-1, horizon)
    written = panel.write(forecast)
    assert written["ds"].dtype == case.rows()["ds"].dtype
    for i, name in enumerate(sorted(case.series)):
        ahead = written[written["unique_id"] == name]
        history = case.series[name].index
        naive = history if case.freq in ("s", "15min", "h", "36h") else history.tz_localize(None)
        after = pd.date_range(naive[-1], periods=horizon + 1, freq=case.freq)[1:]
        assert ahead["ds"].tolist() == list(after if after.tz is not None else after.tz_localize(history.tz))
        assert ahead["Titans"].tolist() == forecast[i].tolist()


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
    tables.append(pl.DataFrame({"when": y.index[::-1].to_list(), str(name): y[::-1].to_list()}))
    for table in tables:
        panel = read_table(table, freq=case.freq)
        assert panel.values.tolist() == long.values.tolist()
        assert panel.starts.tolist() == long.starts.tolist()
