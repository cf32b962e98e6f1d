"""Forecasts of a Dask DataFrame, and backtests, on a cluster of two processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from titans_ts import SeasonalNaive, TitansForecaster, cross_validation, predict_partitions

dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

HOURS = pd.date_range("2024-01-01", periods=60, freq="h")
IDS = [f"s{i:02}" for i in range(12)]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    walks = np.random.default_rng(0).normal(size=(len(IDS), len(HOURS))).cumsum(1)
    return pd.DataFrame({"unique_id": np.repeat(IDS, len(HOURS)), "ds": list(HOURS) * len(IDS), "y": walks.ravel()})


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> TitansForecaster:
    """Fitted to half of the series."""
    given = dict(horizon=4, lookback=16, d_model=8, n_layers=1, max_epochs=0, random_state=0, verbose=0)
    return TitansForecaster(**given).fit(table[table["unique_id"] < "s06"])


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    """Of a cluster with two processes of one thread each."""
    how = dict(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=None)
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
        yield client


def partitioned(table: pd.DataFrame, n: int = 4) -> dd.DataFrame:
    """Whole series in each of `n` partitions, the last of them empty."""
    parts = [table[table["unique_id"].isin(IDS[i :: n - 1])] for i in range(n - 1)]
    return dd.from_map(lambda part: part, [*parts, table[:0]], meta=table[:0])


def in_order(forecast: pd.DataFrame) -> pd.DataFrame:
    return forecast.sort_values(["unique_id", "ds"], ignore_index=True)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal but for what batches of another size round otherwise."""
    assert found["unique_id"].tolist() == expected["unique_id"].tolist()
    assert found["ds"].tolist() == expected["ds"].tolist()
    assert found["Titans"].to_numpy() == pytest.approx(expected["Titans"].to_numpy(), abs=1e-5)


def test_partitions_are_forecast_as_one_table_is_without_a_cluster(table, model) -> None:
    lazy = predict_partitions(model, partitioned(table), 6)
    assert lazy.npartitions == 4
    assert list(lazy.columns) == ["unique_id", "ds", "Titans"]
    computed = lazy.compute(scheduler="sync")
    assert computed.dtypes.to_dict() == lazy.dtypes.to_dict()
    assert_same(in_order(computed), model.predict(6, table))


def test_a_column_is_named_after_the_baseline_and_integers_may_grow(table) -> None:
    numbered = table.assign(ds=np.tile(np.arange(60, dtype=np.int8), len(IDS)), shop=table["unique_id"])
    numbered = numbered.drop(columns="unique_id")
    naive = SeasonalNaive(id_col="shop", season=1).fit(numbered)
    found = predict_partitions(naive, dd.from_pandas(numbered, npartitions=1), 100).compute(scheduler="sync")
    assert found["ds"].max() == 159
    assert found["SeasonalNaive"].tolist() == naive.predict(100)["SeasonalNaive"].tolist()


def test_what_cannot_be_forecast_is_named(table, model) -> None:
    with pytest.raises(TypeError, match="`ddf` must be a Dask DataFrame, got DataFrame"):
        predict_partitions(model, table)
    with pytest.raises(
        ValueError, match=r"`ddf` must have the columns \['unique_id', 'ds', 'y'\], got none that is 'y'"
    ):
        predict_partitions(model, partitioned(table).rename(columns={"y": "v"}))
    with pytest.raises(NotFittedError):
        predict_partitions(SeasonalNaive(), partitioned(table))


def test_two_processes_forecast_what_one_does(client, table, model) -> None:
    found = predict_partitions(model, partitioned(table)).compute()
    assert_same(in_order(found), model.predict(df=table))


def test_a_backtest_on_the_cluster_is_equal_to_the_bit(client, table, model) -> None:
    few = table[table["unique_id"] < "s03"]
    expected = cross_validation(model, few, 4, n_windows=4, refit=2)
    with joblib.parallel_config(backend="dask"):
        found = cross_validation(model, few, 4, n_windows=4, refit=2, n_jobs=2)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_a_worker_that_is_killed_costs_a_retry_and_not_the_run(client, table, model, tmp_path) -> None:
    def slowly(part: pd.DataFrame, folder: str) -> pd.DataFrame:  # in here, so that workers need not import this file
        """Notes the process that has a partition, and waits until it is told to go on."""
        if len(part):
            Path(folder, f"{part['unique_id'].iloc[0]} {os.getpid()}").touch()
            while not Path(folder, "go on").exists():
                time.sleep(0.01)
        return part

    expected = model.predict(df=table)
    waiting = partitioned(table).map_partitions(slowly, str(tmp_path), meta=table[:0])
    run = client.compute(predict_partitions(model, waiting))
    deadline = time.monotonic() + 60
    while len(begun := list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(int(begun[0].name.split()[1]), signal.SIGKILL)
    Path(tmp_path, "go on").touch()
    assert_same(in_order(run.result(timeout=60)), expected)
    series = [path.name.split()[0] for path in tmp_path.iterdir() if path.name != "go on"]
    assert len(series) > len(set(series)) == 3  # some partition was begun twice
