"""The errors by which one training chooses its weights: of all series, and of the halves that choose and confirm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training import validation as module
from titans_ts.training.evaluate import evaluate
from titans_ts.training.relative import naive_errors
from titans_ts.training.validation import LEAST_WINDOWS, TIMED_WINDOWS, Validation
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON, ROWS = 8, 2, 30


def windows_of(n_series: int, first: int = 20) -> Windows:
    values = np.random.default_rng(0).normal(size=(n_series, ROWS)).cumsum(1)
    lengths = np.full(n_series, ROWS)
    data = SeriesData(torch.from_numpy(values.ravel()).float(), lengths, np.zeros_like(lengths))
    last = np.where(np.arange(n_series) == 1, first, ROWS)  # the second series has no window
    return Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.full(n_series, first), last=last)


def network() -> SimbaForecaster:
    torch.manual_seed(0)
    made = SimbaForecaster(ModelConfig(lookback=LOOKBACK, horizon=HORIZON, d_model=8, n_layers=1, n_heads=2))
    torch.nn.init.normal_(made.head.project.weight, std=0.1)
    return made.eval()


def test_every_other_series_that_has_windows_is_held_back() -> None:
    windows, model = windows_of(6), network()
    found = Validation(windows, "mse", 1000, holds_back=True).errors(model)
    (batch,) = windows.batches(1000)
    with torch.no_grad():
        squared = (model(batch)[..., 0] - batch.future).square().double().mean(1)
    naive = naive_errors(windows, "mse")
    ratios = {}
    for series in (0, 2, 3, 4, 5):
        ratio = (squared[batch.series == series].mean() + 1e-4) / (naive[series] + 1e-4)
        ratios[series] = (ratio / (1 + ratio / 4)).item()
    assert found.loss == evaluate(model, windows)
    assert found.relative == pytest.approx(np.mean(list(ratios.values())))
    assert found.choosing == pytest.approx(np.mean([ratios[i] for i in (0, 3, 5)]))
    assert found.held_back == pytest.approx(np.mean([ratios[i] for i in (2, 4)]))


def test_where_none_are_held_back_there_are_no_halves() -> None:
    found = Validation(windows_of(6), "mse", 1000).errors(network())
    assert math.isfinite(found.relative)
    assert math.isnan(found.choosing)
    assert math.isnan(found.held_back)


def test_series_with_windows_are_counted() -> None:
    assert Validation(windows_of(6), "mse", 1000).n_series == 5
    nothing = Validation(None, "mse", 1000, holds_back=True)
    assert nothing.n_series == 0
    assert all(math.isnan(error) for error in nothing.errors(network()))


def test_an_evaluation_takes_no_more_windows_than_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    windows, model = windows_of(400), network()
    assert len(windows) > 8 * LEAST_WINDOWS
    batch = next(windows.batches(TIMED_WINDOWS, TIMED_WINDOWS))
    times = iter([0.0, float(batch.n_samples) / LEAST_WINDOWS] * 3)  # 256 windows take a second
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(times))
    for seconds, most in ((1e6, 10**6), (40.0, 4 * LEAST_WINDOWS), (-1.0, LEAST_WINDOWS)):
        validation = Validation(windows, "mse", 10**6)
        validation.fit_into(seconds, model)
        assert validation.most == most
        assert validation.seconds == pytest.approx(validation.n_windows / LEAST_WINDOWS)
    monkeypatch.undo()
    assert validation.errors(model).loss == evaluate(model, windows, most=LEAST_WINDOWS)
