"""The widths of quantiles at first: those of the closed form's residuals on train windows.

Source: Koenker and Bassett (1978) for quantiles; the increments are those of `titans_ts.model.quantiles`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from titans_ts.model import SimbaForecaster, point_of
from titans_ts.windows.windows import Windows

from .moments import BATCH

MOST_ENTRIES = 2**22  # residuals, of evenly spaced windows, that are sorted at once
LEAST_WIDTH = 0.02  # of the mean width of a step: one of 0 could never be trained
PRIOR = 10  # windows of the usual error that are counted among those of each series
LEAST_SCALE = 1e-3  # of a series, over that of all


@torch.no_grad()
def initialise_widths(network: SimbaForecaster, train: Windows) -> None:
    """Set the widths of a network's quantiles from its residuals on train windows, in place; of points, do nothing.

    A quantile above the median is as far from the point forecast as the residuals' quantile of that level where that is
    above 0, one below the median likewise: so most quantiles are right where the residuals are skewed, too. Residuals
    are over the mean size of their series', and the widths times that.
    """
    levels = network.config.levels
    if network.quantiles is None or levels is None:
        return
    residuals, series = _residuals(network, train)
    scale = _scales(residuals, series, network.config.n_series)
    network.quantiles.scale[:-1] = scale
    network.quantiles.first.copy_(_widths(residuals / scale[series].unsqueeze(1), levels))


def _scales(residuals: Tensor, series: Tensor, n_series: int) -> Tensor:
    """The mean size of each series' residuals over that of all, (n_series,), drawn to 1 where they are few."""
    size, counted = residuals.abs().nan_to_num(0.0).double(), residuals.isfinite().double()
    total, count = (torch.zeros(n_series, dtype=torch.float64, device=size.device) for _ in range(2))
    total.index_add_(0, series, size.sum(1))
    count.index_add_(0, series, counted.sum(1))
    usual, prior = total.sum() / count.sum(), PRIOR * residuals.shape[1]
    if not usual > 0:
        return torch.ones_like(total).float()
    return ((total + prior * usual) / (count + prior) / usual).clamp(min=LEAST_SCALE).float()


def _residuals(network: SimbaForecaster, train: Windows) -> tuple[Tensor, Tensor]:
    """What the point forecasts leave of the normalised future, (windows, horizon), NaN where that was filled in.

    And the number of each window's series, (windows,).
    """
    found, series = [], []
    for batch in train.batches(BATCH, max(1, MOST_ENTRIES // network.config.horizon)):
        seen = network.normalised(batch)
        left = seen.normalise(batch.future) - point_of(network.forecast_normalised(seen))
        found.append(left if batch.observed_mask is None else left.where(batch.observed_mask, torch.nan))
        series.append(batch.series)
    return torch.cat(found), torch.cat(series)


def _widths(residuals: Tensor, levels: tuple[float, ...]) -> Tensor:
    """From residuals (windows, horizon) to widths (horizon, outputs - 1), the lowest first."""
    residuals = residuals.double().nan_to_num(torch.inf).sort(0).values
    count = residuals.isfinite().sum(0)  # what was not observed is sorted to the end
    middle = len(levels) // 2
    away = []
    for i, level in enumerate(levels):
        at = ((count - 1).clamp(min=0) * level).round().long()
        quantile = residuals.gather(0, at.unsqueeze(0))[0].where(count > 0, 0.0)
        away.append(quantile.clamp(max=0.0) if i < middle else quantile.clamp(min=0.0) if i > middle else 0 * quantile)
    widths = torch.stack(away, dim=-1).diff()
    return widths.maximum(LEAST_WIDTH * widths.mean(-1, keepdim=True)).float()
