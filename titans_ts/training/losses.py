"""Losses: objects that know how many outputs they need and which entries of the future count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class PointLoss:
    """A loss of one number a step.

    Parameters
    ----------
    name : str
    function : callable
        Of forecast, truth and torch's `reduction`.
    """

    name: str
    function: Callable[..., Tensor]
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
        loss: Tensor = self.function(self._masked(forecast, truth, observed_mask), truth)
        return loss

    def total(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None) -> tuple[float, int]:
        """The sum over the entries that were observed, in float64, and how many these are; arguments as `mean`'s."""
        total = self.function(self._masked(forecast, truth, observed_mask), truth, reduction="sum").double().item()
        return total, truth.numel() if observed_mask is None else int(observed_mask.sum())

    def _masked(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None) -> Tensor:
        """The point forecast, right wherever the truth was filled in."""
        point = forecast[..., 0]
        return point if observed_mask is None else point.where(observed_mask, truth)


LOSSES = {
    loss.name: loss
    for loss in (
        PointLoss("mse", F.mse_loss),
        PointLoss("mae", F.l1_loss),
        PointLoss("huber", F.smooth_l1_loss),
    )
}
