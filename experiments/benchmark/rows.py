"""A data set's CSV of results: its columns, and which rows it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

import record

COLUMNS = (
    *("dataset", "model", "column", "lookback", "horizon", "seed", "mse", "mae"),
    *("seconds", "device", "versions", "commit", "config"),
)


class Key(NamedTuple):
    """What a row is of; `config` is the hash of a network and its training, or the steps a peer was trained for."""

    model: str
    column: str
    lookback: int
    horizon: int
    seed: int
    config: str


def held(path: Path) -> set[Key]:
    """What the rows of the CSV are of."""
    return {
        Key(row["model"], row["column"], int(row["lookback"]), int(row["horizon"]), int(row["seed"]), row["config"])
        for row in record.read(path)
    }


def append(path: Path, row: dict[str, Any]) -> None:
    """Add a row to the CSV."""
    digits = {"mse": 6, "mae": 6, "seconds": 2}
    record.append(path, COLUMNS, row | {name: f"{row[name]:.{n}f}" for name, n in digits.items()})


def stamp(package: str, device: torch.device | str = "cpu") -> dict[str, str]:
    """Where the rows of a package's networks are measured; beside a processor, on how many threads."""
    found = record.stamp([package, "torch"], device)
    if torch.device(device).type != "cuda":
        found["device"] += f", {torch.get_num_threads()} threads"
    return found
