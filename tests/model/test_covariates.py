"""Covariates in the network: what is read, the path of past ones against plain products, tokens that begin empty."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.model.covariates import LAGS, Column, CovariateEmbedding, CovariateInputs, PastPath, standardised
from titans_ts.model.layers import PatchEmbedding

NUMBER, KIND = Column("past", 0, 5.0, 2.0), Column("future", 3, 0.0, 1.0)
LOOKBACK, HORIZON = 32, 4


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def network(**changes: Any) -> SimbaForecaster:
    shape: dict[str, Any] = {"lookback": LOOKBACK, "horizon": HORIZON, "d_model": 8, "n_layers": 1, "n_heads": 2}
    torch.manual_seed(0)
    made = SimbaForecaster(ModelConfig(**shape | {"mixer": "none", "covariates": (NUMBER, KIND)} | changes)).eval()
    torch.nn.init.normal_(made.head.project.weight if hasattr(made.head, "project") else next(made.head.parameters()))
    return made


def batch_of(samples: int = 3, covariates: Tensor | None = None) -> Batch:
    number = normal(samples, LOOKBACK, 1, seed=1)
    kind = torch.arange(samples * LOOKBACK).view(samples, LOOKBACK, 1) % 3
    covariates = torch.cat([number, kind], dim=2) if covariates is None else covariates
    zeros = torch.zeros(samples, dtype=torch.long)
    return Batch(normal(samples, LOOKBACK), normal(samples, HORIZON), zeros, zeros, covariates=covariates)


def test_numbers_are_standardised_and_categories_kept() -> None:
    found = standardised(np.array([[7.0, 2], [5, 0], [3, 1]]), (NUMBER, KIND))
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2], [0, 0], [-1, 1]]


def test_large_numbers_that_vary_little_are_told_apart() -> None:
    values = 1e9 + np.arange(4.0)[:, None]
    assert standardised(values, (Column("past", 0, 1e9, 1.0),))[:, 0].tolist() == [0, 1, 2, 3]


def test_categories_become_dummies() -> None:
    inputs = CovariateInputs((NUMBER, KIND))
    found = inputs(torch.tensor([[[0.5, 2.0], [-1.0, 0.0]]]))
    assert inputs.size == 4
    assert inputs.past == [0]
    assert found.tolist() == [[[0.5, 0, 0, 1], [-1, 1, 0, 0]]]


@pytest.mark.parametrize("lookback", [1, 5, LAGS, LAGS + 1, 100])
def test_the_past_path_reads_last_steps_one_by_one_and_means_before(lookback: int) -> None:
    path, past = PastPath(2, lookback, HORIZON), normal(3, lookback, 2)
    inputs = path.inputs(past)
    assert inputs.shape == (3, path.n_inputs)
    last = min(LAGS, lookback)
    assert torch.equal(inputs[:, -2 * last :], past[:, lookback - last :].flatten(1))
    for i, (near, far) in enumerate(path.spans):
        mean = past[:, lookback - far : lookback - near].mean(1)
        torch.testing.assert_close(inputs[:, 2 * i : 2 * i + 2], mean)
    assert (path(inputs) == 0).all()
    path.weight.copy_(normal(path.n_inputs, HORIZON, seed=1))
    torch.testing.assert_close(path(inputs), inputs @ path.weight)


def test_the_spans_before_the_last_steps_reach_the_first() -> None:
    path = PastPath(1, 200, HORIZON)
    assert max(far for _, far in path.spans) >= 100


def test_tokens_say_nothing_of_covariates_at_first() -> None:
    patches = PatchEmbedding(16, 8, 8)
    embed, inputs = CovariateEmbedding(4, patches, 8), normal(3, LOOKBACK, 4)
    found = embed(inputs)
    assert found.shape == patches(normal(3, LOOKBACK)).shape
    assert (found == 0).all()


def test_a_token_reads_the_covariates_of_its_patch_alone() -> None:
    embed, inputs = CovariateEmbedding(2, PatchEmbedding(16, 8, 8), 8), normal(1, LOOKBACK, 2)
    torch.nn.init.normal_(embed.project.weight)
    changed = inputs.clone()
    changed[:, :8] += 1  # of the first patch, steps 0 to 15
    same = (embed(inputs) == embed(changed)).all(-1)[0].tolist()
    assert same == [False, *[True] * (len(same) - 1)]


def test_a_new_network_forecasts_as_one_without_covariates() -> None:
    plain = network(covariates=())
    found = network()
    found.load_state_dict(plain.state_dict(), strict=False)
    batch = batch_of()
    assert torch.equal(found(batch), plain(batch._replace(covariates=None)))


def test_past_columns_reach_the_forecast_through_the_path() -> None:
    model, batch = network(), batch_of()
    assert model.past_path is not None
    before = model(batch)
    model.past_path.weight.copy_(normal(model.past_path.n_inputs, HORIZON, seed=2))
    added = model.past_path(model.past_inputs(batch))
    torch.testing.assert_close(model(batch)[..., 0], before[..., 0] + added)


def test_gradients_reach_the_embedding_of_covariates() -> None:
    model = network().train()
    model(batch_of()).square().sum().backward()
    assert model.embed_covariates is not None
    grad = model.embed_covariates.project.weight.grad
    assert grad is not None
    assert grad.abs().sum() > 0


@pytest.mark.parametrize("covariates", [None, torch.zeros(3, LOOKBACK, 1), torch.zeros(3, LOOKBACK - 1, 2)])
def test_covariates_of_another_shape_are_refused(covariates: Tensor | None) -> None:
    batch = batch_of()._replace(covariates=covariates)
    with pytest.raises(ValueError, match=r"`covariates` must have shape \(samples, lookback, columns\) = \(3, 32, 2\)"):
        network()(batch)


def test_without_past_columns_there_is_no_path() -> None:
    model = network(covariates=(KIND,))
    assert model.past_path is None
    with pytest.raises(ValueError, match="`covariates` must have past columns"):
        model.past_inputs(batch_of())
