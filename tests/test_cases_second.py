"""The second set of inputs that broke forecasters, by the number of each, 38 to 57; the name says what is right.

What each stands for is tested where it is made: `tables/`, `test_robust`, `test_process_state`, `search/test_terms`,
`test_times`, `test_dtypes`, `tables/test_clock`, `test_bounds`.
"""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path
from typing import Any

import dateutil.tz
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from optuna.distributions import CategoricalDistribution

from titans_ts import TitansForecaster, TitansSearchCV, read_file

pytestmark = pytest.mark.filterwarnings("error")

DAYS = pd.date_range("2024-01-01", periods=40)


def forecaster(**parameters: Any) -> TitansForecaster:
    """The one of the reports, which trains."""
    given = dict(horizon=6, lookback=24, d_model=16, n_layers=1, max_epochs=1, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**given, **parameters})


def quick(**parameters: Any) -> TitansForecaster:
    """One that does not train."""
    given = dict(horizon=2, lookback=6, cycle=0, max_epochs=0, device="cpu", verbose=0)
    return TitansForecaster(**{**given, **parameters})


def long(ids: list, times: pd.Index, seed: int = 0) -> pd.DataFrame:
    """A random walk for each id, over the same times."""
    walks = np.random.default_rng(seed).normal(size=(len(ids), len(times))).cumsum(1)
    return pd.DataFrame({"unique_id": np.repeat(ids, len(times)), "ds": list(times) * len(ids), "y": walks.ravel()})


def waves(rows: int = 406) -> pd.DataFrame:
    """Three hourly waves of amplitude 10."""
    t, rng = np.arange(rows), np.random.default_rng(0)
    values = {f"s{i}": 10 * np.sin(2 * np.pi * t / 24 + i) + 0.1 * rng.normal(size=rows) for i in range(3)}
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=rows, freq="h"))


def days_after(table: pd.DataFrame, **parameters: Any) -> list[str]:
    """The dates that are forecast after a table of one series."""
    return [f"{label:%Y-%m-%d}" for label in quick(**parameters).fit(table).predict()["ds"]]


def test_case_38_an_outlier_leaves_clean_series_and_its_own_as_they_were():
    truth = waves()
    history = truth.iloc[:400].copy()
    clean = (forecaster().fit(history).predict(6) - truth.iloc[400:]).abs().mean()
    history.iloc[380, 0] = 1000
    with pytest.warns(UserWarning, match="1000 in series 's0' at 2024-01-16 20:00"):
        found = (forecaster().fit(history).predict(6) - truth.iloc[400:]).abs().mean()
    assert (found < clean + 0.05).all()


def test_case_39_a_constant_of_a_millionth_beside_chaos_is_forecast_as_it_is():
    chaos = np.empty((300, 4))
    chaos[0] = [0.2, 0.3, 0.4, 0.6]
    for t in range(1, 300):
        chaos[t] = 3.9 * chaos[t - 1] * (1 - chaos[t - 1])
    table = pd.DataFrame(chaos, columns=list("abcd")).assign(flat=1e-6)
    model = forecaster(cycle=0).fit(table)
    torch.nn.init.constant_(model.network_.head.project.bias, 0.3)  # as training that is kept may leave it
    assert model.predict()["flat"].tolist() == [1e-6] * 6


def test_case_40_fits_side_by_side_in_threads_are_equal_and_the_callers_random_state_stays():
    table, before = waves(200), torch.get_rng_state()
    alone = forecaster().fit(table).predict()
    found = joblib.Parallel(2, backend="threading")(joblib.delayed(forecaster().fit)(table) for _ in range(6))
    for model in found:
        pd.testing.assert_frame_equal(model.predict(), alone)
    assert torch.equal(torch.get_rng_state(), before)


def test_case_41_a_study_is_not_joined_with_another_space(tmp_path: Path):
    table, storage = waves(120), tmp_path / "study.journal"

    def search(choices: list[int], n_trials: int) -> TitansSearchCV:
        space = {"d_model": CategoricalDistribution(choices)}
        return TitansSearchCV(forecaster(mixer="none"), space, n_trials=n_trials, storage=storage, random_state=0)

    search([8, 16], 2).fit(table)
    with pytest.raises(ValueError, match=r"d_model.*8.*16.*32.*64"):
        search([32, 64], 5).fit(table)
    study = search([8, 16], 2).fit(table).study_
    assert len(study.trials) == 2


def applied(error: Exception, df: object = None, call: int = 0, **arguments: object) -> object:
    """What a call of the table, or an argument, in an error's backticks makes of a table or of arguments."""
    found = re.findall(r"`((?:df\.|df\[|\w+=).*?)`(?=[,.;:) ]|$)", str(error))[call]
    return eval(found, {"df": df, "pd": pd, "int": int}) if found.startswith("df") else eval(f"dict({found})")


def times_apart() -> pd.DataFrame:
    """Two series whose times do not meet, so that without their ids they look like one."""
    table = long(["a", "b"], DAYS)
    return table.assign(ds=pd.date_range("2024-01-01", periods=len(table)))


def test_case_42_ids_in_the_index_are_found():
    for ids in (["a", "b"], [7, 8]):
        table = times_apart().assign(unique_id=np.repeat(ids, len(DAYS)))
        expected = quick().fit(table).predict()
        assert expected["unique_id"].tolist() == [ids[0]] * 2 + [ids[1]] * 2
        indexed = ["unique_id", ["unique_id", "ds"], ["ds", "unique_id"], "ds"]
        for df in [*map(table.set_index, indexed), table.set_index(["unique_id", "ds"])["y"]]:
            pd.testing.assert_frame_equal(quick().fit(df).predict(), expected)
        shop = quick(id_col="shop").fit(table.set_index("unique_id").rename_axis("shop")).predict()
        assert shop["shop"].tolist() == expected["unique_id"].tolist()


def test_case_42_ids_in_an_index_of_another_name_are_refused_with_the_call_that_names_them():
    for name in (None, "store"):
        df = times_apart().set_index("unique_id").rename_axis(name)
        with pytest.raises(ValueError, match=r"the index.* holds 'a', \.\.\. beside times in column 'ds'") as caught:
            quick().fit(df)
        assert quick().fit(applied(caught.value, df)).predict()["unique_id"].tolist() == ["a", "a", "b", "b"]
        assert len(quick().fit(applied(caught.value, df, 1)).predict()) == 2


@pytest.mark.parametrize("dated", [True, False])
def test_case_43_the_index_that_a_file_got_is_no_series(dated, tmp_path):
    wide = pd.DataFrame({"a": np.sin(np.arange(40)), "b": np.cos(np.arange(40))})
    if dated:
        wide.insert(0, "date", DAYS)
    path = tmp_path / "table.csv"
    wide.to_csv(path)
    df = read_file(path)
    with pytest.raises(
        ValueError, match=r"column 'Unnamed: 0' counts the rows \(0, 1, 2, \.\.\.\) and is no series"
    ) as caught:
        quick().fit(df)
    pd.testing.assert_frame_equal(quick().fit(applied(caught.value, df)).predict(), quick().fit(wide).predict())
    if not dated:
        found = quick(**applied(caught.value, call=1)).fit(df).predict()
        assert found.columns.tolist() == ["Unnamed: 0", "a", "b"]
        assert found["Unnamed: 0"].tolist() == [40, 41]


def test_case_43_the_index_of_a_long_table_in_a_file_is_refused_by_name(tmp_path):
    table, path = long(["a", "b"], DAYS), tmp_path / "table.csv"
    table.to_csv(path)
    df = read_file(path)
    with pytest.raises(
        ValueError, match=r"columns \['Unnamed: 0'\] are neither id, time nor target; drop them"
    ) as caught:
        quick().fit(df)
    pd.testing.assert_frame_equal(quick().fit(applied(caught.value, df)).predict(), quick().fit(table).predict())
    table.set_index("unique_id").to_csv(path)
    assert quick().fit(read_file(path)).predict()["unique_id"].tolist() == ["a", "a", "b", "b"]


def test_case_45_marks_of_thousands_are_asked_for_where_they_could_be_decimals(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f'a,{day:%Y-%m-%d},"{day.day % 9 + 1},{100 + day.day}"\n' for day in DAYS)
    path.write_text("unique_id,ds,y\n" + rows)
    words = r"'2,101', which may be 2.101 \(pass `decimal=','`\) or 2101 \(pass `thousands=','`\)"
    with pytest.raises(ValueError, match=words) as caught:
        read_file(path)
    decimal, thousands = (read_file(path, **applied(caught.value, call=call)) for call in (0, 1))
    assert decimal["y"].tolist()[:2] == [2.101, 3.102]
    assert thousands["y"].tolist()[:2] == [2101, 3102]
    assert np.isfinite(quick().fit(thousands).predict()["Titans"]).all()


@pytest.mark.parametrize("rows", ["2024-01-01,1,2,3", "2024-01-01,1,2,", "2024-01-01,1"])
def test_case_46_rows_with_other_fields_than_names_are_refused_with_line_and_counts(rows, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("date,a,b\n" + f"{rows}\n" * 5)
    count = rows.count(",") + 1
    with pytest.raises(ValueError, match=rf"table.csv', line 2 has {count} fields under 3 names \(date, a, b\)"):
        read_file(path)


def test_case_44_the_15th_of_each_month_is_followed_by_the_15th():
    table = pd.DataFrame({"ds": pd.to_datetime(["2024-07-15", "2024-08-15", "2024-09-15"]), "y": [1.0, 2.0, 3.0]})
    assert days_after(table, horizon=1, lookback=1) == ["2024-10-15"]


def test_case_47_columns_of_arrow_are_read_and_written():
    table = long(["a", "b"], DAYS)
    arrow = table.convert_dtypes(dtype_backend="pyarrow")
    found, expected = quick().fit(arrow).predict(), quick().fit(table).predict()
    assert found["unique_id"].dtype == arrow["unique_id"].dtype
    assert found["ds"].dtype == arrow["ds"].dtype
    assert found["ds"].tolist() == expected["ds"].tolist()
    np.testing.assert_allclose(found["Titans"].astype(float), expected["Titans"])


def test_case_48_times_in_a_zone_of_dateutil_are_saved(tmp_path: Path):
    table = long(["a"], DAYS.tz_localize(dateutil.tz.tzutc()))
    model = quick().fit(table)
    model.save(tmp_path / "model")
    again = TitansForecaster.load(tmp_path / "model", "cpu").predict()
    assert again["ds"].tolist() == model.predict()["ds"].tolist()
    assert again["ds"].tolist()[0] == pd.Timestamp("2024-02-10", tz="UTC")


def test_case_49_offsets_over_a_change_of_clocks_are_read_into_a_zone_on_request():
    hours = pd.date_range("2024-03-30", periods=48, freq="h", tz="Europe/Berlin")
    df = pd.DataFrame({"ds": [hour.isoformat() for hour in hours], "y": np.sin(np.arange(48))})
    with pytest.raises(ValueError, match=r"one offset from UTC, got '\+01:00' and '\+02:00' in row 26") as caught:
        quick().fit(df)
    call = re.findall(r"`(pd\.to_datetime.*?)`", str(caught.value))[0].replace("list(...)", "list(df['ds'])")
    table = df.assign(ds=eval(call))
    assert table["ds"].tolist() == hours.tolist()
    assert quick().fit(table).predict()["ds"].tolist() == pd.date_range(hours[-1], periods=3, freq="h").tolist()[1:]


def test_case_50_series_of_one_step_keep_a_phase_each():
    january = long(["a"], pd.date_range("2020-01-31", periods=16, freq="QE-JAN"))
    december = long(["b"], pd.date_range("2020-03-31", periods=16, freq="QE-DEC"))
    found = quick().fit(pd.concat([january, december])).predict()
    assert found["ds"].dt.strftime("%Y-%m-%d").tolist() == ["2024-01-31", "2024-04-30", "2024-03-31", "2024-06-30"]


def test_case_51_sunday_to_thursday_is_a_week_of_five_days():
    days = pd.date_range("2024-01-07", periods=60, freq=pd.offsets.CustomBusinessDay(weekmask="Sun Mon Tue Wed Thu"))
    table = pd.DataFrame({"ds": pd.DatetimeIndex(days.tolist()), "y": np.sin(np.arange(60))})
    after = pd.date_range(days[-1], periods=3, freq=days.freq)[1:]
    assert days_after(table, freq=days.freq) == [f"{day:%Y-%m-%d}" for day in after]


def test_case_52_polars_ids_that_are_dates_are_written_back():
    table = pl.DataFrame(
        {"unique_id": [datetime.date(2024, 1, 1)] * 40, "ds": DAYS.to_numpy(), "y": np.sin(np.arange(40.0))}
    )
    assert quick().fit(table).predict()["unique_id"].to_list() == [datetime.date(2024, 1, 1)] * 2


def test_case_53_a_fit_within_no_grad_is_as_any_other():
    table = waves(200)
    with torch.no_grad():
        model = forecaster().fit(table)
        assert not torch.is_grad_enabled()
    pd.testing.assert_frame_equal(model.predict(), forecaster().fit(table).predict())


def test_case_54_integer_times_do_not_overflow():
    values = np.sin(np.arange(40.0))
    huge = pd.DataFrame({"ds": np.arange(40, dtype=np.uint64) + np.uint64(2**63), "y": values})
    with pytest.raises(ValueError, match=r"between -2\*\*62 and 2\*\*62, got 9223372036854775808; subtract"):
        quick().fit(huge)
    small = pd.DataFrame({"ds": np.arange(88, 128, dtype=np.int8), "y": values})
    assert quick().fit(small).predict()["ds"].tolist() == [128, 129]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in KiB there")
def test_case_55_series_far_apart_in_time_take_the_memory_of_their_rows():
    resource = pytest.importorskip("resource")
    parts = [
        pd.DataFrame(
            {"unique_id": name, "ds": pd.date_range(year, periods=200, freq="min"), "y": np.sin(np.arange(200))}
        )
        for name, year in (("a", "1990"), ("b", "2024"))
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = quick(linear_path="across").fit(pd.concat(parts)).predict()
    assert found["ds"].tolist()[::2] == [pd.Timestamp("1990-01-01 03:20"), pd.Timestamp("2024-01-01 03:20")]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # a GiB; it took six


def test_case_56_a_wave_at_18_stays_there_when_clocks_change():
    index = pd.date_range("2024-01-01", "2024-03-30 23:00", freq="h", tz="Europe/Berlin")
    table = pd.DataFrame({"a": np.exp(-0.5 * ((index.hour - 18) / 2.0) ** 2)}, index=index)
    forecast = forecaster(horizon=24, lookback=48, max_epochs=0).fit(table).predict(71)["a"]  # the 31st has 23 hours
    assert [day.idxmax().hour for _, day in forecast.groupby(forecast.index.date)] == [18, 18, 18]


def test_case_57_counts_are_not_forecast_below_zero():
    counts = np.random.default_rng(1).poisson(np.exp(2 - np.arange(40) / 12))
    table = pd.DataFrame({"ds": DAYS, "y": counts})
    assert quick(lookback=14).fit(table).predict(30)["Titans"].min() < 0
    assert quick(lookback=14, lower=0).fit(table).predict(30)["Titans"].min() == 0
