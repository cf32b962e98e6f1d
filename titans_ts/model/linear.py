"""Linear paths from what was read to the horizon, solved for in closed form and fixed or trained from there.

Sources: DLinear (Zeng et al., 2023); the periodic autoregressions of Pagano (1978), of many series.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.compiler import is_exporting

MOST_COPIED = 2**28  # weights, where each sample is given those of its series


class LinearPath(nn.Module):
    """A linear map lookback -> horizon, zero at first; the closed-form initialisation solves for it.

    The map is common to all series or, with `n_series`, that and per-series weights, which training leaves as they are.
    A number beyond the series' has none. With `window_mean` the last row of the per-series weights is for the window
    mean.
    """

    per_series: Tensor | None

    def __init__(self, lookback: int, horizon: int, n_series: int = 0, window_mean: bool = False) -> None:
        super().__init__()
        self.window_mean = window_mean
        self.weight = nn.Parameter(torch.zeros(lookback, horizon))
        weights = torch.zeros(n_series, lookback + window_mean, horizon) if n_series else None
        self.register_buffer("per_series", weights)

    def forward(self, past: Tensor, series: Tensor | None = None, window_mean: Tensor | None = None) -> Tensor:
        """(samples, lookback), (samples,), (samples, 1) -> (samples, horizon)"""
        out = past @ self.weight
        if self.per_series is None:
            return out
        if series is None:
            raise ValueError("`series` must say which series each sample is of: the linear path has weights of each.")
        return out + _by_series(self.per_series_inputs(past, window_mean), series, self.per_series)

    def per_series_inputs(self, past: Tensor, window_mean: Tensor | None) -> Tensor:
        """What the per-series weights are multiplied with: `past`, and the window mean where they have a row for it."""
        if not self.window_mean:
            return past
        if window_mean is None:
            raise ValueError("`window_mean` must be given: the linear path has weights for it.")
        return torch.cat([past, window_mean], dim=-1)


def spans(lookback: int) -> list[tuple[int, int]]:
    """Parts of a window, from so many steps before its end back to so many: each twice the one before, then the whole.

    (0, 1), (1, 2), (2, 4), (4, 8), ..., (., lookback), (0, lookback)
    """
    ends = [min(2**k, lookback) for k in range((lookback - 1).bit_length() + 1)]
    return [*zip([0, *ends], ends, strict=False), (0, lookback)]


class CrossSeriesPath(nn.Module):
    """A linear map from the recent means of all series to each one's horizon, zero at first and not trained.

    Of each series it reads the means over the window's `spans`, minus the mean over the window. With `harmonics` of a
    `period` the map varies with the time index, and is one of 1, cos and sin of each.

    Source: the periodic autoregressions of Pagano (1978), of many series.
    """

    weight: Tensor
    waves: Tensor

    def __init__(self, n_series: int, lookback: int, horizon: int, period: int = 0, harmonics: int = 0) -> None:
        super().__init__()
        self.spans = spans(lookback)
        self.period = period if harmonics else 1
        self.register_buffer("waves", _waves(self.period, harmonics), persistent=False)
        self.n_inputs = n_series * (len(self.spans) - 1) * self.waves.shape[1]
        self.register_buffer("weight", torch.zeros(n_series, self.n_inputs, horizon))

    def inputs(self, means: Tensor, time_index: Tensor) -> Tensor:
        """What the weights are multiplied with, (samples, n_inputs), in windows from `time_index` (samples,) on.

        `means` (samples, n_series, spans) are `CrossSeriesFeatures`; one that is NaN counts for nothing.
        """
        off = (means[..., :-1] - means[..., -1:]).nan_to_num(0.0).flatten(1)
        return (self.waves[time_index % self.period].unsqueeze(2) * off.unsqueeze(1)).flatten(1)

    def forward(self, inputs: Tensor, series: Tensor) -> Tensor:
        """(samples, n_inputs), (samples,) -> (samples, horizon); 0 for a series without weights."""
        return _by_series(inputs, series, self.weight)


def _waves(period: int, harmonics: int) -> Tensor:
    """1, cos and sin of so many harmonics at each step of a period: (period, 1 + 2 harmonics)."""
    angle = (
        2 * math.pi / period * torch.arange(period, dtype=torch.float64).unsqueeze(1) * torch.arange(1, harmonics + 1)
    )
    return torch.cat([torch.ones(period, 1), angle.cos(), angle.sin()], dim=1).float()


def _by_series(inputs: Tensor, series: Tensor, weights: Tensor) -> Tensor:
    """Each row of `inputs` by the weights of the series that `series` (samples,) names: (samples, outputs).

    One product for each series, so that no row needs a copy of them; but in training on a GPU a copy it is, which
    unlike the number of rows of each series need not be waited for, so that the step can be recorded; and in a graph
    that is exported.
    """
    n_series = len(weights)
    if is_exporting() or (
        inputs.is_cuda and torch.is_grad_enabled() and len(series) * weights[0].numel() <= MOST_COPIED
    ):
        return _by_copies(inputs, series, weights)
    series = series.where((series >= 0) & (series < n_series), n_series)
    order = series.argsort(stable=True)
    counts = series.bincount(minlength=n_series + 1).tolist()
    parts = inputs[order].split(counts)
    rows = [part @ weight for part, weight in zip(parts, weights, strict=False) if len(part)]
    rows.append(inputs.new_zeros(counts[n_series], weights.shape[-1]))
    return torch.cat(rows)[order.argsort()]


def _by_copies(inputs: Tensor, series: Tensor, weights: Tensor) -> Tensor:
    """Each row of `inputs` by a copy of the weights of its series: (samples, outputs)."""
    weighted = (series >= 0) & (series < len(weights))
    copies = weights[series.where(weighted, 0)]
    return torch.bmm(inputs.unsqueeze(1), copies).squeeze(1).where(weighted.unsqueeze(1), 0.0)
