"""Widths at first: the quantiles of what the closed form leaves of the train windows, where they can be trained."""

from __future__ import annotations

import numpy as np
import torch

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.quantile_widths import LEAST_WIDTH, initialise_widths
from titans_ts.windows.windows import Windows

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
HORIZON = 3


def initialised(values: np.ndarray, observed: np.ndarray | None = None) -> SimbaForecaster:
    data = SeriesData(torch.from_numpy(values).float(), np.array([len(values)]), np.array([0]), observed)
    ends = np.array([8]), np.array([len(values)])
    windows = Windows(data, lookback=8, horizon=HORIZON, first=ends[0], last=ends[1])
    network = SimbaForecaster(
        ModelConfig(lookback=8, horizon=HORIZON, n_outputs=5, levels=LEVELS, d_model=8, n_layers=1, n_heads=2)
    ).eval()
    initialise_widths(network, windows)
    (batch,) = windows.batches(10**6)
    with torch.no_grad():
        found = network(batch)
    below = batch.future.unsqueeze(-1) <= found
    counted = torch.ones_like(batch.future) if batch.observed_mask is None else batch.observed_mask.float()
    network.covered = (below * counted.unsqueeze(-1)).sum((0, 1)) / counted.sum()
    return network


def test_so_many_rows_lie_below_each_quantile_where_residuals_are_skewed() -> None:
    values = np.random.default_rng(0).exponential(size=4000)
    values[values > 6] = 6
    network = initialised(values)
    torch.testing.assert_close(network.covered[[0, 1, 3, 4]], torch.tensor([0.1, 0.25, 0.75, 0.9]), atol=0.01, rtol=0)
    first = network.quantiles.first
    assert first[:, -1].mean() > 2 * first[:, 0].mean(), "the upper tail is the longer one"


def test_what_was_filled_in_does_not_count() -> None:
    values = np.random.default_rng(0).normal(size=2000)
    observed = np.ones(2000, dtype=bool)
    observed[np.random.default_rng(1).integers(20, 1980, 10)] = False
    wild = np.where(observed, values, 50.0)
    network = initialised(wild, observed)
    assert network.quantiles.first.max() < 2


def test_no_width_is_zero_but_of_residuals_that_are() -> None:
    values = np.zeros(400)
    assert not initialised(values).quantiles.first.any()
    values[::7] = 1.0  # one row in seven: the quantiles from 0.25 to 0.75 of the residuals are equal
    first = initialised(values).quantiles.first
    assert (first > LEAST_WIDTH / 2 * first.mean(1, keepdim=True)).all()


def test_a_network_of_points_has_none() -> None:
    network = SimbaForecaster(ModelConfig(lookback=8, horizon=2, d_model=8, n_layers=1, n_heads=2))
    initialise_widths(network, None)  # type: ignore[arg-type]
    assert network.quantiles is None


def test_each_series_has_quantiles_of_the_size_of_its_residuals() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=1000), 5 * rng.normal(size=1000), rng.normal(size=12)])
    lengths = np.array([1000, 1000, 12])
    data = SeriesData(torch.from_numpy(values).float(), lengths, np.zeros(3, dtype=np.int64))
    windows = Windows(data, lookback=8, horizon=HORIZON, first=np.full(3, 8), last=lengths)
    config = ModelConfig(lookback=8, horizon=HORIZON, n_outputs=5, n_series=4, levels=LEVELS, d_model=8, n_layers=1)
    network = SimbaForecaster(config)
    initialise_widths(network, windows)
    first, second, few, none, unknown = network.quantiles.scale.tolist()
    assert second / first > 4
    assert first < few < 1  # of two windows little is known
    assert none == unknown == 1
