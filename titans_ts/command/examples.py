"""The commands that need no table of one's own: published data sets and a demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from .bundle import command
from .options import Out, OutOrPicture, Running
from .running import note
from .writing import PICTURES, check_out, write

PANEL = "Try"
DAYS, LAST, HORIZON = 120, "2012-09-23", 48  # of the rentals: what is learned from, to when, and the hours forecast


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
    """Forecast two days of bicycle rentals in Washington, D.C., hour by hour, offline and in seconds.

    \b
    $ titans-ts demo
    $ titans-ts demo --out demo.png
    """
    check_out(output.out)
    from titans_ts.baselines import SeasonalNaive
    from titans_ts.datasets import load_dataset
    from titans_ts.forecaster import TitansForecaster

    rentals = load_dataset("bike_sharing").frame[["ds", "cnt"]]
    rentals = rentals[rentals["ds"] < LAST].reset_index(drop=True)[-24 * DAYS :]
    past, came = rentals[:-HORIZON], rentals[-HORIZON:]
    names: dict[str, Any] = dict(target_col="cnt", missing="interpolate")
    note(running, f"bicycle rentals of {DAYS} days, {len(past)} hours to learn from, the last {HORIZON} held out")
    model = TitansForecaster(horizon=HORIZON, lower=0, random_state=0, verbose=int(not running.quiet), **names)
    found = model.fit(past).predict(level=80)
    naive = SeasonalNaive(season=168, **names).fit(past).predict(HORIZON)
    error, other = (
        abs(each.set_index("ds").iloc[:, 0] - came.set_index("ds")["cnt"]).mean() for each in (found, naive)
    )
    note(running, f"mean absolute error {error:.1f} rentals an hour; repeating the week before, {other:.1f}")
    if output.out is None or output.out.suffix.lower() not in PICTURES:
        note(running, "`titans-ts demo --out demo.png` draws this")
    note(running, "with a table of your own: `titans-ts forecast sales.csv --level 80 --out forecast.png`")

    def draw() -> Any:
        from titans_ts.plots import plot_forecast

        return plot_forecast(past, found, actuals=came, last=168, target_col="cnt")

    write(found, output.out, draw)


def _listed() -> Any:
    import pandas as pd

    from titans_ts.datasets import SPECS
    from titans_ts.datasets.bike_sharing import BIKE_SHARING, FREQ, SPLIT

    rows = [(BIKE_SHARING.name, FREQ, SPLIT[-1], 1, "with the package")]
    rows += [(each.name, each.freq, each.rows, len(each.channels), each.addresses[0]) for each in SPECS.values()]
    return pd.DataFrame(rows, columns=["name", "freq", "rows", "series", "source"])
