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
import pandas as pd

from titans_ts import ClosedForm, SeasonalNaive, TitansForecaster, cross_validation, load_dataset
from titans_ts.plots import plot_forecast

DAY = 24
WEEK = 7 * DAY
HELD_OUT = 2 * WEEK
LAST = "2012-09-30"  # a storm and the holidays come after
COVARIATES = ["temp", "hum", "windspeed", "weathersit", "holiday", "workingday"]
READ: dict[str, Any] = dict(target_col="cnt", horizon=WEEK, missing="interpolate")


def main(argv: list[str] | None = None) -> None:
    """Print the errors and where the picture is."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="what is drawn (default demo.png)")
    args = parser.parse_args(argv)

    hours = load_dataset("bike_sharing").frame[["ds", "cnt", *COVARIATES]]
    hours = hours[hours["ds"] < pd.Timestamp(LAST) + pd.Timedelta(days=1)]
    past, held_out = hours[:-HELD_OUT], hours[-HELD_OUT:]
    print(
        f"Bicycle rentals in Washington, D.C.: {len(past)} hours to learn from, {HELD_OUT} held out, with the weather,"
    )
    print("holidays and working days of all hours, as they were: a forecast of the weather would tell less")

    begun = time.perf_counter()
    model = TitansForecaster(**READ, future_cols=COVARIATES, calendar=["weekday"], lower=0, random_state=0, verbose=0)
    model.fit(past)
    print(f"fitted in {time.perf_counter() - begun:.1f} s; chosen from the data:")
    for row in model.summary().query("chosen").itertuples():
        print(f"  {row.choice}: {row.candidate}")

    print("mean absolute error of forecasts a week ahead, one a day, in rentals an hour:")
    errors = held_out_errors(model, hours)
    for name, error in errors.items():
        print(f"  {name:18} {error:5.1f}")
    change = 1 - errors["titans_ts"] / errors["seasonal naive"]
    print(f"titans_ts is {abs(change):.0%} {'better' if change > 0 else 'worse'} than repeating the last week")
    forecast = model.predict(future=held_out, level=80)
    draw(past, forecast, held_out, args.picture)
    print(f"picture of the first week, with an interval that 80 % are to lie in: {args.picture.resolve()}")


def held_out_errors(model: TitansForecaster, hours: pd.DataFrame) -> dict[str, float]:
    """Mean absolute errors by method, over forecasts from the end of each day held out but the last week's."""
    rentals = hours[["ds", "cnt"]]
    models = {
        "titans_ts": (model, hours),
        "without covariates": (TitansForecaster(**READ, lower=0, random_state=0, verbose=0), rentals),
        "closed form alone": (ClosedForm(**READ, lower=0), rentals),
        "seasonal naive": (SeasonalNaive(**READ, season=WEEK), rentals),
    }
    windows = dict(h=WEEK, n_windows=(HELD_OUT - WEEK) // DAY + 1, step_size=DAY, refit=False)
    frames = {name: cross_validation(each, rows, **windows) for name, (each, rows) in models.items()}
    return {name: (frame["cnt"] - frame.iloc[:, 4]).abs().mean() for name, frame in frames.items()}


def draw(past: pd.DataFrame, forecast: pd.DataFrame, held_out: pd.DataFrame, path: Path) -> None:
    """A week of history, then what came and the forecast of it."""
    mpl.use("Agg")
    axes = plot_forecast(past, forecast, actuals=held_out, last=WEEK, time_col="ds", target_col="cnt")
    axes.set_title("Bicycle rentals in Washington, D.C.", loc="left", fontsize=11)
    axes.set_ylabel("rentals an hour")
    axes.figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
