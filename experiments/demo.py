"""Forecast the bicycle rentals of a week, hour by hour, and say how good that is. Offline, in seconds.

python experiments/demo.py                                            the picture is demo.png
python experiments/demo.py --picture experiments/results/forecast.png    the README's
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from titans_ts import TitansForecaster, load_dataset
from titans_ts.plots import plot_forecast

DAY = 24
WEEK = 7 * DAY
HELD_OUT = 2 * WEEK
LAST = "2012-09-30"  # a storm and the holidays come after
NAMES: dict[str, Any] = dict(time_col="ds", target_col="cnt")


def main(argv: list[str] | None = None) -> None:
    """Print the errors and where the picture is."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="what is drawn (default demo.png)")
    args = parser.parse_args(argv)

    hours = load_dataset("bike_sharing").frame[["ds", "cnt"]]
    hours = hours[hours["ds"] < pd.Timestamp(LAST) + pd.Timedelta(days=1)]
    begin = hours["ds"].iloc[-1] + pd.Timedelta(hours=1 - HELD_OUT)
    past = hours[hours["ds"] < begin]
    print(f"Bicycle rentals in Washington, D.C.: {len(past)} hours to learn from, {HELD_OUT} held out")

    begun = time.perf_counter()
    model = TitansForecaster(**NAMES, horizon=WEEK, missing="interpolate", lower=0, random_state=0, verbose=0).fit(past)
    print(f"fitted in {time.perf_counter() - begun:.1f} s; chosen from the data:")
    for row in model.summary().query("chosen").itertuples():
        print(f"  {row.choice}: {row.candidate}")

    print("mean absolute error, a week ahead from every midnight held out, in rentals an hour:")
    errors = held_out_errors(model, hours, begin)
    for name, error in errors.items():
        print(f"  {name:15} {error:5.1f}")
    change = 1 - errors["titans_ts"] / errors["seasonal naive"]
    print(f"titans_ts is {abs(change):.1%} {'better' if change > 0 else 'worse'} than repeating the last week")
    draw(past, model.predict(), hours, args.picture)
    print(f"picture of the first week: {args.picture.resolve()}")


def held_out_errors(model: TitansForecaster, hours: pd.DataFrame, begin: pd.Timestamp) -> dict[str, float]:
    """Mean absolute errors by method, over the hours that follow each midnight from `begin` on."""
    rentals = hours.set_index("ds")["cnt"].asfreq("h")
    filled, errors = rentals.interpolate(), []
    for origin in pd.date_range(begin, rentals.index[-1] - pd.Timedelta(hours=model.horizon_ - 1), freq="D"):
        forecast = model.predict(df=hours[hours["ds"] < origin]).set_index("ds")["Titans"]
        truth = rentals[forecast.index]
        naive = np.resize(filled[: origin - pd.Timedelta(hours=1)].iloc[-WEEK:], len(truth))
        errors.append({"titans_ts": (forecast - truth).abs().mean(), "seasonal naive": (naive - truth).abs().mean()})
    return dict(pd.DataFrame(errors).mean())


def draw(past: pd.DataFrame, forecast: pd.DataFrame, hours: pd.DataFrame, path: Path) -> None:
    """A week of history, then what came and the forecast of it."""
    mpl.use("Agg")
    axes = plot_forecast(past, forecast, actuals=hours, last=WEEK, **NAMES)
    axes.set_title("Bicycle rentals in Washington, D.C.", loc="left", fontsize=11)
    axes.set_ylabel("rentals an hour")
    axes.figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
