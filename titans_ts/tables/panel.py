"""Panel: series that were read from a table, and all that is needed to write their forecasts in the same layout."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from .calendar import Calendar
from .calendar_features import calendar_features
from .covariate_columns import Covariates
from .dates import write_dates
from .infer import show
from .layouts import FORECAST, Layout
from .series_data import SeriesData

MOST_SKIPPED = 100_000  # steps of a series without rows that are filled
REMEDIES = (
    "Give each row once, and rows in the order of time.",
    "Give the rows between, or have some filled by `missing='interpolate'` or 'ffill' of the forecaster.",
)


@dataclass(frozen=True, eq=False)
class Panel:
    """Series of one step.

    Parameters
    ----------
    data : SeriesData
        Values in float64, in the units of the table.
    ids : Index, shape (n_series,)
        Series ids, sorted where they can be; column names for a wide table, channel numbers for an array.
    calendar : Calendar
        What a time index means: the step of all series, and where those of another phase lie.
    layout : Layout
        How the table was laid out.
    covariates : Covariates, optional
        What the columns of `data.covariates` are.
    """

    data: SeriesData[np.ndarray]
    ids: pd.Index
    calendar: Calendar
    layout: Layout
    covariates: Covariates | None = None

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return self.data.n_series

    @property
    def id_type(self) -> str:
        """The type of the ids, of categories that of what they hold: 'string', 'integer', ..."""
        kind: str = (self.ids.categories if isinstance(self.ids, pd.CategoricalIndex) else self.ids).inferred_type
        return kind

    @property
    def feature_names(self) -> np.ndarray | None:
        """A wide table's columns, (n_series,) object, if all are strings: scikit-learn's `feature_names_in_`."""
        if self.layout.kind != "wide" or not all(isinstance(name, str) for name in self.ids):
            return None
        names: np.ndarray = self.ids.to_numpy(dtype=object, copy=True)
        return names

    def id_of(self, series: int) -> Any:
        """The id of one series, as Python's own type."""
        return self.ids[series : series + 1].tolist()[0]

    def locate(self, row: int) -> tuple[Any, str]:
        """The id of the series of a row of `data`, and its time in the words of an error."""
        series, time_index = self.data.locate(row)
        name = self.id_of(series)
        return name, show(self.calendar.of_series(name).label(time_index))

    def take(self, series: np.ndarray) -> Panel:
        """The series number `series` (any,), in that order; copies."""
        return replace(self, data=self.data.take(series), ids=self.ids[series])

    def between(self, series: np.ndarray, first: np.ndarray, last: np.ndarray) -> Panel:
        """Rows [first, last) of the series number `series`; as `SeriesData.between`."""
        return replace(self, data=self.data.between(series, first, last), ids=self.ids[series])

    def head(self, rows: np.ndarray) -> Panel:
        """The first `rows` rows of each series; as `SeriesData.head`."""
        return replace(self, data=self.data.head(rows))

    def tail(self, rows: int | np.ndarray) -> Panel:
        """The last `rows` rows of each series; as `SeriesData.tail`."""
        return replace(self, data=self.data.tail(rows))

    def then(self, rows: Panel, series: np.ndarray, missing: str = "error") -> Panel:
        """This panel with further rows of some of its series after those it has.

        Parameters
        ----------
        rows : Panel
            They begin where the series end; those of an array are taken to.
        series : ndarray of int, shape (rows.n_series,)
            The number of each of its series in this panel.
        missing : {"error", "interpolate", "ffill"}
            What becomes of steps between the last row of a series and its first further one.

        Raises
        ------
        ValueError
            If rows of a series come before its end, or later than the step after it and `missing` is "error", or so
            much later that the freq is more likely wrong, or between its steps: names the series and the time.
        """
        self._check_phases(rows, series)
        data, ends = rows.data, self.data.ends
        ahead = np.zeros(rows.n_series, dtype=np.int64) if rows.layout.kind == "array" else data.starts - ends[series]
        wrong = (ahead < 0) | (ahead > (0 if missing == "error" else MOST_SKIPPED))
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            name = rows.id_of(i)
            own = self.calendar.of_series(self.id_of(int(series[i])))
            expected, got = (show(own.label(int(t))) for t in (ends[series[i]], data.starts[i]))
            way = "repeats rows that the model has seen" if ahead[i] < 0 else f"skips {int(ahead[i])} rows"
            raise ValueError(
                f"`rows` must go on from the last row of each series, but series {name!r} {way}: it begins at {got}, "
                f"and {expected} is next. " + REMEDIES[int(ahead[i] > 0)]
            )
        if ahead.any():
            data = self._bridge(data, series, ahead, missing).then(data)
        lengths = np.zeros(self.n_series, dtype=np.int64)
        lengths[series] = data.lengths
        ordered = data.take(np.argsort(series, kind="stable"))
        clock = self.calendar.local_clock(int(self.data.starts.min()), int((ends + lengths).max()))
        return replace(self, data=self.data.then(replace(ordered, lengths=lengths, starts=ends, clock=clock)))

    def _check_phases(self, rows: Panel, series: np.ndarray) -> None:
        """Refuse `rows` of a series that lie between its steps, which a table alone takes for another phase."""
        if rows.layout.kind == "array" or rows.calendar.phases == self.calendar.phases:
            return
        for i, start in enumerate(rows.data.starts.tolist()):
            name = rows.id_of(i)
            own = self.calendar.of_series(self.id_of(int(series[i]))).label(start)
            got = rows.calendar.of_series(name).label(start)
            if got != own:
                raise ValueError(
                    f"`rows` must have the freq {self.calendar.freq!r} of the rows before, but series {name!r} begins "
                    f"at {show(got)}, between its steps, of which {show(own)} is one. Give the rows at their times."
                )

    def _bridge(
        self, later: SeriesData[np.ndarray], series: np.ndarray, skipped: np.ndarray, missing: str
    ) -> SeriesData[np.ndarray]:
        """The `skipped` (n,) rows between the ends of series number `series` (n,) and their `later` ones, filled."""
        last, ends = self.data.last_rows[series], self.data.ends[series]
        before, after = self.data.values[last], later.values[later.offsets]
        filled = SeriesData(np.repeat(before, skipped), skipped, ends, np.zeros(skipped.sum(), dtype=bool))
        share = np.zeros(len(filled.values))
        if missing == "interpolate":
            share = (filled.row_in_series + 1) / np.repeat(skipped + 1, skipped)
        filled = filled.with_values((1 - share) * filled.values + share * np.repeat(after, skipped))
        if self.covariates is None or self.data.covariates is None or later.covariates is None:
            return filled
        covariates = np.repeat(self.data.covariates[last], skipped, 0)
        after = np.repeat(later.covariates[later.offsets], skipped, 0)
        spec = self.covariates
        numbers = [i for i, column in enumerate(spec.columns) if column.categories is None]
        covariates[:, numbers] += share[:, None] * (after - covariates)[:, numbers]
        ids, of_row = self.ids[series], filled.series_of_row
        features = calendar_features(spec.calendar, self.calendar, ids, of_row, filled.time_index)
        covariates[:, len(spec.of_table) :] = features
        return replace(filled, covariates=covariates)

    def write(self, forecast: np.ndarray, columns: Sequence[str] = (FORECAST,)) -> Any:
        """Lay a forecast out as the table was.

        Parameters
        ----------
        forecast : ndarray, shape (n_series, steps, outputs)
            Values of the steps right after the last row of each series; a point forecast has one output.
        columns : sequence of str, one for each output
            Names of the outputs. What follows "Titans" in a name is added to the names of a wide table's columns.

        Returns
        -------
        DataFrame, Series, ndarray or dict
            Long: the id and time columns and `columns`; one series: the time column and `columns`; wide: the table's
            own columns over the next times, each with those of its outputs after it; a Series of the same name, or a
            DataFrame of `columns` if they are several; an array of shape (steps, n_series), or a dict of one for each
            of several `columns`. Of pandas, polars or another kind as the table was, with times written as they were.

        Raises
        ------
        ValueError
            If `forecast` has another shape, or a column would have the name of another.
        """
        layout, n_outputs = self.layout, len(columns)
        forecast = np.array(forecast, dtype=np.float64)
        if forecast.ndim != 3 or forecast.shape[::2] != (self.n_series, n_outputs) or forecast.shape[1] < 1:
            raise ValueError(
                f"`forecast` must have shape (n_series, steps, outputs) = ({self.n_series}, steps, {n_outputs}), got "
                f"{forecast.shape}."
            )
        if clash := [name for name in columns if name in (layout.id_col, layout.time_col)]:
            raise ValueError(f"`columns` must differ from the table's own, got {clash[0]!r}.")
        if layout.kind in ("long", "single"):
            return self._to_backend(self._by_row(forecast, columns))
        if layout.kind == "array" and n_outputs > 1:
            return {name: forecast[..., i].T.copy() for i, name in enumerate(columns)}
        if n_outputs > 1:
            return self._to_backend(self._by_output(forecast, columns))
        point = forecast[:, :, 0]  # (n_series, steps)
        return point.T.copy() if layout.kind == "array" else self._to_backend(self._by_series(point))

    def write_times(self, steps: int) -> Any:
        """The ids and times of the steps after each series' last row, laid out as the table was, without values.

        TypeError for an array, which has no times.
        """
        layout = self.layout
        if layout.kind == "array":
            raise TypeError("an array has no times; pass a frame.")
        if layout.kind in ("long", "single"):
            return self._to_backend(self._by_row(np.empty((self.n_series, steps, 0)), ()))
        table = self._by_series(np.empty((self.n_series, steps)))
        if isinstance(table, pd.Series):
            table = table.to_frame()
        names = [] if layout.index is not None else [layout.time_col]
        return self._to_backend(table[names])

    def write_rows(self, values: np.ndarray, column: str) -> Any:
        """Lay out a number for each of the panel's own rows as the table was; `column` names it in a long table.

        Parameters
        ----------
        values : ndarray, shape (rows,)
            Series after series.
        column : str

        Returns
        -------
        DataFrame, Series or ndarray
            As `write` returns it, at the times of the rows; NaN where a table has a time at which a series has none.
        """
        layout, data = self.layout, self.data
        if layout.kind in ("long", "single"):
            return self._to_backend(self._rows_table({column: values}))
        begin, end = int(data.starts.min()), int(data.ends.max())
        whole = np.full((self.n_series, end - begin, 1), np.nan)
        whole[data.series_of_row, data.time_index - begin, 0] = values
        return self._without_rows(np.full(self.n_series, begin)).write(whole)

    def rows_table(self, columns: dict[Any, np.ndarray], id_col: Any, time_col: Any) -> Any:
        """A long table, whatever the layout was, with numbers of each of the panel's own rows.

        Parameters
        ----------
        columns : dict of str to ndarray, shape (rows,)
        id_col, time_col : str
            Names of the columns of ids and times where the table had none.
        """
        panel = replace(self, layout=self._long(id_col, time_col))
        return panel._to_backend(panel._rows_table(columns))

    def as_long(self, id_col: str, time_col: str, target_col: str) -> Panel:
        """The same series as if a long table of pandas had been read; the names are of columns that it had not."""
        layout = replace(self._long(id_col, time_col), index=None, backend="pandas", id_dtype=None, time_dtype=None)
        if self.layout.kind not in ("long", "single"):
            layout = replace(layout, target_col=target_col)
        return replace(self, layout=layout)

    def _long(self, id_col: str, time_col: str) -> Layout:
        layout = self.layout
        return replace(
            layout,
            kind="long",
            id_col=id_col if layout.id_col is None else layout.id_col,
            time_col=time_col if layout.time_col is None else layout.time_col,
        )

    def _rows_table(self, columns: dict[Any, np.ndarray]) -> pd.DataFrame:
        """A row for each of the panel's own rows."""
        data, steps = self.data, int(self.data.lengths.max())
        padded = np.full((self.n_series, steps, len(columns)), np.nan)
        for i, values in enumerate(columns.values()):
            padded[data.series_of_row, data.row_in_series, i] = values
        table = self._without_rows(data.starts)._by_row(padded, list(columns))
        there = (np.arange(steps) < data.lengths[:, None]).ravel()
        dtypes = {name: values.dtype for name, values in columns.items()}
        return table[there].reset_index(drop=True).astype(dtypes)

    def _without_rows(self, starts: np.ndarray) -> Panel:
        """The same series before any row, beginning at `starts` (n_series,)."""
        nothing = np.zeros(self.n_series, dtype=np.int64)
        return replace(self, data=replace(self.data.head(nothing), starts=starts))

    def _by_row(self, forecast: np.ndarray, columns: Sequence[str]) -> pd.DataFrame:
        """One row for each series and step, one column for each output."""
        layout, steps = self.layout, np.arange(forecast.shape[1])
        times = self._times(np.add.outer(self.data.ends, steps))
        table: dict[Any, Any] = {layout.time_col: write_dates(times, layout.written)}
        if layout.kind == "long":
            table = {layout.id_col: self.ids.repeat(len(steps)), **table}
        outputs = {name: forecast[..., i].ravel() for i, name in enumerate(columns)}
        return pd.DataFrame(table | outputs)

    def _times(self, time_index: np.ndarray) -> pd.Index:
        """The labels of each series' time index (n_series, steps), series after series."""
        if not self.calendar.phases:
            return self.calendar.labels(time_index.ravel())
        phase, rows = self.calendar.phase_of(self.ids), np.arange(time_index.size).reshape(time_index.shape)
        calendars = self.calendar.of_phases
        parts = [calendar.labels(time_index[phase == i].ravel()) for i, calendar in enumerate(calendars)]
        order = np.concatenate([rows[phase == i].ravel() for i in range(len(calendars))])
        return parts[0].append(parts[1:])[np.argsort(order)]

    def _by_series(self, point: np.ndarray) -> pd.DataFrame | pd.Series:
        """One row for each step, one column for each series."""
        layout = self.layout
        labels = self.calendar.labels(self.data.ends[0] + np.arange(point.shape[1]))
        if layout.index is None:
            frame = pd.DataFrame(point.T, columns=self.ids)
            frame.insert(0, layout.time_col, write_dates(labels, layout.written))
            return frame
        index = _like(layout.index, labels, self.calendar, layout.written)
        if layout.kind == "series":
            return pd.Series(point[0], index=index, name=layout.target_col)
        return pd.DataFrame(point.T, index=index, columns=self.ids)

    def _by_output(self, forecast: np.ndarray, columns: Sequence[str]) -> pd.DataFrame:
        """One row for each step, one column for each series and output."""
        layout, (n_series, steps, n_outputs) = self.layout, forecast.shape
        if layout.kind == "series":
            names = list(columns)
        else:
            suffixes = [name.removeprefix(FORECAST) for name in columns]
            names = [f"{name}{suffix}" if suffix else name for name in self.ids.tolist() for suffix in suffixes]
            counts = Counter([*names, *([] if layout.time_col is None else [layout.time_col])])
            if clash := next((name for name in names if counts[name] > 1), None):
                raise ValueError(f"the forecast's column {clash!r} is there twice; rename the table's column.")
        dtype = self.ids.dtype if pd.api.types.is_string_dtype(self.ids.dtype) else object
        labels = pd.Index(names, dtype=dtype, name=self.ids.name, tupleize_cols=False)
        wide = replace(self, ids=labels, layout=replace(layout, kind="wide"))
        ends = replace(self.data, starts=self.data.starts[:1], lengths=self.data.lengths[:1])
        wide = replace(wide, data=ends)
        found: pd.DataFrame = wide._by_series(forecast.transpose(0, 2, 1).reshape(n_series * n_outputs, steps))
        return found

    def _to_backend(self, table: pd.DataFrame | pd.Series) -> Any:
        if self.layout.backend == "pandas":
            return table
        from .native import to_native  # loads narwhals, which pandas and NumPy do not need

        return to_native(table, self.layout)


def _like(index: pd.Index, labels: pd.Index, calendar: Calendar, written: str | None) -> pd.Index:
    """`labels` as the history's index was: its name, a range if it was one, with a freq if it had one, text if so."""
    if written is not None:
        return write_dates(labels, written).astype(index.dtype).rename(index.name)
    if isinstance(index, pd.RangeIndex):
        return pd.RangeIndex(int(labels[0]), int(labels[-1]) + calendar.span, calendar.span, name=index.name)
    if isinstance(index, pd.DatetimeIndex) and index.freq is not None:
        with contextlib.suppress(ValueError):  # a midnight that clocks skip fits no freq
            labels.freq = calendar.offset
    return labels.rename(index.name)
