"""How tables are laid out: long, one series, wide, a Series or an array, each taken apart into the same rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .dates import holds_dates, is_date, read_dates

FORECAST = "Titans"  # the column that a forecast stands in


@dataclass(frozen=True, eq=False)
class Layout:
    """How a table was laid out: what `Panel.write` needs to return a table of the same kind.

    Parameters
    ----------
    kind : str
        'long', 'single' (one series, no id), 'wide', 'series' or 'array'.
    id_col, time_col, target_col : hashable, optional
        Columns of the table, None where it has no such column; `target_col` is a Series' name.
    index : Index, optional
        The time index, emptied: its class, name and whether it carried a freq. None if times are in a column.
    written : str, optional
        How the times were written, as `read_dates` says.
    backend : str
        What the table was made with: 'pandas', 'polars', ...
    """

    kind: str
    id_col: Hashable = None
    time_col: Hashable = None
    target_col: Hashable = None
    index: pd.Index | None = None
    written: str | None = None
    backend: str = "pandas"


@dataclass(frozen=True, eq=False)
class Rows:
    """A table taken apart.

    Parameters
    ----------
    layout : Layout
    ids : Index, shape (n_series,)
        Sorted, where they can be; those of a wide table in the order of its columns.
    labels : Index, shape (rows,)
        Times, shared by all series but for a long table.
    values : ndarray, shape (channels, rows), float64
        A long table has one channel.
    codes : ndarray of int, shape (rows,), optional
        Which series a row of a long table belongs to.
    """

    layout: Layout
    ids: pd.Index
    labels: pd.Index
    values: np.ndarray
    codes: np.ndarray | None = None

    def owner(self, code: int) -> str:
        """The series, for an error about its rows; the table where all columns share their rows."""
        return "the table" if self.codes is None else f"series {self.name(code)!r}"

    def channel(self, i: int) -> str:
        """The column or series, for an error about its values."""
        kind, name = self.layout.kind, self.name(i)
        if kind == "long":
            return f"column {self.layout.target_col!r} of series {name!r}"
        return {"series": "the Series", "array": f"channel {name}"}.get(kind, f"column {name!r}")

    def name(self, i: int) -> Any:
        """The id of series `i`."""
        return self.ids[i : i + 1].tolist()[0]


def read_rows(
    table: pd.DataFrame | pd.Series | np.ndarray, id_col: str, time_col: str, target_col: str, min_rows: int
) -> Rows:
    """Take a table apart, its times as dates, periods or integers; errors as `read_table` lists them."""
    if len({id_col, time_col, target_col}) < 3:
        raise ValueError(
            "`id_col`, `time_col` and `target_col` must name three different columns, got "
            f"{id_col!r}, {time_col!r}, {target_col!r}."
        )
    if table.shape[:1] == (0,):
        raise ValueError("the table has no rows; pass the history to forecast from.")
    if isinstance(table, pd.DataFrame):
        rows = _read_frame(table, id_col, time_col, target_col)
    elif isinstance(table, pd.Series):
        rows = _read_series(table)
    else:
        rows = _read_array(table)
    rows = _with_dates(rows)
    counts = np.array([len(rows.labels)]) if rows.codes is None else np.bincount(rows.codes)
    if counts.min() < min_rows:
        which = rows.owner(int(counts.argmin()))
        samples = f" (n_samples = {counts.min()})" if rows.layout.kind == "array" else ""
        raise ValueError(f"{which} has {some(counts.min(), 'row')}{samples}; at least {min_rows} are needed.")
    return rows


def first_missing(missing: np.ndarray) -> str:
    """Words for an error: how many values are missing, and where the first is."""
    return f"{some(missing.sum(), 'missing value')}, the first in row {missing.argmax()}"


def some(count: int, noun: str) -> str:
    """A count in words: '1 row', '2 rows'."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _with_dates(rows: Rows) -> Rows:
    """The rows with text and `date` objects among the times read as dates."""
    if isinstance(rows.labels, pd.MultiIndex):
        raise ValueError("times must not be a MultiIndex; keep one level, or use a long table.")
    absent = rows.labels.isna()
    if absent.any():
        raise ValueError(f"the times have {first_missing(absent)}; fill them or drop the rows.")
    labels, written = read_dates(rows.labels)
    return replace(rows, labels=labels, layout=replace(rows.layout, written=written))


def _read_frame(table: pd.DataFrame, id_col: str, time_col: str, target_col: str) -> Rows:
    columns = table.columns
    if isinstance(columns, pd.MultiIndex) or isinstance(table.index, pd.MultiIndex):
        raise ValueError("a table must not have a MultiIndex; flatten it, for example with `.reset_index()`.")
    if not columns.is_unique:
        raise ValueError(f"column names must be unique, got {columns[columns.duplicated()][0]!r} more than once.")
    layouts = (
        f"a long table (columns {id_col!r}, {time_col!r}, {target_col!r}), one series ({time_col!r}, {target_col!r}) "
        "or a wide table (times in the index or in one column of dates, numbers in all other columns)"
    )
    has_id, has_time, has_target = (name in columns for name in (id_col, time_col, target_col))
    if has_time and has_target:
        return _read_long(table, id_col if has_id else None, time_col, target_col)
    dates = [name for name, column in table.items() if holds_dates(column)]
    if not has_id and (has_time or len(dates) < 2):
        times = time_col if has_time else dates[0] if dates and not is_date(table.index.dtype) else None
        if len(columns) > (times is not None):
            return _read_wide(table, times, layouts)
    raise ValueError(f"the columns {columns.tolist()} fit no layout; pass {layouts}.")


def _read_long(table: pd.DataFrame, id_col: str | None, time_col: str, target_col: str) -> Rows:
    extra = table.columns.drop([name for name in (id_col, time_col, target_col) if name is not None])
    if len(extra):
        raise ValueError(
            f"columns {extra.tolist()} are neither id, time nor target; drop them: covariates are not supported yet."
        )
    if FORECAST in (id_col, time_col):
        raise ValueError(f"the forecast's own column is {FORECAST!r}; rename the table's column of that name.")
    labels, values = pd.Index(table[time_col]), _floats(table[target_col], f"column {target_col!r}")[None]
    if id_col is None:
        layout = Layout("single", time_col=time_col, target_col=target_col)
        return Rows(layout, pd.Index([target_col]), labels, values)
    codes, ids = _numbered(table[id_col])
    missing = codes < 0
    if missing.any():
        raise ValueError(f"column {id_col!r} has {first_missing(missing)}; name the series or drop the rows.")
    return Rows(Layout("long", id_col, time_col, target_col), ids, labels, values, codes)


def _numbered(column: pd.Series) -> tuple[np.ndarray, pd.Index]:
    """The number of each id, and the ids sorted, so that the order of rows does not matter."""
    try:
        return pd.factorize(column, sort=True)
    except TypeError:  # some ids have no order
        return pd.factorize(column)


def _read_wide(table: pd.DataFrame, times: Hashable, layouts: str) -> Rows:
    columns = table.columns.copy() if times is None else table.columns.drop(times)
    values = np.empty((len(columns), len(table)))
    for channel, name in enumerate(columns):
        values[channel] = _floats(table[name], f"column {name!r}", f"pass {layouts}")
    if times is None:
        return Rows(Layout("wide", index=table.index[:0]), columns, table.index, values)
    return Rows(Layout("wide", time_col=times), columns, pd.Index(table[times]), values)


def _read_series(table: pd.Series) -> Rows:
    layout = Layout("series", target_col=table.name, index=table.index[:0])
    ids = pd.Index([table.name], tupleize_cols=False)
    return Rows(layout, ids, table.index, _floats(table, "the Series")[None])


def _read_array(table: np.ndarray) -> Rows:
    # What is wrong is said in scikit-learn's words too, which its checks ask for.
    if table.ndim != 2:
        remedy = " Reshape your data: use `.reshape(-1, 1)` for one series." if table.ndim == 1 else ""
        raise ValueError(f"an array must have shape (rows, channels), got {table.shape}.{remedy}")
    if table.shape[1] == 0:
        raise ValueError(
            f"an array must have at least one channel, got 0 feature(s) (shape={table.shape}) while a minimum of 1 is "
            "required."
        )
    if table.dtype.kind == "c":
        raise ValueError(_complex("an array", table.dtype))
    text = table.dtype == object and any(isinstance(value, (str, bytes)) for value in table.flat)
    if text or table.dtype.kind not in "iufO":
        what = "text" if text else f"dtype {table.dtype}"
        raise TypeError(f"an array must hold real numbers, got {what}; use `.astype(float)`.")
    try:
        values = table.T.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:  # among objects
        raise TypeError(f"an array must hold real numbers, got others ({error}).") from None
    rows, channels = table.shape
    return Rows(Layout("array"), pd.RangeIndex(channels), pd.RangeIndex(rows), values)


def _floats(column: pd.Series, what: str, remedy: str = "use `.astype(float)`") -> np.ndarray:
    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        raise TypeError(f"{what} must hold numbers, got dtype {dtype}; use `.astype(float)`.")
    if types.is_complex_dtype(dtype):
        raise ValueError(_complex(what, dtype))
    if not types.is_numeric_dtype(dtype):
        raise TypeError(f"{what} must hold real numbers, got dtype {dtype}; {remedy}.")
    return column.to_numpy(np.float64, copy=True, na_value=np.nan)


def _complex(what: str, dtype: Any) -> str:
    return f"Complex data not supported: {what} must hold real numbers, got dtype {dtype}; use `.real`."
