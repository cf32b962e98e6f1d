"""The search over parameters: what it chooses, what becomes of bad trials, and studies that several processes share."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sqlite3
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import TrialState
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.search import search_cv, storage
from titans_ts.training.history import Evaluation, History

from .small_search import DROPOUT, ROWS, tiny, waves


@pytest.fixture(autouse=True, scope="module")
def collected() -> Iterator[None]:
    """A search collects garbage after each trial: what was there before need not be looked through every time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def values(study: Study) -> list[float | None]:
    return [trial.value for trial in study.trials]


def states(study: Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


# What it chooses


def test_a_trial_scores_what_its_fit_scores_and_the_best_is_refitted() -> None:
    chosen = {"learning_rate": CategoricalDistribution([1e-4, 1e-2]), "n_layers": IntDistribution(1, 2)}
    found = TitansSearchCV(tiny(), chosen, n_trials=3, random_state=1)
    assert found.fit(waves()) is found
    fits = [tiny(**trial.params).fit(waves()) for trial in found.study_.trials]
    assert values(found.study_) == [fit.history_.best.relative_error for fit in fits]
    best = int(np.argmin(values(found.study_)))
    assert found.best_score_ == values(found.study_)[best]
    assert found.best_params_ == found.study_.trials[best].params
    assert found.best_estimator_.get_params() == tiny(**found.best_params_).get_params()
    pd.testing.assert_frame_equal(found.predict(9), fits[best].predict(9), check_exact=True)
    later = waves(ROWS + 20)
    pd.testing.assert_frame_equal(found.predict(df=later), fits[best].predict(df=later), check_exact=True)
    assert found.score(later[ROWS:]) == fits[best].score(later[ROWS:])
    assert found.n_features_in_ == 2


def test_scoring_is_by_the_error_asked_for_whatever_the_loss() -> None:
    losses = {"loss": CategoricalDistribution(["mse", "mae", "huber"])}
    found = TitansSearchCV(tiny(), losses, n_trials=4, scoring="mae", random_state=0).fit(waves())
    expected = [
        tiny(**trial.params).fit(waves(), val_loss="mae").history_.best.relative_error for trial in found.study_.trials
    ]
    assert values(found.study_) == expected
    assert found.best_estimator_.history_.best.relative_error == found.best_score_


# The space


def test_a_function_of_a_trial_is_a_space() -> None:
    def space(trial: optuna.Trial) -> dict[str, Any]:
        heads = trial.suggest_int("heads", 1, 2)
        return {"n_heads": heads, "d_model": 8 * heads}

    found = TitansSearchCV(tiny(), space, n_trials=2, random_state=0).fit(waves())
    assert set(found.best_params_) == {"n_heads", "d_model"}
    assert found.best_params_["d_model"] == 8 * found.best_params_["n_heads"]
    assert found.best_estimator_.d_model == found.best_params_["d_model"]


def test_the_default_space_is_of_parameters_that_go_together() -> None:
    space = search_cv.default_space()
    assert space.keys() <= TitansForecaster().get_params().keys()
    assert all(d_model % TitansForecaster().n_heads == 0 for d_model in space["d_model"].choices)  # type: ignore[attr-defined]
    found = TitansSearchCV(tiny(mixer="memory"), n_trials=1, refit=False, random_state=3).fit(waves())
    assert found.best_params_.keys() == space.keys()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (dict(estimator="titans"), TypeError, "`estimator` must be a TitansForecaster, got str"),
        (dict(space={"d_modle": IntDistribution(1, 2)}), ValueError, "names 'd_modle', which is no parameter"),
        (dict(space={"context": IntDistribution(1, 2)}), ValueError, "must not name 'context': a trial's score is of"),
        (dict(space={"dropout": [0.1, 0.2]}), TypeError, r"a list of choices is CategoricalDistribution"),
        (dict(space={}), TypeError, "`space` must be a dict"),
        (dict(n_trials=0), ValueError, "`n_trials` must be an integer >= 1, got 0"),
        (dict(n_windows=1.5), ValueError, "`n_windows` must be an integer >= 1, got 1.5"),
        (dict(scoring="rmse"), ValueError, "`scoring` must be one of .*, got 'rmse'"),
        (dict(scoring=["mse"]), ValueError, r"`scoring` must be one of .*, got \['mse'\]"),
        (dict(timeout=0), ValueError, "`timeout` must be a positive number"),
        (dict(n_jobs=0), ValueError, "`n_jobs` must be an integer other than 0"),
        (dict(storage=3), TypeError, "`storage` must be a path, a URL"),
        (dict(storage="nowhere/study.journal"), FileNotFoundError, "nowhere does not exist"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        TitansSearchCV(**{"estimator": tiny(), "space": DROPOUT, **given}).fit(waves())


def test_numbers_of_numpy_are_numbers() -> None:
    whole, real = np.int64(1), np.float32(600)
    found = scripted([[1.0, 1.0]], n_trials=whole, n_jobs=whole, n_windows=whole, timeout=np.int64(600)).fit(None)
    assert states(found.study_) == ["COMPLETE"]
    assert states(scripted([[1.0, 1.0]], timeout=real).fit(None).study_) == ["COMPLETE"]


def test_torchrun_is_told_that_it_shares_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="start it without torchrun"):
        TitansSearchCV(tiny(), DROPOUT).fit(waves())


def test_parameters_are_only_kept_by_the_constructor() -> None:
    odd = TitansSearchCV([], space=3, n_trials="x", storage=object())
    assert clone(TitansSearchCV(tiny(), n_trials=7)).n_trials == 7
    assert odd.get_params(deep=False)["n_trials"] == "x"
    with pytest.raises(NotFittedError):
        TitansSearchCV(tiny()).predict(3)
    kept = TitansSearchCV(tiny(), DROPOUT, n_trials=1, refit=False, random_state=0).fit(waves())
    with pytest.raises(AttributeError, match="`refit` was off"):
        kept.predict(3)
    assert not hasattr(kept, "n_features_in_")


# Repeating and going on


def test_a_search_repeats_itself_and_another_seed_does_not() -> None:
    first, again, other = (
        TitansSearchCV(tiny(), DROPOUT, n_trials=3, random_state=seed, refit=False).fit(waves()).study_
        for seed in (5, 5, 6)
    )
    assert [t.params for t in first.trials] == [t.params for t in again.trials]
    assert values(first) == values(again)
    assert first.trials[0].params != other.trials[0].params


@pytest.mark.parametrize("name", ["study.journal", "study.db"])
@pytest.mark.parametrize("sampler", [None, "random"])
def test_a_study_goes_on_to_its_total_and_draws_anew(name: str, sampler: str | None, tmp_path: Path) -> None:
    def to(total: int) -> Study:
        given = optuna.samplers.RandomSampler(seed=0) if sampler else None
        how: dict[str, Any] = dict(storage=tmp_path / name, sampler=given, random_state=0, refit=False)
        return TitansSearchCV(Scripted(), DROPOUT, n_trials=total, **how).fit(None).study_

    assert len(to(2).trials) == 2
    study = to(4)
    assert len(study.trials) == 4
    assert len({trial.params["dropout"] for trial in study.trials}) == 4
    assert len(to(3).trials) == 4


def test_a_study_with_other_scores_is_not_joined(tmp_path: Path) -> None:
    how: dict[str, Any] = dict(n_trials=1, storage=tmp_path / "s.journal", refit=False)
    TitansSearchCV(tiny(), DROPOUT, **how).fit(waves())
    with pytest.raises(ValueError, match=r"was begun with scoring=relative mse.*give another `study_name`"):
        TitansSearchCV(tiny(), DROPOUT, scoring="mae", **how).fit(waves())


# Bad trials


class Scripted(TitansForecaster):
    """Does at each learning rate what `SCRIPT` says there: a fit with these validation losses, or an error."""

    def fit(self, df: Any, y: Any = None, *, val_loss: Any = None, on_evaluation: Any = None) -> Scripted:
        does = SCRIPT.get(self.learning_rate, [1.0, 1.0])
        if isinstance(does, Exception):
            raise does
        losses = [Evaluation(float(i), i, 0.0, loss, 0.0) for i, loss in enumerate(does)]
        self.fitted_ = Fitted(losses)
        ALIVE.add(self.fitted_)
        for evaluation in losses:
            on_evaluation(evaluation)
        return self


class Fitted:
    """In place of a FittedModel."""

    def __init__(self, evaluations: list[Evaluation]) -> None:
        self.history = History(evaluations)


NAN, INF = float("nan"), float("inf")
SCRIPT: dict[float, Any] = {}
ALIVE: weakref.WeakSet[Fitted] = weakref.WeakSet()


def scripted(script: list[Any], **parameters: Any) -> TitansSearchCV:
    """A search whose trials do what is scripted, one after the other."""
    SCRIPT.clear()
    SCRIPT.update({1.0 + i: does for i, does in enumerate(script)})

    def space(trial: optuna.Trial) -> dict[str, Any]:
        return {"learning_rate": trial.suggest_float("rate", 1.0 + trial.number, 1.0 + trial.number)}

    how: dict[str, Any] = dict(n_trials=len(script), refit=False, random_state=0)
    return TitansSearchCV(Scripted(), space, **{**how, **parameters})


def test_bad_trials_fail_with_their_reasons_and_the_good_one_is_best() -> None:  # case 29
    found = scripted([ValueError("no such thing"), [NAN, NAN], [INF, INF], [2.0, 1.0]]).fit(None)
    assert states(found.study_) == ["FAIL", "FAIL", "FAIL", "COMPLETE"]
    reasons = [trial.user_attrs.get("reason") for trial in found.study_.trials]
    assert reasons[0] == "ValueError: no such thing"
    assert reasons[1].startswith("ValueError: the validation error is nan.")
    assert reasons[2] == "ValueError: the validation error is inf."
    assert (found.best_score_, found.best_params_) == (1.0, {"learning_rate": 4.0})


def test_where_none_completes_the_reasons_are_listed() -> None:  # case 29
    with pytest.raises(RuntimeError) as caught:
        scripted([ValueError("a"), [INF, INF], ValueError("a")]).fit(None)
    assert "none of the 3 trials completed (0 pruned)" in str(caught.value)
    assert "2 x ValueError: a" in str(caught.value)
    assert "1 x ValueError: the validation error is inf." in str(caught.value)


def test_what_is_not_caught_ends_the_search_and_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        scripted([[1.0, 1.0], ZeroDivisionError()], catch=(ValueError,)).fit(None)


def test_a_hopeless_trial_is_pruned_by_its_best_so_far() -> None:
    good, bad, late = [9.0, 2.0, 1.0], [9.0, 5.0, 5.0], [9.0, 2.0, 8.0]
    pruner = optuna.pruners.MedianPruner(n_startup_trials=2)
    found = scripted([good, good, bad, late], pruner=pruner).fit(None)
    assert states(found.study_) == ["COMPLETE", "COMPLETE", "PRUNED", "PRUNED"]
    reported = [trial.intermediate_values for trial in found.study_.trials]
    assert reported == [{1: 2.0, 2: 1.0}, {1: 2.0, 2: 1.0}, {1: 5.0}, {1: 2.0, 2: 2.0}]


def test_trials_free_what_they_held() -> None:
    counted = []

    def count(study: Study, trial: Any) -> None:
        counted.append(len(ALIVE))

    pruner = optuna.pruners.ThresholdPruner(upper=3.0)
    found = scripted([[1.0, 1.0], [9.0, 9.0], [9.0, 9.0], [INF, INF], [1.0, 1.0]], pruner=pruner)
    found.fit(None, callbacks=[count])
    gc.collect()
    assert states(found.study_) == ["COMPLETE", "PRUNED", "PRUNED", "FAIL", "COMPLETE"]
    assert counted == [0, 0, 0, 0, 0]


def test_callbacks_that_can_be_read_once_are_called_after_every_trial() -> None:
    numbers: list[int] = []
    callbacks = iter([lambda study, trial: numbers.append(trial.number)])
    scripted([[1.0, 1.0]] * 3).fit(None, callbacks=callbacks)
    assert numbers == [0, 1, 2]


def test_ctrl_c_ends_the_search_and_keeps_what_it_found() -> None:
    found = scripted([[2.0, 1.0], _Interrupting(), [0.0, 0.0]])
    with pytest.warns(UserWarning, match="The search was interrupted; what it found is kept"):
        found.fit(None)
    assert found.best_score_ == 1.0
    assert storage.begun(found.study_) == 1, "the trial that was interrupted does not count"


def test_ctrl_c_before_anything_was_found_ends_the_search() -> None:
    with pytest.raises(KeyboardInterrupt):
        scripted([_Interrupting(), [0.0, 0.0]]).fit(None)


def test_a_fit_that_finds_nothing_leaves_what_the_last_one_found() -> None:
    found = scripted([[2.0, 1.0], [4.0, 3.0]]).fit(None)
    found.best_estimator_ = "of a fit with `refit`"
    before = {name: value for name, value in vars(found).items() if name.endswith("_")}
    with pytest.raises(RuntimeError, match="no trial was begun; raise `timeout`"):
        found.set_params(timeout=1e-9).fit(None)
    assert {name: value for name, value in vars(found).items() if name.endswith("_")} == before
    found.set_params(timeout=None, n_trials=1).fit(None)
    assert len(found.study_.trials) == 1
    assert "best_estimator_" not in vars(found), "of another study"


class _Interrupting(list):
    """A history that Ctrl-C ended."""

    def __iter__(self) -> Any:
        raise KeyboardInterrupt


def test_a_trial_that_others_gave_up_is_let_go() -> None:
    found = scripted([[2.0, 2.0], [1.0, 1.0]])
    space = found.space

    def given_up(trial: optuna.Trial) -> dict[str, Any]:
        parameters: dict[str, Any] = space(trial)
        if trial.number == 0:
            trial.study.tell(0, state=TrialState.FAIL)
        return parameters

    SCRIPT[3.0] = [3.0, 3.0]
    with pytest.warns(UserWarning, match="Trial 0 was given up by another worker"):
        found.set_params(space=given_up).fit(None)
    assert states(found.study_) == ["FAIL", "COMPLETE", "COMPLETE"]
    assert found.best_score_ == 1.0


def test_no_trial_is_begun_after_the_timeout() -> None:
    def slow(study: Study, trial: Any) -> None:
        time.sleep(0.15)

    found = scripted([[1.0, 1.0]] * 50, timeout=0.25).fit(None, callbacks=[slow])
    assert 1 <= len(found.study_.trials) <= 3


# Several processes


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_cv, "find_device", lambda device: search_cv.torch.device(device or "cuda"))
    monkeypatch.setattr(search_cv.torch.cuda, "device_count", lambda: 2)
    assert search_cv._processes(3, None) == (3, ["cuda:0", "cuda:1", "cuda:0"])
    assert search_cv._processes(-1, "cuda") == (2, ["cuda:0", "cuda:1"])
    assert search_cv._processes(2, "cuda:1") == (2, [None, None])
    assert search_cv._processes(2, "cpu") == (2, [None, None])


def test_processes_of_one_search_share_it() -> None:
    found = TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=4, n_jobs=2, random_state=0).fit(waves())
    alone = TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=4, random_state=0, refit=False).fit(waves())
    assert states(found.study_) == ["COMPLETE"] * 4
    assert {t.number: t.params for t in found.study_.trials} == {t.number: t.params for t in alone.study_.trials}
    assert isinstance(found.study_._storage, optuna.storages.InMemoryStorage)
    assert found.best_estimator_.n_features_in_ == 2


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the processes that share a study")


def forked(function: Callable[..., None], *args: Any) -> Any:
    """A process of its own that calls `function`."""
    process = multiprocessing.get_context("fork").Process(target=function, args=args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        process.start()
    return process


def work(where: Any, name: str, total: int, before: Callable[[int], None] = lambda number: None) -> Study:
    """What each of several processes does: trials, `before` called in each, until the study has its total."""

    def space(trial: optuna.Trial) -> dict[str, Any]:
        parameters = {"dropout": trial.suggest_float("dropout", 0.0, 0.5)}
        before(trial.number)
        return parameters

    how: dict[str, Any] = dict(n_trials=total, storage=where, study_name=name, random_state=0, refit=False)
    return TitansSearchCV(Scripted(device="cpu"), space, **how).fit(None).study_


def killed_in_a_trial(where: Any, name: str, total: int) -> int:
    """Let a process begin a trial and kill it there; the number of the trial."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def stop(number: int) -> None:
        while isinstance(where, Path) and where.suffix == ".db" and not heartbeats(where):
            time.sleep(0.01)  # a thread of Optuna's writes the first
        there.send(number)
        time.sleep(600)

    process = forked(work, where, name, total, stop)
    try:
        assert here.poll(60)
        number: int = here.recv()
    finally:
        process.kill()
        process.join()
    assert process.exitcode == -signal.SIGKILL
    return number


def heartbeats(path: Path) -> int:
    """How many trials on a database have given a sign of life."""
    database = sqlite3.connect(path)
    (count,) = database.execute("SELECT COUNT(*) FROM trial_heartbeats").fetchone()
    database.close()
    return int(count)


def shared(where: Any) -> None:
    """Two processes split a study of twelve trials; then one that is killed loses its trial alone."""
    name = uuid.uuid4().hex  # a database may hold other runs
    context = multiprocessing.get_context("fork")
    both, counts = context.Barrier(2), [context.Value("i", 0) for _ in range(2)]

    def together(which: int) -> None:
        def meet(number: int) -> None:
            counts[which].value += 1
            if counts[which].value <= 2:  # neither does all before the other has begun
                both.wait(60)

        work(where, name, 12, meet)

    processes = [forked(together, which) for which in range(2)]
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    assert all(count.value >= 2 for count in counts)
    trials = trials_in(where, name)
    assert sum(map(storage.counts, trials)) == 12
    completed = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert len(completed) == 12
    assert len({trial.params["dropout"] for trial in completed}) == 12

    number = killed_in_a_trial(where, name, 14)
    last = forked(work, where, name, 14)
    last.join(120)
    assert last.exitcode == 0
    trials = trials_in(where, name)
    assert trials[number].state == TrialState.FAIL
    assert sum(trial.state == TrialState.COMPLETE for trial in trials) == 14
    assert all(
        trial.state == TrialState.COMPLETE for trial in trials if trial.number != number and storage.counts(trial)
    )


def trials_in(where: Any, name: str) -> list[Any]:
    opened = storage.open_storage(where)
    trials = optuna.load_study(study_name=name, storage=opened).trials
    if isinstance(opened, optuna.storages.RDBStorage):
        opened.remove_session()
        opened.engine.dispose()
    return trials


@needs_fork
def test_processes_share_a_journal_and_a_killed_one_loses_its_trial_alone(tmp_path: Path) -> None:
    shared(tmp_path / "study.journal")


POSTGRESQL = os.environ.get("TITANS_TS_POSTGRESQL")


@needs_fork
@pytest.mark.skipif(
    not POSTGRESQL, reason="needs TITANS_TS_POSTGRESQL, the URL of a database; .ci/run starts one where it can"
)
def test_processes_share_a_postgresql_database_and_a_killed_one_loses_its_trial_alone() -> None:
    shared(POSTGRESQL)


@needs_fork
def test_on_a_database_a_trial_without_a_sign_of_life_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.db"
    assert killed_in_a_trial(path, "lost", 1) == 0
    with sqlite3.connect(path) as database:  # its last sign of life was longer ago than the grace that it has
        changed = database.execute("UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, '-121 seconds')")
        assert changed.rowcount == 1
    database.close()
    monkeypatch.setattr(storage.socket, "gethostname", lambda: "another machine")  # which cannot see the process
    study = optuna.load_study(study_name="lost", storage=storage.open_storage(path))
    assert storage.give_up_lost(study) == []  # the heartbeat told of it
    assert states(study) == ["FAIL", "WAITING"]
    assert storage.WORKER not in study.trials[1].user_attrs
    study = work(path, "lost", 1)
    assert states(study) == ["FAIL", "COMPLETE"]
    assert study.trials[1].system_attrs["failed_trial"] == 0
    assert study.trials[1].params == study.trials[0].params


@needs_fork
def test_on_a_database_a_trial_with_a_recent_sign_of_life_is_left_to_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.db"
    killed_in_a_trial(path, "lost", 1)
    monkeypatch.setattr(storage.socket, "gethostname", lambda: "another machine")
    study = optuna.load_study(study_name="lost", storage=storage.open_storage(path))
    assert storage.give_up_lost(study) == []
    assert states(study) == ["RUNNING"]
