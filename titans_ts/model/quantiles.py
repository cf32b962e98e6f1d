"""Outputs of a network: which one is the point forecast, and how several become quantiles that do not cross.

Source: Gasthaus et al., "Probabilistic forecasting with spline quantile function RNNs" (2019), section 3, for quantiles
as sums of positive increments.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus


def point_of(forecast: Any) -> Any:
    """The point forecast of a network's outputs: (..., outputs) -> (...), of a tensor or an array.

    It is the one in the middle, which is the median where the outputs are quantiles.
    """
    return forecast[..., forecast.shape[-1] // 2]


class QuantileWidths(nn.Module):
    """The median, and each quantile beyond it as far from the one before as a positive width: they cannot cross.

    A width is the softplus of an output, over that of 0, times what the width is at first, times a scale of the series:
    with outputs of zero the quantiles are those that the widths were set for. Until then these are a normal
    distribution's, of scale 1.

    Parameters
    ----------
    horizon : int
    levels : tuple of float
        Of the outputs: rising, the middle one 0.5.
    n_series : int
        A number beyond the series' has a scale of 1.
    """

    first: Tensor
    scale: Tensor

    def __init__(self, horizon: int, levels: tuple[float, ...], n_series: int) -> None:
        super().__init__()
        normal = torch.special.ndtri(torch.tensor(levels, dtype=torch.float64)).diff().float()
        self.register_buffer("first", normal.expand(horizon, -1).clone())
        self.register_buffer("scale", torch.ones(n_series + 1, dtype=torch.float32))

    def forward(self, out: Tensor, series: Tensor) -> Tensor:
        """(samples, horizon, outputs), (samples,) -> quantiles of that shape, none below the one before it"""
        middle = out.shape[-1] // 2
        median = out[..., middle : middle + 1]
        free = torch.cat([out[..., :middle], out[..., middle + 1 :]], dim=-1)
        scale = self.scale[series.clamp(max=len(self.scale) - 1)]
        width = softplus(free) / math.log(2) * self.first * scale[:, None, None]
        below = width[..., :middle].flip(-1).cumsum(-1).flip(-1)
        above = width[..., middle:].cumsum(-1)
        return torch.cat([median - below, median, median + above], dim=-1)
