"""What a study was begun with: other terms are refused with their names and nothing spent, the same ones joined."""

from __future__ import annotations

import multiprocessing
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.search import terms as module
from titans_ts.search.storage import open_storage
from titans_ts.search.terms import TERMS, agree, fingerprint, study_terms
from titans_ts.search.trial import PARAMETERS
from titans_ts.tables.read import read_table

ROWS = 100
REFUSED = 3  # how a process ends
DROPOUT: dict[str, BaseDistribution] = {"dropout": FloatDistribution(0.0, 0.5)}


def tiny(**parameters: Any) -> TitansForecaster:
    size: dict[str, Any] = dict(horizon=6, lookback=24, d_model=8, n_heads=2, n_layers=1, mixer="none")
    how: dict[str, Any] = dict(max_epochs=0, val_size=12, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**size, **how, **parameters})


def waves(rows: int = ROWS, names: str = "ab") -> pd.DataFrame:
    values = np.sin(np.arange(rows)[:, None] / 4 + np.arange(len(names))).round(3)
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=rows, freq="h"), columns=list(names))


def long(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.rename_axis(index="ds", columns="unique_id").T.stack().rename("y").reset_index()


def search(storage: Any, space: Any = None, estimator: Any = None, n_trials: int = 2, **given: Any) -> TitansSearchCV:
    how: dict[str, Any] = dict(random_state=0, refit=False) | given
    return TitansSearchCV(estimator or tiny(), space or DROPOUT, n_trials=n_trials, storage=storage, **how)


def content(storage: Any, name: str = "titans_ts") -> tuple[Any, ...]:
    study = optuna.load_study(study_name=name, storage=open_storage(storage))
    return study.trials, study.user_attrs


def by_layers(trial: optuna.Trial) -> dict[str, Any]:
    return {"n_layers": trial.suggest_int("n_layers", 1, 1)}


def by_width(trial: optuna.Trial) -> dict[str, Any]:
    return {"d_model": trial.suggest_int("d_model", 8, 8)}


# Refused


@pytest.mark.parametrize("name", ["study.journal", "study.db"])
def test_another_space_is_refused_and_nothing_is_spent(name: str, tmp_path: Path) -> None:  # case 41
    small, large = ({"d_model": CategoricalDistribution(choices)} for choices in ([8, 16], [32, 64]))
    for _ in range(2):
        search(tmp_path / name, small).fit(waves())
    before = content(tmp_path / name)
    words = (
        r"was begun with d_model=CategoricalDistribution\(choices=\(8, 16\)\) \(now .*choices=\(32, 64\)\)\), and its"
    )
    with pytest.raises(ValueError, match=words + r".* give another `study_name` than 'titans_ts'"):
        search(tmp_path / name, large, n_trials=5).fit(waves())
    assert content(tmp_path / name) == before
    found = search(tmp_path / name, small, n_trials=3).fit(waves())
    assert len(found.study_.trials) == 3
    assert found.best_params_["d_model"] in (8, 16)


@pytest.mark.parametrize(
    ("given", "rows", "names"),
    [
        (dict(scoring="mae"), ROWS, ["scoring"]),
        (dict(n_windows=2), ROWS, ["n_windows"]),
        (dict(estimator=tiny(horizon=5, lookback=20)), ROWS, ["horizon", "lookback"]),
        (dict(estimator=tiny(mixer="attention", loss="mae")), ROWS, ["mixer", "loss"]),
        (dict(estimator=tiny(random_state=1)), ROWS, ["random_state"]),
        (dict(space={"dropout": FloatDistribution(0.0, 0.4)}), ROWS, ["dropout"]),
        (dict(space={"dropout": FloatDistribution(0.0, 0.5, step=0.1)}), ROWS, ["dropout"]),
        (dict(space={"n_layers": IntDistribution(1, 2)}), ROWS, ["dropout", "n_layers"]),
        (dict(space=by_layers), ROWS, ["space", "dropout"]),
        (dict(), ROWS - 1, ["data"]),
    ],
)
def test_all_that_differs_is_named_with_what_was_and_what_is(
    given: dict[str, Any], rows: int, names: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "s.journal"
    search(path, n_trials=1).fit(waves())
    before = content(path)
    with pytest.raises(ValueError, match=r"^the study was begun with ") as caught:
        search(path, n_trials=5, **given).fit(waves(rows))
    told = re.sub(r"\w+Distribution\([^)]*\)", "D", str(caught.value))
    assert sorted(re.findall(r"(\w+)=\S[^=]*? \(now ", told)) == sorted(names)
    assert content(path) == before


def test_another_function_is_another_space(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    search(path, by_layers, n_trials=1).fit(waves())
    with pytest.raises(ValueError, match=r"space=\S*by_layers, hash \w{16} \(now \S*by_width, hash \w{16}\)"):
        search(path, by_width).fit(waves())
    assert len(search(path, by_layers).fit(waves()).study_.trials) == 2


def test_a_study_of_another_direction_is_refused() -> None:
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(storage=storage, study_name="titans_ts", direction="maximize")
    with pytest.raises(ValueError, match="must minimise one value, but was begun to maximize; give another"):
        search(storage).fit(waves())
    assert content(storage) == ([], {})


def test_trials_of_an_earlier_version_are_not_gone_on_with() -> None:
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="titans_ts")
    study.set_user_attr("scoring", "mse")  # what an earlier version kept
    study.set_user_attr("n_windows", 1)
    study.tell(study.ask(DROPOUT), 0.5)
    before = content(storage)
    with pytest.raises(ValueError, match="the study has 1 trials and no terms: it was begun by an earlier version"):
        search(storage, n_trials=5).fit(waves())
    assert content(storage) == before


# Joined


def test_more_trials_and_all_that_is_without_a_say_in_scores_are_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "s.journal"
    search(path, n_trials=1).fit(waves())
    other: dict[str, Any] = dict(random_state=7, timeout=60, pruner=optuna.pruners.NopPruner(), n_jobs=1, catch=())
    estimator = tiny(device=None, verbose=1, dropout=0.4, freq="h", id_col="id")
    assert len(search(path, estimator=estimator, n_trials=3, **other).fit(waves()).study_.trials) == 3


def test_the_same_data_in_another_table_is_no_difference(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path, frame = tmp_path / "s.journal", long(waves())
    tables = [waves(), frame, frame.sample(frac=1, random_state=0), polars.from_pandas(frame), waves()[["b", "a"]]]
    for n, table in enumerate(tables, start=1):
        assert len(search(path, n_trials=n).fit(table).study_.trials) == n


def test_a_study_with_trials_to_come_alone_is_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="titans_ts")
    study.enqueue_trial({"dropout": 0.25})
    found = search(storage, n_trials=2).fit(waves()).study_
    assert found.trials[0].params == {"dropout": 0.25}
    assert found.user_attrs[TERMS]["scoring"] == "relative mse"


def test_the_best_is_of_the_trials_within_the_space() -> None:
    storage = optuna.storages.InMemoryStorage()
    study = search(storage).fit(waves()).study_
    for value, space in (
        (0.9, {"dropout": FloatDistribution(0.0, 0.9)}),
        ("x", {"dropout": CategoricalDistribution("x")}),
    ):
        outside = {"dropout": value}
        study.add_trial(
            optuna.create_trial(params=outside, distributions=space, value=-1.0, user_attrs={PARAMETERS: outside})
        )
    study.add_trial(optuna.create_trial(params={"n": 1}, distributions={"n": IntDistribution(1, 1)}, value=-2.0))
    found = search(storage).fit(waves())
    assert found.best_score_ == min(trial.value for trial in found.study_.trials[:2])
    assert 0 <= found.best_params_["dropout"] <= 0.5


def test_trials_outside_the_space_are_counted_where_there_are_no_others() -> None:
    storage, outside = optuna.storages.InMemoryStorage(), {"dropout": 0.9}
    study = optuna.create_study(storage=storage, study_name="titans_ts")
    agree(study, study_terms(tiny(), waves(), DROPOUT, "mse", 1), is_new=True)
    space = {"dropout": FloatDistribution(0.0, 0.9)}
    study.add_trial(optuna.create_trial(params=outside, distributions=space, value=1.0))
    with pytest.raises(RuntimeError, match=r"none of the 1 trials completed \(0 pruned, 1 outside the space\)"):
        search(storage, n_trials=1).fit(waves())


# Several processes at once

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the processes that share a study")


def at_once(work: Callable[[int], None], n: int = 4) -> list[int]:
    """How so many processes end that do their work in the same moment."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(n)

    def begin(i: int) -> None:
        barrier.wait(60)
        work(i)

    processes = [context.Process(target=begin, args=(i,)) for i in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        for process in processes:
            process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


@needs_fork
@pytest.mark.parametrize("name", ["study.journal", "study.db"])
def test_processes_that_begin_a_study_at_once_on_the_same_terms_all_join_it(name: str, tmp_path: Path) -> None:
    assert at_once(lambda i: agreed(tmp_path / name, "mse")) == [0, 0, 0, 0]
    assert content(tmp_path / name)[1] == {TERMS: {"scoring": "mse"}}


@needs_fork
@pytest.mark.parametrize("name", ["study.journal", "study.db"])
def test_of_processes_that_begin_a_study_at_once_the_first_has_its_terms(name: str, tmp_path: Path) -> None:
    def work(i: int) -> None:
        try:
            agreed(tmp_path / name, f"score {i}")
        except ValueError:
            os._exit(REFUSED)

    ends = at_once(work)
    assert sorted(ends) == [0, REFUSED, REFUSED, REFUSED]
    assert content(tmp_path / name)[1] == {TERMS: {"scoring": f"score {ends.index(0)}"}}


def agreed(storage: Path, scoring: str) -> Study:
    return search(storage)._study(storage, 0, {"scoring": scoring})


def test_the_terms_of_a_study_that_is_just_begun_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    study, waits = optuna.create_study(), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            study.set_user_attr(TERMS, {"scoring": "mse"})

    monkeypatch.setattr(module.time, "sleep", sleep)
    with pytest.raises(ValueError, match=r"begun with scoring=mse \(now mae\)"):
        agree(study, {"scoring": "mae"}, is_new=False)
    assert len(waits) == 2


# The fingerprint


def of(table: Any, **options: Any) -> str:
    return fingerprint(read_table(table, **options))


def test_the_fingerprint_is_of_the_values_and_not_of_their_table() -> None:
    table = waves().round()
    frame = long(table)
    expected = of(table)
    same = [
        table.astype("int64"),
        table.astype("float32"),
        table.astype("Int64"),
        table[["b", "a"]],
        table.replace(0, -0.0),
    ]
    same += [frame, frame.iloc[::-1], frame.astype({"unique_id": "category"}), table.set_axis(table.index.as_unit("s"))]
    assert [of(other) for other in same] == [expected] * len(same)
    assert expected.startswith("2 series, 200 values, 2024-01-01 00:00:00 to 2024-01-05 03:00:00 by 'h', hash ")


def test_another_value_name_time_or_gap_is_another_fingerprint() -> None:
    table, gap, value = waves(), waves(), waves()
    gap.iloc[5, 1], value.iloc[5, 1] = np.nan, value.iloc[5, 1] + 1e-9
    later = table.set_axis(table.index + pd.Timedelta("1h"))
    others = [value, table.rename(columns={"a": "c"}), table.rename(columns={"a": "b", "b": "a"}), later, table[1:]]
    others += [table.tz_localize("Asia/Kolkata"), table.to_numpy()]
    found = [of(table), of(gap, missing="ffill"), *map(of, others)]
    assert len(set(found)) == len(found)
    assert of(gap, missing="interpolate") == of(gap, missing="ffill")


def test_a_table_that_cannot_be_read_has_its_trials_say_so() -> None:
    assert study_terms(tiny(), "no table", DROPOUT, "mse", 1)["data"] == "unreadable str"
    with pytest.raises(RuntimeError, match=r"none of the 1 trials completed.* 1 x TypeError: "):
        search(None, n_trials=1).fit("no table")


def test_terms_are_the_same_whoever_writes_them() -> None:
    plain = study_terms(tiny(horizon=None, lookback=None), waves(), DROPOUT, "mse", 1)
    told = study_terms(tiny(horizon=np.int64(24), lookback=24), waves(), DROPOUT, "mse", np.int64(1))
    assert plain == told
    assert plain.keys() == {
        *("scoring", "n_windows", "estimator", "space", "data", "horizon", "lookback", "mixer", "n_layers", "d_model"),
        *("n_heads", "max_epochs", "val_size", "random_state", "dropout"),
    }
    state = np.random.RandomState(0)
    assert study_terms(tiny(random_state=state), waves(), DROPOUT, "mse", 1)["random_state"] == "RandomState"
