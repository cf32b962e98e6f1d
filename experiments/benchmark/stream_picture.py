"""A picture of a stream: `python experiments/benchmark/stream_picture.py`.

A model is fitted to the first 300 days of ETTm1 and goes on for 90 more, a day at a time: it forecasts the day ahead,
then `update` tells it what came. Drawn are one series with the forecasts issued along the way, of the model and of its
core alone; the surprise of each row; and the share of what the memory reads that its gate lets through, of the smooth
and of the seasonal part of a forecast. The mean squared errors of all seven series over these days are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.estimator import closed_form
from record import RESULTS
from titans_ts import TitansForecaster, load_dataset
from titans_ts.drawing import COLOURS
from titans_ts.plots import plot_gates, plot_surprise

DAY = 96  # rows
FITTED, STREAMED = 300, 90  # days
SHOWN = 16  # of the last days, in the upper two panels
SERIES = "HULL"


class Stream(NamedTuple):
    """What happened to a frame (rows, series) that came a day at a time."""

    forecast: pd.DataFrame  # (rows, series) each day's, issued at its midnight
    core: pd.DataFrame  # the same of a model that knows its window alone
    surprise: pd.DataFrame  # (rows, series)
    gates: pd.DataFrame  # as `TitansForecaster.gates` returns it, after each day


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=Path, default=os.environ.get("TITANS_TS_DATA"), help="folder of ETTm1.csv")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the picture")
    args = parser.parse_args(argv)
    frame = load_dataset("ETTm1", root=args.root).frame[: DAY * (FITTED + STREAMED)]
    past, later = frame[: DAY * FITTED], frame[DAY * FITTED :]
    stream = streamed(past, later)
    scale = past.std()
    for name, forecast in (("core", stream.core), ("core and memory", stream.forecast)):
        print(f"{name}: {(((forecast - later) / scale) ** 2).mean().mean():.4f}")
    path = args.out / "stream.png"
    args.out.mkdir(parents=True, exist_ok=True)
    draw(later, stream, SERIES, path)
    print(path)


def streamed(past: pd.DataFrame, later: pd.DataFrame, lookback: int = 2 * DAY) -> Stream:
    """Fit to `past` and go through `later`, whole days, a day at a time."""
    stream, window = (fitted(past, context, lookback) for context in ("stream", "window"))
    surprise, gates = stream.surprise(later), stream.gates(later)
    forecasts, core = [], []
    for begin in range(0, len(later), DAY):
        forecasts.append(stream.predict(DAY))
        core.append(window.predict(DAY))
        for model in (stream, window):
            model.update(later[begin : begin + DAY])
    return Stream(pd.concat(forecasts), pd.concat(core), surprise, gates)


def fitted(past: pd.DataFrame, context: str, lookback: int) -> TitansForecaster:
    """A closed form, with or without a memory."""
    model = closed_form(
        horizon=DAY,
        lookback=lookback,
        cycle=DAY,
        context=context,
        linear_path="per_series",
    )
    return model.fit(past)


def draw(later: pd.DataFrame, stream: Stream, name: str, path: Path) -> None:
    """Three panels: series and forecasts, surprise, shares of the gate."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = later.index[-DAY * SHOWN :]
    figure, axes = plt.subplots(3, figsize=(12, 8), height_ratios=(3, 1.2, 1.2), layout="constrained")
    top, middle, bottom = axes
    plot_surprise(later.loc[shown, [name]], stream.surprise.loc[shown, [name]], ax=(top, middle))
    top.plot(stream.core.loc[shown, name], color=COLOURS[1], linewidth=0.9, label="core alone, a day ahead")
    top.plot(stream.forecast.loc[shown, name], color=COLOURS[0], linewidth=1.1, label="core and memory, a day ahead")
    top.legend(loc="upper left", ncols=3, frameon=False)
    top.set_ylim(top=top.get_ylim()[1] + 0.15 * np.ptp(top.get_ylim()))  # for the legend
    plot_gates(stream.gates, ids=[name], ax=bottom)
    bottom.axvspan(shown[0], shown[-1], color="0.93", zorder=0)
    bottom.set_title("", loc="left")
    bottom.set_xlabel("shaded: the days above")
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    main()
