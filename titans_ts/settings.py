"""An estimator's parameters as configurations of a network and of its training, with what is None filled in."""

from __future__ import annotations

import math
from typing import Any

import torch

from .arguments import check_flag, check_integer
from .defaults import Defaults
from .model import ModelConfig
from .stream.fit import WINDOW
from .training.config import TrainConfig
from .training.losses import AnyLoss, find_loss

AUTO = "auto"  # what `fit` chooses
CLOSED_FORM = {"max_epochs": 0, "combine": False, "context": WINDOW}  # parameters that leave nothing else
PER_SERIES_PATHS = ("per_series", "across")  # linear paths with weights per series
HARMONICS = 2  # of the seasonal profile, by whose phase cross-series weights vary
MOST_BY_PHASE = 40  # series up to which they do: the weights grow by the square of the number
LEAST_STEPS = 300  # training steps on short series, whose epochs have few


def chooses_path(forecaster: Any) -> bool:
    """Whether `fit` chooses the linear path."""
    return isinstance(forecaster.linear_path, str) and forecaster.linear_path == AUTO


def model_config(forecaster: Any, n_series: int, defaults: Defaults) -> ModelConfig:
    """The network's shape by an estimator's parameters; what is None is filled in from the data."""
    path = forecaster.linear_path if isinstance(forecaster.linear_path, str) else None
    path = None if path == AUTO else path
    cycle = check_integer("cycle", forecaster.cycle, 0, defaults.cycle)
    if path not in (None, *PER_SERIES_PATHS):
        raise ValueError(f"`linear_path` must be True, False or one of {(AUTO, *PER_SERIES_PATHS)}, got {path!r}.")
    across = path == "across"
    return ModelConfig(
        lookback=check_integer("lookback", forecaster.lookback, 1, defaults.lookback),
        horizon=check_integer("horizon", forecaster.horizon, 1, defaults.horizon),
        n_outputs=find_loss(forecaster.loss).n_outputs,
        levels=find_loss(forecaster.loss).levels,
        n_series=n_series,
        cycle=cycle,
        linear_path=True if path or chooses_path(forecaster) else check_flag("linear_path", forecaster.linear_path),
        linear_per_series=path in PER_SERIES_PATHS,
        linear_window_mean=path in PER_SERIES_PATHS,
        linear_cross_series=across,
        linear_harmonics=min(HARMONICS, cycle // 2) if across and n_series <= MOST_BY_PHASE else 0,
        patch_len=check_integer("patch_len", forecaster.patch_len, 1),
        stride=check_integer("stride", forecaster.stride, 1),
        d_model=check_integer("d_model", forecaster.d_model, 1),
        n_layers=check_integer("n_layers", forecaster.n_layers, 1),
        n_heads=check_integer("n_heads", forecaster.n_heads, 1),
        mixer=forecaster.mixer,
        variant=forecaster.variant,
        attention_window=check_integer("attention_window", forecaster.attention_window, 1),
        feature_mixer=forecaster.feature_mixer,
        memory_depth=check_integer("memory_depth", forecaster.memory_depth, 1),
        memory_expansion=check_integer("memory_expansion", forecaster.memory_expansion, 1),
        chunk_size=check_integer("chunk_size", forecaster.chunk_size, 1),
        memory_gates=forecaster.memory_gates,
        n_persistent=check_integer("n_persistent", forecaster.n_persistent, 0),
        memory_conv=check_flag("memory_conv", forecaster.memory_conv),
        memory_momentum=check_flag("memory_momentum", forecaster.memory_momentum),
        memory_forgetting=check_flag("memory_forgetting", forecaster.memory_forgetting),
        memory_writes=check_flag("memory_writes", forecaster.memory_writes),
        dropout=forecaster.dropout,
    )


def train_config(
    forecaster: Any, n_windows: int, seed: int, device: torch.device, val_loss: AnyLoss | None
) -> TrainConfig:
    """How the network of an estimator with these parameters is trained on so many windows."""
    batch_size = check_integer("batch_size", forecaster.batch_size, 1, min(256, max(16, n_windows // 16)))
    least = 1 if forecaster.linear_path else 3  # beside a linear path, what is to be gained is gained soon
    epochs = min(100, max(least, math.ceil(LEAST_STEPS / math.ceil(n_windows / batch_size))))
    precision = forecaster.precision
    if precision is None:
        precision = "bfloat16" if device.type == "cuda" else "float32"
    return TrainConfig(
        loss=forecaster.loss,
        val_loss=val_loss,
        learning_rate=forecaster.learning_rate,
        batch_size=batch_size,
        max_epochs=check_integer("max_epochs", forecaster.max_epochs, 0, epochs),
        patience=check_integer("patience", forecaster.patience, 1),
        precision=precision,
        random_state=seed,
        verbose=forecaster.verbose,
    )
