"""The options that several commands share, in dataclasses that a command takes whole; see `bundle`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

TABLE, MODEL, WINDOWS, OUTPUT = "Table", "Model", "Backtest", "Output"

# What the estimator, the backtest and the reader call what an option gives; others have the option's own name.
PARAMETERS = {
    "random_state": "--seed",
    "static_cols": "--static-col",
    "past_cols": "--past-col",
    "future_cols": "--future-col",
    "quantiles": "--quantile",
    "h": "--horizon",
    "n_windows": "--windows",
    "step_size": "--step",
    "n_jobs": "--jobs",
    "n_trials": "--trials",
    "path": "--model",
    "ids": "--series",
    "series_id": "--series",
    "df": "FILE",
    "rows": "FILE",
}

File = Annotated[
    Path,
    Argument(metavar="FILE", help="CSV or Parquet; standard input if it is - or left out.", show_default=False),
]
ModelToRead = Annotated[
    Path, Option("--model", metavar="DIR", help="The folder of a model that `fit` wrote.", rich_help_panel=MODEL)
]


@dataclass(frozen=True)
class Running:
    """How much a command says, and whether an error shows where it came from."""

    quiet: Annotated[
        bool, Option("--quiet", "-q", help="No progress and no notes on standard error.", rich_help_panel=OUTPUT)
    ] = False
    traceback: Annotated[bool, Option("--traceback", envvar="TITANS_TS_TRACEBACK", hidden=True)] = False


@dataclass(frozen=True)
class Format:
    """How text is written in the files read, as `read_file` takes it."""

    sep: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="What separates the columns of a CSV file; if left out a comma, in .tsv a tab.",
            rich_help_panel=TABLE,
        ),
    ] = None
    decimal: Annotated[str, Option(metavar="TEXT", help="The mark before decimals.", rich_help_panel=TABLE)] = "."
    thousands: Annotated[
        str | None, Option(metavar="TEXT", help="The mark between thousands.", rich_help_panel=TABLE)
    ] = None
    date_format: Annotated[
        str | None,
        Option(metavar="TEXT", help="How dates are written, such as %d.%m.%Y or %YQ%q.", rich_help_panel=TABLE),
    ] = None
    tz: Annotated[
        str | None, Option(metavar="ZONE", help="The zone of dates with offsets from UTC.", rich_help_panel=TABLE)
    ] = None
    drop: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A column to leave out; may be repeated.", rich_help_panel=TABLE),
    ] = None


@dataclass(frozen=True)
class Columns:
    """The columns of a long table."""

    id_col: Annotated[
        str, Option(metavar="COLUMN", help="Names of series, where there are several.", rich_help_panel=TABLE)
    ] = "unique_id"
    time_col: Annotated[str, Option(metavar="COLUMN", help="Times.", rich_help_panel=TABLE)] = "ds"
    target_col: Annotated[str, Option(metavar="COLUMN", help="What is forecast.", rich_help_panel=TABLE)] = "y"


@dataclass(frozen=True)
class Learning:
    """The parameters of a forecaster that is fitted."""

    horizon: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Steps ahead; by the frequency if not given.", rich_help_panel=MODEL),
    ] = None
    lookback: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Steps read; by the frequency if not given.", rich_help_panel=MODEL),
    ] = None
    freq: Annotated[
        str | None,
        Option(metavar="TEXT", help="Distance of rows: h, 15min, D, MS; found if not given.", rich_help_panel=MODEL),
    ] = None
    missing: Annotated[
        Literal["error", "interpolate", "ffill"],
        Option(help="What becomes of missing values and rows.", rich_help_panel=MODEL),
    ] = "error"
    static_col: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A covariate that each series has one value of.", rich_help_panel=MODEL),
    ] = None
    past_col: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A covariate known up to the last row.", rich_help_panel=MODEL),
    ] = None
    future_col: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A covariate known ahead, which --future gives.", rich_help_panel=MODEL),
    ] = None
    calendar: Annotated[
        list[str] | None,
        Option(metavar="FEATURE", help="weekday, month, holidays:US, ...; may be repeated.", rich_help_panel=MODEL),
    ] = None
    time_limit: Annotated[
        float | None, Option(metavar="SECONDS", help="The time that a fit may take.", rich_help_panel=MODEL)
    ] = None
    seed: Annotated[int, Option(metavar="N", min=0, help="Two fits of one seed are equal.", rich_help_panel=MODEL)] = 0
    device: Annotated[
        str | None, Option(metavar="TEXT", help="cpu or cuda; a GPU where there is one.", rich_help_panel=MODEL)
    ] = None
    set: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=VALUE",
            help="Any other parameter of TitansForecaster, such as max_epochs=10 or lower=0; may be repeated.",
            rich_help_panel=MODEL,
        ),
    ] = None


@dataclass(frozen=True)
class Spread:
    """What is forecast beside the point."""

    level: Annotated[
        list[float] | None,
        Option(metavar="PERCENT", min=0, max=100, help="An interval; may be repeated.", rich_help_panel=OUTPUT),
    ] = None
    quantile: Annotated[
        list[float] | None,
        Option(metavar="SHARE", min=0, max=1, help="A quantile, such as 0.9; may be repeated.", rich_help_panel=OUTPUT),
    ] = None


@dataclass(frozen=True)
class Windows:
    """The windows of a backtest."""

    windows: Annotated[int, Option(metavar="N", min=1, help="Forecasts of each series.", rich_help_panel=WINDOWS)] = 3
    step: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Rows between forecasts; a horizon if not given.",
            rich_help_panel=WINDOWS,
        ),
    ] = None
    jobs: Annotated[int, Option(metavar="N", help="Processes, -1 for all cores.", rich_help_panel=WINDOWS)] = 1


def _out(kinds: str) -> Any:
    text = f"{kinds}; CSV on standard output if not given."
    return Option("--out", "-o", metavar="FILE", help=text, rich_help_panel=OUTPUT)


@dataclass(frozen=True)
class Out:
    """Where a table goes."""

    out: Annotated[Path | None, _out(".csv or .parquet")] = None


@dataclass(frozen=True)
class OutOrPicture:
    """Where a table or its picture goes."""

    out: Annotated[Path | None, _out(".csv, .parquet, or a picture: .png, .svg, .pdf")] = None
    series: Annotated[
        list[str] | None,
        Option(
            metavar="ID",
            help="A series of the picture; may be repeated.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
