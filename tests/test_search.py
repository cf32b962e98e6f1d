"""The search over parameters: what a trial's score is, what becomes of bad trials, and studies that are shared."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import TrialState
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from titans_ts import TitansForecaster, TitansSearchCV, search, storages
from titans_ts.training import Check, History

ROWS = 160
DROPOUT = {"dropout": FloatDistribution(0.0, 0.5)}


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)


def tiny(**parameters: Any) -> TitansForecaster:
    given: dict[str, Any] = dict(
        horizon=6, lookback=24, d_model=8, n_heads=2, n_layers=1, max_epochs=1, val_size=12, random_state=0, verbose=0
    )
    return TitansForecaster(**{**given, **parameters})


def waves(rows: int = ROWS) -> pd.DataFrame:
    wave = np.sin(2 * np.pi * np.arange(rows) / 24)[:, None]
    noise = np.random.default_rng(0).normal(size=(rows, 2)).cumsum(0)
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame(wave + 0.1 * noise, index=index, columns=["a", "b"])


def values(study: Study) -> list[float | None]:
    return [trial.value for trial in study.trials]


def states(study: Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


# The score


def test_a_trial_scores_what_its_fit_scores_and_the_best_is_refitted() -> None:
    chosen = {"learning_rate": CategoricalDistribution([1e-4, 1e-2]), "n_layers": IntDistribution(1, 2)}
    found = TitansSearchCV(tiny(), chosen, n_trials=3, random_state=1)
    assert found.fit(waves()) is found
    fits = [tiny(**trial.params).fit(waves()) for trial in found.study_.trials]
    assert values(found.study_) == [fit.history_.best.validation_loss for fit in fits]
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
        tiny(**trial.params).fit(waves(), val_loss="mae").history_.best.validation_loss for trial in found.study_.trials
    ]
    assert values(found.study_) == expected
    assert found.best_estimator_.history_.best.validation_loss == found.best_score_


def test_windows_are_validation_blocks_one_before_the_other() -> None:
    found = TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=3, random_state=0).fit(waves())
    parameters = found.study_.trials[0].params
    errors = [tiny(**parameters).fit(waves()[: ROWS - cut]).history_.best.validation_loss for cut in (0, 12, 24)]
    assert found.best_score_ == pytest.approx(np.mean(errors), rel=1e-12)


@pytest.mark.parametrize("layout", ["long", "array"])
def test_windows_are_cut_from_every_kind_of_table(layout: str) -> None:
    wide = waves() if layout == "long" else waves().reset_index(drop=True)
    table: Any = wide.to_numpy()
    if layout == "long":
        table = wide.rename_axis(index="ds", columns="unique_id").T.stack().rename("y").reset_index()
    scores = [
        TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=2, random_state=0).fit(x).best_score_
        for x in (table, wide)
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_too_many_windows_are_refused_in_words() -> None:
    with pytest.raises(RuntimeError, match="`n_windows` = 30 leaves no validation rows for window 1"):
        TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=30).fit(waves())


def test_no_validation_rows_are_a_reason() -> None:
    with pytest.raises(RuntimeError, match=r"the validation error is nan\. No series has validation rows"):
        TitansSearchCV(tiny(val_size=0), DROPOUT, n_trials=1).fit(waves())


# The space


def test_a_function_of_a_trial_is_a_space() -> None:
    def space(trial: optuna.Trial) -> dict[str, Any]:
        heads = trial.suggest_int("heads", 1, 2)
        return {"n_heads": heads, "d_model": 8 * heads}

    found = TitansSearchCV(tiny(), space, n_trials=2, random_state=0).fit(waves())
    assert set(found.best_params_) == {"n_heads", "d_model"}
    assert found.best_params_["d_model"] == 8 * found.best_params_["n_heads"]
    assert found.best_estimator_.d_model == found.best_params_["d_model"]


def test_the_default_space_is_of_parameters_that_fit_together() -> None:
    space = search.default_space()
    assert space.keys() <= TitansForecaster().get_params().keys()
    assert all(d_model % TitansForecaster().n_heads == 0 for d_model in space["d_model"].choices)  # type: ignore[attr-defined]
    assert TitansSearchCV(tiny(), n_trials=1, random_state=3).fit(waves()).best_params_.keys() == space.keys()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (dict(estimator="titans"), TypeError, "`estimator` must be a TitansForecaster, got str"),
        (dict(space={"d_modle": IntDistribution(1, 2)}), ValueError, "names 'd_modle', which is no parameter"),
        (dict(space={"dropout": [0.1, 0.2]}), TypeError, r"a list of choices is CategoricalDistribution"),
        (dict(space={}), TypeError, "`space` must be a dict"),
        (dict(n_trials=0), ValueError, "`n_trials` must be an integer >= 1, got 0"),
        (dict(n_windows=1.5), ValueError, "`n_windows` must be an integer >= 1, got 1.5"),
        (dict(scoring="rmse"), ValueError, "`scoring` must be one of .*, got 'rmse'"),
        (dict(timeout=0), ValueError, "`timeout` must be a positive number"),
        (dict(n_jobs=0), ValueError, "`n_jobs` must be an integer other than 0"),
        (dict(storage=3), TypeError, "`storage` must be a path, a URL"),
        (dict(storage="nowhere/study.journal"), FileNotFoundError, "nowhere does not exist"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        TitansSearchCV(**{"estimator": tiny(), "space": DROPOUT, **given}).fit(waves())


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
        return TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=total, **how).fit(waves()).study_

    assert len(to(2).trials) == 2
    study = to(4)
    assert len(study.trials) == 4
    assert len({trial.params["dropout"] for trial in study.trials}) == 4
    assert len(to(3).trials) == 4


def test_a_study_with_other_scores_is_not_joined(tmp_path: Path) -> None:
    how: dict[str, Any] = dict(n_trials=1, storage=tmp_path / "s.journal", refit=False)
    TitansSearchCV(tiny(), DROPOUT, **how).fit(waves())
    with pytest.raises(ValueError, match=r"was begun with scoring='mse'.*give another `study_name`"):
        TitansSearchCV(tiny(), DROPOUT, scoring="mae", **how).fit(waves())


# Bad trials


class Scripted(TitansForecaster):
    """Does at each learning rate what `SCRIPT` says there."""

    def fit(self, df: Any, y: Any = None, *, val_loss: Any = None, on_check: Any = None) -> Scripted:
        does = SCRIPT[self.learning_rate]
        if isinstance(does, Exception):
            raise does
        self.history_ = History(checks=[Check(float(i), i, 0.0, loss, 0.0) for i, loss in enumerate(does)])
        self.network_ = Weight()
        ALIVE.add(self.network_)
        for check in self.history_.checks:
            on_check(check)
        return self


class Weight:
    pass


NAN, INF = float("nan"), float("inf")
SCRIPT: dict[float, Any] = {}
ALIVE: weakref.WeakSet[Weight] = weakref.WeakSet()


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
    search = scripted([[1.0, 1.0], [9.0, 9.0], [9.0, 9.0], [INF, INF], [1.0, 1.0]], pruner=pruner)
    found = search.fit(None, callbacks=[count])
    gc.collect()
    assert states(found.study_) == ["COMPLETE", "PRUNED", "PRUNED", "FAIL", "COMPLETE"]
    assert counted == [0, 0, 0, 0, 0]


def test_ctrl_c_ends_the_search_and_keeps_what_it_found() -> None:
    found = scripted([[2.0, 1.0], _Interrupting(), [0.0, 0.0]])
    with pytest.warns(UserWarning, match="The search was interrupted; what it found is kept"):
        found.fit(None)
    assert found.best_score_ == 1.0
    assert storages.begun(found.study_) == 1, "the trial that was interrupted does not count"


class _Interrupting(list):
    """A history that Ctrl-C ended."""

    def __iter__(self) -> Any:
        raise KeyboardInterrupt


def test_of_two_that_begin_the_last_trial_at_once_one_withdraws() -> None:
    mine = scripted([[2.0, 1.0]])
    study = optuna.create_study(study_name=search.STUDY)
    other = study.ask()
    storages.sign(other)
    objective = search._Objective(mine, None, 0)
    study.optimize(objective, n_trials=1, catch=search._Surplus)
    assert states(study) == ["RUNNING", "FAIL"]
    assert (study.trials[1].user_attrs["surplus"], storages.begun(study)) == (True, 1)


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
        time.sleep(0.3)

    found = scripted([[1.0, 1.0]] * 50, timeout=0.5).fit(None, callbacks=[slow])
    assert 1 <= len(found.study_.trials) <= 3


# Several processes


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_device", lambda device: search.torch.device(device or "cuda"))
    monkeypatch.setattr(search.torch.cuda, "device_count", lambda: 2)
    assert search._processes(3, None) == (3, ["cuda:0", "cuda:1", "cuda:0"])
    assert search._processes(-1, "cuda") == (2, ["cuda:0", "cuda:1"])
    assert search._processes(2, "cuda:1") == (2, [None, None])
    assert search._processes(2, "cpu") == (2, [None, None])


def test_processes_of_one_search_share_it() -> None:
    found = TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=6, n_jobs=2, random_state=0).fit(waves())
    alone = TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=6, random_state=0, refit=False).fit(waves())
    assert states(found.study_) == ["COMPLETE"] * 6
    assert {t.number: t.params for t in found.study_.trials} == {t.number: t.params for t in alone.study_.trials}
    assert isinstance(found.study_._storage, optuna.storages.InMemoryStorage)
    assert found.best_estimator_.n_features_in_ == 2


def launch(storage: Any, total: int, begin: float = 0.0, pause: float = 0.2) -> subprocess.Popen[str]:
    """This file as a program of its own: `main` below."""
    call = [sys.executable, __file__, *(str(x) for x in (storage, total, begin, pause))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def main() -> None:
    """A worker: from a moment on, trials that each pause, until the study has its total."""
    storage, (total, begin, pause) = sys.argv[1], map(float, sys.argv[2:])

    def slow(trial: optuna.Trial) -> dict[str, Any]:
        parameters = {"dropout": trial.suggest_float("dropout", 0.0, 0.5)}
        print("begun", trial.number, flush=True)
        time.sleep(pause)
        return parameters

    while time.time() < begin:
        time.sleep(0.01)
    how: dict[str, Any] = dict(n_trials=int(total), storage=storage, random_state=0, refit=False)
    TitansSearchCV(tiny(max_epochs=0), slow, **how).fit(waves())


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def shared(storage: Any) -> None:
    """Two processes split a study of twelve trials; then one that is killed loses its trial alone."""
    begin = time.time() + 6
    outs = [ended(p) for p in [launch(storage, 12, begin) for _ in range(2)]]
    assert all(out.count("begun") >= 2 for out in outs)
    trials = trials_in(storage)
    assert sum(map(storages.counts, trials)) == 12
    completed = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert len(completed) == 12
    assert len({trial.params["dropout"] for trial in completed}) == 12

    killed = launch(storage, 14, pause=60.0)
    assert killed.stdout is not None
    number = int(killed.stdout.readline().split()[1])
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    ended(launch(storage, 14, pause=0.0))
    trials = trials_in(storage)
    assert trials[number].state == TrialState.FAIL
    assert sum(trial.state == TrialState.COMPLETE for trial in trials) == 14
    assert all(
        trial.state == TrialState.COMPLETE for trial in trials if trial.number != number and storages.counts(trial)
    )


def trials_in(storage: Any) -> list[Any]:
    opened = storages.open_storage(storage)
    trials = optuna.load_study(study_name=search.STUDY, storage=opened).trials
    if isinstance(opened, optuna.storages.RDBStorage):
        opened.remove_session()
        opened.engine.dispose()
    return trials


def test_processes_share_a_journal_and_a_killed_one_loses_its_trial_alone(tmp_path: Path) -> None:
    shared(tmp_path / "study.journal")


POSTGRESQL = os.environ.get("TITANS_TS_POSTGRESQL")


@pytest.mark.skipif(
    not POSTGRESQL, reason="needs TITANS_TS_POSTGRESQL, the URL of a database; .ci/run starts one where it can"
)
def test_processes_share_a_postgresql_database_and_a_killed_one_loses_its_trial_alone() -> None:
    shared(POSTGRESQL)


# Workers that are gone


def test_on_a_database_a_trial_without_a_sign_of_life_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = tmp_path / "study.db"
    killed = launch(storage, 1, pause=60.0)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "begun 0\n"
    killed.kill()
    killed.communicate()
    monkeypatch.setattr(storages, "GRACE", 2)
    monkeypatch.setattr(storages.socket, "gethostname", lambda: "another machine")  # which cannot see the process
    time.sleep(3)
    study = TitansSearchCV(tiny(max_epochs=0), DROPOUT, n_trials=1, storage=storage, refit=False).fit(waves()).study_
    assert states(study) == ["FAIL", "COMPLETE"]
    assert study.trials[1].system_attrs["failed_trial"] == 0
    assert study.trials[1].params == study.trials[0].params


def running(worker: list[Any] | None, seen: float = 0.0) -> Study:
    study = optuna.create_study()
    trial = study.ask()
    if worker is not None:
        trial.set_user_attr("worker", worker)
        trial.set_user_attr("seen", seen)
    return study


def test_a_trial_is_lost_with_its_worker() -> None:
    host, me, now = storages.socket.gethostname(), os.getpid(), time.time()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lost = [[host, gone.pid, "x"], [host, me, "another"]]
    kept = [[host, me, storages._TOKEN], [host, os.getppid(), "x"]]
    assert [storages.give_up_lost(running(worker, now)) for worker in lost] == [[0], [0]]
    assert [storages.give_up_lost(running(worker, 0.0)) for worker in kept] == [[], []]
    assert storages.give_up_lost(running(["elsewhere", 1, "x"], now - 60)) == []
    assert storages.give_up_lost(running(["elsewhere", 1, "x"], now - storages.SILENCE - 1)) == [0]
    assert storages.give_up_lost(running(None)) == []


def test_a_trial_that_is_given_up_does_not_count() -> None:
    study = running(["elsewhere", 1, "x"])
    assert storages.begun(study) == 1
    storages.give_up_lost(study)
    assert (storages.begun(study), states(study)) == (0, ["FAIL"])


if __name__ == "__main__":
    main()
