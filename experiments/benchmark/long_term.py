"""The long-term forecasting benchmark: train and score each horizon, print the table, append to a CSV.

    python experiments/benchmark/long_term.py experiments/benchmark/etth1.toml --horizons 96 --seeds 0
    python experiments/benchmark/long_term.py experiments/benchmark/etth1.toml --closed-form

A TOML that describes no network is measured by the estimator as it comes: `TitansForecaster(horizon=, lookback=)` on
the benchmark's split. With `[model]` and `[train]` it is that network. A row that the CSV holds is not measured again,
so a run that was stopped goes on.

Columns of the benchmark, never mixed: (i) lookback 96, every test window; (ii) the same model with the last partial
batch of 128 windows dropped, as older papers measured; (iii) lookback 512, every test window. Errors are in the
space of a scaler fitted on the train rows. Everything is chosen on validation; test is read once per row.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark import rows
from benchmark.data import Benchmark, read_subset, seasonal_naive
from benchmark.estimator import Fit
from benchmark.estimator import errors as estimator_errors
from benchmark.table import LOOKBACKS, MIXERS, Table, Variant
from record import RESULTS
from titans_ts.datasets import load_dataset
from titans_ts.devices import find_device
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.training.closed_form import initialised_network, reinitialised_network
from titans_ts.training.config import TrainConfig
from titans_ts.training.evaluate import evaluate
from titans_ts.training.history import History
from titans_ts.training.loop import fit_network
from titans_ts.windows.windows import Windows

DROPPED_BATCH = 128  # windows a batch, of which column (ii) drops the last partial one


def main(argv: list[str] | None = None) -> None:
    """Run the rows asked for; each is in the CSV as soon as it is measured."""
    args = _arguments(argv)
    table = Table.read(args.table)
    device = find_device(args.device)
    data = read_subset(table.dataset, args.subset) if args.subset else load_dataset(table.dataset, root=args.root)
    benchmark = Benchmark(data, device)
    out = args.out / f"{args.table.stem}{'_subset' if args.subset else ''}.csv"
    stamp = rows.stamp("titans-ts", device)
    mixers = args.mixers or ([] if args.variants else ["memory"])
    variants = [Variant.of_mixer(mixer) for mixer in mixers]
    if args.variants:
        variants += Variant.read(args.variants)
    found, closed_forms = [], ClosedForms(benchmark)
    for lookback in dict.fromkeys(LOOKBACKS[column] for column in args.columns):
        columns = [column for column in args.columns if LOOKBACKS[column] == lookback]
        for horizon, variant, seed in product(args.horizons or table.horizons, variants, args.seeds or table.seeds):
            how = columns, args.closed_form
            if table.model:
                configs = table.configs(horizon, lookback, benchmark.n_series, variant, seed)
                run = Run(variant, *configs, *how, args.verbose)
                measured = measure(run, benchmark, closed_forms, rows.held(out))
            else:
                fit = Fit(variant, horizon, lookback, seed, *how, args.device, args.verbose)
                measured = measure_estimator(fit, benchmark, rows.held(out))
            for row in measured:
                found.append({**row, **stamp})
                if os.environ.get("RANK", "0") == "0":  # torchrun's other processes have the same rows
                    rows.append(out, found[-1])
    print_table(found, table.published)
    print(f"{len(found)} rows appended to {out}")


class Run(NamedTuple):
    """One network to be trained, and the columns of its lookback that want its errors."""

    variant: Variant
    model: ModelConfig
    train: TrainConfig
    columns: list[str]
    closed_form_alone: bool
    verbose: int

    @property
    def is_plain(self) -> bool:
        """Whether its closed form is the table's: no variant but of the mixer, which the closed form has none of."""
        variant = self.variant
        return bool(self.model.linear_path) and variant.model.keys() <= {"mixer"} and not variant.train

    def row(self, dataset: str) -> dict[str, Any]:
        """What all its rows say."""
        config = json.dumps([asdict(self.model), asdict(replace(self.train, verbose=0))], sort_keys=True)
        return {
            "dataset": dataset,
            "lookback": self.model.lookback,
            "horizon": self.model.horizon,
            "seed": self.train.random_state,
            "config": hashlib.sha256(config.encode()).hexdigest()[:12],
        }


class ClosedForms:
    """Networks as the closed form initialises them, which it does once for all seeds that follow one another."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self._last: tuple[ModelConfig, SimbaForecaster, float] | None = None

    def network(self, config: ModelConfig, seed: int) -> tuple[SimbaForecaster, float]:
        """A new network, and the seconds that its linear path took when it was solved for."""
        if self._last is None or self._last[0] != config:
            train, validation, _ = self.benchmark.windows(config)
            begun = time.perf_counter()
            solved = initialised_network(config, train, validation, self.benchmark.profile(config.cycle), seed)
            self._last = config, solved, time.perf_counter() - begun
        _, solved, seconds = self._last
        return reinitialised_network(solved, seed), seconds


def measure(run: Run, benchmark: Benchmark, closed_forms: ClosedForms, held: set[rows.Key]) -> Iterator[dict[str, Any]]:
    """The rows of one network that the CSV has not `held`: seasonal naive and the closed form alone, then trained."""
    shared, name, model = run.row(benchmark.data.name), run.variant.name, run.model
    steps = model.lookback, model.horizon
    seed = run.train.random_state
    label = f"{benchmark.data.name} {model.lookback}->{model.horizon} {name} seed {seed}"
    have = {key[:4] for key in held}
    untrained = [c for c in run.columns if run.is_plain and ("closed-form", c, *steps) not in have]
    trained = [c for c in run.columns if (name, c, *steps, seed, shared["config"]) not in held]
    trained = [] if run.closed_form_alone else trained
    if not untrained and not trained:
        print(f"{label}: in the CSV already", flush=True)
        return
    tests = {column: _test_windows(benchmark, model, column) for column in run.columns}
    network, seconds = closed_forms.network(model, seed)
    for column in untrained:
        naive = seasonal_naive(tests[column], model.cycle or 1)
        yield {**shared, "model": "seasonal-naive", "column": column, **_scores(naive, 0.0)}
        yield {**shared, "model": "closed-form", "column": column, **_scores(errors(network, tests[column]), seconds)}
    if not trained:
        return
    train, validation, _ = benchmark.windows(model)
    begun = time.perf_counter() - seconds
    history = fit_network(network, train, validation, replace(run.train, verbose=run.verbose))
    seconds = time.perf_counter() - begun
    _print_history(label, history, seconds)
    for column in trained:
        yield {**shared, "model": name, "column": column, **_scores(errors(network, tests[column]), seconds)}


def measure_estimator(fit: Fit, benchmark: Benchmark, held: set[rows.Key]) -> Iterator[dict[str, Any]]:
    """The rows of one fit of the estimator that the CSV has not `held`, in the order of `measure`'s."""
    data, name = benchmark.data, fit.variant.name
    shared, steps = fit.row(data.name, len(data.split.validation)), (fit.lookback, fit.horizon)
    label = f"{data.name} {fit.lookback}->{fit.horizon} {name} seed {fit.seed}"
    have = {(*key[:4], key.config) for key in held}
    untrained = [c for c in fit.columns if fit.is_plain and ("closed-form", c, *steps, shared["config"]) not in have]
    trained = [c for c in fit.columns if (name, c, *steps, fit.seed, shared["config"]) not in held]
    trained = [] if fit.closed_form_alone else trained
    if not untrained and not trained:
        print(f"{label}: in the CSV already", flush=True)
        return
    if untrained:
        fitted, seconds = fit.fitted(data, max_epochs=0)
        config = fitted.network.config
        for choice in fitted.choices:
            print(f"{label}: {choice.name} {choice.chosen}", flush=True)
        for column in untrained:
            naive = seasonal_naive(_test_windows(benchmark, config, column), config.cycle or 1)
            yield {**shared, "model": "seasonal-naive", "column": column, **_scores(naive, 0.0)}
            scores = estimator_errors(fitted, data, _dropped(benchmark, config, column))
            yield {**shared, "model": "closed-form", "column": column, **_scores(scores, seconds)}
    if trained:
        fitted, seconds = fit.fitted(data)
        _print_history(label, fitted.history, seconds)
        for column in trained:
            scores = estimator_errors(fitted, data, _dropped(benchmark, fitted.network.config, column))
            yield {**shared, "model": name, "column": column, **_scores(scores, seconds)}


def errors(network: SimbaForecaster, windows: Windows) -> tuple[float, float]:
    """MSE and MAE over every window."""
    return evaluate(network, windows, "mse"), evaluate(network, windows, "mae")


def print_table(found: list[dict[str, Any]], published: dict[str, list[float]]) -> None:
    """The rows measured, and what was published of the same data."""
    print(f"\n{'model':<18}{'column':>7}{'horizon':>9}{'seed':>6}{'MSE':>9}{'MAE':>9}")
    for row in found:
        print("{model:<18}{column:>7}{horizon:>9}{seed:>6}{mse:>9.4f}{mae:>9.4f}".format(**row))
    for name, (mse, mae) in published.items():
        print(f"{name + ' (published)':<34}{'mean':>6}{mse:>9.4f}{mae:>9.4f}  over all four horizons")


def _print_history(label: str, history: History, seconds: float) -> None:
    first, best = history.evaluations[0], history.best
    print(
        f"{label}: validation {first.validation_loss:.4f} -> {best.validation_loss:.4f} "
        f"at epoch {best.epoch:.2f}, stopped by {history.stopped} after {seconds:.0f} s",
        flush=True,
    )


def _test_windows(benchmark: Benchmark, config: ModelConfig, column: str) -> Windows:
    """Those that a column counts."""
    return benchmark.windows(config, dropped=_dropped(benchmark, config, column)).test


def _dropped(benchmark: Benchmark, config: ModelConfig, column: str) -> int:
    """How many of the last test windows of each channel a column leaves out."""
    origins = len(benchmark.data.split.test) - config.horizon + 1
    return origins % DROPPED_BATCH if column == "ii" else 0


def _scores(found: tuple[float, float], seconds: float) -> dict[str, float]:
    return {"mse": found[0], "mae": found[1], "seconds": seconds}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
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
    parser.add_argument("--closed-form", action="store_true", help="train nothing; the closed form and seasonal naive")
    parser.add_argument("--verbose", type=int, default=1, help="0 hides the progress bar")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
