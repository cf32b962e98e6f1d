"""A needle in a long series: a shape shown once is asked for by its cue after a distance, without training on it.

    python experiments/benchmark/needle.py                     # what the CSV lacks of all rows
    python experiments/benchmark/needle.py --rows "long-term memory" --distances 100 1600 --seeds 0
    python experiments/benchmark/needle.py --print             # the tables in Markdown, and the picture

The series are those of `needle_data`, the rows those of `needle_rows`. Each forecaster is fitted once to the train
rows of a seed; the rows of a stream are then only told to it. A question has 32 series, each with a cue and a shape of
its own. Errors are mean squares over the 24 rows of the answer, beside those over ordinary horizons, where nothing
must be lost. A row that the CSV holds is not measured again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark import rows as stamped
from benchmark.needle_data import NOISE, TRAIN, needle
from benchmark.needle_rows import ROWS, errors

DISTANCES, SEEDS = (100, 400, 1600, 6400, 16000), (0, 1, 2)
LOAD = 2  # distractors at each distance
LOADS, LOADED = (0, 8, 32), 6400  # further loads, and the distance that they are asked at
COLUMNS = (
    *("row", "seed", "distance", "load", "mse", "ordinary_mse", "fit_seconds", "seconds"),
    *("device", "versions", "commit"),
)
MISSING = "–"

Key = tuple[str, int, int, int]  # row, seed, distance, load


def main(argv: list[str] | None = None) -> None:
    """Measure the rows asked for, each in the CSV as soon as it is measured, or print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), metavar="ROW", help="default: all")
    parser.add_argument("--distances", nargs="+", type=int, default=list(DISTANCES))
    parser.add_argument("--loads", nargs="*", type=int, default=list(LOADS), help=f"at a distance of {LOADED}")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--print", action="store_true", help="measure nothing; print the tables, draw the picture")
    parser.add_argument("--out", type=Path, default=record.RESULTS, help="folder of the CSV; default: %(default)s")
    args = parser.parse_args(argv)
    path = args.out / "needle.csv"
    if not args.print:
        asked = [(d, LOAD) for d in args.distances] + [(LOADED, load) for load in args.loads]
        for seed in args.seeds:
            for name in args.rows:
                for row in measured(name, seed, asked, held(path)):
                    record.append(path, COLUMNS, row)
    found = record.read(path)
    print(tables(found))
    if args.print:
        draw(found, args.out / "needle.png")


def held(path: Path) -> set[Key]:
    """What the rows of the CSV are of."""
    return {(r["row"], int(r["seed"]), int(r["distance"]), int(r["load"])) for r in record.read(path)}


def measured(name: str, seed: int, asked: Iterable[tuple[int, int]], held: set[Key]) -> Iterator[dict[str, Any]]:
    """The rows of a forecaster and a seed, at the distances and loads that are not `held`."""
    missing = [pair for pair in asked if (name, seed, *pair) not in held]
    if not missing:
        return
    stamp = stamped.stamp("titans-ts")
    begun = time.perf_counter()
    ask = ROWS[name](seed, needle(seed, *missing[0]).values[:, :TRAIN])
    fitted = time.perf_counter() - begun
    for distance, load in missing:
        begun = time.perf_counter()
        mse, ordinary = errors(ask, needle(seed, distance, load))
        row = {"row": name, "seed": seed, "distance": distance, "load": load, "mse": mse, "ordinary_mse": ordinary}
        print(f"seed {seed}, {name}, {distance} steps, load {load}: {mse:.3f}, ordinary {ordinary:.3f}", flush=True)
        yield row | {"fit_seconds": fitted, "seconds": time.perf_counter() - begun} | stamp


def tables(found: list[dict[str, str]]) -> str:
    """Errors by distance and by load, in Markdown: means over seeds, with their spread."""
    distances = sorted({int(r["distance"]) for r in found if int(r["load"]) == LOAD})
    parts = [_table(found, "distance", [(d, LOAD) for d in distances], [f"{d:,}" for d in distances])]
    loads = sorted({int(r["load"]) for r in found if int(r["distance"]) == LOADED})
    if len(loads) > 1:
        heads = [f"{n} between" for n in loads]
        parts.append(_table(found, f"load at {LOADED:,}", [(LOADED, n) for n in loads], heads))
    return "\n\n".join(parts)


def of_cell(found: list[dict[str, str]], name: str, cell: tuple[int, int], column: str = "mse") -> list[float]:
    """The errors of a row at a distance and load, of each seed."""
    return [float(r[column]) for r in found if (r["row"], int(r["distance"]), int(r["load"])) == (name, *cell)]


def _table(found: list[dict[str, str]], title: str, cells: list[tuple[int, int]], heads: list[str]) -> str:
    lines = [f"| {title} | " + " | ".join([*heads, "ordinary"]) + " |", "|---" * (len(heads) + 2) + "|"]
    for name in (name for name in ROWS if any(r["row"] == name for r in found)):
        entries = [_entry(of_cell(found, name, cell)) for cell in cells]
        ordinary = [x for cell in cells for x in of_cell(found, name, cell, "ordinary_mse")]
        if any(entry != MISSING for entry in entries):
            lines.append(f"| {name} | " + " | ".join([*entries, f"{np.mean(ordinary):.3f}".lstrip("0")]) + " |")
    return "\n".join(lines)


def _entry(errors: list[float]) -> str:
    if not errors:
        return MISSING
    mean = f"{np.mean(errors):.2f}".removeprefix("0")
    spread = f"{np.std(errors):.2f}".removeprefix("0")
    return mean if len(errors) == 1 else f"{mean} ± {spread}"


def draw(found: list[dict[str, str]], path: Path) -> None:
    """Error by distance, one line for each row."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
    styles = {"closed": ":", "window": "--", "shape": "-.", "season": "-."}
    for name in ROWS:
        points = {d: of_cell(found, name, (d, LOAD)) for d in sorted({int(r["distance"]) for r in found})}
        points = {d: errors for d, errors in points.items() if errors}
        if points:
            style = styles.get(name.split()[0], "-")
            colour = "0.5" if name.split()[0] in ("shape", "season") else None
            axes.plot(
                list(points), [np.mean(e) for e in points.values()], style, marker="o", ms=3, color=colour, label=name
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("steps between the one showing and the question")
    axes.set_ylabel("mean squared error of the answer")
    axes.set_title(f"A needle in a long series: shapes of power 4 in noise of power {NOISE**2:.2f}")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
