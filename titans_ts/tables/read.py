"""Tables in any layout, of pandas, NumPy, polars and what else narwhals knows, to one Panel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from .calendar import Calendar
from .dates import DATE_OBJECTS
from .frequency import order_rows
from .grid import MISSING, fill_grid
from .layouts import read_rows
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
) -> Panel:
    """Read a table of any accepted kind; every row is checked and nothing is changed in place.

    Parameters
    ----------
    table : DataFrame, Series, ndarray or Panel
        Long (`id_col`, `time_col`, `target_col`), one series (`time_col`, `target_col`), wide (numeric columns over a
        DatetimeIndex, PeriodIndex or integer index, or beside one column of dates), a Series over such an index, or
        an array of shape (rows, channels); pandas, NumPy, or polars and what else narwhals knows, whose rows count
        0, 1, ... where no column has times. Dates may be text with the year first, or `date` objects. Rows may come
        in any order. A Panel was read before, and comes back as it is.
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

    Raises
    ------
    TypeError
        If the table is of another kind or its values are not numbers.
    ValueError
        If a time or id is missing, a value is infinite or complex, a row is doubled, a series is too short, a time is
        off the grid, series have different frequencies, or the columns fit no layout; if a value is missing or a step
        is skipped and `missing` is "error"; if an array has not two dimensions.
    """
    if isinstance(table, Panel):
        return table
    if missing not in MISSING:
        raise ValueError(f"`missing` must be one of {MISSING}, got {missing!r}.")
    table, backend, date_columns = _to_pandas(table)
    rows = read_rows(table, id_col, time_col, target_col, min_rows)
    layout = replace(rows.layout, backend=backend)
    if layout.time_col in date_columns:
        layout = replace(layout, written=DATE_OBJECTS)
    ordered = order_rows(rows, freq, calendar)
    return Panel(fill_grid(rows, ordered, min_rows, missing), rows.ids, ordered.calendar, layout)


def _to_pandas(table: Any) -> tuple[pd.DataFrame | pd.Series | np.ndarray, str, set[str]]:
    """The table as pandas or NumPy has it, the name of its kind, and which columns hold dates alone."""
    if isinstance(table, (pd.DataFrame, pd.Series, np.ndarray)) and not isinstance(table, np.ma.MaskedArray):
        return table, "pandas", set()
    from .native import from_native  # loads narwhals, which pandas and NumPy do not need

    return from_native(table)
