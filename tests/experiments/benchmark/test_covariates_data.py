"""The hours with weather: rows are regular, what is missing is not made up, and test begins where a day does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmark.covariates_data import STEP, at_origins, bike_sharing, gefcom2012


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in the shape of the published ones: two years of bicycles without two hours, 500 days of two zones."""
    hours = pd.date_range("2011-01-01", "2012-12-31 23:00", freq="h")
    n = np.arange(len(hours))
    table = pd.DataFrame({"dteday": hours.strftime("%m/%d/%Y"), "hr": hours.hour, "cnt": n % 24})
    table = table.assign(
        temp=n / len(n), hum=0.5, windspeed=0.1, holiday=0, workingday=(hours.day_of_week < 5).astype(int)
    )
    table = table.assign(weathersit=1 + n % 2).drop(index=[100, 101])
    (tmp_path / "bike_sharing").mkdir()
    table.to_csv(tmp_path / "bike_sharing" / "hour.csv", index=False)
    load = pd.DataFrame({"1": 100 + n[:12006] % 24, "2": 50.0}).set_index("1", drop=False)
    load.iloc[200:368] = np.nan
    (tmp_path / "gefcom2012").mkdir()
    load.to_csv(tmp_path / "gefcom2012" / "gefcom2012_load.csv.gz", index=False)
    stations = pd.DataFrame({"1": n[:12006] % 7, "2": n[:12006] % 7 + 2})
    stations.to_csv(tmp_path / "gefcom2012" / "gefcom2012_temp.csv.gz", index=False)
    return tmp_path


def test_hours_that_a_file_leaves_out_have_covariates_but_no_target(folder: Path) -> None:
    problem = bike_sharing(folder)
    frame = problem.frame
    assert (frame["ds"].diff().dropna() == STEP).all()
    assert frame.index[frame["y"].isna()].tolist() == [100, 101]
    assert not frame.drop(columns="y").isna().any(axis=None)
    np.testing.assert_allclose(frame["temp"].diff().dropna(), 1 / len(frame), rtol=1e-9)
    assert frame["weathersit"].iloc[100] == frame["weathersit"].iloc[99] == "kind 2"


def test_each_day_of_test_is_forecast_and_nothing_of_it_is_fitted(folder: Path) -> None:
    for problem in (bike_sharing(folder), gefcom2012(folder)):
        assert problem.before["ds"].max() + STEP == problem.begin
        assert problem.origins[0] == problem.begin
        assert problem.origins[-1] + 24 * STEP == problem.end
        assert problem.actual().shape == (len(problem.ids), len(problem.origins), 24)
    assert len(gefcom2012(folder).origins) == 365


def test_errors_are_over_the_mean_of_known_values_before_test(folder: Path) -> None:
    problem = gefcom2012(folder)
    assert problem.ids == ["zone 01", "zone 02"]
    assert problem.scale["zone 02"] == 50
    assert problem.frame["y"].isna().sum() == 2 * 168
    assert problem.frame["temp"].head(3).tolist() == [1, 2, 3]  # the mean of the stations


def test_values_at_origins_are_those_that_follow_them() -> None:
    hours = pd.date_range("2024-01-01", periods=6, freq="h")
    wide = pd.DataFrame({"a": np.arange(6), "b": np.arange(6) * 10}, index=hours)
    found = at_origins(wide, hours[[1, 3]], 2)
    assert found.tolist() == [[[1, 2], [3, 4]], [[10, 20], [30, 40]]]
