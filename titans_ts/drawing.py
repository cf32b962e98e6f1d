"""Figures and axes, and how curves look on them: the colours of Okabe and Ito (2008), a light grid, readable dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .tables.curves import Forecast
from .tables.layouts import FORECAST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
LETTERS = 13  # of a legend in an inch
WIDTH, HEIGHT = 8.0, 3.4  # inches of one series; less of each in a grid


def grid(
    n: int,
    ax: Any,
    n_there: int | None = None,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    stacked: tuple[int, ...] | None = None,
) -> tuple[list[Axes], Figure | None]:
    """`n` axes, those given or of a new figure, which is returned too; `stacked` has their relative heights."""
    if ax is not None:
        axes = list(np.ravel(np.array(ax, dtype=object)))
        if len(axes) != n:
            raise ValueError(f"`ax` must have {n} axes, one for each that is drawn, got {len(axes)}.")
        return axes, None
    pyplot = _pyplot()
    if stacked is not None:
        how: dict[str, Any] = dict(figsize=size, height_ratios=stacked, sharex=True)
        columns, rows = 1, n
    else:
        columns = 1 if n == 1 else 2 if n in (2, 4) else 3
        rows = -(-n // columns)
        how = dict(figsize=size if n == 1 else (4.0 * columns, 2.5 * rows + 0.4))
    figure, cells = pyplot.subplots(rows, columns, squeeze=False, layout="constrained", **how)
    for empty in cells.flat[n:]:
        empty.remove()
    if n_there is not None and n_there > n:
        figure.suptitle(f"{n} of {n_there} series", x=0.01, horizontalalignment="left", fontsize=9, color="0.35")
    return list(cells.flat[:n]), figure


def draw_models(axes: Axes, rows: pd.DataFrame, models: dict[str, Forecast], labels: bool = True) -> None:
    """Point forecasts and intervals, the wider ones lighter."""
    at = positions(rows.index)
    for (name, model), colour in zip(models.items(), colours(len(models)), strict=True):
        first = f"{name}, " if len(models) > 1 else ""
        for i, (level, (low, high)) in enumerate(model.intervals.items()):
            label = f"{first}{level:g} % interval" if labels else None
            shade = 0.18 + 0.16 * i / max(len(model.intervals) - 1, 1)
            ends = (rows[end].to_numpy(dtype=np.float64) for end in (low, high))
            if len(at) == 1:  # which has an interval, but no area
                axes.vlines(at, *ends, color=colour, alpha=shade, linewidth=6, label=label or "_")
            else:
                axes.fill_between(at, *ends, color=colour, alpha=shade, linewidth=0, label=label)
        for share, column in model.quantiles.items():
            label = f"{first}quantile {share:g}" if labels else None
            draw_line(axes, rows[column], colour, label, width=0.9, style="--")
        if model.point is not None:
            label = str(name if name != FORECAST or len(models) > 1 else "forecast") if labels else None
            draw_line(axes, rows[model.point], colour, label, width=1.7)


def colours(n: int) -> list[str]:
    """A colour for each of `n` curves; from the seventh on they come again."""
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def draw_line(axes: Axes, values: pd.Series, colour: str, label: str | None, width: float, style: Any = "-") -> None:
    """Values over their times; a single one as a dot."""
    y = values.to_numpy(dtype=np.float64)
    how: dict[str, Any] = dict(color=colour, linewidth=width, linestyle=style, label=label)
    if len(y) == 1:
        how |= dict(marker="o", markersize=4)
    axes.plot(positions(values.index), y, **how)


def positions(times: pd.Index) -> np.ndarray:
    """Times as matplotlib takes them; those of a zone in UTC, from which the axis is labelled in the zone."""
    if isinstance(times, pd.DatetimeIndex) and times.tz is not None:
        times = times.tz_convert(None)
    found: np.ndarray = times.to_numpy()
    return found


def finish(axes: Axes, times: pd.Index | None, title: str | None) -> None:
    """A light grid, readable dates, and the name of the series."""
    axes.grid(color="0.9", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.01)
    if title is not None:
        axes.set_title(title, loc="left", fontsize=10)
    if isinstance(times, pd.DatetimeIndex):
        from matplotlib import dates

        locator = dates.AutoDateLocator(tz=times.tz, minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=times.tz))


def add_legend(axes: Sequence[Axes], own: Figure | None) -> None:
    """One legend for all: below the axes of a figure of ours, else in the first of those given."""
    handles = {label: handle for each in axes for handle, label in zip(*each.get_legend_handles_labels(), strict=True)}
    if own is None:
        axes[0].legend(handles.values(), handles, loc="best", fontsize=8, framealpha=0.8)
    else:
        room = LETTERS * own.get_figwidth()
        lengths = [len(str(label)) + 6 for label in handles]
        columns = len(lengths) if sum(lengths) <= room else max(1, int(room // max(lengths)))
        own.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def one_or_all(axes: list[Axes]) -> Any:
    """The axes of one series as they are, of several as an array."""
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "pictures need matplotlib, which is not installed. Install it by `pip install titans-ts[plot]`."
        ) from error
    return pyplot
