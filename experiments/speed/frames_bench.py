"""How long, and in how much memory, does a table become windows? `python experiments/speed/frames_bench.py`.

Long tables of many short and of few long series, their rows in order and shuffled: `read_table`, which looks at every
row, and the same as far as scaled windows, beside neuralforecast's `TimeSeriesDataset.from_df`. Times are medians,
taken in turns in one process. Memory is the most that a fresh process holds during the call beyond what it held before.

The other package comes with the extra `bench`: `pip install -c constraints.txt -e '.[bench]'`. Where it is absent, or
memory is asked for elsewhere than on Linux, the script says so.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.peer_models import peer, to_long
from measure import held_mib, in_a_process, medians, milliseconds, peak_mib
from record import RESULTS
from speed.generated import wide_table, windows_of
from speed.report import Report, Row, with_target
from titans_ts.tables.read import read_table

PACKAGES = ("titans-ts", "pandas", "numpy", "torch", "neuralforecast")
SIZES = ((10_000, 200), (7, 69_680))  # series, rows of each
OURS, WINDOWS, THEIRS = "titans, read_table", "titans, as far as windows", "neuralforecast, from_df"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="rounds measured after one of warm-up (default 7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch (default: its own)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if min(args.repeats, args.threads) < 1:
        parser.error("--repeats and --threads must be at least 1")

    torch.set_num_threads(args.threads)
    report = Report(args.out / "frames_cpu.csv", PACKAGES, args.threads)
    names = [name for name in WAYS if name != THEIRS or peer("neuralforecast", "frames")]
    for series, rows in SIZES:
        for shuffled in (False, True):
            benchmark = f"{series} x {rows}{', shuffled' if shuffled else ''}"
            for row in measure(names, series, rows, shuffled, args.repeats):
                report.add(benchmark, row)
    print(f"rows appended to {report.path}")


def from_df(table: pd.DataFrame) -> Any:
    return importlib.import_module("neuralforecast.tsdataset").TimeSeriesDataset.from_df(table)


WAYS: dict[str, Callable[[pd.DataFrame], Any]] = {
    OURS: read_table,
    WINDOWS: partial(windows_of, horizon=24),
    THEIRS: from_df,
}


def measure(names: list[str], series: int, rows: int, shuffled: bool, repeats: int) -> list[Row]:
    """Milliseconds and MiB of each way to prepare one table; the ratios are to `read_table`."""
    table = example(series, rows, shuffled)
    times = medians([partial(milliseconds, partial(WAYS[name], table)) for name in names], repeats)
    del table
    memory = [in_a_process(extra_mib, name, series, rows, shuffled) for name in names]
    return [*_rows(names, times, "ms"), *_rows(names, memory, "MiB")]


def example(series: int, rows: int, shuffled: bool) -> pd.DataFrame:
    """A long table of hourly series."""
    table = to_long(wide_table(series, rows))
    return table.sample(frac=1, random_state=0, ignore_index=True) if shuffled else table


def extra_mib(name: str, series: int, rows: int, shuffled: bool) -> float:
    """The most memory that this process holds during one call, beyond what it held before."""
    table, call = example(series, rows, shuffled), WAYS[name]
    call(example(10, 200, False))  # whatever is loaded once
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        print("memory is measured on Linux alone")
        return math.nan
    _give_back()
    reset.write_text("5")  # the peak so far is forgotten
    before = held_mib()
    prepared = call(table)
    peak = peak_mib()
    del prepared
    return peak - before


def _give_back() -> None:
    """Memory that was freed but kept goes back, for otherwise the call would have it for nothing."""
    gc.collect()
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    with suppress(AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


def _rows(names: list[str], values: list[float], unit: str) -> list[Row]:
    base = values[0] or math.nan  # what is too small to be seen is no base of a ratio
    found = [Row(name, value, unit, value / base) for name, value in zip(names, values, strict=True)]
    return [
        with_target(row, ">= 1", bool(row.ratio and row.ratio >= 1)) if row.name == THEIRS else row for row in found
    ]


if __name__ == "__main__":
    main()
