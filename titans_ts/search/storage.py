"""Storage for the trials of a search: memory, a file, or a database that several machines share.

A worker that is killed leaves its trial running for ever, unless somebody says otherwise. A database has Optuna's
heartbeat for that. In a file each trial carries who runs it, and whoever joins the study gives up those of workers that
are gone.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy import NullPool
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

SQLITE = (".db", ".sqlite", ".sqlite3")  # endings of a file that is a database
IN_MEMORY = ("sqlite://", "sqlite:///", "sqlite:///:memory:")  # of which each thread has one of its own
HEARTBEAT, GRACE = 30, 120  # seconds between signs of life on a database, and without one until a trial is given up
SILENCE = 3600  # seconds without a report after which a trial of another machine on a file is given up
PAUSES = (0.2, 0.5, 1.0, 2.0)  # seconds before a storage is asked again
RETRIES = 3  # for a trial on a database whose worker is gone
WORKER, SEEN, REASON = "worker", "seen", "reason"  # user attributes of a trial

_changing = threading.RLock()  # the filters of warnings
_searches, _quiet_before = 0, False  # that run, and whether the filter was there before them
_QUIET = ("ignore", None, ExperimentalWarning, None, 0)  # the filter, as Python keeps it
_TOKEN = uuid.uuid4().hex  # a process that has another one's number is not that process


def open_storage(storage: str | os.PathLike[str] | BaseStorage | None) -> BaseStorage:
    """The storage that `TitansSearchCV` was given.

    Parameters
    ----------
    storage : path, str, BaseStorage or None
        A file: SQLite if it ends in .db, .sqlite or .sqlite3, else a journal. A URL with "://" as SQLAlchemy takes it.
        None keeps trials in memory.

    Raises
    ------
    TypeError
        If it is anything else.
    FileNotFoundError
        If the file's folder does not exist.
    ValueError
        If it is a database of SQLite in memory.
    """
    if storage is None:
        return InMemoryStorage()
    if isinstance(storage, BaseStorage):
        return storage
    if not isinstance(storage, (str, os.PathLike)):
        raise TypeError(f"`storage` must be a path, a URL, an Optuna storage or None, got {type(storage).__name__}.")
    if str(storage) in IN_MEMORY:
        raise ValueError(f"`storage` must be a file or a server, got {str(storage)!r}; pass None for trials in memory.")
    if "://" in str(storage):
        return _database(str(storage))
    path = Path(storage).absolute()
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"`storage` must lie in an existing folder; {path.parent} does not exist. Make it first."
        )
    if path.suffix in SQLITE:
        return _database(f"sqlite:///{path}")
    return JournalStorage(JournalFileBackend(str(path)))


def _database(url: str) -> RDBStorage:
    """Optuna's storage behind a URL.

    Of processes that begin in the same moment one makes the tables, and the others find them half made: they try again.
    """
    for pause in PAUSES:
        try:
            return _connected(url)
        except (IntegrityError, OperationalError, ProgrammingError):
            time.sleep(pause)
    return _connected(url)


def _connected(url: str) -> RDBStorage:
    engine: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):  # a connection that is kept would never be closed, which Python 3.13 warns of
        engine = {"connect_args": {"timeout": GRACE}, "poolclass": NullPool}
    with _experimental():
        retry = optuna.storages.RetryHeartbeatStaleTrialCallback(max_retry=RETRIES)

        def again(study: Study, trial: FrozenTrial) -> None:
            trial.user_attrs = {}  # the worker that is gone is not the one that will try again
            retry(study, trial)

        return RDBStorage(
            url,
            engine_kwargs=engine,
            heartbeat_interval=HEARTBEAT,
            grace_period=GRACE,
            heartbeat_stale_trial_callback=again,
        )


@contextmanager
def _experimental() -> Iterator[None]:
    """Let what Optuna calls experimental be used without its warning."""
    with _changing, warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield


@contextmanager
def filters_kept() -> Iterator[None]:
    """Leave no filter of warnings behind that Optuna sets for the moment.

    It does so for each trial on a database. The filters are the process's: of two threads that change them at once, one
    leaves behind what the other set. The last search to end takes that away.
    """
    global _searches, _quiet_before
    with _changing:
        if _searches == 0:
            _quiet_before = _QUIET in warnings.filters
        _searches += 1
    try:
        yield
    finally:
        with _changing:
            _searches -= 1
            if _searches == 0 and not _quiet_before and _QUIET in warnings.filters:
                warnings.filters.remove(_QUIET)  # type: ignore[attr-defined]


def sign(trial: Trial) -> None:
    """Write on a trial who runs it, and that it is still run."""
    trial.set_user_attr(WORKER, [socket.gethostname(), os.getpid(), _TOKEN])
    seen(trial)


def seen(trial: Trial) -> None:
    trial.set_user_attr(SEEN, time.time())


def give_up_lost(study: Study) -> list[int]:
    """Fail the running trials whose workers are gone; the numbers of those that no heartbeat told of.

    On this machine a worker is gone with its process, on another one after an hour without a report. On a database
    Optuna's heartbeat tells sooner, and has the trial tried again.
    """
    with _experimental():
        optuna.storages.fail_stale_trials(study)
    lost = [trial.number for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]) if _is_lost(trial)]
    for number in lost:
        study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
    return lost


def _is_lost(trial: FrozenTrial) -> bool:
    if WORKER not in trial.user_attrs:  # killed before it could sign, or not one of ours
        since = trial.datetime_start
        return since is not None and time.time() - since.timestamp() > GRACE
    host, process, token = trial.user_attrs[WORKER]
    if host != socket.gethostname():
        return bool(time.time() - trial.user_attrs.get(SEEN, 0) > SILENCE)
    if process == os.getpid():
        return bool(token != _TOKEN)
    return not _is_alive(process)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return not _is_zombie(process)


def _is_zombie(process: int) -> bool:
    """Ended, but its parent has not asked how; Linux only."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "Z"


def begun(study: Study) -> int:
    """How many trials count: finished or running, but not those whose workers were lost."""
    return sum(counts(trial) for trial in study.get_trials(deepcopy=False))


def counts(trial: FrozenTrial) -> bool:
    if trial.state == TrialState.FAIL:
        return REASON in trial.user_attrs
    return trial.state != TrialState.WAITING
