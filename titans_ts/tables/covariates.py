"""Covariates: what is known of series beside their own values, columns of a table read to numbers.

Numbers are kept as they are, and of a column of categories the number of each category.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .calendar_features import CATEGORIES, calendar_features
from .covariate_columns import FUTURE, STATIC, CovariateColumn, CovariateNames, Covariates
from .frequency import OrderedRows
from .grid import fill_gaps
from .layouts import check_unique
from .panel import Panel
from .series_data import SeriesData

MOST_CATEGORIES = 200  # of a column; more are ids, which say nothing of others
LISTED = 5  # of what an error names


def take_columns(table: Any, names: CovariateNames | Covariates) -> tuple[Any, pd.DataFrame]:
    """A table without its columns of covariates, and these.

    Raises
    ------
    TypeError, ValueError
        If it is no frame, or has not all the columns.
    """
    wanted = names.names
    if not wanted:
        return table, pd.DataFrame(index=range(len(table)))
    if not isinstance(table, pd.DataFrame):
        kind = "a Series" if isinstance(table, pd.Series) else "an array"
        raise TypeError(f"covariates {wanted!r} must be columns of a frame, got {kind}; pass a frame with them.")
    check_unique(table.columns)
    if absent := [name for name in wanted if name not in table.columns]:
        raise ValueError(f"the table must have the columns of covariates {wanted!r}, but {absent!r} are missing.")
    return table.drop(columns=wanted), table[wanted]


def encode(columns: pd.DataFrame, names: CovariateNames | Covariates) -> tuple[tuple[CovariateColumn, ...], np.ndarray]:
    """What kinds of columns these are, and their numbers (columns, rows), NaN where a value is missing.

    Raises
    ------
    TypeError, ValueError
        If a column holds neither numbers nor categories, infinite or too many different values, or a category that
        was not in the data fitted.
    """
    if isinstance(names, CovariateNames):
        found = tuple(CovariateColumn(name, role, _categories(columns[name])) for name, role in names.columns)
    else:
        found = tuple(column for column in names.of_table if column.name in columns.columns)
    values = np.empty((len(found), len(columns)))
    for i, column in enumerate(found):
        values[i] = _numbers(columns[column.name], column)
    return found, values


def _categories(column: pd.Series) -> tuple[Any, ...] | None:
    """The different values of a column that does not hold numbers; None for numbers."""
    dtype = column.dtype
    if types.is_bool_dtype(dtype) or (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)):
        return None
    if not (isinstance(dtype, pd.CategoricalDtype) or types.is_object_dtype(dtype) or types.is_string_dtype(dtype)):
        raise TypeError(
            f"column {column.name!r} must hold numbers or categories, got dtype {dtype}; convert it, or leave it out."
        )
    values = [v.item() if isinstance(v, np.generic) else v for v in column.dropna().unique().tolist()]
    if not all(isinstance(value, (str, bool, int, float)) for value in values):
        odd = next(value for value in values if not isinstance(value, (str, bool, int, float)))
        raise TypeError(f"column {column.name!r} must hold text or numbers, got {odd!r}; use `.astype(str)`.")
    if len(values) > MOST_CATEGORIES:
        raise ValueError(
            f"column {column.name!r} must have at most {MOST_CATEGORIES} categories, got {len(values)}; group them, or "
            "pass numbers."
        )
    return tuple(sorted(values, key=lambda value: (str(type(value)), value)))


def _numbers(values: pd.Series, column: CovariateColumn) -> np.ndarray:
    """A column's numbers, or those of its categories, (rows,) float64."""
    if column.categories is None:
        if types.infer_dtype(values, skipna=True) in ("boolean", "integer", "floating", "mixed-integer-float"):
            values = values.astype("Float64")  # gaps make objects of them
        dtype = values.dtype
        if types.is_complex_dtype(dtype) or not (types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)):
            raise TypeError(f"column {column.name!r} must hold numbers as in the data fitted, got dtype {dtype}.")
        numbers: np.ndarray = values.to_numpy(np.float64, na_value=np.nan)
        if np.isinf(numbers).any():
            raise ValueError(f"column {column.name!r} has an infinite value in row {np.isinf(numbers).argmax()}.")
        return numbers
    known = {category: float(i) for i, category in enumerate(column.categories)}
    listed = values.astype(object)
    codes: np.ndarray = listed.map(known).to_numpy(np.float64, na_value=np.nan)
    unknown = np.isnan(codes) & listed.notna().to_numpy()
    if unknown.any():
        raise ValueError(
            f"column {column.name!r} has {listed.iloc[int(unknown.argmax())]!r}, which was not in the data fitted "
            f"({list(column.categories[:LISTED])}{', ...' if len(known) > LISTED else ''}); fit with it, or replace it."
        )
    return codes


def align_covariates(
    ordered: OrderedRows, values: np.ndarray, data: SeriesData[np.ndarray], shared: bool
) -> np.ndarray:
    """Columns at the rows of series: (columns, rows of all series), NaN where the table has no row.

    Parameters
    ----------
    ordered : OrderedRows
        The table's rows.
    values : ndarray, shape (columns, rows of the table)
        In that order.
    data : SeriesData
        The series, each within the times of its rows.
    shared : bool
        Whether all series share the table's rows, as in a wide table.
    """
    codes, time_index = ordered.codes, ordered.time_index
    ends = np.cumsum(np.bincount(codes))
    first, last = time_index[np.concatenate([[0], ends[:-1]])], time_index[ends - 1]
    lengths = last - first + 1
    offsets = np.cumsum(lengths) - lengths
    whole = np.full((len(values), lengths.sum()), np.nan)
    whole[:, (offsets - first)[codes] + time_index] = values
    code = np.zeros(data.n_series, dtype=np.int64) if shared else np.arange(data.n_series)
    at: np.ndarray = np.repeat((offsets - first)[code] + data.starts, data.lengths) + data.row_in_series
    return whole[:, at]


def with_covariates(
    panel: Panel, columns: tuple[CovariateColumn, ...], values: np.ndarray, missing: str, calendar: tuple[str, ...]
) -> Panel:
    """The panel with its covariates.

    Parameters
    ----------
    panel : Panel
    columns : tuple of CovariateColumn
        Of the table.
    values : ndarray, shape (columns, rows)
        At the panel's rows; NaN where one is missing.
    missing : {"error", "interpolate", "ffill"}
    calendar : tuple of str

    Raises
    ------
    ValueError
        If a value is missing and not to be filled, or a static one changes within a series: names column, series and
        time.
    """
    data = panel.data
    filled = np.empty((len(data.values), len(columns)))
    for i, column in enumerate(columns):
        filled[:, i] = _complete(panel, column, values[i], missing)
    of_calendar = tuple(CovariateColumn(name, FUTURE, CATEGORIES.get(name)) for name in calendar)
    spec = Covariates((*columns, *of_calendar), len(calendar))
    features = calendar_features(calendar, panel.calendar, panel.ids, data.series_of_row, data.time_index)
    return replace(panel, covariates=spec, data=replace(data, covariates=np.concatenate([filled, features], axis=1)))


def _complete(panel: Panel, column: CovariateColumn, values: np.ndarray, missing: str) -> np.ndarray:
    """A column (rows,) without missing values."""
    data, absent = panel.data, np.isnan(values)
    lengths, offsets = data.lengths, data.offsets
    if column.role == STATIC:
        return _constant(panel, column, values)
    if not absent.any():
        return values
    if missing == "error":
        name, label = panel.locate(int(absent.argmax()))
        raise ValueError(
            f"column {column.name!r} has {int(absent.sum())} missing values, the first in series {name!r} at {label}; "
            "fill them, or pass `missing='interpolate'` or 'ffill'."
        )
    first = np.minimum.reduceat(np.where(absent, len(values), np.arange(len(values))), offsets)  # value of each series
    if (empty := first >= offsets + lengths).any():
        name = panel.id_of(int(empty.argmax()))
        raise ValueError(f"column {column.name!r} has no value in series {name!r}; fill it, or leave the series out.")
    before = data.row_in_series < np.repeat(first - offsets, lengths)  # which is that of the rows before it, too
    values = np.where(before, values[np.repeat(first, lengths)], values)
    return fill_gaps(
        values, ~absent | before, lengths, interpolate=missing == "interpolate" and column.categories is None
    )


def _constant(panel: Panel, column: CovariateColumn, values: np.ndarray) -> np.ndarray:
    """A static column (rows,), the same in all rows of each series."""
    data = panel.data
    low, high = (f.reduceat(values, data.offsets) for f in (np.fmin, np.fmax))
    if np.isnan(low).any():
        name = panel.id_of(int(np.isnan(low).argmax()))
        raise ValueError(f"static column {column.name!r} has no value in series {name!r}; fill it.")
    if (low != high).any():
        name = panel.id_of(int((low != high).argmax()))
        raise ValueError(
            f"static column {column.name!r} must be the same in all rows of a series, but changes in {name!r}; if it "
            "changes, name it in `past_cols` or `future_cols`."
        )
    return np.repeat(low, data.lengths)


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Those of a column of numbers, (rows,); a deviation of 1 where it does not vary."""
    low, high = values.min(), values.max()
    if low == high:  # whose mean may be off by rounding
        return float(low), 1.0
    return float(values.mean()), float(values.std()) or 1.0


def covariates_ahead(panel: Panel, steps: int, values: np.ndarray | None) -> SeriesData[np.ndarray]:
    """The covariates of the steps after a panel's rows, as rows without values of their own.

    Parameters
    ----------
    panel : Panel
        With covariates.
    steps : int
    values : ndarray, shape (n_series, steps, future columns of the table), optional
        None where there are none. Past ones are not known, and NaN; static ones stay as they are.
    """
    data, spec = panel.data, panel.covariates
    if spec is None or data.covariates is None:
        raise ValueError("`panel` must have covariates.")
    n = panel.n_series
    ahead = np.full((n, steps, len(spec.columns)), np.nan)
    last = data.covariates[data.last_rows]
    static = spec.places(STATIC)
    ahead[..., static] = last[:, None, static]
    if values is not None:
        ahead[..., spec.places(FUTURE)] = values
    time_index = np.add.outer(data.ends, np.arange(steps))
    series = np.repeat(np.arange(n), steps)
    features = calendar_features(spec.calendar, panel.calendar, panel.ids, series, time_index.ravel())
    ahead[..., len(spec.of_table) :] = features.reshape(n, steps, -1)
    lengths = np.full(n, steps)
    clock = panel.calendar.local_clock(int(data.starts.min()), int(data.ends.max()) + steps)
    return SeriesData(np.zeros(n * steps), lengths, data.ends, clock=clock, covariates=ahead.reshape(n * steps, -1))
