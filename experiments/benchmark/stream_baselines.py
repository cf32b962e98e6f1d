"""What a memory over a stream is measured against: each row forecasts all origins in order, and learns as it may.

A row is a generator of `Block`s; at each origin it reads the rows before it, and learns from windows that have matured,
so with full delay. Its `Clock` times what it learns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy.signal import lfilter  # type: ignore[import-untyped]
from torch import Tensor

from benchmark.stream_core import Core, ridge_regression
from benchmark.stream_data import Block, Clock, Stream, parts_of
from titans_ts.model import SimbaForecaster
from titans_ts.training.closed_form import linear_moments
from titans_ts.training.moments import Moments

HALF_LIVES = 1, 3, 7, 14, 30, 90  # days, of which validation chooses that of the mean of errors
RIDGES = tuple(10.0**k for k in range(-6, 2))  # of recursive least squares, times the mean eigenvalue
BATCH = 4096  # windows that a network reads at a time


def seasonal_naive(stream: Stream, season: int) -> Iterator[Block]:
    """Repeat the last `season` rows; the last value with a season of 1."""
    ahead = torch.arange(stream.horizon) % season - season
    for origins in parts_of(stream.origins, stream.most_origins):
        first = torch.arange(origins.start, origins.stop)
        yield Block(origins.start, stream.values[:, first.unsqueeze(1) + ahead])


def drift(stream: Stream) -> Iterator[Block]:
    """The line through the first row of all and the last one known, on; as `titans_ts.Drift`."""
    ahead = torch.arange(1, stream.horizon + 1)
    for origins in parts_of(stream.origins, stream.most_origins):
        first = torch.arange(origins.start, origins.stop)
        last = stream.values[:, first - 1]
        slope = (last - stream.values[:, :1]) / (first - 1)
        yield Block(origins.start, last.unsqueeze(-1) + slope.unsqueeze(-1) * ahead)


def simple_mean(stream: Stream) -> Iterator[Block]:
    """The mean of seasonal naive, drift and the network as it is; as `compare` has it."""
    parts = seasonal_naive(stream, stream.season), drift(stream), frozen(stream, stream.network, stream.origins)
    for blocks in zip(*parts, strict=True):
        yield Block(blocks[0].first, torch.stack([block.forecast for block in blocks]).mean(0))


@torch.no_grad()
def network_forecast(stream: Stream, network: SimbaForecaster, origins: range) -> Tensor:
    """A network's forecasts at origins that follow one another: (n_series, origins, horizon)."""
    found = [network(batch)[..., 0] for batch in stream.windows(origins).batches(BATCH)]
    return torch.cat(found).view(stream.n_series, len(origins), stream.horizon)


def frozen(stream: Stream, network: SimbaForecaster, origins: range) -> Iterator[Block]:
    """A network as it is."""
    for part in parts_of(origins, stream.most_origins):
        yield Block(part.start, network_forecast(stream, network, part))


class Span(NamedTuple):
    """Origins that follow one another, and the core that forecasts them."""

    origins: range
    network: SimbaForecaster


def solved_again(core: Core, clock: Clock, every: int) -> Iterator[Span]:
    """The core, solved for again each `every` origins on all windows that have matured since the stream began."""
    stream, learned, until = core.stream, core.learned.clone(), core.train.stop
    for origins in parts_of(stream.origins, every):
        with clock.update():
            matured = stream.matured(origins.start)
            if matured > until:
                learned.add_(core.of_windows(range(until, matured)))
                until = matured
            network = core.network(learned)
        yield Span(origins, network)


def refitted(core: Core, clock: Clock, every: int) -> Iterator[Block]:
    """The forecasts of a core that is `solved_again`."""
    for span in solved_again(core, clock, every):
        yield from frozen(core.stream, span.network, span.origins)


def frozen_later(core: Core, clock: Clock) -> Iterator[Block]:
    """The core, solved for once on the windows of train and validation rows; it forecasts test alone."""
    stream = core.stream
    with clock.update():
        later = core.of_windows(range(core.train.stop, stream.matured(stream.validation_end)))
        network = core.network(core.learned.clone().add_(later))
    yield from frozen(stream, network, stream.test)


def recursive_least_squares(stream: Stream, clock: Clock, half_life: float, every: int) -> Iterator[Block]:
    """Least squares of each series by itself on what the core's linear path reads, older windows counting less.

    That is the window minus seasonal profile and window mean, and the mean where the core reads it. The moments decay
    to a half in `half_life` origins, and the weights are solved for again each `every` origins. The ridge is the one
    whose weights at the end of train err least on the validation windows.

    Parameters
    ----------
    stream : Stream
    clock : Clock
    half_life : float
        Infinite to forget nothing.
    every : int
        Origins between updates, within which all count alike.
    """
    with torch.no_grad():
        moments, until = None, stream.lookback
        known = range(stream.lookback, stream.matured(stream.train_end))
        for part in parts_of(known, every if math.isfinite(half_life) else max(1, len(known))):
            moments, until = _discounted(moments, _moments(stream, part), 0.5 ** (len(part) / half_life)), part.stop
        if moments is None:
            raise ValueError("no window of the train rows has matured where validation begins; use a shorter horizon.")
        ridge = _best_ridge(stream, moments)
        for origins in parts_of(stream.origins, every):
            with clock.update():
                if (matured := stream.matured(origins.start)) > until:
                    new = _moments(stream, range(until, matured))
                    moments, until = _discounted(moments, new, 0.5 ** ((matured - until) / half_life)), matured
                weight = ridge_regression(moments, torch.zeros_like(moments.xy), ridge)
            for part in parts_of(origins, stream.most_origins):
                yield Block(part.start, _linear_forecast(stream, weight, part))


def error_mean(stream: Stream, clock: Clock) -> Iterator[Block]:
    """The frozen core plus the exponential mean of its matured errors, of each series and step ahead.

    The mean begins at 0 with the first origin of validation. Its half-life is that of `HALF_LIVES` which errs least on
    validation.
    """
    errors = dict.fromkeys(HALF_LIVES, 0.0)
    for days in HALF_LIVES:
        for block in _corrected(stream, Clock(), days * stream.day, stream.validation):
            origins = range(block.first, block.first + block.forecast.shape[1])
            scaled = (block.forecast - stream.future(origins)) * stream.ratio[:, None, None]
            errors[days] += scaled.double().square().sum().item()
    yield from _corrected(stream, clock, min(errors, key=errors.__getitem__) * stream.day, stream.origins)


def _corrected(stream: Stream, clock: Clock, half_life: float, origins: range) -> Iterator[Block]:
    decay = 0.5 ** (1 / half_life)
    pending = np.zeros((stream.n_series, stream.horizon, stream.horizon), dtype=np.float32)  # none before the first
    state = np.zeros((stream.n_series, 1, stream.horizon))
    for block in frozen(stream, stream.network, origins):
        count = block.forecast.shape[1]
        with clock.update(count):
            # An error is appended at its own origin, and read `horizon` origins later, when its rows have come.
            new = stream.future(range(block.first, block.first + count)) - block.forecast
            known = np.concatenate([pending, new.numpy()], axis=1)
            pending = known[:, count:]
            mean, state = lfilter([1 - decay], [1, -decay], known[:, :count], axis=1, zi=state)
            forecast = block.forecast + torch.from_numpy(mean).float()
        yield Block(block.first, forecast)


def _moments(stream: Stream, origins: range) -> Moments:
    return linear_moments(
        stream.linear_network, stream.windows(origins), torch.arange(stream.n_series), normalised=True
    )


def _discounted(moments: Moments | None, new: Moments, decay: float) -> Moments:
    return new if moments is None else Moments(*(decay * x + y for x, y in zip(moments, new, strict=True)))


def _best_ridge(stream: Stream, moments: Moments) -> float:
    parts = torch.arange(stream.n_series)
    scored = linear_moments(stream.linear_network, stream.windows(stream.validation), parts, normalised=False)
    errors = []
    for ridge in RIDGES:
        weight = ridge_regression(moments, torch.zeros_like(moments.xy), ridge)
        errors.append((scored.errors(weight) * stream.ratio.square()).mean().item())
    return RIDGES[errors.index(min(errors))]


def _linear_forecast(stream: Stream, weight: Tensor, origins: range) -> Tensor:
    """Forecasts with weights (n_series, inputs, horizon) of each series: (n_series, origins, horizon)."""
    network, found = stream.linear_network, []
    linear = network.linear
    if linear is None:
        raise ValueError("the core must have a linear path.")
    for batch in stream.windows(origins).batches(len(origins)):  # one series in each
        seen = network.normalised(batch)
        past = linear.per_series_inputs(seen.past, seen.window_mean) if linear.per_series is not None else seen.past
        forecast = past @ weight[int(batch.series[0])].float()
        found.append(forecast * seen.stats.std + seen.stats.mean + seen.ahead)
    return torch.stack(found)
