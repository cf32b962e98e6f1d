"""Does training beat the closed-form start in every season? Cross-validation over blocks of train and validation rows.

    python experiments/seasons.py experiments/etth2.toml --horizons 96
    python experiments/seasons.py experiments/etth2.toml --horizons 96 --forward --variants experiments/starts.toml

The validation rows of a benchmark cover one season, and what is chosen on them suits that season. This leaves out one
block of consecutive train and validation rows after the other, trains on the rest for as long as the table says, and
prints MSE and MAE on the block left out, of the start and of the trained network. With `--forward` it does as a
forecaster has to: the rows are cut into sixteenths; it fits on the first five or more, chooses by the three that
follow, and is judged by the three after those. Test rows are never read.
"""

from __future__ import annotations

import argparse
from itertools import pairwise, product
from pathlib import Path
from typing import NamedTuple

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
    parser.add_argument("--blocks", type=int, default=4, help="how many to leave out (default 4)")
    parser.add_argument("--forward", action="store_true", help="fit, choose and be judged by rows in their order")
    parser.add_argument("--variants", type=Path, help="a TOML of variants, in place of the table's own network")
    parser.add_argument("--column", choices=LOOKBACKS, default="i", help="of the benchmark; sets the lookback")
    parser.add_argument("--mixer", choices=MIXERS, default="memory", help="what mixes tokens")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, help="a folder that holds the data")
    args = parser.parse_args(argv)

    table = Table.read(args.table)
    benchmark = Benchmark(load_dataset(table.dataset, root=args.root), torch.device("cpu"))
    rows = benchmark.data.split.validation.stop
    folds = forward_folds(rows) if args.forward else left_out_folds(rows, args.blocks)
    variants = Variant.read(args.variants) if args.variants else [Variant.of_mixer(args.mixer)]
    lookback = LOOKBACKS[args.column]
    for horizon, variant in product(args.horizons or table.horizons, variants):
        model, train = table.configs(horizon, lookback, benchmark.n_series, variant, args.seed)
        found = []
        for fold in folds:
            fitted, chosen, judged = windows_of(benchmark, fold, model)
            profile = profile_of(benchmark, fold.fitted, model.cycle) if model.cycle else None
            network = started_network(model, fitted, judged if chosen is None else chosen, profile, args.seed)
            start = errors(network, judged)
            fit_network(network, fitted, chosen, train)
            found.append([*start, *(errors(network, judged) if train.max_epochs else start)])
            print(f"rows {fold.judged.start:>6} to {fold.judged.stop:>6}: {_line(found[-1])}", flush=True)
        mean = _line(np.mean(found, axis=0).tolist())
        print(f"{table.dataset} {lookback}->{horizon} {variant.name}, mean: {mean}\n", flush=True)


class Fold(NamedTuple):
    """Rows that are fitted, rows by which the start and the best check are chosen, and rows that judge."""

    fitted: list[range]
    chosen: range | None  # None: the start is chosen by what judges it, and training ends where the table says
    judged: range


def left_out_folds(rows: int, blocks: int) -> list[Fold]:
    edges = [rows * i // blocks for i in range(blocks + 1)]
    return [Fold([range(first), range(last, rows)], None, range(first, last)) for first, last in pairwise(edges)]


def forward_folds(rows: int) -> list[Fold]:
    edges = [rows * i // 16 for i in range(17)]
    return [
        Fold([range(edges[i])], range(edges[i], edges[i + 3]), range(edges[i + 3], edges[i + 6])) for i in range(5, 11)
    ]


def windows_of(benchmark: Benchmark, fold: Fold, model: ModelConfig) -> tuple[Windows, Windows | None, Windows]:
    """Those that are fitted, those that choose, if any, and those that judge."""
    fitted = windows(benchmark, fold.fitted, model)
    chosen, back = None, 0
    if fold.chosen is not None:  # the rows that a first window reads are there in any case
        back = model.lookback
        chosen = windows(benchmark, [range(fold.chosen.start - back, fold.chosen.stop)], model)
    return fitted, chosen, windows(benchmark, [range(fold.judged.start - back, fold.judged.stop)], model)


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


def profile_of(benchmark: Benchmark, ranges: list[range], cycle: int) -> torch.Tensor:
    """The mean day of these rows."""
    channels = benchmark.scaled.reshape(benchmark.n_series, -1)
    kept = np.concatenate([np.arange(rows.start, rows.stop) for rows in ranges])
    phases = kept % cycle
    return torch.from_numpy(np.stack([channels[:, kept[phases == phase]].mean(1) for phase in range(cycle)], axis=1))


def _line(numbers: list[float]) -> str:
    return "start {:.4f} / {:.4f}, trained {:.4f} / {:.4f}".format(*numbers)


if __name__ == "__main__":
    main()
