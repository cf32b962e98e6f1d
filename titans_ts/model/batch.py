"""Batch: what a network reads and is to forecast, passed whole from windows to loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """Windows of series, one sample each. A new kind of input is a new field.

    Parameters
    ----------
    past : Tensor (samples, lookback)
        What is read.
    future : Tensor (samples, horizon)
        What is to be forecast; (samples, 0) where nothing is known of it.
    time_index : Tensor of int (samples,)
        The time index of each window's first row, from which seasons take their phase.
    series : Tensor of int (samples,)
        The number of each window's series.
    padding_mask : Tensor of bool (samples, lookback), optional
        False where the past is padding; None where none is.
    observed_mask : Tensor of bool (samples, horizon), optional
        False where the future was filled in; None where none was.
    cross_series : Tensor (samples, n_series, spans), optional
        Means of all series over spans of the past, for a network that reads them; see `CrossSeriesFeatures`.
    clock_shift : Tensor of int (samples, lookback + horizon), optional
        Steps by which local clocks, which seasons follow, are ahead of the time index; None where there are none.
    covariates : Tensor (samples, lookback, columns), optional
        The covariates of the past, standardised numbers and categories by number, for a network that reads them.
    weight : Tensor (samples,), optional
        How much each window counts in what is learned from it; None where all count alike.
    """

    past: Tensor
    future: Tensor
    time_index: Tensor
    series: Tensor
    padding_mask: Tensor | None = None
    observed_mask: Tensor | None = None
    cross_series: Tensor | None = None
    clock_shift: Tensor | None = None
    covariates: Tensor | None = None
    weight: Tensor | None = None

    @property
    def n_samples(self) -> int:
        """How many windows there are."""
        return self.past.shape[0]

    def map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """`function` of every field that is there."""
        return Batch._make(None if field is None else function(field) for field in self)
