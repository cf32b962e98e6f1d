"""Does memory stay flat over many calls? `python experiments/speed/leaks.py`.

One process calls each of `fit`, `predict`, `update` and `save` with `load` two hundred times, on a small trained model
with a long-term memory and intervals. After each twentieth call garbage is collected and the resident memory of the
process is read. Told is by how much it grew after the first 30 %, by when caches are filled, up to the last one,
and what that is for each call; a leak grows with the calls.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import RESULTS
from speed.generated import wide_table
from speed.report import Report, Row, with_target
from titans_ts import TitansForecaster

PACKAGES = ("titans-ts", "pandas", "numpy", "torch")
CALLS, EVERY = 200, 20
ROWS, SERIES = 300, 4
MOST = 8.0  # MiB that resident memory may grow once caches are filled
SIZE: dict[str, Any] = dict(
    horizon=12, lookback=48, d_model=16, n_heads=2, n_layers=1, max_epochs=1, random_state=0, verbose=0
)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--calls", type=int, default=CALLS, help=f"of each kind (default {CALLS})")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of PyTorch (default: its own)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if args.calls < 2 * EVERY or args.threads < 1:
        parser.error(f"--calls must be at least {2 * EVERY}, and --threads 1")
    torch.set_num_threads(args.threads)
    warnings.simplefilter("ignore")
    report = Report(args.out / "leaks.csv", PACKAGES, args.threads)
    for name, rows in measure(args.calls):
        for row in rows:
            report.add(name, row)
    print(f"rows appended to {report.path}")


def measure(calls: int) -> Iterator[tuple[str, list[Row]]]:
    """Rows for each kind of call."""
    table = wide_table(SERIES, ROWS + calls + 1)
    model = TitansForecaster(**SIZE, context="stream").fit(table[:ROWS])
    with tempfile.TemporaryDirectory() as folder:
        for name, call in calls_of(model, table, Path(folder) / "model").items():
            memory = resident(call, calls)
            grown = memory[-1] - memory[len(memory) // 4]
            told = with_target(Row("resident memory, grown", grown, "MiB"), f"< {MOST:g} MiB", grown < MOST)
            slope = 1024 * float(np.polyfit(np.arange(len(memory)) * EVERY, memory, 1)[0])
            yield (
                name,
                [told, Row("the same, a call", slope, "KiB"), Row("resident memory, at last", memory[-1], "MiB")],
            )


def calls_of(model: TitansForecaster, table: pd.DataFrame, folder: Path) -> dict[str, Callable[[int], object]]:
    """What is called, with the number of the call."""

    def save_and_load(_: int) -> object:
        model.save(folder)
        return TitansForecaster.load(folder)

    return {
        "fit": lambda _: TitansForecaster(**SIZE, context="stream").fit(table[:ROWS]),
        "predict": lambda _: model.predict(24, level=[80, 95]),
        "predict of others": lambda i: model.predict(df=table[i : ROWS + i]),
        "save and load": save_and_load,
        "update": lambda i: model.update(table[ROWS + i : ROWS + i + 1]),
    }


def resident(call: Callable[[int], object], calls: int) -> list[float]:
    """MiB of the process after each `EVERY` calls."""
    process, found = psutil.Process(), list[float]()
    for i in range(calls):
        call(i)
        if i % EVERY == EVERY - 1:
            gc.collect()
            found.append(process.memory_info().rss / 2**20)
    return found


if __name__ == "__main__":
    main()
