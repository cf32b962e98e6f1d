"""A small fitted core, and the series that it is streamed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from titans_ts import TitansForecaster
from titans_ts.fitted import FittedModel
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.windows import on_device

LOOKBACK, HORIZON = 12, 4


def hourly(rows: int, names: str = "ab", seed: int = 0, shift: float = 2.0) -> pd.DataFrame:
    """Waves of a day with autoregressive noise around a level that changes on the way."""
    rng, t, table = np.random.default_rng(seed), np.arange(rows), {}
    for i, name in enumerate(names):
        noise = rng.normal(size=rows)
        for j in range(1, rows):
            noise[j] += 0.7 * noise[j - 1]
        wave = np.sin(2 * np.pi * t / 24 + i) + 0.3 * noise + shift * (t > 0.4 * rows) * np.sin(2 * np.pi * t / 24)
        table[name] = 10 * i + (i + 1) * wave
    return pd.DataFrame(table, index=pd.date_range("2024-01-01", periods=rows, freq="h", name="when"))


def long(wide: pd.DataFrame) -> pd.DataFrame:
    ids = np.repeat(wide.columns.to_numpy(), len(wide))
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(wide.index, wide.shape[1]), "y": wide.to_numpy().T.ravel()})


def ragged(rows: int = 150) -> pd.DataFrame:
    """Three series of other beginnings and lengths."""
    whole = hourly(rows, "abc")
    return pd.concat([long(whole[["a"]]), long(whole[["b"]][37:]), long(whole[["c"]][5:99])], ignore_index=True)


def core_of(table: Any, **given: Any) -> FittedModel:
    """The closed form alone, without a memory."""
    parameters = dict(horizon=HORIZON, lookback=LOOKBACK, d_model=8, n_heads=2, n_layers=1, max_epochs=0, verbose=0)
    parameters |= dict(context="window", combine=False, linear_path=True, random_state=0)
    fitted: FittedModel = TitansForecaster(**(parameters | given)).fit(table).fitted_
    fitted.network.eval()
    return fitted


def scaled(core: FittedModel, panel: Panel, series: np.ndarray | None = None) -> SeriesData[torch.Tensor]:
    """A panel at the core's scale of these series, or of all."""
    scaler = core.scaler if series is None else core.scaler.take(series)
    return on_device(scaler.transform_panel(panel), torch.device("cpu"))


def read(table: Any, **given: Any) -> Panel:
    return read_table(table, **given)
