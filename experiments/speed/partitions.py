"""How fast are many series forecast on a cluster of Dask? `python experiments/speed/partitions.py`.

Two workers, a process with one thread and bounded memory each, make series partition by partition, forecast them by one
model that was fitted to other such series, and write the forecasts to Parquet: no table is ever whole in one process.
Told are the rate, the most memory that each worker held, and whether the cluster had to restart one, as it does where
one passes its limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import dask.dataframe as dd
import numpy as np
import pandas as pd
import torch
from distributed import Client, LocalCluster
from pyarrow.parquet import read_metadata

sys.path.insert(0, str(Path(__file__).parents[1]))
from measure import peak_mib
from record import RESULTS
from speed.generated import CYCLE
from speed.report import Report, Row, with_target
from titans_ts import TitansForecaster, predict_partitions

PACKAGES = ("titans-ts", "dask", "distributed", "pandas", "numpy", "torch")
HORIZON = 24


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--series", type=int, default=200_000, help="to forecast (default 200,000)")
    parser.add_argument("--rows", type=int, default=100, help="of each series (default 100)")
    parser.add_argument("--partitions", type=int, default=100, help="of the series (default 100)")
    parser.add_argument("--fitted", type=int, default=1000, help="series that the model is fitted to (default 1,000)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--memory", default="2GB", help="limit of each (default 2GB)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if min(args.series, args.rows, args.partitions, args.fitted, args.workers) < 1:
        parser.error("--series, --rows, --partitions, --fitted and --workers must be at least 1")

    torch.set_num_threads(1)
    report = Report(args.out / "partitions.csv", PACKAGES, args.workers)
    model = TitansForecaster(horizon=HORIZON, random_state=0, device="cpu", verbose=0)
    model.fit(long_table(args.series, args.fitted, args.rows))
    sizes = dict(n_workers=args.workers, threads_per_worker=1, memory_limit=args.memory, dashboard_address=None)
    with LocalCluster(**sizes) as cluster, Client(cluster) as client:
        for row in measure(client, model, args.series, args.rows, args.partitions):
            report.add(f"{args.series} x {args.rows}, {args.memory}", row)
    print(f"rows appended to {report.path}")


def measure(client: Client, model: TitansForecaster, series: int, rows: int, partitions: int) -> Iterator[Row]:
    """The rate, each worker's peak memory, and how many workers were restarted."""
    begins = np.linspace(0, series, partitions + 1).astype(int)
    table = dd.from_map(long_table, begins[:-1], np.diff(begins), rows=rows, meta=long_table(0, 1, 2).iloc[:0])
    before = client.run(os.getpid)
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        predict_partitions(model, table).to_parquet(folder, write_index=False)
        seconds = time.perf_counter() - begun
        written = sum(read_metadata(path).num_rows for path in Path(folder).glob("*.parquet"))
    if written != series * HORIZON:
        raise RuntimeError(f"{series * HORIZON} forecasts were asked for, and {written} written.")
    after = client.run(os.getpid)
    yield Row("series a second", series / seconds, "1/s")
    yield Row("seconds", seconds, "s")
    for number, peak in enumerate(client.run(peak_mib).values(), start=1):
        yield Row(f"worker {number}, peak memory", peak, "MiB")
    restarted = len(set(before.items()) - set(after.items()))
    yield with_target(Row("workers restarted", restarted, "workers"), "none", restarted == 0)


def long_table(first: int, series: int, rows: int) -> pd.DataFrame:
    """A daily season and noise in series number `first` and the next ones, in a long table."""
    values = np.random.default_rng(first).standard_normal((series, rows))
    values += 3 * np.sin((np.arange(rows) + np.arange(first, first + series)[:, None]) * 2 * np.pi / CYCLE)
    ids = [f"s{i:06}" for i in range(first, first + series)]
    times = pd.date_range("2020-01-01", periods=rows, freq="h")
    return pd.DataFrame({"unique_id": np.repeat(ids, rows), "ds": np.tile(times, series), "y": values.ravel()})


if __name__ == "__main__":
    main()
