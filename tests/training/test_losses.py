"""Losses by hand: what they sum, and which entries count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.training.losses import LEVELS, LOSSES, WINDOW_LIMIT, QuantileLoss, find_loss, try_loss

BY_HAND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mse": lambda error: error**2,
    "mae": np.abs,
    "huber": lambda error: np.where(abs(error) < 1, error**2 / 2, abs(error) - 0.5),
}
FORECAST = torch.tensor([[[1.0], [4.0], [-2.0]], [[0.0], [0.5], [7.0]]])  # (samples, horizon, outputs)
TRUTH = torch.tensor([[1.5, 1.0, -2.0], [0.0, 0.0, 8.0]])
ERRORS = (FORECAST[..., 0] - TRUTH).numpy()
OBSERVED = torch.tensor([[True, True, True], [True, True, False]])


def total(name: str, observed_mask: torch.Tensor | None = None) -> tuple[float, float]:
    """The sum over the entries that count, and how many these are."""
    loss, counted = LOSSES[name].entries(FORECAST, TRUTH, observed_mask)
    assert loss.shape == counted.shape == TRUTH.shape
    return loss.sum().item(), counted.sum().item()


def test_every_loss_is_known_by_its_name() -> None:
    outputs = {**dict.fromkeys(BY_HAND, 1), "quantile": 13}
    assert {name: (loss.name, loss.n_outputs) for name, loss in LOSSES.items()} == {
        n: (n, k) for n, k in outputs.items()
    }


@pytest.mark.parametrize("name", BY_HAND)
def test_mean_and_total_are_of_every_entry(name: str) -> None:
    errors = BY_HAND[name](ERRORS)
    assert LOSSES[name].mean(FORECAST, TRUTH).item() == pytest.approx(errors.mean())
    assert total(name) == (pytest.approx(errors.sum()), 6)


@pytest.mark.parametrize("name", BY_HAND)
def test_what_was_filled_in_counts_as_right_in_the_mean_and_not_at_all_in_the_total(name: str) -> None:
    errors = BY_HAND[name](ERRORS) * OBSERVED.numpy()
    assert LOSSES[name].mean(FORECAST, TRUTH, OBSERVED).item() == pytest.approx(errors.sum() / 6)
    assert total(name, OBSERVED) == (pytest.approx(errors.sum()), 5)


@pytest.mark.parametrize("name", BY_HAND)
def test_no_gradient_comes_from_what_was_filled_in(name: str) -> None:
    forecast = FORECAST.clone().requires_grad_()
    LOSSES[name].mean(forecast, TRUTH, OBSERVED).backward()
    assert forecast.grad is not None
    assert forecast.grad[1, 2].item() == 0
    assert forecast.grad[0, 1].item() > 0


def test_a_window_beyond_the_limit_has_a_gradient_of_the_limit() -> None:
    """So that one wild window does not decide a step; the others' gradients are what they are without it."""
    truth = torch.zeros(3, 4)
    gradients = []
    for wild in (0.0, 100.0, 1e4):
        forecast = torch.tensor([[1.0], [2.0], [wild]]).repeat(1, 4).unsqueeze(-1).requires_grad_()
        LOSSES["mse"].mean(forecast, truth).backward()
        gradients.append(forecast.grad[..., 0])
    for gradient in gradients[1:]:
        assert torch.equal(gradient[:2], gradients[0][:2])
        # The gradient of a window at the limit: 2 sqrt(10) of each of 12 entries.
        torch.testing.assert_close(gradient[2], torch.full((4,), 2 * WINDOW_LIMIT**0.5 / 12))


def test_within_the_limit_the_mean_is_plain_to_the_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    forecast, truth = torch.randn(50, 7, generator=generator), torch.randn(50, 7, generator=generator)
    assert torch.equal(LOSSES["mse"].mean(forecast.unsqueeze(-1), truth), (forecast - truth).square().mean())


def test_the_quantile_loss_by_hand() -> None:
    loss = QuantileLoss(levels=(0.1, 0.5, 0.9))
    forecast, truth = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[2.5]])
    # 2 / 3 of 0.1 * 1.5 + 0.5 * 0.5 + 0.1 * 0.5
    expected = torch.tensor(2 / 3 * (0.15 + 0.25 + 0.05))
    torch.testing.assert_close(loss.mean(forecast, truth), expected)
    torch.testing.assert_close(loss.entries(forecast, truth)[0], expected.double().view(1, 1), rtol=1e-6, atol=0)


def test_its_least_value_is_at_the_quantiles() -> None:
    truth = torch.from_numpy(np.random.default_rng(0).exponential(size=(20_000, 1))).float()
    quantiles = torch.quantile(truth, torch.tensor(LEVELS), dim=0).T.view(1, 1, -1)
    least = LOSSES["quantile"].mean(quantiles.expand(len(truth), 1, -1), truth)
    for i in range(len(LEVELS)):
        for away in (-0.1, 0.1):
            other = quantiles.clone()
            other[..., i] += away
            assert LOSSES["quantile"].mean(other.expand(len(truth), 1, -1), truth) > least


def test_the_quantile_loss_of_a_point_is_its_absolute_error() -> None:
    for mask in (None, OBSERVED):
        quantile, counted = LOSSES["quantile"].entries(FORECAST, TRUTH, mask)
        absolute, same = LOSSES["mae"].entries(FORECAST, TRUTH, mask)
        torch.testing.assert_close(quantile, absolute, rtol=1e-6, atol=0)
        assert torch.equal(counted, same)


@pytest.mark.parametrize("name", BY_HAND)
def test_losses_of_points_take_the_median(name: str) -> None:
    outputs = torch.cat([FORECAST - 3, FORECAST, FORECAST + 9], dim=-1)
    assert torch.equal(LOSSES[name].mean(outputs, TRUTH, OBSERVED), LOSSES[name].mean(FORECAST, TRUTH, OBSERVED))


def cubic(forecast: Tensor, truth: Tensor) -> Tensor:
    return (forecast - truth).abs() ** 3 + 1


def test_a_function_is_a_loss_and_what_was_filled_in_counts_for_nothing() -> None:
    loss = find_loss(cubic)
    errors = np.abs(ERRORS) ** 3 + 1
    assert loss.name.endswith("test_losses.cubic")
    assert loss.mean(FORECAST, TRUTH).item() == pytest.approx(errors.mean(), rel=1e-6)
    found, counted = loss.entries(FORECAST, TRUTH, OBSERVED)
    np.testing.assert_allclose(found, errors * OBSERVED.numpy(), rtol=1e-6)
    assert counted.sum() == 5
    with torch.inference_mode():  # the caller's modes have no say
        try_loss("loss", cubic, 3, torch.device("cpu"))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (
            lambda f, t: (f - t).abs().mean(),
            ValueError,
            r"of shape \(samples, horizon\) = \(2, 3\), got \(\)\. Leave out",
        ),
        (lambda f, t: 1.0, TypeError, r"must return a tensor of shape \(2, 3\), got float\."),
        (lambda f: f, TypeError, r"must take two tensors .* but raised TypeError: .*lambda>\(\) takes 1 positional"),
        (lambda f, t: (f - t) / 0, ValueError, "must return finite numbers, got"),
        (lambda f, t: (f - t).detach().abs(), ValueError, "must be differentiable in the forecast"),
        (lambda f, t: (f > t).float(), ValueError, "must be differentiable in the forecast"),
        (lambda f, t: t.clone().requires_grad_(), ValueError, "must be differentiable in the forecast"),
    ],
)
def test_a_function_that_cannot_be_trained_by_is_refused(function, error, message) -> None:
    with pytest.raises(error, match=rf"^`loss`, the function .*lambda>, .*{message}"):
        try_loss("loss", function, 3, torch.device("cpu"))


@pytest.mark.parametrize("name", [*BY_HAND, "quantile", "function"])
def test_weights_count_samples(name: str) -> None:
    loss = find_loss(cubic if name == "function" else name)
    of_samples = loss.entries(FORECAST, TRUTH, OBSERVED)[0].mean(1)
    found = loss.mean(FORECAST, TRUTH, OBSERVED, torch.tensor([0.5, 1.5]))
    assert found.item() == pytest.approx((0.5 * of_samples[0] + 1.5 * of_samples[1]).item() / 2, rel=1e-6)
