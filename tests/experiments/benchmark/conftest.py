"""A small data set in the benchmark's shape, and its TOML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from benchmark.covariates_data import DAY, STEP, Problem
from benchmark.estimator import regular_frame
from benchmark.stream_data import Stream
from titans_ts.datasets import Dataset, Split
from titans_ts.fitted import FittedModel
from titans_ts.fitting import FitOptions, fit_model
from titans_ts.model import ModelConfig
from titans_ts.tables.read import read_table
from titans_ts.training.config import TrainConfig
from titans_ts.windows.splits import backtest_folds

TOML = """
dataset = "ETTh1"
horizons = [6, 12]
seeds = [0, 1]

[model]
cycle = 24
d_model = 8
n_layers = 1

[train]
max_epochs = 1

[horizon.12.train]
learning_rate = 2e-3

[published]
Paper = [0.5, 0.6]
"""


@pytest.fixture
def small() -> Dataset:
    """Two channels of 1200 hours: 600 train, 200 validation, 400 test."""
    hour = np.arange(1200)
    noise = np.random.default_rng(0).normal(0, 0.3, (2, 1200))
    frame = pd.DataFrame(
        {"a": 5 + np.sin(hour * 2 * np.pi / 24) + noise[0], "b": 3 * np.cos(hour * 2 * np.pi / 24) + noise[1]},
        index=pd.date_range("2016-07-01", periods=1200, freq="h", name="date"),
    )
    split = Split(range(600), range(600, 800), range(800, 1200))
    return Dataset(frame, "ETTh1", "h", split, StandardScaler().fit(frame.iloc[:600]))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


@pytest.fixture
def small_subset(tmp_path: Path) -> Path:
    """Two clients of electricity, made up."""
    index = pd.date_range("2016-07-01 02:00", periods=26304, freq="h", name="date")
    values = np.random.default_rng(0).normal(size=(26304, 2))
    path = tmp_path / "two.csv"
    pd.DataFrame(values, index, ["0", "OT"]).to_csv(path)
    return path


@pytest.fixture
def stream_of() -> Callable[..., Stream]:
    """A data set as a stream, with a core of the configuration that is asked for; 24 steps read, 6 forecast."""

    def build(data: Dataset, fitted: FittedModel | None = None, **config: Any) -> Stream:
        if fitted is not None:
            return Stream(data, fitted)
        panel = read_table(regular_frame(data).iloc[: data.split.validation.stop])
        (fold,) = backtest_folds(panel, 6, val_size=len(data.split.validation))
        shape = ModelConfig(lookback=24, horizon=6, n_series=panel.n_series, d_model=8, n_layers=1, **config)
        options = FitOptions(train_config=lambda n: TrainConfig(max_epochs=0), device=torch.device("cpu"))
        return Stream(data, fit_model(panel, fold, shape, options))

    return build


@pytest.fixture
def weather_problem() -> Problem:
    """Two series of 33 days that follow a temperature, and the sky; the last 3 are test."""
    rng, n = np.random.default_rng(0), 33 * DAY
    hours = pd.date_range("2024-01-01", periods=n, freq="h")
    temp = np.cumsum(rng.normal(0, 1, n))
    sky = np.where(rng.random(n) < 0.3, "rain", "clear")
    frames = [
        pd.DataFrame({"unique_id": name, "ds": hours, "y": size * y, "temp": temp, "sky": sky})
        for name, size in (("a", 1.0), ("b", 10.0))
        for y in [50 + 2 * temp - 8 * (sky == "rain") + np.sin(2 * np.pi * hours.hour / 24) + rng.normal(0, 0.5, n)]
    ]
    begin = hours[30 * DAY]
    return Problem(
        name="weather",
        frame=pd.concat(frames, ignore_index=True),
        future_cols=("temp", "sky"),
        calendar=("hour", "weekday"),
        begin=begin,
        end=hours[-1] + STEP,
        horizon=DAY,
        n_validation=5 * DAY,
    )
