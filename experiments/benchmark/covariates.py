"""What covariates are worth: forecasts with and without them, beside other packages' models with the same ones.

    python experiments/benchmark/covariates.py
    python experiments/benchmark/covariates.py bike_sharing --rows "ours, covariates" "LightGBM, recursive"
    python experiments/benchmark/covariates.py --print

Rented bicycles with the weather, holidays and working days, and the load of zones with the temperature; see
covariates_data.py for where the test rows begin. The covariates are what was measured in the hours to forecast: real
forecasts of the weather would do worse. All models are fitted once on the rows before test, choose by the same last
rows of these, and forecast the next hours from the end of each test day, having seen the values until then. Ours is
`TitansForecaster` with no more than horizon, lookback, columns, `lower=0` and the validation rows set. Rows of square
roots are fitted to those of the values. The others need `pip install -c constraints.txt -e '.[bench]'`, and their rows
are left out where they are absent.

Errors are in per cent of each series' mean before test, over all hours whose target is known. Seconds are those of the
processor, which on one thread (`OMP_NUM_THREADS=1`) do not depend on what else the machine does. A row that the CSV
holds is not measured again; with `--again` it is, and the last row counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from arguments import check_names
from benchmark import covariates_ours, covariates_peers
from benchmark.covariates_data import LOOKBACK, PROBLEMS, Problem
from benchmark.covariates_ours import GIVEN, Outcome
from benchmark.covariates_peers import PEERS
from benchmark.peer_models import peer
from benchmark.rows import stamp

COLUMNS = (
    *("dataset", "model", "horizon", "lookback", "seed", "mae", "rmse", "fit_seconds", "forecast_seconds"),
    *("origins", "config", "device", "versions", "commit"),
)
NAIVE = "seasonal naive"
WITHOUT = "ours"
ROWS = (NAIVE, *GIVEN, *PEERS)


def main(argv: list[str] | None = None) -> None:
    """Measure the rows asked for; each is in the CSV as soon as it is measured. Then print the table."""
    args = _arguments(argv)
    out = args.out / "covariates.csv"
    if not args.print:
        for name in args.datasets:
            problem = PROBLEMS[name](root=args.root, horizon=args.horizon)
            held = set() if args.again else {key(row) for row in record.read(out)}
            for row in measure(problem, args.rows, held):
                record.append(out, COLUMNS, row)
                line = "{dataset}, {model}: {mae:.3f} / {rmse:.3f}, fit {fit_seconds} s; {config}"
                print(line.format_map(row), file=sys.stderr, flush=True)
    print("\n".join(table(record.read(out))))


def key(row: dict[str, str]) -> tuple[str, str, int]:
    """What a row is of."""
    return row["dataset"], row["model"], int(row["horizon"])


def measure(problem: Problem, rows: list[str], held: set[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """The rows of a problem that are not held and whose packages are installed."""
    for model in rows:
        package, forecast = PEERS.get(model, ("", None))
        if (problem.name, model, problem.horizon) in held or (package and not peer(package, f"{model} left out")):
            continue
        if forecast is not None:
            outcome = forecast(problem)
        elif model == NAIVE:
            outcome = covariates_peers.seasonal_naive(problem)
        else:
            outcome = covariates_ours.forecast(problem, model)
        yield row_of(problem, model, outcome) | stamp(package or "titans-ts")


def row_of(problem: Problem, model: str, outcome: Outcome) -> dict[str, Any]:
    """What a row says of a model's forecasts."""
    mae, rmse = errors(problem, outcome.forecast)
    return dict(
        dataset=problem.name,
        model=model,
        horizon=problem.horizon,
        lookback=LOOKBACK,
        seed=0,
        mae=mae,
        rmse=rmse,
        fit_seconds=f"{outcome.fit_seconds:.1f}",
        forecast_seconds=f"{outcome.forecast_seconds:.1f}",
        origins=len(problem.origins),
        config=outcome.choices,
    )


def errors(problem: Problem, forecast: np.ndarray) -> tuple[float, float]:
    """MAE and RMSE in per cent of each series' mean before test, over all known values of all origins."""
    error = (forecast - problem.actual()) / problem.scale[problem.ids].to_numpy()[:, None, None] * 100
    known = ~np.isnan(problem.actual())
    if not np.isfinite(forecast[known]).all():
        raise ValueError(
            f"`forecast` of {problem.name} must be finite, got {int((~np.isfinite(forecast)).sum())} that are not."
        )
    return float(np.abs(error[known]).mean()), float(np.sqrt(np.square(error[known]).mean()))


def table(rows: list[dict[str, str]]) -> list[str]:
    """A line for each model of each data set and horizon; the last row of the CSV counts."""
    last = {key(row): row for row in rows}
    lines: list[str] = []
    for dataset, horizon in dict.fromkeys((dataset, horizon) for dataset, _, horizon in last):
        lines += [*([""] if lines else []), f"**{dataset}**, {horizon} hours ahead", ""]
        lines += [
            "| model | MAE, % | RMSE, % | MAE to without | RMSE to without | fit, s |",
            "|---|---|---|---|---|---|",
        ]
        base = last.get((dataset, WITHOUT, horizon))
        for model in ROWS:
            if (row := last.get((dataset, model, horizon))) is None:
                continue
            cells = [f"{float(row[name]):.2f}" for name in ("mae", "rmse")]
            for name in ("mae", "rmse"):
                cells.append("–" if base is None else f"{float(row[name]) / float(base[name]):.3f}")
            lines.append(f"| {model} | {' | '.join(cells)} | {float(row['fit_seconds']):.0f} |")
    return lines


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    datasets = list(PROBLEMS)
    parser.add_argument("datasets", nargs="*", default=datasets, help=f"some of {', '.join(datasets)} (default: all)")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW", help="some of the models")
    parser.add_argument("--horizon", type=int, default=24, help="hours ahead (default: 24)")
    parser.add_argument("--again", action="store_true", help="measure rows that the CSV holds")
    parser.add_argument("--print", action="store_true", help="print the table alone")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    check_names(parser, "datasets", args.datasets, datasets)
    if args.horizon < 1:
        parser.error(f"`--horizon` must be an integer >= 1, got {args.horizon}.")
    return args


if __name__ == "__main__":
    main()
