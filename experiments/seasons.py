"""Does training beat the closed-form start in every season? Cross-validation over blocks of train and validation rows.

    python experiments/seasons.py experiments/etth2.toml --horizons 96
    python experiments/seasons.py experiments/etth2.toml --horizons 96 --forward --variants experiments/starts.toml

The validation rows of a benchmark cover one season, and what is chosen on them suits that season. This leaves out one
block of consecutive train and validation rows after the other, trains on the rest for as long as the table says, and
prints MSE and MAE on the block left out, of the start and of the trained network. With `--forward` it trains on what
comes before each block alone, from the second on, as a forecaster has to. Test rows are never read.
"""

from __future__ import annotations

import argparse
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import torch
from long_term import LOOKBACKS, MIXERS, Benchmark, Table, Variant, errors

from titans_ts.datasets import load_dataset
from titans_ts.model import ModelConfig
from titans_ts.start import started_network
from titans_ts.training import fit_network
from titans_ts.windows import Windows


def main(argv: list[str] | None = None) -> None:
    """Print one line a block and the mean over blocks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path, help="the experiment's TOML")
    parser.add_argument("--horizons", type=int, nargs="+", help="a part of the TOML's")
    parser.add_argument("--blocks", type=int, default=4, help="how many (default 4)")
    parser.add_argument("--forward", action="store_true", help="train on what comes before each block alone")
    parser.add_argument("--variants", type=Path, help="a TOML of variants, in place of the table's own network")
    parser.add_argument("--column", choices=LOOKBACKS, default="i", help="of the benchmark; sets the lookback")
    parser.add_argument("--mixer", choices=MIXERS, default="memory", help="what mixes tokens")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, help="a folder that holds the data")
    args = parser.parse_args(argv)

    table = Table.read(args.table)
    benchmark = Benchmark(load_dataset(table.dataset, root=args.root), torch.device("cpu"))
    rows = benchmark.data.split.validation.stop
    edges = [rows * i // args.blocks for i in range(args.blocks + 1)]
    blocks = list(pairwise(edges))[1 if args.forward else 0 :]
    variants = Variant.read(args.variants) if args.variants else [Variant.of_mixer(args.mixer)]
    lookback = LOOKBACKS[args.column]
    for horizon, variant in product(args.horizons or table.horizons, variants):
        model, train = table.configs(horizon, lookback, benchmark.n_series, variant, args.seed)
        found = []
        for first, last in blocks:
            left_out, reach = range(first, rows if args.forward else last), lookback if args.forward else 0
            outside = windows(benchmark, [range(first), range(left_out.stop, rows)], model)
            inside = windows(benchmark, [range(first - reach, last)], model)
            profile = profile_without(benchmark, left_out, rows, model.cycle) if model.cycle else None
            network = started_network(model, outside, inside, profile, args.seed)
            start = errors(network, inside)
            fit_network(network, outside, None, train)
            found.append([*start, *(errors(network, inside) if train.max_epochs else start)])
            print(f"rows {first:>6} to {last:>6}: {_line(found[-1])}", flush=True)
        mean = _line(np.mean(found, axis=0).tolist())
        print(f"{table.dataset} {lookback}->{horizon} {variant.name}, mean: {mean}\n", flush=True)


def windows(benchmark: Benchmark, ranges: list[range], model: ModelConfig) -> Windows:
    """Windows that lie in one of `ranges` of rows, past and future."""
    lookback, horizon = model.lookback, model.horizon
    ranges = [rows for rows in ranges if len(rows) >= lookback + horizon]
    channels = benchmark.scaled.reshape(benchmark.n_series, -1)
    lengths = np.repeat([len(rows) for rows in ranges], benchmark.n_series)
    values = np.concatenate([channel[rows.start : rows.stop] for rows in ranges for channel in channels])
    return Windows(
        torch.from_numpy(values.astype(np.float32)),
        lengths,
        np.repeat([rows.start for rows in ranges], benchmark.n_series),
        lookback=lookback,
        horizon=horizon,
        first=np.full(len(lengths), lookback),
        last=lengths,
        series=np.tile(np.arange(benchmark.n_series), len(ranges)),
        around=benchmark.around(lookback) if model.linear_across else None,
    )


def profile_without(benchmark: Benchmark, block: range, rows: int, cycle: int) -> torch.Tensor:
    """The mean day of the first `rows` rows less `block`."""
    channels = benchmark.scaled.reshape(benchmark.n_series, -1)
    kept = np.r_[0 : block.start, block.stop : rows]
    phases = kept % cycle
    return torch.from_numpy(np.stack([channels[:, kept[phases == phase]].mean(1) for phase in range(cycle)], axis=1))


def _line(numbers: list[float]) -> str:
    return "start {:.4f} / {:.4f}, trained {:.4f} / {:.4f}".format(*numbers)


if __name__ == "__main__":
    main()
