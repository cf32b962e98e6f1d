"""The script of a search: what it reads, that it goes on, and what it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.preprocessing import StandardScaler

from benchmark import sweep
from benchmark.table import Table
from titans_ts.datasets import Dataset, Split

FOLDER = Path(__file__).parents[3] / "experiments" / "benchmark"
TOML = """
dataset = "ETTh1"
horizon = 6
lookback = 24
n_trials = 2
storage = "small.journal"
study_name = "small"

[fixed]
cycle = 24
n_layers = 1
d_model = 8
max_epochs = 1
stride = 4

[space]
dropout = { low = 0.0, high = 0.5 }
loss = { choices = ["mse", "mae"] }
memory_depth = { low = 1, high = 2 }
"""


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The TOML of a search on two channels, of which test rows would be found out: they are NaN."""
    hour = np.arange(400)
    noise = np.random.default_rng(0).normal(0, 0.3, (400, 2))
    frame = pd.DataFrame(
        np.sin(hour * 2 * np.pi / 24)[:, None] + noise,
        index=pd.date_range("2016-07-01", periods=400, freq="h", name="date"),
        columns=["a", "b"],
    )
    frame.iloc[300:] = np.nan
    split = Split(range(200), range(200, 300), range(300, 400))
    data = Dataset(frame, "ETTh1", "h", split, StandardScaler().fit(frame.iloc[:200]))
    monkeypatch.setattr(sweep, "load_dataset", lambda name, root=None: data)
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


def test_it_searches_goes_on_and_leaves_a_table_and_pictures(search: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep.main([str(search)])
    out = capsys.readouterr().out
    assert "2 of 2, best " in out
    assert ", 0 s left" in out
    assert "2 complete" in out
    study = optuna.load_study(study_name="small", storage=_journal(search.parent / "small.journal"))
    best = study.best_trial
    assert f"best relative mse {best.value:.5f}" in out

    written = Table.read(search.parent / "small_best.toml")
    assert written.horizons == (6,)
    fixed = {"cycle": 24, "n_layers": 1, "d_model": 8, "stride": 4}
    assert written.model == {**fixed, "dropout": best.params["dropout"], "memory_depth": best.params["memory_depth"]}
    assert written.train == {"max_epochs": 1, "loss": best.params["loss"]}
    assert (search.parent / "small_history.png").stat().st_size > 1000

    sweep.main([str(search), "--trials", "3", "--no-default"])
    assert "3 of 3, best " in capsys.readouterr().out
    assert len(study.trials) == 3


def _journal(path: Path) -> Any:
    return optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))


def test_the_committed_searches_are_read() -> None:
    found = [sweep.Sweep.read(path) for path in FOLDER.glob("sweep_*.toml") if "best" not in path.name]
    assert found
    assert all(Path(each.storage).parent == FOLDER.resolve() for each in found)
    (first,) = (each for each in found if each.study_name == "etth1-96")
    assert first.space["learning_rate"] == FloatDistribution(1e-4, 3e-3, log=True)
    assert first.space["d_model"] == CategoricalDistribution([16, 32, 64])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("horizon = 6", "horizn = 6", "unknown key 'horizn'"),
        ("n_trials = 2", "", "`n_trials` is missing"),
        ("{ low = 0.0, high = 0.5 }", "{ low = 0.0 }", "'dropout' must have `choices`, or `low`, `high`"),
        ("{ low = 0.0, high = 0.5 }", "0.1", "'dropout' must have `choices`"),
    ],
)
def test_a_wrong_file_is_named(search: Path, old: str, new: str, words: str) -> None:
    search.write_text(TOML.replace(old, new))
    with pytest.raises(ValueError, match=words):
        sweep.Sweep.read(search)


def test_whole_bounds_search_whole_numbers(search: Path) -> None:
    read = sweep.Sweep.read(search)
    assert read.space["memory_depth"] == IntDistribution(1, 2)
    assert read.storage == str(search.resolve().parent / "small.journal")
    search.write_text(TOML.replace("small.journal", "postgresql://host/studies"))
    assert sweep.Sweep.read(search).storage == "postgresql://host/studies"
