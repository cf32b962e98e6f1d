"""Tables in, tables out: long, wide, one series, Series and arrays to one Panel and back."""

import contextlib
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from titans_ts.calendar import Calendar, show


@dataclass(frozen=True, eq=False)
class Layout:
    """How a table was laid out: what `Panel.write` needs to answer in the same kind.

    Parameters
    ----------
    kind : str
        'long', 'single' (one series, no id), 'wide', 'series' or 'array'.
    id_col, time_col, target_col : hashable, optional
        Columns of the table, None where it has no such column; `target_col` is a Series' name.
    index : Index, optional
        The time index, emptied: its class, name and whether it carried a freq. None if times are in a column.
    """

    kind: str
    id_col: Hashable = None
    time_col: Hashable = None
    target_col: Hashable = None
    index: pd.Index | None = None


@dataclass(frozen=True, eq=False)
class Panel:
    """Series of one calendar, end to end in one vector.

    Parameters
    ----------
    values : ndarray, shape (total rows,), float64
        Series after series, each in the order of time, without gaps.
    lengths : ndarray, shape (n_series,), int64
        Rows of each series.
    starts : ndarray, shape (n_series,), int64
        The absolute step of each series' first row.
    ids : Index, shape (n_series,)
        Series ids in the order of their first row; column names for a wide table, channel numbers for an array.
    calendar : Calendar
        What steps mean.
    layout : Layout
        How the table was laid out.
    """

    values: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    ids: pd.Index
    calendar: Calendar
    layout: Layout

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
    def feature_names(self) -> np.ndarray | None:
        """A wide table's columns, (n_series,) object, if all are strings: scikit-learn's `feature_names_in_`."""
        if self.layout.kind != "wide" or not all(isinstance(name, str) for name in self.ids):
            return None
        return self.ids.to_numpy(dtype=object, copy=True)

    def series(self, i: int) -> np.ndarray:
        """The values of series `i`, a view of (lengths[i],)."""
        start = int(self.offsets[i])
        return self.values[start : start + int(self.lengths[i])]

    def take(self, which: np.ndarray) -> "Panel":
        """The series number `which` (any,), in that order; copies."""
        values = [self.series(i) for i in which]
        return replace(
            self,
            values=np.concatenate(values) if values else self.values[:0],
            lengths=self.lengths[which],
            starts=self.starts[which],
            ids=self.ids[which],
        )

    def tail(self, rows: int) -> "Panel":
        """The last `rows` rows of each series, fewer where it has fewer; copies."""
        dropped = np.maximum(self.lengths - rows, 0)
        row = np.arange(len(self.values)) - np.repeat(self.offsets, self.lengths)
        kept = row >= np.repeat(dropped, self.lengths)
        return replace(self, values=self.values[kept], lengths=self.lengths - dropped, starts=self.starts + dropped)

    def write(self, forecast: np.ndarray, name: str = "Titans") -> Any:
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
            columns over the next times; a Series of the same name; an array of shape (horizon, n_series).

        Raises
        ------
        ValueError
            If `forecast` has another shape or `name` is the id or time column's.
        """
        forecast = np.array(forecast, dtype=np.float64)
        if forecast.ndim != 2 or forecast.shape[0] != self.n_series or forecast.shape[1] < 1:
            raise ValueError(f"`forecast` must have shape ({self.n_series}, horizon), got {forecast.shape}.")
        layout, ahead = self.layout, np.arange(forecast.shape[1])
        if layout.kind == "array":
            return forecast.T.copy()
        if layout.kind in ("long", "single"):
            if name in (layout.id_col, layout.time_col):
                raise ValueError(f"`name` must differ from the table's own columns, got {name!r}.")
            columns = {layout.time_col: self.calendar.labels(np.add.outer(self.ends, ahead).ravel())}
            if layout.kind == "long":
                columns = {layout.id_col: self.ids.repeat(len(ahead)), **columns}
            return pd.DataFrame({**columns, name: forecast.ravel()})
        labels = self.calendar.labels(self.ends[0] + ahead)
        if layout.index is None:
            frame = pd.DataFrame(forecast.T, columns=self.ids)
            frame.insert(0, layout.time_col, labels)
            return frame
        index = _like(layout.index, labels, self.calendar)
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
) -> Panel:
    """Read a table of any accepted kind; every row is checked and nothing is changed in place.

    Parameters
    ----------
    table : DataFrame, Series or ndarray
        Long (`id_col`, `time_col`, `target_col`), one series (`time_col`, `target_col`), wide (numeric columns over a
        DatetimeIndex, PeriodIndex or integer index, or beside one column of dates), a Series over such an index, or
        an array of shape (rows, channels). Rows may come in any order.
    freq : str, int or offset, optional
        The distance of rows; inferred from the longest series if None.
    id_col, time_col, target_col : str
        Names of a long table's columns.
    min_rows : int
        Rows that every series must have.
    calendar : Calendar, optional
        Of rows read before, which these must keep to; `freq` is not asked then.

    Raises
    ------
    TypeError
        If the table is of another kind or its values are not numbers.
    ValueError
        If a value, time or id is missing, a value is infinite, a row is doubled, a step is skipped, a series is too
        short, a time is off the grid, or the columns fit no layout.
    """
    if not isinstance(table, (pd.DataFrame, pd.Series, np.ndarray)) or isinstance(table, np.ma.MaskedArray):
        raise TypeError(_refusal(table))
    if table.shape[:1] == (0,):
        raise ValueError("the table has no rows; pass the history to forecast from.")
    if isinstance(table, pd.DataFrame):
        read = _read_frame(table, id_col, time_col, target_col)
    elif isinstance(table, pd.Series):
        layout = Layout("series", target_col=table.name, index=table.index[:0])
        ids = pd.Index([table.name], tupleize_cols=False)
        read = _Rows(layout, ids, table.index, _floats(table, "the Series")[None])
    else:
        read = _read_array(table)
    return _to_panel(read, freq, min_rows, calendar)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A table taken apart: `values` is (channels, rows), `codes` says which series a row of a long table belongs to."""

    layout: Layout
    ids: pd.Index
    labels: pd.Index
    values: np.ndarray
    codes: np.ndarray | None = None


def _read_frame(table: pd.DataFrame, id_col: str, time_col: str, target_col: str) -> _Rows:
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
    dates = [name for name, dtype in table.dtypes.items() if _is_date(dtype)]
    if has_time and has_target:
        return _read_long(table, id_col if has_id else None, time_col, target_col)
    if not has_id and (has_time or len(dates) < 2):
        times = time_col if has_time else dates[0] if dates and not _is_date(table.index.dtype) else None
        if len(columns) > (times is not None):
            return _read_wide(table, times, layouts)
    raise ValueError(f"the columns {columns.tolist()} fit no layout; pass {layouts}.")


def _read_long(table: pd.DataFrame, id_col: str | None, time_col: str, target_col: str) -> _Rows:
    extra = table.columns.drop([name for name in (id_col, time_col, target_col) if name is not None])
    if len(extra):
        raise ValueError(
            f"columns {extra.tolist()} are neither id, time nor target; drop them: covariates are not supported yet."
        )
    labels, values = pd.Index(table[time_col]), _floats(table[target_col], f"column {target_col!r}")[None]
    if id_col is None:
        layout = Layout("single", time_col=time_col, target_col=target_col)
        return _Rows(layout, pd.Index([target_col]), labels, values)
    codes, ids = pd.factorize(table[id_col])
    missing = codes < 0
    if missing.any():
        raise ValueError(f"column {id_col!r} has {_first_missing(missing)}; name the series or drop the rows.")
    return _Rows(Layout("long", id_col, time_col, target_col), ids, labels, values, codes)


def _read_wide(table: pd.DataFrame, times: Hashable, layouts: str) -> _Rows:
    columns = table.columns.copy() if times is None else table.columns.drop(times)
    values = np.empty((len(columns), len(table)))
    for channel, name in enumerate(columns):
        values[channel] = _floats(table[name], f"column {name!r}", f"pass {layouts}")
    if times is None:
        return _Rows(Layout("wide", index=table.index[:0]), columns, table.index, values)
    return _Rows(Layout("wide", time_col=times), columns, pd.Index(table[times]), values)


def _read_array(table: np.ndarray) -> _Rows:
    if table.ndim == 1:
        raise TypeError(f"an array must have shape (rows, channels), got {table.shape}; use `.reshape(-1, 1)`.")
    if table.ndim != 2:
        raise TypeError(f"an array must have shape (rows, channels), got {table.shape}.")
    if table.shape[1] == 0:
        raise ValueError(f"an array must have at least one channel, got shape {table.shape}.")
    if table.dtype.kind not in "iuf":
        raise TypeError(f"an array must hold real numbers, got dtype {table.dtype}; use `.astype(float)`.")
    rows, channels = table.shape
    return _Rows(Layout("array"), pd.RangeIndex(channels), pd.RangeIndex(rows), table.T.astype(np.float64))


def _refusal(table: Any) -> str:
    accepted = "a table must be a pandas DataFrame or Series or a NumPy array of shape (rows, channels)"
    remedy = ""
    if type(table).__module__.split(".")[0] == "polars":
        remedy = "; use `.to_pandas()`"
    elif isinstance(table, np.ma.MaskedArray):
        remedy = "; use `.filled()`"
    elif isinstance(table, (list, tuple)):
        remedy = "; use `np.array(...).reshape(-1, 1)` for one series"
    return f"{accepted}, got {type(table).__module__}.{type(table).__qualname__}{remedy}."


def _is_date(dtype: Any) -> bool:
    return types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype)


def _floats(column: pd.Series, what: str, remedy: str = "use `.astype(float)`") -> np.ndarray:
    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        raise TypeError(f"{what} must hold numbers, got dtype {dtype}; use `.astype(float)`.")
    if types.is_complex_dtype(dtype) or not types.is_numeric_dtype(dtype):
        raise TypeError(f"{what} must hold real numbers, got dtype {dtype}; {remedy}.")
    return column.to_numpy(np.float64, copy=True, na_value=np.nan)


def _to_panel(rows: _Rows, freq: Any, min_rows: int, calendar: Calendar | None) -> Panel:
    """Sort by series and time, number the steps, and check every row."""
    labels, values = rows.labels, rows.values
    if isinstance(labels, pd.MultiIndex):
        raise ValueError("times must not be a MultiIndex; keep one level, or use a long table.")
    missing = labels.isna()
    if missing.any():
        raise ValueError(f"the times have {_first_missing(missing)}; fill them or drop the rows.")
    codes = np.zeros(len(labels), dtype=np.int64) if rows.codes is None else rows.codes
    counts = np.bincount(codes)
    if counts.min() < min_rows:
        which = _owner(rows, int(counts.argmin()))
        raise ValueError(f"{which} has {_some(counts.min(), 'row')}; at least {min_rows} are needed.")
    if calendar is None:
        calendar = Calendar.of(labels if len(counts) == 1 else labels[codes == counts.argmax()], freq)
    steps = calendar.steps(labels)
    if not _sorted(codes, steps):
        order = np.lexsort((steps, codes))
        codes, steps, values = codes[order], steps[order], values[:, order]
    _check_steps(rows, codes, steps, calendar)
    channels = len(values)
    starts = steps[np.cumsum(counts) - counts]
    panel = Panel(values.ravel(), np.tile(counts, channels), np.tile(starts, channels), rows.ids, calendar, rows.layout)
    _check_values(rows, panel)
    return panel


def _sorted(codes: np.ndarray, steps: np.ndarray) -> bool:
    return bool(np.all((codes[1:] > codes[:-1]) | (codes[1:] == codes[:-1]) & (steps[1:] >= steps[:-1])))


def _check_steps(rows: _Rows, codes: np.ndarray, steps: np.ndarray, calendar: Calendar) -> None:
    broken = (codes[1:] == codes[:-1]) & (np.diff(steps) != 1)
    if not broken.any():
        return
    row = int(broken.argmax())
    which = _owner(rows, int(codes[row]))
    before, after = (show(label) for label in calendar.labels(steps[row : row + 2]))
    if before == after:
        raise ValueError(f"{which} has more than one row at {before}; keep one.")
    skipped = steps[row + 1] - steps[row] - 1
    raise ValueError(
        f"{which} has a gap of {_some(skipped, 'row')} between {before} and {after} (freq {calendar.freq!r}); "
        "fill it first (gaps are not supported yet), or pass the `freq` of the rows."
    )


def _check_values(rows: _Rows, panel: Panel) -> None:
    finite = np.isfinite(panel.values)
    if finite.all():
        return
    row = int(finite.argmin())
    i = int(np.searchsorted(panel.offsets, row, side="right")) - 1
    kind, test = ("missing", np.isnan) if np.isnan(panel.values[row]) else ("infinite", np.isinf)
    count = test(panel.series(i)).sum()
    label = show(panel.calendar.labels(panel.starts[i : i + 1] + row - panel.offsets[i])[0])
    raise ValueError(
        f"{_channel(rows, i)} has {_some(count, f'{kind} value')}, the first at {label}; "
        f"fill it first: {kind} values are not supported yet."
    )


def _owner(rows: _Rows, code: int) -> str:
    """Whose rows an error speaks of: all columns of a wide table share theirs."""
    return "the table" if rows.codes is None else f"series {_name(rows.ids, code)!r}"


def _channel(rows: _Rows, i: int) -> str:
    """Whose values an error speaks of."""
    kind, name = rows.layout.kind, _name(rows.ids, i)
    if kind == "long":
        return f"column {rows.layout.target_col!r} of series {name!r}"
    return {"series": "the Series", "array": f"channel {name}"}.get(kind, f"column {name!r}")


def _name(ids: pd.Index, i: int) -> Any:
    return ids[i : i + 1].tolist()[0]


def _first_missing(missing: np.ndarray) -> str:
    return f"{_some(missing.sum(), 'missing value')}, the first in row {missing.argmax()}"


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _like(index: pd.Index, labels: pd.Index, calendar: Calendar) -> pd.Index:
    """`labels` as the history's index was: its name, a range if it was one, with a freq if it had one."""
    if isinstance(index, pd.RangeIndex):
        return pd.RangeIndex(int(labels[0]), int(labels[-1]) + calendar.span, calendar.span, name=index.name)
    if isinstance(index, pd.DatetimeIndex) and index.freq is not None:
        with contextlib.suppress(ValueError):  # a midnight that clocks skip fits no freq
            labels.freq = calendar.freq
    return labels.rename(index.name)
