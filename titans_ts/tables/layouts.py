"""How tables are laid out: long, one series, wide, a Series or an array, each taken apart into the same rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .dates import holds_dates, is_date, read_dates
from .evidence import (
    call_for,
    call_for_times,
    check_channels,
    describe_text,
    looks_like_ids,
    named_by_dates,
    numbers_from,
)

FORECAST = "Titans"  # the column that a forecast stands in
INDEX, COLUMNS = ("index of the table",), ("columns of the table",)  # what else than a column has a dtype
SAVED = "must be text, numbers, datetimes, periods or categories of these"  # ids, as they can be saved with a model


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
    id_dtype, time_dtype : str, optional
        Those of the table, where ids and times are kept in others and get theirs back when written.
    """

    kind: str
    id_col: Hashable = None
    time_col: Hashable = None
    target_col: Hashable = None
    index: pd.Index | None = None
    written: str | None = None
    backend: str = "pandas"
    id_dtype: str | None = None
    time_dtype: str | None = None


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
    table: pd.DataFrame | pd.Series | np.ndarray,
    id_col: str,
    time_col: str,
    target_col: str,
    min_rows: int,
    is_first: bool = True,
) -> Rows:
    """Take a table apart, its times as dates, periods or integers; errors as `read_table` lists them.

    Columns that seem to be no series are refused where the table is the first of its kind: a few later rows may look
    like anything.
    """
    if len({id_col, time_col, target_col}) < 3:
        raise ValueError(
            "`id_col`, `time_col` and `target_col` must name three different columns, got "
            f"{id_col!r}, {time_col!r}, {target_col!r}."
        )
    if table.shape[:1] == (0,):
        raise ValueError("the table has no rows; pass the history to forecast from.")
    if isinstance(table, pd.DataFrame):
        rows = _read_frame(table, id_col, time_col, target_col, is_first)
    elif isinstance(table, pd.Series):
        rows = _read_series(table, id_col, time_col, target_col)
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
    name = labels.name
    if labels.inferred_type == "string" and name is not None and (call := call_for_times(labels, f"df[{name!r}]")):
        raise ValueError(
            f"time labels {name!r} must be dates, periods or integers, got text such as {labels[0]!r}; convert it, "
            f"with `df.assign(**{{{name!r}: {call}}})`."
        )
    return replace(rows, labels=labels, layout=replace(rows.layout, written=written))


def check_unique(columns: pd.Index) -> None:
    """Refuse names of columns that repeat."""
    if not columns.is_unique:
        raise ValueError(f"column names must be unique, got {columns[columns.duplicated()][0]!r} more than once.")


def _read_frame(table: pd.DataFrame, id_col: str, time_col: str, target_col: str, is_first: bool = True) -> Rows:
    columns = table.columns
    if isinstance(columns, pd.MultiIndex):
        raise ValueError(
            "columns must not have a MultiIndex; flatten it, with `df.set_axis(df.columns.map(str), axis=1)`."
        )
    check_unique(columns)
    given, table = columns, _with_index(table, id_col, time_col, target_col)
    columns = table.columns
    has_id, has_time, has_target = (name in columns for name in (id_col, time_col, target_col))
    if has_time and has_target:
        _check_index(table, time_col, id_col)
        return _read_long(table, id_col if has_id else None, time_col, target_col)
    others = [name for name, dtype in table.dtypes.items() if not types.is_numeric_dtype(dtype)]
    dates = [name for name in others if holds_dates(table[name])]
    layouts = (
        f"a long table (columns {id_col!r}, {time_col!r}, {target_col!r}), one series ({time_col!r}, {target_col!r}) "
        "or a wide table (times in the index or in one column of dates, numbers in all other columns)"
    )
    if has_id:
        if named_by_dates(columns.drop(id_col)):
            raise ValueError(_turned_round(columns.drop(id_col), *given.intersection([id_col])))
        call = call_for(table, None, id_col, time_col, target_col)
        raise ValueError(f"the columns {_listed(columns)} fit no layout; pass {layouts}. To read these as ids, {call}.")
    if has_time or len(dates) == 1:
        times = time_col if has_time else dates[0]
        _check_index(table, times, id_col)
    else:
        times = None
        _check_index_of_times(table, id_col)
    if len(columns) == (times is not None) or (len(dates) > 1 and not has_time):
        seen = f"; {dates!r} hold dates: keep one of these, and numbers" if len(dates) > 1 else ""
        raise ValueError(f"the columns {_listed(columns)} fit no layout{seen}; pass {layouts}.")
    return _read_wide(table, times, (id_col, time_col, target_col), is_first)


def _with_index(table: pd.DataFrame, id_col: str, time_col: str, target_col: str) -> pd.DataFrame:
    """The table with the ids, and the times of a long table, that its index has under their names, as columns."""
    index, columns = table.index, table.columns
    names = list(index.names)
    if isinstance(index, pd.MultiIndex):
        if set(names) >= {id_col, time_col} and not set(names) & set(columns):
            return table.reset_index()
        raise ValueError(_multi_index(index, id_col, time_col))
    name = names[0]
    is_long = id_col in columns and target_col in columns and time_col not in columns
    if is_long and name is None and is_date(index.dtype):
        return table.rename_axis(time_col).reset_index()
    if name is None or name not in (id_col, time_col) or (name == time_col and id_col not in columns):
        return table
    if name not in columns:
        return table.reset_index()
    if pd.Index(table[name]).equals(index):
        return table.reset_index(drop=True)
    raise ValueError(
        f"the table has two {name!r}, a column and the index, and they differ; keep one, with "
        f"`df.reset_index(drop=True)` or `df.drop(columns=[{name!r}])`."
    )


def _multi_index(index: pd.MultiIndex, id_col: str, time_col: str) -> str:
    """The error about a MultiIndex that has not the names of ids and times."""
    dates = [i for i, level in enumerate(index.levels) if holds_dates(level)]
    seen = f"a MultiIndex must have levels {id_col!r} and {time_col!r}, got {list(index.names)!r}"
    if index.nlevels != 2 or len(dates) != 1:
        return f"{seen}; flatten it, with `df.reset_index()`, and name the columns."
    names = [time_col if i in dates else id_col for i in range(2)]
    named = dict(zip(names, index.names, strict=True))
    call = f", or pass `id_col={named[id_col]!r}, time_col={named[time_col]!r}`" if None not in index.names else ""
    return f"{seen}; name them, with `df.rename_axis({names!r})`{call}."


def _check_index(table: pd.DataFrame, times: Hashable, id_col: str) -> None:
    """Refuse an index that holds ids or times which a table with its times in a column has no use for."""
    index = table.index
    name = "" if index.name is None else f" {index.name!r}"
    if isinstance(index, pd.RangeIndex) or index.inferred_type in ("integer", "floating"):
        if index.name is None or index.is_unique:
            return
    elif not holds_dates(index):
        pass
    elif pd.Index(table[times]).equals(index):
        return
    elif types.is_float_dtype(table[times].dtype):
        return  # no times, which the calendar says
    else:
        raise ValueError(
            f"the table has times in its index{name} and in column {times!r}, and they differ; keep one, with "
            f"`df.reset_index(drop=True)` or `df.drop(columns=[{times!r}])`."
        )
    raise ValueError(
        f"the index{name} holds {index[0]!r}, ... beside times in column {times!r}; if these are the ids, name them, "
        f"with `df.rename_axis({id_col!r})`; if not, drop them, with `df.reset_index(drop=True)`."
    )


def _check_index_of_times(table: pd.DataFrame, id_col: str) -> None:
    """Refuse a table without times in a column whose index has none either, but ids, or text in another format."""
    index = table.index
    if is_date(index.dtype):
        return
    numeric = np.array([types.is_numeric_dtype(dtype) for dtype in table.dtypes], dtype=bool)
    if named_by_dates(table.columns[numeric]) and not holds_dates(index):
        raise ValueError(_turned_round(table.columns[numeric], *table.columns[~numeric]))
    if index.inferred_type != "string" or holds_dates(index):
        return
    call = call_for_times(index, "df.index")
    remedy = f"convert it, with `df.set_axis({call})`" if call else "pass times there, or a long table"
    raise ValueError(
        f"time labels must be dates, periods or integers, but the index holds text such as {index[0]!r}; {remedy}."
    )


def _turned_round(dates: pd.Index, *others: Hashable) -> str:
    """The error about a table whose rows are the series; their ids are in the index, or in the first other column."""
    call = f"df.set_index({others[0]!r})" if others else "df"
    call += f".drop(columns={list(others[1:])!r})" if len(others) > 1 else ""
    return (
        f"the columns are named by dates ({dates[0]}, ...), so the rows seem to be the series; turn the table round, "
        f"with `{call}.T`."
    )


def _listed(columns: pd.Index) -> str:
    """The names of columns, the first of many."""
    return str(columns.tolist()) if len(columns) < 12 else f"{columns[:10].tolist()} and {len(columns) - 10} more"


def _read_long(table: pd.DataFrame, id_col: str | None, time_col: str, target_col: str) -> Rows:
    extra = table.columns.drop([name for name in (id_col, time_col, target_col) if name is not None])
    if len(extra):
        ids = [name for name in extra if id_col is None and looks_like_ids(table[name])]
        more = f" Column {ids[0]!r} looks like ids: pass `id_col={ids[0]!r}`." if len(extra) == len(ids) == 1 else ""
        raise ValueError(
            f"columns {extra.tolist()} are neither id, time nor target; drop them, with "
            f"`df.drop(columns={extra.tolist()!r})`, or name covariates in `static_cols`, `past_cols` or `future_cols`."
            f"{more}"
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
    numbered: tuple[np.ndarray, pd.Index]
    try:
        numbered = pd.factorize(column, sort=True)
        return numbered
    except TypeError:  # some ids have no order
        pass
    except NotImplementedError as error:  # of Arrow
        raise TypeError(_no_ids(column)) from error
    try:
        numbered = pd.factorize(column)
        return numbered
    except TypeError as error:
        raise TypeError(_no_ids(column)) from error


def _read_wide(table: pd.DataFrame, times: Hashable, roles: tuple[str, str, str], is_first: bool) -> Rows:
    columns = table.columns.copy() if times is None else table.columns.drop(times)
    values, dtypes = np.empty((len(columns), len(table))), []
    for channel, name in enumerate(columns):
        column = table[name]
        dtypes.append(column.dtype)
        values[channel] = _floats(column, f"column {name!r}", partial(describe_text, table, name, *roles))
    labels = table.index if times is None else _labels(table[times])
    if is_first and not labels.is_unique:
        _check_repeated(table, times, columns, roles)
    if is_first:
        counted = times is None and isinstance(labels, pd.RangeIndex) and labels.name is None and labels.start == 0
        check_channels(columns, dtypes, values, None if counted else labels, lambda name: call_for(table, name, *roles))
    if times is None:
        return Rows(Layout("wide", index=labels[:0]), columns, labels, values)
    return Rows(Layout("wide", time_col=times), columns, labels, values)


def _labels(column: pd.Series) -> pd.Index:
    """A column of times as an Index, which pandas has none of for float16."""
    return pd.Index(column.astype(np.float32) if column.dtype == np.float16 else column)


def _check_repeated(table: pd.DataFrame, times: Hashable, columns: pd.Index, roles: tuple[str, str, str]) -> None:
    """Refuse a wide table whose times repeat where a column of whole numbers tells the rows of a time apart."""
    labels = table.index if times is None else table[times]
    for name in columns if len(columns) > 1 else ():
        column = table[name]
        pairs = pd.DataFrame({"times": np.asarray(labels), "ids": np.asarray(column)})
        if types.is_integer_dtype(column.dtype) and column.duplicated().any() and not pairs.duplicated().any():
            call = call_for(table if times is not None else table.reset_index(), name, *roles)
            raise ValueError(
                f"times repeat, and column {name!r} tells their rows apart, so the table seems to be long; {call}."
            )


def _read_series(table: pd.Series, id_col: str, time_col: str, target_col: str) -> Rows:
    index = table.index
    if isinstance(index, pd.MultiIndex):
        name = target_col if table.name is None else table.name
        return _read_frame(table.to_frame(name), id_col, time_col, name)
    if index.name == id_col:
        raise ValueError(
            f"the index of a Series must hold its times, but is named {id_col!r} as ids are; pass a long table with "
            f"the columns {id_col!r}, {time_col!r} and {target_col!r}, or, where the index holds times, "
            f"`series.rename_axis({time_col!r})`."
        )
    layout = Layout("series", target_col=table.name, index=index[:0])
    ids = pd.Index([table.name], tupleize_cols=False)
    return Rows(layout, ids, index, _floats(table, "the Series")[None])


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


def _floats(column: pd.Series, what: str, remedy: Callable[[], str] | None = None) -> np.ndarray:
    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        raise TypeError(f"{what} must hold numbers, got dtype {dtype}; use `.astype(float)`.")
    if types.is_complex_dtype(dtype):
        raise ValueError(_complex(what, dtype))
    if not types.is_numeric_dtype(dtype):
        raise TypeError(
            f"{what} must hold real numbers, got dtype {dtype}; {remedy() if remedy else numbers_from(column)}."
        )
    missing = {} if isinstance(dtype, np.dtype) else {"na_value": np.nan}
    floats: np.ndarray = column.to_numpy(np.float64, copy=True, **missing)
    return floats


def _complex(what: str, dtype: Any) -> str:
    return f"Complex data not supported: {what} must hold real numbers, got dtype {dtype}; use `.real`."


def check_names(rows: Rows) -> None:
    """Refuse ids, or names of columns, that could not be saved with a forecaster; errors as `read_table` lists them."""
    layout, ids = rows.layout, rows.ids
    kept = ids.categories if isinstance(ids, pd.CategoricalIndex) else ids
    if (odd := _odd(kept)) is not None:
        kind = f"{odd!r} of type {type(odd).__name__}, dtype {ids.dtype}"
        if layout.kind == "long":
            raise TypeError(_no_ids(ids.to_series(name=layout.id_col), kind))
        if layout.kind == "series":
            raise TypeError(f"the name of a Series {SAVED}, got {kind}; use `series.rename({str(odd)!r})`.")
        raise TypeError(f"names of columns {SAVED}, got {kind}; use `df.set_axis(df.columns.map(str), axis=1)`.")
    names = pd.Index([layout.time_col, layout.index.name if layout.index is not None else None], dtype=object)
    if (odd := _odd(names)) is not None:
        raise TypeError(f"names of times {SAVED}, got {odd!r} of type {type(odd).__name__}; rename them.")


def _no_ids(column: pd.Series, got: str | None = None) -> str:
    name, call = column.name, "map(str)" if got is None else "astype(str)"
    return (
        f"ids in column {name!r} {SAVED}, got {got or f'dtype {column.dtype}'}; use "
        f"`df.assign(**{{{name!r}: df[{name!r}].{call}}})`."
    )


def _odd(labels: pd.Index) -> Any:
    """A label that is no text, number, date or period; None if there is none."""
    dtype = labels.dtype
    if types.is_object_dtype(dtype) and types.infer_dtype(labels, skipna=True) not in (
        "string",
        "integer",
        "floating",
        "empty",
    ):
        return next((label for label in labels if not _is_plain(label)), None)
    is_odd = isinstance(labels, (pd.TimedeltaIndex, pd.IntervalIndex)) or dtype.kind == "c"
    is_odd |= isinstance(dtype, pd.ArrowDtype) and dtype.kind not in "iufb"
    return labels[0] if is_odd and len(labels) else None


def _is_plain(label: Any) -> bool:
    if isinstance(label, tuple):
        return all(_is_plain(part) for part in label)
    if label is None:
        return True
    return isinstance(label, (str, bool, int, float, np.bool_, np.integer, np.floating, pd.Timestamp, pd.Period))
