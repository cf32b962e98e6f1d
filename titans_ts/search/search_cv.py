"""TitansSearchCV: choose a forecaster's parameters by its validation error, with Optuna.

A trial fits one choice of parameters; every epoch is reported, so that a hopeless trial is stopped early. Several
processes and machines may share a study.
"""

from __future__ import annotations

import gc
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import optuna
import torch
from joblib import Parallel, delayed, effective_n_jobs
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.pruners import MedianPruner
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from titans_ts.arguments import check_integer, check_no_targets, check_seed
from titans_ts.devices import find_device, under_torchrun
from titans_ts.forecaster import TitansForecaster
from titans_ts.training.losses import AnyLoss, check_loss

from .sampler import SeededSampler
from .storage import REASON, begun, filters_kept, give_up_lost, open_storage
from .terms import agree, study_terms
from .trial import PARAMETERS, Objective, Space, Surplus, check_searched, is_within

Callback = Callable[[Study, FrozenTrial], None]

STUDY = "titans_ts"
REASONS = 5  # listed where no trial completed


def default_space() -> dict[str, BaseDistribution]:
    """The space where `space` is None: the size of the network, its memory, and how it is trained."""
    return {
        "d_model": CategoricalDistribution([16, 32, 64, 128]),
        "n_layers": IntDistribution(1, 3),
        "dropout": FloatDistribution(0.0, 0.6, step=0.1),
        "memory_depth": IntDistribution(1, 2),
        "chunk_size": CategoricalDistribution([4, 8, 16, 32]),
        "loss": CategoricalDistribution(["mse", "mae", "huber"]),
        "learning_rate": FloatDistribution(1e-4, 3e-3, log=True),
    }


class TitansSearchCV(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Search for the parameters of a TitansForecaster with the least validation error, then fit with them.

    A trial is fitted on the rows before the validation rows and scored on windows in the validation rows alone, as
    `fit` lays them apart by `val_size`.

    Parameters
    ----------
    estimator : TitansForecaster
        What is not searched stays as it is here. It is not changed. With `max_epochs=None` a trial trains only where
        that pays, as `fit` does: to search the network's parameters on few series, give it a number.
    space : dict of str to optuna distribution, or callable, optional
        Parameters and where they may lie; or a function of an Optuna trial that suggests them and returns a dict. If
        None, `default_space()`.
    n_trials : int
        Trials in the whole study, those of earlier and of other processes among them; pruned and failed ones count,
        those of a worker that was killed do not.
    timeout : float, optional
        Seconds after which no trial is begun.
    n_windows : int
        How many blocks of validation rows score a trial, each one before the next: a trial is fitted once for each on
        the rows before it, and its score is the mean.
    scoring : {"mse", "mae", "huber", "quantile"} or callable
        The error on validation rows. A trial's score is its relative error: each series' error over that of a naive
        forecast, the better of last value and mean, each ratio r bounded to r / (1 + r / 4), and the mean over the
        series, so that no series decides for the others; less is better. It chooses the weights of each fit too. A
        callable is as the forecaster's `loss` may be one.
    storage : path, str or optuna storage, optional
        In memory if None. A file is a journal, or SQLite where it ends in .db, .sqlite or .sqlite3; anything with
        "://" is a database's URL. A study that is there already goes on, with more trials if `n_trials` has grown; it
        must have been begun with the same space, data, scoring, windows and parameters of `estimator`. A process that
        is killed loses the trial it was at; one that held the lock of a journal keeps others waiting for half a minute.
    study_name : str, optional
        "titans_ts" if None.
    sampler, pruner : optuna sampler and pruner, optional
        Tree-structured Parzen estimators, and a median rule after five trials, if None.
    n_jobs : int
        Processes that share the work, -1 for one a core, or one a GPU where there is one; on several GPUs each process
        has its own.
    refit : bool
        Fit `best_estimator_` on all rows that `estimator` would be fitted on.
    random_state : int, RandomState or None
        An int makes a search by one process repeatable. It seeds each trial's draws by the trial's number, so that a
        study that goes on draws anew.
    catch : tuple of exception types
        A trial that raises one of these fails, and its reason is kept; the search goes on.

    Attributes
    ----------
    study_ : optuna.Study
        A failed trial's reason is in its user attribute "reason".
    best_params_ : dict
        Of the trials within the space.
    best_score_ : float
        Their relative error.
    best_estimator_ : TitansForecaster
        Where `refit` is on.
    n_features_in_ : int
        Where `refit` is on.

    Examples
    --------
    >>> import numpy as np
    >>> from optuna.distributions import FloatDistribution
    >>> from titans_ts import TitansForecaster, TitansSearchCV
    >>> rows = np.sin(np.arange(200) * 2 * np.pi / 24)[:, None]
    >>> forecaster = TitansForecaster(horizon=6, lookback=24, d_model=8, max_epochs=1, verbose=0)
    >>> space = {"dropout": FloatDistribution(0.0, 0.5)}
    >>> search = TitansSearchCV(forecaster, space, n_trials=2, random_state=0).fit(rows)
    >>> sorted(search.best_params_), search.predict(3).shape
    (['dropout'], (3, 1))
    """

    def __init__(
        self,
        estimator: Any,
        space: Any = None,
        n_trials: int = 50,
        timeout: float | None = None,
        n_windows: int = 1,
        scoring: AnyLoss = "mse",
        storage: Any = None,
        study_name: str | None = None,
        sampler: Any = None,
        pruner: Any = None,
        n_jobs: int = 1,
        refit: bool = True,
        random_state: Any = None,
        catch: Any = (Exception,),
    ) -> None:
        self.estimator = estimator
        self.space = space
        self.n_trials = n_trials
        self.timeout = timeout
        self.n_windows = n_windows
        self.scoring = scoring
        self.storage = storage
        self.study_name = study_name
        self.sampler = sampler
        self.pruner = pruner
        self.n_jobs = n_jobs
        self.refit = refit
        self.random_state = random_state
        self.catch = catch

    def fit(self, df: Any, y: Any = None, *, callbacks: Iterable[Callback] = ()) -> TitansSearchCV:
        """Search, or go on with a study that is there, until it has `n_trials`; then refit.

        Ctrl-C ends the search and keeps what it found.

        Parameters
        ----------
        df : table of a kind that the estimator's `fit` takes
        y : None
            For scikit-learn's sake.
        callbacks : iterable of callable
            Each is called with the study and the trial after each trial of this process.

        Returns
        -------
        TitansSearchCV
            Itself.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter that is wrong, or what the study in `storage` was begun with and is now another; the
            study is left as it is.
        RuntimeError
            If no trial completed: lists the reasons. If torchrun started this process.
        """
        check_no_targets(y)
        self._check_parameters()
        callbacks = list(callbacks)
        if under_torchrun():
            raise RuntimeError(
                "torchrun shares one fit among its processes, a search shares its trials: start it without torchrun, "
                "with `n_jobs` processes, or several times with one `storage`."
            )
        seed = int(check_seed(self.random_state).randint(2**31 - 1))
        deadline = math.inf if self.timeout is None else time.monotonic() + self.timeout
        jobs, devices = _processes(self.n_jobs, self.estimator.device)
        with ExitStack() as stack:
            stack.enter_context(filters_kept())
            storage = self.storage
            if jobs > 1 and storage is None:  # which only this process can see
                storage = Path(stack.enter_context(TemporaryDirectory()), "journal")
            space = default_space() if self.space is None else self.space
            terms = study_terms(self.estimator, df, space, self.scoring, self.n_windows)
            study = self._study(storage, seed, terms)
            objective = Objective(self.estimator, df, space, self.scoring, self.n_trials, self.n_windows, seed)
            try:
                if jobs == 1:
                    _work(study, objective, self.n_trials, deadline, self.catch, callbacks)
                else:
                    self._work_together(jobs, devices, storage, seed, terms, objective, deadline, callbacks)
            except KeyboardInterrupt:
                if not _completed(study):
                    raise
                warnings.warn("The search was interrupted; what it found is kept.", stacklevel=2)
            if jobs > 1 and self.storage is None:
                study = _in_memory(study, storage)
        self._keep(study, space, df, seed)
        return self

    def predict(self, h: Any = None, df: Any = None, **options: Any) -> Any:
        """The forecast of `best_estimator_`; as TitansForecaster.predict."""
        return self._best().predict(h, df, **options)

    def score(self, df: Any, y: Any = None) -> float:
        """The score of `best_estimator_` on later rows; as TitansForecaster.score, greater is better."""
        return float(self._best().score(df, y))

    @property
    def n_features_in_(self) -> int:
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} has no `n_features_in_` before it is fitted with `refit`.")
        return int(self.best_estimator_.n_features_in_)

    def _best(self) -> Any:
        check_is_fitted(self, "study_")
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("There is no `best_estimator_`: `refit` was off. Fit with `refit=True`.")
        return self.best_estimator_

    def _check_parameters(self) -> None:
        if not isinstance(self.estimator, TitansForecaster):
            raise TypeError(f"`estimator` must be a TitansForecaster, got {type(self.estimator).__name__}.")
        check_integer("n_trials", self.n_trials, 1)
        check_integer("n_windows", self.n_windows, 1)
        check_loss("scoring", self.scoring)
        if self.timeout is not None and not (isinstance(self.timeout, (int, float, np.number)) and self.timeout > 0):
            raise ValueError(f"`timeout` must be a positive number of seconds or None, got {self.timeout!r}.")
        if self.space is None or callable(self.space):
            return
        if not isinstance(self.space, Mapping) or not self.space:
            raise TypeError(f"`space` must be a dict, a function of a trial or None, got {self.space!r}.")
        known = self.estimator.get_params()
        for name, distribution in self.space.items():
            if name not in known:
                raise ValueError(f"`space` names {name!r}, which is no parameter of {type(self.estimator).__name__}.")
            check_searched(name)
            if not isinstance(distribution, BaseDistribution):
                raise TypeError(
                    f"`space[{name!r}]` must be one of optuna.distributions, got {distribution!r}; a list of choices "
                    "is CategoricalDistribution([...])."
                )

    def _study(self, storage: Any, seed: int, terms: dict[str, str]) -> Study:
        """The study made, or joined where it has the same terms."""
        how: dict[str, Any] = dict(
            storage=open_storage(storage),
            sampler=SeededSampler(seed) if self.sampler is None else self.sampler,
            pruner=MedianPruner(n_startup_trials=5) if self.pruner is None else self.pruner,
            study_name=self.study_name or STUDY,
        )
        try:
            study, is_new = optuna.create_study(**how, direction="minimize"), True
        except DuplicatedStudyError:
            study, is_new = optuna.load_study(**how), False
        agree(study, terms, is_new)
        if self.sampler is not None and study.get_trials(deepcopy=False):
            study.sampler.reseed_rng()  # or it would draw again what it drew
        return study

    def _work_together(
        self,
        jobs: int,
        devices: list[str | None],
        storage: Any,
        seed: int,
        terms: dict[str, str],
        objective: Objective,
        deadline: float,
        callbacks: list[Callback],
    ) -> None:
        left = deadline - time.monotonic()
        Parallel(n_jobs=jobs, backend="loky")(
            delayed(_join)(self, storage, seed, terms, objective, device, left, callbacks) for device in devices
        )

    def _keep(self, study: Study, space: Space, df: Any, seed: int) -> None:
        completed = [trial for trial in _completed(study) if is_within(space, trial)]
        if not completed:
            raise RuntimeError(_why_none(study, len(_completed(study))))
        best = min(completed, key=_value)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.study_, self.best_score_ = study, _value(best)
        self.best_params_ = dict(best.user_attrs[PARAMETERS])
        if self.refit:
            chosen = clone(self.estimator).set_params(**self.best_params_)
            if chosen.random_state is None:
                chosen.random_state = seed  # as in the trials
            self.best_estimator_ = chosen.fit(df, val_loss=self.scoring)


def _work(
    study: Study,
    objective: Objective,
    n_trials: int,
    deadline: float,
    catch: tuple[type[Exception], ...],
    callbacks: list[Callback],
) -> None:
    """Run trials until the study has enough."""

    def free(study: Study, trial: FrozenTrial) -> None:
        gc.collect()  # an exception's frames hold the network
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    given = tuple(catch) if isinstance(catch, (tuple, list)) else (catch,)
    while time.monotonic() < deadline:
        give_up_lost(study)
        if begun(study) >= n_trials:
            break
        try:
            study.optimize(objective, n_trials=1, catch=(*given, Surplus), callbacks=[free, *callbacks])
        except (ValueError, UpdateFinishedTrialError):
            if not objective.was_given_up(study):
                raise
            warnings.warn(
                f"Trial {objective.number} was given up by another worker, who had heard nothing from this one for too "
                "long; the search goes on with the next.",
                stacklevel=2,
            )


def _join(
    search: TitansSearchCV,
    storage: Any,
    seed: int,
    terms: dict[str, str],
    objective: Objective,
    device: str | None,
    left: float,
    callbacks: list[Callback],
) -> None:
    """The work of one process of several."""
    study = search._study(storage, seed, terms)
    if search.sampler is not None:  # each process's copy would draw what the others draw
        study.sampler.reseed_rng()
    if device is not None:
        objective.estimator.device = device
    _work(study, objective, search.n_trials, time.monotonic() + left, search.catch, callbacks)


def _processes(n_jobs: int, device: str | None) -> tuple[int, list[str | None]]:
    """The number of processes, and the device of each where it is not the estimator's."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"`n_jobs` must be an integer other than 0, got {n_jobs!r}.")
    found = find_device(device)
    gpus = torch.cuda.device_count() if found.type == "cuda" and found.index is None else 0
    jobs = gpus if n_jobs < 0 and gpus else effective_n_jobs(n_jobs)
    return jobs, [f"cuda:{i % gpus}" if gpus > 1 else None for i in range(jobs)]


def _completed(study: Study) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])


def _value(trial: FrozenTrial) -> float:
    (value,) = trial.values
    return float(value)


def _why_none(study: Study, outside: int) -> str:
    trials = study.get_trials(deepcopy=False)
    reasons = Counter(trial.user_attrs.get(REASON, "") for trial in trials if trial.state == TrialState.FAIL)
    reasons.pop("", None)
    pruned = sum(trial.state == TrialState.PRUNED for trial in trials)
    if not trials:
        return "no trial was begun; raise `timeout`."
    beyond = f", {outside} outside the space" * bool(outside)
    listed = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(REASONS))
    more = f"; and {len(reasons) - REASONS} other reasons" if len(reasons) > REASONS else ""
    return (
        f"none of the {len(trials)} trials completed ({pruned} pruned{beyond}). Reasons: {listed or 'unknown'}{more}."
    )


def _in_memory(study: Study, path: Path) -> Study:
    """The study apart from its file, which goes."""
    storage = InMemoryStorage()
    optuna.copy_study(from_study_name=study.study_name, from_storage=open_storage(path), to_storage=storage)
    return optuna.load_study(study_name=study.study_name, storage=storage, sampler=study.sampler, pruner=study.pruner)
