"""Linear paths, each against plain products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from titans_ts.model.linear import CrossSeriesPath, LinearPath, _by_copies, _by_series, spans


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_linear_path_is_zero_at_first_and_has_no_intercept() -> None:
    path = LinearPath(lookback=6, horizon=3).double()
    assert (path(normal(2, 6)) == 0).all()
    with torch.no_grad():
        path.weight.copy_(normal(6, 3, seed=1))
    assert (path(torch.zeros(1, 6, dtype=torch.float64)) == 0).all()
    torch.testing.assert_close(path(normal(2, 6)), normal(2, 6) @ normal(6, 3, seed=1))


def test_linear_path_reads_the_window_mean_where_it_has_weights_for_it() -> None:
    path = LinearPath(lookback=6, horizon=3, n_series=2, window_mean=True).double()
    assert path.per_series is not None
    path.per_series[1, -1] = torch.tensor([1.0, -2.0, 0.5])
    z, series, mean = normal(3, 6), torch.tensor([1, 0, 2]), torch.tensor([[2.0], [3.0], [5.0]]).double()
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[0] = torch.tensor([2.0, -4.0, 1.0])
    torch.testing.assert_close(path(z, series, mean), expected)
    with pytest.raises(ValueError, match="`window_mean` must be given"):
        path(z, series)


def test_copies_of_weights_say_what_one_product_for_each_series_does() -> None:
    weights, series = normal(3, 6, 2), torch.tensor([2, 0, -1, 2, 3, 0])
    found = []
    for by in (_by_series, _by_copies):
        z = normal(6, 6, seed=1).requires_grad_()
        y = by(z, series, weights)
        y.backward(normal(6, 2, seed=2))
        assert (y[[2, 4]] == 0).all()
        found.append((y.detach(), z.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.gpu
def test_a_gpu_trains_by_copies_of_weights_unless_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    weights, series, z = normal(3, 6, 2).cuda(), torch.tensor([2, -1, 3]).cuda(), normal(3, 6).cuda()
    with torch.no_grad():
        expected = _by_series(z, series, weights)
    torch.testing.assert_close(_by_series(z, series, weights), expected)
    monkeypatch.setattr("titans_ts.model.linear.MOST_COPIED", 35)  # 36 are needed
    monkeypatch.setattr("titans_ts.model.linear._by_copies", None)
    torch.testing.assert_close(_by_series(z, series, weights), expected)


def test_spans_double_going_back_and_end_with_the_whole() -> None:
    assert spans(1) == [(0, 1), (0, 1)]
    assert spans(6) == [(0, 1), (1, 2), (2, 4), (4, 6), (0, 6)]
    assert spans(8) == [(0, 1), (1, 2), (2, 4), (4, 8), (0, 8)]


def test_the_cross_series_path_reads_means_minus_the_window_mean() -> None:
    path = CrossSeriesPath(n_series=2, lookback=4, horizon=3).double()
    nan = torch.nan
    means = torch.tensor([[[5.0, 4.0, 2.5, 3.5], [nan, nan, nan, nan]]], dtype=torch.float64)
    assert path.inputs(means, torch.tensor([7])).tolist() == [[1.5, 0.5, -1.0, 0.0, 0.0, 0.0]]
    inputs, series = path.inputs(normal(5, 2, 4), torch.arange(5)), torch.tensor([0, 1, 2, -1, 0])
    assert (path(inputs, series) == 0).all()
    path.weight.copy_(normal(2, 6, 3, seed=1))
    none, (first, second) = torch.zeros(3).double(), path.weight
    expected = [inputs[0] @ first, inputs[1] @ second, none, none, inputs[4] @ first]
    torch.testing.assert_close(path(inputs, series), torch.stack(expected))


def test_the_cross_series_path_varies_with_the_phase() -> None:
    path = CrossSeriesPath(n_series=2, lookback=4, horizon=3, period=6, harmonics=2).double()
    plain = CrossSeriesPath(n_series=2, lookback=4, horizon=3).double()
    time_index = torch.tensor([0, 4, 13, 6 * 10**12 + 1, -5])
    means = normal(len(time_index), 2, 4)
    off, found = plain.inputs(means, time_index), path.inputs(means, time_index).unflatten(1, (5, -1))
    angle = 2 * torch.pi / 6 * (time_index % 6).double().unsqueeze(1)
    for i, wave in enumerate((angle.cos() ** 0, angle.cos(), (2 * angle).cos(), angle.sin(), (2 * angle).sin())):
        torch.testing.assert_close(found[:, i], off * wave, rtol=1e-6, atol=1e-6)
