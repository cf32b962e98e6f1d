"""Forecasts from the end of a panel's series, those that a network was trained on and those that it never saw."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from .calendar import show
from .frames import Panel
from .model import ModelConfig, SimbaForecaster
from .surroundings import Surroundings
from .training import EVALUATION_BATCH
from .windows import Batch, Scaler, Windows, profiles

FARTHEST = 1e15  # deviations from a series' mean; squares of more leave float32


def roll_forward(
    network: SimbaForecaster, scaler: Scaler, panel: Panel, series: np.ndarray, steps: int, seasonal: bool
) -> np.ndarray:
    """Forecast the steps after each series' last row, past the horizon in blocks.

    A series that was not trained on is seen at the scale of its own rows, and less their season if they cover one.
    If they are constant, so is the forecast.

    Parameters
    ----------
    network : SimbaForecaster
    scaler : Scaler
        Of the series trained on.
    panel : Panel
    series : ndarray of int, shape (n_series,)
        The number that the network knows each series of `panel` by, -1 for one that it does not know.
    steps : int
    seasonal : bool
        Whether the network takes each series' season off its values, so that an unknown series' must be taken off too.

    Returns
    -------
    ndarray, shape (n_series, steps), float64
        In the units of the data.
    """
    scaler = Scaler(scaler.mean[series], scaler.std[series])
    constant = np.zeros(panel.n_series, dtype=bool)
    profile = None
    unseen = np.flatnonzero(series < 0)
    if len(unseen):
        others = panel.take(unseen)
        own = Scaler.fit(others.values, others.lengths, others.lengths, others.observed)
        scaler.mean[unseen], scaler.std[unseen] = own.mean, own.std
        low, high = (extreme.reduceat(others.values, others.offsets) for extreme in (np.minimum, np.maximum))
        constant[unseen] = low == high
        if network.cycle is not None:
            trained = network.cycle.profile
            own_season = seasonal * _seasons(others, own, network.cycle.period)
            profile = torch.cat([trained, torch.from_numpy(own_season).to(trained)])
            series = series.copy()
            series[unseen] = len(trained) + np.arange(len(unseen))
    forecast = _forecast(network, profile, recent(panel, network.config), scaler, series, steps)
    forecast[constant] = 0
    return scaler.inverse(forecast)


def recent(panel: Panel, config: ModelConfig) -> Panel:
    """The rows that a forecast reads: the last lookback of each series, and those of others at the same times."""
    rows = np.full(panel.n_series, config.lookback)
    if config.linear_across:
        rows += panel.ends - panel.ends.min()
    return panel.tail(rows)


def to_scale(panel: Panel, scaler: Scaler) -> np.ndarray:
    """Values (rows,) at their scale; ValueError where one lies too far from all that the scale was taken from."""
    scaled = scaler.transform(panel.values, panel.lengths)
    if scaled.min() >= -FARTHEST and scaled.max() <= FARTHEST:
        return scaled
    row = int(np.abs(scaled).argmax())
    i = int(np.searchsorted(panel.offsets, row, side="right")) - 1
    label = show(panel.calendar.labels(panel.starts[i : i + 1] + row - panel.offsets[i])[0])
    raise ValueError(
        f"series {panel.ids[[i]].tolist()[0]!r} has {panel.values[row]:g} at {label}, more than {FARTHEST:g} "
        "deviations from the mean of the rows it was trained on; correct the value."
    )


@torch.no_grad()
def _forecast(
    network: SimbaForecaster, profile: Tensor | None, panel: Panel, scaler: Scaler, series: np.ndarray, steps: int
) -> np.ndarray:
    """(n_series, steps) at the scale of each series; `profile` is the cycle's, if other than trained."""
    lookback, device = network.config.lookback, network.persistent.device
    replaced = {} if profile is None else {"cycle.profile": profile}

    def answer(*inputs: Tensor | None) -> Tensor:
        out: Tensor = functional_call(network, replaced, inputs) if replaced else network(*inputs)
        return out

    values = torch.from_numpy(to_scale(panel, scaler).astype(np.float32)).to(device)
    n_blocks = math.ceil(steps / network.config.horizon)
    around = None
    if network.across is not None:
        around = Surroundings(
            *(values, panel.lengths, panel.starts, series),
            lookback=lookback,
            n_series=network.config.n_series,
            ahead=n_blocks * network.config.horizon,
        )
    contexts = Windows(
        values,
        *(panel.lengths, panel.starts),
        lookback=lookback,
        horizon=0,
        first=panel.lengths,
        last=panel.lengths,
        series=series,
        around=around,
    )
    batches = list(contexts.batches(EVALUATION_BATCH))
    blocks = []
    for i in range(n_blocks):
        answers = [answer(batch.past, batch.step, batch.series, batch.mask, batch.around) for batch in batches]
        blocks.append(torch.cat(answers))
        if i + 1 < n_blocks:
            batches = _moved_on(batches, answers, around)
    return torch.cat(blocks, dim=1)[:, :steps, 0].double().cpu().numpy()


def _moved_on(batches: list[Batch], answers: list[Tensor], around: Surroundings | None) -> list[Batch]:
    """The windows one horizon later, their forecasts (samples, horizon, 1) taken for what came."""
    if around is not None:
        for batch, new in zip(batches, answers, strict=True):
            around.write(batch.series[:, 0], batch.step + batch.past.shape[1], new[..., 0])
    moved = []
    for batch, new in zip(batches, answers, strict=True):
        lookback, step, mask = batch.past.shape[1], batch.step + new.shape[1], batch.mask
        if mask is not None:
            mask = torch.cat([mask, torch.ones_like(new, dtype=torch.bool)], dim=1)[:, -lookback:]
        moved.append(
            batch._replace(
                past=torch.cat([batch.past, new], dim=1)[:, -lookback:],
                step=step,
                mask=mask,
                around=None if around is None else around.at(step),
            )
        )
    return moved


def _seasons(panel: Panel, scaler: Scaler, period: int) -> np.ndarray:
    """The season of each series, (n_series, period); 0 where its rows do not cover one."""
    scaled = scaler.transform(panel.values, panel.lengths)
    found = profiles(scaled, panel.lengths, panel.starts, panel.lengths, period, panel.observed)
    return found * (panel.lengths >= period)[:, None]
