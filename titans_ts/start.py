"""The closed-form start: a strong linear forecast before the first gradient step.

The linear path is least squares on the training windows, the ridge and whether to start from the training profile
chosen on the validation windows. Both need only second moments, so a window is read once.

Source: RLinear and DLinear (Li et al., 2023; Zeng et al., 2023) show how far a linear map goes; CycleNet (Lin et al.,
2024) what a cycle adds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .model import ModelConfig, SimbaForecaster
from .training import evaluate, seeded
from .windows import Windows

RIDGES = (*(10.0**k for k in range(-7, 3)), math.inf)  # times the mean eigenvalue; the last is the anchor alone
BATCH, MOST_WINDOWS = 4096, 2**16  # windows read at a time, and in all
MOST_OWN_WINDOWS = 2**18  # the same, for weights of each series' own
RIDGE_UNVALIDATED = 1.0  # without validation windows: shrink hard, since nothing can tell


class _Moments(NamedTuple):
    """Of all windows, or one for each series ahead of the dimensions named."""

    xx: Tensor  # (lookback, lookback)
    xy: Tensor  # (lookback, horizon)
    yy: Tensor  # ()
    n: int  # entries of y, of all series

    def error(self, weight: Tensor) -> float:
        """The mean squared error of y = x weight."""
        return ((self.yy.sum() - 2 * (weight * self.xy).sum() + (weight * (self.xx @ weight)).sum()) / self.n).item()


def started_network(
    config: ModelConfig, train: Windows, validation: Windows | None, profile: Tensor | None, random_state: int
) -> SimbaForecaster:
    """A new network on the windows' device, its random weights fixed by `random_state`, at its closed-form start.

    `profile` (n_series, period) is where the cycle may start. Where `config.scale_windows` is None, the start with
    the lower validation error decides; without a linear path there is nothing to compare, and windows are scaled.
    """
    scalings = [config.scale_windows]
    if config.scale_windows is None:
        scalings = [False, True] if config.linear_path else [True]
    started = []
    for scaling in scalings:
        with seeded(random_state, train.device):
            network = SimbaForecaster(replace(config, scale_windows=scaling))
        network = network.to(train.device).eval()
        started.append((closed_form_start(network, train, validation, profile), network))
    return min(started, key=lambda pair: pair[0])[1]


@torch.no_grad()
def closed_form_start(
    network: SimbaForecaster, train: Windows, validation: Windows | None, profile: Tensor | None = None
) -> float:
    """Set the linear path, and the cycle where its `profile` (n_series, period) helps, in place.

    Only windows without a row to forecast that was filled in count; where there is none, the linear path begins at the
    window's mean or at its last value, whichever the known rows agree with better.

    Returns the mean squared error on the validation windows, or on the training windows where there are none; NaN
    for a network without a linear path.
    """
    if network.cycle is not None and profile is not None:
        network.cycle.profile.copy_(profile)
    if network.linear is None:
        return float("nan")
    whole = train.whole
    if whole is None:
        return _begin_at_anchor(network, network.linear.weight, train if validation is None else validation)
    train, validation = whole, None if validation is None else validation.whole
    error, weight = _solve(network, train, validation)
    if network.cycle is not None and profile is not None:
        network.cycle.profile.zero_()
        error_without, weight_without = _solve(network, train, validation)
        if error_without < error:
            error, weight = error_without, weight_without
        else:
            network.cycle.profile.copy_(profile)
    network.linear.weight.copy_(weight)
    if network.linear.own is not None:
        error, own = _solve_own(network, train, validation, weight)
        network.linear.own.copy_(own)
    return error


def _begin_at_anchor(network: SimbaForecaster, weight: Tensor, windows: Windows) -> float:
    """The linear path, its `weight`, at a window's mean, or at its last value if nearer; the error on `windows`."""
    errors = []
    weight.zero_()
    for last in (1.0, 0.0):
        weight[-1] = last
        errors.append(evaluate(network, windows, most=MOST_WINDOWS))
    weight[-1] = float(errors[0] < errors[1])
    return min(errors)


def _solve(network: SimbaForecaster, train: Windows, validation: Windows | None) -> tuple[float, Tensor]:
    """The linear path with the least validation error, and that error.

    It is shrunk towards the window's mean. Fewer windows than unknowns leave much to that, so there the window's last
    value is a candidate too. By eigenvalues, so that a singular matrix does no harm.
    """
    moments = _moments(network, train, normalised=True)
    judge = _moments(network, train if validation is None else validation, normalised=False)
    anchors = [torch.zeros_like(moments.xy)]
    if len(train) < network.config.lookback:
        anchors.append(torch.zeros_like(moments.xy))
        anchors[1][-1] = 1
    ridges = RIDGES if validation is not None else (RIDGE_UNVALIDATED,)
    found = [(*_shrunk(moments, judge, anchor, ridges), anchor) for anchor in anchors]
    error, away, anchor = min(found, key=lambda candidate: candidate[0])
    return error, anchor + away


def _solve_own(
    network: SimbaForecaster, train: Windows, validation: Windows | None, weight: Tensor
) -> tuple[float, Tensor]:
    """What each series' linear path is away from the common `weight`, (n_series, lookback, horizon), and the error.

    Each is shrunk towards `weight`, by a ridge in proportion to the series' own moments that is chosen for all at once.
    """
    moments = _moments(network, train, normalised=True, by_series=True)
    judge = _moments(network, train if validation is None else validation, normalised=False, by_series=True)
    return _shrunk(moments, judge, weight, RIDGES if validation is not None else (RIDGE_UNVALIDATED,))


def _shrunk(moments: _Moments, judge: _Moments, anchor: Tensor, ridges: Sequence[float]) -> tuple[float, Tensor]:
    """The least error by `judge` of least squares shrunk towards `anchor`, and how far from it the weights then are."""
    values, vectors = torch.linalg.eigh(moments.xx)
    values = values.clamp(min=0)
    scale = values.mean(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    target = vectors.mT @ (moments.xy - moments.xx @ anchor)
    best, away = math.inf, torch.zeros_like(moments.xy)
    for ridge in ridges:
        found = vectors @ (target / (values + ridge * scale).unsqueeze(-1))
        error = judge.error(anchor + found)
        if error < best:
            best, away = error, found
    return best, away


def _moments(network: SimbaForecaster, windows: Windows, normalised: bool, by_series: bool = False) -> _Moments:
    lookback, horizon, n_series = network.config.lookback, network.config.horizon, network.config.n_series
    parts = n_series if by_series else 1
    how: dict[str, Any] = dict(dtype=torch.float64, device=windows.device)
    xx, xy = torch.zeros(parts, lookback, lookback, **how), torch.zeros(parts, lookback, horizon, **how)
    yy, n = torch.zeros(parts, **how), 0
    for batch in windows.batches(BATCH, MOST_OWN_WINDOWS if by_series else MOST_WINDOWS):
        pair = network.normalised(batch.past, batch.future, batch.step, batch.series, batch.mask)
        x, y = pair.past.double(), pair.future.double()
        if not normalised:
            x, y = x * pair.std, y * pair.std
        series = pair.series if by_series and pair.series is not None else torch.zeros_like(batch.step)
        for i in series.unique().tolist():  # windows come series after series, so a batch has few
            own = series == i
            a, b = x[own], y[own]
            xx[i] += a.mT @ a
            xy[i] += a.mT @ b
            yy[i] += b.square().sum()
        n += y.numel()
    return _Moments(xx, xy, yy, n) if by_series else _Moments(xx[0], xy[0], yy[0], n)
