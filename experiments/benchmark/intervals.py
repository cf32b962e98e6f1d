"""Prediction intervals: their coverage, CRPS and width on streams and competitions, beside other packages' intervals.

    python experiments/benchmark/intervals.py
    python experiments/benchmark/intervals.py ETTh1 "M3 monthly" --methods adaptive frozen
    python experiments/benchmark/intervals.py --print

Streams (ETTh1, ETTh2, weather): the protocol's splits, column (i), which is lookback 96. Each channel is a series.
Forecasts 24 and 96 steps ahead from origins 25 hours apart through the test rows, as many as end within them, so that
all times of the day count alike, as they do where every window counts. The estimator as it comes is fitted to train and
validation rows, of which the last are held out and calibrate it; then the rows from one origin to the next are handed
to `update`. "adaptive": its intervals are by the errors of the last forecasts whose rows have come;
"frozen": by those in validation rows alone. Errors are over the standard deviation of a channel's train rows. Seconds
of ours are of the fit and of both.

Competitions (M3, M4 hourly): forecasts from the end of each history, "TitansForecaster" as it comes. Errors are over
the mean |x_t - x_{t-m}| of the history, as MASE's.

Peers, which need `pip install -c constraints.txt -e '.[bench]'`: "AutoETS" of statsforecast with its own intervals,
where streams are hourly, from every eleventh origin, fitted anew to the last 1,000 rows of each channel with a
season of 24; rows of ours "at AutoETS's origins" are those to compare it with. "NHITS, conformal" of neuralforecast,
from every origin: lookback 96, trained 500 steps for the squared error with its other defaults, calibrated by absolute
errors of 100 windows in the validation rows, or of the last 20 of each series.

The scores are defined in interval_scores.py. A row that the CSV holds is not measured again; with `--again` it is, and
the last row counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from arguments import check_names
from benchmark import interval_competitions as on_competition
from benchmark import interval_streams as on_stream
from benchmark.interval_scores import SCORES, scores
from benchmark.interval_streams import ETS_EVERY, Rows
from benchmark.interval_tables import tables
from benchmark.peer_models import peer
from titans_ts.datasets import load_competition, load_dataset

STREAMS = ("ETTh1", "ETTh2", "weather")
COMPETITIONS = ("M3 yearly", "M3 quarterly", "M3 monthly", "M3 other", "M4 hourly")
HORIZONS = (24, 96)
FROZEN, ADAPTIVE, OURS, AUTO_ETS, CONFORMAL = "frozen", "adaptive", "TitansForecaster", "AutoETS", "NHITS, conformal"
AT_ITS_ORIGINS = "at AutoETS's origins"
METHODS = (OURS, FROZEN, ADAPTIVE, AUTO_ETS, CONFORMAL)
PACKAGES = {AUTO_ETS: "statsforecast", CONFORMAL: "neuralforecast"}
COLUMNS = ("data", "horizon", "method", "series", "origins", *SCORES, "seconds", "device", "versions", "commit")


class Measured(NamedTuple):
    """A method's forecasts."""

    method: str
    frame: pd.DataFrame
    model: str  # its column
    seconds: float


def main(argv: list[str] | None = None) -> None:
    """Measure the rows asked for, each is in the CSV as soon as it is measured; print the tables."""
    args = _arguments(argv)
    out = args.out / "intervals.csv"
    if not args.print:
        methods = [method for method in args.methods if method not in PACKAGES or peer(PACKAGES[method], "intervals")]
        for name in args.data:
            for horizon in args.horizons if name in STREAMS else [None]:
                held = set() if args.again else {key(row) for row in record.read(out)}
                for row in measure(name, horizon, methods, held, args.root):
                    record.append(out, COLUMNS, row)
                    line = "{data}, {horizon}, {method}: {coverage_50:.1f} {coverage_80:.1f} {coverage_95:.1f}"
                    print(line.format_map(row), file=sys.stderr, flush=True)
    print("\n\n".join(tables(record.read(out))))


def key(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["data"], int(row["horizon"]), row["method"]


def measure(
    name: str, horizon: int | None, methods: list[str], held: set[tuple[str, int, str]], root: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a data set that are not held."""
    if name in STREAMS:
        rows = Rows(load_dataset(name, root=root), int(horizon or HORIZONS[0]))
        missing = [x for x in methods if (name, rows.horizon, x) not in held and applies(x, name)]
        found, units, each = stream_forecasts(rows, missing), rows.scales, True
        size = {"data": name, "horizon": rows.horizon, "series": rows.wide.shape[1]}
    else:
        competition = load_competition(name, root=root)
        missing = [x for x in methods if (name, competition.horizon, x) not in held and applies(x, name)]
        found, units, each = competition_forecasts(competition, missing), on_competition.scales(competition), False
        size = {"data": name, "horizon": competition.horizon, "series": len(units)}
    for method, frame, model, seconds in found:
        origins = frame["origin"].nunique() if each else 1
        few = method.endswith((AUTO_ETS, AT_ITS_ORIGINS))  # origins
        yield dict(
            **size,
            method=method,
            origins=origins,
            **scores(frame, model, units, each and not few),
            seconds=f"{seconds:.2f}",
            **stamp(method),
        )


def applies(method: str, name: str) -> bool:
    """Whether a method is run on a data set."""
    if name in STREAMS:
        return method in (FROZEN, ADAPTIVE) or (method in PACKAGES and name != "weather")
    return method in (OURS, AUTO_ETS) or (method == CONFORMAL and name == "M4 hourly")


def stamp(method: str) -> dict[str, str]:
    """What a row says of where it was measured."""
    package = next((package for peer, package in PACKAGES.items() if peer == method), "titans-ts")
    found = record.stamp([package, "numpy"] if package == "statsforecast" else [package, "torch"])
    return found | {"device": f"{found['device']}, {torch.get_num_threads()} threads"}


def stream_forecasts(rows: Rows, methods: list[str]) -> Iterator[Measured]:
    """The forecasts of each method; ours are of one fit, and again at AutoETS's origins where that is run."""
    if {FROZEN, ADAPTIVE} & set(methods):
        begun = time.perf_counter()
        frames = dict(zip((FROZEN, ADAPTIVE), on_stream.streamed(on_stream.fitted(rows), rows), strict=True))
        seconds = time.perf_counter() - begun
        for method in [method for method in frames if method in methods]:
            yield Measured(method, frames[method], "Titans", seconds)
            if applies(AUTO_ETS, rows.data.name):
                part = on_stream.every(rows, frames[method], ETS_EVERY)
                yield Measured(f"{method}, {AT_ITS_ORIGINS}", part, "Titans", seconds)
    if AUTO_ETS in methods:
        few = Rows(rows.data, rows.horizon, ETS_EVERY * rows.origins.step)
        yield Measured(AUTO_ETS, *timed(lambda: on_stream.auto_ets(few), "AutoETS"))
    if CONFORMAL in methods:
        yield Measured(CONFORMAL, *timed(lambda: on_stream.conformal(rows, "NHITS"), "NHITS"))


def competition_forecasts(competition: Any, methods: list[str]) -> Iterator[Measured]:
    """The forecasts of each method."""
    calls: dict[str, tuple[str, Callable[[], pd.DataFrame]]] = {
        OURS: ("Titans", lambda: on_competition.ours(competition)),
        AUTO_ETS: ("AutoETS", lambda: on_competition.auto_ets(competition)),
        CONFORMAL: ("NHITS", lambda: on_competition.conformal(competition, "NHITS")),
    }
    for method, (model, call) in calls.items():
        if method in methods:
            yield Measured(method, *timed(call, model))


def timed(call: Callable[[], pd.DataFrame], model: str) -> tuple[pd.DataFrame, str, float]:
    """A frame of forecasts, the column of its model, and the seconds that it took."""
    begun = time.perf_counter()
    return call(), model, time.perf_counter() - begun


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    known = [*STREAMS, *COMPETITIONS]
    parser.add_argument("data", nargs="*", default=known, help=f"some of {', '.join(known)} (default: all)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--horizons", type=int, nargs="+", default=list(HORIZONS), help="of streams")
    parser.add_argument("--print", action="store_true", help="print the tables, and measure nothing")
    parser.add_argument("--again", action="store_true", help="measure rows that the CSV holds")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    check_names(parser, "data", args.data, known)
    return args


if __name__ == "__main__":
    main()
