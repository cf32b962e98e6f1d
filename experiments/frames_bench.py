"""How long, and in how much memory, does a table become what a network reads? `python experiments/frames_bench.py`.

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
import statistics
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from bench_memory import milliseconds
from efficiency import CSV_COLUMNS, Row, generated, in_a_process, long, peer, windows_of
from long_term import RESULTS
from stamp import commit, device_name

from titans_ts.frames import read_table

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
    versions = [f"{name} {version(name)}" for name in PACKAGES if any(distributions(name=name))]
    stamp = dict(device=device_name(), threads=args.threads, versions=", ".join(versions), commit=commit())
    print(f"{stamp['device']}, threads: {args.threads}\n{stamp['versions']}\n")
    args.out.mkdir(parents=True, exist_ok=True)
    out = args.out / "frames_cpu.csv"
    names = [name for name in WAYS if name != THEIRS or peer("neuralforecast", "frames")]
    for series, rows in SIZES:
        for shuffled in (False, True):
            benchmark = f"{series} x {rows}{', shuffled' if shuffled else ''}"
            for row in measure(names, series, rows, shuffled, args.repeats):
                ratio = "" if row.ratio is None else f"{row.ratio:.2f} x ours"
                print(f"{benchmark:24}{row.name:28}{row.value:>9.4g} {row.unit:5}{ratio:>14}  {row.target}".rstrip())
                found = pd.DataFrame([{"benchmark": benchmark, **row._asdict(), **stamp}], columns=CSV_COLUMNS)
                found.to_csv(out, mode="a", header=not out.exists(), index=False, float_format="%.6g")
    print(f"rows appended to {out}")


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
    rounds = [[milliseconds(partial(WAYS[name], table)) for name in names] for _ in range(1 + repeats)][1:]
    times = [statistics.median(taken) for taken in zip(*rounds, strict=True)]
    del table
    memory = [in_a_process(extra_mib, name, series, rows, shuffled) for name in names]
    return [*_rows(names, times, "ms"), *_rows(names, memory, "MiB")]


def example(series: int, rows: int, shuffled: bool) -> pd.DataFrame:
    """A long table of hourly series."""
    table = long(generated(series, rows))
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
    before = _held("VmRSS")
    prepared = call(table)
    peak = _held("VmHWM")
    del prepared
    return peak - before


def _give_back() -> None:
    """Memory that was freed but kept goes back, for otherwise the call would have it for nothing."""
    gc.collect()
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    with suppress(AttributeError):  # of glibc alone
        ctypes.CDLL(None).malloc_trim(0)


def _held(what: str) -> float:
    return int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0]) / 1024


def _rows(names: list[str], values: list[float], unit: str) -> list[Row]:
    base = values[0] or math.nan  # what is too small to be seen is no base of a ratio
    found = [Row(name, value, unit, value / base) for name, value in zip(names, values, strict=True)]
    for i, row in enumerate(found):
        if row.name == THEIRS:
            found[i] = row._replace(target=f">= 1: {'met' if row.ratio and row.ratio >= 1 else 'missed'}")
    return found


if __name__ == "__main__":
    main()
