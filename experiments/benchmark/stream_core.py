"""The core solved for again as a stream goes on: the closed form's choices are kept, its weights are not.

What `titans_ts.training.closed_form` chose on the validation windows is a `Recipe`: the ends of a window that paths
read, and their ridges. With it the weights follow from second moments alone, which are sums over windows: as windows
mature theirs are added, and all weights are solved for again, those of the common path, of each series, and of the
cross-series features on what the others leave. The scale of the series and their seasonal profiles remain those of the
train rows.

Here a ridge is solved for by Cholesky's factors where the closed form has eigenvalues, which is quicker where only one
ridge is wanted.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmark.stream_data import Stream, parts_of
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.training.closed_form import (
    LAG_DECAY,
    MOST_WINDOWS,
    PARTS,
    WINDOW_MEAN_LOOKBACKS,
    WINDOW_MEAN_SHARES,
    cross_series_moments,
    linear_moments,
    per_series_naive_errors,
)
from titans_ts.training.moments import BATCH, Moments
from titans_ts.training.relative import naive_errors
from titans_ts.training.ridge import LEAST_SCALE, RIDGES, Scoring
from titans_ts.windows.windows import Windows


class Part(NamedTuple):
    """How the paths that read one end of a window are solved for; ridges are times the mean eigenvalue."""

    unread: int  # rows of the window, the oldest
    last_value: bool  # whether the common path is shrunk towards the last value, and not towards the window mean
    common: float  # ridges
    per_series: float = 0.0
    window_mean: float = 0.0


class Recipe(NamedTuple):
    """What the validation windows chose."""

    parts: tuple[Part, ...]
    n_common: int  # of the parts, whose mean the common path is
    n_per_series: int
    cross_series: float = 0.0  # the ridge


class CrossMoments(NamedTuple):
    """Moments of cross-series inputs with themselves, and with what each series' linear path reads and forecasts."""

    xx: Tensor  # (n_inputs, n_inputs)
    past: Tensor  # (n_series, n_inputs, linear inputs)
    future: Tensor  # (n_series, n_inputs, horizon)


class Learned(NamedTuple):
    """The moments of all windows that were learned from."""

    linear: Moments
    cross: CrossMoments | None

    @property
    def tensors(self) -> list[Tensor]:
        """All of them."""
        return [*self.linear, *(self.cross or ())]

    def clone(self) -> Learned:
        """A copy."""
        cross = None if self.cross is None else CrossMoments(*(x.clone() for x in self.cross))
        return Learned(Moments(*(x.clone() for x in self.linear)), cross)

    def add_(self, other: Learned) -> Learned:
        """Add what other windows say, in place."""
        for mine, theirs in zip(self.tensors, other.tensors, strict=True):
            mine += theirs
        return self


class Core:
    """The core of a stream, its recipe, and what its train rows say.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self.stream, self.config = stream, stream.network.config
        if stream.network.linear is None:
            raise ValueError("the core must have a linear path; fit with `linear_path` True or 'auto'.")
        self.train = range(stream.lookback, stream.train_end - stream.horizon + 1)
        self.learned = self.of_windows(self.train)
        self.recipe = self._recipe()

    @torch.no_grad()
    def of_windows(self, origins: range) -> Learned:
        """The moments of the windows of origins that follow one another, all of which count."""
        network, size = self.stream.network, len(origins)
        if self.config.scale_windows:  # windows are read one by one, and of many not all would be
            size = max(1, MOST_WINDOWS // self.stream.n_series)
        found: Learned | None = None
        for part in parts_of(origins, size):
            windows = self.stream.windows(part)
            linear = linear_moments(self.stream.linear_network, windows, self._series_parts, normalised=True)
            of_part = Learned(linear, None if network.cross_series is None else cross_moments(network, windows))
            found = of_part if found is None else found.add_(of_part)
        if found is None:
            raise ValueError("`origins` must not be empty.")
        return found

    @torch.no_grad()
    def network(self, learned: Learned) -> SimbaForecaster:
        """A copy of the core's network whose weights are solved for by the recipe from what was learned."""
        network, recipe = deepcopy(self.stream.network), self.recipe
        expected = _expected_weights(self.config)
        common, each = solved(self.config, learned.linear.scaled(expected), recipe)
        _write(network, common, each, expected)
        if network.cross_series is not None and learned.cross is not None:
            xy = left_by_linear(network, learned.cross)
            network.cross_series.weight.copy_(_cross_weights(learned.cross.xx, xy, recipe.cross_series))
        return network

    @property
    def _series_parts(self) -> Tensor:
        """The part of each series in the moments that are learned: its own, or one for all."""
        n_series = self.stream.n_series
        return torch.arange(n_series) if self.config.linear_per_series else torch.zeros(n_series, dtype=torch.int64)

    @torch.no_grad()
    def _recipe(self) -> Recipe:
        """What the validation windows choose, as in the closed form."""
        stream, config = self.stream, self.config
        validation = stream.windows(stream.validation)
        if config.linear_per_series:
            naive = per_series_naive_errors(config, validation)
        else:
            naive = naive_errors(validation, most=MOST_WINDOWS)
        expected = _expected_weights(config)
        scored = linear_moments(stream.linear_network, validation, torch.arange(stream.n_series), normalised=False)
        scoring = Scoring(scored, naive).scaled(expected)
        n_windows = stream.n_series * len(self.train)
        recipe = chosen(config, self.learned.linear.scaled(expected), scoring, n_windows)
        cross = self.learned.cross
        if stream.network.cross_series is None or cross is None:
            return recipe
        network = deepcopy(stream.network)
        _write(network, *solved(config, self.learned.linear.scaled(expected), recipe), expected)
        xy = left_by_linear(network, cross)
        of_validation = Scoring(cross_series_moments(network, network.linear, validation), naive)
        errors = [of_validation.error(_cross_weights(cross.xx, xy, ridge)) for ridge in RIDGES]
        return recipe._replace(cross_series=RIDGES[errors.index(min(errors))])


def chosen(config: ModelConfig, moments: Moments, scoring: Scoring, n_windows: int) -> Recipe:
    """What errs least by `scoring` of all that the closed form tries, one choice after the other.

    Both are of inputs at the scale that is expected of their weights.
    """
    lookback, parts = config.lookback, []
    paths: list[Tensor] = []
    each_paths: list[Tensor] = []
    for i in range(PARTS):
        unread = lookback - (lookback >> i)
        if i and lookback >> i < 2:
            break
        of_part, scored = moments.since(unread), scoring.since(unread)
        without_mean = scored.first(lookback - unread)
        anchors = (False, True) if n_windows < lookback - unread else (False,)
        tried = [Part(unread, last, ridge) for last in anchors for ridge in RIDGES]
        errors = [without_mean.error(_common_path(config, of_part, part)) for part in tried]
        part = tried[errors.index(min(errors))]
        common = _common_path(config, of_part, part)
        if config.linear_per_series:
            short = of_part.first(lookback - unread)
            errors = [without_mean.error(common + ridge_regression(short, common, ridge)) for ridge in RIDGES]
            part = part._replace(per_series=RIDGES[errors.index(min(errors))])
            if config.linear_window_mean:
                anchor = pad(common, (0, 0, 0, 1))
                errors = [scored.error(anchor + ridge_regression(of_part, anchor, ridge)) for ridge in RIDGES]
                part = part._replace(window_mean=RIDGES[errors.index(min(errors))])
            each_paths.append(_each_path(config, of_part, common, part))
        parts.append(part)
        paths.append(common)
    n_common = _best_number(paths, scoring.first(lookback))
    return Recipe(tuple(parts), n_common, _best_number(each_paths, scoring) if each_paths else 0)


def solved(config: ModelConfig, moments: Moments, recipe: Recipe) -> tuple[Tensor, Tensor | None]:
    """The weights (lookback, horizon) of the common path, and of each series (n_series, inputs, horizon) with it."""
    paths, each_paths = [], []
    for i, part in enumerate(recipe.parts[: max(recipe.n_common, recipe.n_per_series)]):
        of_part = moments.since(part.unread)
        paths.append(_common_path(config, of_part, part))
        if i < recipe.n_per_series:
            each_paths.append(_each_path(config, of_part, paths[-1], part))
    common = _mean_path(paths[: recipe.n_common])
    return common, _mean_path(each_paths) if each_paths else None


def ridge_regression(moments: Moments, anchor: Tensor, ridge: float) -> Tensor:
    """How far the weights of least squares shrunk towards `anchor` are from it."""
    target = moments.xy - moments.xx @ anchor
    if ridge == float("inf"):
        return torch.zeros_like(target)
    inputs = moments.xx.shape[-1]
    scale = moments.xx.diagonal(dim1=-2, dim2=-1).mean(-1)
    scale = scale.maximum(LEAST_SCALE * scale.mean())[..., None, None]
    if not (scale > 0).all():
        return torch.zeros_like(target)
    factor = torch.linalg.cholesky(moments.xx + ridge * scale * torch.eye(inputs, dtype=torch.float64))
    return torch.cholesky_solve(target, factor)


@torch.no_grad()
def cross_moments(network: SimbaForecaster, windows: Windows) -> CrossMoments:
    """The moments of all series' recent means with what their linear paths read and forecast, in the data's scale."""
    config, linear = network.config, network.linear
    if network.cross_series is None or linear is None:
        raise ValueError("`network` must have a linear and a cross-series path.")
    n_series, n_inputs = config.n_series, network.cross_series.n_inputs
    xx = torch.zeros(n_inputs, n_inputs, dtype=torch.float64)
    inputs = config.lookback + config.linear_window_mean
    products = torch.zeros(n_series, n_inputs, inputs + config.horizon, dtype=torch.float64)
    for batches in windows.by_origin(max(1, BATCH // windows.n_series), len(windows)):
        means = network.cross_series_inputs(batches[0]).double()
        xx += means.mT @ means
        for i, batch in enumerate(batches):
            seen = network.normalised(batch, cross_series=False)
            past = linear.per_series_inputs(seen.past, seen.window_mean)
            read = torch.cat([past, seen.normalise(batch.future)], dim=1) * seen.stats.std
            products[i] += means.mT @ read.double()
    return CrossMoments(xx, products[..., :inputs], products[..., inputs:])


def left_by_linear(network: SimbaForecaster, cross: CrossMoments) -> Tensor:
    """Moments (n_series, n_inputs, horizon) of cross-series inputs with what the linear path leaves."""
    linear = network.linear
    if linear is None or linear.per_series is None:
        raise ValueError("`network` must have per-series weights.")
    weight = pad(linear.weight.detach(), (0, 0, 0, int(linear.window_mean))) + linear.per_series
    return cross.future - cross.past @ weight.double()


def _cross_weights(xx: Tensor, xy: Tensor, ridge: float) -> Tensor:
    """The weights of a ridge that treats all inputs alike, at whatever scale they are."""
    scale = xx.diagonal().sqrt()
    scale = scale.where(scale > 0, 1.0).unsqueeze(-1)
    n_series, inputs, horizon = xy.shape
    flat = (xy / scale).transpose(0, 1).reshape(inputs, n_series * horizon)
    zero = torch.zeros((), dtype=torch.float64)
    moments = Moments(xx / (scale * scale.mT), flat, zero, zero)
    weight = ridge_regression(moments, torch.zeros_like(flat), ridge) / scale
    return weight.view(inputs, n_series, horizon).transpose(0, 1)


def _common_path(config: ModelConfig, moments: Moments, part: Part) -> Tensor:
    pooled = moments.pooled(config.lookback - part.unread)
    anchor = torch.zeros_like(pooled.xy)
    anchor[-1] = float(part.last_value)
    return anchor + ridge_regression(pooled, anchor, part.common)


def _each_path(config: ModelConfig, moments: Moments, common: Tensor, part: Part) -> Tensor:
    away = ridge_regression(moments.first(len(common)), common, part.per_series)
    if not config.linear_window_mean:
        return common + away
    anchor = pad(common, (0, 0, 0, 1))
    reading_mean = ridge_regression(moments, anchor, part.window_mean)
    ahead = torch.arange(1, config.horizon + 1, dtype=torch.float64)
    near, far = WINDOW_MEAN_SHARES
    share = far - (far - near) * (-ahead / (WINDOW_MEAN_LOOKBACKS * config.lookback)).exp()
    return anchor + (1 - share) * pad(away, (0, 0, 0, 1)) + share * reading_mean


def _mean_path(paths: list[Tensor]) -> Tensor:
    """The mean of paths, each of which reads the last of the inputs that the first one reads."""
    total = torch.zeros_like(paths[0])
    for path in paths:
        total[..., -path.shape[-2] :, :] += path
    return total / len(paths)


def _best_number(paths: list[Tensor], scoring: Scoring) -> int:
    """How many of the paths, from the first on, have the mean that errs least."""
    errors = [scoring.error(_mean_path(paths[:n])) for n in range(1, len(paths) + 1)]
    return 1 + errors.index(min(errors))


def _expected_weights(config: ModelConfig) -> Tensor:
    """The expected distance of each weight from its anchor, up to a factor: (inputs, 1), as in the closed form."""
    lag = torch.arange(config.lookback, 0, -1, dtype=torch.float64)
    return pad(lag**-LAG_DECAY, (0, int(config.linear_window_mean)), value=1.0).unsqueeze(1)


@torch.no_grad()
def _write(network: SimbaForecaster, common: Tensor, each: Tensor | None, expected: Tensor) -> None:
    """Give the network's linear paths weights that are for inputs at the `expected` scale, in place."""
    linear = network.linear
    if linear is None:
        raise ValueError("`network` must have a linear path.")
    linear.weight.copy_(common * expected[: len(common)])
    if linear.per_series is not None and each is not None:
        linear.per_series.copy_((each - pad(common, (0, 0, 0, int(linear.window_mean)))) * expected)
