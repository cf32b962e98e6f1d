"""Which linear path suits the data: common, per series or across, with a seasonal profile or none, by rolling origins.

One season of validation rows tells little of the next. So train and validation rows are cut at several origins in time;
at each, every candidate is solved for on the rows before it and errs on those after it. An origin counts by the square
of the rows before it: what is best where they are few need not be where they are many. What needs more weights is taken
where it errs less by a margin. To compare candidates, some of the steps ahead are enough, and some of the
windows where they must be read one by one.

Source: Tashman (2000) on rolling origins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from titans_ts.devices import seeded
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.model.linear import LinearPath, spans
from titans_ts.progress import Progress
from titans_ts.tables.series_data import SeriesData, evenly_spaced
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.seasonal import seasonal_profiles
from titans_ts.windows.splits import Fold, fold_windows, rolling_folds
from titans_ts.windows.windows import Windows

from .choices import Choice
from .closed_form import Sample, Solution, cross_series_moments, linear_moments, per_series_naive_errors, solve
from .moments import Moments
from .ridge import RIDGES, Scoring, ridge_at_any_scale, weight_of_series

# How much of the seasonal profile is taken away: where few seasons give it, or it changes, half is often best.
SHARES = {"whole": 1.0, "half": 0.5, "none": 0.0}
HARMONICS = 0, 1, 2, 4  # of the season, by whose phase cross-series weights may vary
MARGIN = 0.005  # share of the error by which a candidate of more weights must be better, where rows are few
ENOUGH = 20  # windows of a series for each of its weights, from which on they are not
SCALE_MARGIN = 0.08  # that by which windows over their scale must be better, over the root of the number of series
SHARE_MARGIN = 0.01  # that by which less of the seasonal profile must be better
CROSS_SERIES_MARGIN = 0.01  # that by which one must be that reads all series, and forecasts some alone less well
MOST_SERIES = 100  # evenly spaced ones that choose what does not read other series
STEPS = 48  # ahead, of which the errors are compared
MOST_READ = 2**14  # windows, where each is read by itself
MOST_ORIGINS = 2**12  # for cross-series weights
# What a candidate may take: bytes of all moments, weights and copies that are held at once, and operations of a solve.
MOST_BYTES, MOST_OPERATIONS = 2**30, 2e11
STEPS_PER_INPUT = 4  # in time, that cross-series weights must have been seen at for each of their inputs
COPIES = 8  # of moments and weights
EIGENVALUES = 30  # operations of eigenvalues and quadratic forms, over inputs cubed


class Resolved(NamedTuple):
    """A network's shape without anything left to choose of its linear path, and how that was chosen.

    `share` is how much of the seasonal profile is taken away; None leaves that, and `scale_windows`, to the validation
    windows.
    """

    config: ModelConfig
    share: float | None
    choices: tuple[Choice, ...]


class _Way(NamedTuple):
    """How windows are read: over their scale or not, minus how much of the seasonal profile."""

    scaled: bool
    share: float


def choose_path(
    config: ModelConfig,
    scaled: SeriesData[np.ndarray],
    data: SeriesData[Tensor],
    fold: Fold,
    progress: Progress | None = None,
) -> Resolved:
    """The linear path that errs least at rolling origins within the train and validation rows of `fold`.

    Parameters
    ----------
    config : ModelConfig
        With a common linear path, the simplest candidate, which stands where no other may be tried, or where no series
        has validation rows.
    scaled : SeriesData
        All series at their scale.
    data : SeriesData
        The same on the network's device.
    fold : Fold
    progress : Progress, optional
        Where it has no time left for another candidate, those tried so far are all.
    """
    progress = Progress() if progress is None else progress
    candidates = list(_affordable(config, data))
    if len(candidates) == 1 or not fold.validated.any():
        return Resolved(config, None, ())
    some = fold.learned[evenly_spaced(len(fold.learned), MOST_SERIES)]
    alone = replace(candidates[1], n_series=len(some))
    origins = list(_origins(alone, scaled.take(some), data.take(some), fold.take(some)))
    if not origins:
        return Resolved(config, None, ())
    if len(origins) == 1:  # the validation rows alone choose ridges too, and cannot tell whether series are related
        candidates = candidates[:2]
    way = _Way(bool(config.scale_windows), 0.0)
    shares = SHARES if config.cycle else {"none": 0.0}
    by_share = dict[str, dict[str, float]]()
    for name, share in shares.items():
        begun = progress.elapsed
        by_share[name] = _linear_errors(origins, alone, way._replace(share=share))
        took = progress.elapsed - begun
        if progress.lacks(took):
            break
    least = {path: min(errors[path] for errors in by_share.values()) for path in ("common", "per_series")}
    margin = 0.0 if len(origins[0].train) >= ENOUGH * len(some) * config.lookback else MARGIN
    of_shares = {name: errors[_simplest_of_the_best(least, margin)] for name, errors in by_share.items()}
    chosen = _simplest_of_the_best(of_shares, SHARE_MARGIN)
    best, way = by_share[chosen], way._replace(share=shares[chosen])
    path, choices = _simplest_of_the_best(best, margin), [Choice("seasonal profile", chosen, of_shares)]
    if config.scale_windows is None and not progress.lacks(took):
        divided = _linear_errors(origins, alone, way._replace(scaled=True))[path]
        of_scales = {"kept": best[path], "divided": divided}
        scale = _simplest_of_the_best(of_scales, max(MARGIN, SCALE_MARGIN / math.sqrt(config.n_series)))
        choices.append(Choice("window scale", scale, of_scales))
        way = way._replace(scaled=scale == "divided")
    if path == "per_series" and candidates[-1].linear_cross_series and not progress.lacks(took * len(candidates)):
        origins = list(_origins(candidates[-1], scaled, data, fold))
        best |= _mean(origins, [origin.cross_series_errors(candidates[2:], way) for origin in origins])
        path = _simplest_of_the_best(best)
        if best[path] > (1 - CROSS_SERIES_MARGIN) * best["per_series"]:
            path = "per_series"
    found = next(candidate for candidate in candidates if _name(candidate) == path)
    return Resolved(replace(found, scale_windows=way.scaled), way.share, (Choice("linear path", path, best), *choices))


def _name(config: ModelConfig) -> str:
    if config.linear_cross_series:
        plural = "s" if config.linear_harmonics > 1 else ""
        return f"across, {config.linear_harmonics} harmonic{plural}" if config.linear_harmonics else "across"
    return "per_series" if config.linear_per_series else "common"


def _affordable(config: ModelConfig, data: SeriesData[Tensor]) -> Iterator[ModelConfig]:
    """The candidates that keep within memory and time, the simplest first; decided from sizes alone."""
    yield config
    n_series, lookback, horizon = config.n_series, config.lookback, config.horizon
    inputs = lookback + 1
    n_bytes = 8 * COPIES * n_series * inputs * (inputs + horizon)
    operations = n_series * inputs**2 * (EIGENVALUES * inputs + 4 * horizon)
    if n_bytes > MOST_BYTES or operations > MOST_OPERATIONS:
        return
    per_series = replace(config, linear_per_series=True, linear_window_mean=True)
    yield per_series
    if n_series == 1:
        return
    n_spans = len(spans(lookback))
    time = int(data.ends.max() - data.starts.min()) + lookback
    features = 4 * 3 * n_series * n_spans * time
    for harmonics in HARMONICS:
        inputs = n_series * (n_spans - 1) * (1 + 2 * harmonics)
        if time < STEPS_PER_INPUT * inputs:
            return
        n_bytes = features + 8 * COPIES * inputs * (inputs + n_series * horizon)
        operations = inputs**2 * (EIGENVALUES * inputs + 4 * n_series * horizon)
        if n_bytes <= MOST_BYTES and operations <= MOST_OPERATIONS and 2 * harmonics <= config.cycle:
            yield replace(per_series, linear_cross_series=True, linear_harmonics=harmonics)


def _origins(
    config: ModelConfig, scaled: SeriesData[np.ndarray], data: SeriesData[Tensor], fold: Fold
) -> Iterator[_Origin]:
    """The origins at which errors are taken: first that of the validation rows, which also choose ridges there."""
    lookback, horizon = config.lookback, config.horizon
    features = None
    if config.linear_cross_series:
        features = CrossSeriesFeatures(data, lookback=lookback, n_series=config.n_series)
    for part in [fold, *rolling_folds(fold, lookback, horizon)]:
        windows = fold_windows(data, part, lookback=lookback, horizon=horizon, cross_series=features)
        test = windows.validation if part is fold else windows.test
        train, validation, test = (w and w.without_filled for w in (windows.train, windows.validation, test))
        if train is None or validation is None or test is None:
            continue
        profile = torch.from_numpy(seasonal_profiles(scaled, part.train, config.cycle)) if config.cycle else None
        yield _Origin(train, validation, test, profile, float(part.train.sum()) ** 2)


class _Origin:
    """Windows of an origin in time: those that candidates are solved on, those that choose ridges, those that follow.

    Parameters
    ----------
    train, validation, test : Windows
        Without rows that were filled in.
    profile : Tensor (n_series, period), optional
    weight : float
        How much its errors count.
    """

    def __init__(
        self, train: Windows, validation: Windows, test: Windows, profile: Tensor | None, weight: float
    ) -> None:
        self.train, self.validation, self.test, self.profile, self.weight = train, validation, test, profile, weight
        self._naive: tuple[Tensor, Tensor] | None = None
        self._solutions: dict[_Way, Solution] = {}

    @torch.no_grad()
    def linear_errors(self, config: ModelConfig, way: _Way) -> dict[str, float]:
        """The relative errors of the common path and of per-series weights."""
        network, found = self._solved(config, way)
        moments = linear_moments(network, self.test, torch.arange(config.n_series), False, _sample(config))
        weight, common = weight_of_series(config, self.test), pad(found.weight, (0, 0, 0, 1))
        scoring = Scoring(moments, self._naive_errors(config)[1], weight)
        return {"common": scoring.error(common), "per_series": scoring.error(common + found.added)}

    @torch.no_grad()
    def cross_series_errors(self, candidates: list[ModelConfig], way: _Way) -> dict[str, float]:
        """The relative errors with cross-series features, by the harmonics of each candidate, which are nested."""
        richest = candidates[-1]
        network, solution = self._solved(richest, way)
        sample = _sample(richest)._replace(most=MOST_ORIGINS)
        path = LinearPath(richest.lookback, solution.weight.shape[1], richest.n_series, window_mean=True)
        path = path.to(self.train.device)
        path.weight.copy_(solution.weight)
        if path.per_series is not None:
            path.per_series.copy_(solution.added)
        train, validation, test = (
            cross_series_moments(network, path, windows, sample) for windows in (self.train, self.validation, self.test)
        )
        naive_validation, naive_test = self._naive_errors(richest)
        found = {}
        for config in candidates:
            solved, chosen, tested = (_harmonics(m, config, richest) for m in (train, validation, test))
            of_validation, of_test = (weight_of_series(richest, windows) for windows in (self.validation, self.test))
            _, weight = ridge_at_any_scale(solved, Scoring(chosen, naive_validation, of_validation), RIDGES)
            found[_name(config)] = Scoring(tested, naive_test, of_test).error(weight)
        return found

    def _solved(self, config: ModelConfig, way: _Way) -> tuple[SimbaForecaster, Solution]:
        """A network that reads windows in a `way`, and its paths for some of the steps ahead, which are kept."""
        small = replace(config, mixer="none", feature_mixer="none", n_layers=1, d_model=4, n_heads=1, einfft_blocks=1)
        small = replace(small, covariates=())
        with seeded(0):
            network = SimbaForecaster(replace(small, scale_windows=way.scaled))
        network = network.to(self.train.device).eval()
        if network.cycle is not None:
            network.cycle.begin_at(self.profile, way.share)
        if way not in self._solutions:
            naive, _ = self._naive_errors(config)
            self._solutions[way] = solve(network, self.train, self.validation, naive, _sample(config))
        return network, self._solutions[way]

    def _naive_errors(self, config: ModelConfig) -> tuple[Tensor, Tensor]:
        """The naive errors of the windows that choose and of those that follow."""
        if self._naive is None:
            chosen, tested = (per_series_naive_errors(config, w, MOST_READ) for w in (self.validation, self.test))
            self._naive = chosen, tested
        return self._naive


def _sample(config: ModelConfig) -> Sample:
    return Sample(max(1, config.horizon // STEPS), MOST_READ)


def _harmonics(moments: Moments, config: ModelConfig, richest: ModelConfig) -> Moments:
    """The moments of the inputs that `config` has, of those that the `richest` has: of 1, then cosines, then sines."""
    held, wanted = richest.linear_harmonics, config.linear_harmonics
    block = moments.xx.shape[-1] // (1 + 2 * held)
    waves = [0, *range(1, 1 + wanted), *range(1 + held, 1 + held + wanted)]
    at = torch.cat([torch.arange(block * wave, block * (wave + 1)) for wave in waves]).to(moments.xx.device)
    return moments._replace(xx=moments.xx[:, at][:, :, at], xy=moments.xy[:, at])


def _linear_errors(origins: list[_Origin], config: ModelConfig, way: _Way) -> dict[str, float]:
    return _mean(origins, [origin.linear_errors(config, way) for origin in origins])


def _mean(origins: list[_Origin], found: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each candidate's errors over the origins, by their weights."""
    total = sum(origin.weight for origin in origins)
    return {
        name: sum(origin.weight / total * errors[name] for origin, errors in zip(origins, found, strict=True))
        for name in found[0]
    }


def _simplest_of_the_best(errors: dict[str, float], margin: float = MARGIN) -> str:
    """The candidate of the least error, where one later in the order must be better by a margin."""
    chosen, least = "", math.inf
    for name, error in errors.items():
        if error < (1 - margin) * least:
            chosen, least = name, error
    return chosen
