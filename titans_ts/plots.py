"""Pictures of forecasts, backtests, training, coverage and surprise, by matplotlib: the extra `plot`.

Axes in, axes out: each function draws on `ax` if given, else on a figure of its own, and returns the axes, from which
`axes.figure.savefig` makes a file. Settings of matplotlib stay as they are. Colours are those of Okabe and Ito (2008),
which colour-blind people can tell apart.
"""

from __future__ import annotations

import reprlib
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .drawing import (
    COLOURS,
    WIDTH,
    add_legend,
    colours,
    draw_line,
    draw_models,
    finish,
    grid,
    one_or_all,
    positions,
)
from .tables.curves import Curves, Forecast, as_pandas, forecasts_of, has_times, kind_of, read_curves, times_of
from .tables.layouts import FORECAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .training.history import History

__all__ = ["plot_backtest", "plot_coverage", "plot_forecast", "plot_gates", "plot_surprise", "plot_training"]

HISTORY, TRUTH, ALARM = "0.45", "0.15", COLOURS[1]
MOST_SERIES = 12  # drawn where `ids` does not say which
LAST = 3  # times the steps forecast, that are shown of the history


def plot_forecast(
    history: Any,
    forecast: Any,
    *,
    actuals: Any = None,
    ids: Sequence[Hashable] | None = None,
    models: Sequence[str] | None = None,
    last: int | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    ax: Any = None,
) -> Any:
    """Draw the end of a history and the forecast after it, with its intervals.

    Parameters
    ----------
    history : table of a kind that `TitansForecaster.fit` takes
    forecast : table
        What `predict` returned for it: point forecasts, of one model or several, and intervals of any number of levels
        (`Titans-lo-80`, `Titans-hi-80`) or quantiles (`Titans-q0.1`).
    actuals : table like `history`, optional
        What came; only its rows at the forecast's times are drawn. Those of an array follow the history.
    ids : sequence, optional
        The series to draw; the first 12 of the forecast if None.
    models : sequence of str, optional
        The models to draw, of all those in the forecast.
    last : int, optional
        Rows of the history to show; three times as many as are forecast if None.
    id_col, time_col, target_col : str
        Columns of a long table.
    ax : Axes or sequence of Axes, optional
        One for each series; a new figure if None.

    Returns
    -------
    Axes, or ndarray of Axes where several series are drawn

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    ValueError
        If a series of `ids` or a model of `models` is not in the forecast, or `ax` has another number of axes.

    Examples
    --------
    >>> from titans_ts import load_dataset
    >>> hours = load_dataset("bike_sharing").frame[["ds", "cnt"]]
    >>> week = hours[-168:].rename(columns={"cnt": "last week again"})
    >>> week["ds"] += pd.Timedelta(days=7)
    >>> axes = plot_forecast(hours, week, time_col="ds", target_col="cnt")
    >>> axes.get_legend_handles_labels()[1]
    ['history', 'last week again']
    >>> axes.figure.savefig("forecast.png")  # doctest: +SKIP
    """
    if last is not None and last < 1:
        raise ValueError(f"`last` must be 1 or more, got {last}.")
    names = dict(id_col=id_col, time_col=time_col)
    kind = kind_of(history, id_col, time_col, [target_col])
    pasts = read_curves(history, kind, **names, value=target_col)
    ahead = read_curves(forecast, kind, **names, value=FORECAST)
    truths: Curves = {} if actuals is None else read_curves(actuals, kind, **names, value=target_col)
    chosen = _chosen(ids, ahead, "forecast")
    axes, own = grid(len(chosen), ax, len(ahead) if ids is None else None)
    for each, series in zip(axes, chosen, strict=True):
        past, future = pasts.get(series), ahead[series]
        if past is not None:
            if not has_times(forecast, time_col):
                future = _after(past, future)
            shown = past[target_col].dropna().iloc[-(last or LAST * len(future)) :]
            draw_line(each, shown, HISTORY, "history", width=1.2)
            each.axvline(positions(future.index[:1])[0], color="0.75", linewidth=0.8)
        if series in truths:
            came = truths[series]
            if past is not None and not has_times(actuals, time_col):
                came = _after(past, came)
            came = came[target_col].reindex(future.index)
            draw_line(each, came, TRUTH, "actual", width=1.2, style=(0, (2, 1.2)))
        draw_models(each, future, _models(models, future.columns))
        finish(each, future.index, None if series is None else str(series))
    add_legend(axes, own)
    return one_or_all(axes)


def plot_backtest(
    frame: Any,
    *,
    ids: Sequence[Hashable] | None = None,
    models: Sequence[str] | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    cutoff_col: str = "cutoff",
    ax: Any = None,
) -> Any:
    """Draw what came and the forecast of each window of a backtest; every second window is shaded.

    Parameters
    ----------
    frame : DataFrame
        As `cross_validation` returns it: id, if there are several series, time, cutoff, what came, and the columns of
        one or more models.
    ids, models, id_col, time_col, target_col, ax
        As `plot_forecast` takes them.
    cutoff_col : str
        The last time that a forecast knew.

    Returns
    -------
    Axes, or ndarray of Axes where several series are drawn

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    ValueError
        If the frame lacks the times, the cutoff or what came, or as `plot_forecast`.
    """
    curves = _long_curves(frame, (time_col, target_col, cutoff_col), id_col, time_col)
    chosen = _chosen(ids, curves, "frame")
    axes, own = grid(len(chosen), ax, len(curves) if ids is None else None)
    for each, series in zip(axes, chosen, strict=True):
        rows = curves[series]
        came = rows[target_col][~rows.index.duplicated()]
        draw_line(each, came, TRUTH, "actual", width=1.2)
        found = _models(models, _numeric(rows, target_col, cutoff_col))
        for i, (cutoff, window) in enumerate(rows.groupby(cutoff_col)):
            begin, end = positions(times_of(pd.Index([cutoff]))), positions(window.index[-1:])
            each.axvline(begin[0], color="0.5", linewidth=0.8, linestyle=":", label=None if i else "cutoff")
            if i % 2:
                each.axvspan(begin[0], end[0], color="0.5", alpha=0.09, linewidth=0, zorder=0)
            draw_models(each, window, found, labels=not i)
        finish(each, rows.index, None if series is None else str(series))
    add_legend(axes, own)
    return one_or_all(axes)


def plot_training(history: History, *, ax: Axes | None = None) -> Axes:
    """Draw the losses of a training by epoch, and which weights were kept.

    Parameters
    ----------
    history : History
        The `history_` of a fitted forecaster. Its two losses are of different scales: see `Evaluation`.
    ax : Axes, optional
        A new figure if None.

    Returns
    -------
    Axes

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    (axes,), own = grid(1, ax)
    table = pd.DataFrame(history.evaluations).set_index("epoch")
    for name, label, colour in (
        ("train_loss", "training loss", COLOURS[1]),
        ("validation_loss", "validation loss", COLOURS[0]),
    ):
        loss = table[name].dropna()
        if len(loss):
            axes.plot(loss.index, loss, color=colour, linewidth=1.6, marker="o", markersize=3.5, label=label)
    best = history.best.epoch
    what = "the initialisation" if history.best is history.evaluations[0] else f"epoch {best:g}"
    axes.axvline(best, color="0.5", linewidth=0.9, linestyle="--", label=f"kept: {what}")
    axes.set(xlabel="epoch", ylabel="loss")
    finish(axes, None, f"ended: {history.stopped}")
    axes.set_xlim(-0.02 * max(table.index[-1], 1), 1.02 * max(table.index[-1], 1))  # also of an initialisation alone
    add_legend([axes], own)
    return axes


def plot_coverage(
    frame: Any,
    *,
    models: Sequence[str] | None = None,
    target_col: str = "y",
    ax: Axes | None = None,
) -> Axes:
    """Draw how many of the values lie in the intervals that should hold them, by level and model.

    Parameters
    ----------
    frame : DataFrame
        What came, and intervals (`Titans-lo-80`, `Titans-hi-80`) or pairs of quantiles of one or more models, as
        `cross_validation` returns them. Rows where any of these is missing are left out.
    models : sequence of str, optional
        The models to draw.
    target_col : str
        The column of what came.
    ax : Axes, optional
        A new figure if None.

    Returns
    -------
    Axes
        Nominal levels and empirical coverage, both in per cent.

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    ValueError
        If the frame has no column `target_col`, no interval, or no row with all of them.
    """
    table = as_pandas(frame)
    _check_columns(table, (target_col,))
    found = {name: each for name, each in _models(models, _numeric(table, target_col)).items() if each.intervals}
    if not found:
        raise ValueError(
            f"`frame` must have the two ends of an interval, as 'Titans-lo-80' and 'Titans-hi-80', got the columns "
            f"{reprlib.repr(list(table))}. Ask for them with `level`."
        )
    (axes,), own = grid(1, ax, size=(4.6, 4.6))
    axes.plot([0, 100], [0, 100], color="0.5", linewidth=0.9, linestyle="--", label="as it should be")
    for (name, model), colour in zip(found.items(), colours(len(found)), strict=True):
        levels, shares = sorted(model.intervals), []
        for level in levels:
            ends = table[[target_col, *model.intervals[level]]].dropna()
            if ends.empty:
                raise ValueError(f"`frame` has no row with {target_col!r} and the {level:g} % interval of {name!r}.")
            y, low, high = ends.to_numpy(dtype=np.float64).T
            shares.append(100 * float(((low <= y) & (y <= high)).mean()))
        axes.plot(levels, shares, color=colour, linewidth=1.4, marker="o", markersize=5, label=name)
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="nominal level, %", ylabel="empirical coverage, %")
    axes.set_aspect("equal")
    finish(axes, None, None)
    add_legend([axes], own)
    return axes


def plot_surprise(
    df: Any,
    surprise: Any,
    *,
    series_id: Hashable | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    target_col: str = "y",
    ax: Sequence[Axes] | None = None,
) -> np.ndarray:
    """Draw a series, and below it the surprise of its rows.

    Parameters
    ----------
    df : table of a kind that `TitansForecaster.fit` takes
    surprise : table
        What `surprise(df)` or `anomalies(df)` returned; with the latter the anomalous rows are marked.
    series_id : hashable, optional
        The series to draw, where there are several.
    id_col, time_col, target_col : str
        Columns of a long table.
    ax : sequence of two Axes, optional
        For the series and for the surprise; a new figure if None.

    Returns
    -------
    ndarray of two Axes

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    ValueError
        If there are several series and `series_id` is none of them.
    """
    names = dict(id_col=id_col, time_col=time_col)
    values = read_curves(df, kind_of(df, id_col, time_col, [target_col]), **names, value=target_col)
    found = read_curves(surprise, kind_of(surprise, id_col, time_col, ["surprise"]), **names, value="surprise")
    if series_id is None and len(values) > 1:
        raise ValueError(f"`series_id` must be one of {reprlib.repr(list(values))}, as there are several series.")
    series = next(iter(values)) if series_id is None else series_id
    if series not in values:
        raise ValueError(f"`series_id` must be one of {reprlib.repr(list(values))}, got {series_id!r}.")
    rows, value = found[series if series in found else next(iter(found))], values[series][target_col]
    axes, own = grid(2, ax, size=(WIDTH, 4.6), stacked=(2, 1))
    top, below = axes
    draw_line(top, value, HISTORY, "history" if series is None else str(series), width=1.1)
    draw_line(below, rows["surprise"], COLOURS[0], "surprise", width=1.0)
    below.axhline(1, color="0.5", linewidth=0.9, linestyle="--", label="an error of the usual size")
    if "anomaly" in rows:
        alarms = rows.index[rows["anomaly"].to_numpy(dtype=bool)]
        marks: dict[str, Any] = dict(color=ALARM, linestyle="none", marker="o", markersize=5, zorder=3)
        top.plot(positions(alarms), value.reindex(alarms), label="anomalous", **marks)
        below.plot(positions(alarms), rows["surprise"].reindex(alarms), **marks)
    below.set_ylim(bottom=0)
    below.set_ylabel("surprise")
    for each in axes:
        finish(each, rows.index, None)
    add_legend(axes, own)
    return np.array(axes)


def plot_gates(
    gates: Any,
    *,
    ids: Sequence[Hashable] | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
    ax: Any = None,
) -> Any:
    """Draw the shares of what the long-term memory reads that its gate lets through, over time.

    Parameters
    ----------
    gates : DataFrame
        What `TitansForecaster.gates` returned: a column for each part of a forecast.
    ids, id_col, time_col, ax
        As `plot_forecast` takes them.

    Returns
    -------
    Axes, or ndarray of Axes where several series are drawn

    Raises
    ------
    ModuleNotFoundError
        If matplotlib is not installed.
    ValueError
        If a series of `ids` is not there, or `ax` has another number of axes.
    """
    curves = _long_curves(gates, (time_col,), id_col, time_col)
    chosen = _chosen(ids, curves, "gates")
    axes, own = grid(len(chosen), ax, len(curves) if ids is None else None)
    for each, series in zip(axes, chosen, strict=True):
        shares = curves[series]
        for name, colour in zip(shares, colours(shares.shape[1]), strict=True):
            draw_line(each, shares[name], colour, str(name), width=1.5)
        each.set_ylim(-0.03, 1.03)
        each.set_ylabel("share of memory")
        finish(each, shares.index, None if series is None else str(series))
    add_legend(axes, own)
    return one_or_all(axes)


def _chosen(ids: Sequence[Hashable] | None, curves: Curves, name: str) -> list[Hashable]:
    if not any(map(len, curves.values())):
        raise ValueError(f"`{name}` has no rows.")
    if ids is None:
        return list(curves)[:MOST_SERIES]
    ids = _listed("ids", ids)
    if missing := [each for each in ids if each not in curves]:
        raise ValueError(f"`ids` must name series of `{name}`, got {reprlib.repr(missing)} beside {list(curves)[:5]}.")
    return ids


def _models(models: Sequence[str] | None, columns: Sequence[Hashable] | pd.Index) -> dict[str, Forecast]:
    found = forecasts_of(columns)
    if models is None:
        return found
    models = _listed("models", models)
    if missing := [name for name in models if name not in found]:
        raise ValueError(f"`models` must be among {list(found)}, got {missing}.")
    return {name: found[name] for name in models}


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not np.iterable(given) or not (listed := list(given)):
        raise ValueError(f"`{name}` must be a list of one name or more, got {given!r}; pass a list, such as ['A'].")
    return listed


def _long_curves(frame: Any, needed: tuple[str, ...], id_col: str, time_col: str) -> Curves:
    """The curves of a table that is long, or of one series beside its times."""
    kind = kind_of(frame, id_col, time_col, needed[1:])
    kind = "single" if kind == "wide" else kind
    curves = read_curves(frame, kind, id_col=id_col, time_col=time_col, value="")
    for rows in curves.values():
        _check_columns(rows, tuple(name for name in needed if name != time_col))
    return curves


def _check_columns(table: pd.DataFrame, needed: tuple[str, ...]) -> None:
    if missing := [name for name in needed if name not in table]:
        raise ValueError(f"the table must have the columns {missing}, got {reprlib.repr(list(table))}.")


def _numeric(table: pd.DataFrame, *without: str) -> list[Hashable]:
    return [name for name in table if name not in without and pd.api.types.is_numeric_dtype(table[name])]


def _after(past: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without times behind the past."""
    return rows.set_axis(rows.index + len(past), axis=0)
