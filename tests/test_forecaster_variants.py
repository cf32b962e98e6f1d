"""The Titans family through the estimator: every variant and every switch of the memory, set, searched and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from sklearn.base import clone

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.model.attention import WindowAttention
from titans_ts.model.einfft import EinFFT
from titans_ts.model.memory import NeuralMemory
from titans_ts.model.simba import VARIANTS, Perceptron

SIZE = dict(horizon=6, lookback=24, patch_len=4, stride=2, d_model=8, n_layers=1, n_heads=2, chunk_size=4)
HOW = dict(combine=False, context="window", linear_path=True, random_state=0, device="cpu", verbose=0, max_epochs=1)
SWITCHES: dict[str, tuple[Any, ...]] = {
    "memory_conv": (True, False),
    "memory_momentum": (True, False),
    "memory_forgetting": (True, False),
    "memory_writes": (True, False),
    "memory_gates": ("token", "chunk"),
    "n_persistent": (4, 0),
    "feature_mixer": ("einfft", "mlp"),
    "attention_window": (16, 3),
}


def tiny(**parameters: Any) -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW, **parameters})


def waves(rows: int = 160) -> pd.DataFrame:
    wave = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None]
    noise = np.random.default_rng(0).normal(size=(rows, 2)).cumsum(0)
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame(wave + 0.1 * noise, index=index, columns=["a", "b"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_learns_is_saved_and_forecasts_as_before(variant: str, tmp_path: Path) -> None:
    model = tiny(variant=variant, attention_window=4).fit(waves())
    (block,) = model.network_.blocks
    assert isinstance(block.mixer, VARIANTS[variant])
    assert model.history_.evaluations[-1].step > 0, "it was trained"
    forecast = model.predict(9)
    assert np.isfinite(forecast.to_numpy()).all()

    model.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert (loaded.variant, loaded.attention_window) == (variant, 4)
    pd.testing.assert_frame_equal(loaded.predict(9), forecast)
    pd.testing.assert_frame_equal(clone(model).fit(waves()).predict(9), forecast)


def test_a_short_series_that_is_padded_is_forecast_by_every_variant() -> None:
    rows = waves().assign(c=waves()["a"].where(np.arange(160) >= 130))
    for variant in VARIANTS:
        forecast = tiny(variant=variant, attention_window=4, missing="ffill").fit(rows).predict()
        assert np.isfinite(forecast.to_numpy()).all(), variant


@pytest.mark.parametrize(("name", "values"), SWITCHES.items())
def test_every_switch_reaches_the_network(name: str, values: tuple[Any, ...]) -> None:
    assert getattr(TitansForecaster(), name) == values[0], "the default"
    for value in values:
        network = tiny(**{name: value}, variant="mag", max_epochs=0).fit(waves()).network_
        assert getattr(network.config, name) == value
    layer = network.blocks[0].mixer
    reached = {
        "memory_conv": layer.memory.conv is None,
        "memory_momentum": not layer.memory.momentum,
        "memory_forgetting": not layer.memory.forgetting,
        "memory_writes": not layer.memory.writes,
        "memory_gates": layer.memory.gates_per_chunk,
        "n_persistent": len(layer.persistent) == 0,
        "feature_mixer": isinstance(network.blocks[0].features, Perceptron),
        "attention_window": layer.attend.window == 3,
    }
    assert [switch for switch, is_set in reached.items() if is_set] == [name]


def test_attention_to_a_window_stands_in_the_memorys_place() -> None:
    network = tiny(mixer="window_attention", max_epochs=0).fit(waves()).network_
    assert isinstance(network.blocks[0].mixer, WindowAttention)
    network = tiny(max_epochs=0).fit(waves()).network_
    assert isinstance(network.blocks[0].mixer, NeuralMemory)
    assert isinstance(network.blocks[0].features, EinFFT)


def test_a_search_may_choose_all_of_it() -> None:
    space = {name: CategoricalDistribution(values) for name, values in SWITCHES.items() if name != "n_persistent"}
    space |= {"n_persistent": IntDistribution(0, 4), "variant": CategoricalDistribution(list(VARIANTS))}
    search = TitansSearchCV(tiny(), space, n_trials=2, random_state=0).fit(waves())
    assert set(search.best_params_) == set(space)
    assert all(trial.state.name == "COMPLETE" for trial in search.study_.trials)
    for name, value in search.best_params_.items():
        assert getattr(search.best_estimator_.network_.config, name) == value


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"variant": "mat"}, r"`variant` must be one of \('lmm', 'mac', 'mag', 'mal'\), got 'mat'"),
        ({"attention_window": 0}, "`attention_window` must be an integer >= 1, got 0"),
        ({"memory_writes": "no"}, "`memory_writes` must be True or False, got 'no'"),
        ({"memory_gates": "step"}, r"`memory_gates` must be one of \('token', 'chunk'\), got 'step'"),
        ({"n_persistent": -1}, "`n_persistent` must be an integer >= 0, got -1"),
        ({"variant": "mac", "n_heads": 8}, "`d_model` / `n_heads` must be even for attention, got 1"),
    ],
)
def test_what_is_out_of_range_is_named(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tiny(**parameters).fit(waves())
