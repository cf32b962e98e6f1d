"""WindowForecast: from the rows of a window to its forecast, both in the units of the data, as one module.

It is what `FittedModel.forecast` makes of the last lookback of a series that was fitted, for at most one horizon.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import Tensor, nn

from titans_ts.fitted import FittedModel
from titans_ts.model import Batch, SimbaForecaster, point_of

from .clock import ClockShift, clock_around

Arguments = dict[str, tuple[str, tuple[str | int, ...]]]  # dtype and shape by name


def inputs_of(network: SimbaForecaster) -> Arguments:
    """The name, dtype and shape of each input of a network's graph, in the order that `WindowForecast` takes them."""
    config = network.config
    found: Arguments = {
        "past": ("float64", ("batch", config.lookback)),
        "mask": ("bool", ("batch", config.lookback)),
        "series": ("int64", ("batch",)),
    }
    if network.cycle is not None or network.cross_series is not None:
        found["time_index"] = ("int64", ("batch",))
    if config.covariates:
        found["covariates"] = ("float64", ("batch", config.lookback, len(config.covariates)))
    if network.cross_series is not None:
        found["all_past"] = ("float64", (config.n_series, config.lookback))
    return found


class WindowForecast(nn.Module):
    """The window part of a fitted model, on the CPU.

    Parameters
    ----------
    fitted : FittedModel
        Without effects of covariates ahead. Combination and long-term memory have no part in it.
    """

    series_mean: Tensor
    series_scale: Tensor
    flat: Tensor
    lower: Tensor
    upper: Tensor
    column_mean: Tensor
    column_std: Tensor

    def __init__(self, fitted: FittedModel) -> None:
        super().__init__()
        self.network = deepcopy(fitted.network).cpu().eval().requires_grad_(False)
        config, data = self.network.config, fitted.panel.data
        if self.network.head.is_zero:
            shape = config.horizon, config.n_outputs
            # In place of the method, so that a graph of the closed form alone has nothing of the deep branch.
            setattr(self.network, "deep", lambda z, *_: z.new_zeros(z.shape[0], *shape))  # noqa: B010
        scaler, (lower, upper) = fitted.scaler, fitted.bounds.of_series(fitted.panel)
        self.n_series, self.has_flat = len(scaler.mean), bool((scaler.std == 0).any())
        self.is_bounded = bool(np.isfinite(lower).any() or np.isfinite(upper).any())
        clock = clock_around(fitted.panel.calendar, int(data.starts.min()), int(data.ends.max()))
        self.clock = None
        if clock is not None and self.network.cycle is not None:
            self.clock = ClockShift(clock, config.lookback + config.horizon)
        columns = np.array([(column.mean, column.std) for column in config.covariates]).reshape(-1, 2)
        arrays = {"series_mean": scaler.mean, "series_scale": scaler.scale, "flat": scaler.std == 0}
        arrays |= {"lower": lower, "upper": upper, "column_mean": columns[:, 0], "column_std": columns[:, 1]}
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.array(array)))

    def inputs(self) -> Arguments:
        """As `inputs_of`."""
        return inputs_of(self.network)

    def outputs(self) -> Arguments:
        """The name, dtype and shape of each output, in order."""
        config = self.network.config
        found: Arguments = {"forecast": ("float64", ("batch", config.horizon))}
        if config.levels is not None:
            found["quantiles"] = ("float64", ("batch", config.horizon, config.n_outputs))
        return found

    def forward(
        self,
        past: Tensor,
        mask: Tensor,
        series: Tensor,
        time_index: Tensor | None = None,
        covariates: Tensor | None = None,
        all_past: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Forecast the horizon after each window; arguments are as `inputs` names them.

        Returns
        -------
        forecast : Tensor (batch, horizon), float64
        quantiles : Tensor (batch, horizon, levels), float64
            Where the network has levels.
        """
        # A negative number would count from the end; past it, it is refused.
        series = torch.where(series < 0, self.n_series, series)
        mean, scale = self.series_mean[series].unsqueeze(1), self.series_scale[series].unsqueeze(1)
        known = torch.where(mask, past, mean)  # padding may be anything
        batch = Batch(
            past=((known - mean) / scale).float(),
            future=past[:, :0].float(),
            time_index=series if time_index is None else time_index,
            series=series,
            padding_mask=mask,
            clock_shift=None if self.clock is None or time_index is None else self.clock(time_index),
            covariates=None if covariates is None else ((covariates - self.column_mean) / self.column_std).float(),
            cross_series=None if all_past is None else self._span_means(all_past).expand(past.shape[0], -1, -1),
        )
        found = self.network(batch).double() * scale.unsqueeze(2) + mean.unsqueeze(2)
        if self.has_flat:
            low = torch.where(mask, past, torch.inf).amin(1, keepdim=True)
            high = torch.where(mask, past, -torch.inf).amax(1, keepdim=True)
            constant = torch.where(low == high, low, torch.nan).unsqueeze(2)
            found = torch.where(self.flat[series][:, None, None], constant, found)
        if self.is_bounded:
            low, high = (bound[series][:, None, None] for bound in (self.lower, self.upper))
            found = torch.minimum(torch.maximum(found, low), high)
        point: Tensor = point_of(found)
        return (point,) if self.network.config.levels is None else (point, found)

    def _span_means(self, all_past: Tensor) -> Tensor:
        """Cross-series features (1, n_series, spans) of the windows of all series; NaN where one has not all of it."""
        path = self.network.cross_series
        if path is None:
            raise ValueError("`all_past` must be None where no series reads another.")
        lookback = self.network.config.lookback
        z = ((all_past - self.series_mean.unsqueeze(1)) / self.series_scale.unsqueeze(1)).float().double()
        z = torch.where(self.flat.unsqueeze(1), torch.nan, z)
        z = torch.where(z.isnan().any(1, keepdim=True), torch.nan, z)
        means = [z[:, lookback - far : lookback - near].mean(1) for near, far in path.spans]
        return torch.stack(means, dim=-1).float().unsqueeze(0)
