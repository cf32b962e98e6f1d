"""Cross-series features: recent means of all series, for networks in which each series reads the others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from titans_ts.model.linear import spans
from titans_ts.tables.series_data import SeriesData


class CrossSeriesFeatures:
    """The recent means of all series that a network has weights for, by time index.

    They take the memory of `n_series` series over the steps at which any of them has rows, times about
    log2(lookback) + 3; what lies between in the calendar takes none.

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
        device = data.values.device
        begins, ends = _spans_of_time(data.starts - lookback, data.ends + ahead)
        self._begins = torch.from_numpy(begins).to(device)
        self._columns = torch.from_numpy(np.cumsum(ends - begins) - (ends - begins)).to(device)
        shape = n_series, int((ends - begins).sum())
        self._values = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        numbers = np.arange(data.n_series) if series is None else series
        columns = self._column(torch.from_numpy(data.starts).to(device)).tolist()
        for i, (number, start) in enumerate(zip(numbers, columns, strict=True)):
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
        return self._means[self._column(time_index)]

    def write(self, series: Tensor, time_index: Tensor, values: Tensor) -> None:
        """Set `values` (samples, steps) of each of `series` (samples,) from its `time_index` (samples,) on.

        Series without weights are skipped.
        """
        weighted = (series >= 0) & (series < len(self._values))
        at = self._column(time_index).unsqueeze(1) + torch.arange(values.shape[1], device=time_index.device)
        self._values[series[weighted].unsqueeze(1), at[weighted]] = values[weighted].double()
        self._means = None

    def _column(self, time_index: Tensor) -> Tensor:
        """Where each `time_index` (any,) stands among the steps that are held."""
        span = torch.searchsorted(self._begins, time_index, right=True) - 1
        return time_index - self._begins[span] + self._columns[span]

    def _means_of_windows(self) -> Tensor:
        """The means by the column of the first step of the window: (columns, n_series, spans)."""
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


def _spans_of_time(begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stretches of time that the intervals [begin, end) cover together, in order: where each begins and ends."""
    order = np.argsort(begins)
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], begins[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return begins[first], ends[last]
