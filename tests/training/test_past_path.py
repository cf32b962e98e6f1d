"""The closed form of past covariates: against a ridge in NumPy, on series that they lead, and on noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.model.covariates import Column
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.closed_form import initialise
from titans_ts.training.past_path import solve_past_path
from titans_ts.training.relative import naive_errors
from titans_ts.training.ridge import RIDGE_UNVALIDATED
from titans_ts.windows.windows import Windows, on_device

LOOKBACK, HORIZON, ROWS = 8, 3, 400
COLUMNS = (Column("past", 0, 0.0, 1.0),)


def led(lead: int = 3, share: float = 1.0, rows: int = ROWS) -> SeriesData[np.ndarray]:
    """A series of noise and of what its covariate was `lead` steps before, at mean 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows + lead)
    y = share * x[:rows] + 0.1 * rng.normal(size=rows)
    y = (y - y.mean()) / y.std()
    return SeriesData(y, np.array([rows]), np.array([0]), covariates=x[lead:, None])


def windows_of(data: SeriesData[np.ndarray], first: int, last: int) -> Windows:
    on = on_device(data, torch.device("cpu"), COLUMNS)
    where = dict(first=np.array([first]), last=np.array([last]))
    return Windows(on, lookback=LOOKBACK, horizon=HORIZON, **where)


def network(covariates: tuple[Column, ...] = COLUMNS, linear_path: bool = False) -> SimbaForecaster:
    shape = dict(lookback=LOOKBACK, horizon=HORIZON, d_model=8, n_layers=1, n_heads=2, mixer="none")
    config = ModelConfig(**shape, scale_windows=False, linear_path=linear_path, covariates=covariates)  # type: ignore[arg-type]
    return SimbaForecaster(config).eval()


def split(data: SeriesData[np.ndarray]) -> tuple[Windows, Windows]:
    cut = int(0.75 * len(data.values))
    return windows_of(data, LOOKBACK, cut), windows_of(data, cut, len(data.values))


def test_weights_are_those_of_a_ridge() -> None:
    data = led()
    train, _ = split(data)
    model = network()
    _, weight = solve_past_path(model, train, None, naive_errors(train))
    (batch,) = train.batches(10**6)
    assert batch.covariates is not None
    x = batch.covariates[..., 0].double().numpy()
    past = batch.past.double().numpy()
    y = batch.future.double().numpy() - past.mean(1, keepdims=True)
    scale = np.sqrt((x**2).sum(0))
    z = x / scale
    moments = z.T @ z
    strength = RIDGE_UNVALIDATED * np.trace(moments) / len(moments)
    expected = np.linalg.solve(moments + strength * np.eye(LOOKBACK), z.T @ y) / scale[:, None]
    assert weight.numpy() == pytest.approx(expected, abs=1e-5)


def test_a_column_that_leads_is_found_at_its_lag() -> None:
    train, validation = split(led(lead=3))
    error, weight = solve_past_path(network(), train, validation, naive_errors(validation))
    assert error < 0.1
    assert np.abs(weight[-3:].numpy()).argmax(0).tolist() == [0, 1, 2]  # three steps before each step ahead


def test_noise_has_hardly_any_weight() -> None:
    data = led()
    noise = np.random.default_rng(1).normal(size=(ROWS, 1))
    train, validation = split(replace(data, covariates=noise))
    naive = naive_errors(validation)
    _, weight = solve_past_path(network(), train, validation, naive)
    assert weight.abs().max() < 0.1


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_constant_column_changes_no_error(value: float) -> None:
    train, validation = split(replace(led(), covariates=np.full((ROWS, 1), value)))
    naive, model = naive_errors(validation), network()
    error, weight = solve_past_path(model, train, validation, naive)
    assert torch.isfinite(weight).all()
    assert weight.sum(0).abs().max() < 0.2
    assert error == pytest.approx(1.0, abs=0.3)


def test_the_initialisation_sets_it_after_the_linear_path() -> None:
    train, validation = split(led())
    naive, model, plain = naive_errors(validation), network(linear_path=True), network((), linear_path=True)
    error = initialise(model, train, validation, naive)
    without = initialise(plain, *split(led()), naive)
    assert error < 0.2 * without
    assert model.linear is not None
    assert plain.linear is not None
    assert torch.equal(model.linear.weight, plain.linear.weight)


def test_rows_after_an_origin_have_no_say_in_its_forecast() -> None:
    data = led()
    assert data.covariates is not None
    train, validation = split(data)
    model = network(linear_path=True)
    initialise(model, train, validation, naive_errors(validation))
    expected = model(windows_of(data, 300, 310).batch(torch.tensor([0])))
    data.covariates[300:] = 1e6
    assert torch.equal(model(windows_of(data, 300, 310).batch(torch.tensor([0]))), expected)
