"""Losses: objects that know how many outputs they need and which entries of the future count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

WINDOW_LIMIT = 10.0  # of squared errors in deviations of the series, or of the window where windows are scaled


@dataclass(frozen=True)
class PointLoss:
    """A loss of one number a step.

    Parameters
    ----------
    name : str
    function : callable
        Of forecast, truth and torch's `reduction`.
    window_limit : float
        The mean loss of a window from which on its gradient grows no further: a wild one does not decide a step.
    """

    name: str
    function: Callable[..., Tensor]
    window_limit: float = math.inf
    n_outputs: int = 1

    def mean(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None) -> Tensor:
        """The loss to train by, over all entries, of which those that were filled in count as right: ().

        Parameters
        ----------
        forecast : Tensor (samples, horizon, outputs)
        truth : Tensor (samples, horizon)
        observed_mask : Tensor of bool (samples, horizon), optional
            False where the truth was filled in.
        """
        point = self._limited(self._masked(forecast, truth, observed_mask), truth)
        loss: Tensor = self.function(point, truth)
        return loss

    def entries(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The loss of every entry, 0 of those filled in, and which count, 1 or 0; arguments as `mean`'s.

        Both (samples, horizon), in float64.
        """
        loss = self.function(self._masked(forecast, truth, observed_mask), truth, reduction="none").double()
        return loss, torch.ones_like(loss) if observed_mask is None else observed_mask.double()

    def _masked(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None) -> Tensor:
        """The point forecast, right wherever the truth was filled in."""
        point = forecast[..., 0]
        return point if observed_mask is None else point.where(observed_mask, truth)

    def _limited(self, point: Tensor, truth: Tensor) -> Tensor:
        """The point forecast, drawn to the truth in windows beyond the limit, so that their gradients have its size."""
        if math.isinf(self.window_limit):
            return point
        of_windows = self.function(point.detach(), truth, reduction="none").mean(-1, keepdim=True)
        share = (
            self.window_limit / of_windows.clamp(min=self.window_limit)
        ) ** 0.25  # of the error: the gradient goes with its square
        return torch.where(of_windows > self.window_limit, truth + (point - truth) * share, point)


LOSSES = {
    loss.name: loss
    for loss in (
        PointLoss("mse", F.mse_loss, window_limit=WINDOW_LIMIT),  # the gradients of the others are bounded
        PointLoss("mae", F.l1_loss),
        PointLoss("huber", F.smooth_l1_loss),
    )
}
