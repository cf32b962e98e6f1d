"""The error by which validation chooses: naive errors by hand, and what can and cannot decide."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from titans_ts.tables.series_data import SeriesData
from titans_ts.training.relative import BOUND, naive_errors, relative_error
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON = 4, 2


def windows_of(
    *series: np.ndarray, lookback: int = LOOKBACK, first: int = LOOKBACK, observed: np.ndarray | None = None
) -> Windows:
    lengths = np.array([len(values) for values in series])
    values = torch.from_numpy(np.concatenate(series)).float()
    data = SeriesData(values, lengths, np.zeros_like(lengths), observed)
    return Windows(data, lookback=lookback, horizon=HORIZON, first=np.full(len(series), first), last=lengths)


def test_the_naive_error_is_that_of_the_better_of_last_value_and_mean() -> None:
    trend, noise = np.arange(20.0), np.tile([1.0, -1.0], 10)
    found = naive_errors(windows_of(trend, noise))
    assert found.tolist() == pytest.approx([(1 + 4) / 2, 1.0])  # a trend is nearest its last value, noise its mean, 0


def test_the_naive_error_is_the_same_for_every_lookback() -> None:
    noise = np.random.default_rng(0).normal(size=40)
    short, long = (naive_errors(windows_of(noise, lookback=lookback, first=20)) for lookback in (2, 16))
    assert short.item() == long.item()


@pytest.mark.parametrize(("loss", "expected"), [("mae", 1.5), ("huber", (0.5 + 1.5) / 2)])
def test_the_naive_error_is_of_the_loss_asked_for(loss: str, expected: float) -> None:
    assert naive_errors(windows_of(np.arange(20.0)), loss).item() == pytest.approx(expected)


def test_padding_and_filled_rows_do_not_count() -> None:
    short = naive_errors(windows_of(np.array([3.0, 3.0, 5.0, 5.0]), first=2))  # padded to 0, 0, 3, 3
    assert short.item() == pytest.approx(4.0)
    observed = np.ones(20, dtype=bool)
    observed[10] = False
    values = np.tile([1.0, -1.0], 10)
    values[10] = 1e6
    assert naive_errors(windows_of(values, first=9, observed=observed)).item() < 1e12 / 9


def test_a_series_without_windows_has_none_and_does_not_count() -> None:
    naive = naive_errors(windows_of(np.arange(20.0), np.arange(3.0)))
    assert naive[0].item() == 2.5
    assert naive[1].isnan()
    assert relative_error(torch.tensor([2.5, float("nan")]), naive).item() == pytest.approx(1 / (1 + 1 / BOUND))


def test_one_series_keeps_the_order_of_its_errors() -> None:
    errors = torch.tensor([0.0, 0.1, 1.0, 50.0, 1e9]).unsqueeze(1)
    found = relative_error(errors, torch.tensor([2.0]))
    assert (found.diff() > 0).all()
    assert found[-1] <= BOUND


def test_no_series_decides_for_the_others() -> None:
    """Nine of ten are forecast better by the second candidate, one of huge values and errors by the first."""
    naive = torch.ones(10, dtype=torch.float64)
    naive[0] = 1e12
    candidates = torch.full((2, 10), 0.5, dtype=torch.float64)
    candidates[1, 1:] = 0.4
    candidates[:, 0] = torch.tensor([0.5e12, 1e15])
    first, second = relative_error(candidates, naive)
    assert second - first < BOUND / 10  # the one counts for a tenth at most
    candidates[1, 0] = 0.9e12
    first, second = relative_error(candidates, naive)
    assert candidates.sum(1)[0] < candidates.sum(1)[1], "their sum would choose by the one"
    assert second < first


def test_a_constant_series_has_a_relative_error_too() -> None:
    naive = naive_errors(windows_of(np.full(20, 3.0)))
    assert relative_error(torch.zeros(1), naive).item() == pytest.approx(1 / (1 + 1 / BOUND))
    # What training of other series adds to it, a thousandth of a deviation, is no reason against that training.
    assert relative_error(torch.tensor([1e-6]), naive).item() < 1.02 / (1 + 1.02 / BOUND)


def test_a_weight_of_two_counts_a_series_twice() -> None:
    errors, naive = torch.tensor([0.5, 1.5, math.nan]).double(), torch.tensor([1.0, 1.0, 1.0]).double()
    found = relative_error(errors, naive, torch.tensor([2.0, 1.0, 5.0]).double())
    expected = relative_error(errors[[0, 0, 1]], naive)
    torch.testing.assert_close(found, expected)
    assert relative_error(errors[2:], naive[2:], torch.ones(1).double()).isnan()
