"""The closed-form start: a strong linear forecast before the first gradient step.

The linear path is least squares on the training windows, the ridge and whether to start from the training profile
chosen on the validation windows. Both need only second moments, so a window is read once.

Source: RLinear and DLinear (Li et al., 2023; Zeng et al., 2023) show how far a linear map goes; CycleNet (Lin et al.,
2024) what a cycle adds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .model import ModelConfig, SimbaForecaster
from .training import seeded
from .windows import Windows

RIDGES = tuple(10.0**k for k in range(-7, 3))  # times the mean eigenvalue
BATCH, MOST_WINDOWS = 4096, 2**18  # windows read at a time, and in all
RIDGE_UNVALIDATED = 1.0  # without validation windows: shrink hard, since nothing can tell


class _Moments(NamedTuple):
    xx: Tensor  # (lookback, lookback)
    xy: Tensor  # (lookback, horizon)
    yy: Tensor  # ()
    n: int  # entries of y

    def error(self, weight: Tensor) -> float:
        """The mean squared error of y = x weight."""
        return ((self.yy - 2 * (weight * self.xy).sum() + (weight * (self.xx @ weight)).sum()) / self.n).item()


def started_network(
    config: ModelConfig, train: Windows, validation: Windows | None, profile: Tensor | None, random_state: int
) -> SimbaForecaster:
    """A new network on the windows' device, its random weights fixed by `random_state`, at its closed-form start.

    `profile` (n_series, period) is where the cycle may start.
    """
    with seeded(random_state, train.device):
        network = SimbaForecaster(config)
    network = network.to(train.device).eval()
    closed_form_start(network, train, validation, profile)
    return network


@torch.no_grad()
def closed_form_start(
    network: SimbaForecaster, train: Windows, validation: Windows | None, profile: Tensor | None = None
) -> None:
    """Set the linear path, and the cycle where its `profile` (n_series, period) helps, in place."""
    if network.cycle is not None and profile is not None:
        network.cycle.profile.copy_(profile)
    if network.linear is None:
        return
    error, weight = _solve(network, train, validation)
    if network.cycle is not None and profile is not None:
        network.cycle.profile.zero_()
        error_without, weight_without = _solve(network, train, validation)
        if error_without < error:
            weight = weight_without
        else:
            network.cycle.profile.copy_(profile)
    network.linear.weight.copy_(weight)


def _solve(network: SimbaForecaster, train: Windows, validation: Windows | None) -> tuple[float, Tensor]:
    """The ridge solution with the least validation error; by eigenvalues, so that a singular matrix does no harm."""
    moments = _moments(network, train)
    judge = moments if validation is None else _moments(network, validation)
    values, vectors = torch.linalg.eigh(moments.xx)
    values = values.clamp(min=0)
    scale = values.mean().clamp(min=torch.finfo(values.dtype).tiny)
    target = vectors.mT @ moments.xy
    ridges = (RIDGE_UNVALIDATED,) if validation is None else RIDGES
    weights = (vectors @ (target / (values + ridge * scale).unsqueeze(-1)) for ridge in ridges)
    return min(((judge.error(weight), weight) for weight in weights), key=lambda candidate: candidate[0])


def _moments(network: SimbaForecaster, windows: Windows) -> _Moments:
    lookback, horizon = network.config.lookback, network.config.horizon
    device = windows.device
    xx = torch.zeros(lookback, lookback, dtype=torch.float64, device=device)
    xy = torch.zeros(lookback, horizon, dtype=torch.float64, device=device)
    yy, n = torch.zeros((), dtype=torch.float64, device=device), 0
    for batch in windows.batches(BATCH, MOST_WINDOWS):
        x, y = (residual.double() for residual in network.residuals(*batch))
        xx += x.mT @ x
        xy += x.mT @ y
        yy += y.square().sum()
        n += y.numel()
    return _Moments(xx, xy, yy, n)
