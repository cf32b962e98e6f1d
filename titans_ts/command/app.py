"""The command line itself: `titans-ts`, and what it says of itself."""

from __future__ import annotations

from typing import Annotated

import typer

from titans_ts import __version__

from .bundle import flowing
from .evaluating import add_evaluating
from .examples import add_examples
from .forecasting import add_forecasting
from .searching import add_searching
from .watching import add_watching

NAME = "titans-ts"
HELP = """
Forecast time series, from CSV or Parquet to CSV, Parquet or a picture.

\b
$ cat sales.csv | titans-ts forecast --horizon 12
$ titans-ts demo

A table has a column of dates and one for each series, or the columns unique_id, ds and y: names of series, times and
values. Results go to standard output, progress and notes to standard error.

Exit codes: 0 all went well, 1 the data or the model are wrong, 2 the command was called wrongly, 130 Ctrl-C.
"""


def make_app() -> typer.Typer:
    """The application with its commands."""
    app = typer.Typer(
        name=NAME,
        help=flowing(HELP),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def titans_ts(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
        ] = False,
    ) -> None: ...

    for add in (add_forecasting, add_watching, add_evaluating, add_searching, add_examples):
        add(app)
    return app


def main() -> None:
    """Run the command line."""
    make_app()(prog_name=NAME)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit
