"""Error and time of the long-term memory by depth and by history: `python experiments/benchmark/memory_depth.py`.

The shapes of figures 7 and 8 of the Titans paper, over origins in place of tokens. A history is the number of origins
of each series that the memory reads, from empty, before the test rows; it goes on learning through those. Seconds are
a processor's, on one thread, of 1,000 origins of all series, over the last origins of the data set, as many as the
history has. Rows are appended to memory_depth.csv as soon as they are measured, and drawn.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.memory_origins import Subject
from record import RESULTS
from titans_ts.datasets import load_dataset

SETS, DEPTHS, HISTORIES = ("ettm1", "weather"), (1, 2, 3), (1000, 2000, 5000, 10_000, 20_000, 40_000, 50_000)
LEAST_TIMED = 10_000  # origins; shorter histories are timed again and again, and the least time counts
COLUMNS = (
    *("dataset", "horizon", "depth", "history", "mse", "frozen_mse", "seconds_per_1000", "n_series"),
    *("device", "versions", "commit"),
)


def main(argv: list[str] | None = None) -> None:
    """Measure what the CSV does not hold, print it as Markdown and draw it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), help=f"data sets (default: {' '.join(SETS)})")
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--depths", nargs="+", type=int, default=list(DEPTHS))
    parser.add_argument("--histories", nargs="+", type=int, default=list(HISTORIES))
    parser.add_argument("--out", type=Path, default=RESULTS / "memory_depth.csv", help="the picture has its name")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    parser.add_argument("--print", action="store_true", help="measure nothing")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    for name in () if args.print else args.sets:
        data = load_dataset(name, root=args.root)
        held = {
            (int(row["depth"]), int(row["history"]))
            for row in record.read(args.out)
            if (row["dataset"], int(row["horizon"])) == (data.name, args.horizon)
        }
        wanted = [pair for pair in product(args.depths, args.histories) if pair not in held]
        if wanted:
            subject = Subject(data, args.horizon)
            for depth, history in wanted:
                row = measure(subject, depth, history)
                record.append(args.out, COLUMNS, row | record.stamp(["titans-ts", "torch"]))
                print(f"{data.name}, depth {depth}, {history} origins: {row}", flush=True)
    rows = [row for row in record.read(args.out) if int(row["horizon"]) == args.horizon]
    print("\n".join(table(rows)))
    draw(rows, args.out.with_suffix(".png"))


def measure(subject: Subject, depth: int, history: int) -> dict[str, Any]:
    """A row; it has no errors where there are fewer origins before the test rows than the history is long."""
    memory = subject.memory(replace(subject.config, depth=depth))
    rows, lookback = int(subject.series.lengths[0]), subject.network.config.lookback
    if rows - lookback < history:
        raise ValueError(f"`history` must be at most the {rows - lookback} origins of {subject.name}, got {history}.")
    parts, times = subject.since(memory.config, rows - history), []
    for _ in range(max(1, LEAST_TIMED // history)):
        begun = time.process_time()
        subject.advance(memory, parts, rows - history)
        times.append(time.process_time() - begun)
    first = subject.split.test.start - history
    found = subject.errors(memory, first) if first >= lookback else None
    return {
        "dataset": subject.name,
        "horizon": memory.config.horizon,
        "depth": depth,
        "history": history,
        "mse": None if found is None else found.test,
        "frozen_mse": None if found is None else found.frozen_test,
        "seconds_per_1000": 1000 * min(times) / history,
        "n_series": subject.series.n_series,
    }


def table(rows: list[dict[str, str]]) -> list[str]:
    """A line for each data set and depth: the change of MSE in per cent, and seconds of 1,000 origins, by history."""
    histories = sorted({int(row["history"]) for row in rows})
    lines = [
        f"| change of MSE, % / seconds of 1,000 origins | {' | '.join(f'{n:,}' for n in histories)} |",
        "|---" * (len(histories) + 1) + "|",
    ]
    found: dict[str, dict[int, str]] = {}
    for row in rows:
        name = f"{row['dataset']}, {row['n_series']} series, depth {row['depth']}"
        change = f"{100 * _ratio(row) - 100:+.1f}" if row["mse"] else "–"
        found.setdefault(name, {})[int(row["history"])] = f"{change} / {float(row['seconds_per_1000']):.2f}"
    return lines + [f"| {name} | {' | '.join(by.get(n, '–') for n in histories)} |" for name, by in found.items()]


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Error and time by history, a line for each depth; a column for each data set."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    sets = list(dict.fromkeys(row["dataset"] for row in rows))
    shape: dict[str, Any] = dict(figsize=(4.3 * len(sets), 5), sharex=True, squeeze=False, layout="constrained")
    figure, axes = plt.subplots(2, len(sets), **shape)
    for column, name in zip(axes.T, sets, strict=True):
        of_set = sorted((row for row in rows if row["dataset"] == name), key=lambda row: int(row["history"]))
        for depth in sorted({int(row["depth"]) for row in of_set}):
            of_depth = [row for row in of_set if int(row["depth"]) == depth]
            scored = [row for row in of_depth if row["mse"]]
            style: dict[str, Any] = dict(marker="o", markersize=4, label=f"depth {depth}")
            column[0].plot([int(r["history"]) for r in scored], [100 * _ratio(r) - 100 for r in scored], **style)
            times = [float(row["seconds_per_1000"]) for row in of_depth]
            column[1].plot([int(row["history"]) for row in of_depth], times, **style)
        column[0].axhline(0, color="0.6", linewidth=0.8)
        column[0].set_title(f"{name}, {of_set[0]['n_series']} series", loc="left", fontsize=11)
        column[0].set_ylabel("MSE against the frozen core, %")
        column[1].set_ylabel("seconds of 1,000 origins")
        column[1].set_xlabel("origins read from empty")
        column[1].set_ylim(bottom=0)
        column[1].set_xscale("log")
        for each in column:
            each.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


def _ratio(row: dict[str, str]) -> float:
    return float(row["mse"]) / float(row["frozen_mse"])


if __name__ == "__main__":
    main()
