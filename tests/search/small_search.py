"""A forecaster, a table and a space so small that a search over them takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from optuna.distributions import FloatDistribution

from titans_ts import TitansForecaster

ROWS = 160
DROPOUT = {"dropout": FloatDistribution(0.0, 0.5)}


def tiny(**parameters: Any) -> TitansForecaster:
    given: dict[str, Any] = dict(
        horizon=6,
        lookback=24,
        d_model=8,
        n_heads=2,
        n_layers=1,
        mixer="none",
        max_epochs=1,
        val_size=12,
        random_state=0,
        verbose=0,
    )
    return TitansForecaster(**{**given, **parameters})


def waves(rows: int = ROWS) -> pd.DataFrame:
    wave = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None]
    noise = np.random.default_rng(0).normal(size=(rows, 2)).cumsum(0)
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame(wave + 0.1 * noise, index=index, columns=["a", "b"])
