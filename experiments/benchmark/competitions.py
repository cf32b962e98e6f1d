"""The M3 and M4 competitions: score forecasts of every series, print the tables, append to a CSV.

    python experiments/benchmark/competitions.py
    python experiments/benchmark/competitions.py "M3 yearly" "M3 other" --methods TitansForecaster
    python experiments/benchmark/competitions.py "M3 yearly" --choices

Of each group: `TitansForecaster(horizon=h)` as it comes, the same for all groups; naive forecasts, the line through the
first and the last row, the closed form alone and the mean of these; statsforecast's DynamicOptimizedTheta and AutoETS,
one series after another, which need `pip install -c constraints.txt -e '.[bench]'`; and those who took part, M3's
scored here by their own forecasts, M4's as published, over all series of a group even where only a part of its file is
at hand. Seconds are of fitting and forecasting all series. A row that the CSV holds is
not measured again, so a run that was stopped goes on; with `--again` it is, and the last row counts.

    python experiments/benchmark/competitions.py --training "M3 monthly" --seeds 0 1 2

In place of these, the network alone, without a combination: in its closed form, and trained from it with the memory, a
memory that never writes, no mixer, attention; from the linear path that the estimator chooses, and from one for all
series. See competition_training.py. They go to competitions_training.csv.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from arguments import check_names
from benchmark import competition_tables, competition_training, rows
from benchmark.competition_tables import BASELINES, CLOSED_FORM, DRIFT, ENTRY, HERE, MEAN, OURS, PEERS, PUBLISHED
from benchmark.naive import naive2, seasonal_naive
from benchmark.peer_models import peer
from benchmark.scores import Score, naive_scales, score
from titans_ts import ClosedForm, Drift, MeanForecaster, SeasonalNaive, TitansForecaster
from titans_ts.datasets import COMPETITIONS, Competition, load_competition
from titans_ts.devices import find_device

COLUMNS = ("group", "method", "source", "series", "smape", "mase", "seconds", "device", "versions", "commit")
TRAINING_COLUMNS = (
    *("group", "variant", "epochs", "seed", "series", "smape", "mase", "error_before", "error_after", "kept_epoch"),
    *("network_weight", "combined_error", "seconds", "device", "versions", "commit"),
)
NAIVE = {"seasonal naive": seasonal_naive, "Naive2": naive2}
ENTRIES = "entries"  # all who took part
METHODS = (OURS, *NAIVE, *BASELINES, *PEERS, ENTRIES)


def main(argv: list[str] | None = None) -> None:
    """Measure the rows asked for; each is in the CSV as soon as it is measured."""
    args = _arguments(argv)
    if args.choices:
        for name in args.groups:
            print(choices_text(load_competition(name, root=args.root)), flush=True)
        return
    if args.training:
        return train(args)
    out, methods = args.out / "competitions.csv", args.methods
    if set(methods) & set(PEERS) and not peer("statsforecast.models", "competitions"):
        methods = [method for method in methods if method not in PEERS]
    for name in args.groups:
        competition = load_competition(name, root=args.root)
        held = set() if args.again else {key(row) for row in record.read(out)}
        for row in measure(competition, methods, held):
            record.append(out, COLUMNS, row)
            if row["source"] == HERE:
                line = "{group}, {method}: {smape} / {mase}, {seconds} s".format_map(row)
                print(line, file=sys.stderr, flush=True)
    print("\n".join(competition_tables.rankings(out, args.groups)))
    print("\n".join(competition_tables.summary(out)))


def train(args: argparse.Namespace) -> None:
    """The same of rows that show what training is worth."""
    out = args.out / "competitions_training.csv"
    for name in args.groups:
        competition = load_competition(name, root=args.root)
        held = set() if args.again else {training_key(row) for row in record.read(out)}
        for row in measure_training(competition, args.variants, args.epochs, args.seeds, held):
            record.append(out, TRAINING_COLUMNS, row)
            line = "{group}, {variant}, seed {seed}: {smape} / {mase}, {seconds} s".format_map(row)
            print(line, file=sys.stderr, flush=True)
    print("\n".join(competition_tables.training(out)))


def training_key(row: dict[str, Any]) -> tuple[str, str, int, int]:
    return row["group"], row["variant"], int(row["epochs"]), int(row["seed"])


def key(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["group"], row["method"], row["source"]


@dataclass(frozen=True, eq=False)
class Series:
    """A competition's series as arrays, in the order of its tables."""

    competition: Competition
    past: list[np.ndarray]
    future: np.ndarray  # (series, horizon)
    scales: np.ndarray  # (series,)

    @classmethod
    def of(cls, competition: Competition) -> Series:
        lengths = competition.train.groupby("unique_id", sort=False).size().to_numpy()
        past = np.split(competition.train["y"].to_numpy(), np.cumsum(lengths)[:-1])
        future = competition.test["y"].to_numpy().reshape(-1, competition.horizon)
        return cls(competition, past, future, naive_scales(past, competition.season))

    def score(self, forecast: np.ndarray) -> Score:
        """Errors of a forecast that has a value for each row of the competition's `test`."""
        return score(self.future, forecast.reshape(-1, self.competition.horizon), self.scales)


def measure(competition: Competition, methods: list[str], held: set[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    """The rows of a group that are not held."""
    series = Series.of(competition)

    def wanted(method: str, source: str = HERE) -> bool:
        return (competition.name, method, source) not in held

    for method in methods:
        if method == ENTRIES:
            yield from (row for row in entries(series) if wanted(row["method"], row["source"]))
        elif wanted(method):
            yield run_here(series, method)


def measure_training(
    competition: Competition, variants: list[str], epochs: int, seeds: list[int], held: set[tuple[str, str, int, int]]
) -> Iterator[dict[str, Any]]:
    """The rows of a group's networks that are not held."""
    series, stamp = Series.of(competition), rows.stamp("titans-ts", find_device(None))

    def wanted(variant: str, epochs: int, seed: int) -> bool:
        return (competition.name, variant, epochs, seed) not in held

    data = competition.train, competition.horizon
    for found in competition_training.outcomes(*data, variants, epochs, seeds, wanted):
        errors = series.score(in_order(competition, found.forecast))
        yield dict(
            group=competition.name,
            variant=found.variant,
            epochs=found.epochs,
            seed=found.seed,
            series=len(series.past),
            smape=f"{errors.smape:.6f}",
            mase=f"{errors.mase:.6f}",
            error_before=found.error_before,
            error_after=found.error_after,
            kept_epoch=found.kept_epoch,
            network_weight=found.weighed.weight,
            combined_error=found.weighed.error,
            seconds=f"{found.seconds:.2f}",
            **stamp,
        )


def entries(series: Series) -> Iterator[dict[str, Any]]:
    """The rows of those who took part: M3's forecasts are scored, M4's scores are read."""
    competition = series.competition
    if competition.entries is not None:
        stamp = record.stamp(["numpy"])
        for method in competition.entries.columns.drop(["unique_id", "ds"]):
            found = series.score(competition.entries[method].to_numpy())
            yield _row(competition.name, method, ENTRY, len(series.past), found) | stamp
    if competition.published is not None:
        for method, *found in competition.published.itertuples(index=False):
            yield _row(competition.name, method, PUBLISHED, competition.n_published, Score(*found))


def run_here(series: Series, method: str) -> dict[str, Any]:
    """The row of a method that is run here."""
    competition = series.competition
    if method == OURS:
        stamp = rows.stamp("titans-ts", find_device(None))
        begun = time.perf_counter()
        forecast = forecast_all(competition)
    elif method in BASELINES:
        stamp = rows.stamp("titans-ts")
        begun = time.perf_counter()
        forecast = in_order(competition, baseline(method, competition).fit(competition.train).predict())
    else:
        stamp = record.stamp(["statsforecast", "numpy"] if method in PEERS else ["numpy"])
        call = NAIVE[method] if method in NAIVE else statistical(method)
        sizes = competition.horizon, competition.season
        call(series.past[0], *sizes)  # compiles what it needs
        begun = time.perf_counter()
        forecast = np.stack([call(past, *sizes) for past in series.past])
    seconds = time.perf_counter() - begun
    return _row(competition.name, method, HERE, len(series.past), series.score(forecast), seconds) | stamp


def forecast_all(competition: Competition) -> np.ndarray:
    """The forecast of the estimator with its defaults, fitted to all series at once, for each row of `test`."""
    return in_order(competition, fitted(competition).predict())


def in_order(competition: Competition, forecast: pd.DataFrame) -> np.ndarray:
    """A forecast of the estimator for each row of `test`."""
    keys = ["unique_id", "ds"]
    ordered = competition.test[keys].merge(forecast, on=keys, how="left", validate="1:1")
    values: np.ndarray = ordered[forecast.columns[-1]].to_numpy(dtype=np.float64)
    return values


def baseline(method: str, competition: Competition) -> Any:
    """One of the toolkit's baselines; of `MEAN` the mean of the seasonal naive forecast and the others."""
    h = competition.horizon
    alone = {DRIFT: Drift(horizon=h), CLOSED_FORM: ClosedForm(horizon=h)}
    if method == MEAN:
        return MeanForecaster([SeasonalNaive(horizon=h, season=competition.season), *alone.values()])
    return alone[method]


def fitted(competition: Competition) -> TitansForecaster:
    """The estimator with its defaults, fitted to all series at once."""
    return TitansForecaster(horizon=competition.horizon, random_state=0, verbose=0).fit(competition.train)


def choices_text(competition: Competition) -> str:
    """What the estimator chose on the held-back rows of a group, beside what else it tried."""
    table = fitted(competition).summary()
    shown = table.assign(relative_error=table["relative_error"].round(4), chosen=table["chosen"].map({True: "*"}))
    return f"\n{competition.name}\n{shown.fillna('').to_string(index=False)}"


def statistical(name: str) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """A model of statsforecast, from one history to its forecast."""
    model = getattr(importlib.import_module("statsforecast.models"), name)

    def forecast(past: np.ndarray, horizon: int, season: int) -> np.ndarray:
        return np.asarray(model(season_length=season).forecast(past, horizon)["mean"])

    return forecast


def _row(
    group: str, method: str, source: str, series: int, found: Score, seconds: float | None = None
) -> dict[str, Any]:
    row = dict(group=group, method=method, source=source, series=series)
    row |= dict(smape=f"{found.smape:.6f}", mase=f"{found.mase:.6f}")
    return row | dict(seconds="" if seconds is None else f"{seconds:.2f}")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "groups", nargs="*", default=list(COMPETITIONS), help=f"some of {', '.join(COMPETITIONS)} (default: all)"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--training", action="store_true", help="measure what training is worth, in place of the methods"
    )
    variants = list(competition_training.VARIANTS)
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=variants,
        default=variants,
        metavar="VARIANT",
        help=f"some of {', '.join(map(repr, variants))}, with --training (default: all)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=competition_training.EPOCHS,
        help=f"of at most {competition_training.MOST_WINDOWS:,} windows, with --training (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0], help="of each network, with --training (default: 0)"
    )
    parser.add_argument("--again", action="store_true", help="measure rows that the CSV holds")
    parser.add_argument(
        "--choices", action="store_true", help="print what the estimator chose by held-back rows, and measure nothing"
    )
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    check_names(parser, "groups", args.groups, COMPETITIONS)
    if args.epochs < 1:
        parser.error(f"`--epochs` must be an integer >= 1, got {args.epochs}.")
    return args


if __name__ == "__main__":
    main()
