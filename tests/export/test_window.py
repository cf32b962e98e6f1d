"""The module that is exported, in PyTorch: what it makes of a window is what `predict` says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from titans_ts import TitansForecaster
from titans_ts.export.window import WindowForecast

from .small_models import HOW, SIZE, fitted, long, waves

NEAR = 1e-5  # of the scale of the series: float32, in another order


def assert_as_predicted(model: TitansForecaster, df: Any, scale: np.ndarray | None = None) -> None:
    tensors = {name: torch.from_numpy(array) for name, array in model.export_inputs(df).items()}
    module = WindowForecast(model.fitted_)
    assert {name: tuple(x.shape[1:]) for name, x in tensors.items()} == {
        name: shape[1:] for name, (_, shape) in module.inputs().items()
    }
    found = module(**tensors)
    expected = model.fitted_.forecast(6, *model._context(df))
    scale = model.scaler_.scale[model._context(df)[1]] if scale is None else scale
    assert (np.abs(found[-1].reshape(expected.shape).numpy() - expected) / scale[:, None, None]).max() < NEAR
    point = model.fitted_.network.config.n_outputs // 2
    assert torch.equal(found[0], found[-1].reshape(expected.shape)[..., point])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        dict(variant="mac", attention_window=3, memory_depth=1),
        dict(memory_gates="chunk"),
        dict(mixer="attention", cycle=0),
        dict(loss="quantile", linear_path="per_series", lower=1e6 - 20, upper={"b": 1e6}),
        dict(linear_path=False),
    ],
    ids=str,
)
def test_the_module_forecasts_as_predict(parameters: dict[str, Any]) -> None:
    df = waves(160)
    model = fitted(df, **parameters)
    for rows in (160, 130):
        assert_as_predicted(model, df[:rows])
    assert_as_predicted(model, df[["c", "a"]][:11])  # padded


def test_series_that_read_one_another() -> None:
    df = waves(160)
    model = fitted(df, linear_path="across")
    assert model.network_.config.linear_cross_series
    model.network_.norm.scale = True
    for table in (df, df[:100], df[["b"]], df[:20]):
        assert_as_predicted(model, table)


def test_past_covariates() -> None:
    df = long(waves(160, "a")).drop(columns="unique_id")
    df["load"] = 1e9 + df.y.shift(3, fill_value=1e6)
    df["kind"] = np.where(np.arange(160) % 5 < 2, "left", "right")
    model = fitted(df, past_cols=["load", "kind"])
    for rows in (160, 150, 14):
        assert_as_predicted(model, df[:rows])


def test_static_and_future_covariates_that_have_no_effect_ahead() -> None:
    df = long(waves(160))
    df["noise"], df["shop"] = np.random.default_rng(3).normal(size=len(df)), df.unique_id.replace("c", "a")
    model = fitted(df, future_cols=["noise"], static_cols=["shop"], calendar=["weekday"])
    assert model.fitted_.regression is None
    module = WindowForecast(model.fitted_)
    tensors = {name: torch.from_numpy(array) for name, array in model.export_inputs(df).items()}
    error = np.abs(module(**tensors)[0].numpy() - model.fitted_.forecast(6)[..., 0])
    assert (error / model.scaler_.scale[:, None]).max() < NEAR


def test_a_series_that_did_not_vary_is_its_value_or_unknown() -> None:
    df = waves().assign(b=7.0)
    model = TitansForecaster(**{**SIZE, **HOW, "lower": 5.0, "upper": {"b": 6.5}}).fit(df)
    assert_as_predicted(model, df)
    tensors = {name: torch.from_numpy(array) for name, array in model.export_inputs(df).items()}
    tensors["past"][1, 3] = 8
    (forecast,) = WindowForecast(model.fitted_)(**tensors)
    assert forecast.isnan().all(1).tolist() == [False, True, False]


def test_padding_may_be_anything() -> None:
    model = fitted(waves())
    tensors = {name: torch.from_numpy(array) for name, array in model.export_inputs(waves()[:10]).items()}
    module = WindowForecast(model.fitted_)
    expected = module(**tensors)[0]
    tensors["past"][~tensors["mask"]] = torch.nan
    assert torch.equal(module(**tensors)[0], expected)


def test_the_fitted_network_stays_as_it_is() -> None:
    model = TitansForecaster(**{**SIZE, **HOW}).fit(waves())
    before = model.predict()
    WindowForecast(model.fitted_)
    assert all(weight.requires_grad for weight in model.network_.parameters())
    assert model.predict().equals(before)
    assert "deep" not in vars(model.network_)
