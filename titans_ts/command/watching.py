"""The command that finds anomalous rows."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from .bundle import command
from .forecasting import PANEL
from .learning import columns_of, forecaster, load, without_covariates
from .options import MODEL, Columns, File, Format, Learning, OutOrPicture, Running
from .reading import STANDARD_INPUT, read_table
from .running import note
from .writing import PICTURES, check_out, write

if TYPE_CHECKING:
    import pandas as pd

    from titans_ts.forecaster import TitansForecaster


def add_watching(app: typer.Typer) -> None:
    """Add the command `anomalies`."""
    command(app, PANEL)(anomalies)


def anomalies(
    file: File = STANDARD_INPUT,
    model: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The folder of a model that `fit` wrote; if not given, one is fitted to the rows themselves.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    alpha: Annotated[
        float, Option(metavar="SHARE", help="The rate of false alarms, between 0 and 1.", rich_help_panel=MODEL)
    ] = 0.01,
    every: Annotated[bool, Option("--all", help="Write every row, not the anomalous ones alone.")] = False,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    output: OutOrPicture,
    running: Running,
) -> None:
    """Write the rows whose surprise is among the largest of those before them.

    Surprise is how far a row is from what was forecast for it a step before, over the usual size of such errors. A
    picture shows one series, --series, with all its rows. A model that is given says what the columns are, and how it
    was fitted.

    \b
    $ titans-ts fit last-year.csv --model sensors.model
    $ titans-ts anomalies today.csv --model sensors.model --alpha 0.001
    $ titans-ts anomalies sensor.csv --out anomalies.png
    """
    check_out(output.out)
    if not 0 < alpha < 1:
        raise typer.BadParameter(f"it must lie between 0 and 1, got {alpha:g}.", param_hint="--alpha")
    if model is not None:
        _check_nothing_to_fit(columns, learning)
        watcher = load(model, running, learning.device)
        columns = columns_of(watcher)
        table = read_table(file, format, columns)
    else:
        table = read_table(file, format, columns)
        watcher = forecaster(columns, learning, running).fit(table)
        note(running, "fitted to the rows themselves, which surprise it less than rows to come would")
    found = watcher.anomalies(table, alpha=alpha)
    note(running, f"{int(found['anomaly'].sum())} of {len(found)} rows are anomalous")
    is_picture = output.out is not None and output.out.suffix.lower() in PICTURES
    shown = found if every or is_picture else found[found["anomaly"]].drop(columns="anomaly").reset_index(drop=True)
    write(shown, output.out, lambda: _draw(without_covariates(table, watcher), found, watcher, output))


def _check_nothing_to_fit(*options: Columns | Learning) -> None:
    """Refuse options that a model which is fitted already would leave unread."""
    for each in options:
        for field in fields(each):
            if field.name != "device" and getattr(each, field.name) not in (field.default, []):
                name = "--" + field.name.replace("_", "-")
                raise typer.BadParameter("it is of a model that is fitted; leave it out, or --model.", param_hint=name)


def _draw(rows: pd.DataFrame, found: pd.DataFrame, model: TitansForecaster, output: OutOrPicture) -> Any:
    from titans_ts.plots import plot_surprise

    from .pictures import chosen

    ids = chosen(output.series, found, str(found.columns[0]))
    if ids is not None and len(ids) > 1:
        raise ValueError(f"`series` must name one series, for a picture of surprise shows one, got {ids}.")
    names: dict[str, Any] = dict(id_col=model.id_col, time_col=model.time_col, target_col=model.target_col)
    found = found.set_axis([model.id_col, model.time_col, *found.columns[2:]], axis=1)  # a wide table has other names
    return plot_surprise(rows, found, series_id=None if ids is None else ids[0], **names)
