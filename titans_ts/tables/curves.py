"""Tables of any layout as curves to draw: for each series a frame of columns over its times.

Nothing is checked or filled here: a picture shows what a table holds.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from .dates import holds_dates
from .layouts import FORECAST

LONG, SINGLE, WIDE = "long", "single", "wide"
INTERVAL = re.compile(r"(.+)-(lo|hi)-(\d+(?:\.\d+)?)")
QUANTILE = re.compile(r"(.+)-q(\d*\.?\d+)")

Curves = dict[Hashable, pd.DataFrame]


@dataclass(frozen=True)
class Forecast:
    """The columns of one model.

    Parameters
    ----------
    point : hashable, optional
        The column of its point forecast, or of its median where there is no other.
    intervals : dict of float to (hashable, hashable)
        Of each level in per cent, the widest first, the columns of its lower and upper end.
    quantiles : dict of float to hashable
        Columns of quantiles that are no end of an interval.
    """

    point: Hashable | None = None
    intervals: dict[float, tuple[Hashable, Hashable]] = field(default_factory=dict)
    quantiles: dict[float, Hashable] = field(default_factory=dict)


def kind_of(table: Any, id_col: str, time_col: str, value_cols: Iterable[Hashable]) -> str:
    """How a table is laid out: "long", "single" where a column of `value_cols` is beside the times, or "wide"."""
    table = as_pandas(table)
    if isinstance(table, pd.Series):
        return SINGLE
    names = {*table.columns, *table.index.names}
    if time_col in names and id_col in names:
        return LONG
    return SINGLE if time_col in names and names & set(value_cols) else WIDE


def read_curves(table: Any, kind: str, *, id_col: str, time_col: str, value: str) -> Curves:
    """The columns of each series over its times, in order.

    Parameters
    ----------
    table : DataFrame, Series or ndarray of any kind that `fit` takes, or dict of ndarray as `predict` returns it
    kind : {"long", "single", "wide"}
        As `kind_of` tells it.
    id_col, time_col : str
    value : str
        What the columns of a wide table, and a Series, are called in the curves of their series: a series `a` whose
        table has `a` and `a-lo-80` has the columns `value` and `value-lo-80`.

    Returns
    -------
    dict of hashable to DataFrame
        In the order of the table; the index is of dates or numbers. One series without an id is called None.
    """
    table = as_pandas(table)
    if isinstance(table, pd.Series):
        table = table.rename(value).to_frame()
    for name in (id_col, time_col):
        if name in table.index.names:
            table = table.reset_index(name)
    if kind == LONG:
        groups = table.groupby(id_col, sort=False, observed=True)
        return {name: _over_times(rows.drop(columns=id_col), time_col) for name, rows in groups}
    if time_col not in table:
        dates = [name for name in table if kind == WIDE and holds_dates(table[name])]
        times = dates[0] if len(dates) == 1 else None
    else:
        times = time_col
    table = _over_times(table, times)
    if kind == SINGLE:
        return {None: table}
    return {
        name: table[list(columns)].set_axis([columns[each].replace(FORECAST, value, 1) for each in columns], axis=1)
        for name, columns in _by_series(table.columns).items()
    }


def forecasts_of(columns: Iterable[Hashable]) -> dict[str, Forecast]:
    """The columns of each model among those of a table of forecasts.

    Examples
    --------
    >>> forecasts_of(["Titans", "Titans-lo-80", "Titans-hi-80", "Naive"])["Titans"].intervals
    {80.0: ('Titans-lo-80', 'Titans-hi-80')}
    """
    ends: dict[str, dict[tuple[str, float], Hashable]] = {}
    quantiles: dict[str, dict[float, Hashable]] = {}
    points: dict[str, Hashable] = {}
    for column in columns:
        if found := INTERVAL.fullmatch(str(column)):
            ends.setdefault(found[1], {})[found[2], float(found[3])] = column
        elif found := QUANTILE.fullmatch(str(column)):
            quantiles.setdefault(found[1], {})[float(found[2])] = column
        else:
            points[str(column)] = column
    models = dict.fromkeys([*points, *ends, *quantiles])
    return {name: _forecast(points.get(name), ends.get(name, {}), quantiles.get(name, {})) for name in models}


def _forecast(
    point: Hashable | None, ends: dict[tuple[str, float], Hashable], quantiles: dict[float, Hashable]
) -> Forecast:
    intervals = {
        level: (ends["lo", level], ends["hi", level]) for end, level in ends if end == "lo" and ("hi", level) in ends
    }
    single = {}
    for share, column in sorted(quantiles.items()):
        opposite = next((other for other in quantiles if abs(other - (1 - share)) < 1e-9), None)
        if abs(share - 0.5) < 1e-9 and point is None:
            point = column
        elif opposite is None or opposite == share:
            single[share] = column
        elif share < 0.5:
            intervals.setdefault(round(100 * (1 - 2 * share), 6), (column, quantiles[opposite]))
    return Forecast(point, dict(sorted(intervals.items(), reverse=True)), single)


def _by_series(columns: pd.Index) -> dict[Hashable, dict[Hashable, str]]:
    """For each series of a wide table its columns, and what these would be called in a long table."""
    found: dict[Hashable, dict[Hashable, str]] = {}
    named = {str(column): column for column in columns}
    for column in columns:
        match = INTERVAL.fullmatch(str(column)) or QUANTILE.fullmatch(str(column))
        base = named.get(match[1], match[1]) if match else column
        suffix = str(column)[len(match[1]) :] if match else ""
        found.setdefault(base, {})[column] = FORECAST + suffix
    return found


def _over_times(table: pd.DataFrame, time_col: Hashable | None) -> pd.DataFrame:
    """The table over its times as dates or numbers, in order."""
    if time_col is not None:
        table = table.set_index(time_col)
    return table.set_axis(times_of(table.index), axis=0).sort_index(kind="stable")


def times_of(labels: pd.Index) -> pd.Index:
    """Labels as dates or numbers."""
    if isinstance(labels, pd.PeriodIndex):
        return labels.to_timestamp()
    if isinstance(labels, pd.DatetimeIndex) or pd.api.types.is_numeric_dtype(labels.dtype):
        return labels
    return pd.to_datetime(labels)


def has_times(table: Any, time_col: str) -> bool:
    """Whether rows have times; those of an array, or of polars without dates, have not."""
    if isinstance(table, (pd.DataFrame, pd.Series)):
        return True
    table = as_pandas(table)
    return isinstance(table, pd.DataFrame) and (time_col in table or any(holds_dates(table[name]) for name in table))


def as_pandas(table: Any) -> pd.DataFrame | pd.Series:
    """A table of any kind as one of pandas; a dict has an array (rows, channels) for each output of a forecast."""
    if isinstance(table, dict):
        outputs = [pd.DataFrame(values).add_suffix(name.removeprefix(FORECAST)) for name, values in table.items()]
        frame = pd.concat(outputs, axis=1)
        return frame.rename(columns={str(i): i for i in range(frame.shape[1] // len(outputs))})
    if isinstance(table, np.ndarray):
        return pd.DataFrame(table) if table.ndim > 1 else pd.Series(table)
    from .native import from_extended, from_native  # loads narwhals

    return (from_extended(table) if isinstance(table, (pd.DataFrame, pd.Series)) else from_native(table))[0]
