"""A picture of coverage: `python experiments/benchmark/interval_picture.py`.

How many values of a stream's test rows lie in their intervals, by level, 96 steps ahead: calibrated by the validation
rows alone and by the last errors, as in intervals.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import matplotlib
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark.interval_streams import Rows, fitted, streamed
from record import RESULTS
from titans_ts import load_dataset
from titans_ts.plots import plot_coverage

HORIZON = 96


def main(argv: list[str] | None = None) -> None:
    """Stream a data set, and draw."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", default="ETTh1", help="name of a data set (default: %(default)s)")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the picture")
    args = parser.parse_args(argv)
    rows = Rows(load_dataset(args.data, root=args.root), HORIZON)
    frozen, adaptive = streamed(fitted(rows), rows)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "intervals.png"
    draw(frozen, adaptive, f"{args.data}, {HORIZON} steps", path)
    print(path)


def draw(frozen: pd.DataFrame, adaptive: pd.DataFrame, title: str, path: Path) -> None:
    """Nominal level and empirical coverage of both."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    keys = ["unique_id", "ds", "origin", "y"]
    both = frozen.rename(columns=lambda name: name.replace("Titans", "frozen"))
    both = both.merge(adaptive.rename(columns=lambda name: name.replace("Titans", "adaptive")), on=keys)
    figure, axes = plt.subplots(figsize=(4.6, 4.6), layout="constrained")
    plot_coverage(both, models=["frozen", "adaptive"], ax=axes)
    axes.set_title(title)
    axes.legend(loc="upper left", frameon=False)
    figure.savefig(path, dpi=92, pil_kwargs={"optimize": True})
    plt.close(figure)


if __name__ == "__main__":
    main()
