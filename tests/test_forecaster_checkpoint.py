"""A fit in a process that is killed, which goes on in another one; checkpoints of searches and of saved models."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import FloatDistribution

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.training.checkpoint import FILE
from titans_ts.training.distributed import Ranks
from titans_ts.training.history import Evaluation

PARAMETERS = dict(
    **dict(horizon=4, lookback=16, d_model=8, n_layers=1, n_heads=2, chunk_size=4, max_epochs=3, batch_size=32),
    **dict(
        linear_path=False,
        cycle=0,
        learning_rate=0.01,
        context="window",
        combine=False,
        random_state=0,
        device="cpu",
        verbose=0,
    ),
)
SCRIPT = """
import os, signal, sys
import pandas as pd
from torch.optim.optimizer import register_optimizer_step_pre_hook
from titans_ts import TitansForecaster

steps = 0

def kill(*_):
    global steps
    steps += 1
    if steps == {step}:  # in the middle of a step
        os.kill(os.getpid(), signal.SIGKILL)

register_optimizer_step_pre_hook(kill)
table = pd.read_pickle({table!r})
TitansForecaster(**{parameters!r}, checkpoint_dir={folder!r}).fit(table)
"""


class Stopped(Exception):
    pass


def table(rows: int = 160) -> pd.DataFrame:
    noise = np.random.default_rng(0).normal(size=(rows, 2))
    waves = np.sin(np.arange(rows)[:, None] * np.pi / 12 + np.arange(2))
    return pd.DataFrame(
        waves + 0.3 * noise, index=pd.date_range("2024-01-01", periods=rows, freq="h"), columns=["a", "b"]
    )


def stop_at(number: int) -> Any:
    seen = list[Evaluation]()

    def watch(evaluation: Evaluation) -> None:
        seen.append(evaluation)
        if len(seen) == number:
            raise Stopped

    return watch


@pytest.fixture(scope="module")
def uninterrupted() -> TitansForecaster:
    return TitansForecaster(**PARAMETERS).fit(table())


def check_same(found: TitansForecaster, expected: TitansForecaster) -> None:
    assert repr(found.history_) == repr(expected.history_)
    assert np.array_equal(found.predict(9), expected.predict(9))


def test_a_fit_that_was_killed_ends_as_if_it_had_not_been(uninterrupted: TitansForecaster, tmp_path: Path) -> None:
    assert uninterrupted.history_.best.step > 0
    data, folder = tmp_path / "table.pkl", tmp_path / "run"
    table().to_pickle(data)
    script = SCRIPT.format(step=17, table=str(data), parameters=PARAMETERS, folder=str(folder))
    # as many threads as this process has: sums are rounded otherwise with more
    one = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=one)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (folder / FILE).exists()
    steps = list[int]()
    found = TitansForecaster(**PARAMETERS, checkpoint_dir=folder)
    found.fit(table(), on_evaluation=lambda evaluation: steps.append(evaluation.step))
    assert steps == [e.step for e in uninterrupted.history_.evaluations if e.step > 16]  # none is made again
    check_same(found, uninterrupted)
    assert list(folder.iterdir()) == []  # a fit that is finished


def test_one_that_raised_goes_on_too_and_is_saved_with_its_folder(
    uninterrupted: TitansForecaster, tmp_path: Path
) -> None:
    model = TitansForecaster(**PARAMETERS, checkpoint_dir=tmp_path / "run")
    with pytest.raises(Stopped):
        model.fit(table(), on_evaluation=stop_at(5))
    check_same(model.fit(table()), uninterrupted)
    model.save(tmp_path / "model")
    assert TitansForecaster.load(tmp_path / "model").checkpoint_dir == str(tmp_path / "run")


def test_an_interrupt_leaves_what_it_can_go_on_from(uninterrupted: TitansForecaster, tmp_path: Path) -> None:
    def interrupt(evaluation: Evaluation) -> None:
        if evaluation.step > 5:
            raise KeyboardInterrupt

    model = TitansForecaster(**PARAMETERS, checkpoint_dir=tmp_path)
    with pytest.warns(UserWarning, match="^Training was interrupted"):
        model.fit(table(), on_evaluation=interrupt)
    assert (tmp_path / FILE).exists()
    check_same(model.fit(table()), uninterrupted)


@pytest.mark.parametrize("changed", [dict(dropout=0.3), dict(half_life=10.0), dict(val_size=30)])
def test_other_parameters_are_refused_by_name(changed: dict[str, Any], tmp_path: Path) -> None:
    model = TitansForecaster(**PARAMETERS, checkpoint_dir=tmp_path)
    with pytest.raises(Stopped):
        model.fit(table(), on_evaluation=stop_at(3))
    named = "dropout was 0.1, and is 0.3 now" if "dropout" in changed else "data: not the same"
    with pytest.raises(ValueError, match=f"has the checkpoint of another fit: {named}"):
        model.set_params(**changed).fit(table())
    with pytest.raises(ValueError, match="another fit: data: not the same"):
        TitansForecaster(**PARAMETERS, checkpoint_dir=tmp_path).fit(table(170))


def test_a_warm_start_goes_on_from_its_own_checkpoint_alone(tmp_path: Path) -> None:
    how = dict(PARAMETERS, val_size=0, max_epochs=1, warm_start=True)
    expected = TitansForecaster(**how).fit(table()).fit(table())
    model = TitansForecaster(**how, checkpoint_dir=tmp_path).fit(table())
    with pytest.raises(Stopped):
        model.fit(table(), on_evaluation=stop_at(3))
    with pytest.raises(ValueError, match="another fit: warm start: not the same"):
        TitansForecaster(**how, checkpoint_dir=tmp_path).fit(table())
    check_same(model.fit(table()), expected)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0), True])
def test_the_seed_must_be_an_int(random_state: Any, tmp_path: Path) -> None:
    model = TitansForecaster(**{**PARAMETERS, "random_state": random_state}, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"^`random_state` must be an int where there is a `checkpoint_dir`, got"):
        model.fit(table())


def test_trials_of_a_search_write_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, fit = [], TitansForecaster.fit

    def noted(self: TitansForecaster, *given: Any, **how: Any) -> TitansForecaster:
        folders.append(self.checkpoint_dir)
        return fit(self, *given, **how)

    monkeypatch.setattr(TitansForecaster, "fit", noted)
    quick = TitansForecaster(**{**PARAMETERS, "max_epochs": 0}, checkpoint_dir=tmp_path, warm_start=True)
    TitansSearchCV(quick, {"dropout": FloatDistribution(0, 0.5)}, n_trials=2).fit(table())
    assert folders == [None, None, tmp_path]


def test_several_processes_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def two(*_: Any) -> Any:
        yield Ranks(rank=0, world=2)

    monkeypatch.setattr("titans_ts.fitting.process_group", two)
    with pytest.raises(ValueError, match=r"^`checkpoint_dir` must be None where 2 processes train together"):
        TitansForecaster(**PARAMETERS, checkpoint_dir=tmp_path).fit(table())
