"""A data set of the benchmark: its windows, in the space where errors are published, and the naive forecast of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from titans_ts.datasets import Dataset
from titans_ts.datasets.load import as_dataset
from titans_ts.datasets.registry import find_spec
from titans_ts.model import ModelConfig
from titans_ts.tables.read import read_table
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.seasonal import seasonal_profiles
from titans_ts.windows.splits import backtest_folds, fold_windows
from titans_ts.windows.windows import Windows, on_device


class BenchmarkWindows(NamedTuple):
    """Every window that forecasts train rows alone, validation rows alone, and test rows alone."""

    train: Windows
    validation: Windows
    test: Windows


class Benchmark:
    """A data set, scaled by its train rows."""

    def __init__(self, data: Dataset, device: torch.device) -> None:
        self.data = data
        rows = data.frame.iloc[: data.split.test.stop]
        self.panel = read_table(np.asarray(data.scaler.transform(rows), dtype=np.float64))
        self.n_series = self.panel.n_series
        self.series = on_device(self.panel.data, device)
        self._features: CrossSeriesFeatures | None = None  # of the last lookback asked for

    def windows(self, config: ModelConfig, dropped: int = 0) -> BenchmarkWindows:
        """The windows that a network reads; of each channel's test windows the last `dropped` are left out."""
        lookback, horizon, split = config.lookback, config.horizon, self.data.split
        (fold,) = backtest_folds(self.panel, horizon, val_size=len(split.validation), test_size=len(split.test))
        fold = replace(fold, test=fold.test - dropped)
        features = self._cross_series(lookback) if config.linear_cross_series else None
        found = fold_windows(self.series, fold, lookback=lookback, horizon=horizon, cross_series=features)
        if found.validation is None or found.test is None:
            raise ValueError(
                f"`horizon` must be at most the {len(split.validation)} validation and {len(split.test)} test rows of "
                f"{self.data.name}, got {horizon}."
            )
        return BenchmarkWindows(found.train, found.validation, found.test)

    def profile(self, cycle: int) -> torch.Tensor | None:
        """The seasonal profile of each channel's train rows; None without a cycle."""
        if not cycle:
            return None
        rows = np.full(self.n_series, self.data.split.train.stop)
        return torch.from_numpy(seasonal_profiles(self.panel.data, rows, cycle))

    def frame(self) -> pd.DataFrame:
        """The scaled rows up to the end of test, a column for each channel."""
        rows = self.data.frame.iloc[: self.data.split.test.stop]
        return pd.DataFrame(self.panel.data.values.reshape(rows.shape, order="F"), rows.index, rows.columns)

    def _cross_series(self, lookback: int) -> CrossSeriesFeatures:
        if self._features is None or self._features.lookback != lookback:
            self._features = CrossSeriesFeatures(self.series, lookback=lookback, n_series=self.n_series)
        return self._features


def read_subset(name: str, path: Path) -> Dataset:
    """Some channels of a data set, all their rows, from a CSV that begins with the dates; its name says how many."""
    spec = find_spec(name)
    frame = pd.read_csv(path, index_col=0, parse_dates=True)
    if unknown := sorted(set(frame.columns) - set(spec.channels)):
        raise ValueError(f"{path} has the columns {unknown}, which are not in {spec.name}.")
    if len(frame) != spec.rows:
        raise ValueError(f"{path} must have the {spec.rows} rows of {spec.name}, got {len(frame)}.")
    return as_dataset(spec, frame.astype(float), f"{spec.name}, {frame.shape[1]} of {len(spec.channels)} series")


def seasonal_naive(windows: Windows, period: int) -> tuple[float, float]:
    """MSE and MAE of repeating the last `period` steps, or the last one where a lookback is shorter than that."""
    if period > windows.lookback:
        period = 1
    repeats = -(-windows.horizon // period)
    squared = absolute = 0.0
    count = 0
    for batch in windows.batches(4096):
        forecast = batch.past[:, -period:].repeat(1, repeats)[:, : windows.horizon]
        error = (forecast - batch.future).double()
        squared += error.square().sum().item()
        absolute += error.abs().sum().item()
        count += error.numel()
    return squared / count, absolute / count
