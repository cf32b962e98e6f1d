"""Tables of other kinds than NumPy's and pandas' plain ones, read and written: the one module that loads narwhals.

Ids and times of Arrow-backed pandas are kept in plain dtypes and get their own back when a forecast is written.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from pandas.api import types

from .dates import DATE_OBJECTS
from .layouts import COLUMNS, INDEX, Layout

EXTENDED = "pandas, extended dtypes"  # the kind of pandas tables with Arrow-backed or nullable text


def is_extended(dtype: Any) -> bool:
    """Whether pandas keeps a dtype's values otherwise than NumPy does, and they are no numbers."""
    if isinstance(dtype, pd.StringDtype):
        return str(dtype) != "str"
    return isinstance(dtype, pd.ArrowDtype) and not (types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype))


def from_extended(table: pd.DataFrame | pd.Series) -> tuple[pd.DataFrame | pd.Series, str, dict[Hashable, str]]:
    """A pandas table with its text and dates in plain dtypes, the name of its kind, and the dtypes that these had.

    The dtypes are those of columns and levels of the index by name, of `INDEX` and of `COLUMNS`.
    """
    stored: dict[Hashable, str] = {}
    table = table.copy(deep=False)
    if isinstance(table, pd.DataFrame):
        for name, dtype in list(table.dtypes.items()):
            if table.columns.is_unique and is_extended(dtype):
                stored[name] = _text_of(dtype)
                table[name] = _plain(table[name])
        if is_extended(table.columns.dtype):
            stored[COLUMNS] = _text_of(table.columns.dtype)
            table.columns = _plain(table.columns)
    index = table.index
    if isinstance(index, pd.MultiIndex):
        for i, level in enumerate(index.levels):
            if is_extended(level.dtype):
                stored.setdefault(index.names[i], _text_of(level.dtype))
                index = index.set_levels(_plain(level), level=i)
        table.index = index
    elif is_extended(index.dtype):
        stored.setdefault(index.name, _text_of(index.dtype))
        stored[INDEX] = _text_of(index.dtype)
        table.index = _plain(index)
    return table, EXTENDED, stored


def from_native(table: Any) -> tuple[pd.DataFrame | pd.Series, str, dict[Hashable, str]]:
    """A table of another kind as one of pandas, the name of its kind, and dtypes that pandas would not give back.

    TypeError, with the remedy, for what narwhals does not know.
    """
    try:
        native = nw.from_native(table, eager_only=True, allow_series=True)
    except TypeError:
        raise TypeError(_refusal(table)) from None
    backend = native.implementation.value
    if isinstance(native, nw.Series):
        return _from_column(native).rename(native.name), backend, {}
    columns = {name: _from_column(native[name]) for name in native.columns}
    stored: dict[Hashable, str] = {name: "Date" for name, dtype in native.schema.items() if dtype == nw.Date}
    if backend == "pyarrow":
        stored |= {field.name: str(field.type) for field in table.schema if str(field.type) == "large_string"}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(native))), backend, stored


def to_native(table: pd.DataFrame | pd.Series, layout: Layout) -> Any:
    """A pandas table as the kind that was given; where that is not pandas, without its index."""
    if layout.backend == EXTENDED:
        return _to_extended(table, layout)
    if isinstance(table, pd.Series):
        return _to_column(layout.target_col, table, layout).to_native()
    first, *others = [_to_column(name, column, layout) for name, column in table.items()]
    return first.to_frame().with_columns(*others).to_native()  # `nw.from_dict` would lose the categories of an Enum


def _plain(column: Any) -> Any:
    """A Series or Index with Arrow's text and dates as pandas keeps its own; what has no such form stays."""
    dtype = column.dtype
    if not isinstance(dtype, pd.ArrowDtype):
        return column
    kind = str(dtype.pyarrow_dtype)
    if kind in ("string", "large_string"):
        return column.astype("string")
    if kind.startswith("timestamp"):
        return column.astype(kind.replace("timestamp", "datetime64").replace("tz=", ""))
    if kind.startswith("date"):
        dates = pd.to_datetime(column.astype(object))
        return dates.dt.as_unit("s") if isinstance(dates, pd.Series) else dates.as_unit("s")
    return column


def _text_of(dtype: Any) -> str:
    """A dtype as text from which pandas makes it again."""
    if isinstance(dtype, pd.StringDtype):
        return f"string[{dtype.storage}]"
    return str(dtype).replace("string[pyarrow]", "utf8[pyarrow]") if str(dtype) == "string[pyarrow]" else str(dtype)


def _to_extended(table: pd.DataFrame | pd.Series, layout: Layout) -> pd.DataFrame | pd.Series:
    """The table with ids and times in the dtypes that they were given in."""
    ids, times = (text and types.pandas_dtype(text) for text in (layout.id_dtype, layout.time_dtype))
    if times is not None:
        if layout.time_col is None:
            table.index = table.index.astype(times)
        else:
            table[layout.time_col] = table[layout.time_col].astype(times)
    if ids is not None:
        if layout.kind == "long":
            table[layout.id_col] = table[layout.id_col].astype(ids)
        elif layout.time_col is None:
            table.columns = table.columns.astype(ids)
    return table


def _from_column(column: nw.Series[Any]) -> pd.Series:
    dtype: Any = column.dtype
    if dtype == nw.Datetime and dtype.time_zone is not None:
        instants = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        return pd.Series(instants).dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    name = column.name
    if dtype in (nw.Int128, nw.UInt128):
        call = f"df.with_columns(pl.col({name!r}).cast(pl.Int64))"
        raise TypeError(f"column {name!r} has dtype {dtype}, wider than NumPy's integers; use `{call}`.")
    if dtype.is_nested() or dtype == nw.Unknown:
        call = f"df.assign(**{{{name!r}: df[{name!r}].map(str)}})"
        raise TypeError(
            f"column {name!r} must hold numbers, text, dates or categories, got dtype {dtype}; drop it, or make it "
            f"text: begin with `df = df.to_pandas()`, then `{call}`."
        )
    values = column.to_numpy()
    if dtype == nw.Enum:
        return pd.Series(pd.Categorical(values, categories=list(dtype.categories), ordered=True))
    if dtype == nw.Categorical:
        return pd.Series(pd.Categorical(values))
    return pd.Series(values, dtype=object if values.dtype == object else None)


def _to_column(name: Any, column: pd.Series, layout: Layout) -> nw.Series[Any]:
    dtype = column.dtype
    backend: Any = layout.backend
    stored = {layout.id_col: layout.id_dtype, layout.time_col: layout.time_dtype}.get(name)
    kind: Any = None
    if isinstance(dtype, pd.CategoricalDtype):
        kind = nw.Enum(dtype.categories.tolist()) if dtype.ordered else nw.Categorical
        return nw.new_series(name, column.tolist(), kind, backend=backend)
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        native = nw.new_series(name, instants, backend=backend)
        return native.dt.replace_time_zone("UTC").dt.convert_time_zone(str(dtype.tz))
    if stored == "Date" and layout.written != DATE_OBJECTS:
        return nw.new_series(name, column.dt.date.tolist(), nw.Date, backend=backend)
    if types.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        kind = nw.Date if layout.written == DATE_OBJECTS and name == layout.time_col else None
        native = nw.new_series(name, column.tolist(), kind, backend=backend)
        if stored == "large_string":
            written: nw.Series[Any] = nw.from_native(native.to_native().cast(stored), series_only=True).rename(name)
            return written
        return native
    return nw.new_series(name, column.to_numpy(), backend=backend)


def _refusal(table: Any) -> str:
    accepted = "a table must be a pandas or polars DataFrame or Series or a NumPy array of shape (rows, channels)"
    remedy = ""
    if type(table).__name__ == "LazyFrame":
        remedy = "; use `.collect()`"
    elif isinstance(table, np.ma.MaskedArray):
        remedy = "; use `.filled()`"
    elif hasattr(table, "toarray"):
        remedy = "; sparse input is not supported, use `.toarray()`"
    elif isinstance(table, (list, tuple)):
        remedy = "; use `np.array(...).reshape(-1, 1)` for one series"
    return f"{accepted}, got {type(table).__module__}.{type(table).__qualname__}{remedy}."
