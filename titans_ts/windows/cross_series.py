"""Cross-series features: recent means of all series, for networks in which each series reads the others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from titans_ts.model.linear import spans
from titans_ts.tables.series_data import SeriesData


class CrossSeriesFeatures:
    """The recent means of all series that a network has weights for, by time index.

    They take the memory of `n_series` series from the first step of any to the last, times about log2(lookback) + 3.

    Parameters
    ----------
    data : SeriesData
        Scaled values, on the device where features are wanted.
    lookback, n_series : int
        The network's.
    series : ndarray of int, shape (data.n_series,), optional
        The number that the network knows each series of `data`, or each part of one, by; 0, 1, ... if None. Series with
        another number than 0 to `n_series` - 1 are left out.
    ahead : int
        Steps past the last one for which room is left.
    """

    def __init__(
        self,
        data: SeriesData[Tensor],
        *,
        lookback: int,
        n_series: int,
        series: np.ndarray | None = None,
        ahead: int = 0,
    ) -> None:
        self.lookback = lookback
        self._first = int(data.starts.min()) - lookback
        steps = int(data.ends.max()) - self._first + ahead
        self._values = torch.full((n_series, steps), torch.nan, dtype=torch.float64, device=data.values.device)
        numbers = np.arange(data.n_series) if series is None else series
        for i, (number, start) in enumerate(zip(numbers, data.starts - self._first, strict=True)):
            if 0 <= number < n_series:
                part = data.values[data.rows_of(i)]
                self._values[number, start : start + len(part)] = part
        self._means: Tensor | None = None

    def at(self, time_index: Tensor) -> Tensor:
        """Means over the windows that begin at each `time_index` (samples,): (samples, n_series, spans).

        The last is over the whole window. NaN where a series has not all of it.
        """
        if self._means is None:
            self._means = self._means_of_windows()
        return self._means[time_index - self._first]

    def write(self, series: Tensor, time_index: Tensor, values: Tensor) -> None:
        """Set `values` (samples, steps) of each of `series` (samples,) from its `time_index` (samples,) on.

        Series without weights are skipped.
        """
        weighted = (series >= 0) & (series < len(self._values))
        at = (time_index - self._first).unsqueeze(1) + torch.arange(values.shape[1], device=time_index.device)
        self._values[series[weighted].unsqueeze(1), at[weighted]] = values[weighted].double()
        self._means = None

    def _means_of_windows(self) -> Tensor:
        """The means by the first step of the window: (steps, n_series, spans)."""
        lookback = self.lookback
        present = self._values.isfinite()
        total = torch.nn.functional.pad(self._values.where(present, 0).cumsum(1), (1, 0))
        missing = torch.nn.functional.pad((~present).cumsum(1), (1, 0))
        n = total.shape[1] - lookback
        means = torch.stack(
            [
                (total[:, lookback - near :][:, :n] - total[:, lookback - far :][:, :n]) / (far - near)
                for near, far in spans(lookback)
            ],
            dim=-1,
        )
        whole = missing[:, lookback:] == missing[:, :n]
        return means.where(whole.unsqueeze(-1), torch.nan).transpose(0, 1).float().contiguous()
