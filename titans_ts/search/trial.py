"""A trial of a search: parameters drawn, fitted on the rows before each block of validation rows, and scored there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sklearn.base import clone

from titans_ts.arguments import check_flag, check_integer
from titans_ts.defaults import defaults_for, shorten
from titans_ts.forecaster import TitansForecaster
from titans_ts.stream.fit import WINDOW
from titans_ts.tables.covariate_columns import COVARIATES, CovariateNames
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.training.history import Evaluation
from titans_ts.training.losses import AnyLoss
from titans_ts.windows.splits import backtest_folds

from .storage import REASON, counts, seen, sign

Space = Mapping[str, BaseDistribution] | Callable[[Trial], dict[str, Any]]

PARAMETERS, SURPLUS = "parameters", "surplus"  # user attributes of a trial
# What every trial leaves out, and what changes the series that the network forecasts.
NOT_SEARCHED = ("combine", "context", "warm_start", "checkpoint_dir", *COVARIATES)
EPOCHS = 10_000  # reports of one scoring window lie so far from those of the next


class Surplus(Exception):
    """Another process began the study's last trial in the same moment."""


class Objective:
    """The objective of a study: a trial's relative error on validation rows (`training.relative`).

    Parameters
    ----------
    estimator : TitansForecaster
        Not changed.
    df : table of a kind that its `fit` takes
    space : as `TitansSearchCV` takes it
    scoring : str or callable
    n_trials, n_windows : int
    seed : int
        The estimator's random state where it has none, so that trials differ by their parameters alone.
    """

    def __init__(
        self,
        estimator: TitansForecaster,
        df: Any,
        space: Space,
        scoring: AnyLoss,
        n_trials: int,
        n_windows: int,
        seed: int,
    ) -> None:
        self.estimator = clone(estimator).set_params(verbose=0)
        if self.estimator.random_state is None:
            self.estimator.random_state = seed
        self.df, self.space, self.scoring = df, space, scoring
        self.n_trials, self.n_windows = n_trials, n_windows
        self.number = -1  # of the trial that runs, or ran last

    def was_given_up(self, study: Study) -> bool:
        """Whether somebody else has ended this worker's trial."""
        trial = study.get_trials(deepcopy=False)[self.number]
        return trial.state == TrialState.FAIL and not counts(trial)

    def __call__(self, trial: Trial) -> float:
        self.number = trial.number
        sign(trial)
        before = trial.study.get_trials(deepcopy=False)[: trial.number]
        if sum(counts(other) for other in before) >= self.n_trials:
            trial.set_user_attr(SURPLUS, True)
            raise Surplus
        try:
            return self._score(trial)
        except optuna.TrialPruned:
            raise
        except UpdateFinishedTrialError:  # it was given up
            raise
        except Exception as failure:
            trial.set_user_attr(REASON, f"{type(failure).__name__}: {failure}"[:500])
            raise

    def _score(self, trial: Trial) -> float:
        parameters = self._suggest(trial)
        forecaster = clone(self.estimator).set_params(**parameters)
        check_flag("combine", forecaster.combine)
        # a trial's score is of the network alone, from its beginning
        forecaster.set_params(combine=False, context=WINDOW, warm_start=False, checkpoint_dir=None)
        found: list[float] = []
        for number, table in enumerate(_tables(forecaster, self.df, self.n_windows)):
            watch = _Watch(trial, found, number)
            forecaster.fit(table, val_loss=self.scoring, on_evaluation=watch)
            if forecaster.history_.stopped == "interrupted":
                raise KeyboardInterrupt
            error = forecaster.history_.best.criterion
            if not math.isfinite(error):
                raise ValueError(
                    f"the validation error is {error}."
                    + (" No series has validation rows; lower `val_size` or bring more rows." * math.isnan(error))
                )
            found.append(error)
        return float(np.mean(found))

    def _suggest(self, trial: Trial) -> dict[str, Any]:
        if callable(self.space):
            parameters = self.space(trial)
            if not isinstance(parameters, dict):
                raise TypeError(f"`space` must return a dict of parameters, got {parameters!r}.")
            for name in parameters:
                check_searched(name)
        else:
            parameters = {name: _suggested(trial, name, where) for name, where in self.space.items()}
        trial.set_user_attr(PARAMETERS, parameters)
        return parameters


def read(forecaster: TitansForecaster, df: Any, missing: str | None = None) -> Panel:
    """The table as the forecaster's `fit` would read it, but for `missing` where that is given."""
    columns = {name: getattr(forecaster, name) for name in ("id_col", "time_col", "target_col")}
    static, past, future, calendar = (getattr(forecaster, name) for name in COVARIATES)
    covariates = CovariateNames.of(static, past, future, calendar, [*columns.values()])
    missing = missing or forecaster.missing
    return read_table(df, freq=forecaster.freq, missing=missing, covariates=covariates, **columns)


def check_searched(name: str) -> None:
    """Refuse a space that names what trials leave out, or must have in common to be compared."""
    if name in NOT_SEARCHED:
        raise ValueError(
            f"`space` must not name {name!r}: a trial's score is of the network alone. Set it of `estimator`; "
            "`fit` chooses from validation rows what it leaves open."
        )


def is_within(space: Space, trial: FrozenTrial) -> bool:
    """Whether a trial's parameters are of the space: one that was enqueued or added by hand may have others."""
    if PARAMETERS not in trial.user_attrs:
        return False
    if callable(space):
        return True
    parameters = trial.user_attrs[PARAMETERS]
    return parameters.keys() == space.keys() and all(_lies_in(where, parameters[name]) for name, where in space.items())


def _lies_in(where: BaseDistribution, value: Any) -> bool:
    if isinstance(where, CategoricalDistribution):
        return value in where.choices
    if isinstance(where, (IntDistribution, FloatDistribution)) and isinstance(value, (int, float)):
        return where.low <= value <= where.high
    return False


class _Watch:
    """Report each epoch's error of the best weights so far, with those of earlier windows; stop where hopeless."""

    def __init__(self, trial: Trial, before: list[float], window: int) -> None:
        self.trial, self.before, self.window = trial, before, window
        self.error = math.inf

    def __call__(self, evaluation: Evaluation) -> None:
        if evaluation.criterion < self.error:  # not where it is NaN
            self.error = evaluation.criterion
        if evaluation.epoch == 0 or evaluation.epoch != int(evaluation.epoch) or math.isinf(self.error):
            return
        self.trial.report(float(np.mean([*self.before, self.error])), self.window * EPOCHS + int(evaluation.epoch))
        seen(self.trial)
        if self.trial.should_prune():
            raise optuna.TrialPruned(f"after epoch {evaluation.epoch:g} of window {self.window + 1}")


def _suggested(trial: Trial, name: str, where: BaseDistribution) -> Any:
    if isinstance(where, CategoricalDistribution):
        return trial.suggest_categorical(name, where.choices)
    if isinstance(where, IntDistribution):
        return trial.suggest_int(name, where.low, where.high, step=where.step, log=where.log)
    if isinstance(where, FloatDistribution):
        return trial.suggest_float(name, where.low, where.high, step=where.step, log=where.log)
    raise TypeError(f"`space[{name!r}]` is of a kind that is unknown here: {where!r}.")


def _tables(forecaster: TitansForecaster, df: Any, n_windows: int) -> list[Any]:
    """The tables to fit on, so that validation rows are the last block, the one before it, ..."""
    if n_windows == 1:
        return [df]
    panel = read(forecaster, df)
    defaults = shorten(defaults_for(panel.calendar), panel.data.lengths)
    for name in ("horizon", "lookback"):  # those of the whole table, in each of its parts
        if getattr(forecaster, name) is None:
            setattr(forecaster, name, getattr(defaults, name))
    horizon = check_integer("horizon", forecaster.horizon, 1)
    folds = backtest_folds(panel, horizon, val_size=forecaster.val_size, n_windows=n_windows)
    return [panel.head(fold.validation) for fold in folds]
