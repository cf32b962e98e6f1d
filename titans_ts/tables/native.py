"""Tables of other kinds than pandas' own, read and written through narwhals: the one module that loads it."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from .dates import DATE_OBJECTS
from .layouts import Layout


def from_native(table: Any) -> tuple[pd.DataFrame | pd.Series, str, set[str]]:
    """A table of another kind as one of pandas, the name of its kind, and which columns hold dates alone.

    TypeError, with the remedy, for what narwhals does not know.
    """
    try:
        native = nw.from_native(table, eager_only=True, allow_series=True)
    except TypeError:
        raise TypeError(_refusal(table)) from None
    backend = native.implementation.value
    if isinstance(native, nw.Series):
        return _from_column(native).rename(native.name), backend, set()
    columns = {name: _from_column(native[name]) for name in native.columns}
    dates = {name for name, dtype in native.schema.items() if dtype == nw.Date}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(native))), backend, dates


def _from_column(column: nw.Series) -> pd.Series:
    dtype: Any = column.dtype
    if dtype == nw.Datetime and dtype.time_zone is not None:
        instants = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None).to_numpy()
        return pd.Series(instants).dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    values = column.to_numpy()
    if dtype == nw.Enum:
        return pd.Series(pd.Categorical(values, categories=list(dtype.categories), ordered=True))
    if dtype == nw.Categorical:
        return pd.Series(pd.Categorical(values))
    return pd.Series(values, dtype=object if values.dtype == object else None)


def to_native(table: pd.DataFrame | pd.Series, layout: Layout) -> Any:
    """A pandas table without its index as the kind that was given."""
    if isinstance(table, pd.Series):
        return _to_column(layout.target_col, table, layout).to_native()
    first, *others = [_to_column(name, column, layout) for name, column in table.items()]
    return first.to_frame().with_columns(*others).to_native()  # `nw.from_dict` would lose the categories of an Enum


def _to_column(name: Any, column: pd.Series, layout: Layout) -> nw.Series:
    dtype = column.dtype
    backend: Any = layout.backend
    kind: Any = None
    if isinstance(dtype, pd.CategoricalDtype):
        kind = nw.Enum(dtype.categories.tolist()) if dtype.ordered else nw.Categorical
        return nw.new_series(name, column.tolist(), kind, backend=backend)
    if isinstance(dtype, pd.DatetimeTZDtype):
        instants = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
        native = nw.new_series(name, instants, backend=backend)
        return native.dt.replace_time_zone("UTC").dt.convert_time_zone(str(dtype.tz))
    if pd.api.types.is_object_dtype(dtype) or isinstance(dtype, pd.StringDtype):
        kind = nw.Date if layout.written == DATE_OBJECTS and name == layout.time_col else None
        return nw.new_series(name, column.tolist(), kind, backend=backend)
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
