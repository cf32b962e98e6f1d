"""Tables in, tables out: pandas, polars and NumPy, in any layout, to one Panel and back.

Pandas and NumPy are read as they are, any other kind of table through narwhals: this is the only module that knows of
other kinds.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from .calendar import Calendar
from .dates import DATE_OBJECTS, read_dates, write_dates
from .filling import lay_on_grid
from .layouts import FORECAST, Layout, first_missing, read_rows


@dataclass(frozen=True, eq=False)
class Panel:
    """Series of one calendar, end to end in one vector.

    Parameters
    ----------
    values : ndarray, shape (total rows,), float64
        Series after series, each in the order of time, without gaps or missing values.
    lengths : ndarray, shape (n_series,), int64
        Rows of each series.
    starts : ndarray, shape (n_series,), int64
        The absolute step of each series' first row.
    ids : Index, shape (n_series,)
        Series ids, sorted where they can be; column names for a wide table, channel numbers for an array.
    calendar : Calendar
        What steps mean.
    layout : Layout
        How the table was laid out.
    observed : ndarray, shape (total rows,), bool, optional
        False where a value was filled in; None where none was.
    """

    values: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    ids: pd.Index
    calendar: Calendar
    layout: Layout
    observed: np.ndarray | None = None

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return len(self.lengths)

    @property
    def offsets(self) -> np.ndarray:
        """Where each series begins in `values`, (n_series,) int64."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def ends(self) -> np.ndarray:
        """The absolute step after each series' last row: the first to forecast, (n_series,) int64."""
        return self.starts + self.lengths

    @property
    def kind_of_ids(self) -> str:
        """What ids are, categories as what they hold: 'string', 'integer', ..."""
        kind: str = (self.ids.categories if isinstance(self.ids, pd.CategoricalIndex) else self.ids).inferred_type
        return kind

    @property
    def feature_names(self) -> np.ndarray | None:
        """A wide table's columns, (n_series,) object, if all are strings: scikit-learn's `feature_names_in_`."""
        if self.layout.kind != "wide" or not all(isinstance(name, str) for name in self.ids):
            return None
        return self.ids.to_numpy(dtype=object, copy=True)

    def series(self, i: int) -> np.ndarray:
        """The values of series `i`, a view of (lengths[i],)."""
        start = int(self.offsets[i])
        return self.values[start : start + int(self.lengths[i])]

    def known(self, i: int) -> np.ndarray:
        """Which values of series `i` were not filled in, (lengths[i],) bool."""
        start, rows = int(self.offsets[i]), int(self.lengths[i])
        return np.ones(rows, dtype=bool) if self.observed is None else self.observed[start : start + rows]

    def take(self, which: np.ndarray) -> Panel:
        """The series number `which` (any,), in that order; copies."""
        lengths = self.lengths[which]
        rows = np.arange(lengths.sum()) + np.repeat(self.offsets[which] - (np.cumsum(lengths) - lengths), lengths)
        return self._only(rows, lengths=lengths, starts=self.starts[which], ids=self.ids[which])

    def tail(self, rows: int | np.ndarray) -> Panel:
        """The last `rows` rows of each series, one number or (n_series,), fewer where it has fewer; copies."""
        dropped = np.maximum(self.lengths - rows, 0)
        kept = self._row >= np.repeat(dropped, self.lengths)
        return self._only(kept, lengths=self.lengths - dropped, starts=self.starts + dropped)

    def head(self, rows: np.ndarray) -> Panel:
        """The first `rows` (n_series,) rows of each series; copies."""
        return self._only(self._row < np.repeat(rows, self.lengths), lengths=np.minimum(self.lengths, rows))

    @property
    def _row(self) -> np.ndarray:
        """The number of each row in its series, (total rows,)."""
        return np.arange(len(self.values)) - np.repeat(self.offsets, self.lengths)

    def _only(self, rows: np.ndarray, **changes: Any) -> Panel:
        observed = None if self.observed is None else self.observed[rows]
        return replace(self, values=self.values[rows], observed=observed, **changes)

    def write(self, forecast: np.ndarray, name: str = FORECAST) -> Any:
        """Lay a forecast out as the table was.

        Parameters
        ----------
        forecast : ndarray, shape (n_series, horizon)
            Values of the steps right after each series' last row.
        name : str
            The forecast's column in a table with a time column and a target.

        Returns
        -------
        DataFrame, Series or ndarray
            Long: the id and time columns and `name`; one series: the time column and `name`; wide: the table's own
            columns over the next times; a Series of the same name; an array of shape (horizon, n_series). Of pandas,
            polars or another kind as the table was, with times written as they were.

        Raises
        ------
        ValueError
            If `forecast` has another shape or `name` is the id or time column's.
        """
        forecast = np.array(forecast, dtype=np.float64)
        if forecast.ndim != 2 or forecast.shape[0] != self.n_series or forecast.shape[1] < 1:
            raise ValueError(f"`forecast` must have shape ({self.n_series}, horizon), got {forecast.shape}.")
        if self.layout.kind == "array":
            return forecast.T.copy()
        if name in (self.layout.id_col, self.layout.time_col):
            raise ValueError(f"`name` must differ from the table's own columns, got {name!r}.")
        table = self._table(forecast, name)
        return table if self.layout.backend == "pandas" else _to_native(table, self.layout)

    def _table(self, forecast: np.ndarray, name: str) -> pd.DataFrame | pd.Series:
        layout, ahead = self.layout, np.arange(forecast.shape[1])
        if layout.kind in ("long", "single"):
            times = self.calendar.labels(np.add.outer(self.ends, ahead).ravel())
            columns = {layout.time_col: write_dates(times, layout.written)}
            if layout.kind == "long":
                columns = {layout.id_col: self.ids.repeat(len(ahead)), **columns}
            return pd.DataFrame({**columns, name: forecast.ravel()})
        labels = self.calendar.labels(self.ends[0] + ahead)
        if layout.index is None:
            frame = pd.DataFrame(forecast.T, columns=self.ids)
            frame.insert(0, layout.time_col, write_dates(labels, layout.written))
            return frame
        index = _like(layout.index, labels, self.calendar, layout.written)
        if layout.kind == "series":
            return pd.Series(forecast[0], index=index, name=layout.target_col)
        return pd.DataFrame(forecast.T, index=index, columns=self.ids)


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
    backend, dates = "pandas", set[str]()
    if not isinstance(table, (pd.DataFrame, pd.Series, np.ndarray)) or isinstance(table, np.ma.MaskedArray):
        table, backend, dates = _from_native(table)
    rows = read_rows(table, id_col, time_col, target_col)
    if isinstance(rows.labels, pd.MultiIndex):
        raise ValueError("times must not be a MultiIndex; keep one level, or use a long table.")
    absent = rows.labels.isna()
    if absent.any():
        raise ValueError(f"the times have {first_missing(absent)}; fill them or drop the rows.")
    labels, written = read_dates(rows.labels)
    if rows.layout.time_col in dates:
        written = DATE_OBJECTS
    rows = replace(rows, labels=labels, layout=replace(rows.layout, written=written, backend=backend))
    grid, calendar = lay_on_grid(rows, freq, min_rows, calendar, missing)
    return Panel(grid.values, grid.lengths, grid.starts, rows.ids, calendar, rows.layout, grid.observed)


def _like(index: pd.Index, labels: pd.Index, calendar: Calendar, written: str | None) -> pd.Index:
    """`labels` as the history's index was: its name, a range if it was one, with a freq if it had one, text if so."""
    if written is not None:
        return write_dates(labels, written).astype(index.dtype).rename(index.name)
    if isinstance(index, pd.RangeIndex):
        return pd.RangeIndex(int(labels[0]), int(labels[-1]) + calendar.span, calendar.span, name=index.name)
    if isinstance(index, pd.DatetimeIndex) and index.freq is not None:
        with contextlib.suppress(ValueError):  # a midnight that clocks skip fits no freq
            labels.freq = calendar.freq
    return labels.rename(index.name)


def _from_native(table: Any) -> tuple[pd.DataFrame | pd.Series, str, set[str]]:
    """A table that is not of pandas as if it were, what it was made with, and which columns hold dates alone."""
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


def _to_native(table: pd.DataFrame | pd.Series, layout: Layout) -> Any:
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
