"""How long does `update` take when each of many series has a new row? `python experiments/speed/update.py`.

A thousand hourly series in a long table, with a long-term memory. The model is fitted on the shortest history and moved
on to the longer ones by `update` itself; from each it reads one row more of every series, time after time, and the
median and the 95th percentile of these calls are told, and the median of the time that processors worked for them,
which other work on the machine lengthens less. Beside them: `predict` after an update, and `predict(df=...)` of the
whole history, which forecasts the same from the same rows. The first call of each is warm-up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.estimator import closed_form
from benchmark.peer_models import to_long
from measure import milliseconds
from record import RESULTS
from speed.generated import wide_table
from speed.report import Report, Row, with_target
from titans_ts import TitansForecaster

PACKAGES = ("titans-ts", "pandas", "numpy", "torch")
SERIES, HISTORIES = 1000, (500, 1000, 2000)
TARGET = 50  # milliseconds
LOOKBACK, HORIZON = 168, 24


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--series", type=int, default=SERIES, help=f"hourly series (default {SERIES})")
    parser.add_argument("--histories", type=int, nargs="+", default=HISTORIES, help="rows of each, rising")
    parser.add_argument("--updates", type=int, default=100, help="rows added one by one (default 100)")
    parser.add_argument("--forecasts", type=int, default=5, help="forecasts from the whole history (default 5)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch (default: its own)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if min(args.series, args.updates, args.forecasts, args.threads) < 1:
        parser.error("--series, --updates, --forecasts and --threads must be at least 1")
    if any(b - a <= args.updates for a, b in zip(args.histories, args.histories[1:], strict=False)):
        parser.error("--histories must rise by more than the rows added one by one")

    torch.set_num_threads(args.threads)
    report = Report(args.out / "update.csv", PACKAGES, args.threads)
    for history, row in measure(args.series, args.histories, args.updates, args.forecasts):
        report.add(f"{args.series} x {history}", row)
    print(f"rows appended to {report.path}")


def measure(series: int, histories: Sequence[int], updates: int, forecasts: int) -> Iterator[tuple[int, Row]]:
    """Rows for each length of history."""
    wide = wide_table(series, histories[-1] + updates + 1)
    model = fitted(wide[: histories[0]])
    end = histories[0]
    for history in histories:
        if history > end:
            model.update(to_long(wide[end:history]))
        end = history + updates + 1
        new = [to_long(wide[row : row + 1]) for row in range(history, end)]
        worked = [time.process_time()]
        times = []
        for rows in new:
            times.append(milliseconds(partial(model.update, rows)))
            worked.append(time.process_time())
        middle, high = np.percentile(times[1:], [50, 95])
        of_processors = 1e3 * float(np.median(np.diff(worked)[1:]))
        yield history, with_target(Row("update, p50", float(middle), "ms", 1.0), f"< {TARGET} ms", middle < TARGET)
        yield history, Row("update, p95", float(high), "ms", float(high / middle))
        yield history, Row("update, p50 of processor time", of_processors, "ms", float(of_processors / middle))
        everything = to_long(wide[:end])
        for name, forecast in (
            ("predict() after it, p50", model.predict),
            ("predict(df=everything), p50", partial(model.predict, df=everything)),
        ):
            took = float(np.median([milliseconds(forecast) for _ in range(forecasts + 1)][1:]))
            yield history, Row(name, took, "ms", float(took / middle))


def fitted(wide: pd.DataFrame) -> TitansForecaster:
    """A closed form and its memory; of these series nothing else is measured."""
    model = closed_form(
        horizon=HORIZON,
        lookback=LOOKBACK,
        context="stream",
        linear_path=True,
    )
    return model.fit(to_long(wide))


if __name__ == "__main__":
    main()
