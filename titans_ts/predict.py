"""Forecasts from the end of a panel's series, those that a network was trained on and those that it never saw."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from .devices import isolated
from .model import Batch, ModelConfig, SimbaForecaster, point_of
from .model.covariates import standardised
from .model.layers import Cycle
from .stream.reading import Core
from .tables.clock import LocalClock
from .tables.panel import Panel
from .training.evaluate import EVALUATION_BATCH
from .windows.cross_series import CrossSeriesFeatures
from .windows.scaler import Scaler
from .windows.seasonal import seasonal_profiles
from .windows.windows import Windows, clock_shifts, on_device

Correction = Callable[[Batch, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Seen:
    """Series as a network sees them: at which scale, and by which number.

    Parameters
    ----------
    core : Core
    scaler : Scaler
    constant : ndarray of bool, shape (n_series,)
        Which have no scale, and are forecast as they are.
    """

    core: Core
    scaler: Scaler
    constant: np.ndarray

    @classmethod
    def of(cls, network: SimbaForecaster, scaler: Scaler, panel: Panel, series: np.ndarray) -> Seen:
        """Series number `series` (n_series,) of those trained on, -1 for one that was not.

        A series that was not trained on is scaled by the rows given, and forecast minus their seasonal profile if they
        cover one and the network was initialised with profiles. So is one that did not vary where it was trained on.
        If rows that give the scale are constant, so is the forecast.
        """
        scaler, n_series = scaler.take(series), len(scaler.mean)
        unseen = np.flatnonzero((series < 0) | (scaler.std == 0))
        scaler, constant = _scaled_by_own_rows(scaler, panel, unseen)
        forward: Callable[[Batch], Tensor] = network
        remembered = series.copy()
        remembered[unseen] = n_series
        if len(unseen) and network.cycle is not None:
            others = panel.take(unseen).data
            profiles = np.zeros((len(unseen), network.cycle.period))
            if network.cycle.seasonal:
                scaled = scaler.take(unseen).transform(others)
                profiles = seasonal_profiles(scaled, others.lengths, network.cycle.period)
                profiles *= network.cycle.seasonal.item() * (others.lengths >= network.cycle.period)[:, None]
            series = series.copy()
            series[unseen] = len(network.cycle.profile) + np.arange(len(unseen))
            forward = partial(network, cycle=_with_profiles(network.cycle, profiles))
        return cls(Core(network, series, remembered, forward), scaler, constant)


@isolated()
def recursive_forecast(
    seen: Seen,
    panel: Panel,
    steps: int,
    correct: Correction | None = None,
    covariates: np.ndarray | None = None,
) -> np.ndarray:
    """Forecast the steps after the last row of each series; past the horizon, point forecasts stand for what came.

    Parameters
    ----------
    seen : Seen
        The panel's series.
    panel : Panel
    steps : int
    correct : callable, optional
        Is given windows and their forecasts (samples, horizon), and returns what is added to these. The numbers of the
        windows' series are those of the panel.
    covariates : ndarray, shape (n_series, steps, columns), optional
        Those of the steps, for a network that reads them, NaN where they are not known: the last ones stay.

    Returns
    -------
    ndarray, shape (n_series, steps, outputs), float64
        In the units of the data.
    """
    forecast = _forecast(seen, panel.tail(recent_rows(panel, seen.core.network)), steps, correct, covariates)
    forecast[seen.constant] = 0
    return seen.scaler.inverse(forecast)


def _scaled_by_own_rows(scaler: Scaler, panel: Panel, without: np.ndarray) -> tuple[Scaler, np.ndarray]:
    """The scaler with the scale of the rows given for series `without` one of training, and which are constant."""
    constant = np.zeros(panel.n_series, dtype=bool)
    if len(without):
        data = panel.take(without).data
        found = Scaler.fit(data, data.lengths)
        scaler.mean[without], scaler.std[without] = found.mean, found.std
        low, high = (extreme.reduceat(data.values, data.offsets) for extreme in (np.minimum, np.maximum))
        constant[without] = low == high
    return scaler, constant


def recent_rows(panel: Panel, network: SimbaForecaster) -> np.ndarray:
    """Rows of each series that a forecast reads, (n_series,): its last lookback, and those at the times of others'."""
    rows = np.full(panel.n_series, network.config.lookback)
    if network.cross_series is not None:
        rows += panel.data.ends - panel.data.ends.min()
    return rows


def _with_profiles(cycle: Cycle, profiles: np.ndarray) -> Cycle:
    """A cycle with the seasonal profiles of further series, (further, period), after those of `cycle`, which stays."""
    trained = cycle.profile
    both = torch.cat([trained, torch.from_numpy(profiles).to(trained)])
    extended = Cycle(len(both), cycle.period).to(trained)
    extended.begin_at(both)
    return extended


@torch.no_grad()
def _forecast(
    seen: Seen, panel: Panel, steps: int, correct: Correction | None, covariates: np.ndarray | None
) -> np.ndarray:
    """(n_series, steps, outputs) at the scale of each series."""
    network, series = seen.core.network, seen.core.series
    config = network.config
    n_blocks = math.ceil(steps / config.horizon)
    data = on_device(seen.scaler.transform_panel(panel), network.device, config.covariates)
    cross_series = None
    if network.cross_series is not None:
        cross_series = CrossSeriesFeatures(
            data,
            lookback=config.lookback,
            n_series=config.n_series,
            series=series,
            ahead=n_blocks * config.horizon,
        )
    contexts = Windows(
        data,
        lookback=config.lookback,
        horizon=0,
        first=data.lengths,
        last=data.lengths,
        series=series,
        cross_series=cross_series,
        ahead=config.horizon,
    )
    batches = list(contexts.batches(EVALUATION_BATCH))
    numbers = torch.arange(panel.n_series, device=network.device).split(EVALUATION_BATCH)  # one window a series
    blocks = []
    for i in range(n_blocks):
        forecasts = [seen.core.forward(batch) for batch in batches]
        if correct is not None:
            forecasts = [
                forecast + correct(batch._replace(series=number), point_of(forecast)).unsqueeze(-1)
                for batch, forecast, number in zip(batches, forecasts, numbers, strict=True)
            ]
        blocks.append(torch.cat(forecasts))
        if i + 1 < n_blocks:
            batches = _moved_on(batches, forecasts, cross_series, data.clock)
            if config.covariates:
                ahead = _ahead(covariates, i * config.horizon, config, panel.n_series)
                parts = torch.from_numpy(ahead).to(network.device).split(EVALUATION_BATCH)
                batches = [_with_covariates(batch, part) for batch, part in zip(batches, parts, strict=True)]
    return torch.cat(blocks, dim=1)[:, :steps].double().cpu().numpy()


def _ahead(covariates: np.ndarray | None, first: int, config: ModelConfig, n_series: int) -> np.ndarray:
    """The covariates of a horizon from step `first` on, (n_series, horizon, columns) float32; NaN where not known."""
    if covariates is None:
        return np.full((n_series, config.horizon, len(config.covariates)), np.nan, dtype=np.float32)
    return standardised(covariates[:, first : first + config.horizon], config.covariates)


def _with_covariates(batch: Batch, ahead: Tensor) -> Batch:
    """A batch moved on by a horizon, its covariates with those `ahead` (samples, horizon, columns)."""
    past = batch.covariates
    if past is None:
        raise ValueError("`batch` must have covariates.")
    ahead = torch.where(ahead.isnan(), past[:, -1:], ahead)
    return batch._replace(covariates=torch.cat([past, ahead], dim=1)[:, -past.shape[1] :])


def _moved_on(
    batches: list[Batch], forecasts: list[Tensor], cross_series: CrossSeriesFeatures | None, clock: LocalClock | None
) -> list[Batch]:
    """The windows one horizon later, the points of their forecasts (samples, horizon, outputs) taken for what came."""
    horizon = forecasts[0].shape[1]
    if cross_series is not None:
        for batch, forecast in zip(batches, forecasts, strict=True):
            cross_series.write(batch.series, batch.time_index + batch.past.shape[1], point_of(forecast))
    moved = []
    for batch, forecast in zip(batches, forecasts, strict=True):
        lookback, new, padding_mask = batch.past.shape[1], point_of(forecast), batch.padding_mask
        time_index = batch.time_index + horizon
        if padding_mask is not None:
            padding_mask = torch.cat([padding_mask, torch.ones_like(new, dtype=torch.bool)], dim=1)[:, -lookback:]
        moved.append(
            batch._replace(
                past=torch.cat([batch.past, new], dim=1)[:, -lookback:],
                time_index=time_index,
                padding_mask=padding_mask,
                clock_shift=clock_shifts(clock, time_index, lookback + horizon),
                # Read when all are written: a window's features are of the series of other batches too.
                cross_series=None if cross_series is None else cross_series.at(time_index),
            )
        )
    return moved
