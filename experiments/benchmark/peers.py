"""Other packages' networks on the benchmark: `python experiments/benchmark/peers.py experiments/benchmark/etth1.toml`.

neuralforecast's, as they come: lookback 96, trained on the same rows for the squared error, stopped after three
validation checks without a better one or after as many steps as each has for its default. Their errors are over every
test window, in the scaled space where ours are, and are appended to the data set's CSV with the steps that they took; a
row that it holds is not measured again. Needs `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmark import rows
from benchmark.data import Benchmark
from benchmark.peer_models import LOOKBACK, PEERS, default_steps, peer, peer_quality
from benchmark.table import Table
from record import RESULTS
from titans_ts.datasets import load_dataset


def main(argv: list[str] | None = None) -> None:
    """Train and score each model at each horizon; each row is in the CSV as soon as it is measured."""
    args = _arguments(argv)
    if not peer("neuralforecast", "peers"):
        raise SystemExit(1)
    table = Table.read(args.table)
    benchmark = Benchmark(load_dataset(table.dataset, root=args.root), torch.device("cpu"))
    out = args.out / f"{args.table.stem}.csv"
    stamp = rows.stamp("neuralforecast")
    for horizon, model, seed in product(args.horizons or table.horizons, args.models, args.seeds):
        most = args.steps or default_steps(model)
        if (model, horizon, seed, f"{most} steps") in held(out):
            continue
        found = peer_quality(model, benchmark.frame(), benchmark.data.split, horizon, most, seed)
        config = f"{found.steps} of {most} steps"
        row = dict(dataset=table.dataset, model=model, column="i", lookback=LOOKBACK, horizon=horizon, seed=seed)
        row |= dict(mse=found.mse, mae=found.mae, seconds=found.seconds, config=config)
        rows.append(out, {**row, **stamp})
        print(
            f"{table.dataset} {horizon} {model}: {found.mse:.4f} / {found.mae:.4f}, {config}, {found.seconds:.0f} s",
            flush=True,
        )


def held(path: Path) -> set[tuple[str, int, int, str]]:
    """Model, horizon, seed and most steps of the rows that the CSV holds."""
    return {
        (key.model, key.horizon, key.seed, key.config.rpartition(" of ")[2])
        for key in rows.held(path)
        if key.column == "i"
    }


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", type=Path, help="the data set's TOML")
    parser.add_argument("--models", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--horizons", type=int, nargs="+", help="a part of the TOML's")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="most training steps (default: each network's own)")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
