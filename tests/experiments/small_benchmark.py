"""A small data set and its experiment, for the scripts that fit blocks of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from titans_ts.datasets import Dataset, Split

TOML = """
dataset = "ETTh1"
horizons = [6]
seeds = [0]

[model]
cycle = 24
linear_per_series = true
linear_level = true
linear_across = true
d_model = 4
n_layers = 1

[train]
max_epochs = 0
"""
ROWS = 1200  # of train and validation
NOTHING = slice(0)


def data(changed: slice = NOTHING) -> Dataset:
    """Two noisy days, of which some rows are other ones."""
    index = pd.date_range("2024-01-01", periods=ROWS + 300, freq="h", name="date")
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(len(index)) * 2 * np.pi / 24)[:, None] + rng.normal(size=(len(index), 2))
    values[changed] = np.random.default_rng(1).normal(size=values[changed].shape)
    split = Split(range(900), range(900, ROWS), range(ROWS, ROWS + 300))
    scaler = StandardScaler().fit(np.array([[-1.0, -1.0], [1.0, 1.0]]))  # the same whatever was changed
    scaler.feature_names_in_ = np.array(["a", "b"], dtype=object)
    return Dataset(pd.DataFrame(values, index, ["a", "b"]), "ETTh1", "h", split, scaler)
