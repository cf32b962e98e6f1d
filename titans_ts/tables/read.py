"""Tables in any layout, of pandas, NumPy, polars and what else narwhals knows, to one Panel."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .calendar import Calendar
from .covariate_columns import CovariateNames, Covariates
from .covariates import align_covariates, encode, take_columns, with_covariates
from .dates import DATE_OBJECTS
from .frequency import OrderedRows, order_rows
from .grid import MISSING, fill_grid
from .layouts import COLUMNS, FORECAST, INDEX, Layout, Rows, check_names, read_rows
from .panel import Panel


def read_table(
    table: Any,
    *,
    freq: str | int | pd.DateOffset | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    min_rows: int = 3,
    calendar: Calendar | None = None,
    missing: str = "error",
    covariates: CovariateNames | Covariates | None = None,
) -> Panel:
    """Read a table of any accepted kind; every row is checked and nothing is changed in place.

    Parameters
    ----------
    table : DataFrame, Series, ndarray or Panel
        Long (`id_col`, `time_col`, `target_col`, of which an index may hold the first two under their names), one
        series (`time_col`, `target_col`), wide (numeric columns over a DatetimeIndex, PeriodIndex or integer index, or
        beside one column of dates), a Series over such an index, or an array of shape (rows, channels); pandas, NumPy,
        or polars and what else narwhals knows, whose rows count 0, 1, ... where no column has times. Dates may be text
        with the year first, or `date` objects. Rows may come in any order. A column of a wide table that seems to be
        no series (a counter of its rows, years or seconds since 1970 where there are no other times, an id) is refused.
        A Panel was read before, and comes back as it is.
    freq : str, int or offset, optional
        The distance of rows; if None that which all series have.
    id_col, time_col, target_col : str
        Names of a long table's columns.
    min_rows : int
        Rows that every series must have, and values that were not missing.
    calendar : Calendar, optional
        Of rows read before, which these must keep to; `freq` is not asked then.
    missing : {"error", "interpolate", "ffill"}
        What becomes of missing values and of rows that are not there. Filled, a series still begins with its first
        value, and after its last the value is carried forward: no fill of the end looks ahead.
    covariates : CovariateNames or Covariates, optional
        The columns beside the series, as a user names them or as an earlier panel has them.

    Raises
    ------
    TypeError
        If the table is of another kind, its values are not numbers, or its ids have a type that cannot be saved.
    ValueError
        If a time or id is missing, a value is infinite or complex, a row is doubled, a series is too short, a time is
        off the grid, series have different frequencies, or the table fits no layout; if a value is missing or a step
        is skipped and `missing` is "error"; if an array has not two dimensions.
    """
    if isinstance(table, Panel):
        return table
    if not isinstance(missing, str) or missing not in MISSING:
        raise ValueError(f"`missing` must be one of {MISSING}, got {missing!r}.")
    table, backend, stored = _to_pandas(table)
    columns = None
    if covariates is not None:
        table, columns = take_columns(table, covariates)
    rows = _read(table, backend, stored, id_col, time_col, target_col, min_rows, calendar is None)
    if covariates is None or columns is None:
        return _panel(rows, order_rows(rows, freq, calendar), min_rows, missing)
    found, beside = encode(columns, covariates)
    ordered = order_rows(replace(rows, values=np.concatenate([rows.values, beside])), freq, calendar)
    beside = ordered.values[len(rows.values) :]
    ordered = ordered._replace(values=ordered.values[: len(rows.values)])
    panel = _panel(rows, ordered, min_rows, missing)
    beside = align_covariates(ordered, beside, panel.data, shared=rows.codes is None)
    return with_covariates(panel, found, beside, missing, covariates.calendar)


def _panel(rows: Rows, ordered: OrderedRows, min_rows: int, missing: str) -> Panel:
    data = fill_grid(rows, ordered, min_rows, missing)
    clock = ordered.calendar.local_clock(int(data.starts.min()), int(data.ends.max()))
    return Panel(replace(data, clock=clock), rows.ids, ordered.calendar, rows.layout)


def read_rows_of(table: Any, panel: Panel, columns: list[Hashable]) -> tuple[Rows, pd.DataFrame]:
    """Ids and times of a frame without a target, laid out as a panel's table was, and some of its columns.

    Errors as `read_table` lists them.
    """
    table, backend, stored = _to_pandas(table)
    if not isinstance(table, pd.DataFrame):
        raise TypeError(f"`future` must be a frame with the columns {columns!r}, got {type(table).__name__}.")
    if absent := [name for name in columns if name not in table.columns]:
        raise ValueError(f"`future` must have the columns {columns!r}, but {absent!r} are missing.")
    layout = panel.layout
    id_col, time_col = layout.id_col, layout.time_col
    kept = [name for name in (id_col, time_col) if name is not None and name in table.columns]
    value = layout.target_col if layout.kind in ("long", "single") else FORECAST
    rows = _read(
        table[kept].assign(**{str(value): 0.0}),
        backend,
        stored,
        "unique_id" if id_col is None else id_col,
        "ds" if time_col is None else time_col,
        str(value),
        1,
        False,
    )
    return rows, table[columns]


def _to_pandas(table: Any) -> tuple[pd.DataFrame | pd.Series | np.ndarray, str, dict[Hashable, str]]:
    """The table as pandas or NumPy has it, the name of its kind, and dtypes that neither would give back."""
    if isinstance(table, np.ndarray) and not isinstance(table, np.ma.MaskedArray):
        return table, "pandas", {}
    if isinstance(table, (pd.DataFrame, pd.Series)) and not _is_extended(table):
        return table, "pandas", {}
    from .native import from_extended, from_native  # loads narwhals, which plain pandas and NumPy do not need

    return from_extended(table) if isinstance(table, (pd.DataFrame, pd.Series)) else from_native(table)


def _is_extended(table: pd.DataFrame | pd.Series) -> bool:
    """Whether any text or dates of the table are stored otherwise than pandas does by itself."""
    kinds = (pd.ArrowDtype, pd.StringDtype)
    levels = table.index.levels if isinstance(table.index, pd.MultiIndex) else [table.index]
    dtypes = [level.dtype for level in levels]
    if isinstance(table, pd.DataFrame):
        dtypes += [table.columns.dtype, *table.dtypes]
    return any(isinstance(dtype, kinds) and str(dtype) != "str" for dtype in dtypes)


def _read(table: Any, backend: str, stored: dict[Hashable, str], *how: Any) -> Rows:
    """The table taken apart; its layout says what kind it was, and how ids and times were stored."""
    try:
        rows = read_rows(table, *how)
        check_names(rows)
    except (TypeError, ValueError) as error:
        if not backend.startswith("pandas") and "`df." in str(error):
            raise type(error)(f"{error} These are calls of pandas: begin with `df = df.to_pandas()`.") from None
        raise
    return replace(rows, layout=_layout(rows.layout, backend, stored))


def _layout(layout: Layout, backend: str, stored: dict[Hashable, str]) -> Layout:
    if not stored and backend == layout.backend:
        return layout
    times = stored.get(INDEX if layout.time_col is None else layout.time_col)
    ids = stored.get(layout.id_col if layout.kind == "long" else COLUMNS)
    if times == "Date":
        return replace(layout, backend=backend, id_dtype=ids, written=DATE_OBJECTS)
    return replace(layout, backend=backend, id_dtype=ids, time_dtype=times)
