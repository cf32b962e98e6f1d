"""Cutoffs: what was known at the end of so many rows, and the frame of forecasts made there beside what came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from .tables.panel import Panel

CUTOFF = "cutoff"


def scored_frame(panel: Panel, series: np.ndarray, seen: np.ndarray, h: int, outputs: pd.DataFrame) -> pd.DataFrame:
    """Forecasts beside the rows that they are of.

    Parameters
    ----------
    panel : Panel
        As of a long table of pandas.
    series, seen : ndarray of int, shape (forecasts,)
        The number of the series of each forecast, and the rows of it before its cutoff.
    h : int
        Steps of each.
    outputs : DataFrame, shape (forecasts * h, outputs)
        Over a RangeIndex.

    Returns
    -------
    DataFrame
        The id and time columns, "cutoff", the target and the outputs; without rows that were filled in.
    """
    layout = panel.layout
    id_col, time_col, target_col = layout.id_col, layout.time_col, layout.target_col
    future = panel.between(series, seen, seen + h)
    frame = future.rows_table({target_col: future.data.values}, id_col, time_col)
    last = panel.between(series, seen - 1, seen)
    cutoffs = last.rows_table({target_col: last.data.values}, id_col, time_col)[time_col]
    frame.insert(2, CUTOFF, cutoffs.repeat(h).reset_index(drop=True))
    if clash := [name for name in outputs.columns if name in frame.columns]:
        raise ValueError(f"the column {clash[0]!r} must not be named as the forecast's; rename it.")
    return pd.concat([frame, outputs], axis=1)[future.data.is_observed].reset_index(drop=True)


def known_rows(panel: Panel, rows: np.ndarray) -> Panel:
    """The first `rows` (n_series,) rows of each series as they were known then.

    What was filled in at their end is the last value before it again: a line to the next one would look ahead.
    """
    panel = panel.head(rows)
    data = panel.data
    if data.observed is None:
        return panel
    last = np.maximum.accumulate(np.where(data.observed, np.arange(len(data.values)), -1))
    at_end = data.row_in_series >= np.repeat(observed_rows(panel), data.lengths)
    return replace(panel, data=data.with_values(np.where(at_end, data.values[last], data.values)))


def observed_rows(panel: Panel) -> np.ndarray:
    """Rows of each series up to the last that was observed, (n_series,)."""
    data = panel.data
    rows = np.where(data.is_observed, data.row_in_series + 1, 0)
    last: np.ndarray = np.maximum.reduceat(rows, data.offsets)
    return last


def check_names(panel: Panel) -> None:
    """Refuse a table with a column that the frame of forecasts has for its cutoffs."""
    layout = panel.layout
    if CUTOFF in (layout.id_col, layout.time_col, layout.target_col):
        raise ValueError(f"the table must not have a column {CUTOFF!r}, where cutoffs are told; rename it.")
