"""Tables S1 and S2: what learning on through the rows of a stream is worth, beside what else can be done with them.

    python experiments/benchmark/stream.py S1 --datasets ETTh1 --columns i --horizons 96 --errors DIR
    python experiments/benchmark/stream.py S2 --datasets ETTm1 --horizons 24
    python experiments/benchmark/stream.py S1 S2 --summary

At each origin the rows before it are seen and those from it on are forecast; every test window counts, and a forecast
is final. With full delay a row learns only from windows whose rows to forecast have all come. State runs from train
through validation to test. The core is the estimator as it comes, its closed form alone. Errors are in the space of a
scaler fitted on the train rows.

Table S1 has the benchmark's splits, at lookback 96 (column i) and 512 (column iii). Table S2 has little to train on and
a long test, at one lookback for all sets. A row that the CSV holds is not measured again, so a run that was stopped
goes on. `--errors` keeps every row's errors at every origin.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark import rows
from benchmark.bootstrap import paired_interval
from benchmark.estimator import Fit
from benchmark.stream_data import Stream, short_training, split_of, steps_per_day
from benchmark.stream_rows import FROZEN, ROWS, Errors, Subject, measure
from benchmark.stream_tables import print_tables, summary
from benchmark.table import LOOKBACKS, Variant
from titans_ts.datasets import Dataset, load_dataset
from titans_ts.datasets.registry import find_spec

DATASETS = "ETTh1", "ETTh2", "ETTm1", "ETTm2", "weather", "exchange_rate"
HORIZONS = {"S1": (96, 192, 336, 720), "S2": (24, 48, 96)}
SHORT = "S2"  # the column of table S2, which has but one
LOOKBACK = 336  # of table S2
COLUMNS = (
    *("table", "dataset", "column", "lookback", "horizon", "row", "mse", "mae", "validation_mse"),
    *("difference", "low", "high", "channel_mse", "updates", "seconds_per_update", "device", "versions", "commit"),
)


class Cell(NamedTuple):
    """What rows are compared within."""

    table: str
    dataset: str
    column: str
    lookback: int
    horizon: int

    @property
    def label(self) -> str:
        """Its name in print and in files."""
        return f"{self.table}_{self.dataset}_{self.column}_{self.lookback}_{self.horizon}"


def main(argv: list[str] | None = None) -> None:
    """Measure the rows asked for, each in the CSV as soon as it is measured, and print the tables."""
    args = _arguments(argv)
    if args.against and args.errors is None:
        raise SystemExit("`--against` compares errors at every origin: name their folder by `--errors`.")
    path = args.out / "stream.csv"
    for table, name in product(args.tables, [] if args.print or args.summary or args.against else args.datasets):
        data = load_dataset(name, root=args.root)
        data = short_training(data) if table == "S2" else data
        columns = {SHORT: args.lookback} if table == "S2" else {c: LOOKBACKS[c] for c in args.columns}
        for (column, lookback), horizon in product(columns.items(), args.horizons or HORIZONS[table]):
            cell = Cell(table, data.name, column, lookback, horizon)
            for row in measured_rows(cell, data, args.rows, held(path), args.errors):
                record.append(path, COLUMNS, row)
    names = {find_spec(name).name for name in args.datasets}
    found = [row for row in record.read(path) if row["table"] in args.tables and row["dataset"] in names]
    if args.against:
        print("\n".join(differences(found, args.errors, args.against)))
    elif args.summary:
        print(summary(found))
    else:
        print_tables(found, args.channels)


def differences(found: list[dict[str, str]], folder: Path, other: str) -> Iterator[str]:
    """A line for each row whose errors a folder holds: its MSE less that of row `other`, with a 95 % interval."""
    for row in found:
        cell = Cell(row["table"], row["dataset"], row["column"], int(row["lookback"]), int(row["horizon"]))
        paths = [_errors_of(folder, cell, name) for name in (row["row"], other)]
        if row["row"] == other or not all(path.exists() for path in paths):
            continue
        mine, others = (Errors.load(path) for path in paths)
        spec = find_spec(cell.dataset)
        ends = split_of(cell.table, spec)
        test = range(ends[1], ends[2] - cell.horizon + 1)
        a, b = (errors.at(test).squared for errors in (mine, others))
        interval = paired_interval(a, b, day=steps_per_day(spec.freq), horizon=cell.horizon)
        share = 100 * interval.mean / b.mean(dtype=np.float64)
        between = f"[{interval.low:+.4f}, {interval.high:+.4f}]"
        yield f"{cell.label}: {row['row']} {interval.mean:+.4f} {between} ({share:+.1f} %)"


def _errors_of(folder: Path, cell: Cell, name: str) -> Path:
    return folder / cell.label / f"{name.replace(' ', '_')}.npz"


def held(path: Path) -> set[tuple[str, ...]]:
    """What the rows of the CSV are of: the fields of their cell as text, and their names."""
    return {(*(row[name] for name in Cell._fields), row["row"]) for row in record.read(path)}


def measured_rows(
    cell: Cell, data: Dataset, names: list[str], held: set[tuple[str, ...]], folder: Path | None
) -> Iterator[dict[str, Any]]:
    """The rows of a cell that are not `held`, the frozen core's first; their errors are kept in a folder, if given."""
    key = tuple(map(str, cell))
    missing = [name for name in names if (*key, name) not in held]
    if not missing:
        print(f"{cell.label}: in the CSV already", flush=True)
        return
    fit = Fit(Variant.of_mixer("memory"), cell.horizon, cell.lookback, 0, [cell.column], True, "cpu", 0)
    fitted, seconds = fit.fitted(data, max_epochs=0)
    subject, stamp = Subject(Stream(data, fitted)), rows.stamp("titans-ts")
    stream = subject.stream
    chosen = ", ".join(f"{choice.name} {choice.chosen}" for choice in fitted.choices)
    print(f"{cell.label}: fitted in {seconds:.1f} s; {chosen}", flush=True)
    of_frozen: Errors | None = None
    for name in dict.fromkeys([FROZEN, *missing]):
        errors, clock = measure(ROWS[name], subject)
        test, validation = errors.at(stream.test), errors.at(stream.validation)
        of_frozen = test if of_frozen is None else of_frozen
        if folder is not None:
            errors.save(_errors_of(folder, cell, name))
        if name not in missing:
            continue
        interval = paired_interval(test.squared, of_frozen.squared, day=stream.day, horizon=cell.horizon)
        row = {
            **cell._asdict(),
            "row": name,
            "mse": float(test.squared.mean(dtype=np.float64)),
            "mae": float(test.absolute.mean(dtype=np.float64)),
            "validation_mse": float(validation.squared.mean(dtype=np.float64)) if len(validation.squared) else None,
            "difference": interval.mean,
            "low": interval.low,
            "high": interval.high,
            "channel_mse": " ".join(f"{x:.5g}" for x in test.squared.mean(0, dtype=np.float64)),
            "updates": clock.updates,
            "seconds_per_update": clock.per_update,
            **stamp,
        }
        print(f"{cell.label}: {name} {row['mse']:.4f}, {clock.seconds:.1f} s of updates", flush=True)
        yield row


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", choices=("S1", "S2"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), metavar="NAME", help="of load_dataset")
    parser.add_argument("--columns", nargs="+", choices=("i", "iii"), default=["i", "iii"], help="of table S1")
    parser.add_argument("--lookback", type=int, default=LOOKBACK, help="of table S2; default: %(default)s")
    parser.add_argument("--horizons", nargs="+", type=int, help="default: the tables'")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW", help="default: all")
    parser.add_argument("--errors", type=Path, metavar="DIR", help="keep the errors at every origin here")
    parser.add_argument("--channels", action="store_true", help="print each channel's skill against the frozen core")
    parser.add_argument("--print", action="store_true", help="measure nothing; print what the CSV holds")
    parser.add_argument("--summary", action="store_true", help="measure nothing; print the tables in Markdown")
    parser.add_argument("--against", choices=list(ROWS), metavar="ROW", help="print differences to it, of kept errors")
    parser.add_argument("--root", type=Path, help="folder of the data files")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV; default: %(default)s")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
