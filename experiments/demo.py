"""Fit one hourly series, forecast two weeks held out, compare with seasonal naive, draw. Offline, in two minutes.

python experiments/demo.py                    the oil temperature of ETTh1 where its file is found, else made up
python experiments/demo.py --root FOLDER      look for ETTh1.csv there
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from titans_ts import TitansForecaster, load_dataset

DAY = 24
HORIZON = 2 * DAY
HELD_OUT = 14 * DAY
ROWS = 6 * 30 * DAY  # half a year is enough to see a rhythm, and quick to fit
PICTURE = Path("demo.png")


def main() -> None:
    """Print the errors and where the picture is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, help="a folder that holds ETTh1.csv")
    args = parser.parse_args()

    name, series = find_series(args.root)
    fitted = series.iloc[:-HELD_OUT]
    print(f"{name}: {len(fitted)} hours to learn from, {HELD_OUT} held out")

    begun = time.perf_counter()
    model = TitansForecaster(horizon=HORIZON, lookback=7 * DAY, d_model=64, max_epochs=3, random_state=0).fit(fitted)
    print(f"fitted in {time.perf_counter() - begun:.0f} s, {len(model.history_.checks) - 1} validation checks")

    errors = []
    for origin in range(len(fitted), len(series) - HORIZON + 1, DAY):
        history, truth = series.iloc[:origin], series.iloc[origin : origin + HORIZON]
        forecast = model.predict(df=history)
        naive = pd.Series(np.tile(history.iloc[-DAY:], HORIZON // DAY), index=truth.index)
        errors.append([float((each - truth).abs().mean()) for each in (forecast, naive)])
    ours, theirs = np.mean(errors, axis=0)
    verdict = f"{abs(1 - ours / theirs):.0%} {'better' if ours < theirs else 'worse'}"
    print(f"mean absolute error of {HORIZON} hours ahead, from {len(errors)} midnights of the hours held out:")
    print(f"titans_ts {ours:.3f}, seasonal naive {theirs:.3f}: {verdict}")
    draw(name, history.iloc[-5 * DAY :], truth, forecast, naive)
    print(f"picture of the last one: {PICTURE.resolve()}")


def find_series(root: Path | None) -> tuple[str, pd.Series]:
    """The oil temperature of ETTh1, if a folder of real data is given, else a series made up."""
    try:
        frame = load_dataset("ETTh1", root=root, download=False).frame
    except FileNotFoundError:
        if root is not None:
            raise
        return "made-up hourly load", make_series()
    return "ETTh1 oil temperature", frame["OT"].iloc[:ROWS]


def make_series() -> pd.Series:
    """Daily and weekly rhythm, a level and a swing that change midway, and noise that carries over."""
    rng = np.random.default_rng(7)
    hour = np.arange(ROWS)
    day, week = 2 * np.pi * hour / DAY, 2 * np.pi * hour / (7 * DAY)
    later = 1 / (1 + np.exp(-(hour - 0.6 * ROWS) / DAY))
    rhythm = (3 + 2 * later) * np.sin(day - 2) + 1.2 * np.sin(2 * day) + 1.5 * np.cos(week)
    noise = np.zeros(ROWS)
    for t, shock in enumerate(rng.normal(0, 0.3, ROWS)):
        noise[t] = 0.9 * noise[t - 1] + shock
    values = 30 + 6 * later + rhythm + noise
    return pd.Series(values, index=pd.date_range("2024-01-01", periods=ROWS, freq="h"), name="load")


def draw(name: str, history: pd.Series, truth: pd.Series, forecast: pd.Series, naive: pd.Series) -> None:
    """History, truth and both forecasts, to PICTURE."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
    axes.plot(history, color="0.35", label="history")
    axes.plot(truth, color="black", label="truth")
    axes.plot(naive, color="tab:orange", linestyle=":", label="seasonal naive")
    axes.plot(forecast, color="tab:blue", linewidth=2, label="titans_ts")
    axes.axvline(truth.index[0], color="0.7", linewidth=1)
    axes.set_title(f"{name}: {len(truth)} hours ahead")
    axes.legend(loc="upper left", ncols=4, frameon=False)
    axes.margins(x=0.01)
    axes.set_ylim(top=axes.get_ylim()[1] + 0.12 * np.ptp(axes.get_ylim()))
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
