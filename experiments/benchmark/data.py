"""A data set of the benchmark: its windows, in the space where errors are published, and the naive forecast of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from titans_ts.datasets import Dataset
from titans_ts.datasets.load import as_dataset
from titans_ts.datasets.registry import find_spec
from titans_ts.surroundings import Surroundings
from titans_ts.windows import Windows, profiles


class Benchmark:
    """A data set as windows, scaled by its train rows."""

    def __init__(self, data: Dataset, device: torch.device) -> None:
        self.data = data
        self.rows = data.split.test.stop
        scaled = np.asarray(data.scaler.transform(data.frame.iloc[: self.rows]), dtype=np.float64)
        self.n_series = scaled.shape[1]
        self.scaled = scaled.T.ravel()  # series after series
        self.lengths = np.full(self.n_series, self.rows)
        self.starts = np.zeros(self.n_series, dtype=np.int64)
        self.values = torch.from_numpy(self.scaled.astype(np.float32)).to(device)
        self._features: Surroundings | None = None  # of the last lookback asked for

    def cross_series_features(self, lookback: int) -> Surroundings:
        """What each window comes with where the channels read one another."""
        if self._features is None or self._features.lookback != lookback:
            series = self.values, self.lengths, self.starts
            self._features = Surroundings(*series, lookback=lookback, n_series=self.n_series)
        return self._features

    def windows(
        self, part: range, lookback: int, horizon: int, *, dropped: int = 0, cross_series: bool = False
    ) -> Windows:
        """Every window that forecasts rows of `part` alone, less the last `dropped` of each channel.

        With `cross_series` each comes with the features that channels read of one another.
        """
        first = max(part.start, lookback)
        return Windows(
            self.values,
            self.lengths,
            self.starts,
            lookback=lookback,
            horizon=horizon,
            first=np.full(self.n_series, first),
            last=np.full(self.n_series, part.stop - dropped),
            around=self.cross_series_features(lookback) if cross_series else None,
        )

    def profile(self, cycle: int) -> torch.Tensor | None:
        """The seasonal profile of each channel's train rows; None without a cycle."""
        if not cycle:
            return None
        rows = np.full(self.n_series, self.data.split.train.stop)
        return torch.from_numpy(profiles(self.scaled, self.lengths, self.starts, rows, cycle))

    def frame(self) -> pd.DataFrame:
        """The scaled rows up to the end of test, a column for each channel."""
        rows = self.data.frame.iloc[: self.rows]
        return pd.DataFrame(self.scaled.reshape(rows.shape, order="F"), rows.index, rows.columns)


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
        forecast = batch.past[:, -period:].repeat(1, repeats, 1)[:, : windows.horizon]
        error = (forecast - batch.future).double()
        squared += error.square().sum().item()
        absolute += error.abs().sum().item()
        count += error.numel()
    return squared / count, absolute / count
