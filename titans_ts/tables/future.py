"""Tables of the future: what is known of the steps to forecast, in any order and perhaps of more steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .covariate_columns import FUTURE
from .covariates import encode
from .frequency import OrderedRows, order_rows
from .infer import show
from .panel import Panel
from .read import read_rows_of

LISTED = 5  # rows that an error names


def read_future(table: Any, panel: Panel, steps: int) -> np.ndarray | None:
    """The future covariates of the steps after a panel's rows.

    Parameters
    ----------
    table : DataFrame or Panel or None
        Rows with ids and times as the panel's table has them, and the columns of future covariates; more rows and
        columns do no harm. A Panel is of rows that were read before, as `future_of_rows` takes them.
    panel : Panel
    steps : int

    Returns
    -------
    ndarray, shape (n_series, steps, columns)
        None where the panel has no future covariates but those of the calendar.

    Raises
    ------
    TypeError, ValueError
        If a step or a value is missing: lists (id, time) pairs; if a row comes twice, or a column is missing; if a
        table is given where nothing is to be known, or none where something is.
    """
    spec = panel.covariates
    names = [] if spec is None else spec.named(FUTURE)
    if not names or spec is None:
        if table is not None and not isinstance(table, Panel):
            raise ValueError("`future` must be None: the forecaster was fitted without `future_cols`.")
        return None
    if table is None:
        raise ValueError(
            f"`future` must give {names!r} for the {steps} steps to forecast; `make_future_frame({steps})` makes the "
            "ids and times of a frame to fill."
        )
    if isinstance(table, Panel):
        return future_of_rows(table, panel, steps)
    columns = [column for column in spec.columns if column.name in names]
    values, series, step = _rows_of_table(table, panel, names)
    inside = (series >= 0) & (step >= 0) & (step < steps)
    values, series, step = values[:, inside], series[inside], step[inside]
    count = np.bincount(series * steps + step, minlength=panel.n_series * steps).reshape(panel.n_series, steps)
    if (count > 1).any():
        raise ValueError(f"`future` must have each row once, but {_listed(panel, count > 1)} come more than once.")
    if (count == 0).any():
        missing = count == 0
        raise ValueError(
            f"`future` must have a row for each series and step, but {missing.sum()} of {missing.size} are missing: "
            f"{_listed(panel, missing)}. `make_future_frame({steps})` makes all ids and times."
        )
    found = np.empty((panel.n_series, steps, len(columns)))
    found[series, step] = values.T
    for i, column in enumerate(columns):
        if (absent := np.isnan(found[..., i])).any():
            raise ValueError(
                f"column {column.name!r} of `future` has {absent.sum()} missing values, at {_listed(panel, absent)}; "
                "fill them."
            )
    return found


def future_of_rows(rows: Panel, panel: Panel, steps: int) -> np.ndarray | None:
    """The future covariates of the steps after a panel's rows, as `read_future` returns them, from later rows.

    Parameters
    ----------
    rows : Panel
        The same series with the same covariates. After the last row of a series its covariates stay.
    panel : Panel
    steps : int

    Raises
    ------
    ValueError
        If rows do not begin where those of the panel end: names the series.
    """
    spec, data = panel.covariates, rows.data
    at = [] if spec is None else spec.places(FUTURE)
    if not at or data.covariates is None:
        return None
    skipped = data.starts - panel.data.ends
    if skipped.any():
        i = int(np.flatnonzero(skipped)[0])
        raise ValueError(
            f"`df` must go on from the last row fitted where there are `future_cols`, but series {rows.id_of(i)!r} "
            f"skips {skipped[i]} rows, whose {spec.named(FUTURE)!r} are not known; give them too."  # type: ignore[union-attr]
        )
    row = np.minimum(np.arange(steps), data.lengths[:, None] - 1) + data.offsets[:, None]
    ahead: np.ndarray = data.covariates[row][..., at]
    return ahead


def _rows_of_table(table: Any, panel: Panel, names: list[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The values (columns, rows) of a table, and which series and step ahead each row is of."""
    layout, spec = panel.layout, panel.covariates
    if spec is None:
        raise ValueError("`panel` must have covariates.")
    rows, columns = read_rows_of(table, panel, names)
    _, values = encode(columns, spec)
    shared = rows.codes is None
    ordered = order_rows(replace(rows, values=values), None, panel.calendar)
    if shared and layout.kind == "wide":  # the table's rows are those of all series
        series = np.repeat(np.arange(panel.n_series), len(ordered.time_index))
        time_index, values = np.tile(ordered.time_index, panel.n_series), np.tile(ordered.values, panel.n_series)
    else:
        numbers = np.zeros(1, dtype=np.int64) if shared else panel.ids.get_indexer(rows.ids)
        _check_phases(ordered, numbers, panel)
        series, time_index, values = numbers[ordered.codes], ordered.time_index, ordered.values
    return values, series, time_index - panel.data.ends[series]


def _check_phases(ordered: OrderedRows, numbers: np.ndarray, panel: Panel) -> None:
    """Refuse rows of a series that lie between its steps, which a table alone takes for another phase."""
    if ordered.calendar is panel.calendar:
        return
    codes, rows = np.unique(ordered.codes, return_index=True)
    for series, row in zip(numbers[codes].tolist(), rows.tolist(), strict=True):
        if series < 0:
            continue
        name, time_index = panel.id_of(series), int(ordered.time_index[row])
        got, own = (calendar.of_series(name).label(time_index) for calendar in (ordered.calendar, panel.calendar))
        if got != own:
            raise ValueError(
                f"`future` must have the freq {panel.calendar.freq!r} of the rows before, but series {name!r} has a "
                f"row at {show(got)}, between its steps, of which {show(own)} is one. Give the rows at their times."
            )


def _listed(panel: Panel, where: np.ndarray) -> str:
    """The (id, time) pairs of steps ahead (n_series, steps) bool, the first of many."""
    pairs = []
    for series, step in list(zip(*np.nonzero(where), strict=True))[:LISTED]:
        name = panel.id_of(int(series))
        label = panel.calendar.of_series(name).label(int(panel.data.ends[series]) + int(step))
        pairs.append(f"({name!r}, {show(label)})")
    return f"[{', '.join(pairs)}{', ...' if where.sum() > LISTED else ''}]"
