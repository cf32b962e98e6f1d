"""The benchmark of partitions, on a few small series and one worker of this process."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

from speed import partitions  # noqa: E402 - which needs Dask
from titans_ts import TitansForecaster  # noqa: E402


def test_the_series_are_the_same_in_whatever_partition_and_all_are_forecast() -> None:
    model = TitansForecaster(horizon=partitions.HORIZON, lookback=24, d_model=8, max_epochs=0, combine=False, verbose=0)
    model.fit(partitions.long_table(10, 3, 60))
    how = dict(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with distributed.LocalCluster(**how) as cluster, distributed.Client(cluster) as client:
        rows = list(partitions.measure(client, model, 5, 60, 2))
    assert [row.name for row in rows] == ["series a second", "seconds", "worker 1, peak memory", "workers restarted"]
    assert rows[0].value == pytest.approx(5 / rows[1].value)
    assert rows[-1].value == 0
    assert rows[-1].target == "none: met"


def test_a_long_table_has_the_series_asked_for() -> None:
    table = partitions.long_table(7, 2, 30)
    assert table["unique_id"].tolist() == ["s000007"] * 30 + ["s000008"] * 30
    assert table["ds"].tolist() == list(pd.date_range("2020-01-01", periods=30, freq="h")) * 2


def test_sizes_below_one_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        partitions.main(["--series", "0"])
    assert "must be at least 1" in capsys.readouterr().err
