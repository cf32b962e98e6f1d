"""Fit one hourly series, forecast two weeks held out, compare with seasonal naive, draw. Offline, in a minute.

python experiments/demo.py                       the oil temperature of ETTh1 where its file is found, else made up
python experiments/demo.py --root FOLDER         look for ETTh1.csv there
python experiments/demo.py --bike-sharing FILE   hourly rentals, from hour.csv of UCI's Bike Sharing Dataset

The last makes the README's picture, with `--picture experiments/results/forecast.png`. Its data are by Hadi Fanaee-T,
doi.org/10.24432/C5W894, CC BY 4.0.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd

from titans_ts import TitansForecaster, load_dataset

DAY = 24
WEEK = 7 * DAY
HELD_OUT = 2 * WEEK
ROWS = 6 * 30 * DAY  # of ETTh1: half a year is enough to see a rhythm, and quick to fit
LAST_RENTALS = "2012-09-30"  # a storm and the holidays come after


class Example(NamedTuple):
    """An hourly series, what a picture calls it, how far it is forecast, and how soon it repeats itself."""

    title: str
    unit: str
    series: pd.Series
    horizon: int
    season: int


def main(argv: list[str] | None = None) -> None:
    """Print the errors and where the picture is."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--root", type=Path, help="a folder that holds ETTh1.csv")
    parser.add_argument("--bike-sharing", type=Path, help="hour.csv of UCI's Bike Sharing Dataset")
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="what is drawn (default demo.png)")
    args = parser.parse_args(argv)

    example = read_rentals(args.bike_sharing) if args.bike_sharing else find_series(args.root)
    fitted = example.series.iloc[:-HELD_OUT]
    print(f"{example.title}: {len(fitted)} hours to learn from, {HELD_OUT} held out")

    begun = time.perf_counter()
    model = TitansForecaster(horizon=example.horizon, missing="interpolate", random_state=0).fit(fitted)
    print(f"fitted in {time.perf_counter() - begun:.0f} s; chosen:")
    chosen = model.summary().query("chosen")
    print(
        "\n".join(f"  {choice}: {candidate}" for choice, candidate in zip(chosen.choice, chosen.candidate, strict=True))
    )

    ours, theirs = held_out_errors(model, example)
    verdict = f"{abs(1 - ours / theirs):.0%} {'better' if ours < theirs else 'worse'}"
    print(f"mean absolute error of {example.horizon} hours ahead, from every midnight of the hours held out:")
    print(f"titans_ts {ours:.3f}, seasonal naive {theirs:.3f}: {verdict}")
    draw(example, model.predict(), args.picture)
    print(f"picture of the first: {args.picture.resolve()}")


def held_out_errors(model: TitansForecaster, example: Example) -> tuple[float, float]:
    """Mean absolute errors of our forecasts and of repeating the last season, from the midnights held out."""
    series, filled = example.series, example.series.interpolate()
    errors = []
    for origin in range(len(series) - HELD_OUT, len(series) - example.horizon + 1, DAY):
        history, truth = filled.iloc[:origin], series.iloc[origin : origin + example.horizon]
        naive = pd.Series(np.resize(history.iloc[-example.season :], example.horizon), truth.index)
        errors.append([float((each - truth).abs().mean()) for each in (model.predict(df=history), naive)])
    ours, theirs = np.mean(errors, axis=0)
    return float(ours), float(theirs)


def find_series(root: Path | None) -> Example:
    """The oil temperature of ETTh1, if a folder of real data is given, else a series made up."""
    try:
        frame = load_dataset("ETTh1", root=root, download=False).frame
    except FileNotFoundError:
        if root is not None:
            raise
        return Example("Made-up load", "load", make_series(), horizon=2 * DAY, season=DAY)
    temperature = frame["OT"].iloc[:ROWS]
    return Example("Oil temperature of a transformer (ETTh1)", "°C", temperature, horizon=2 * DAY, season=DAY)


def read_rentals(path: Path) -> Example:
    """Hourly rentals of bicycles in Washington, D.C., in 2011 and 2012; hours without any are missing."""
    frame = pd.read_csv(path)
    days = pd.to_datetime(frame["dteday"], format="%m/%d/%Y" if "/" in frame["dteday"][0] else "%Y-%m-%d")
    index = pd.DatetimeIndex(days + pd.to_timedelta(frame["hr"], unit="h"))
    rentals = pd.Series(frame["cnt"].to_numpy(float), index).asfreq("h")
    title = "Bicycle rentals in Washington, D.C., 2012"
    return Example(title, "rentals an hour", rentals[:LAST_RENTALS], horizon=WEEK, season=WEEK)


def make_series() -> pd.Series:
    """Daily and weekly rhythm, a mean and a swing that change midway, and noise that carries over."""
    rng = np.random.default_rng(7)
    hour = np.arange(ROWS)
    day, week = 2 * np.pi * hour / DAY, 2 * np.pi * hour / WEEK
    later = 1 / (1 + np.exp(-(hour - 0.6 * ROWS) / DAY))
    rhythm = (3 + 2 * later) * np.sin(day - 2) + 1.2 * np.sin(2 * day) + 1.5 * np.cos(week)
    noise = np.zeros(ROWS)
    for t, shock in enumerate(rng.normal(0, 0.3, ROWS)):
        noise[t] = 0.9 * noise[t - 1] + shock
    values = 30 + 6 * later + rhythm + noise
    return pd.Series(values, index=pd.date_range("2024-01-01", periods=ROWS, freq="h"), name="load")


def draw(example: Example, forecast: pd.Series, path: Path) -> None:
    """A week of history, then what came and the forecast of it."""
    mpl.use("Agg")
    from matplotlib import dates
    from matplotlib import pyplot as plt

    series, horizon = example.series, example.horizon
    origin = len(series) - HELD_OUT
    history, truth = series.iloc[origin - WEEK : origin + 1], series.iloc[origin : origin + horizon]
    figure, axes = plt.subplots(figsize=(8.6, 3.1), layout="constrained")
    axes.plot(history, color="0.5", linewidth=1.2, label="history")
    axes.plot(truth, color="0.2", linewidth=1.2, linestyle=(0, (2, 1.2)), label="what came")
    axes.plot(forecast, color="tab:blue", linewidth=1.8, label=f"forecast of {horizon} hours, made at once")
    axes.axvline(truth.index[0], color="0.7", linewidth=0.8)
    axes.set_title(example.title, loc="left", fontsize=11)
    axes.set_ylabel(example.unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(dates.DayLocator(interval=2))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%a %d %b"))
    axes.margins(x=0.01)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    main()
