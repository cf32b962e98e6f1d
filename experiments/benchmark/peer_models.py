"""Networks of neuralforecast, as they come, and where they are absent a word about it."""

from __future__ import annotations

import importlib
import inspect
import logging
import time
import warnings
from typing import Any, NamedTuple

import pandas as pd

from benchmark.table import LOOKBACKS
from titans_ts.datasets import Split

LOOKBACK = LOOKBACKS["i"]
PEERS = ("DLinear", "NHITS", "iTransformer", "PatchTST")
STOPPING = dict(early_stop_patience_steps=3, val_check_steps=100)
# Lightning says nothing and leaves no files.
QUIET = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)


class Quality(NamedTuple):
    """What a fit of a peer came to: errors over every test window, and the training steps taken."""

    seconds: float
    mse: float
    mae: float
    steps: int


def peer(module: str, benchmark: str) -> Any:
    """Another package; None, and a word about it, where it is absent."""
    warnings.simplefilter("ignore")  # they warn of themselves, and Lightning logs, at every fit
    try:
        package = importlib.import_module(module)
    except ImportError as error:
        print(f"{benchmark}: nothing to compare with, {module} cannot be imported ({error}).")
        print("    pip install -c constraints.txt -e '.[bench]'")
        return None
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return package


def peer_model(name: str, horizon: int, steps: int, **settings: Any) -> Any:
    """A network that trains for the squared error on a CPU, for at most so many steps."""
    loss = importlib.import_module("neuralforecast.losses.pytorch").MSE()
    size = dict(h=horizon, input_size=LOOKBACK, max_steps=steps)
    return _peer_class(name)(**size, loss=loss, accelerator="cpu", **QUIET, **settings)


def default_steps(name: str) -> int:
    """The most training steps that a network has for its default."""
    return int(inspect.signature(_peer_class(name)).parameters["max_steps"].default)


def peer_fit(model: Any, table: pd.DataFrame, val_size: int = 0) -> Any:
    """Train on a wide table of hours; the package's forecaster."""
    forecaster = importlib.import_module("neuralforecast").NeuralForecast(models=[model], freq="h")
    forecaster.fit(to_long(table), val_size=val_size)
    return forecaster


def peer_quality(name: str, scaled: pd.DataFrame, split: Split, horizon: int, steps: int, seed: int = 1) -> Quality:
    """Train on the rows before test, and score over every test window."""
    settings: dict[str, Any] = dict(STOPPING, random_seed=seed)
    if name == "iTransformer":  # it reads all series at once
        settings["n_series"] = scaled.shape[1]
    begun = time.perf_counter()
    fitted = scaled.iloc[: split.validation.stop]
    forecaster = peer_fit(peer_model(name, horizon, steps, **settings), fitted, val_size=len(split.validation))
    seconds = time.perf_counter() - begun
    span = dict(n_windows=None, test_size=len(split.test), step_size=1, val_size=0)
    forecasts = forecaster.cross_validation(to_long(scaled), **span, use_fitted=True, refit=False)
    expected = (len(split.test) - horizon + 1) * horizon * scaled.shape[1]
    if len(forecasts) != expected:
        raise RuntimeError(f"{name} forecast {len(forecasts)} values over the test rows, expected {expected}.")
    errors = forecasts["y"] - forecasts[name]
    taken = len(forecaster.models[0].train_trajectories)  # an entry a step
    return Quality(seconds, float((errors**2).mean()), float(errors.abs().mean()), taken)


def to_long(table: pd.DataFrame) -> pd.DataFrame:
    """A wide table as `unique_id`, `ds`, `y`."""
    return table.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")


def _peer_class(name: str) -> Any:
    return getattr(importlib.import_module("neuralforecast.models"), name)
