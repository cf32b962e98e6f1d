"""FittedModel: the one object between a fit and all that is asked of it afterwards."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.fitted import FittedModel
from titans_ts.fitting import FitOptions, fit_model
from titans_ts.model import ModelConfig
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.training.config import TrainConfig
from titans_ts.training.history import Evaluation
from titans_ts.windows.splits import backtest_folds

LOOKBACK, HORIZON, ROWS = 12, 4, 120


def panel_of(rows: int = ROWS, first: int = 0, names: str = "ab") -> Panel:
    """Waves of other sizes around other means; hours from 2024 on."""
    t = np.arange(first, first + rows)
    index = pd.date_range("2024-01-01", periods=first + rows, freq="h")[first:]
    waves = {name: 10 * i + (i + 1) * np.sin(t / 3 + i) for i, name in enumerate(names)}
    return read_table(pd.DataFrame(waves, index=index), min_rows=1)


def fit(panel: Panel, seen: list[Evaluation] | None = None, asked: list[int] | None = None) -> FittedModel:
    config = ModelConfig(
        lookback=LOOKBACK, horizon=HORIZON, n_series=panel.n_series, d_model=8, n_layers=1, mixer="none"
    )

    def train_config(n_windows: int) -> TrainConfig:
        if asked is not None:
            asked.append(n_windows)
        return TrainConfig(max_epochs=1, batch_size=32, random_state=3)

    (fold,) = backtest_folds(panel, HORIZON, val_size=20)
    options = FitOptions(train_config=train_config, device=torch.device("cpu"))
    return fit_model(panel, fold, config, options, None if seen is None else seen.append)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    return fit(panel_of())


def test_training_is_set_for_its_windows_and_every_evaluation_is_reported() -> None:
    seen, asked = list[Evaluation](), list[int]()
    model = fit(panel_of(), seen, asked)
    assert asked == [2 * (100 - LOOKBACK - HORIZON + 1)]
    assert seen == model.history.evaluations
    assert len(seen) == 5
    assert seen[0].validation_loss < 0.01  # a sine is a linear recurrence, which least squares finds


def test_it_is_frozen_and_keeps_the_rows_that_a_forecast_reads(fitted: FittedModel) -> None:
    with pytest.raises(FrozenInstanceError):
        fitted.panel = panel_of()  # type: ignore[misc]
    assert fitted.panel.data.lengths.tolist() == [LOOKBACK, LOOKBACK]
    assert np.array_equal(fitted.panel.data.values, panel_of().tail(LOOKBACK).data.values)


def test_the_scale_is_that_of_the_train_rows(fitted: FittedModel) -> None:
    values = panel_of().data.values.reshape(2, ROWS)[:, :100]
    np.testing.assert_allclose(fitted.scaler.mean, values.mean(1))
    np.testing.assert_allclose(fitted.scaler.std, values.std(1))


def test_a_forecast_goes_on_from_the_rows_fitted_or_from_others(fitted: FittedModel) -> None:
    forecast = fitted.forecast(6)
    assert forecast.shape == (2, 6, 1)
    truth = panel_of(6, ROWS).data.values.reshape(2, 6, 1)
    np.testing.assert_allclose(forecast, truth, rtol=0, atol=0.2)  # of waves of sizes 1 and 2
    later = fitted.forecast(6, panel_of(30, ROWS - 24), np.array([0, 1]))
    np.testing.assert_allclose(later, panel_of(6, ROWS + 6).data.values.reshape(2, 6, 1), rtol=0, atol=0.2)
    swapped = fitted.forecast(6, fitted.panel.take(np.array([1, 0])), np.array([1, 0]))
    np.testing.assert_allclose(swapped, forecast[::-1], rtol=1e-6)


def test_squared_errors_are_of_each_row_over_the_scale_of_its_series(fitted: FittedModel) -> None:
    later = panel_of(5, ROWS + 2)
    found = fitted.squared_errors(later, np.array([0, 1]))
    expected = (later.data.values.reshape(2, 5) - fitted.forecast(7)[:, 2:, 0]) / fitted.scaler.std[:, None]
    np.testing.assert_allclose(found, expected.ravel() ** 2, rtol=1e-6)


def test_rows_that_were_fitted_are_not_scored(fitted: FittedModel) -> None:
    with pytest.raises(ValueError, match="must come after the rows fitted, but series 'a' overlaps them by 3"):
        fitted.squared_errors(panel_of(5, ROWS - 3), np.array([0, 1]))


def test_rows_far_beyond_those_fitted_are_not_forecast(fitted: FittedModel) -> None:
    with pytest.raises(ValueError, match=r"at most 100000 steps after the rows fitted, but series 'a' begins 100001"):
        fitted.squared_errors(panel_of(5, ROWS + 100_001), np.array([0, 1]))
