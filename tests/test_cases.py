"""Inputs that broke other toolkits, by the number of the public report each restates; the name says what is right.

Numbers that are left out are those of features with tests of their own.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from titans_ts import TitansForecaster, read_file
from titans_ts.tables.read import read_table

pytestmark = pytest.mark.filterwarnings("error")


def forecaster(**parameters) -> TitansForecaster:
    given = dict(horizon=3, lookback=8, max_epochs=1, d_model=8, n_heads=2, n_layers=1, random_state=0, verbose=0)
    return TitansForecaster(**{**given, **parameters})


def long(ids: list, times: pd.Index, seed: int = 0) -> pd.DataFrame:
    """A random walk for each id, over the same times."""
    walks = np.random.default_rng(seed).normal(size=(len(ids), len(times))).cumsum(1)
    return pd.DataFrame({"unique_id": np.repeat(ids, len(times)), "ds": list(times) * len(ids), "y": walks.ravel()})


def text(times: pd.Series, form: str = "%Y-%m-%d") -> list[str]:
    return times.dt.strftime(form).tolist()


DAYS = pd.date_range("2024-01-01", periods=40)


def test_case_01_four_month_starts_continue_as_month_starts():
    months = pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"])
    forecast = forecaster().fit(pd.DataFrame({"ds": months, "y": [1, 2, 3, 4]})).predict(2)
    assert text(forecast["ds"]) == ["2024-05-01", "2024-06-01"]
    assert forecast["Titans"].between(1, 10).all()
    with pytest.raises(ValueError, match="the table has 2 rows; at least 3 are needed"):
        forecaster().fit(pd.DataFrame({"ds": months[:2], "y": [1, 2]}))


def test_case_02_what_fits_also_predicts():
    months = pd.date_range("2024", periods=24, freq="MS")
    forecast = forecaster().fit(pd.DataFrame({"ds": months, "y": np.arange(24.0)})).predict()
    assert text(forecast["ds"]) == ["2026-01-01", "2026-02-01", "2026-03-01"]


def test_case_03_quarter_hours_of_a_period_index_continue_as_one():
    periods = pd.period_range("2024-01-01", periods=96, freq="15min")
    forecast = forecaster().fit(pd.DataFrame({"load": np.sin(np.arange(96.0))}, index=periods)).predict()
    pd.testing.assert_index_equal(forecast.index, pd.period_range("2024-01-02", periods=3, freq="15min"))


def test_case_04_months_as_text_and_different_starts_are_month_starts():
    table = long(["a", "b"], pd.date_range("2021-05", periods=20, freq="MS").strftime("%Y-%m")).drop(index=[20, 21, 22])
    model = forecaster().fit(table)
    assert model.freq_ == "MS"
    forecast = model.predict()
    assert forecast["ds"].tolist() == ["2023-01", "2023-02", "2023-03"] * 2
    assert forecast["ds"].dtype == table["ds"].dtype


def test_case_05_a_missing_quarter_end_is_reported_or_filled_and_the_old_alias_warned_of_once():
    table = long(["a"], pd.date_range("2020-03-31", periods=12, freq="QE")).drop(index=5)
    with pytest.raises(ValueError, match="series 'a' has a gap of 1 row between 2021-03-31 and 2021-09-30"):
        forecaster().fit(table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = forecaster(freq="Q-DEC", missing="interpolate").fit(table)
        forecast = model.predict()
    assert [str(warning.message) for warning in caught] == ["the freq 'Q-DEC' is called 'QE-DEC' now."]
    assert text(forecast["ds"]) == ["2023-03-31", "2023-06-30", "2023-09-30"]
    filled = read_table(table, freq="QE-DEC", missing="interpolate")
    assert (
        str(filled.calendar.labels(filled.data.starts + np.flatnonzero(~filled.data.observed))[0])
        == "2021-06-30 00:00:00"
    )
    assert filled.data.values[5] == pytest.approx((table["y"][4] + table["y"][6]) / 2)


@pytest.mark.parametrize(
    ("last", "after"),
    [("2019-02", ["2019-03-31", "2019-04-30", "2019-05-31"]), ("2020-01", ["2020-02-29", "2020-03-31", "2020-04-30"])],
)
def test_case_06_month_ends_stay_month_ends(last, after):
    months = pd.date_range(end=pd.Period(last).end_time.normalize(), periods=6, freq="ME", unit="us")
    forecast = forecaster().fit(pd.DataFrame({"ds": months, "y": np.arange(6.0)})).predict()
    assert text(forecast["ds"]) == after


def test_case_08_hours_of_a_half_hour_zone_forecast_as_in_utc():
    table = long(["a", "b"], pd.date_range("2024-01-01", periods=60, freq="h", tz="UTC"))
    local = table.assign(ds=table["ds"].dt.tz_convert("Asia/Kolkata"))
    utc, india = (forecaster().fit(t).predict() for t in (table, local))
    assert india["Titans"].tolist() == pytest.approx(utc["Titans"].tolist(), rel=1e-12)  # sums in another order
    assert str(india["ds"].iloc[0]) == "2024-01-03 17:30:00+05:30"
    assert (india["ds"] == utc["ds"]).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_case_09_a_frame_too_short_to_show_a_frequency_has_that_of_the_history(rows):
    model = forecaster().fit(long(["a", "b"], DAYS))
    later = long(["a", "b"], pd.date_range("2024-03-01", periods=rows))
    forecast = model.predict(df=later)
    assert text(forecast["ds"])[:3] == [f"2024-03-{rows + n:02}" for n in (1, 2, 3)]
    assert np.isfinite(forecast["Titans"]).all()
    assert np.isfinite(model.score(long(["a"], pd.date_range("2024-02-10", periods=rows))))


def test_case_11_rows_in_any_order_forecast_the_same():
    table = long(["a", "b"], DAYS)
    expected = forecaster().fit(table).predict()
    for rows in (table.sort_values("ds", kind="stable"), table[::-1], table.sample(frac=1, random_state=1)):
        pd.testing.assert_frame_equal(forecaster().fit(rows).predict(), expected, check_exact=True)


def test_case_12_removed_rows_are_named_or_filled_never_ignored():
    table = long(["a"], DAYS).drop(index=range(10, 20))
    with pytest.raises(ValueError, match=r"gap of 10 rows between 2024-01-10 and 2024-01-21 .*pass `missing='interp"):
        forecaster().fit(table)
    for how in ("interpolate", "ffill"):
        data = read_table(table, missing=how).data
        assert data.lengths.tolist() == [40]
        assert (~data.observed).nonzero()[0].tolist() == list(range(10, 20))
        assert text(forecaster(missing=how).fit(table).predict()["ds"])[0] == "2024-02-10"


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "missing"), (np.inf, "infinite")])
def test_case_14_a_value_that_is_none_is_named_with_column_id_and_count(value, kind):
    table = long(["a"], pd.date_range("2024-01-01", periods=100))
    table.loc[33, "y"] = value
    with pytest.raises(ValueError, match=f"column 'y' of series 'a' has 1 {kind} value, the first at 2024-02-03"):
        forecaster().fit(table)
    if kind == "missing":
        assert np.isfinite(forecaster(missing="interpolate").fit(table).predict()["Titans"]).all()


def test_case_15_three_rows_are_forecast_or_refused_by_the_name_of_the_series():
    table = long(["a", "b"], DAYS[:3])
    assert np.isfinite(forecaster(horizon=2).fit(table).predict()["Titans"]).all()
    with pytest.raises(ValueError, match=r"`horizon` \+ 1 = 4 rows to learn from, but the longest, 'a', has 3"):
        forecaster().fit(table)
    with pytest.raises(ValueError, match="series 'b' has 2 rows; at least 3 are needed"):
        forecaster(horizon=2).fit(table.drop(index=5))


def test_case_17_a_constant_is_continued():
    forecast = forecaster().fit(pd.Series(np.full(100, 7.0), index=pd.date_range("2024", periods=100))).predict()
    np.testing.assert_allclose(forecast, 7, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e200])
def test_case_18_faint_and_huge_slopes_are_not_flattened(scale):
    constant = forecaster().fit(pd.Series(np.full(1000, 14.62))).predict()
    np.testing.assert_allclose(constant, 14.62, rtol=1e-15)
    slope = forecaster().fit(pd.Series(scale * np.arange(1000))).predict()
    np.testing.assert_allclose(slope / scale, [1000, 1001, 1002], rtol=1e-3)


def test_case_20_long_integer_ids_stay_exact():
    forecast = forecaster().fit(long([100100037, 100100038], DAYS)).predict()
    assert forecast["unique_id"].tolist() == [100100037] * 3 + [100100038] * 3
    assert forecast["unique_id"].dtype == np.int64


@pytest.mark.parametrize("dtype", ["int64", "Int64"])
def test_case_21_whole_numbers_are_cast_and_others_refused_by_column_and_dtype(dtype):
    table = long(["a"], DAYS).assign(y=pd.Series(np.arange(40), dtype=dtype))
    expected = forecaster().fit(table.assign(y=np.arange(40.0))).predict()
    pd.testing.assert_frame_equal(forecaster().fit(table).predict(), expected)
    for odd in ("bool", "object"):
        with pytest.raises(TypeError, match=f"column 'y' must hold .*numbers, got dtype {odd}; use `.astype"):
            forecaster().fit(table.assign(y=table["y"].astype("int64").astype(odd)))


def test_case_22_a_series_that_was_not_fitted_is_forecast_at_its_own_scale():
    model = forecaster().fit(long(["a", "b"], DAYS))
    unseen = pd.DataFrame({"unique_id": "c", "ds": DAYS, "y": 5e6 + 100 * np.sin(np.arange(40))})
    forecast = model.predict(df=unseen)
    assert forecast["unique_id"].tolist() == ["c"] * 3
    assert forecast["Titans"].between(5e6 - 300, 5e6 + 300).all()
    flat = model.predict(df=unseen.assign(y=-12.5))
    assert flat["Titans"].tolist() == [-12.5] * 3


@pytest.mark.parametrize("name", ["unique_id", "ds", "y", "cutoff", "index"])
def test_case_24_a_column_with_a_name_of_ours_is_named_or_works(name):
    table = long(["a"], DAYS).set_axis(["shop", "day", "sales"], axis=1).assign(**{name: 1.0})
    with pytest.raises(ValueError, match=rf"columns \['{name}'\] are neither id, time nor target; drop them"):
        forecaster(id_col="shop", time_col="day", target_col="sales").fit(table)
    wide = pd.DataFrame({name: np.arange(40.0), "b": 1.0}, index=DAYS)
    if name in ("y", "cutoff", "index"):
        assert forecaster().fit(wide).predict().columns.tolist() == [name, "b"]
    elif name == "unique_id":
        with pytest.raises(ValueError, match=r"the columns \['unique_id', 'b'\] fit no layout"):
            forecaster().fit(wide)
    else:
        with pytest.raises(ValueError, match="time labels 'ds' must be dates, periods or integers, got dtype float64"):
            forecaster().fit(wide)


def test_case_26_parameters_are_kept_as_given_and_survive_a_clone():
    model = clone(forecaster().set_params(learning_rate=1, horizon=np.int64(3)))
    assert (model.learning_rate, type(model.horizon)) == (1, np.int64)
    odd = forecaster(lookback=[8], mixer={"name": "memory"})
    assert clone(odd).get_params() == odd.get_params()
    assert len(model.set_params(max_epochs=0).fit(long(["a"], DAYS)).predict()) == 3


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_case_31_a_frame_shorter_than_the_lookback_is_padded(rows):
    index = pd.date_range("2024-01-01", periods=200, freq="D")
    series = pd.Series(50 + 0.5 * np.arange(200), index=index)
    forecast = forecaster().fit(series).predict(df=series[120 : 120 + rows])
    assert forecast.index.equals(index[120 + rows : 123 + rows])
    # The padding counts for nothing: a window mean that took in zeros would be off by 50 or more.
    np.testing.assert_allclose(forecast, series[120 + rows : 123 + rows], rtol=0, atol=8)


def test_case_32_steps_past_the_horizon_are_recursive_and_others_are_refused():
    model = forecaster().fit(long(["a"], DAYS))
    far = model.predict(8)
    assert text(far["ds"]) == text(pd.Series(pd.date_range("2024-02-10", periods=8)))
    assert far["Titans"].tolist()[:3] == model.predict()["Titans"].tolist()
    for h in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"`h` must be an integer >= 1, got {h}"):
            model.predict(h)


def test_case_33_fits_are_repeatable_and_leave_nothing_behind():
    one, other = long(["a", "b"], DAYS), long(["z"], DAYS, seed=1)
    expected = forecaster().fit(other).predict()
    pd.testing.assert_frame_equal(forecaster().fit(other).predict(), expected)
    pd.testing.assert_frame_equal(forecaster().fit(one).fit(other).predict(), expected)


def test_case_34_two_rows_of_one_time_are_named():
    table = long(["a", "b"], DAYS)
    table.loc[50, "ds"] = table.loc[49, "ds"]
    with pytest.raises(ValueError, match="series 'b' has more than one row at 2024-01-10; keep one"):
        forecaster(freq="D").fit(table)


def test_case_35_business_days_without_a_holiday_are_still_business_days():
    table = long(["a"], pd.bdate_range("2024-01-01", periods=40)).drop(index=10)
    with pytest.raises(ValueError, match=r"gap of 1 row between 2024-01-12 and 2024-01-16 \(freq 'B'\)"):
        forecaster().fit(table)
    assert forecaster(missing="ffill").fit(table).freq_ == "B"


def test_case_36_a_file_with_byte_order_mark_and_decimal_commas_is_read_as_told(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f"a;{day:02}.01.2024;{day},25\n" for day in range(1, 13))
    path.write_text("unique_id;ds;y\n" + rows, encoding="utf-8-sig")
    how = dict(sep=";", decimal=",")
    with pytest.raises(ValueError, match=r"could be either; pass `date_format='%d.%m.%Y'`"):
        read_file(path, **how)
    table = read_file(path, date_format="%d.%m.%Y", **how)
    assert table["y"].tolist() == [day + 0.25 for day in range(1, 13)]
    assert text(forecaster().fit(table).predict()["ds"]) == ["2024-01-13", "2024-01-14", "2024-01-15"]
