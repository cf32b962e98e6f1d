"""The commands that need no table of one's own: published data sets and a demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from .bundle import command
from .options import Out, OutOrPicture, Running
from .running import note
from .writing import PICTURES, check_out, write

if TYPE_CHECKING:
    import pandas as pd

PANEL = "Try"
WEEK, END = 168, "2012-09-24"  # hours forecast, and the day before which they end
COVARIATES = ["temp", "hum", "windspeed", "weathersit", "holiday", "workingday"]


def add_examples(app: typer.Typer) -> None:
    """Add the commands `datasets` and `demo`."""
    for function in (datasets, demo):
        command(app, PANEL)(function)


def datasets(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="The data set to write; if left out, all are listed.")
    ] = None,
    root: Annotated[
        Path | None, Option(metavar="DIR", help="A folder with the files; it takes downloads, too.")
    ] = None,
    download: Annotated[bool, Option(help="Whether a file may be downloaded.")] = True,
    *,
    output: Out,
    running: Running,
) -> None:
    """List published data sets, or write one as a table.

    bike_sharing comes with the package; others are looked for in --root, in the folder that the environment variable
    TITANS_TS_DATA names, and are downloaded where they are in neither.

    \b
    $ titans-ts datasets
    $ titans-ts datasets ETTh1 --out etth1.csv
    $ titans-ts datasets ETTh1 | titans-ts forecast --level 80 --out forecast.png
    """
    check_out(output.out, pictures=False)
    if name is None:
        return write(_listed(), output.out)
    from titans_ts.datasets import load_dataset

    frame = load_dataset(name, root, download).frame
    write(frame.reset_index() if frame.index.name else frame, output.out)


def demo(*, output: OutOrPicture, running: Running) -> None:
    """Forecast a week of bicycle rentals in Washington, D.C., hour by hour, offline and in seconds.

    The forecast knows the weather of that week as it was, and says how far it is from what came.

    \b
    $ titans-ts demo
    $ titans-ts demo --out demo.png
    """
    check_out(output.out)
    from titans_ts.baselines import SeasonalNaive
    from titans_ts.datasets import load_dataset
    from titans_ts.forecaster import TitansForecaster

    hours = load_dataset("bike_sharing").frame[["ds", "cnt", *COVARIATES]]
    hours = hours[hours["ds"] < END].reset_index(drop=True)
    past, came = hours[:-WEEK], hours[-WEEK:]
    names: dict[str, Any] = dict(horizon=WEEK, target_col="cnt", missing="interpolate")
    note(running, f"bicycle rentals: {len(past)} hours to learn from, {WEEK} held out, with weather and working days")
    model = TitansForecaster(
        **names, future_cols=COVARIATES, calendar=["weekday"], lower=0, random_state=0, verbose=int(not running.quiet)
    )
    found = model.fit(past).predict(future=came, level=80)
    naive = SeasonalNaive(season=WEEK, **names).fit(past[["ds", "cnt"]]).predict()
    error, other = (_error(each, came) for each in (found, naive))
    note(running, f"mean absolute error {error:.1f} rentals an hour; repeating the week before, {other:.1f}")
    if output.out is None or output.out.suffix.lower() not in PICTURES:
        note(running, "`titans-ts demo --out demo.png` draws this")
    note(running, "with a table of your own: `titans-ts forecast sales.csv --level 80 --out forecast.png`")

    def draw() -> Any:
        from titans_ts.plots import plot_forecast

        return plot_forecast(past, found, actuals=came, last=WEEK, target_col="cnt")

    write(found, output.out, draw)


def _error(forecast: pd.DataFrame, came: pd.DataFrame) -> float:
    """The mean absolute error of the first forecast column."""
    times = came.set_index("ds")["cnt"]
    return float((forecast.set_index("ds").iloc[:, 0] - times).abs().mean())


def _listed() -> Any:
    import pandas as pd

    from titans_ts.datasets import SPECS
    from titans_ts.datasets.bike_sharing import BIKE_SHARING, FREQ, SPLIT

    rows = [(BIKE_SHARING.name, FREQ, SPLIT[-1], 1, "with the package")]
    rows += [(each.name, each.freq, each.rows, len(each.channels), each.addresses[0]) for each in SPECS.values()]
    return pd.DataFrame(rows, columns=["name", "freq", "rows", "series", "source"])
