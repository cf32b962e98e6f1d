"""How long does the default fit take? `python experiments/speed/default_fit.py`.

`TitansForecaster().fit(table)` as a new user calls it: README's example, ETTh1 whole, the monthly series of M3, the
hourly series of M4, and 10,000 generated series of 200 rows. The time to the first evaluation is that of reading and
closed form; what comes after it is the trial of training, and training where that goes on. The targets are for the
whole of a fit on two cores, training where it wins in addition to them. M3 and M4 are read from the files of their
publishers, without the values to forecast.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.peer_models import to_long
from record import RESULTS
from speed.generated import wide_table
from titans_ts import TitansForecaster
from titans_ts.datasets import load_dataset
from titans_ts.training.history import Evaluation

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
COLUMNS = (
    *("name", "series", "rows", "seconds", "first_evaluation", "target", "steps", "stopped"),
    *("initial_error", "error", "device", "threads", "versions", "commit"),
)
TRAINED = ("max_epochs", "patience", "held back")  # how a fit ends whose training went on


@dataclass(frozen=True)
class Case:
    """A table, the parameters that a user would give with it, and the seconds that are aimed at."""

    name: str
    read: Callable[[Path], pd.DataFrame]
    target: float
    parameters: dict[str, Any]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[case.name for case in CASES], help="some of the tables")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch (default: its own)")
    parser.add_argument("--time-limit", type=float, help="seconds that each fit may take")
    parser.add_argument("--root", type=Path, help="the folder of the data; else TITANS_TS_DATA or ../shared/data")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    root = args.root or Path(os.environ.get("TITANS_TS_DATA") or DATA)
    torch.set_num_threads(args.threads)
    stamp = {**record.stamp(("titans-ts", "torch")), "threads": args.threads}
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        try:
            table = case.read(root)
        except FileNotFoundError as error:
            print(f"{case.name}: skipped; {error}")
            continue
        row = measure(case, table, args.time_limit)
        print(text_of(row), flush=True)
        record.append(args.out / "default_fit.csv", COLUMNS, {**row, **stamp})
    print(f"rows appended to {args.out / 'default_fit.csv'}")


def measure(case: Case, table: pd.DataFrame, time_limit: float | None = None) -> dict[str, Any]:
    """One fit; its errors are the relative ones on validation rows, of the closed form and of what was kept."""
    reached: list[float] = []

    def note(evaluation: Evaluation) -> None:
        reached.append(time.perf_counter() - begun)

    model = TitansForecaster(random_state=0, device="cpu", verbose=0, time_limit=time_limit, **case.parameters)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of outliers
        model.fit(table, on_evaluation=note)
    seconds = time.perf_counter() - begun
    history = model.history_
    return {
        "name": case.name,
        "series": model.n_features_in_,
        "rows": len(table) if "unique_id" in table else table.shape[0] * model.n_features_in_,
        "seconds": seconds,
        "first_evaluation": reached[0],
        "target": _target(case.target, seconds, reached[0], history.stopped),
        "steps": history.evaluations[-1].step,
        "stopped": history.stopped,
        "initial_error": history.evaluations[0].relative_error,
        "error": history.best.relative_error,
    }


def text_of(row: dict[str, Any]) -> str:
    """A line of the table printed."""
    return (
        "{name:22}{series:>7,} series {rows:>10,} rows {seconds:8.1f} s, closed form {first_evaluation:6.1f} s, "
        "{steps:4} steps ({stopped}), error {initial_error:.4f} -> {error:.4f}  {target}"
    ).format(**row)


def _target(target: float, seconds: float, first_evaluation: float, stopped: str) -> str:
    """Whether a fit was as quick as aimed at; the seconds of a training that went on are in addition."""
    counted = first_evaluation if stopped in TRAINED else seconds
    return f"<= {target:g} s: {'met' if counted <= target else 'missed'}"


def readme(root: Path) -> pd.DataFrame:
    """README's example."""
    hours = pd.date_range("2024-01-01", periods=1000, freq="h")
    load = 50 + 10 * np.sin(np.arange(1000) * 2 * np.pi / 24) + np.random.default_rng(0).normal(0, 1, 1000)
    return pd.DataFrame({"unique_id": "north", "ds": hours, "y": load})


def etth1(root: Path) -> pd.DataFrame:
    """The rows of ETTh1 that the benchmark uses."""
    data = load_dataset("ETTh1", root=root, download=False)
    return data.frame.iloc[: data.split.test.stop]


def m3_monthly(root: Path) -> pd.DataFrame:
    """M3's monthly series."""
    series = json.loads((root / "m3" / "m3_data.json").read_text())
    monthly = {name: facts["x"] for name, facts in series.items() if facts["period"] == ["MONTHLY"]}
    return long_table(monthly.items(), "MS")


def m4_hourly(root: Path) -> pd.DataFrame:
    """M4's hourly series."""
    table = pd.read_csv(root / "m4" / "Hourly-train.csv.gz", index_col=0)
    return long_table(((name, row.dropna()) for name, row in table.iterrows()), "h")


def generated(root: Path) -> pd.DataFrame:
    """10,000 hourly series of 200 rows."""
    return to_long(wide_table(10_000, 200))


def long_table(series: Iterable[tuple[Any, Any]], freq: str) -> pd.DataFrame:
    """A long table of series that begin at one date, which their files do not tell."""
    parts = [
        pd.DataFrame(
            {"unique_id": name, "ds": pd.date_range("2000-01-01", periods=len(values), freq=freq), "y": values}
        )
        for name, values in ((name, np.asarray(values, dtype=float)) for name, values in series)
    ]
    return pd.concat(parts, ignore_index=True)


CASES = (
    Case("README example", readme, 2, {}),
    Case("ETTh1", etth1, 30, {"horizon": 96}),
    Case("M3 monthly", m3_monthly, 30, {}),
    Case("M4 hourly", m4_hourly, 60, {}),
    Case("10,000 x 200", generated, 60, {}),
)

if __name__ == "__main__":
    main()
