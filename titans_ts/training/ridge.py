"""Least squares shrunk towards an anchor, with the ridge that errs least on other windows.

All of it needs second moments alone. Which series choose, and how much each counts, is said here too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from titans_ts.model import ModelConfig
from titans_ts.tables.series_data import evenly_spaced
from titans_ts.windows.windows import Windows

from .moments import Moments
from .relative import relative_error

RIDGES = (*(10.0**k for k in range(-7, 3)), math.inf)  # times the mean eigenvalue; the last is the anchor alone
RIDGE_UNVALIDATED = 1.0  # without validation windows: shrink hard, since nothing can tell
# What a series' ridge is in proportion to, over what that of all is, at least: the windows of a short series may be all
# but flat, and then say nothing of how it goes on.
LEAST_SCALE = 1e-3
MOST_QUADRATIC = 2**24  # numbers of the quadratic forms of series that are held at once
# Evenly spaced series, and numbers in their moments, by which a common path is chosen where there are more.
MOST_SCORED, MOST_SCORED_NUMBERS = 1000, 2**26


class Scoring(NamedTuple):
    """What chooses between paths: moments of the validation windows of each series, and its naive error."""

    moments: Moments
    naive: Tensor  # (n_series,)
    weight: Tensor | None = None  # (n_series,) how much each counts; all alike if None

    def since(self, unread: int) -> Scoring:
        """The same of all inputs but the first `unread`."""
        return self._replace(moments=self.moments.since(unread))

    def first(self, inputs: int) -> Scoring:
        """The same of the first `inputs`."""
        return self._replace(moments=self.moments.first(inputs))

    def scaled(self, by: Tensor) -> Scoring:
        """The same of inputs that are multiplied `by` (inputs, 1)."""
        return self._replace(moments=self.moments.scaled(by))

    def error(self, weight: Tensor) -> float:
        """The relative error of y = x weight, common or of each series."""
        return relative_error(self.moments.errors(weight), self.naive, self.weight).item()


def ridge_regression(
    moments: Moments, scoring: Scoring, anchor: Tensor, ridges: Sequence[float]
) -> tuple[float, Tensor]:
    """Least squares shrunk towards `anchor`, with the ridge that errs least by `scoring`.

    `moments` are of all series as one, or of each. Returns that error, and the weights' distance from the anchor.
    """
    values, vectors = torch.linalg.eigh(moments.xx)
    values = values.clamp(min=0)
    scale = values.mean(-1, keepdim=True)
    target = vectors.mT @ (moments.xy - moments.xx @ anchor)
    scale = scale.maximum(LEAST_SCALE * scale.mean())
    # Where all windows are flat, nothing says anything against the anchor: (..., ridges, inputs).
    shares = torch.stack([(1 / (values + ridge * scale)).where(scale > 0, 0.0) for ridge in ridges], dim=-2)
    errors = scoring.moments.errors(anchor).unsqueeze(-1) - _gains(scoring.moments, anchor, vectors, target, shares)
    relative = relative_error(errors.mT, scoring.naive, scoring.weight)  # (ridges,)
    best = int(relative.nan_to_num(math.inf).argmin())
    return relative[best].item(), vectors @ (target * shares[..., best, :].unsqueeze(-1))


def _gains(scoring: Moments, anchor: Tensor, vectors: Tensor, target: Tensor, shares: Tensor) -> Tensor:
    """How much less than the anchor's each series' error is with each ridge: (n_series, ridges).

    In the eigenvectors' basis a ridge multiplies each row of the target, so that an error is a quadratic form of the
    `shares` (..., ridges, inputs) that it leaves. Vectors, target and shares are common, or of each series.
    """
    inputs, n_series = target.shape[-2], len(scoring.n)
    common = target @ target.mT if target.ndim == 2 else None
    gains = []
    for first in range(0, n_series, max(1, MOST_QUADRATIC // inputs**2)):
        part = slice(first, first + max(1, MOST_QUADRATIC // inputs**2))

        def of_part(x: Tensor, ndim: int, part: slice = part) -> Tensor:
            return x[part] if x.ndim == ndim and len(x) > 1 else x

        xx, basis = of_part(scoring.xx, 3), of_part(vectors, 3)
        away, share = of_part(target, 3), of_part(shares, 3)
        left = scoring.xy[part] - xx @ of_part(anchor, 3)
        linear = (away * (basis.mT @ left)).sum(-1, keepdim=True)  # (series, inputs, 1)
        quadratic = (away @ away.mT if common is None else common) * (basis.mT @ xx @ basis)
        gain = 2 * share @ linear - ((share @ quadratic) * share).sum(-1, keepdim=True)
        gains.append(gain.squeeze(-1) / scoring.n[part].unsqueeze(-1))
    return torch.cat(gains)


def ridge_at_any_scale(moments: Moments, scoring: Scoring, ridges: Sequence[float]) -> tuple[float, Tensor]:
    """The error by `scoring`, and the weights, of a ridge that treats all inputs alike, at whatever scale they are."""
    scale = moments.xx.sum(0).diagonal().sqrt()
    scale = scale.where(scale > 0, 1.0).unsqueeze(-1)
    moments, scoring = moments.scaled(1 / scale), scoring.scaled(1 / scale)
    error, weight = ridge_regression(moments, scoring, torch.zeros_like(moments.xy), ridges)
    return error, weight / scale


def scored_series(config: ModelConfig, n_series: int, weight: Tensor | None) -> Tensor:
    """The part that each series' moments are kept in, -1 for one that does not choose: evenly spaced ones do.

    Of those that have a `weight` (n_series,), where there are weights.
    """
    most = max(1, min(MOST_SCORED, MOST_SCORED_NUMBERS // (config.lookback * (config.lookback + config.horizon))))
    able = torch.arange(n_series) if weight is None else weight[:n_series].nonzero().flatten().cpu()
    some = able[evenly_spaced(len(able), most)]
    parts = torch.full((n_series,), -1)
    parts[some] = torch.arange(len(some))
    return parts


def weight_of_series(config: ModelConfig, windows: Windows) -> Tensor | None:
    """How much each of the network's series counts, (n_series,), 0 for those without windows; None for all alike."""
    weight = windows.series_weight
    return None if weight is None else pad(weight, (0, config.n_series - len(weight)))
