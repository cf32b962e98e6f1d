"""Tables of polars: the values of the same table in pandas, and forecasts in polars."""

import datetime

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster
from titans_ts.tables.native import EXTENDED, from_extended, is_extended
from titans_ts.tables.read import read_table

pl = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("error")

HOURS = [datetime.datetime(2024, 3, 30, 22) + datetime.timedelta(hours=h) for h in range(4)]


def long_table(ids: pl.Series, times: pl.Series) -> pl.DataFrame:
    """Two series of the same times, their rows interleaved."""
    n = len(times)
    return pl.DataFrame(
        {
            "unique_id": pl.concat([ids] * n),
            "ds": times.gather(np.repeat(np.arange(n), 2)),
            "y": np.arange(2.0 * n),
        }
    )


def point(*rows: list[float]) -> np.ndarray:
    """A point forecast, (n_series, steps, 1)."""
    return np.array(rows, dtype=float)[..., None]


@pytest.mark.parametrize(
    "ids",
    [
        pl.Series(["a", "b"]),
        pl.Series(["a", "b"], dtype=pl.Categorical),
        pl.Series(["b", "a"], dtype=pl.Enum(["z", "b", "a"])),
        pl.Series([100100037, 100100038]),
        pl.Series([2, 7], dtype=pl.UInt16),
    ],
    ids=lambda ids: str(ids.dtype),
)
def test_ids_come_back_in_order_with_their_dtype(ids):
    panel = read_table(long_table(ids, pl.Series(HOURS)))
    assert panel.ids.tolist() == ids.to_list()
    assert panel.data.values.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    written = panel.write(point([1.0, 2.0], [3.0, 4.0]))
    assert written.columns == ["unique_id", "ds", "Titans"]
    assert written["unique_id"].dtype == ids.dtype
    assert written["unique_id"].to_list() == ids.gather([0, 0, 1, 1]).to_list()
    assert written["Titans"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata", "Europe/Berlin"])
def test_times_keep_unit_and_zone(unit, zone):
    times = pl.Series(HOURS).cast(pl.Datetime(unit)).dt.replace_time_zone("UTC")
    times = times.dt.replace_time_zone(None) if zone is None else times.dt.convert_time_zone(zone)
    written = read_table(long_table(pl.Series(["b", "a"]), times)).write(np.zeros((2, 1, 1)))
    assert written["ds"].dtype == pl.Datetime(unit, zone)
    after = times[-1] + datetime.timedelta(hours=1)
    assert written["ds"].to_list() == [after, after]


def test_both_hours_of_an_autumn_night_are_kept():
    times = pl.datetime_range(
        datetime.datetime(2024, 10, 27), datetime.datetime(2024, 10, 27, 3), "1h", time_zone="Europe/Berlin", eager=True
    )
    assert len(times) == 5
    panel = read_table(pl.DataFrame({"ds": times[:3], "y": [1.0, 2.0, 3.0]}))
    assert panel.write(np.zeros((1, 2, 1)))["ds"].to_list() == times[3:].to_list()


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (pl.Series([datetime.date(2024, 1, d) for d in (1, 2, 3)]), datetime.date(2024, 1, 4)),
        (pl.Series(["2021-11", "2021-12", "2022-01"]), "2022-02"),
        (pl.Series([10, 20, 30], dtype=pl.Int32), 40),
    ],
    ids=["dates", "text", "integers"],
)
def test_one_series_and_a_wide_table_keep_the_kind_of_their_times(times, after):
    single = read_table(pl.DataFrame({"ds": times, "y": [1, 2, 3]})).write(point([9.0]))
    wide = read_table(pl.DataFrame({"a": [1, 2, 3], "ds": times, "b": [4.0, 5, 6]})).write(point([8.0], [9.0]))
    assert single.to_dict(as_series=False) == {"ds": [after], "Titans": [9.0]}
    assert wide.to_dict(as_series=False) == {"ds": [after], "a": [8.0], "b": [9.0]}
    if times.dtype != pl.Int32:
        assert single["ds"].dtype == wide["ds"].dtype == times.dtype


def test_a_series_and_a_wide_table_without_times_count_their_rows():
    series = read_table(pl.Series("load", [1.0, 2.0, 3.0])).write(point([4.0, 5.0]))
    assert isinstance(series, pl.Series)
    assert (series.name, series.to_list()) == ("load", [4, 5])
    wide = read_table(pl.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})).write(point([7.0], [8.0]))
    assert wide.to_dict(as_series=False) == {"a": [7], "b": [8]}


def test_null_and_nan_are_missing_values():
    hours = [*HOURS, HOURS[-1] + datetime.timedelta(hours=1)]
    table = pl.DataFrame({"ds": hours, "y": [1.0, None, float("nan"), 4.0, 5.0]})
    with pytest.raises(ValueError, match="column 'y' has 2 missing values, the first at 2024-03-30 23:00:00"):
        read_table(table)
    assert read_table(table, missing="interpolate").data.values.tolist() == [1, 2, 3, 4, 5]
    whole = pl.DataFrame({"ds": HOURS, "y": [1, None, 3, 4]})
    assert read_table(whole, missing="ffill").data.values.tolist() == [1, 1, 3, 4]
    with pytest.raises(ValueError, match="column 'unique_id' has 2 missing values, the first in row 1"):
        read_table(long_table(pl.Series(["a", None]), pl.Series(HOURS[:2])))
    with pytest.raises(ValueError, match="the times have 1 missing value, the first in row 0"):
        read_table(pl.DataFrame({"ds": [None, *HOURS[1:]], "y": [1, 2, 3, 4]}))


@pytest.mark.parametrize("dtype", [pl.Boolean, pl.String, pl.Decimal(10, 2)])
def test_values_that_are_no_numbers_are_named(dtype):
    table = pl.DataFrame({"ds": HOURS, "y": pl.Series([1, 0, 1, 0]).cast(dtype)})
    with pytest.raises(TypeError, match=r"column 'y' must hold (real )?numbers, got dtype"):
        read_table(table)


def test_pandas_with_arrow_inside_is_read_as_plain_pandas_and_its_dtypes_are_noted():
    pa = pytest.importorskip("pyarrow")
    dtypes = {"unique_id": pa.string(), "ds": pa.timestamp("ms", "UTC"), "y": pa.float64()}
    rows = {"unique_id": ["a"] * 3, "ds": pd.date_range("2024", periods=3, tz="UTC"), "y": [1.0, 2.0, 3.0]}
    table = pd.DataFrame({name: pd.Series(rows[name]).astype(pd.ArrowDtype(kind)) for name, kind in dtypes.items()})
    before = table.copy()
    plain, backend, stored = from_extended(table)
    assert backend == EXTENDED
    assert stored == {"unique_id": "utf8[pyarrow]", "ds": "timestamp[ms, tz=UTC][pyarrow]"}
    assert plain.dtypes.astype(str).tolist() == ["string", "datetime64[ms, UTC]", "double[pyarrow]"]
    pd.testing.assert_frame_equal(table, before)
    written = read_table(table).write(point([4.0]))
    assert written["unique_id"].dtype == table["unique_id"].dtype
    assert written["ds"].dtype == table["ds"].dtype
    assert str(written["ds"][0]) == "2024-01-04 00:00:00+00:00"
    for index in ("ds", ["unique_id", "ds"], "unique_id"):
        indexed = read_table(table.set_index(index)).write(point([4.0]))
        assert indexed.dtypes.tolist() == written.dtypes.tolist()
    assert not is_extended(np.dtype(float))
    assert not is_extended(pd.ArrowDtype(pa.int8()))


def test_lazy_tables_are_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"LazyFrame; use `.collect\(\)`"):
        read_table(pl.DataFrame({"ds": HOURS, "y": [1, 2, 3, 4]}).lazy())


def test_forecasts_of_arrow_tables_are_arrow_tables():
    pa = pytest.importorskip("pyarrow")
    written = read_table(pa.table({"ds": HOURS, "y": [1.0, 2.0, 3.0, 4.0]})).write(point([5.0]))
    assert isinstance(written, pa.Table)
    assert written.to_pydict() == {"ds": [datetime.datetime(2024, 3, 31, 2)], "Titans": [5.0]}


def test_a_forecaster_forecasts_as_it_does_for_pandas_and_when_loaded(tmp_path):
    values = np.random.default_rng(0).normal(size=60)
    times = pd.date_range("2024-01-01", periods=30, freq="D")
    table = pd.DataFrame({"unique_id": ["b"] * 30 + ["a"] * 30, "ds": [*times, *times], "y": values})
    native = pl.DataFrame({name: column.to_list() for name, column in table.items()})
    model = TitansForecaster(horizon=3, lookback=8, max_epochs=0, random_state=0, verbose=0)
    expected = model.fit(table).predict()
    found = model.fit(native.with_columns(pl.col("unique_id").cast(pl.Categorical))).predict()
    assert found["Titans"].to_list() == expected["Titans"].tolist()
    assert found["ds"].to_list() == expected["ds"].tolist()
    only = native.filter(pl.col("unique_id") == "a").with_columns(pl.col("unique_id").cast(pl.Categorical))
    assert model.predict(df=only)["Titans"].to_list() == pytest.approx(expected["Titans"].tolist()[:3], abs=1e-5)
    model.save(tmp_path / "model")
    assert TitansForecaster.load(tmp_path / "model").predict().equals(found)
