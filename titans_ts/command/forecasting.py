"""The commands that fit, forecast and move a forecaster on."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .bundle import command
from .learning import columns_of, described, forecaster, load, without_covariates
from .options import (
    MODEL,
    TABLE,
    Columns,
    File,
    Format,
    Learning,
    ModelToRead,
    OutOrPicture,
    Running,
    Spread,
)
from .reading import STANDARD_INPUT, read_table
from .running import note
from .writing import check_out, write

if TYPE_CHECKING:
    import pandas as pd

    from titans_ts.forecaster import TitansForecaster

PANEL = "Forecast"
Future = Annotated[
    Path | None,
    Option(metavar="FILE", help="The columns --future-col of the steps to forecast.", rich_help_panel=TABLE),
]


def add_forecasting(app: typer.Typer) -> None:
    """Add the commands `forecast`, `fit`, `predict` and `update`."""
    for function in (forecast, fit, predict, update):
        command(app, PANEL)(function)


def forecast(
    file: File = STANDARD_INPUT,
    future: Future = None,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    spread: Spread,
    output: OutOrPicture,
    running: Running,
) -> None:
    """Forecast a table in one go: fit, and write the steps after its last row.

    The table is long (unique_id, ds, y), one series (ds, y), or wide: a column of dates and one for each series.

    \b
    $ cat sales.csv | titans-ts forecast --horizon 12
    $ titans-ts forecast sales.csv --level 80 --level 95 --out forecast.png
    $ titans-ts forecast shops.csv --id-col shop --time-col day --target-col sold
    $ titans-ts forecast sales.csv --future-col price --future prices.csv
    """
    check_out(output.out)
    _check_spread(spread)
    if learning.future_col and future is None:
        named = " and ".join(repr(name) for name in learning.future_col)
        raise typer.BadParameter(f"name a file with {named} of the steps to forecast.", param_hint="--future")
    table = read_table(file, format, columns)
    ahead = None if future is None else read_table(future, _whole(format), columns)
    model = _fitted(table, forecaster(columns, learning, running), running)
    found = model.predict(**_asked(spread), future=ahead)
    write(found, output.out, lambda: _draw(without_covariates(table, model), found, model, output), columns.time_col)


def fit(
    model: Annotated[
        Path, Option("--model", metavar="DIR", help="The folder to save the model in.", rich_help_panel=MODEL)
    ],
    file: File = STANDARD_INPUT,
    *,
    format: Format,
    columns: Columns,
    learning: Learning,
    running: Running,
) -> None:
    """Fit a model and save it in a folder, from which the other commands read it.

    A model that is there is replaced in one step. Nothing is written to standard output. Ctrl-C during training keeps
    the best model until then.

    \b
    $ titans-ts fit sales.csv --model sales.model
    $ titans-ts fit sales.csv --model sales.model --horizon 24 --freq h --set lower=0
    """
    from titans_ts.saving import check_folder

    check_folder(model)
    table = read_table(file, format, columns)
    fitted = _fitted(table, forecaster(columns, learning, running), running)
    fitted.save(model)
    note(running, f"saved to {model}")


def predict(
    model: ModelToRead,
    file: Annotated[
        Path | None,
        Argument(metavar="FILE", help="Forecast from the end of these rows instead; - is standard input."),
    ] = None,
    horizon: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Steps ahead; those that the model was fitted for if not given."),
    ] = None,
    future: Future = None,
    device: Annotated[str | None, Option(metavar="TEXT", help="cpu or cuda.", rich_help_panel=MODEL)] = None,
    *,
    format: Format,
    spread: Spread,
    output: OutOrPicture,
    running: Running,
) -> None:
    """Forecast with a model that `fit` saved.

    \b
    $ titans-ts predict --model sales.model
    $ titans-ts predict --model sales.model --horizon 48 --level 80 --out forecast.csv
    $ titans-ts predict --model sales.model --level 80 --out forecast.png
    $ titans-ts predict --model sales.model --future prices.csv
    """
    check_out(output.out)
    _check_spread(spread)
    loaded = load(model, running, device)
    columns = columns_of(loaded)
    table = None if file is None else read_table(file, format, columns)
    ahead = None if future is None else read_table(future, _whole(format), columns)
    found = loaded.predict(horizon, table, **_asked(spread), future=ahead)
    history = _rows_of(loaded) if table is None else without_covariates(table, loaded)
    write(found, output.out, lambda: _draw(history, found, loaded, output), columns.time_col)


def update(model: ModelToRead, file: File = STANDARD_INPUT, *, format: Format, running: Running) -> None:
    """Move a saved model on to the end of further rows, without training, and save it again.

    The rows follow those of each series that the model has seen. Where an error ends the command, the model stays as it
    was.

    \b
    $ titans-ts update --model sales.model today.csv
    $ cat today.csv | titans-ts update --model sales.model
    """
    loaded = load(model, running)
    table = read_table(file, format, columns_of(loaded))
    loaded.update(table).save(model)
    note(running, f"read {len(table)} rows; saved to {model}")


def _fitted(table: pd.DataFrame, model: TitansForecaster, running: Running) -> TitansForecaster:
    begun = time.perf_counter()
    model.fit(table)
    note(running, f"fitted {described(model)}, in {time.perf_counter() - begun:.1f} s")
    return model


def _whole(format: Format) -> Format:
    """The format of a further file, of which no column is left out."""
    return replace(format, drop=None)


def _check_spread(spread: Spread) -> None:
    if spread.level and spread.quantile:
        raise typer.BadParameter("pass --level or --quantile, not both.", param_hint="--quantile")


def _asked(spread: Spread) -> dict[str, Any]:
    return {"level": spread.level or None, "quantiles": spread.quantile or None}


def _rows_of(model: TitansForecaster) -> Any:
    """The last rows that a model has seen, as far as it keeps them, laid out as its table was."""
    panel = model.fitted_.panel
    return panel.write_rows(panel.data.values, model.target_col)


def _draw(history: Any, found: pd.DataFrame, model: TitansForecaster, output: OutOrPicture) -> Any:
    from titans_ts.plots import plot_forecast

    from .pictures import chosen

    ids = chosen(output.series, found, model.id_col)
    names: dict[str, Any] = dict(id_col=model.id_col, time_col=model.time_col, target_col=model.target_col)
    return plot_forecast(history, found, ids=ids, **names)
