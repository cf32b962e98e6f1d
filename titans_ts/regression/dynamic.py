"""DynamicRegression: what future and static covariates explain of series, whose rest a network forecasts.

    value = effect of covariates + rest,        rest ahead = linear path of the rest before + error

The effect is solved for by generalised least squares: values and features alike are read through the linear path, which
leaves of each what it does not forecast from the window before, and the ridge is chosen on validation windows as all
others are. So a covariate counts by what it tells beside the past. Path and effect are solved for in turn.

Sources: Cochrane and Orcutt (1949) for the turns; Hyndman and Athanasopoulos, "Forecasting: principles and practice"
(2021), chapter 10, for regressions with errors that are forecast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from titans_ts.devices import seeded
from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.tables.covariate_columns import FUTURE, STATIC, CovariateColumn
from titans_ts.tables.panel import Panel
from titans_ts.tables.series_data import SeriesData, evenly_spaced
from titans_ts.training.choices import Choice
from titans_ts.training.closed_form import Sample, solve
from titans_ts.training.moments import Moments
from titans_ts.training.relative import SMALLEST, naive_errors
from titans_ts.training.ridge import RIDGE_UNVALIDATED, RIDGES, Scoring, ridge_regression, weight_of_series
from titans_ts.windows.scaler import Scaler
from titans_ts.windows.splits import Fold, fold_windows
from titans_ts.windows.windows import Windows, on_device

from .basis import Basis

TURNS = 2  # of path and effect
STEPS = 4  # ahead whose errors choose, at least; more where few windows validate
MOST_STEPS = 2**14  # of all windows that choose the effect, evenly spaced
MOST_SERIES = 64  # with effects of their own; as many choose ridges where there are more
MOST_MOMENTS = 2**25  # numbers in the moments of series
MOST_NUMBERS = 2**24  # features that are held at once
MARGIN = 0.002  # by which the errors must be smaller
CLEAR = 1.5  # standard errors by which they must be, too: of many ridges one is better by chance
LEAST_SQUARE = 1e-10  # mean of what is left of a feature squared, below which it is rounding


@dataclass(frozen=True, eq=False)
class DynamicRegression:
    """Effects of covariates on series.

    Parameters
    ----------
    basis : Basis
    scaler : Scaler
        Of the fitted series before the effects were taken away.
    weight : ndarray, shape (features,)
        Common to all series, of values over their series' scale.
    per_series : ndarray, shape (n_series, features)
        What is added to it for each; (0, features) where nothing is.
    """

    basis: Basis
    scaler: Scaler
    weight: np.ndarray
    per_series: np.ndarray

    def effect(self, data: SeriesData[Any], series: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """What covariates add to each row, (rows,), in the units of the data.

        Parameters
        ----------
        data : SeriesData
        series : ndarray of int, shape (n_series,)
            The number of each of its series among those fitted, -1 for one that was not, which has the common effect.
        scale : ndarray, shape (n_series,)
            That of each series, as `scale` returns it.
        """
        effect = np.empty(len(data.values))
        weights = np.broadcast_to(self.weight, (data.n_series, len(self.weight)))
        if len(self.per_series):
            weights = weights + np.where((series >= 0)[:, None], self.per_series[series], 0.0)
        for index in _parts(data, len(self.weight)):
            part = data.take(index)
            features, begin = self.basis.features(part), int(data.offsets[index[0]])
            rows = effect[begin : begin + len(features)]
            if not len(self.per_series):
                rows[:] = features @ self.weight
                continue
            for place, i in enumerate(index):
                own = part.rows_of(place)
                rows[own] = features[own] @ weights[i]
        scaled: np.ndarray = effect * np.repeat(scale, data.lengths)
        return scaled

    def ahead(
        self, data: SeriesData[Any], future: SeriesData[np.ndarray], series: np.ndarray, scale: np.ndarray
    ) -> np.ndarray:
        """What covariates add to the steps after the rows of series, (n_series, steps), in the units of the data.

        `future` is as `covariates_ahead` makes it; the others are as `effect` takes them.
        """
        both, new = self._after(data, future)
        ahead: np.ndarray = self.effect(both, series, scale)[new].reshape(data.n_series, -1)
        return ahead

    def without(self, panel: Panel, series: np.ndarray, fitted: Panel | None = None) -> Panel:
        """The panel minus the effects.

        Series that go on from the end of those of `fitted` have effects of what came before.
        """
        data = panel.data
        scale = self.scale(data, series)
        if fitted is None:
            return replace(panel, data=data.with_values(data.values - self.effect(data, series, scale)))
        before = fitted.data.take(series)
        before = before.tail(np.where(before.ends == data.starts, before.lengths, 0))
        both, new = self._after(before, data)
        return replace(panel, data=data.with_values(data.values - self.effect(both, series, scale)[new]))

    def following(self, fitted: Panel, rows: Panel, series: np.ndarray, missing: str) -> Panel:
        """Rows that go on from those of `fitted`, minus the effects; steps between are filled before, as `then` does.

        Errors as `Panel.then` lists them.
        """
        before, everyone = fitted.take(series).tail(self.basis.reach), np.arange(rows.n_series)
        if (rows.data.starts != before.data.ends).any():  # the fill is between values, not what effects leave of them
            data = before.data
            before = replace(
                before, data=data.with_values(data.values + self.effect(data, series, self.scale(data, series)))
            )
            whole = before.then(rows, everyone, missing)
            rows = whole.tail(whole.data.lengths - before.data.lengths)
        return self.without(rows, series, fitted)

    def scale(self, data: SeriesData[np.ndarray], series: np.ndarray) -> np.ndarray:
        """The scale of each series' effects, (n_series,); of one that was not fitted that of its rows."""
        scale: np.ndarray = self.scaler.scale[series]
        unseen = np.flatnonzero(series < 0)
        if len(unseen):
            scale[unseen] = Scaler.fit(data.take(unseen), data.lengths[unseen]).scale
        return scale

    def description(self) -> dict[str, Any]:
        """What is no array of it, for JSON."""
        return {"period": self.basis.period, "harmonics": list(self.basis.harmonics)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Its arrays by name."""
        basis, scaler = self.basis, self.scaler
        of_basis = {"mean": basis.mean, "std": basis.std, "knots": basis.knots}
        own = {"weight": self.weight, "per_series": self.per_series}
        return of_basis | own | {"series_mean": scaler.mean, "series_std": scaler.std}

    @classmethod
    def of_arrays(
        cls, columns: tuple[CovariateColumn, ...], description: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> DynamicRegression:
        """The regression that these describe."""
        period, harmonics = description["period"], description["harmonics"]
        basis = Basis(columns, period, harmonics, arrays["mean"], arrays["std"], arrays["knots"])
        scaler = Scaler(arrays["series_mean"], arrays["series_std"])
        return cls(basis, scaler, arrays["weight"], arrays["per_series"])

    def _after(self, before: SeriesData[Any], rows: SeriesData[Any]) -> tuple[SeriesData[Any], np.ndarray]:
        """Rows after those before them that their features read, and which are the new ones."""
        before = before.tail(self.basis.reach)
        both = before.then(rows)
        return replace(both, starts=rows.starts - before.lengths), both.row_in_series >= np.repeat(
            before.lengths, both.lengths
        )


def fit_regression(
    panel: Panel, fold: Fold, config: ModelConfig, device: torch.device
) -> tuple[DynamicRegression | None, tuple[Choice, ...]]:
    """The effects of a panel's static and future covariates, if they lower the errors on validation windows.

    Parameters
    ----------
    panel : Panel
    fold : Fold
    config : ModelConfig
        Of the network that forecasts the rest: its lookback, horizon and cycle.
    device : torch.device

    Returns
    -------
    regression : DynamicRegression or None
    choices : tuple of Choice
    """
    spec, data = panel.covariates, panel.data
    if spec is None or data.covariates is None or not any(c.role in (STATIC, FUTURE) for c in spec.columns):
        return None, ()
    scaler = Scaler.fit(data, fold.train)
    learned = data.row_in_series < np.repeat(fold.train, data.lengths)
    basis = Basis.of(spec.columns, data.covariates[learned], config.cycle)
    raw = scaler.transform_panel(panel)
    config = ModelConfig(  # of a path that reads windows as they are
        lookback=config.lookback,
        horizon=config.horizon,
        n_series=panel.n_series,
        scale_windows=False,
        mixer="none",
        feature_mixer="none",
        n_layers=1,
        d_model=4,
        n_heads=1,
    )
    rest, found, errors, turn, is_clear = raw, None, dict[str, float](), None, False
    for _ in range(TURNS):
        turn = _Turn.of(on_device(rest, device), fold, config, None if turn is None else turn.naive)
        if turn is None:
            return None, ()
        without, error, weight, per_series, is_clear = _solve_effect(turn, raw, basis, config)
        errors = {"left out": min(without, errors.get("left out", without)), "read": error}
        found = DynamicRegression(basis, scaler, weight, per_series)
        rest = raw.with_values(raw.values - found.effect(raw, np.arange(data.n_series), np.ones(data.n_series)))
    read = is_clear and errors["read"] < (1 - MARGIN) * errors["left out"]
    choice = Choice("covariates", "read" if read else "left out", errors)
    return found if read else None, (choice,)


class _Turn(NamedTuple):
    """The linear path of what effects left, and the windows of it."""

    path: Tensor  # (lookback, steps)
    steps: slice
    train: Windows
    validation: Windows | None
    naive: Tensor  # (n_series,) errors, of the values with their effects

    @property
    def scored(self) -> Windows:
        """The windows whose errors choose."""
        return self.train if self.validation is None else self.validation

    @classmethod
    def of(cls, data: SeriesData[Tensor], fold: Fold, config: ModelConfig, naive: Tensor | None = None) -> _Turn | None:
        windows = fold_windows(data, fold, lookback=config.lookback, horizon=config.horizon)
        train = windows.train.without_filled
        validation = None if windows.validation is None else windows.validation.without_filled
        if train is None:
            return None
        with seeded(0):
            network = SimbaForecaster(config).to(data.values.device).eval()
        if naive is None:
            naive = naive_errors(train if validation is None else validation, most=MOST_STEPS // STEPS)
        n_steps = max(STEPS, MOST_STEPS // len(train if validation is None else validation))
        sample = Sample(max(1, config.horizon // n_steps))
        with torch.no_grad():
            found = solve(network, train, validation, naive, sample)
        return cls(found.weight, sample.steps, train, validation, naive)


def _solve_effect(
    turn: _Turn, raw: SeriesData[np.ndarray], basis: Basis, config: ModelConfig
) -> tuple[float, float, np.ndarray, np.ndarray, bool]:
    """Errors without and with the effects, the weights, common and of each series (n_series or 0, features), and
    whether the errors differ clearly.
    """
    n_series = raw.n_series
    everyone = torch.arange(n_series)
    some, of_series = torch.full((n_series,), -1), weight_of_series(config, turn.scored)
    able = everyone if of_series is None else of_series.cpu().nonzero().flatten()
    kept = able[evenly_spaced(len(able), MOST_SERIES)]
    some[kept] = torch.arange(len(kept))
    own = n_series <= MOST_SERIES
    with torch.no_grad():
        train = _moments(turn, turn.train, raw, basis, config, everyone if own else torch.zeros_like(everyone))
        scored, naive = train, turn.naive
        if turn.validation is not None or len(kept) < n_series:
            scored = _moments(turn, turn.scored, raw, basis, config, some)
        naive = torch.nn.functional.pad(naive, (0, n_series - len(naive)), value=torch.nan)[kept]
        size = train.xx.sum(0).diagonal()
        # of a constant the path leaves nothing but rounding
        by = (size > LEAST_SQUARE * train.n.sum()).double().unsqueeze(-1)
        weight = None if of_series is None else of_series[kept]
        train, scoring = train.scaled(by), Scoring(scored, naive, weight).scaled(by)
        ridges = RIDGES if turn.validation is not None else (RIDGE_UNVALIDATED,)
        pooled = train.pooled(len(by))
        nothing = torch.zeros_like(pooled.xy)
        without = scoring.error(nothing)
        error, common = ridge_regression(pooled, scoring, nothing, ridges)
        added, chosen = common.new_zeros(0, len(by)), common
        if own and len(kept) == n_series > 1 and n_series * len(by) ** 2 <= MOST_MOMENTS:
            of_each, away = ridge_regression(train, scoring, common, ridges)
            if of_each < error:
                error, added, chosen = of_each, (away * by)[..., 0], common + away
        n_rows = len(turn.scored) + len(kept) * (config.horizon - 1)
        is_clear = turn.validation is None or _standard_errors(scoring, chosen, n_rows) > CLEAR
    return without, error, (common * by)[:, 0].cpu().numpy(), added.cpu().numpy(), is_clear


def _standard_errors(scoring: Scoring, weight: Tensor, n_rows: int) -> float:
    """The gain in squared errors over its standard error, were there no effect: series count as in relative errors.

    Of `n_rows` rows, each may be forecast from several windows, whose errors have much in common: as one.
    """
    moments = scoring.moments
    effect = (weight * (moments.xx @ weight)).sum((-2, -1))
    gain = 2 * (weight * moments.xy).sum((-2, -1)) - effect
    share = 1 / (moments.n * (scoring.naive + SMALLEST))
    times = (moments.n.sum() / n_rows).clamp(min=1)
    variance = 4 * times * (moments.yy - gain).clamp(min=0) / moments.n * effect * share.square()
    total, spread = (gain * share).nansum(), variance.nansum().sqrt()
    return (total / spread).item() if spread > 0 else 0.0


def _moments(
    turn: _Turn, windows: Windows, raw: SeriesData[np.ndarray], basis: Basis, config: ModelConfig, parts: Tensor
) -> Moments:
    """Moments of what the path leaves of features and of values, by the part of each series, -1 for none."""
    device = windows.device
    stride = max(1, len(windows) * turn.path.shape[1] // MOST_STEPS)
    numbers = torch.arange(0, len(windows), stride, device=device)
    found = [(batch.series, batch.time_index, _weight(batch)) for batch in map(windows.batch, numbers.split(4096))]
    series, time_index, weight = (torch.cat(x).cpu().numpy() for x in zip(*found, strict=True))
    total, n_parts = None, int(parts.max()) + 1
    for index in _parts(raw, 0):
        data = raw.take(index)
        features = np.concatenate([basis.features(data), data.values[:, None].astype(np.float32)], axis=1)
        columns = torch.from_numpy(features).to(device)
        if total is None:
            total = Moments.zero(n_parts, features.shape[1] - 1, 1, device)
        for place, i in enumerate(index.tolist()):
            part, own = int(parts[i]), series == i
            if part < 0 or not own.any():
                continue
            of_series = columns[data.rows_of(place)]
            size = max(1, MOST_NUMBERS // (features.shape[1] * turn.path.shape[1]))
            mine = list(zip((time_index[own] - raw.starts[i]).tolist(), weight[own].tolist(), strict=True))
            for few in (mine[n : n + size] for n in range(0, len(mine), size)):
                left = torch.cat([_left(of_series, begin, turn, config.lookback) * w**0.5 for begin, w in few]).double()
                x, y = left[:, :-1], left[:, -1:]
                total.xx[part] += x.mT @ x
                total.xy[part] += x.mT @ y
                total.yy[part] += y.square().sum()
                total.n[part] += len(left) / len(few) * sum(w for _, w in few)
    if total is None:
        raise ValueError("`windows` must hold windows of the series that `parts` names.")
    return total


def _weight(batch: Batch) -> Tensor:
    """How much each window counts, (samples,)."""
    return torch.ones(batch.n_samples, device=batch.past.device) if batch.weight is None else batch.weight


def _left(rows: Tensor, begin: int, turn: _Turn, lookback: int) -> Tensor:
    """What the path leaves of the steps ahead of the window from row `begin` on, of all columns: (steps, columns)."""
    end = begin + lookback
    past = rows[max(begin, 0) : end]  # padding counts for nothing
    path = turn.path[-len(past) :].to(rows.dtype)
    mean = past.mean(0)
    passed_on = 1 - path.sum(0)  # of the mean, which the path is not given
    return rows[end:][turn.steps][: path.shape[1]] - path.mT @ past - torch.outer(passed_on, mean)


def _parts(data: SeriesData[Any], features: int) -> Iterator[np.ndarray]:
    """Numbers of series whose features are held at once."""
    most = MOST_NUMBERS // max(features, 128)
    held = np.cumsum(data.lengths)
    begin, taken = 0, 0
    for i in range(data.n_series):
        if held[i] - taken > most and i > begin:
            yield np.arange(begin, i)
            begin, taken = i, int(held[i - 1])
    yield np.arange(begin, data.n_series)
