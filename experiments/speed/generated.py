"""Tables of hourly series, made up, and all their windows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from titans_ts.frames import read_table
from titans_ts.windows import Scaler, Windows

CYCLE = 24


def wide_table(series: int, rows: int) -> pd.DataFrame:
    """A daily season and noise, a column for each series."""
    values = np.random.default_rng(0).standard_normal((rows, series))
    values += 3 * np.sin((np.arange(rows)[:, None] + np.arange(series)) * 2 * np.pi / CYCLE)
    index = pd.date_range("2020-01-01", periods=rows, freq="h", name="ds")
    return pd.DataFrame(values, index=index, columns=[f"s{i}" for i in range(series)])


def windows_of(table: pd.DataFrame, horizon: int, lookback: int = 96, kind: type[Windows] = Windows) -> Windows:
    """Every window of a table, scaled as `TitansForecaster.fit` scales them; none for validation."""
    panel = read_table(table)
    scaler = Scaler.fit(panel.values, panel.lengths, panel.lengths)
    values = torch.from_numpy(scaler.transform(panel.values, panel.lengths).astype(np.float32))
    first = np.full(panel.n_series, lookback)
    series = values, panel.lengths, panel.starts
    return kind(*series, lookback=lookback, horizon=horizon, first=first, last=panel.lengths)
