"""Processes that are killed in the middle of what they write: what they leave is whole, as it was or as it was to be.

Each of the file operations of a save after an update, and of a search, is where one of the processes here ends, as by
`kill -9`; what lies there then is loaded, and gone on from.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.search.storage import open_storage

from .forks import in_a_fork

ROWS, LATER = 60, 6
SIZE = dict(horizon=3, lookback=12, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0, verbose=0)
FILE_OPERATIONS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir", "os.truncate"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a process that it forks")


def table(first: int = 0, rows: int = ROWS) -> pd.DataFrame:
    values = np.random.default_rng(0).normal(size=(ROWS + LATER, 2))
    hours = pd.date_range("2024-01-01", periods=ROWS + LATER, freq="h")
    return pd.DataFrame(values, index=hours, columns=["a", "b"])[first : first + rows]


def killed_at(number: int, folder: Path, function: Callable[[], object]) -> Callable[[], object]:
    """`function`, killed before its file operation of that number beneath `folder`."""

    def run() -> object:
        left = number

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal left
            if event in FILE_OPERATIONS and str(folder) in str(arguments[0]):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        return function()

    return run


def test_an_update_whose_save_is_killed_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    before = TitansForecaster(**SIZE, context="stream").fit(table())
    path = tmp_path / "model"
    before.save(path)
    expected = {"before": before.predict(level=80), "after": TitansForecaster.load(path).update(table(ROWS, LATER))}
    expected["after"] = expected["after"].predict(level=80)

    def update_and_save() -> None:
        TitansForecaster.load(path).update(table(ROWS, LATER)).save(path)

    found = list[str]()
    for number in range(100):
        before.save(path)
        code = in_a_fork(killed_at(number, path, update_and_save))
        left = TitansForecaster.load(path).predict(level=80)
        found += [name for name, forecast in expected.items() if forecast.equals(left)]
        assert len(found) == number + 1
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0
    assert number > 8
    swap = found.index("after")
    assert found == ["before"] * swap + ["after"] * (len(found) - swap)


def search(where: Path) -> TitansSearchCV:
    return TitansSearchCV(
        TitansForecaster(**SIZE, linear_path=True, combine=False, context="window", device="cpu"),
        {"dropout": FloatDistribution(0.0, 0.5)},
        n_trials=4,
        storage=where,
        study_name="killed",
        random_state=0,
        refit=False,
    ).fit(table())


# A process killed while it holds Optuna's lock keeps others waiting, at 3 for half a minute and at 9 for seconds.
LOCKED = [pytest.param(number, marks=pytest.mark.slow) for number in (3, 9)]


@pytest.mark.parametrize("number", [0, 1, 25, *LOCKED])
@pytest.mark.filterwarnings("ignore")  # of Optuna, what is experimental
def test_a_search_that_is_killed_loses_the_trial_under_way_alone(number: int, tmp_path: Path) -> None:
    where = tmp_path / "study.journal"
    assert in_a_fork(killed_at(number, tmp_path, lambda: search(where))) == -signal.SIGKILL
    study = search(where).study_
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == 4
    assert len(states) <= 5
    again = optuna.load_study(study_name="killed", storage=open_storage(where))
    assert [trial.value for trial in again.trials] == [trial.value for trial in study.trials]
