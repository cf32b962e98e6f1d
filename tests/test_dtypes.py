"""Every dtype that `fit` takes for ids, times and values: `predict` writes it, `save` keeps it, or `fit` refuses it."""

import datetime
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("error")

ROWS = 12
DAYS = pd.date_range("2024-01-01", periods=ROWS)
VALUES = np.random.default_rng(0).normal(size=2 * ROWS).cumsum()
DATES = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
DATETIMES = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
BERLIN = DAYS.tz_localize("Europe/Berlin")


def arrow(values: object, kind: object) -> pd.Series:
    return pd.Series(list(values), dtype=pd.ArrowDtype(kind))


def long(ids: object = ("a", "b"), times: object = DAYS, values: object = VALUES) -> pd.DataFrame:
    ids, times = pd.Series(ids), pd.Series(times)
    both = pd.concat([times, times], ignore_index=True)
    return pd.DataFrame({"unique_id": ids.repeat(ROWS).reset_index(drop=True), "ds": both, "y": values})


def long_polars(ids: object = None, times: object = None, values: object = None) -> object:
    ids = pl.Series(["a", "b"]) if ids is None else ids
    times = pl.Series(DAYS.to_list()) if times is None else times
    values = pl.Series(VALUES) if values is None else values
    return pl.DataFrame({"unique_id": ids.gather(np.repeat([0, 1], ROWS)), "ds": pl.concat([times] * 2), "y": values})


def wide(times: object) -> pd.DataFrame:
    return pd.DataFrame({"a": VALUES[:ROWS], "b": VALUES[ROWS:]}, index=pd.Index(times, name="when"))


def forecaster() -> TitansForecaster:
    return TitansForecaster(horizon=2, lookback=6, cycle=0, max_epochs=0, verbose=0)


def dtypes_of(table: object) -> list:
    return table.schema.types if isinstance(table, pa.Table) else list(table.dtypes)


def forecasts(table: object, folder: object) -> object:
    """The forecast of a table, which a forecaster that was saved and loaded makes too."""
    model = forecaster().fit(table)
    expected = model.predict()
    model.save(folder / "model")
    found = TitansForecaster.load(folder / "model").predict()
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(found, expected)
    else:
        assert found.equals(expected)
    again = model.predict(df=table)
    assert [str(kind) for kind in dtypes_of(again)] == [str(kind) for kind in dtypes_of(expected)]
    return expected


IDS = {
    "text": ["a", "b"],
    "object": pd.Series(["a", "b"], dtype=object),
    "mixed": [1, "b"],
    "string": pd.Series(["a", "b"], dtype="string"),
    "string, python": pd.Series(["a", "b"], dtype="string[python]"),
    "bool": [False, True],
    "boolean": pd.Series([False, True], dtype="boolean"),
    "int8": pd.Series([1, 2], dtype="int8"),
    "uint64": pd.Series([2**63 + 1, 2**63 + 2], dtype="uint64"),
    "Int64": pd.Series([2**60 + 1, 2**60 + 2], dtype="Int64"),
    "float": [1.5, 2.5],
    "Float64": pd.Series([1.5, 2.5], dtype="Float64"),
    "datetime": DAYS[:2],
    "datetime, seconds, zone": BERLIN[:2].as_unit("s"),
    "period": pd.period_range("2024-01", periods=2, freq="M"),
    "tuple": [("a", 1), ("b", 2)],
    "category": pd.Categorical(["a", "b"]),
    "ordered category": pd.Categorical(["b", "a"], categories=["z", "b", "a"], ordered=True),
    "category of integers": pd.Categorical([1, 2]),
    "category of datetimes": pd.Categorical(pd.Index(DATETIMES)),
    "Arrow string": arrow(["a", "b"], pa.string()),
    "Arrow large_string": arrow(["a", "b"], pa.large_string()),
    "Arrow int64": arrow([2**60 + 1, 2**60 + 2], pa.int64()),
    "Arrow uint8": arrow([1, 2], pa.uint8()),
    "Arrow double": arrow([1.5, 2.5], pa.float64()),
    "Arrow bool": arrow([False, True], pa.bool_()),
    "Arrow date": arrow(DATES, pa.date32()),
    "Arrow date64": arrow(DATES, pa.date64()),
    "Arrow timestamp": arrow(DATETIMES, pa.timestamp("ms")),
    "Arrow timestamp, zone": arrow(BERLIN[:2], pa.timestamp("us", "Europe/Berlin")),
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_ids_of_pandas_are_written_and_saved(ids, tmp_path):
    table = long(ids)
    found = forecasts(table, tmp_path)["unique_id"]
    assert found.dtype == table["unique_id"].dtype
    assert found.tolist() == table["unique_id"].iloc[[0, 1, ROWS, ROWS + 1]].tolist()


TIMES = {
    "datetime": DAYS,
    "seconds": DAYS.as_unit("s"),
    "zone": BERLIN,
    "period": DAYS.to_period("D"),
    "text": DAYS.strftime("%Y-%m-%d"),
    "string": pd.Series(DAYS.strftime("%Y-%m-%d"), dtype="string"),
    "string, python": pd.Series(DAYS.strftime("%Y-%m-%d"), dtype="string[python]"),
    "date": pd.Series(DAYS.date, dtype=object),
    "int64": np.arange(ROWS),
    "Int64": pd.Series(range(ROWS), dtype="Int64"),
    "Arrow string": arrow(DAYS.strftime("%Y-%m-%d"), pa.string()),
    "Arrow large_string": arrow(DAYS.strftime("%Y-%m-%d"), pa.large_string()),
    "Arrow int64": arrow(range(ROWS), pa.int64()),
    "Arrow date": arrow(DAYS.date, pa.date32()),
    "Arrow date64": arrow(DAYS.date, pa.date64()),
    **{f"Arrow {unit}": arrow(DAYS, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "Arrow zone": arrow(BERLIN, pa.timestamp("us", "Europe/Berlin")),
    "Arrow offset": arrow(
        DAYS.tz_localize(datetime.timezone(datetime.timedelta(hours=1))), pa.timestamp("us", "+01:00")
    ),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_times_of_pandas_are_written_and_saved(times, tmp_path):
    step = pd.Series(times).iloc[1:3]
    table = long(times=times)
    found = forecasts(table, tmp_path)["ds"]
    assert found.dtype == table["ds"].dtype
    assert found.tolist()[:2] == found.tolist()[2:]
    assert type(found.iloc[0]) is type(step.iloc[0])
    assert str(found.iloc[0]) in ("12", str(step.iloc[0]).replace("-02", "-13", 1))


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES)
def test_an_index_or_column_of_times_of_a_wide_table_is_written_and_saved(times, tmp_path):
    table = wide(times)
    index = forecasts(table, tmp_path).index
    assert (index.dtype, index.name) == (table.index.dtype, "when")
    if not str(pd.Series(times).dtype).lower().startswith("int"):
        column = wide(times).reset_index()
        assert forecasts(column, tmp_path)["when"].dtype == column["when"].dtype


VALUE_TYPES = ["int64", "uint8", "float32", "float16", "Int64", "Float64", "int32[pyarrow]", "double[pyarrow]"]


@pytest.mark.parametrize("dtype", [*VALUE_TYPES, "float[pyarrow]", "Sparse[float64]"])
def test_values_of_any_numbers_are_the_same_values(dtype, tmp_path):
    whole = pd.Series(np.arange(2 * ROWS) % 7)
    expected = forecasts(long(values=whole.astype(float)), tmp_path)
    pd.testing.assert_frame_equal(forecasts(long(values=whole.astype(dtype)), tmp_path), expected)


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_case_47_converted_dtypes_forecast_as_they_were_and_come_back(backend, tmp_path):
    expected = forecasts(long(), tmp_path)
    table = long().convert_dtypes(dtype_backend=backend)
    found = forecasts(table, tmp_path)
    assert found["Titans"].tolist() == expected["Titans"].tolist()
    assert found.dtypes[["unique_id", "ds"]].tolist() == table.dtypes[["unique_id", "ds"]].tolist()
    assert found["ds"].tolist() == expected["ds"].tolist()


def test_columns_named_in_arrow_text_keep_their_dtype(tmp_path):
    table = wide(DAYS)
    table.columns = table.columns.astype(pd.ArrowDtype(pa.string()))
    assert forecasts(table, tmp_path).columns.dtype == table.columns.dtype


POLARS_IDS = {
    "String": pl.Series(["a", "b"]),
    "Boolean": pl.Series([False, True]),
    "Int8": pl.Series([1, 2], dtype=pl.Int8),
    "UInt64": pl.Series([2**63 + 1, 2**63 + 2], dtype=pl.UInt64),
    "Float32": pl.Series([1.5, 2.5], dtype=pl.Float32),
    "Date": pl.Series(DATES),
    "Datetime": pl.Series(DATETIMES),
    "Datetime, ms": pl.Series(DATETIMES).cast(pl.Datetime("ms")),
    "Datetime, zone": pl.Series(DATETIMES).dt.replace_time_zone("Europe/Berlin"),
    "Enum": pl.Series(["b", "a"], dtype=pl.Enum(["z", "b", "a"])),
    "Categorical": pl.Series(["a", "b"], dtype=pl.Categorical),
}


@pytest.mark.parametrize("ids", POLARS_IDS.values(), ids=POLARS_IDS)
def test_case_52_ids_of_polars_are_written_and_saved(ids, tmp_path):
    found = forecasts(long_polars(ids), tmp_path)["unique_id"]
    assert found.dtype == ids.dtype
    assert found.to_list() == ids.gather([0, 0, 1, 1]).to_list()
    if ids.dtype not in (pl.Enum, pl.Categorical):
        table = long_polars(ids).to_arrow()
        assert forecasts(table, tmp_path).schema.field("unique_id") == table.schema.field("unique_id")


POLARS_TIMES = {
    "String": pl.Series(DAYS.strftime("%Y-%m-%d").tolist()),
    "Date": pl.Series(list(DAYS.date)),
    "Datetime, ns": pl.Series(DAYS.to_list()).cast(pl.Datetime("ns")),
    "Datetime, zone": pl.Series(DAYS.to_list()).dt.replace_time_zone("Europe/Berlin"),
    "Int64": pl.Series(range(ROWS)),
}


@pytest.mark.parametrize("times", POLARS_TIMES.values(), ids=POLARS_TIMES)
def test_times_of_polars_are_written_and_saved(times, tmp_path):
    assert forecasts(long_polars(times=times), tmp_path)["ds"].dtype == times.dtype
    table = long_polars(times=times).to_arrow()
    assert forecasts(table, tmp_path).schema.field("ds") == table.schema.field("ds")


# What is refused, and that its remedy works


def call_in(error: Exception) -> str:
    return re.search(r"`(df\..*?)`[.;, ]", str(error))[1]


REFUSED = {
    "date": DATES,
    "timedelta": pd.to_timedelta([1, 2], unit="h"),
    "interval": pd.interval_range(0, 2),
    "Decimal": [Decimal("1.5"), Decimal("2.5")],
    "time": [datetime.time(1), datetime.time(2)],
    "UUID": [uuid.UUID(int=1), uuid.UUID(int=2)],
    "bytes": [b"a", b"b"],
    "complex": [1j, 2j],
    "list": pd.Series([[1], [2]]),
    "dict": pd.Series([{"a": 1}, {"a": 2}]),
    "category of dates": pd.Categorical(DATES),
    "category of intervals": pd.cut([1, 2], [0, 1, 2]),
    "Arrow decimal": arrow([Decimal("1.5"), Decimal("2.5")], pa.decimal128(5, 2)),
    "Arrow time": arrow([datetime.time(1), datetime.time(2)], pa.time64("us")),
    "Arrow duration": arrow([datetime.timedelta(1), datetime.timedelta(2)], pa.duration("us")),
    "Arrow binary": arrow([b"a", b"b"], pa.binary()),
    "Arrow dictionary": arrow(["a", "b"], pa.dictionary(pa.int32(), pa.string())),
    "Arrow list": arrow([[1], [2]], pa.list_(pa.int64())),
}


@pytest.mark.parametrize("ids", REFUSED.values(), ids=REFUSED)
def test_other_ids_are_refused_with_a_call_that_makes_them_text(ids, tmp_path):
    df = long(ids)
    with pytest.raises(
        TypeError, match=r"ids in column 'unique_id' must be text, numbers, datetimes, .*got "
    ) as caught:
        forecaster().fit(df)
    mended = eval(call_in(caught.value), {"df": df, "str": str})
    assert forecasts(mended, tmp_path)["unique_id"].nunique() == 2


REFUSED_POLARS = {
    "Decimal": pl.Series([Decimal("1.5"), Decimal("2.5")]),
    "Time": pl.Series([datetime.time(1), datetime.time(2)]),
    "Duration": pl.Series([datetime.timedelta(1), datetime.timedelta(2)]),
    "Binary": pl.Series([b"a", b"b"]),
    "List": pl.Series([[1], [2]]),
    "Array": pl.Series([[1], [2]], dtype=pl.Array(pl.Int64, 1)),
    "Struct": pl.Series([{"a": 1}, {"a": 2}]),
}


@pytest.mark.parametrize("ids", REFUSED_POLARS.values(), ids=REFUSED_POLARS)
def test_other_ids_of_polars_are_refused_with_a_call_of_pandas_that_makes_them_text(ids, tmp_path):
    df = long_polars(ids)
    with pytest.raises(TypeError, match=r"column 'unique_id' .*begin with `df = df.to_pandas\(\)`") as caught:
        forecaster().fit(df)
    mended = eval(call_in(caught.value), {"df": df.to_pandas(), "str": str})
    assert forecasts(mended, tmp_path)["unique_id"].nunique() == 2


def test_integers_of_128_bits_are_refused_with_a_cast(tmp_path):
    df = long_polars(pl.Series([1, 2], dtype=pl.Int128))
    with pytest.raises(TypeError, match="column 'unique_id' has dtype Int128, wider than NumPy's integers") as caught:
        forecaster().fit(df)
    assert forecasts(eval(call_in(caught.value), {"df": df, "pl": pl}), tmp_path)["unique_id"].dtype == pl.Int64


@pytest.mark.parametrize("odd", [datetime.date(2024, 1, 1), Decimal("1.5"), pd.Timedelta(1)], ids=str)
def test_names_of_columns_that_cannot_be_saved_are_refused(odd, tmp_path):
    df = wide(DAYS).set_axis(pd.Index([odd, "b"], dtype=object), axis=1)
    with pytest.raises(TypeError, match="names of columns must be text") as caught:
        forecaster().fit(df)
    assert forecasts(eval(call_in(caught.value), {"df": df, "str": str}), tmp_path).columns.tolist() == [str(odd), "b"]
    with pytest.raises(TypeError, match="the name of a Series must be text"):
        forecaster().fit(df[odd])


@pytest.mark.parametrize("values", [[True, False] * ROWS, [str(v) for v in VALUES], [Decimal(str(v)) for v in VALUES]])
def test_values_that_are_no_numbers_are_refused_with_a_call_that_makes_them_so(values, tmp_path):
    df = long(values=values)
    with pytest.raises(TypeError, match=r"column 'y' must hold .*numbers, .*; use `.astype\(float\)`"):
        forecaster().fit(df)
    assert np.isfinite(forecasts(df.assign(y=df["y"].astype(float)), tmp_path)["Titans"]).all()
    with pytest.raises(TypeError, match="row 3 has 'n/a'"):
        forecaster().fit(df.assign(y=[*values[:3], "n/a", *values[4:]]))
