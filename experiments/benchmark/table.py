"""What a TOML of the benchmark says: a data set, its network and training, and the variants measured beside them."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from titans_ts.model import ModelConfig
from titans_ts.training.config import TrainConfig

LOOKBACKS = {"i": 96, "ii": 96, "iii": 512}  # of each column
MIXERS = {"memory": "titans", "attention": "simba-attention", "mamba": "simba-mamba", "none": "simba-none"}
PARTS = {  # of a TOML, and what each may say; the rest is the benchmark's
    "model": {field.name for field in fields(ModelConfig)} - {"lookback", "horizon", "n_series", "n_outputs", "levels"},
    "train": {field.name for field in fields(TrainConfig)} - {"random_state"},
}
Settings = dict[str, dict[str, Any]]  # by part


@dataclass(frozen=True)
class Variant:
    """What a row differs by from the table's network and training; its name is the CSV's `model`."""

    name: str
    model: dict[str, Any]
    train: dict[str, Any]

    @classmethod
    def of_mixer(cls, mixer: str) -> Variant:
        return cls(MIXERS[mixer], {"mixer": mixer}, {})

    @classmethod
    def read(cls, path: Path) -> list[Variant]:
        """The variants of a TOML: ``[name.model]`` and ``[name.train]``."""
        raw = tomllib.loads(path.read_text())
        for name, parts in raw.items():
            check_parts(path, name, parts)
        return [cls(name, parts.get("model", {}), parts.get("train", {})) for name, parts in raw.items()]


@dataclass(frozen=True)
class Table:
    """One experiment's TOML: a data set and what was published for comparison.

    Where it describes a network and its training, rows are of these; else they are of the estimator as it comes.
    `published` is a paper's MSE and MAE over the four horizons; it gives no others. `best` is the least MSE over the
    four published by those who count every test window, by lookback. `lookback` and `horizon` refine the network or its
    training where they apply, the horizon last: ``[lookback.512.train]``, ``[horizon.720.train]``.
    """

    dataset: str
    horizons: tuple[int, ...]
    seeds: tuple[int, ...]
    model: dict[str, Any]
    train: dict[str, Any]
    published: dict[str, list[float]]
    best: dict[str, float]
    lookback: dict[str, Settings]
    horizon: dict[str, Settings]

    @classmethod
    def read(cls, path: Path) -> Table:
        """The TOML at `path`; unknown keys are errors."""
        raw = tomllib.loads(path.read_text())
        check_keys(path, "", raw, {field.name for field in fields(cls)})
        check_parts(path, "", {part: raw[part] for part in PARTS if part in raw})
        for refinement in ("lookback", "horizon"):
            for steps, refined in raw.get(refinement, {}).items():
                check_parts(path, f"{refinement}.{steps}", refined)
        for name in ("dataset", "horizons", "seeds"):
            if name not in raw:
                raise ValueError(f"{path}: `{name}` is missing.")
        raw |= {name: tuple(raw[name]) for name in ("horizons", "seeds")}
        return cls(**{field.name: raw.get(field.name, {}) for field in fields(cls)})

    def configs(
        self, horizon: int, lookback: int, n_series: int, variant: Variant, seed: int
    ) -> tuple[ModelConfig, TrainConfig]:
        """The network and its training at one horizon."""
        model, train = dict(self.model), dict(self.train)
        for refined in (
            self.lookback.get(str(lookback), {}),
            self.horizon.get(str(horizon), {}),
            {"model": variant.model, "train": variant.train},
        ):
            model |= refined.get("model", {})
            train |= refined.get("train", {})
        return (
            ModelConfig(lookback=lookback, horizon=horizon, n_series=n_series, **model),
            TrainConfig(**train, random_state=seed),
        )


def check_keys(path: Path, section: str, given: dict[str, Any], allowed: set[str]) -> None:
    """Raise ValueError where a section of a TOML says more than it may."""
    for key in given:
        if key not in allowed:
            close = difflib.get_close_matches(key, allowed, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(sorted(allowed))}."
            raise ValueError(f"{path}{f' [{section}]' if section else ''}: unknown key {key!r}{hint}")


def check_parts(path: Path, section: str, parts: Settings) -> None:
    """Raise ValueError where a part is neither the network's nor its training's, or has what these have not."""
    check_keys(path, section, parts, set(PARTS))
    for part, given in parts.items():
        check_keys(path, f"{section}.{part}".lstrip("."), given, PARTS[part])
