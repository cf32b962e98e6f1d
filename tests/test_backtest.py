"""Backtests: each forecast from what was known at its cutoff, in one frame."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from utilsforecast.evaluation import evaluate
from utilsforecast.losses import mae, mase, rmse

from titans_ts import Drift, SeasonalNaive, TitansForecaster, cross_validation

HOURS = pd.date_range("2024-01-01", periods=90, freq="h")


def forecaster(**parameters) -> TitansForecaster:
    given = dict(
        horizon=3, lookback=16, d_model=8, n_layers=1, n_heads=2, max_epochs=0, combine=False, random_state=0, verbose=0
    )
    return TitansForecaster(**{**given, **parameters})


def long(lengths: dict[str, int], seed: int = 0) -> pd.DataFrame:
    """Random walks that begin at the same hour and have so many rows."""
    rng = np.random.default_rng(seed)
    parts = [
        pd.DataFrame({"unique_id": name, "ds": HOURS[:n], "y": rng.normal(size=n).cumsum()})
        for name, n in lengths.items()
    ]
    return pd.concat(parts, ignore_index=True)


class Spy(BaseEstimator):
    """Notes how many rows each call has seen, and forecasts the last value."""

    calls: list = []  # noqa: RUF012 - clones share it

    def __init__(self, id_col="unique_id", time_col="ds", target_col="y", missing="error"):
        self.id_col, self.time_col, self.target_col, self.missing = id_col, time_col, target_col, missing

    def fit(self, panel):
        self.calls.append(("fit", panel.data.lengths.tolist()))
        self.panel_ = panel
        return self

    def update(self, rows):
        self.calls.append(("update", rows.data.values.tolist()))
        self.panel_ = self.panel_.then(rows, np.arange(rows.n_series))
        return self

    def predict(self, h, **options):
        self.calls.append(("predict", options))
        data = self.panel_.data
        last = data.values[data.offsets + data.lengths - 1]
        return self.panel_.write(np.tile(last[:, None, None], (1, h, 1)), ("Spy",))


@pytest.fixture
def calls() -> list:
    Spy.calls.clear()
    return Spy.calls


def test_the_horizon_is_the_frequencys_where_none_is_given() -> None:
    table = long({"a": 80})
    pd.testing.assert_frame_equal(
        cross_validation(SeasonalNaive(), table), cross_validation(SeasonalNaive(), table, 24)
    )


def test_case_37_three_windows_a_step_apart_refitted_each_two() -> None:
    table = long({"a": 30, "b": 40}).rename(columns={"unique_id": "shop", "ds": "hour", "y": "sales"})
    model = forecaster(id_col="shop", time_col="hour", target_col="sales")
    frame = cross_validation(model, table, 3, n_windows=3, step_size=1, refit=2)
    assert list(frame.columns) == ["shop", "hour", "cutoff", "sales", "Titans"]
    assert len(frame) == 2 * 3 * 3
    for shop, end in (("a", HOURS[29]), ("b", HOURS[39])):
        mine = frame[frame["shop"] == shop]
        assert mine["hour"].iloc[-1] == end
        cutoffs = [end - pd.Timedelta(hours=n) for n in (5, 4, 3)]
        assert mine["cutoff"].tolist() == np.repeat(cutoffs, 3).tolist()
        steps = (mine["hour"] - mine["cutoff"]) / pd.Timedelta(hours=1)
        assert steps.tolist() == [1, 2, 3] * 3
    true = frame.merge(table, on=["shop", "hour"], suffixes=("", "_of_table"))
    assert (true["sales"] == true["sales_of_table"]).all()
    # the first and the third window are of a fit to the rows before, the second of the first one's update
    fitted = model.fit(table.drop(index=[*range(25, 30), *range(65, 70)]))
    first = frame.groupby("shop").head(3)["Titans"]
    assert fitted.predict()["Titans"].to_numpy() == pytest.approx(first.to_numpy(), rel=1e-6)
    second = frame.groupby("shop").nth([3, 4, 5])["Titans"]
    assert fitted.update(table.loc[[25, 65]]).predict()["Titans"].to_numpy() == pytest.approx(
        second.to_numpy(), rel=1e-6
    )
    third = frame.groupby("shop").tail(3)["Titans"]
    fitted.fit(table.drop(index=[*range(27, 30), *range(67, 70)]))
    assert fitted.predict()["Titans"].to_numpy() == pytest.approx(third.to_numpy(), rel=1e-6)


def test_the_estimator_is_not_fitted_itself() -> None:
    model = forecaster()
    cross_validation(model, long({"a": 30}), 2)
    assert not hasattr(model, "fitted_")


@pytest.mark.parametrize(
    ("refit", "expected"),
    [
        (True, ["fit", "predict"] * 4),
        (1, ["fit", "predict"] * 4),
        (False, ["fit", "predict", *["update", "predict"] * 3]),
        (3, ["fit", "predict", *["update", "predict"] * 2, "fit", "predict"]),
    ],
)
def test_refit_says_before_which_windows_a_model_is_fitted(calls: list, refit, expected: list) -> None:
    cross_validation(Spy(), long({"a": 20}), 2, n_windows=4, refit=refit)
    assert [name for name, _ in calls] == expected


def test_between_fits_the_model_sees_the_rows_between_the_cutoffs(calls: list) -> None:
    table = long({"a": 20, "b": 12})
    frame = cross_validation(Spy(), table, 4, n_windows=2, step_size=2, refit=False)
    assert calls[0] == ("fit", [14, 6])
    assert calls[2] == ("update", [*table["y"][14:16], *table["y"][26:28]])
    last = table.set_index(["unique_id", "ds"])["y"]
    assert (frame["Spy"].to_numpy() == last.loc[list(zip(frame["unique_id"], frame["cutoff"], strict=True))]).all()


def test_levels_and_quantiles_are_handed_on_only_if_given(calls: list) -> None:
    cross_validation(Spy(), long({"a": 20}), 2)
    cross_validation(Spy(), long({"a": 20}), 2, level=[80], quantiles=None)
    assert [options for name, options in calls if name == "predict"] == [{}, {"level": [80]}]


def test_every_layout_gives_the_same_frame() -> None:
    table = long({"a": 40, "b": 40})
    wide = table.pivot(index="ds", columns="unique_id", values="y")
    model = forecaster(max_epochs=0)
    expected = cross_validation(model, table, 3, n_windows=2)
    pd.testing.assert_frame_equal(cross_validation(model, wide, 3, n_windows=2), expected)
    of_array = cross_validation(model, wide.to_numpy(), 3, n_windows=2)
    assert list(of_array.columns) == ["unique_id", "ds", "cutoff", "y", "Titans"]
    assert of_array["unique_id"].unique().tolist() == [0, 1]
    assert of_array["cutoff"].unique().tolist() == [33, 36]
    assert of_array["y"].tolist() == expected["y"].tolist()
    one = cross_validation(Drift(time_col="t", target_col="v"), wide["a"].rename("v").rename_axis("t").reset_index(), 3)
    assert one["unique_id"].unique().tolist() == ["v"]
    assert list(one.columns) == ["unique_id", "t", "cutoff", "v", "Drift"]


def test_a_polars_table_gives_a_frame_of_pandas() -> None:
    polars = pytest.importorskip("polars")
    table = long({"a": 30})
    frame = cross_validation(Drift(), polars.from_pandas(table), 3)
    assert frame["Drift"].tolist() == cross_validation(Drift(), table, 3)["Drift"].tolist()


def test_times_written_as_text_stay_text() -> None:
    table = long({"a": 20}).assign(ds=HOURS[:20].strftime("%Y-%m-%d %H:%M"))
    frame = cross_validation(Drift(), table, 2)
    assert frame["cutoff"].tolist() == ["2024-01-01 17:00"] * 2


def test_filled_rows_are_not_scored_and_a_series_ends_with_a_row_that_was_there() -> None:
    table = long({"a": 20, "b": 20})
    table.loc[[16, 38, 39], "y"] = np.nan
    frame = cross_validation(Drift(missing="interpolate"), table, 4)
    assert frame["ds"].tolist() == [HOURS[17], HOURS[18], HOURS[19], *HOURS[14:18]]
    assert frame["y"].notna().all()


def test_no_fill_before_a_cutoff_knows_what_comes_after_it() -> None:
    table = pd.DataFrame({"unique_id": "a", "ds": HOURS[:20], "y": np.arange(20.0)})
    table.loc[14:16, "y"] = np.nan
    later = table.assign(y=table["y"].where(table.index < 17, 1000.0))
    frames = [
        cross_validation(SeasonalNaive(season=1, missing="interpolate"), t, 4, n_windows=1) for t in (table, later)
    ]
    assert frames[0]["SeasonalNaive"].tolist() == frames[1]["SeasonalNaive"].tolist() == [13.0] * 3
    frames = [
        cross_validation(SeasonalNaive(season=1, missing="interpolate"), t, 2, n_windows=3, step_size=1, refit=False)
        for t in (table, later)
    ]
    # cutoffs at rows 15, 16 and 17: the first two are within the gap
    assert frames[0]["SeasonalNaive"].tolist() == [13.0, 13.0, 13.0, 17.0, 17.0]
    assert frames[1]["SeasonalNaive"].tolist()[:3] == [13.0] * 3


def test_series_that_are_too_short_are_named() -> None:
    table = long({"a": 30, "b": 10, "c": 9})
    assert len(cross_validation(Drift(), table[table["unique_id"] != "c"], 3, n_windows=2, step_size=4)) == 12
    match = r"series \['c'\] are too short to be backtested: 2 windows of 3 steps, 4 apart, need 10 rows"
    with pytest.raises(ValueError, match=match):
        cross_validation(Drift(), table, 3, n_windows=2, step_size=4)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"h": 0}, "`h` must be an integer >= 1, got 0"),
        ({"n_windows": 0}, "`n_windows` must be an integer >= 1, got 0"),
        ({"step_size": 1.5}, "`step_size` must be an integer >= 1, got 1.5"),
        ({"refit": 0}, "`refit` must be an integer >= 1, got 0"),
        ({"refit": "yes"}, "`refit` must be an integer >= 1, got 'yes'"),
    ],
)
def test_a_wrong_argument_is_named(options: dict, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        cross_validation(Drift(), long({"a": 30}), **{"h": 3, **options})


def test_case_24_a_column_named_as_the_cutoff_is_refused() -> None:
    table = long({"a": 30}).rename(columns={"y": "cutoff"})
    with pytest.raises(ValueError, match="must not have a column 'cutoff'"):
        cross_validation(Drift(target_col="cutoff"), table, 3)
    with pytest.raises(ValueError, match="the column 'Drift' must not be named as the forecast's"):
        cross_validation(Drift(target_col="Drift"), long({"a": 30}).rename(columns={"y": "Drift"}), 3)


def test_a_forecast_of_another_shape_is_refused(calls: list) -> None:
    class Short(Spy):
        def predict(self, h):
            return super().predict(h).iloc[1:]

    with pytest.raises(ValueError, match="`estimator` must forecast a long table with 2 rows"):
        cross_validation(Short(), long({"a": 20}), 2)


def test_an_estimator_without_update_forecasts_from_the_rows_known() -> None:
    table = long({"a": 40}).rename(columns={"y": "v"})
    model = Drift(target_col="v")
    expected = cross_validation(model, table, 3, n_windows=3, refit=False)
    pd.testing.assert_frame_equal(cross_validation(_Held(model), table, 3, n_windows=3, refit=False), expected)


def test_a_pipeline_is_fitted_at_every_window() -> None:
    table = long({"a": 40}).rename(columns={"y": "v"})
    model = Drift(target_col="v")
    found = cross_validation(Pipeline([("forecast", model)]), table, 3, n_windows=3)
    pd.testing.assert_frame_equal(found, cross_validation(model, table, 3, n_windows=3))


class _Held(BaseEstimator):
    """Has no `update`, as a search has none."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, df):
        self.best_estimator_ = self.estimator.fit(df)
        return self

    def predict(self, h=None, df=None):
        return self.best_estimator_.predict(h, df)


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
def test_processes_and_threads_change_nothing(backend: str) -> None:
    table = long({"a": 60, "b": 50})
    model = forecaster(max_epochs=1)
    expected = cross_validation(model, table, 3, n_windows=4, refit=2)
    with joblib.parallel_config(backend=backend):
        found = cross_validation(model, table, 3, n_windows=4, refit=2, n_jobs=2)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_utilsforecast_reads_the_frame_by_its_own_names() -> None:
    table = long({"a": 40, "b": 50}).rename(columns={"unique_id": "shop", "ds": "hour", "y": "sales"})
    names = dict(id_col="shop", time_col="hour", target_col="sales")
    frame = cross_validation(Drift(**names), table, 3, n_windows=2)
    scores = evaluate(frame, metrics=[mae, rmse], **names)
    errors = (frame["sales"] - frame["Drift"]).to_numpy().reshape(2, 2, 3)
    assert scores["Drift"].to_numpy() == pytest.approx(
        np.concatenate([np.abs(errors).mean(-1).ravel(), np.sqrt((errors**2).mean(-1)).ravel()])
    )
    assert mase(frame, ["Drift"], 1, table, id_col="shop", target_col="sales", time_col="hour")["Drift"].gt(0).all()


@pytest.mark.parametrize("estimator", [SeasonalNaive, "SeasonalNaive", None])
def test_what_is_no_forecaster_is_refused(estimator):
    df = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=30), "y": np.arange(30.0)})
    with pytest.raises(
        TypeError, match=r"`estimator` must be a forecaster, got .*; pass one, as TitansForecaster\(\) is"
    ):
        cross_validation(estimator, df, h=2)


@pytest.mark.parametrize("asked", [{"level": 80}, {"quantiles": [0.1]}])
def test_intervals_of_what_forecasts_points_alone_are_refused(asked):
    df = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=30), "y": np.arange(30.0)})
    with pytest.raises(
        TypeError, match=f"`{next(iter(asked))}` must be None, for SeasonalNaive forecasts points alone"
    ):
        cross_validation(SeasonalNaive(), df, h=2, **asked)
