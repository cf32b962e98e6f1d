"""The commands that say how good a forecaster is on a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from .bundle import command
from .learning import forecaster
from .options import (
    WINDOWS,
    Columns,
    File,
    Format,
    Learning,
    Out,
    OutOrPicture,
    Running,
    Spread,
    Windows,
)
from .reading import STANDARD_INPUT, read_table
from .running import note
from .writing import check_out, write

if TYPE_CHECKING:
    import pandas as pd

PANEL = "Evaluate and choose"


def add_evaluating(app: typer.Typer) -> None:
    """Add the commands `backtest` and `compare`."""
    for function in (backtest, compare):
        command(app, PANEL)(function)


def backtest(
    file: File = STANDARD_INPUT,
    refit: Annotated[
        bool, Option(help="Fit before each window; else once, and move on by update.", rich_help_panel=WINDOWS)
    ] = True,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    windows: Windows,
    level: Spread,
    output: OutOrPicture,
    running: Running,
) -> None:
    """Forecast the last rows of each series from the rows before, and score that.

    Standard output has the scores, means over series and windows: mase, mae, rmse and smape (between 0 and 1), and for
    each --level the share of values in the interval. --out keeps the forecasts that they are of, or their picture.

    \b
    $ titans-ts backtest sales.csv --horizon 12
    $ titans-ts backtest sales.csv --horizon 12 --windows 6 --level 80 --out windows.png
    """
    from titans_ts.backtest import Backtest
    from titans_ts.comparison import score

    check_out(output.out)
    if level.quantile:
        raise typer.BadParameter("a backtest is scored by --level.", param_hint="--quantile")
    model = forecaster(columns, learning, running)
    table = read_table(file, format, columns)
    cut = Backtest.of(model, table, learning.horizon, windows.windows, windows.step)
    frame = cut.run(model, refit, {"level": level.level} if level.level else {}, windows.jobs)
    names = dict(id_col=cut.panel.layout.id_col, time_col=cut.panel.layout.time_col)
    target = cut.panel.layout.target_col
    scores = score(frame.iloc[:, :4].assign(Titans=frame["Titans"]), cut).drop(columns="wins")
    for each in level.level or []:
        low, high = frame[f"Titans-lo-{each:g}"], frame[f"Titans-hi-{each:g}"]
        scores[f"coverage-{each:g}"] = frame[target].between(low, high).mean()
    note(running, f"windows: {windows.windows}, of {cut.h} steps each")
    if output.out is not None:
        write(frame, output.out, lambda: _draw(frame, output, target_col=target, **names))
    write(scores, None)


def compare(
    file: File = STANDARD_INPUT,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    windows: Windows,
    output: Out,
    running: Running,
) -> None:
    """Backtest a forecaster beside baselines: whether it earns its place on a table.

    A row for each model, the best first: mase, mae, rmse, smape (between 0 and 1), and the share of series that it is
    the best of. Each is fitted once and then moved on.

    \b
    $ titans-ts compare sales.csv --horizon 12 --windows 6
    """
    check_out(output.out, pictures=False)
    model = forecaster(columns, learning, running)
    table = read_table(file, format, columns)
    how: dict[str, Any] = dict(n_windows=windows.windows, step_size=windows.step, n_jobs=windows.jobs)
    write(model.compare(table, learning.horizon, **how), output.out)


def _draw(frame: pd.DataFrame, output: OutOrPicture, **names: Any) -> Any:
    from titans_ts.plots import plot_backtest

    from .pictures import chosen

    return plot_backtest(frame, ids=chosen(output.series, frame, names["id_col"]), **names)
