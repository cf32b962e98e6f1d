"""The benchmark's tables as Markdown, from its CSVs: `python experiments/benchmark/tables.py etth1 etth2`.

Each cell is the mean of MSE over the seeds that were run, and after ± half the distance from the least to the greatest
where there are several; the last columns are means over the four horizons, a dash where one is missing. A row measured
again takes the place of the one before.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.peer_models import PEERS
from benchmark.table import LOOKBACKS, Table
from record import RESULTS

HORIZONS = (96, 192, 336, 720)
HERE = Path(__file__).parent
# The columns of the summary, and our row there: of so few series a default fit trains nothing.
SUMMARY, OURS, OURS_WORDS = ("i", "iii", "ii"), "closed-form", "`TitansForecaster` as it comes"
TIMED = ("titans", "closed-form")  # our rows that are timed beside peers
SUBSET = "_subset"  # ends the names of CSVs that long_term.py --subset wrote
BEST = "best published that counts every window"
Errors = dict[int, dict[int, tuple[float, float]]]  # horizon, seed: MSE and MAE


def main(argv: list[str] | None = None) -> None:
    """Print one table for each data set and column, or what else is asked for."""
    args = _arguments(argv)
    if args.quality:
        print("\n".join(time_to_quality([args.results / f"{name}.csv" for name in args.tables])))
        return
    if args.summary:
        print("\n".join(summary(args.tables, args.results)))
        return
    if args.ablation:
        print("\n".join(ablation(args.tables, args.results)))
        return
    for name in args.tables:
        table = Table.read(HERE / f"{name.removesuffix(SUBSET)}.toml")
        if name.endswith(SUBSET):  # what was published is of the whole
            table = replace(table, dataset=f"{table.dataset}, some of its series", published={}, best={})
        for column in args.columns:
            found = read(args.results / f"{name}.csv", column)
            if found:
                print("\n".join(rendered(table, column, found)), end="\n\n")


def read(path: Path, column: str) -> dict[str, Errors]:
    """The last row of each model, horizon and seed in a column of the benchmark; none where there is no CSV."""
    found: dict[str, Errors] = defaultdict(lambda: defaultdict(dict))
    for row in record.read(path):
        if row["column"] == column:
            found[row["model"]][int(row["horizon"])][int(row["seed"])] = float(row["mse"]), float(row["mae"])
    return found


def rendered(table: Table, column: str, found: dict[str, Errors]) -> list[str]:
    """The lines of one table, the models in the order of their first rows."""
    lines = [
        f"**{table.dataset}**, column ({column}): lookback {LOOKBACKS[column]}",
        "",
        "| model | " + " | ".join(map(str, HORIZONS)) + " | mean MSE | mean MAE |",
        "|---" * (len(HORIZONS) + 3) + "|",
    ]
    for model, errors in found.items():
        cells = [cell([mse for mse, _ in errors[h].values()] if h in errors else []) for h in HORIZONS]
        lines.append("| " + " | ".join([model, *cells, over_horizons(errors, 0), over_horizons(errors, 1)]) + " |")
    if column == "ii":
        for name, (mse, mae) in table.published.items():
            cells = ["–"] * len(HORIZONS)
            lines.append("| " + " | ".join([f"{name} (as published)", *cells, short(mse, 3), short(mae, 3)]) + " |")
    elif best := table.best.get(str(LOOKBACKS[column])):
        lines.append("| " + " | ".join([BEST, *["–"] * len(HORIZONS), short(best, 3), "–"]) + " |")
    return lines


def summary(names: list[str], results: Path) -> list[str]:
    """The lines of a table: mean MSE over the horizons, ours and what was published, one column for each data set."""
    tables = [Table.read(HERE / f"{name}.toml") for name in names]
    lines = [
        f"| lookback | | {' | '.join(table.dataset for table in tables)} |",
        "|---" * (len(names) + 2) + "|",
    ]

    def add(label: str, words: str, means: list[str]) -> None:
        lines.append(f"| {label} | {words} | {' | '.join(means)} |")

    for column in SUMMARY:
        lookback = str(LOOKBACKS[column])
        label = f"{lookback}, last partial batch dropped" if column == "ii" else lookback
        found = [read(results / f"{name}.csv", column) for name in names]
        add(label, OURS_WORDS, [over_horizons(errors.get(OURS, {}), 0) for errors in found])
        if column == "ii":
            for paper in dict.fromkeys(paper for table in tables for paper in table.published):
                means = [table.published.get(paper, [math.nan])[0] for table in tables]
                add(label, f"{paper} (as published)", [short(mean, 3) for mean in means])
        else:
            means = [table.best.get(lookback, math.nan) for table in tables]
            add(label, BEST, [short(mean, 3) for mean in means])
    return lines


def ablation(names: list[str], results: Path) -> list[str]:
    """The lines of a table: MSE in column (i) of every model, one column for each horizon and data set."""
    datasets = {Table.read(HERE / f"{name}.toml").dataset: read(results / f"{name}.csv", "i") for name in names}
    horizons = sorted({h for found in datasets.values() for errors in found.values() for h in errors})
    lines = [
        "| | " + " | ".join(f"{dataset}, {h}" for h in horizons for dataset in datasets) + " |",
        "|---" * (1 + len(horizons) * len(datasets)) + "|",
    ]
    for model in dict.fromkeys(model for found in datasets.values() for model in found):
        errors = [found.get(model, {}).get(h, {}) for h in horizons for found in datasets.values()]
        cells = [cell([mse for mse, _ in each.values()]) for each in errors]
        lines.append("| " + " | ".join([model, *cells]) + " |")
    return lines


def time_to_quality(paths: list[Path]) -> list[str]:
    """The lines of a table: seconds to train each peer, and seconds of ours to an error no greater on the test rows.

    Ours is the quickest row of the same device that is good enough: the closed form alone, or a trained network. "Not
    timed" is where that device has none of ours at that horizon.
    """
    lines = [
        "| data, horizon | peer | its MSE | seconds to train it | ours, MSE | seconds | times as quick |",
        "|---" * 7 + "|",
    ]
    for path in paths:
        rows = [row for row in record.read(path) if row["column"] == "i"]
        for peer in rows:
            if peer["model"] not in PEERS:
                continue
            beside = [
                row
                for row in rows
                if row["model"] in TIMED and (row["horizon"], row["device"]) == (peer["horizon"], peer["device"])
            ]
            enough = [row for row in beside if float(row["mse"]) <= float(peer["mse"])]
            cells = ["–", "not reached" if beside else "not timed", "–"]
            if enough:
                best = min(enough, key=lambda row: float(row["seconds"]))
                ratio = float(peer["seconds"]) / float(best["seconds"])
                cells = [f"{short(float(best['mse']))} ({best['model']})", best["seconds"], f"{ratio:.0f}"]
            about = [f"{peer['dataset']}, {peer['horizon']}", peer["model"], short(float(peer["mse"])), peer["seconds"]]
            lines.append("| " + " | ".join([*about, *cells]) + " |")
    return lines


def cell(values: list[float]) -> str:
    """The mean over seeds, and half their range."""
    if not values:
        return "–"
    mean = short(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ± {short((max(values) - min(values)) / 2)}"


def over_horizons(errors: Errors, which: int) -> str:
    """The mean over the horizons of the means over seeds, MSE (0) or MAE (1)."""
    if any(h not in errors for h in HORIZONS):
        return "–"
    means = [sum(pair[which] for pair in errors[h].values()) / len(errors[h]) for h in HORIZONS]
    return short(sum(means) / len(means))


def short(value: float, digits: int = 4) -> str:
    return "–" if math.isnan(value) else f"{value:.{digits}f}".removeprefix("0")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("tables", nargs="+", help="names of TOMLs beside this script, such as etth1")
    parser.add_argument("--columns", nargs="+", choices=LOOKBACKS, default=list(LOOKBACKS))
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--summary", action="store_true", help="means over the horizons, in place of the tables")
    kinds.add_argument("--quality", action="store_true", help="the time to each peer's error, in place of the tables")
    kinds.add_argument("--ablation", action="store_true", help="all models side by side, in place of the tables")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the CSVs")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
