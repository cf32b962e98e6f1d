"""What all series did at the same time, for networks in which they read one another."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .model.parts import spans


class Surroundings:
    """The recent means of all series that a network knows, by absolute step.

    They take the memory of `n_series` series from the first step of any to the last, times about log2(lookback) + 3.

    Parameters
    ----------
    values : Tensor (rows,)
        Scaled values, series after series.
    lengths, starts : ndarray of int (parts,)
        Rows of each series, or of each part of one, and the absolute step of its first row.
    series : ndarray of int (parts,), optional
        The number the network knows each by; 0, 1, ... if None. Those that it does not know are left out.
    lookback, n_series : int
        The network's.
    ahead : int
        Steps past the last one for which room is left.
    """

    def __init__(
        self,
        values: Tensor,
        lengths: np.ndarray,
        starts: np.ndarray,
        series: np.ndarray | None = None,
        *,
        lookback: int,
        n_series: int,
        ahead: int = 0,
    ) -> None:
        self.lookback = lookback
        self._first = int(starts.min()) - lookback
        steps = int((starts + lengths).max()) - self._first + ahead
        self._values = torch.full((n_series, steps), torch.nan, dtype=torch.float64, device=values.device)
        numbers = np.arange(len(lengths)) if series is None else series
        for number, start, part in zip(numbers, starts - self._first, values.split(lengths.tolist()), strict=True):
            if 0 <= number < n_series:
                self._values[number, start : start + len(part)] = part
        self._means: Tensor | None = None

    def at(self, step: Tensor) -> Tensor:
        """Means of the windows from each `step` (samples,) on: (samples, n_series, spans).

        The last is over the whole window. NaN where a series has not all of it.
        """
        if self._means is None:
            self._means = self._means_of_windows()
        return self._means[step - self._first]

    def write(self, series: Tensor, step: Tensor, values: Tensor) -> None:
        """Set (samples, steps) of each `series` (samples,) from its `step` on; those that are not known are skipped."""
        known = (series >= 0) & (series < len(self._values))
        at = (step - self._first).unsqueeze(1) + torch.arange(values.shape[1], device=step.device)
        self._values[series[known].unsqueeze(1), at[known]] = values[known].double()
        self._means = None

    def _means_of_windows(self) -> Tensor:
        """(steps, n_series, spans), by the first step of the window."""
        lookback = self.lookback
        known = self._values.isfinite()
        total = torch.nn.functional.pad(self._values.where(known, 0).cumsum(1), (1, 0))
        missing = torch.nn.functional.pad((~known).cumsum(1), (1, 0))
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
