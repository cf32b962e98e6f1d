"""Other packages' networks on the long-term benchmark: `python experiments/peers.py experiments/etth1.toml`.

neuralforecast's, as they come: lookback 96, trained on the same rows for the squared error, stopped after three
validation checks without a better one or after as many steps as each has for its default. Their errors are over every
test window, in the scaled space where ours are, and are appended to the data set's CSV with the steps that they took; a
row that it holds is not measured again. Needs `pip install -c constraints.txt -e '.[bench]'`.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import logging
import platform
import time
import warnings
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from long_term import LOOKBACKS, RESULTS, Benchmark, Table, append, done
from stamp import commit, device_name

from titans_ts.datasets import Split, load_dataset

LOOKBACK = LOOKBACKS["i"]
MODELS = ("DLinear", "NHITS", "iTransformer", "PatchTST")
STOPPING = dict(early_stop_patience_steps=3, val_check_steps=100)
# Lightning says nothing and leaves no files.
QUIET = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)


def main(argv: list[str] | None = None) -> None:
    """Train and score each model at each horizon; each row is in the CSV as soon as it is measured."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("table", type=Path, help="the data set's TOML")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--horizons", type=int, nargs="+", help="a part of the TOML's")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--steps", type=int, help="most training steps (default: each network's own)")
    parser.add_argument("--root", type=Path, help="a folder that holds the data; else TITANS_TS_DATA or a download")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if not peer("neuralforecast", "peers"):
        raise SystemExit(1)
    table = Table.read(args.table)
    benchmark = Benchmark(load_dataset(table.dataset, root=args.root), torch.device("cpu"))
    frame = benchmark.data.frame.iloc[: benchmark.rows]
    scaled = pd.DataFrame(benchmark.scaled.reshape(frame.shape, order="F"), frame.index, frame.columns)
    out = args.out / f"{args.table.stem}.csv"
    stamp = {
        "device": f"{device_name()}, {torch.get_num_threads()} threads",
        "versions": ", ".join(
            [
                *(f"{name} {version(name)}" for name in ("neuralforecast", "torch")),
                f"python {platform.python_version()}",
            ]
        ),
        "commit": commit(),
    }
    for horizon, model, seed in product(args.horizons or table.horizons, args.models, args.seeds):
        most = args.steps or own_steps(model)
        if (model, horizon, seed, f"{most} steps") in held(out):
            continue
        seconds, mse, mae, steps = peer_quality(model, scaled, benchmark.data.split, horizon, most, seed)
        row = dict(dataset=table.dataset, model=model, column="i", lookback=LOOKBACK, horizon=horizon, seed=seed)
        config = f"{steps} of {most} steps"
        append(out, {**row, "mse": mse, "mae": mae, "seconds": seconds, **stamp, "config": config})
        print(f"{table.dataset} {horizon} {model}: {mse:.4f} / {mae:.4f}, {config}, {seconds:.0f} s", flush=True)


def held(path: Path) -> set[tuple[str, int, int, str]]:
    """Model, horizon, seed and most steps of the rows that the CSV holds."""
    return {
        (model, horizon, seed, config.rpartition(" of ")[2])
        for model, column, _, horizon, seed, config in done(path)
        if column == "i"
    }


def own_steps(name: str) -> int:
    """The most training steps that a network has for its default."""
    return int(inspect.signature(peer_class(name)).parameters["max_steps"].default)


def peer_class(name: str) -> Any:
    return getattr(importlib.import_module("neuralforecast.models"), name)


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
    loss = importlib.import_module("neuralforecast.losses.pytorch").MSE()
    size = dict(h=horizon, input_size=LOOKBACK, max_steps=steps)
    return peer_class(name)(**size, loss=loss, accelerator="cpu", **QUIET, **settings)


def peer_fit(model: Any, table: pd.DataFrame, val_size: int = 0) -> Any:
    forecaster = importlib.import_module("neuralforecast").NeuralForecast(models=[model], freq="h")
    forecaster.fit(long(table), val_size=val_size)
    return forecaster


def peer_quality(
    name: str, scaled: pd.DataFrame, split: Split, horizon: int, steps: int, seed: int = 1
) -> tuple[float, float, float, int]:
    """Seconds of the fit, MSE and MAE over every test window, and the training steps taken."""
    settings: dict[str, Any] = dict(STOPPING, random_seed=seed)
    if name == "iTransformer":  # it reads all series at once
        settings["n_series"] = scaled.shape[1]
    begun = time.perf_counter()
    fitted = scaled.iloc[: split.validation.stop]
    forecaster = peer_fit(peer_model(name, horizon, steps, **settings), fitted, val_size=len(split.validation))
    seconds = time.perf_counter() - begun
    span = dict(n_windows=None, test_size=len(split.test), step_size=1, val_size=0)
    forecasts = forecaster.cross_validation(long(scaled), **span, use_fitted=True, refit=False)
    expected = (len(split.test) - horizon + 1) * horizon * scaled.shape[1]
    if len(forecasts) != expected:
        raise RuntimeError(f"{name} forecast {len(forecasts)} values over the test rows, expected {expected}.")
    errors = forecasts["y"] - forecasts[name]
    taken = len(forecaster.models[0].train_trajectories)  # an entry a step
    return seconds, float((errors**2).mean()), float(errors.abs().mean()), taken


def long(table: pd.DataFrame) -> pd.DataFrame:
    return table.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")


if __name__ == "__main__":
    main()
