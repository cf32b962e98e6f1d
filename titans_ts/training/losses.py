"""Losses: objects that know how many outputs they need and which entries of the future count.

Source: Koenker and Bassett (1978) for the quantile (pinball) loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from titans_ts.devices import isolated
from titans_ts.model.quantiles import point_of

WINDOW_LIMIT = 10.0  # of squared errors in deviations of the series, or of the window where windows are scaled
LEVELS = (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975)  # of the quantile loss
TRIED = 2  # samples by which a function is tried

LossFunction = Callable[[Tensor, Tensor], Tensor]
AnyLoss = str | LossFunction  # the name of one of ours, or a user's


class Loss(ABC):
    """What a network is trained and evaluated by.

    Attributes
    ----------
    name : str
    levels : tuple of float, optional
        What each output is the quantile of; None for a loss of points, of one output.
    """

    name: str
    levels: tuple[float, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """Numbers that a network forecasts for each step."""
        return 1 if self.levels is None else len(self.levels)

    @abstractmethod
    def _entries(self, forecast: Tensor, truth: Tensor) -> Tensor:
        """The loss of every entry, (samples, horizon)."""

    def mean(
        self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None, weight: Tensor | None = None
    ) -> Tensor:
        """The loss to train by, over all entries, of which those that were filled in count as right: ().

        Parameters
        ----------
        forecast : Tensor (samples, horizon, outputs)
        truth : Tensor (samples, horizon)
        observed_mask : Tensor of bool (samples, horizon), optional
            False where the truth was filled in.
        weight : Tensor (samples,), optional
            How much each sample counts; 1 if None.
        """
        loss = self._masked(self._entries(forecast, truth), observed_mask).mean(-1)
        return (loss if weight is None else loss * weight).mean()

    def entries(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The loss of every entry, 0 of those filled in, and which count, 1 or 0; arguments as `mean`'s.

        Both (samples, horizon), in float64.
        """
        loss = self._masked(self._entries(forecast, truth), observed_mask).double()
        return loss, torch.ones_like(loss) if observed_mask is None else observed_mask.double()

    @staticmethod
    def _masked(loss: Tensor, observed_mask: Tensor | None) -> Tensor:
        return loss if observed_mask is None else loss.where(observed_mask, 0.0)


@dataclass(frozen=True)
class PointLoss(Loss):
    """A loss of one number a step: of a network with more outputs, of its point forecast.

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

    def mean(
        self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None = None, weight: Tensor | None = None
    ) -> Tensor:
        point = self._limited(self._right(forecast, truth, observed_mask), truth)
        if weight is None:
            loss: Tensor = self.function(point, truth)
            return loss
        return (self.function(point, truth, reduction="none").mean(-1) * weight).mean()

    def _entries(self, forecast: Tensor, truth: Tensor) -> Tensor:
        loss: Tensor = self.function(point_of(forecast), truth, reduction="none")
        return loss

    def _right(self, forecast: Tensor, truth: Tensor, observed_mask: Tensor | None) -> Tensor:
        """The point forecast, right wherever the truth was filled in."""
        point: Tensor = point_of(forecast)
        return point if observed_mask is None else point.where(observed_mask, truth)

    def _limited(self, point: Tensor, truth: Tensor) -> Tensor:
        """The point forecast, drawn to the truth in windows beyond the limit, so that their gradients have its size."""
        if math.isinf(self.window_limit):
            return point
        of_windows = self.function(point.detach(), truth, reduction="none").mean(-1, keepdim=True)
        # Of the error, with whose square the gradient goes.
        share = (self.window_limit / of_windows.clamp(min=self.window_limit)) ** 0.25
        return torch.where(of_windows > self.window_limit, truth + (point - truth) * share, point)


@dataclass(frozen=True)
class QuantileLoss(Loss):
    """Twice the mean pinball loss over the levels: of a median alone, or of a point forecast, its absolute error.

    Its gradient is bounded, so that no wild window decides a step.

    Parameters
    ----------
    name : str
    levels : tuple of float

    Source
    ------
    Koenker and Bassett, "Regression quantiles" (1978), equation 1.3.
    """

    name: str = "quantile"
    levels: tuple[float, ...] = LEVELS

    def _entries(self, forecast: Tensor, truth: Tensor) -> Tensor:
        # filled one by one on the device: a list would be copied there, for which a recorded step cannot wait
        levels = torch.stack([torch.full((), q, dtype=truth.dtype, device=truth.device) for q in self.levels])
        error = truth.unsqueeze(-1) - forecast
        return 2 * torch.maximum(levels * error, (levels - 1) * error).mean(-1)


@dataclass(frozen=True)
class FunctionLoss(Loss):
    """A loss of points that a user's function computes.

    Parameters
    ----------
    function : callable
        From the point forecast and the truth, (samples, horizon) each, to the loss of every entry, of that shape.
    """

    function: LossFunction

    @property
    def name(self) -> str:  # type: ignore[override]
        """The function's module and name."""
        return loss_name(self.function)

    def _entries(self, forecast: Tensor, truth: Tensor) -> Tensor:
        return self.function(point_of(forecast), truth)


@dataclass(frozen=True)
class MissingLoss:
    """Stands where a model was saved whose loss was a function: of that the name is kept, and it cannot be called.

    Parameters
    ----------
    name : str
        The function's module and name.
    """

    name: str

    def __call__(self, forecast: Tensor, truth: Tensor) -> Tensor:
        raise ValueError(self.remedy("loss"))

    def remedy(self, parameter: str) -> str:
        """What to do about it."""
        return (
            f"`{parameter}` was the function {self.name} when the model was saved, and a saved model keeps its name "
            f"alone. Give it again before fitting: set_params({parameter}=...)."
        )


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        PointLoss("mse", F.mse_loss, window_limit=WINDOW_LIMIT),  # the gradients of the others are bounded
        PointLoss("mae", F.l1_loss),
        PointLoss("huber", F.smooth_l1_loss),
        QuantileLoss(),
    )
}


def find_loss(loss: AnyLoss) -> Loss:
    """The loss of a name, or of a function."""
    return LOSSES[loss] if isinstance(loss, str) else FunctionLoss(loss)


def loss_name(loss: Any) -> str:
    """A loss's name, or a function's module and name."""
    if isinstance(loss, str):
        return loss
    if isinstance(loss, MissingLoss):
        return loss.name
    named = loss if hasattr(loss, "__qualname__") else type(loss)
    return f"{named.__module__}.{named.__qualname__}"


def check_loss(name: str, loss: Any) -> None:
    """Refuse what is neither the name of a loss nor a function.

    Raises
    ------
    ValueError
        Naming the parameter, `name`.
    """
    if isinstance(loss, MissingLoss):
        raise ValueError(loss.remedy(name))
    if not (callable(loss) or (isinstance(loss, str) and loss in LOSSES)):
        raise ValueError(f"`{name}` must be one of {tuple(LOSSES)} or a function of forecast and truth, got {loss!r}.")


@isolated()
def try_loss(name: str, loss: Any, horizon: int, device: torch.device) -> None:
    """Call a user's function once, and refuse one that no network can be trained by; a loss of ours is not called.

    Parameters
    ----------
    name : str
        The parameter that it was given as.
    loss : str or callable
    horizon : int
    device : torch.device

    Raises
    ------
    TypeError, ValueError
        If what it returns is no tensor of shape (samples, horizon), not finite, or has no gradient.
    """
    check_loss(name, loss)
    if isinstance(loss, str):
        return
    where = f"`{name}`, the function {loss_name(loss)},"
    rising = torch.arange(TRIED * horizon, dtype=torch.float32, device=device).view(TRIED, horizon)
    forecast = (rising / rising.numel()).requires_grad_()
    try:
        found = loss(forecast, (0.5 - rising.flip(0) / rising.numel()).detach())
    except Exception as error:
        raise TypeError(
            f"{where} must take two tensors of shape (samples, horizon), forecast and truth, but raised "
            f"{type(error).__name__}: {error}"
        ) from error
    shape = TRIED, horizon
    if not isinstance(found, Tensor):
        raise TypeError(f"{where} must return a tensor of shape {shape}, got {type(found).__name__}.")
    if found.shape != shape:
        raise ValueError(
            f"{where} must return the loss of every entry, of shape (samples, horizon) = {shape}, got "
            f"{tuple(found.shape)}. Leave out the mean over entries."
        )
    if not found.isfinite().all():
        raise ValueError(f"{where} must return finite numbers, got {found.flatten().tolist()[:5]} of errors around 1.")
    slope = torch.autograd.grad(found.sum(), forecast, allow_unused=True)[0] if found.requires_grad else None
    if slope is None or not slope.isfinite().all():
        raise ValueError(f"{where} must be differentiable in the forecast, but has no finite gradient there.")
