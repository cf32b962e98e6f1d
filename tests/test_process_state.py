"""What the caller has set for its process or thread neither counts nor changes: modes, defaults, random states."""

from __future__ import annotations

import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from joblib import Parallel, delayed
from optuna.distributions import FloatDistribution

from titans_ts import TitansForecaster, TitansSearchCV

ROWS = 120


def tiny(**parameters: Any) -> TitansForecaster:
    size = dict(horizon=6, lookback=24, d_model=16, n_layers=1, n_heads=2)
    how = dict(max_epochs=1, dropout=0.2, learning_rate=0.01, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**size, **how, **parameters})


def waves(names: str = "ab") -> pd.DataFrame:
    t, noise = np.arange(ROWS), np.random.default_rng(0).normal(size=(ROWS, len(names)))
    index = pd.date_range("2024-01-01", periods=ROWS, freq="h")
    columns = {name: np.sin(2 * np.pi * t / 24 + ord(name)) for name in names}
    return pd.DataFrame(columns, index=index) + 0.3 * noise


def numbers(model: TitansForecaster) -> list[np.ndarray]:
    """All that a fit has drawn and learned, and what it forecasts of series fitted and of another."""
    weights = [value.numpy() for value in model.network_.state_dict().values()]
    losses = np.array([evaluation.train_loss for evaluation in model.history_.evaluations])
    return [*weights, losses, model.predict(8).to_numpy(), model.predict(8, waves("z")).to_numpy()]


def same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    pairs = zip(a, b, strict=True)
    return all(x.dtype == y.dtype and np.array_equal(x, y, equal_nan=True) for x, y in pairs)


def process_state() -> tuple[Any, ...]:
    """All of it that torch, NumPy and Python would let a library change."""
    return (
        torch.get_rng_state().tolist(),
        repr(np.random.get_state()),  # noqa: NPY002 - the one that must not be touched
        random.getstate(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_autocast_enabled("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        torch.distributed.is_initialized(),
        list(warnings.filters),
        dict(os.environ),
    )


@contextmanager
def setting(change: Callable[[Any], None], new: Any, old: Any) -> Iterator[None]:
    change(new)
    try:
        yield
    finally:
        change(old)


STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "float64": lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    "default device": lambda: setting(torch.set_default_device, "meta", None),
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "deterministic": lambda: setting(torch.use_deterministic_algorithms, True, False),
    "seed": lambda: setting(torch.manual_seed, 99, 0),
}


@pytest.fixture(scope="module")
def alone() -> list[np.ndarray]:
    return numbers(tiny().fit(waves()))


@pytest.mark.parametrize("state", STATES)
def test_a_fit_is_the_same_in_every_state_and_leaves_it(state: str, alone: list[np.ndarray]) -> None:  # case 53
    with STATES[state]():
        before = process_state()
        model = tiny().fit(waves())
        assert process_state() == before
    assert same(numbers(model), alone)
    assert all(not value.is_inference() for value in model.network_.state_dict().values())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mixer", ["memory", "attention"])
def test_a_forecast_is_the_same_in_every_state_and_leaves_it(mixer: str, state: str) -> None:
    model = tiny(mixer=mixer).fit(waves())
    expected = numbers(model)
    with STATES[state]():
        before = process_state()
        found = numbers(model)
        score = model.score(waves()[-24:].set_axis(pd.date_range("2024-01-06", periods=24, freq="h")))
        assert process_state() == before
    assert same(found, expected)
    assert score == model.score(waves()[-24:].set_axis(pd.date_range("2024-01-06", periods=24, freq="h")))


@pytest.mark.parametrize("state", STATES)
def test_a_saved_model_is_the_same_in_every_state_and_leaves_it(
    state: str, alone: list[np.ndarray], tmp_path: Path
) -> None:
    model = tiny().fit(waves())
    with STATES[state]():
        before = process_state()
        model.save(tmp_path / "model")
        loaded = TitansForecaster.load(tmp_path / "model")
        assert process_state() == before
    assert same(numbers(loaded), alone)
    assert same(numbers(TitansForecaster.load(tmp_path / "model").fit(waves())), alone)


@pytest.mark.parametrize(
    "parameters",
    [
        dict(mixer="attention"),
        dict(mixer="mamba"),
        dict(memory_depth=1, linear_path="across"),
        dict(linear_path=False, cycle=0),
        dict(linear_path="per_series", val_size=0),
        dict(precision="bfloat16"),
    ],
)
def test_every_network_is_the_same_where_the_default_dtype_and_device_are_others(parameters: dict[str, Any]) -> None:
    expected = numbers(tiny(**parameters).fit(waves()))
    with STATES["float64"](), STATES["default device"]():
        model = tiny(**parameters).fit(waves())
        found = numbers(model)
    assert same(found, expected)


def test_fits_side_by_side_in_threads_equal_a_fit_alone(alone: list[np.ndarray]) -> None:  # case 40
    before = process_state()
    tasks = [delayed(lambda seed=seed: numbers(tiny(random_state=seed).fit(waves())))() for seed in (0, 1, 0, 1, 0, 0)]
    found = Parallel(2, backend="threading")(tasks)
    assert process_state() == before
    assert [same(numbers_, alone) for numbers_ in found] == [True, False, True, False, True, True]
    assert same(found[1], found[3])


def test_fits_beside_a_thread_that_draws_leave_its_numbers_alone(alone: list[np.ndarray]) -> None:
    torch.manual_seed(5)
    expected = torch.rand(2000)
    torch.manual_seed(5)
    drawn, done = list[torch.Tensor](), threading.Event()

    def draw() -> None:
        while not done.is_set() and len(drawn) < 2000:
            drawn.append(torch.rand(1))
            done.wait(1e-4)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        found = numbers(tiny().fit(waves()))
    finally:
        done.set()
        thread.join()
    assert same(found, alone)
    assert torch.equal(torch.cat(drawn), expected[: len(drawn)])


def test_forecasts_in_many_threads_at_once_are_each_their_own() -> None:
    model = tiny().fit(waves())
    tables = [waves(name) for name in "pqrstuvw"]  # of series with profiles of their own, which the model never saw
    expected = [model.predict(30, table).to_numpy() for table in tables]
    barrier = threading.Barrier(4)

    def forecast(i: int) -> np.ndarray:
        if i < 4:
            barrier.wait(60)
        return model.predict(30, tables[i % 8]).to_numpy()

    found = Parallel(4, backend="threading")(delayed(forecast)(i) for i in range(40))
    assert all(np.array_equal(forecast, expected[i % 8]) for i, forecast in enumerate(found))


def test_searches_side_by_side_in_threads_equal_one_alone_and_leave_the_process_as_it_was(tmp_path: Path) -> None:
    def scores(name: str) -> list[float]:
        space, how = {"dropout": FloatDistribution(0.0, 0.5)}, dict(n_trials=2, random_state=0, refit=False)
        found = TitansSearchCV(tiny(), space, storage=tmp_path / name, **how).fit(waves())
        return [trial.value for trial in found.study_.trials]

    expected = scores("alone.db")
    before = process_state()
    found = Parallel(3, backend="threading")(delayed(scores)(f"{i}.db") for i in range(3))
    assert process_state() == before
    assert found == [expected] * 3


def test_a_callback_draws_the_callers_numbers() -> None:
    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(3)
    drawn = list[torch.Tensor]()
    tiny().fit(waves(), on_evaluation=lambda _: drawn.append(torch.rand(1)))
    assert len(drawn) == 5
    assert torch.equal(torch.cat(drawn), expected)
