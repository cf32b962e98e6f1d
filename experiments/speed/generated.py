"""Tables of hourly series, made up, and all their windows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from titans_ts.tables.read import read_table
from titans_ts.windows.scaler import Scaler
from titans_ts.windows.windows import Windows, on_device

CYCLE = 24


def wide_table(series: int, rows: int) -> pd.DataFrame:
    """A daily season and noise, a column for each series."""
    values = np.random.default_rng(0).standard_normal((rows, series))
    values += 3 * np.sin((np.arange(rows)[:, None] + np.arange(series)) * 2 * np.pi / CYCLE)
    index = pd.date_range("2020-01-01", periods=rows, freq="h", name="ds")
    return pd.DataFrame(values, index=index, columns=[f"s{i}" for i in range(series)])


def windows_of(table: pd.DataFrame, horizon: int, lookback: int = 96, kind: type[Windows] = Windows) -> Windows:
    """Every window of a table, scaled as `TitansForecaster.fit` scales them; none for validation."""
    data = read_table(table).data
    scaled = on_device(Scaler.fit(data, data.lengths).transform(data), torch.device("cpu"))
    first = np.full(data.n_series, lookback)
    return kind(scaled, lookback=lookback, horizon=horizon, first=first, last=data.lengths)
