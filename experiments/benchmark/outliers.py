"""What one outlier does to the forecasts of its series and of the others: `python experiments/benchmark/outliers.py`.

Hourly waves of amplitude 10, 400 rows each; one value of the first series, in row 380, is put to 100, 1,000 or 10,000.
Prints the mean absolute error of six steps ahead, of the first series and of the others, and the amplitude of the first
one's forecast of a day; flat lines err by 6. Nothing is kept.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import pandas as pd

from titans_ts import TitansForecaster

ROWS, ROW, AHEAD, DAY = 400, 380, 6, 24
SERIES, OUTLIERS = (1, 3, 10, 50), (0.0, 100.0, 1e3, 1e4)


def main(argv: list[str] | None = None) -> None:
    """Print a line for each number of series and each outlier."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--series", type=int, nargs="+", default=SERIES, help="numbers of series (default: %(default)s)"
    )
    args = parser.parse_args(argv)
    print("| series | outlier | error of its series | error of the others | amplitude |\n|---|---|---|---|---|")
    for n in args.series:
        for outlier in OUTLIERS:
            first, others, amplitude = errors(n, outlier)
            rest = "–" if n == 1 else f"{others:.3f}"
            print(f"| {n} | {outlier:g} | {first:.3f} | {rest} | {amplitude:.2f} |", flush=True)


def errors(n: int, outlier: float) -> tuple[float, float, float]:
    """Mean absolute errors of the first of `n` series and of the others, and the amplitude of the first's forecast."""
    truth = waves(n)
    history = truth.iloc[:ROWS].copy()
    if outlier:
        history.iloc[ROW, 0] = outlier
    model = TitansForecaster(
        horizon=AHEAD, lookback=DAY, d_model=16, n_layers=1, max_epochs=1, random_state=0, device="cpu", verbose=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it names the outlier
        model.fit(history)
    forecast = model.predict(DAY)
    error = (forecast[:AHEAD] - truth.iloc[ROWS:]).abs().mean()
    first = forecast.iloc[:, 0]
    return float(error.iloc[0]), float(error.iloc[1:].mean()), float(first.max() - first.min()) / 2


def waves(n: int) -> pd.DataFrame:
    """Waves of amplitude 10, each shifted against the one before, with a little noise."""
    t, rng = np.arange(ROWS + AHEAD), np.random.default_rng(0)
    values = {f"s{i}": 10 * np.sin(2 * np.pi * t / DAY + i) + 0.1 * rng.normal(size=len(t)) for i in range(n)}
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=len(t), freq="h"))


if __name__ == "__main__":
    main()
