"""Tiny fitted models whose deep branch says something, and the table they are of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from titans_ts import TitansForecaster

SIZE = dict(
    horizon=6, lookback=24, patch_len=8, stride=4, d_model=8, n_layers=1, n_heads=2, n_persistent=1, chunk_size=4
)
HOW = dict(combine=False, context="window", linear_path=True, random_state=0, device="cpu", verbose=0, max_epochs=0)


def waves(rows: int = 120, series: str = "abc") -> pd.DataFrame:
    """Large values that vary little, whose clocks change on the fourth day."""
    wave = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None]
    noise = np.random.default_rng(0).normal(size=(rows, len(series))).cumsum(0)
    index = pd.date_range("2024-03-28", periods=rows, freq="h", tz="Europe/Berlin")
    return pd.DataFrame(1e6 + 50 * (wave + 0.1 * noise), index=index, columns=[*series])


def long(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.reset_index(names="ds").melt("ds", var_name="unique_id", value_name="y")


def fitted(df: Any, **parameters: Any) -> TitansForecaster:
    """A model of the closed form, the weights of whose network are then drawn anew, as if it had been trained."""
    model = TitansForecaster(**{**SIZE, **HOW, **parameters}).fit(df)
    network, draws = model.network_, torch.Generator().manual_seed(0)
    drawn = {"head.project.weight", "embed_covariates.project.weight", "cross_series.weight"}
    for name, weight in [*network.named_parameters(), *network.named_buffers()]:
        if name in drawn or (name.startswith("blocks.") and name.endswith("bias")):
            torch.nn.init.normal_(weight, std=0.3, generator=draws)
    return model
