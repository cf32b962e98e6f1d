"""Parameters of an estimator as configurations."""

from __future__ import annotations

import pytest
import torch

from titans_ts import TitansForecaster
from titans_ts.defaults import Defaults
from titans_ts.settings import chooses_path, model_config, train_config

CPU = torch.device("cpu")
HOURS = Defaults(cycle=24, lookback=336, horizon=24)


def test_what_is_none_is_filled_in_from_the_defaults_and_what_is_given_stays() -> None:
    config = model_config(TitansForecaster(horizon=7, d_model=32), 3, HOURS)
    assert (config.horizon, config.lookback, config.cycle, config.d_model, config.n_series) == (7, 336, 24, 32, 3)


@pytest.mark.parametrize(("n_series", "harmonics"), [(40, 2), (41, 0)])
def test_cross_series_weights_vary_with_the_season_where_series_are_few(n_series: int, harmonics: int) -> None:
    config = model_config(TitansForecaster(linear_path="across"), n_series, HOURS)
    assert config.linear_cross_series
    assert config.linear_harmonics == harmonics


def test_outputs_and_levels_are_those_of_the_loss() -> None:
    config = model_config(TitansForecaster(loss="quantile"), 1, HOURS)
    assert config.levels is not None
    assert config.n_outputs == len(config.levels) == 13


def test_epochs_grow_where_windows_are_few_and_precision_follows_the_device() -> None:
    forecaster = TitansForecaster(linear_path=False)
    few, many = (train_config(forecaster, n, 0, CPU, None) for n in (160, 100_000))
    assert (few.batch_size, few.max_epochs) == (16, 30)
    assert (many.batch_size, many.max_epochs) == (256, 3)
    assert few.precision == "float32"
    assert train_config(forecaster, 160, 0, torch.device("cuda"), None).precision == "bfloat16"


@pytest.mark.parametrize(("path", "chooses"), [("auto", True), (True, False), ("per_series", False)])
def test_auto_alone_chooses_the_path(path: bool | str, chooses: bool) -> None:
    assert chooses_path(TitansForecaster(linear_path=path)) is chooses
