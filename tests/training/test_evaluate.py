"""The error of a network over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.evaluate import evaluate
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON, ROWS = 16, 4, 57


def make(**changes: Any) -> SimbaForecaster:
    torch.manual_seed(0)
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "patch_len": 4, "stride": 4, "cycle": 5}
    size = {"d_model": 8, "n_layers": 1, "n_heads": 2, "mixer": "none", "feature_mixer": "mlp"}
    network = SimbaForecaster(ModelConfig(**shape | size | changes)).eval()
    with torch.no_grad():
        network.head.project.weight.normal_()
    return network


def windows_of(observed: np.ndarray | None = None) -> Windows:
    values = torch.from_numpy(3 * np.random.default_rng(0).normal(size=ROWS)).float()
    data = SeriesData(values, np.array([ROWS]), np.array([0]), observed)
    return Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.array([LOOKBACK]), last=np.array([ROWS]))


def errors_of(network: SimbaForecaster, windows: Windows) -> np.ndarray:
    """(windows, horizon), in float64."""
    (batch,) = windows.batches(10**6)
    with torch.no_grad():
        return (network(batch)[..., 0] - batch.future).double().numpy()


@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        ("mse", lambda error: error**2),
        ("mae", abs),
        ("huber", lambda error: np.where(abs(error) < 1, error**2 / 2, abs(error) - 0.5)),
    ],
)
def test_evaluate_is_the_mean_over_every_window(loss: str, by_hand: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titans_ts.training.evaluate.EVALUATION_BATCH", 11)
    network, windows = make(), windows_of()
    assert len(windows) % 11, "the last batch must be partial"
    errors = by_hand(errors_of(network, windows))
    assert evaluate(network, windows, loss) == pytest.approx(errors.mean(), rel=1e-6)  # float32
    assert evaluate(network, windows, loss, most=9) == pytest.approx(errors[::5].mean(), rel=1e-6)


def test_rows_that_were_filled_in_do_not_count() -> None:
    observed = np.arange(ROWS) % 7 != 3
    network, windows = make(), windows_of(observed)
    (batch,) = windows.batches(10**6)
    assert batch.observed_mask is not None
    assert not batch.observed_mask.all()
    counted = errors_of(network, windows)[batch.observed_mask.numpy()]
    assert evaluate(network, windows) == pytest.approx((counted**2).mean(), rel=1e-6)  # float32


def test_evaluate_leaves_dropout_out_and_the_mode_as_it_was() -> None:
    network, windows = make(dropout=0.5), windows_of()
    expected = evaluate(network, windows)
    assert evaluate(network.train(), windows) == expected
    assert network.training
