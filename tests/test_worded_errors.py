"""Whatever is given to the forecaster, it answers, or says in words of its own what is wrong with which part."""

from __future__ import annotations

import datetime
import decimal
import traceback
import warnings
from collections.abc import Callable
from copy import copy
from fractions import Fraction
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import titans_ts
from titans_ts import TitansForecaster
from titans_ts.devices import find_device

ROOT = str(Path(titans_ts.__file__).parents[1])
WORDED = (ValueError, TypeError, FloatingPointError, FileNotFoundError, MemoryError)
SUBJECTS = [
    "`",
    "table",
    "column",
    "series",
    "time",
    "Series",
    "channel",
    "frequency",
    "array",
    "index",
    "row",
    "levels",
]
SMALL = dict(horizon=3, lookback=8, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0, verbose=0)
QUICK = SMALL | dict(combine=False, context="window", linear_path=True)
ROWS = 40
HOURS = pd.date_range("2024-01-01", periods=ROWS, freq="h", name="ds")
WIDE = pd.DataFrame(np.random.default_rng(0).normal(size=(ROWS, 2)), index=HOURS, columns=["a", "b"])
LONG = WIDE.reset_index().melt("ds", var_name="unique_id", value_name="y")

few = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
many = settings(max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))


def answers(call: Callable[[], Any]) -> Any:
    """What `call` returns, None where it is refused in the package's own words; anything else is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except WORDED as error:
            refusal = error
    raised = traceback.extract_tb(refusal.__traceback__)[-1]
    what = f"{type(refusal).__name__}: {refusal}"
    assert raised.filename.startswith(ROOT), f"not worded here: {what}"
    assert (raised.line or "").startswith("raise"), f"not worded: {what}"
    assert any(subject in str(refusal) for subject in SUBJECTS), f"names nothing: {what}"
    return None


# No number of these, taken for a size, is one that would take long.
ODD = [
    *(None, True, np.True_, 0, -1, 1, 2, 7, 10**30, -(10**30), 0.5, 2.5, float("nan"), float("inf"), -float("inf")),
    *(np.int64(3), np.float64(0.5), np.float32("nan"), 1j, decimal.Decimal(3), Fraction(1, 2), pd.NA, pd.NaT),
    *("", "junk", "7", "h", "\0", "ä" * 5_000, b"x", np.timedelta64(3, "h"), pd.Timedelta("1h"), datetime.date.min),
    *([], [1], ["a"], [None], [[1]], (), (1, 2), {}, {"a": 1}, {"a": None}, {1}, range(3), object(), int, len),
    *(np.array([1, 2]), np.array(3), np.array([]), np.array(["a"]), torch.tensor(2), torch.tensor([1.0, 2.0])),
    *(pd.Series([1, 2]), pd.DataFrame({"a": [1]}), pd.Timestamp("2024"), lambda *given: 1),
]
PARAMETERS = sorted({*signature(TitansForecaster).parameters} - {"checkpoint_dir"})  # where a fit would write
odd = st.sampled_from(ODD)


def fits(parameters: dict[str, Any], df: Any = WIDE) -> None:
    model = answers(lambda: TitansForecaster(**{**QUICK, **parameters}).fit(df))
    if model is not None:
        answers(model.predict)
        answers(lambda: model.predict(5, level=80))


@pytest.mark.parametrize("name", ["horizon", "id_col", "mixer", "lower", "half_life", "random_state", "verbose"])
def test_an_odd_parameter_is_named(name: str) -> None:
    for value in ODD:
        if value is not None or name != "verbose":
            answers(lambda value=value: TitansForecaster(**{**QUICK, name: value}).fit(WIDE[:24]))


@many
@pytest.mark.slow
@given(parameters=st.dictionaries(st.sampled_from(PARAMETERS), odd, min_size=1, max_size=3))
def test_odd_parameters_together_are_named(parameters: dict[str, Any]) -> None:
    fits(parameters)


CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "h": lambda model, _, value: model.predict(value),
    "df": lambda model, _, value: model.predict(df=value),
    "level": lambda model, _, value: model.predict(level=value),
    "quantiles": lambda model, _, value: model.predict(quantiles=value),
    "future": lambda model, _, value: model.predict(future=value),
    "rows": lambda model, _, value: model.update(value),
    "score": lambda model, _, value: model.score(value),
    "surprise": lambda model, _, value: model.surprise(value),
    "gates": lambda model, _, value: model.gates(value),
    "alpha": lambda model, df, value: model.anomalies(df, alpha=value),
    "insample": lambda model, df, value: model.predict_insample(df, value),
    "step_size": lambda model, df, value: model.predict_insample(df, step_size=value),
    "make_future_frame": lambda model, _, value: model.make_future_frame(value),
    "make_future_frame df": lambda model, _, value: model.make_future_frame(df=value),
    "fit": lambda _, __, value: TitansForecaster(**QUICK).fit(value),
    "fit y": lambda _, df, value: TitansForecaster(**QUICK).fit(df, value),
    "sample_weight": lambda _, df, value: TitansForecaster(**QUICK).fit(df, sample_weight=value),
    "val_loss": lambda _, df, value: TitansForecaster(**QUICK).fit(df, val_loss=value),
    "load": lambda _, __, value: TitansForecaster.load(value),
    "device": lambda _, __, value: find_device(value),
}


@pytest.fixture(scope="module")
def models() -> list[tuple[TitansForecaster, Any]]:
    return [(TitansForecaster(**QUICK).fit(df), df) for df in (WIDE, LONG)]


@pytest.mark.parametrize("what", CALLS)
def test_an_odd_argument_is_named(what: str, models: list[tuple[TitansForecaster, Any]]) -> None:
    model, df = models[len(what) % 2]
    for value in ODD:
        answers(lambda value=value: CALLS[what](model, df, value))


# Tables of every sort: what is drawn is the kind of each column, and of the index.

TIMES: list[Callable[[int], Any]] = [
    lambda n: pd.date_range("2024-01-01", periods=n, freq="h"),
    lambda n: pd.date_range("2024-01-31", periods=n, freq="ME", tz="Europe/Berlin"),
    lambda n: pd.date_range("2024-03-30", periods=n, freq="h", tz="Europe/Berlin"),
    lambda n: pd.period_range("2024-01", periods=n, freq="M"),
    lambda n: pd.RangeIndex(n),
    lambda n: pd.RangeIndex(0, -n, -1),
    lambda n: pd.Index(np.arange(n, dtype=np.uint64) + np.uint64(2**63)),
    lambda n: pd.Index(np.arange(n) + np.iinfo(np.int64).min),
    lambda n: pd.Index(np.arange(n).astype(np.int8)),
    lambda n: pd.Index(np.arange(n) * 0.5),
    lambda n: pd.Index([f"2024-01-{1 + i % 31:02}" for i in range(n)]),
    lambda n: pd.Index([datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(n)]),
    lambda n: pd.Index([datetime.date(2024, 1, 1)] * n),
    lambda n: pd.Index([pd.NaT] * n),
    lambda n: pd.Index(["x", *range(n - 1)][:n], dtype=object),
    lambda n: pd.date_range("1677-09-22", periods=n, freq="h", unit="ns"),
    lambda n: pd.date_range("2262-04-11 20:00", periods=n, freq="min", unit="ns"),
    lambda n: pd.date_range("9999-01-01", periods=n, freq="D", unit="s"),
    lambda n: pd.DatetimeIndex(np.array([0, 2**62, -(2**62)] * n)[:n].astype("M8[s]")),
    lambda n: pd.timedelta_range(0, periods=n, freq="h"),
    lambda n: pd.date_range("2024-01-01", periods=n, freq="h")[::-1],
    lambda n: pd.date_range("2024-01-01", periods=2 * n, freq="h")[np.arange(n) ** 2 % (2 * n)],
    lambda n: pd.CategoricalIndex([str(i) for i in range(n)]),
    lambda n: pd.interval_range(0, n),
    lambda n: pd.MultiIndex.from_arrays([np.arange(n) % 2, np.arange(n)]),
]
VALUES: list[Callable[[int], Any]] = [
    lambda n: np.random.default_rng(n).normal(size=n),
    lambda n: np.zeros(n),
    lambda n: np.full(n, 7),
    lambda n: np.arange(n),
    lambda n: np.arange(n) * 1e-300,
    lambda n: np.arange(n) * 1e300,
    lambda n: (-1.0) ** np.arange(n) * 1e308,
    lambda n: np.full(n, 5e-324),
    lambda n: np.full(n, np.nan),
    lambda n: np.where(np.arange(n) == n // 2, np.nan, np.arange(n)),
    lambda n: np.where(np.arange(n) == n // 2, np.inf, np.arange(n)),
    lambda n: np.where(np.arange(n) == n - 1, 1e30, np.arange(n)),
    lambda n: np.arange(n) % 2 == 0,
    lambda n: np.arange(n) + 1j,
    lambda n: [2**70 + i for i in range(n)],
    lambda n: [str(i) for i in range(n)],
    lambda n: ["1,150"] * n,
    lambda n: [None] * n,
    lambda n: [[i] for i in range(n)],
    lambda n: [decimal.Decimal(i) for i in range(n)],
    lambda n: [Fraction(i, 3) for i in range(n)],
    lambda n: pd.array(np.arange(n), dtype="Int64"),
    lambda n: pd.array([None, *range(n)][:n], dtype="Float32"),
    lambda n: pd.array(np.arange(n) % 2 == 0, dtype="boolean"),
    lambda n: pd.array(np.arange(n), dtype="double[pyarrow]"),
    lambda n: pd.Categorical(np.arange(n) % 2),
    lambda n: pd.arrays.SparseArray(np.arange(n) % 3),
    lambda n: pd.date_range("2024-01-01", periods=n),
    lambda n: pd.timedelta_range(0, periods=n),
    lambda n: np.arange(n).astype(np.float16),
]
IDS: list[Callable[[int], Any]] = [
    lambda n: ["a"] * n,
    lambda n: ["a", "b"] * n,
    lambda n: [None, "b"] * n,
    lambda n: [1, "b"] * n,
    lambda n: np.arange(2 * n) % 2,
    lambda n: np.arange(2 * n),
    lambda n: [0.1, np.nan] * n,
    lambda n: [True, False] * n,
    lambda n: [("a", 1), ("a", 2)] * n,
    lambda n: [[1], [2]] * n,
    lambda n: [b"a", b"b"] * n,
    lambda n: pd.Categorical(["a", "b"] * n, categories=["c", "b", "a"]),
    lambda n: pd.array(["a", None] * n, dtype="string"),
    lambda n: [pd.Timestamp("2024"), pd.Timestamp("2025")] * n,
    lambda n: [datetime.date.min, datetime.date.max] * n,
]
NAMES = [
    "a",
    "b",
    "ds",
    "y",
    "unique_id",
    "",
    None,
    0,
    1.5,
    ("a", 1),
    np.nan,
    "index",
    "Titans",
    "cutoff",
    pd.NaT,
    b"a",
]


@st.composite
def tables(draw: Any) -> Any:
    """A table of one of the layouts; pandas or polars, or an array."""
    n = draw(st.sampled_from([0, 1, 2, 3, 5, 20, 30]))
    layout = draw(st.sampled_from(["long", "single", "wide", "date column", "series", "array"]))
    column = st.sampled_from(VALUES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if layout == "array":
            values = np.asarray(draw(column)(n))
            return draw(st.sampled_from([values, values[:, None], np.stack([values, values], axis=1), values[None]]))
        times = draw(st.sampled_from(TIMES))(n)
        if layout == "long":
            if isinstance(times, pd.MultiIndex):
                times = pd.RangeIndex(n)
            ids = draw(st.sampled_from(IDS))(n)[: 2 * n]
            values = list(draw(column)(n))
            times, values = (times.append(times), values + values) if len(ids) == 2 * n else (times, values)
            if len(ids) == 2 * n:
                times = pd.Index(np.repeat(np.asarray(times[:n], dtype=object), 2)) if draw(st.booleans()) else times
            table = pd.DataFrame({"unique_id": pd.Series(ids), "ds": pd.Series(times), "y": pd.Series(values)})
        elif layout == "single":
            table = pd.DataFrame({"ds": range(n), "y": pd.Series(draw(column)(n))})
            if not isinstance(times, pd.MultiIndex):
                table["ds"] = times
        elif layout == "series":
            return pd.Series(draw(column)(n), index=times, name=draw(st.sampled_from(NAMES)))
        else:
            names = draw(st.lists(st.sampled_from(NAMES), max_size=3))
            table = pd.DataFrame({i: pd.Series(draw(column)(n)) for i in range(len(names))}, index=range(n))
            table.columns = pd.Index(names, dtype=object, tupleize_cols=False)
            if layout == "wide":
                table.index = times
            elif not isinstance(times, pd.MultiIndex) and "ds" not in names:
                table.insert(0, "ds", times)
        if draw(st.booleans()):
            try:
                return pl.from_pandas(table)
            except Exception:  # which polars cannot hold
                return table
        return table


@cache
def others() -> list[TitansForecaster]:
    """What reads the tables that come after one which cannot be fitted."""
    return [TitansForecaster(**QUICK).fit(df) for df in (WIDE, LONG)]


def reads(table: Any, more: Any, parameters: dict[str, Any]) -> None:
    """Everything that a table is given to."""
    model = answers(lambda: TitansForecaster(**{**QUICK, **parameters}).fit(table))
    for fitted in [copy(other) for other in others()] if model is None else [model]:
        answers(lambda fitted=fitted: fitted.predict(df=more))
        answers(lambda fitted=fitted: fitted.predict(future=more))
        answers(lambda fitted=fitted: fitted.surprise(more))
        answers(lambda fitted=fitted: fitted.score(more))
        answers(lambda fitted=fitted: fitted.update(more))
        answers(lambda fitted=fitted: fitted.predict(5, level=[50, 80]))


choices = st.fixed_dictionaries(
    {},
    optional={
        "missing": st.sampled_from(["error", "interpolate", "ffill"]),
        "outliers": st.sampled_from(["fill", "keep"]),
        "freq": st.sampled_from(["h", "D", "ME", "B", 1, "MD-15", "2h", "QE"]),
        "lower": st.sampled_from([0, {"a": 0}]),
        "linear_path": st.sampled_from([False, "across", "per_series"]),
        "cycle": st.sampled_from([0, 2, 100]),
        "half_life": st.sampled_from([1e-300, 3.0, 1e300]),
        "val_size": st.sampled_from([0, 0.5, 100]),
        "future_cols": st.sampled_from([["b"], ["a", "b"]]),
        "calendar": st.just(["hour", "weekday"]),
    },
)


@few
@given(table=tables(), more=tables(), parameters=choices)
def test_a_table_of_any_sort_is_read_or_refused_in_words(table: Any, more: Any, parameters: dict[str, Any]) -> None:
    reads(table, more, parameters)


@pytest.mark.slow
@many
@given(table=tables(), more=tables(), parameters=choices)
def test_thousands_of_tables_are_read_or_refused_in_words(table: Any, more: Any, parameters: dict[str, Any]) -> None:
    reads(table, more, parameters)
