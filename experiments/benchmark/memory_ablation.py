"""Which parts of the long-term memory earn their place: `python experiments/benchmark/memory_ablation.py`.

Each line leaves out or changes one part and gives the change of MSE against the frozen core, on the test rows and on
the validation rows, in per cent; after the data sets the mean over all. What is learned is trained on the first half of
the validation rows, and kept if it does better on the second. Rows are appended to memory_ablation.csv as soon as they
are measured; `--print` makes the table of what the CSV holds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import pad

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from benchmark.memory_origins import Subject
from record import RESULTS
from titans_ts.datasets import load_dataset
from titans_ts.model.long_term import Block
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.model.origins import READ_AHEAD, horizon_basis
from titans_ts.stream.training import MemoryTraining

SETS, HORIZONS = ("etth1", "etth2", "ettm1", "ettm2", "weather"), (96, 336)
COLUMNS = (
    *("dataset", "column", "horizon", "part", "mse", "frozen_mse", "validation_mse", "frozen_validation_mse"),
    *("relative", "frozen_relative", "seconds", "device", "versions", "commit"),
)
Change = Callable[[LongTermConfig], dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """What is left out or changed: fields of the configuration, code, or what is learned."""

    change: Change = field(default=lambda config: {})
    changed: Callable[[], AbstractContextManager[object]] = nullcontext
    training: MemoryTraining | None = None


def _of(**fields: Any) -> Part:
    return Part(lambda config: fields)


def _blocks(*shares: float) -> Part:
    return Part(lambda config: {"block_ends": tuple(round(share * config.horizon) for share in shares)})


def _unwhitened(block: Block, moment: Tensor) -> Tensor:
    """Features as they are, at the length that whitened ones have."""
    length = moment.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-30).sqrt()
    identity = torch.eye(moment.shape[-1], block.head_dim, dtype=moment.dtype)
    return (identity / length[:, None, None]).float()


def _without_forecast(block: Block, moment: Tensor, whitening: Callable[..., Tensor] = Block._whitening) -> Tensor:
    """Keys that the forecast's coefficients, the last features, are not read for."""
    columns = horizon_basis(block.config.horizon, block.config.cycle)[0].shape[1]
    n_kept = moment.shape[-1] - min(READ_AHEAD, columns)
    return pad(whitening(block, moment[..., :n_kept, :n_kept]), (0, 0, 0, moment.shape[-1] - n_kept))


def _ungated(block: Block, agreement: Tensor, size: Tensor, series: Tensor) -> Tensor:
    """All that the memory adds is let through."""
    return agreement.new_ones(*agreement.shape[:2], len(block.group), dtype=torch.float32)


PARTS: dict[str, Part] = {
    "as it comes": Part(),
    "never writes": _of(rates=(0.0,)),
    "no momentum": _of(momentum=0.0),
    "no forgetting": _of(forgetting=(0.0,)),
    "and a share forgotten sooner": _of(forgetting=(0.0024, 0.024)),
    "one head, the middle rate": _of(rates=(0.24,)),
    "no gate": Part(changed=lambda: patch.object(Block, "_shares", _ungated)),
    "gate of half-life 30 alone": _of(half_lives=(30.0,)),
    "gate of half-life 90 alone": _of(half_lives=(90.0,)),
    "keys not whitened": Part(changed=lambda: patch.object(Block, "_whitening", _unwhitened)),
    "keys without the forecast": Part(changed=lambda: patch.object(Block, "_whitening", _without_forecast)),
    "depth 2": _of(depth=2),
    "depth 3": _of(depth=3),
    "blocks to a half and the whole": _blocks(0.5, 1),
    "blocks to a quarter, a half and the whole": _blocks(0.25, 0.5, 1),
    "learned gates": Part(training=MemoryTraining()),
    "learned keys": Part(training=MemoryTraining(gates_rate=0.0, maps_rate=0.0005)),
    "learned gates and keys": Part(training=MemoryTraining(maps_rate=0.0005)),
    "depth 2, learned gates and weights": Part(
        lambda config: {"depth": 2}, training=MemoryTraining(weights_rate=0.0005)
    ),
}


def main(argv: list[str] | None = None) -> None:
    """Measure what the CSV does not hold, and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), help=f"data sets (default: {' '.join(SETS)})")
    parser.add_argument("--horizons", nargs="+", type=int, default=list(HORIZONS))
    parser.add_argument("--column", choices=("i", "iii"), default="i")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--out", type=Path, default=RESULTS / "memory_ablation.csv")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA")
    parser.add_argument("--print", action="store_true", help="measure nothing")
    args = parser.parse_args(argv)
    for name, horizon in () if args.print else product(args.sets, args.horizons):
        held = {(row["dataset"], row["column"], row["horizon"], row["part"]) for row in record.read(args.out)}
        data = load_dataset(name, root=args.root)
        wanted = [part for part in args.parts if (data.name, args.column, str(horizon), part) not in held]
        if wanted:
            subject = Subject(data, horizon, args.column)
            for part in wanted:
                row = measure(subject, PARTS[part]) | {"horizon": horizon, "part": part}
                record.append(args.out, COLUMNS, row | record.stamp(["titans-ts", "torch"]))
                print(f"{data.name} {horizon} {part}: {change(row):+.1f} %", flush=True)
    print("\n".join(table(record.read(args.out), args.column)))


def measure(subject: Subject, part: Part) -> dict[str, Any]:
    """The columns of a row that say how a memory without a part errs."""
    with part.changed():
        config = replace(subject.config, **part.change(subject.config))
        memory = subject.memory(config)
        begun = time.perf_counter()
        if part.training is not None:
            memory = subject.trained(memory, part.training)
        found = subject.errors(memory)
        seconds = time.perf_counter() - begun
    return {
        "dataset": subject.name,
        "column": subject.column,
        "mse": found.test,
        "frozen_mse": found.frozen_test,
        "validation_mse": found.validation,
        "frozen_validation_mse": found.frozen_validation,
        "relative": found.relative,
        "frozen_relative": found.frozen_relative,
        "seconds": seconds,
    }


def change(row: dict[str, Any], validation: bool = False) -> float:
    """Per cent by which a memory's error is above its core's."""
    name = "validation_mse" if validation else "mse"
    return 100 * (float(row[name]) / float(row[f"frozen_{name}"]) - 1)


def table(rows: list[dict[str, Any]], column: str) -> Iterator[str]:
    """The lines of the table: test, and validation after a slash; means over horizons, and over the data sets."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for row in rows:
        if row["column"] == column:
            errors = change(row), change(row, validation=True)
            found.setdefault(row["part"], {}).setdefault(row["dataset"], {})[row["horizon"]] = errors
    sets = list(dict.fromkeys(row["dataset"] for row in rows if row["column"] == column))
    horizons = sorted({row["horizon"] for row in rows}, key=int)
    yield f"| test / validation, % | {' | '.join(sets)} | mean |"
    yield "|---" * (len(sets) + 2) + "|"
    for part, by_set in found.items():
        means = [_mean([by_set.get(name, {}).get(h) for h in horizons]) for name in sets]
        yield f"| {part} | {' | '.join(map(_cell, [*means, _mean(means)]))} |"


def _mean(errors: list[tuple[float, float] | None]) -> tuple[float, float] | None:
    """None where one of them is missing."""
    there = [pair for pair in errors if pair is not None]
    if not there or len(there) < len(errors):
        return None
    test, validation = zip(*there, strict=True)
    return sum(test) / len(test), sum(validation) / len(validation)


def _cell(errors: tuple[float, float] | None) -> str:
    return "–" if errors is None else f"{errors[0]:+.1f} / {errors[1]:+.1f}"


if __name__ == "__main__":
    main()
