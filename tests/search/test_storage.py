"""Where trials are kept, which of them count, and which are lost with their worker."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.study import Study
from optuna.trial import TrialState
from sqlalchemy import NullPool
from sqlalchemy.exc import OperationalError

from titans_ts.search import storage


def states(study: Study) -> list[str]:
    return [trial.state.name for trial in study.trials]


# Kinds of storage


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("study", JournalStorage),
        ("study.journal", JournalStorage),
        *((f"study{ending}", RDBStorage) for ending in (".db", ".sqlite", ".sqlite3")),
    ],
)
def test_the_ending_of_a_file_tells_a_journal_from_a_database(
    name: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (tmp_path / name, name):  # the same file, the second time as it was left
        study = optuna.create_study(storage=storage.open_storage(given), study_name="a", load_if_exists=True)
        study.enqueue_trial({"x": 1})
        assert isinstance(storage.open_storage(given), kind)
    assert (tmp_path / name).is_file()
    assert len(study.trials) == 2


def test_a_url_is_a_database(tmp_path: Path) -> None:
    opened = storage.open_storage(f"sqlite:///{tmp_path}/any.name")
    assert isinstance(opened, RDBStorage)
    assert (opened.heartbeat_interval, opened.grace_period) == (storage.HEARTBEAT, storage.GRACE)
    assert (tmp_path / "any.name").is_file()


def test_none_is_in_memory_and_a_storage_of_optuna_stays_itself() -> None:
    assert isinstance(storage.open_storage(None), InMemoryStorage)
    mine = InMemoryStorage()
    assert storage.open_storage(mine) is mine


def test_what_is_no_storage_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`storage` must be a path, a URL, an Optuna storage or None, got int"):
        storage.open_storage(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"`storage` must lie in an existing folder; .*nowhere does not exist"):
        storage.open_storage(tmp_path / "nowhere" / "study.db")


@pytest.mark.parametrize(("failures", "opens"), [(1, True), (4, True), (5, False)])
def test_a_database_that_others_are_just_making_is_asked_again(
    failures: int, opens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, paused = iter(range(failures)), []

    def connected(url: str, real: Any = storage._connected) -> RDBStorage:
        if next(left, None) is not None:
            raise OperationalError("CREATE TABLE", {}, Exception("table exists"))
        found: RDBStorage = real(url)
        return found

    monkeypatch.setattr(storage, "_connected", connected)
    monkeypatch.setattr(storage.time, "sleep", paused.append)
    if opens:
        assert isinstance(storage.open_storage(tmp_path / "study.db"), RDBStorage)
        assert paused == list(storage.PAUSES[:failures])
    else:
        with pytest.raises(OperationalError, match="table exists"):
            storage.open_storage(tmp_path / "study.db")


def test_threads_change_the_warning_filters_one_after_the_other() -> None:
    before, seen = list(warnings.filters), list[int]()

    def other() -> None:
        with storage._experimental():
            seen.append(len(warnings.filters))

    thread = threading.Thread(target=other)
    with storage._experimental():
        thread.start()
        thread.join(0.1)
        assert not seen
    thread.join(60)
    assert seen == [len(before) + 1]
    assert list(warnings.filters) == before


def test_a_file_of_sqlite_is_closed_after_use(tmp_path: Path) -> None:
    opened = storage.open_storage(tmp_path / "study.db")
    study = optuna.create_study(storage=opened)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    assert len(study.trials) == 2
    assert isinstance(opened, RDBStorage)
    assert isinstance(opened.engine.pool, NullPool)


@pytest.mark.parametrize("url", storage.IN_MEMORY)
def test_a_database_that_no_other_thread_sees_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=f"must be a file or a server, got '{url}'; pass None for trials in memory"):
        storage.open_storage(url)


# Trials that count


def test_the_last_search_to_end_takes_away_what_threads_left_in_the_warning_filters() -> None:
    def quiet() -> warnings.catch_warnings[None]:
        context = warnings.catch_warnings()
        context.__enter__()
        warnings.simplefilter("ignore", storage.ExperimentalWarning)
        return context

    before = list(warnings.filters)
    with storage.filters_kept():
        with storage.filters_kept():
            first = quiet()
            second = quiet()
            first.__exit__(None, None, None)
            second.__exit__(None, None, None)
        assert warnings.filters != before
    assert warnings.filters == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", storage.ExperimentalWarning)  # the caller's own stays
        with storage.filters_kept():
            pass
        assert warnings.filters[0][:3] == ("ignore", None, storage.ExperimentalWarning)


def test_trials_count_unless_they_wait_or_their_worker_was_lost() -> None:
    study = optuna.create_study()
    for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.FAIL):
        trial = study.ask()
        if trial.number == 2:
            trial.set_user_attr(storage.REASON, "ValueError: too wide")
        study.tell(trial, 1.0 if state == TrialState.COMPLETE else None, state=state)
    study.ask()
    study.enqueue_trial({"x": 1})
    assert states(study) == ["COMPLETE", "PRUNED", "FAIL", "FAIL", "RUNNING", "WAITING"]
    assert [storage.counts(trial) for trial in study.trials] == [True, True, True, False, True, False]
    assert storage.begun(study) == 4


# Workers that are gone


def test_a_signature_tells_who_runs_a_trial_and_when() -> None:
    study, before = optuna.create_study(), time.time()
    trial = study.ask()
    storage.sign(trial)
    host, process, _ = study.trials[0].user_attrs[storage.WORKER]
    assert (host, process) == (storage.socket.gethostname(), os.getpid())
    signed = study.trials[0].user_attrs[storage.SEEN]
    assert before <= signed <= time.time()
    storage.seen(trial)
    assert study.trials[0].user_attrs[storage.SEEN] >= signed
    assert storage.give_up_lost(study) == []


def running(worker: list[Any] | None, seen: float = 0.0) -> Study:
    study = optuna.create_study()
    trial = study.ask()
    if worker is not None:
        trial.set_user_attr("worker", worker)
        trial.set_user_attr("seen", seen)
    return study


def test_a_trial_is_lost_with_its_worker() -> None:
    host, me, now = storage.socket.gethostname(), os.getpid(), time.time()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    lost = [[host, gone.pid, "x"], [host, me, "another"]]
    alive = [[host, me, storage._TOKEN], [host, os.getppid(), "x"]]
    assert [storage.give_up_lost(running(worker, now)) for worker in lost] == [[0], [0]]
    assert [storage.give_up_lost(running(worker, 0.0)) for worker in alive] == [[], []]
    assert storage.give_up_lost(running(["elsewhere", 1, "x"], now - 60)) == []
    assert storage.give_up_lost(running(["elsewhere", 1, "x"], now - storage.SILENCE - 1)) == [0]
    assert storage.give_up_lost(running(None)) == []


def test_a_trial_that_is_given_up_does_not_count() -> None:
    study = running(["elsewhere", 1, "x"])
    assert storage.begun(study) == 1
    storage.give_up_lost(study)
    assert (storage.begun(study), states(study)) == (0, ["FAIL"])


def test_a_trial_that_nobody_signed_is_lost_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    study = running(None)
    later = time.time() + storage.GRACE
    monkeypatch.setattr(storage.time, "time", lambda: later - 10)
    assert storage.give_up_lost(study) == []
    monkeypatch.setattr(storage.time, "time", lambda: later + 10)
    assert storage.give_up_lost(study) == [0]
