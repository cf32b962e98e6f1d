"""The closed-form initialisation: a strong linear forecast before the first gradient step.

The linear path is least squares on the training windows. The ridge, the ends of a window that it reads, whether windows
are scaled and whether the training profile is taken away are chosen on the validation windows, by `relative_error`,
which no single series can decide. All of it needs second moments alone, so a window is read once.

Source: RLinear and DLinear (Li et al., 2023; Zeng et al., 2023) show how far a linear map goes; CycleNet (Lin et al.,
2024) what a cycle adds; Bates and Granger (1969) what the mean of two forecasts does, Hansen (2008) that of
regressions on ever more lags; Litterman (1986) that older lags are to be shrunk harder.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from titans_ts.devices import seeded
from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.model.linear import LinearPath
from titans_ts.progress import Progress
from titans_ts.windows.windows import Run, Windows

from .evaluate import loss_by_series
from .moments import Moments, moments_of_batches, moments_of_origins, moments_of_runs
from .past_path import solve_past_path
from .quantile_widths import initialise_widths
from .relative import naive_errors, relative_error
from .ridge import (
    RIDGE_UNVALIDATED,
    RIDGES,
    Scoring,
    ridge_at_any_scale,
    ridge_regression,
    scored_series,
    weight_of_series,
)

MOST_PRODUCTS = 1.5e11  # of inputs with all that is summed up for cross-series weights, over all origins that are read
MOST_WINDOWS = 2**16  # read, where each is read by itself
MOST_PER_SERIES_WINDOWS = 2**18  # the same in all, for per-series weights
# How much weights that read the window mean count beside those that do not: for the next step, and far ahead.
WINDOW_MEAN_SHARES = 0.5, 0.75
WINDOW_MEAN_LOOKBACKS = 3.5  # in so many the share covers all but 1/e of its way from the next step to far ahead
LAG_DECAY = 0.5  # how far from its anchor a weight is expected falls with this power of the lag
PARTS = 5  # ends of a window that a path may read: its whole, its last half, its last quarter, ...
RUN = 32  # windows that are read one by one in the time that a run of any length takes
INITIALISED = ("cycle", "linear", "cross_series", "past_path", "quantiles")  # the parts that are set here


class Sample(NamedTuple):
    """Some of the steps ahead, evenly spaced, and the most windows to read one by one: enough to compare paths."""

    stride: int = 1
    most: int = sys.maxsize

    @property
    def steps(self) -> slice:
        """The steps ahead that are forecast, the last of each stride."""
        return slice(self.stride - 1, None, self.stride)

    def size(self, horizon: int) -> int:
        """How many these are."""
        return horizon // self.stride


ALL = Sample()


class Solution(NamedTuple):
    """A linear path, and its relative error on the validation windows."""

    error: float
    weight: Tensor  # (lookback, horizon)
    added: Tensor  # (n_series, inputs, horizon), what per-series weights add to it; (0, ...) without them


def initialised_network(
    config: ModelConfig,
    train: Windows,
    validation: Windows | None,
    profile: Tensor | None,
    random_state: int,
    share: float | None = None,
    progress: Progress | None = None,
) -> SimbaForecaster:
    """A new network on the windows' device in its closed-form initialisation.

    Its random weights are fixed by `random_state`; `profile` (n_series, period) is what its cycle may begin at. Where
    `config.scale_windows` is None, the scaling with the lower validation error is chosen; without a linear path there
    is nothing to compare, and windows are scaled. `share` is `initialise`'s. Where `progress` has no time left for
    another candidate, the first is taken.
    """
    progress = Progress() if progress is None else progress
    scalings = [config.scale_windows]
    if config.scale_windows is None:
        scalings = [False, True] if config.linear_path else [True]
    candidates = []
    for scaling in scalings:
        begun = progress.elapsed
        with seeded(random_state):
            network = SimbaForecaster(replace(config, scale_windows=scaling))
        network = network.to(train.device).eval()
        candidates.append((initialise(network, train, validation, profile, share), network))
        if progress.lacks(progress.elapsed - begun):
            break
    chosen = min(candidates, key=lambda pair: pair[0])[1]
    initialise_widths(chosen, train)
    return chosen


def reinitialised_network(network: SimbaForecaster, random_state: int, **changes: Any) -> SimbaForecaster:
    """A new network in the initialisation of another, as `initialised_network` makes it with this `random_state`.

    With changes of the other's configuration in what the closed form has no part of, such as its mixer.
    """
    config = replace(network.config, **changes)
    with seeded(random_state):
        new = SimbaForecaster(config)
    kept = {name: value for name, value in network.state_dict().items() if name.partition(".")[0] in INITIALISED}
    new.load_state_dict(kept, strict=False)
    return new.to(network.device).eval()


@torch.no_grad()
def initialise(
    network: SimbaForecaster,
    train: Windows,
    validation: Windows | None,
    profile: Tensor | None = None,
    share: float | None = None,
) -> float:
    """Set the linear paths, and the cycle where its `profile` (n_series, period) helps, in place.

    `share` is how much of the profile is taken away where that is known; if None, validation chooses all or nothing.

    Only windows without a row to forecast that was filled in count; where there is none, the linear path begins at the
    window mean or at the last value, whichever agrees better with the rows that were observed.

    Returns the relative error on the validation windows, or on the training windows where there are none; NaN for a
    network without a linear path.
    """
    if network.cycle is not None and profile is not None:
        network.cycle.begin_at(profile, 1.0 if share is None else share)
    if network.linear is None:
        return float("nan")
    config, observed = network.config, train.without_filled
    if observed is None:
        return _initialise_at_anchor(network, network.linear.weight, train if validation is None else validation)
    train, validation = observed, None if validation is None else validation.without_filled
    scored = train if validation is None else validation
    if config.linear_per_series:
        naive = per_series_naive_errors(config, scored)
    else:
        naive = naive_errors(scored, most=MOST_WINDOWS)
    found = solve(network, train, validation, naive)
    if network.cycle is not None and profile is not None and share is None:
        network.cycle.begin_at(None)
        without = solve(network, train, validation, naive)
        if without.error < found.error:
            found = without
        else:
            network.cycle.begin_at(profile)
    network.linear.weight.copy_(found.weight)
    if network.linear.per_series is not None:
        network.linear.per_series.copy_(found.added)
    error = found.error
    if network.cross_series is not None:
        error, weight = solve_cross_series(network, train, validation, naive)
        network.cross_series.weight.copy_(weight)
    if network.past_path is not None:
        error, weight = solve_past_path(network, train, validation, naive)
        network.past_path.weight.copy_(weight)
    return error


def per_series_naive_errors(config: ModelConfig, windows: Windows, most: int = MOST_WINDOWS) -> Tensor:
    """The naive errors of all series that have weights, (n_series,), NaN for those without windows."""
    naive = naive_errors(windows, most=most)
    return pad(naive, (0, config.n_series - len(naive)), value=math.nan)


def _initialise_at_anchor(network: SimbaForecaster, weight: Tensor, windows: Windows) -> float:
    """The linear path, its `weight`, at the window mean, or at the last value if nearer; the error on `windows`."""
    naive, errors = naive_errors(windows, most=MOST_WINDOWS), []
    weight.zero_()
    for last in (1.0, 0.0):
        weight[-1] = last
        totals, counts = loss_by_series(network, windows, most=MOST_WINDOWS)
        errors.append(relative_error(totals / counts, naive, windows.series_weight).item())
    weight[-1] = float(errors[0] < errors[1])
    return min(errors)


def solve(
    network: SimbaForecaster, train: Windows, validation: Windows | None, naive: Tensor, sample: Sample = ALL
) -> Solution:
    """The linear path with the least validation error: the mean of those that read a window's whole, its last half, ...

    The validation windows choose how many, for the common path and for the per-series ones. Such a mean fits the
    training windows less well than the path that reads them whole, but where a series has changed since, each part errs
    in a different way. With a `sample` the weights are those of some of the steps ahead, from some of the windows.
    """
    config, lookback = network.config, network.config.lookback
    # A ridge shrinks all weights alike, so the inputs carry what is expected of theirs.
    expected = _expected_weights(config, LAG_DECAY if validation is not None else 0.0, train.device)
    parts = (
        torch.arange(config.n_series) if config.linear_per_series else torch.zeros(train.n_series, dtype=torch.int64)
    )
    moments = linear_moments(network, train, parts, normalised=True, sample=sample).scaled(expected)
    scored_windows = train if validation is None else validation
    weight = weight_of_series(config, scored_windows)
    scored = parts if config.linear_per_series else scored_series(config, len(naive), weight)
    if not config.linear_per_series:
        naive, weight = naive[scored >= 0], None if weight is None else weight[scored >= 0]
    moments_scored = linear_moments(network, scored_windows, scored, False, sample)
    scoring = Scoring(moments_scored, naive, weight).scaled(expected)
    ridges, ends = (RIDGES, PARTS) if validation is not None else ((RIDGE_UNVALIDATED,), 1)
    unread = [lookback - (lookback >> i) for i in range(ends) if i == 0 or lookback >> i > 1]
    solved = [_solve_part(config, moments.since(n), scoring.since(n), len(train), ridges, sample) for n in unread]
    error, weight = _best_mean([common for common, _ in solved], scoring.first(lookback))
    if not config.linear_per_series:
        return Solution(error, weight * expected, weight.new_zeros(0, *weight.shape))
    error, each = _best_mean([weights for _, weights in solved if weights is not None], scoring)
    added = each - _with_window_mean(weight, config)
    return Solution(error, weight * expected[:lookback], added * expected)


def _expected_weights(config: ModelConfig, decay: float, device: torch.device) -> Tensor:
    """The expected distance of each weight from its anchor, up to a factor: (inputs, 1), the oldest lag first.

    lag ** -decay (Litterman, 1986); that of the window mean as far as that of the last value.
    """
    lag = torch.arange(config.lookback, 0, -1, dtype=torch.float64, device=device)
    return pad(lag**-decay, (0, int(config.linear_window_mean)), value=1.0).unsqueeze(1)


def _best_mean(paths: list[Tensor], scoring: Scoring) -> tuple[float, Tensor]:
    """The least error by `scoring` of the mean of the first path, the first two, ..., and that mean.

    Each path reads the last of the inputs that the first one reads.
    """
    total = torch.zeros_like(paths[0])
    best, kept = math.inf, torch.zeros_like(total)
    for n, path in enumerate(paths, start=1):
        total[..., -path.shape[-2] :, :] += path
        mean = total / n
        if (error := scoring.error(mean)) < best:
            best, kept = error, mean
    return best, kept


def _solve_part(
    config: ModelConfig,
    moments: Moments,
    scoring: Scoring,
    n_windows: int,
    ridges: Sequence[float],
    sample: Sample,
) -> tuple[Tensor, Tensor | None]:
    """The common path and the per-series ones, from the moments of what they read.

    The common one is shrunk towards the window mean. Fewer windows than unknowns leave much to that, so there the
    window's last value is a candidate too. By eigenvalues, so that a singular matrix does no harm.

    The per-series ones are shrunk towards the common one, by a ridge in proportion to the series' moments that is
    chosen for all at once. Those that read the window mean are averaged with those that do not: how soon a series
    returns to its mean differs from one season to the next, of which the validation windows are one. That it returns is
    the surer the further ahead.
    """
    steps = moments.xx.shape[-1] - config.linear_window_mean
    pooled, without_mean = moments.pooled(steps), scoring.first(steps)
    anchors = [torch.zeros_like(pooled.xy)]
    if n_windows < steps:
        anchors.append(torch.zeros_like(pooled.xy))
        anchors[1][-1] = 1
    found = [(*ridge_regression(pooled, without_mean, anchor, ridges), anchor) for anchor in anchors]
    _, away, anchor = min(found, key=lambda candidate: candidate[0])
    weight = anchor + away
    if not config.linear_per_series:
        return weight, None
    _, added = ridge_regression(moments.first(steps), without_mean, weight, ridges)
    if not config.linear_window_mean:
        return weight, weight + added
    anchor = _with_window_mean(weight, config)
    _, reading_mean = ridge_regression(moments, scoring, anchor, ridges)
    share = _window_mean_share(config, weight.device)[sample.steps]
    return weight, anchor + (1 - share) * _with_window_mean(added, config) + share * reading_mean


def _window_mean_share(config: ModelConfig, device: torch.device) -> Tensor:
    """How much the weights that read the window mean count in the mean, for each step ahead: (horizon,)."""
    ahead = torch.arange(1, config.horizon + 1, dtype=torch.float64, device=device)
    near, far = WINDOW_MEAN_SHARES
    return far - (far - near) * (-ahead / (WINDOW_MEAN_LOOKBACKS * config.lookback)).exp()


def _with_window_mean(weight: Tensor, config: ModelConfig) -> Tensor:
    """The weights of a path that does not read the window mean as those of one that may: (..., inputs, horizon)."""
    return pad(weight, (0, 0, 0, int(config.linear_window_mean)))


def solve_cross_series(
    network: SimbaForecaster, train: Windows, validation: Windows | None, naive: Tensor
) -> tuple[float, Tensor]:
    """The error, and the weights (n_series, inputs, horizon) of what all series say about what is left of each."""
    moments = cross_series_moments(network, network.linear, train)
    scored = moments if validation is None else cross_series_moments(network, network.linear, validation)
    ridges = RIDGES if validation is not None else (RIDGE_UNVALIDATED,)
    weight = weight_of_series(network.config, train if validation is None else validation)
    return ridge_at_any_scale(moments, Scoring(scored, naive, weight), ridges)


def cross_series_moments(
    network: SimbaForecaster, linear: LinearPath | None, windows: Windows, sample: Sample = ALL
) -> Moments:
    """Moments of what all series did, and of what the path `linear` leaves of each, in the scale of the data.

    The inputs depend on the time index alone: series whose windows are aligned share their moments.
    """
    config = network.config
    if network.cross_series is None:
        raise ValueError("`network` must have a cross-series path.")
    shape = config.n_series, network.cross_series.n_inputs, sample.size(config.horizon)

    def left_of(batch: Batch) -> Tensor:
        seen = network.normalised(batch, cross_series=False)
        left = seen.normalise(batch.future)[:, sample.steps]
        if linear is not None:
            left = left - linear(seen.past, seen.series, seen.window_mean)
        return left * seen.stats.std

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        return network.cross_series_inputs(batch), left_of(batch), batch.series

    if windows.aligned:
        n_series, inputs, horizon = shape
        most = max(1, int(MOST_PRODUCTS / (inputs * (inputs + n_series * horizon))))
        return moments_of_origins(windows, min(most, sample.most), shape, network.cross_series_inputs, left_of)
    return moments_of_batches(windows, min(MOST_PER_SERIES_WINDOWS, sample.most), shape, read)


def linear_moments(
    network: SimbaForecaster, windows: Windows, parts: Tensor, normalised: bool, sample: Sample = ALL
) -> Moments:
    """Moments of what the linear path reads and is to forecast, over each window's scale or in the data's.

    `parts` (n_series,) says which series' moments are added up, -1 for a series that is left out. Where windows are
    read one by one, `sample` says how many at most.
    """
    config = network.config
    part_of = parts.to(windows.device)

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        seen = network.normalised(batch)
        x, y = seen.past, seen.normalise(batch.future)
        if config.linear_per_series and network.linear is not None:
            x = network.linear.per_series_inputs(x, seen.window_mean)
        if not normalised:
            x, y = x * seen.stats.std, y * seen.stats.std
        return x, y[:, steps], part_of[batch.series]

    n_parts, inputs, most = int(parts.max()) + 1, config.lookback, MOST_WINDOWS
    steps = sample.steps
    if config.linear_per_series:
        most = MOST_PER_SERIES_WINDOWS
        inputs += config.linear_window_mean
    most = min(most, sample.most)
    runs = None if config.scale_windows else windows.runs
    if runs and RUN * len(runs) + n_parts * (config.lookback + config.horizon) < min(len(windows), most):
        runs = [run._replace(values=_minus_profile(network, run)) for run in runs]
        of_run = parts[torch.tensor([run.series for run in runs])]
        shape = config.lookback, config.horizon, config.linear_window_mean
        return moments_of_runs(runs, of_run, n_parts, *shape, steps)
    return moments_of_batches(windows, most, (n_parts, inputs, sample.size(config.horizon)), read)


def _minus_profile(network: SimbaForecaster, run: Run) -> Tensor:
    """The run's values in float64, minus the series' seasonal profile."""
    values = run.values.double()
    if network.cycle is None:
        return values
    series, time_index = torch.tensor([[run.series], [run.time_index]], device=values.device)
    shift = None if run.clock_shift is None else run.clock_shift.unsqueeze(0)
    rest: Tensor = values - network.cycle(series, time_index, len(values), shift)[0]
    return rest
