"""The error by which validation and searches choose, which no single series and no outlier can decide.

Each series' error is taken over that of a naive forecast of the same windows, bounded, and averaged over the series. A
series of large values or a wild one counts as much as any other; an outlier among the rows to forecast is in both
errors, and leaves their ratio near one whatever is chosen. For a single series the order of candidates is that of the
error itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from titans_ts.windows.windows import Windows

from .losses import AnyLoss, find_loss
from .moments import BATCH

BOUND = 4.0  # what a ratio to the naive error comes to at most
SMALLEST = 1e-4  # added to both errors, of values divided by the deviation of their series: a constant one has none


def naive_errors(windows: Windows, loss: AnyLoss = "mse", most: int | None = None) -> Tensor:
    """The error of the better naive forecast of each series' windows: their last value, or the mean of the series.

    Neither depends on how many rows are read, so that relative errors of different lookbacks compare.

    Parameters
    ----------
    windows : Windows
        Of series at mean 0.
    loss : {"mse", "mae", "huber", "quantile"} or callable
        The quantile loss of a naive forecast, which is a point, is its absolute error.
    most : int, optional
        Evenly spaced windows stand for all where there are more.

    Returns
    -------
    Tensor (n_series,)
        In float64, in the scale of the windows; NaN for a series that has none of them.
    """
    totals = torch.zeros(3, windows.n_series, dtype=torch.float64, device=windows.device)
    for batch in windows.batches(BATCH, most):
        last, future = batch.past[:, -1:].double(), batch.future.double()
        for i, value in enumerate((last, torch.zeros_like(last))):
            forecast = value.expand_as(future).unsqueeze(-1)
            errors, counted = find_loss(loss).entries(forecast, future, batch.observed_mask)
            totals[i].index_add_(0, batch.series, errors.sum(1))
        totals[2].index_add_(0, batch.series, counted.sum(1))
    return totals[:2].amin(0) / totals[2]


def relative_error(errors: Tensor, naive: Tensor, weight: Tensor | None = None) -> Tensor:
    """Errors over the naive ones, each ratio r bounded to r / (1 + r / BOUND), and their mean over the series.

    Parameters
    ----------
    errors : Tensor (..., n_series)
        NaN for a series without windows, which does not count.
    naive : Tensor (n_series,)
    weight : Tensor (n_series,), optional
        How much each series counts in the mean; all alike if None.

    Returns
    -------
    Tensor (...)
        In [0, BOUND); NaN where no series counts.
    """
    ratio = (errors + SMALLEST) / (naive + SMALLEST)
    bounded = ratio / (1 + ratio / BOUND)
    if weight is None:
        return bounded.nanmean(-1)
    counted = torch.where(bounded.isnan(), 0.0, weight)
    return (bounded.nan_to_num(0.0) * counted).sum(-1) / counted.sum(-1)
