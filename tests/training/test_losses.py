"""Losses by hand: what they sum, and which entries count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from titans_ts.training.losses import LOSSES, WINDOW_LIMIT

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
    assert {name: (loss.name, loss.n_outputs) for name, loss in LOSSES.items()} == {n: (n, 1) for n in BY_HAND}


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
