"""The closed form of past covariates: what they say of what the other paths leave of each series."""

from __future__ import annotations

import torch
from torch import Tensor

from titans_ts.model import Batch, SimbaForecaster
from titans_ts.windows.windows import Windows

from .moments import Moments, moments_of_batches
from .ridge import RIDGE_UNVALIDATED, RIDGES, Scoring, ridge_at_any_scale, scored_series, weight_of_series

MOST_WINDOWS = 2**16  # read


def solve_past_path(
    network: SimbaForecaster, train: Windows, validation: Windows | None, naive: Tensor
) -> tuple[float, Tensor]:
    """The error, and the weights (inputs, horizon) of what past covariates say about what is left of all series."""
    scored_windows = train if validation is None else validation
    weight = weight_of_series(network.config, scored_windows)
    scored = scored_series(network.config, len(naive), weight)
    moments = past_moments(network, train, torch.zeros_like(scored))
    chosen = (scored >= 0).to(naive.device)
    scoring = Scoring(
        past_moments(network, scored_windows, scored),
        naive[chosen],
        None if weight is None else weight[: len(chosen)][chosen],
    )
    ridges = RIDGES if validation is not None else (RIDGE_UNVALIDATED,)
    error, weight = ridge_at_any_scale(moments, scoring, ridges)
    return error, weight[0]


def past_moments(network: SimbaForecaster, windows: Windows, parts: Tensor) -> Moments:
    """Moments of past covariates and of what the other paths leave of each series, in the scale of the data.

    `parts` (n_series,) says which series' moments are added up, -1 for a series that is left out.
    """
    if network.past_path is None:
        raise ValueError("`network` must have a path of past covariates.")
    part_of = parts.to(windows.device)

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        seen = network.normalised(batch)
        left = seen.normalise(batch.future)
        if network.linear is not None:
            left = left - network.linear(seen.past, seen.series, seen.window_mean)
        return network.past_inputs(batch), left * seen.stats.std, part_of[batch.series]

    shape = int(parts.max()) + 1, network.past_path.n_inputs, network.config.horizon
    return moments_of_batches(windows, MOST_WINDOWS, shape, read)
