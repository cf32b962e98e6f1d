"""The closed-form start: a strong linear forecast before the first gradient step.

The linear path is least squares on the training windows, the ridge and whether to start from the training profile
chosen on the validation windows. Both need only second moments, so a window is read once.

Source: RLinear and DLinear (Li et al., 2023; Zeng et al., 2023) show how far a linear map goes; CycleNet (Lin et al.,
2024) what a cycle adds; Bates and Granger (1969) what the mean of two forecasts does, Hansen (2008) that of
regressions on ever more lags; Litterman (1986) that older lags are to be shrunk harder.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from .model import ModelConfig, SimbaForecaster
from .model.parts import AcrossPath
from .moments import Moments, moments_of_batches, moments_of_runs
from .training import evaluate, normalised, seeded
from .windows import Batch, Run, Windows

RIDGES = (*(10.0**k for k in range(-7, 3)), math.inf)  # times the mean eigenvalue; the last is the anchor alone
MOST_WINDOWS = 2**16  # read, where each is read by itself
MOST_OWN_WINDOWS = 2**18  # the same in all, for weights of each series' own
LEVEL_SHARES = 0.5, 0.75  # of the weights that read the level, in the mean with those that do not: now, and far ahead
LEVEL_LOOKBACKS = 3.5  # in so many the share covers all but 1/e of its way from now to far ahead
LAG_DECAY = 0.5  # how far from its anchor a weight is expected falls with this power of the lag
PARTS = 5  # of a window that a path may read, each the last half of the one before
RUN = 32  # windows that are read one by one in the time that a run of any length takes
STARTED = ("cycle", "linear", "across")  # the parts of a network that the start sets
RIDGE_UNVALIDATED = 1.0  # without validation windows: shrink hard, since nothing can tell


class _Solution(NamedTuple):
    """A linear path, and its mean squared error on the validation windows."""

    error: float
    weight: Tensor  # (lookback, horizon)
    own: Tensor | None  # (n_series, inputs, horizon), what each series' own weights are away from it


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


def restarted_network(network: SimbaForecaster, random_state: int) -> SimbaForecaster:
    """A new network at the start of another, as `started_network` would make it with this `random_state`."""
    with seeded(random_state, network.persistent.device):
        new = SimbaForecaster(network.config)
    started = {name: value for name, value in network.state_dict().items() if name.partition(".")[0] in STARTED}
    new.load_state_dict(started, strict=False)
    return new.to(network.persistent.device).eval()


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
    found = _solve(network, train, validation)
    if network.cycle is not None and profile is not None:
        network.cycle.profile.zero_()
        without = _solve(network, train, validation)
        if without.error < found.error:
            found = without
        else:
            network.cycle.profile.copy_(profile)
    network.linear.weight.copy_(found.weight)
    if network.linear.own is not None and found.own is not None:
        network.linear.own.copy_(found.own)
    if network.across is None:
        return found.error
    error, weight = _solve_across(network, network.across, train, validation)
    network.across.weight.copy_(weight)
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


def _solve(network: SimbaForecaster, train: Windows, validation: Windows | None) -> _Solution:
    """The linear path with the least validation error: the mean of those that read a window's whole, its last half, ...

    The validation windows choose how many, for the common path and for those of each series. Such a mean fits the
    training windows less well than the path that reads them whole, but where a series has changed since, each part errs
    in its own way.
    """
    config, lookback = network.config, network.config.lookback
    # A ridge shrinks all weights alike, so the inputs carry what is expected of theirs.
    expected = _expected_weights(config, LAG_DECAY if validation is not None else 0.0, train.device)
    moments = _linear_moments(network, train, seen=True).scaled(expected)
    judge = _linear_moments(network, train if validation is None else validation, seen=False).scaled(expected)
    ridges, parts = (RIDGES, PARTS) if validation is not None else ((RIDGE_UNVALIDATED,), 1)
    unread = [lookback - (lookback >> i) for i in range(parts) if i == 0 or lookback >> i > 1]
    solved = [_solve_part(config, moments.since(n), judge.since(n), len(train), ridges) for n in unread]
    error, weight = _best_mean([common for common, _ in solved], judge.together(lookback))
    if not config.linear_per_series:
        return _Solution(error, weight * expected, None)
    error, each = _best_mean([own for _, own in solved if own is not None], judge)
    own = each - _with_level(weight, config)
    return _Solution(error, weight * expected[:lookback], own * expected)


def _expected_weights(config: ModelConfig, decay: float, device: torch.device) -> Tensor:
    """How far from its anchor each weight of a path is expected, to a factor: (inputs, 1), the oldest lag first.

    lag ** -decay (Litterman, 1986); that of a window's level as far as that of its last value.
    """
    lag = torch.arange(config.lookback, 0, -1, dtype=torch.float64, device=device)
    return pad(lag**-decay, (0, int(config.linear_level)), value=1.0).unsqueeze(1)


def _best_mean(paths: list[Tensor], judge: Moments) -> tuple[float, Tensor]:
    """The least error by `judge` of the mean of the first path, the first two, ..., and that mean.

    Each path reads the last of the inputs that the first one reads.
    """
    total = torch.zeros_like(paths[0])
    best, kept = math.inf, torch.zeros_like(total)
    for n, path in enumerate(paths, start=1):
        total[..., -path.shape[-2] :, :] += path
        mean = total / n
        if (error := judge.error(mean)) < best:
            best, kept = error, mean
    return best, kept


def _solve_part(
    config: ModelConfig, moments: Moments, judge: Moments, n_windows: int, ridges: Sequence[float]
) -> tuple[Tensor, Tensor | None]:
    """The common path and those of each series, from the moments of what they read.

    The common one is shrunk towards the window's mean. Fewer windows than unknowns leave much to that, so there the
    window's last value is a candidate too. By eigenvalues, so that a singular matrix does no harm.

    Those of each series are shrunk towards the common one, by a ridge in proportion to the series' own moments that is
    chosen for all at once. Those that read the window's level are averaged with those that do not: how soon a series
    returns differs from one season to the next, of which the validation windows are one. That it returns is the surer
    the further ahead.
    """
    steps = moments.xx.shape[-1] - config.linear_level
    together, judge_together = moments.together(steps), judge.together(steps)
    anchors = [torch.zeros_like(together.xy)]
    if n_windows < steps:
        anchors.append(torch.zeros_like(together.xy))
        anchors[1][-1] = 1
    found = [(*_shrunk(together, judge_together, anchor, ridges), anchor) for anchor in anchors]
    _, away, anchor = min(found, key=lambda candidate: candidate[0])
    weight = anchor + away
    if not config.linear_per_series:
        return weight, None
    _, own = _shrunk(moments.first(steps), judge.first(steps), weight, ridges)
    if not config.linear_level:
        return weight, weight + own
    anchor = _with_level(weight, config)
    _, with_level = _shrunk(moments, judge, anchor, ridges)
    share = _level_share(config, weight.device)
    return weight, anchor + (1 - share) * _with_level(own, config) + share * with_level


def _level_share(config: ModelConfig, device: torch.device) -> Tensor:
    """How much the weights that read the level count in the mean, for each step ahead: (horizon,)."""
    ahead = torch.arange(1, config.horizon + 1, dtype=torch.float64, device=device)
    now, far = LEVEL_SHARES
    return far - (far - now) * (-ahead / (LEVEL_LOOKBACKS * config.lookback)).exp()


def _with_level(weight: Tensor, config: ModelConfig) -> Tensor:
    """Weights of a path that reads no level as those of one that may: (..., lookback, horizon)."""
    return pad(weight, (0, 0, 0, int(config.linear_level)))


def _shrunk(moments: Moments, judge: Moments, anchor: Tensor, ridges: Sequence[float]) -> tuple[float, Tensor]:
    """The least error by `judge` of least squares shrunk towards `anchor`, and how far from it the weights then are."""
    values, vectors = torch.linalg.eigh(moments.xx)
    values = values.clamp(min=0)
    scale = values.mean(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    target = vectors.mT @ (moments.xy - moments.xx @ anchor)
    # In the eigenvectors' basis a ridge multiplies each row of the target, so its error is a quadratic form of those.
    linear = (target * (vectors.mT @ (judge.xy - judge.xx @ anchor))).sum(-1)
    quadratic = (target @ target.mT) * (vectors.mT @ judge.xx @ vectors)
    best, kept, at_anchor = math.inf, torch.zeros_like(values), judge.error(anchor)
    for ridge in ridges:
        shares = 1 / (values + ridge * scale)
        gain = 2 * (linear * shares).sum() - (shares.unsqueeze(-2) @ quadratic @ shares.unsqueeze(-1)).sum()
        error = at_anchor - gain.item() / judge.n
        if error < best:
            best, kept = error, shares
    return best, vectors @ (target * kept.unsqueeze(-1))


def _solve_across(
    network: SimbaForecaster, across: AcrossPath, train: Windows, validation: Windows | None
) -> tuple[float, Tensor]:
    """The error, and the weights (n_series, inputs, horizon) of what all series say about what is left of each.

    Left by the linear path, in the data's own scale. The inputs are brought to one scale, so that the ridge treats them
    alike. They depend on the step alone, so series whose windows are in step share their moments.
    """
    config = network.config
    shape = config.n_series, across.n_inputs, config.horizon
    alike = train.in_step and (validation is None or validation.in_step)
    most = None if alike else MOST_OWN_WINDOWS

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        pair = normalised(network, batch)
        left = (
            pair.future if network.linear is None else pair.future - network.linear(pair.past, pair.series, pair.level)
        )
        return network.read_across(batch.around, batch.step), left * pair.std, batch.series[:, 0]

    moments = moments_of_batches(train, most, shape, read, alike)
    judge = moments if validation is None else moments_of_batches(validation, most, shape, read, alike)
    scale = moments.xx.sum(0).diagonal().sqrt()
    scale = scale.where(scale > 0, 1.0).unsqueeze(-1)
    moments, judge = moments.scaled(1 / scale), judge.scaled(1 / scale)
    ridges = RIDGES if validation is not None else (RIDGE_UNVALIDATED,)
    if alike:
        moments, judge = moments.as_outputs(), judge.as_outputs()
    error, weight = _shrunk(moments, judge, torch.zeros_like(moments.xy), ridges)
    if alike:
        weight = weight.unflatten(1, (config.n_series, -1)).transpose(0, 1)
    return error, weight / scale


def _linear_moments(network: SimbaForecaster, windows: Windows, seen: bool) -> Moments:
    """Of the linear path's inputs and what it is to forecast, as the network has `seen` them or in the data's scale."""
    config = network.config

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        pair = normalised(network, batch)
        x, y = pair.past, pair.future
        if config.linear_per_series and network.linear is not None:
            x = network.linear.read_by_own(x, pair.level)
        if not seen:
            x, y = x * pair.std, y * pair.std
        series = pair.series if config.linear_per_series and pair.series is not None else torch.zeros_like(batch.step)
        return x, y, series

    parts, inputs, most = 1, config.lookback, MOST_WINDOWS
    if config.linear_per_series:
        parts, inputs, most = config.n_series, config.lookback + config.linear_level, MOST_OWN_WINDOWS
    runs = None if config.scale_windows else windows.runs
    if runs and RUN * len(runs) + parts * (config.lookback + config.horizon) < min(len(windows), most):
        runs = [run._replace(values=_without_cycle(network, run)) for run in runs]
        part = torch.tensor([run.series if config.linear_per_series else 0 for run in runs])
        return moments_of_runs(runs, part, parts, config.lookback, config.horizon, config.linear_level)
    return moments_of_batches(windows, most, (parts, inputs, config.horizon), read)


def _without_cycle(network: SimbaForecaster, run: Run) -> Tensor:
    """The run's values in float64, less the series' cycle."""
    values = run.values.double()
    if network.cycle is None:
        return values
    series, step = torch.tensor([[run.series], [run.step]], device=values.device)
    return values - network.cycle(series, step, len(values))[0]
