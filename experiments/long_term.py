"""The long-term forecasting benchmark: train and score each horizon, print the table, append to a CSV.

    python experiments/long_term.py experiments/etth1.toml --horizons 96 --seeds 0
    python experiments/long_term.py experiments/etth1.toml --horizons 96 --variants experiments/ablation.toml

A row that the CSV holds is not measured again, so a run that was stopped goes on.

Columns of the benchmark, never mixed: (i) lookback 96, every test window; (ii) the same model with the last partial
batch of 128 windows dropped, as older papers measured; (iii) lookback 512, every test window. Errors are in the
space of a scaler fitted on the train rows. Everything is chosen on validation; test is read once per row.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import hashlib
import json
import os
import platform
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from stamp import commit, device_name

import titans_ts
from titans_ts.checks import find_device
from titans_ts.datasets import Dataset, load_dataset
from titans_ts.datasets.load import as_dataset
from titans_ts.datasets.registry import find_spec
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.start import restarted_network, started_network
from titans_ts.surroundings import Surroundings
from titans_ts.training import TrainConfig, evaluate, fit_network
from titans_ts.windows import Windows, profiles

LOOKBACKS = {"i": 96, "ii": 96, "iii": 512}
DROPPED_BATCH = 128  # windows a batch, of which column (ii) drops the last partial one
MIXERS = {"memory": "titans", "attention": "simba-attention", "mamba": "simba-mamba", "none": "simba-none"}
RESULTS = Path(__file__).parent / "results"
PARTS = {  # of a TOML, and what each may say; the rest is the benchmark's
    "model": {field.name for field in fields(ModelConfig)} - {"lookback", "horizon", "n_series"},
    "train": {field.name for field in fields(TrainConfig)} - {"random_state"},
}
Key = tuple[str, str, int, int, int, str]  # model, column, lookback, horizon, seed, config
CSV_COLUMNS = (
    *("dataset", "model", "column", "lookback", "horizon", "seed", "mse", "mae"),
    *("seconds", "device", "versions", "commit", "config"),
)


@dataclass(frozen=True)
class Variant:
    """What a row differs by from the table's network and training; its name is the CSV's `model`."""

    name: str
    model: dict[str, Any]
    train: dict[str, Any]

    @classmethod
    def of_mixer(cls, mixer: str) -> Variant:
        return cls(MIXERS[mixer], {"mixer": mixer}, {})

    @classmethod
    def read(cls, path: Path) -> list[Variant]:
        """Those of a TOML: ``[name.model]`` and ``[name.train]``."""
        raw = tomllib.loads(path.read_text())
        for name, parts in raw.items():
            _check_parts(path, name, parts)
        return [cls(name, parts.get("model", {}), parts.get("train", {})) for name, parts in raw.items()]


@dataclass(frozen=True)
class Table:
    """One experiment's TOML: a data set, the network, its training, and what was published for comparison.

    `published` is the paper's MSE and MAE over the four horizons; it gives no others. `best` is the least MSE over the
    four published by those who count every test window, by lookback. `lookback` and `horizon` refine the network or its
    training where they apply, the horizon last: ``[lookback.512.train]``, ``[horizon.720.train]``.
    """

    dataset: str
    horizons: tuple[int, ...]
    seeds: tuple[int, ...]
    model: dict[str, Any]
    train: dict[str, Any]
    published: dict[str, list[float]]
    best: dict[str, float]
    lookback: dict[str, dict[str, dict[str, Any]]]
    horizon: dict[str, dict[str, dict[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> Table:
        """The TOML at `path`; unknown keys are errors."""
        raw = tomllib.loads(path.read_text())
        known = {field.name for field in fields(cls)}
        refuse_unknown(path, "", raw, known)
        _check_parts(path, "", {part: raw[part] for part in ("model", "train") if part in raw})
        for where, steps in (("lookback", raw.get("lookback", {})), ("horizon", raw.get("horizon", {}))):
            for number, refined in steps.items():
                _check_parts(path, f"{where}.{number}", refined)
        for name in ("dataset", "horizons", "seeds"):
            if name not in raw:
                raise ValueError(f"{path}: `{name}` is missing.")
        return cls(
            dataset=raw["dataset"],
            horizons=tuple(raw["horizons"]),
            seeds=tuple(raw["seeds"]),
            model=raw.get("model", {}),
            train=raw.get("train", {}),
            published=raw.get("published", {}),
            best=raw.get("best", {}),
            lookback=raw.get("lookback", {}),
            horizon=raw.get("horizon", {}),
        )

    def configs(
        self, horizon: int, lookback: int, n_series: int, variant: Variant, seed: int
    ) -> tuple[ModelConfig, TrainConfig]:
        """The network and its training at one horizon."""
        refinements = self.lookback.get(str(lookback), {}), self.horizon.get(str(horizon), {})
        model, train = dict(self.model), dict(self.train)
        for refined in (*refinements, {"model": variant.model, "train": {**variant.train, "random_state": seed}}):
            model |= refined.get("model", {})
            train |= refined.get("train", {})
        return (
            ModelConfig(lookback=lookback, horizon=horizon, n_series=n_series, **model),
            TrainConfig(**train),
        )


class Benchmark:
    """A data set as windows, in the space where errors are published."""

    def __init__(self, data: Dataset, device: torch.device) -> None:
        self.data = data
        self.rows = data.split.test.stop
        scaled = np.asarray(data.scaler.transform(data.frame.iloc[: self.rows]), dtype=np.float64)
        self.n_series = scaled.shape[1]
        self.scaled = scaled.T.ravel()  # series after series
        self.lengths = np.full(self.n_series, self.rows)
        self.starts = np.zeros(self.n_series, dtype=np.int64)
        self.values = torch.from_numpy(self.scaled.astype(np.float32)).to(device)
        self._around: Surroundings | None = None  # of the last lookback asked for

    def around(self, lookback: int) -> Surroundings:
        """What each window comes with where the channels read one another."""
        if self._around is None or self._around.lookback != lookback:
            series = self.values, self.lengths, self.starts
            self._around = Surroundings(*series, lookback=lookback, n_series=self.n_series)
        return self._around

    def windows(self, part: range, lookback: int, horizon: int, *, dropped: int = 0, across: bool = False) -> Windows:
        """Every window that forecasts rows of `part` alone, less the last `dropped` of each channel.

        Where the channels are to read `across` one another, each comes with all.
        """
        first = max(part.start, lookback)
        return Windows(
            self.values,
            self.lengths,
            self.starts,
            lookback=lookback,
            horizon=horizon,
            first=np.full(self.n_series, first),
            last=np.full(self.n_series, part.stop - dropped),
            around=self.around(lookback) if across else None,
        )

    def profile(self, cycle: int) -> torch.Tensor | None:
        """The mean train day of each channel."""
        if not cycle:
            return None
        rows = np.full(self.n_series, self.data.split.train.stop)
        return torch.from_numpy(profiles(self.scaled, self.lengths, self.starts, rows, cycle))


def main(argv: list[str] | None = None) -> None:
    """Run the rows asked for; each is in the CSV as soon as it is measured."""
    args = _arguments(argv)
    table = Table.read(args.table)
    device = find_device(args.device)
    data = subset(table.dataset, args.subset) if args.subset else load_dataset(table.dataset, root=args.root)
    benchmark = Benchmark(data, device)
    seeds = args.seeds or table.seeds
    stamp = {
        "device": device_name(device) + ("" if device.type == "cuda" else f", {torch.get_num_threads()} threads"),
        "versions": f"titans_ts {titans_ts.__version__}, torch {torch.__version__}, python {platform.python_version()}",
        "commit": commit(),
    }
    out = args.out / f"{args.table.stem}{'_subset' if args.subset else ''}.csv"
    mixers = args.mixers or ([] if args.variants else ["memory"])
    variants = [Variant.of_mixer(mixer) for mixer in mixers]
    if args.variants:
        variants += Variant.read(args.variants)
    rows, starts = [], Starts()
    for lookback in dict.fromkeys(LOOKBACKS[column] for column in args.columns):
        columns = [column for column in args.columns if LOOKBACKS[column] == lookback]
        for horizon, variant, seed in product(args.horizons or table.horizons, variants, seeds):
            for row in run(
                benchmark, table, columns, lookback, horizon, variant, seed, done(out), args.verbose, starts
            ):
                rows.append({**row, **stamp})
                if os.environ.get("RANK", "0") == "0":  # torchrun's other processes have the same rows
                    append(out, rows[-1])
    _print_table(rows, table.published)
    print(f"{len(rows)} rows appended to {out}")


def subset(name: str, path: Path) -> Dataset:
    """Some channels of a data set, all their rows, from a CSV that begins with the dates; its name says how many."""
    spec = find_spec(name)
    frame = pd.read_csv(path, index_col=0, parse_dates=True)
    if unknown := sorted(set(frame.columns) - set(spec.channels)):
        raise ValueError(f"{path} has the columns {unknown}, which are not in {spec.name}.")
    if len(frame) != spec.rows:
        raise ValueError(f"{path} must have the {spec.rows} rows of {spec.name}, got {len(frame)}.")
    return as_dataset(spec, frame.astype(float), f"{spec.name}, {frame.shape[1]} of {len(spec.channels)} series")


def run(
    benchmark: Benchmark,
    table: Table,
    columns: list[str],
    lookback: int,
    horizon: int,
    variant: Variant,
    seed: int,
    held: set[Key],
    verbose: int,
    starts: Starts,
) -> Iterator[dict[str, Any]]:
    """Train one network and score it, unless the CSV `held` it; before it seasonal naive and the closed-form start."""
    model_config, train_config = table.configs(horizon, lookback, benchmark.n_series, variant, seed)
    train_config = replace(train_config, verbose=verbose)
    config = json.dumps([asdict(model_config), asdict(replace(train_config, verbose=0))], sort_keys=True)
    shared = {
        "dataset": benchmark.data.name,
        "lookback": lookback,
        "horizon": horizon,
        "seed": seed,
        "config": hashlib.sha256(config.encode()).hexdigest()[:12],
    }
    missing = [c for c in columns if (variant.name, c, lookback, horizon, seed, shared["config"]) not in held]
    if not missing:
        print(f"{shared['dataset']} {lookback}->{horizon} {variant.name} seed {seed}: in the CSV already", flush=True)
        return
    split = benchmark.data.split
    across = model_config.linear_across
    train, validation = (
        benchmark.windows(part, lookback, horizon, across=across) for part in (split.train, split.validation)
    )
    size = len(split.test) - horizon + 1
    tests = {
        column: benchmark.windows(
            split.test, lookback, horizon, dropped=size % DROPPED_BATCH if column == "ii" else 0, across=across
        )
        for column in missing
    }

    network, seconds = starts.network(benchmark, model_config, train, validation, seed)
    if variant.model.keys() <= {"mixer"} and not variant.train and model_config.linear_path:
        known = {key[:4] for key in held}
        for column, test in tests.items():
            if ("closed-form", column, lookback, horizon) not in known:
                found = seasonal_naive(test, model_config.cycle or 1)
                yield _row(shared, "seasonal-naive", column, found, 0.0)
                yield _row(shared, "closed-form", column, errors(network, test), seconds)
    begun = time.perf_counter() - seconds
    history = fit_network(network, train, validation, train_config)
    seconds = time.perf_counter() - begun
    best = history.best
    print(
        f"{shared['dataset']} {lookback}->{horizon} {variant.name} seed {seed}: validation "
        f"{history.checks[0].validation_loss:.4f} -> {best.validation_loss:.4f} at epoch {best.epoch:.2f}, "
        f"stopped by {history.stopped} after {seconds:.0f} s",
        flush=True,
    )
    for column, test in tests.items():
        yield _row(shared, variant.name, column, errors(network, test), seconds)


class Starts:
    """The closed-form start, solved for once for all seeds that follow one another."""

    def __init__(self) -> None:
        self._last: tuple[ModelConfig, SimbaForecaster, float] | None = None

    def network(
        self, benchmark: Benchmark, config: ModelConfig, train: Windows, validation: Windows, seed: int
    ) -> tuple[SimbaForecaster, float]:
        """A new network at its start, and the seconds that took when it was solved for."""
        if self._last is None or self._last[0] != config:
            begun = time.perf_counter()
            solved = started_network(config, train, validation, benchmark.profile(config.cycle), seed)
            self._last = config, solved, time.perf_counter() - begun
        _, solved, seconds = self._last
        return restarted_network(solved, seed), seconds


def _row(shared: dict[str, Any], model: str, column: str, found: tuple[float, float], seconds: float) -> dict[str, Any]:
    return {**shared, "model": model, "column": column, "mse": found[0], "mae": found[1], "seconds": seconds}


def errors(network: SimbaForecaster, windows: Windows) -> tuple[float, float]:
    """MSE and MAE over every window."""
    return evaluate(network, windows, "mse"), evaluate(network, windows, "mae")


def seasonal_naive(windows: Windows, period: int) -> tuple[float, float]:
    """MSE and MAE of repeating the last `period` steps, or the last one where a lookback is shorter than that."""
    if period > windows.lookback:
        period = 1
    squared = absolute = 0.0
    count = 0
    for batch in windows.batches(4096):
        last = batch.past[:, -period:]
        repeats = -(-windows.horizon // period)
        error = (last.repeat(1, repeats, 1)[:, : windows.horizon] - batch.future).double()
        squared, absolute, count = (
            squared + error.square().sum().item(),
            absolute + error.abs().sum().item(),
            count + error.numel(),
        )
    return squared / count, absolute / count


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path, help="the experiment's TOML")
    parser.add_argument("--horizons", type=int, nargs="+", help="a part of the TOML's")
    parser.add_argument("--seeds", type=int, nargs="+", help="a part of the TOML's, or others")
    parser.add_argument("--columns", nargs="+", choices=LOOKBACKS, default=["i"], help="of the benchmark (default: i)")
    parser.add_argument("--mixers", nargs="+", choices=MIXERS, help="what mixes tokens (default: memory)")
    parser.add_argument("--variants", type=Path, help="a TOML of variants, in place of the mixers if none is named")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--subset", type=Path, help="a CSV of some of the channels, all rows; its rows are apart")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    parser.add_argument("--device", help="cpu, cuda, ...; a GPU if there is one")
    parser.add_argument("--verbose", type=int, default=1, help="0 hides the progress bar")
    return parser.parse_args(argv)


def _check_parts(path: Path, section: str, parts: dict[str, Any]) -> None:
    """Refuse what is neither a field of the network nor of its training."""
    refuse_unknown(path, section, parts, set(PARTS))
    for part, given in parts.items():
        refuse_unknown(path, f"{section}.{part}".lstrip("."), given, PARTS[part])


def refuse_unknown(path: Path, section: str, given: dict[str, Any], allowed: set[str]) -> None:
    for key in given:
        if key not in allowed:
            close = difflib.get_close_matches(key, allowed, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(allowed))}."
            raise ValueError(f"{path}{f' [{section}]' if section else ''}: unknown key {key!r}{hint}")


def done(path: Path) -> set[Key]:
    """The rows that the CSV holds, by what they are of."""
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        (row["model"], row["column"], int(row["lookback"]), int(row["horizon"]), int(row["seed"]), row["config"])
        for row in rows
    }


def append(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(
            {**row, "mse": f"{row['mse']:.6f}", "mae": f"{row['mae']:.6f}", "seconds": f"{row['seconds']:.2f}"}
        )


def _print_table(rows: list[dict[str, Any]], published: dict[str, list[float]]) -> None:
    print(f"\n{'model':<18}{'column':>7}{'horizon':>9}{'seed':>6}{'MSE':>9}{'MAE':>9}")
    for row in rows:
        print("{model:<18}{column:>7}{horizon:>9}{seed:>6}{mse:>9.4f}{mae:>9.4f}".format(**row))
    for name, (mse, mae) in published.items():
        print(f"{name + ' (published)':<34}{'mean':>6}{mse:>9.4f}{mae:>9.4f}  over all four horizons")


if __name__ == "__main__":
    main()
