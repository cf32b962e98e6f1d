"""A model beside baselines in one backtest: whether it earns its place on a user's data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from utilsforecast import losses

from .backtest import Backtest
from .cutoffs import CUTOFF
from .defaults import defaults_for

METRICS = ("mase", "mae", "rmse", "smape")
MEAN = "MeanForecaster"


def compare(
    models: Mapping[str, Any],
    backtest: Backtest,
    *,
    mean_of: Sequence[str] = (),
    metrics: Sequence[str | Callable[..., Any]] = METRICS,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Errors of several forecasters in the same windows, each fitted once before the first and then moved on.

    Parameters
    ----------
    models : mapping of str to forecaster
    backtest : Backtest
    mean_of : sequence of str
        Models whose mean forecast is one model more, as MeanForecaster's of them.
    metrics : sequence of str or callable
        Of `utilsforecast.losses`, by name or itself; the first decides order and wins.
    n_jobs : int, optional
        As `cross_validation` takes it.

    Returns
    -------
    DataFrame
        One row for each model: "model", the mean of each metric over series and cutoffs, and "wins", the share of
        series in which the model's first metric is the least.

    Raises
    ------
    ValueError
        If a model has the name of a column or of the mean, or `metrics` has none or an unknown one.
    """
    layout = backtest.panel.layout
    id_col, time_col, target_col = layout.id_col, layout.time_col, layout.target_col
    taken = (id_col, time_col, CUTOFF, target_col, *([MEAN] if mean_of else []))
    if clash := [name for name in models if name in taken]:
        raise ValueError(f"a model must have a name of its own, other than {taken}, got {clash[0]!r}. Rename it.")
    _check_metrics(metrics)
    frame = pd.DataFrame()
    for name, model in models.items():
        found = backtest.run(model, False, {}, n_jobs)
        if frame.empty:
            frame = found[[id_col, time_col, CUTOFF, target_col]].copy()
        frame[name] = found.iloc[:, 4]
    if mean_of:
        frame[MEAN] = frame[list(mean_of)].mean(axis=1)
    return score(frame, backtest, metrics)


def score(
    frame: pd.DataFrame, backtest: Backtest, metrics: Sequence[str | Callable[..., Any]] = METRICS
) -> pd.DataFrame:
    """Errors of the forecasts of a backtest.

    Parameters
    ----------
    frame : DataFrame
        Id, time, cutoff and target, as `Backtest.run` returns them, and the point forecasts of each model.
    backtest : Backtest
    metrics : sequence of str or callable
        As `compare` takes them.

    Returns
    -------
    DataFrame
        That of `compare`.
    """
    from utilsforecast.evaluation import evaluate  # loads Dask and Spark where they are installed

    _check_metrics(metrics)
    layout = backtest.panel.layout
    names: dict[str, Any] = dict(id_col=layout.id_col, time_col=layout.time_col, target_col=layout.target_col)
    id_col, time_col, target_col = names.values()
    first = backtest.panel.head(backtest.seen(0))
    train = first.rows_table({target_col: first.data.values}, id_col, time_col)
    season = max(1, defaults_for(backtest.panel.calendar).cycle)
    losses_of = [_loss(metric, season) for metric in metrics]
    scores = evaluate(frame, metrics=losses_of, train_df=train, **names)
    scores[list(frame.columns[4:])] = scores.iloc[:, 3:].where(np.isfinite(scores.iloc[:, 3:]))
    return _table(scores, id_col)


def _check_metrics(metrics: Any) -> None:
    """Refuse what holds no metric, before anything is fitted."""
    if isinstance(metrics, str) or not isinstance(metrics, Sequence) or not metrics:
        raise ValueError(f"`metrics` must be a list of one metric or more, got {metrics!r}; pass {[*METRICS[:2]]}.")
    for metric in metrics:
        _loss(metric, 1)


def _loss(metric: Any, season: int) -> Callable[..., Any]:
    loss = getattr(losses, metric, None) if isinstance(metric, str) else metric
    if not callable(loss):
        raise ValueError(f"`metrics` must be names or functions of utilsforecast.losses, got {metric!r}.")
    return partial(loss, seasonality=season) if loss in (losses.mase, losses.rmsse, losses.msse) else loss


def _table(scores: pd.DataFrame, id_col: Any) -> pd.DataFrame:
    """One row for each model of the scores of each series, cutoff and metric."""
    models, metrics = scores.columns[3:], scores["metric"].unique()
    by_series = scores.groupby(["metric", id_col], observed=True)[list(models)].mean()
    means = by_series.groupby("metric").mean().T[metrics]
    decides = by_series.loc[metrics[0]].dropna()
    best = decides.eq(decides.min(axis=1), axis=0)
    means["wins"] = best.mean()
    return means.sort_values(metrics[0], kind="stable").rename_axis("model").rename_axis(None, axis=1).reset_index()
