"""Baselines forecast what their formulas say, behind the forecaster's interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from titans_ts import Drift, MeanForecaster, SeasonalNaive
from titans_ts.baselines import drift
from titans_ts.tables.series_data import SeriesData

DAYS = pd.date_range("2024-01-01", periods=30)
LONG = pd.DataFrame(
    {
        "unique_id": ["b"] * 20 + ["a"] * 5,
        "ds": [*DAYS[:20], *DAYS[:5]],
        "y": [*np.arange(20.0), 3.0, 1.0, 4.0, 1.0, 5.0],
    }
)
ALL = [SeasonalNaive(), Drift(), MeanForecaster([SeasonalNaive(), Drift()])]


def test_seasonal_naive_repeats_the_last_season_and_the_last_value_of_less_than_one() -> None:
    forecast = SeasonalNaive().fit(LONG).predict(9)
    assert list(forecast.columns) == ["unique_id", "ds", "SeasonalNaive"]
    assert forecast["SeasonalNaive"].tolist() == [5.0] * 9 + [13, 14, 15, 16, 17, 18, 19, 13, 14]
    assert forecast["ds"].tolist() == [*DAYS[5:14], *DAYS[20:29]]
    assert SeasonalNaive(season=2).fit(LONG).predict(3)["SeasonalNaive"].tolist() == [1, 5, 1, 18, 19, 18]


def test_drift_is_the_line_from_the_first_row_to_the_last() -> None:
    forecast = Drift().fit(LONG).predict(2)
    assert forecast["Drift"].tolist() == [5.5, 6.0, 20.0, 21.0]
    one = SeriesData(np.array([4.0]), np.array([1]), np.array([0]))
    assert drift(one, 2).tolist() == [[4.0, 4.0]]


def test_the_mean_is_that_of_its_members_forecasts() -> None:
    wide = pd.DataFrame({"x": np.arange(20.0), "z": np.arange(20.0)[::-1]}, index=DAYS[:20])
    members = [SeasonalNaive(season=3), Drift()]
    mean = MeanForecaster(members).fit(wide)
    expected = sum(member.fit(wide).predict(4) for member in map(clone, members)) / 2
    pd.testing.assert_frame_equal(mean.predict(4), expected)
    later = wide.set_axis(DAYS[10:])
    expected = sum(member.fit(wide).predict(4, later) for member in map(clone, members)) / 2
    pd.testing.assert_frame_equal(mean.predict(4, later), expected)
    assert not hasattr(members[0], "panel_")


def test_the_mean_of_one_with_a_horizon_has_that_horizon() -> None:
    assert len(MeanForecaster([Drift(horizon=3), Drift(horizon=2)]).fit(LONG).predict()) == 2 * 2
    assert len(MeanForecaster([Drift(horizon=3)], horizon=5).fit(LONG).predict()) == 2 * 5


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_an_update_goes_on_as_if_all_had_been_fitted(model) -> None:
    begun = clone(model).fit(LONG[LONG["ds"] < DAYS[4]])
    moved = begun.update(LONG[LONG["ds"] >= DAYS[4]]).predict(3)
    pd.testing.assert_frame_equal(moved, clone(model).fit(LONG).predict(3))
    with pytest.raises(ValueError, match="repeats rows that the model has seen"):
        begun.update(LONG)
    pd.testing.assert_frame_equal(begun.predict(3), moved)
    with pytest.raises(ValueError, match=r"`rows` has series \['c'\] that were not in the data fitted"):
        begun.update(LONG[:20].assign(unique_id="c"))


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_other_rows_are_forecast_from_their_end(model) -> None:
    other = LONG.assign(unique_id="c " + LONG["unique_id"], y=LONG["y"] + 1)
    fitted = clone(model).fit(LONG)
    name = type(model).__name__
    assert fitted.predict(3, other)[name].tolist() == (fitted.predict(3)[name] + 1).tolist()
    pd.testing.assert_frame_equal(fitted.predict(other), fitted.predict(None, other))
    with pytest.raises(TypeError, match="`h` must be an integer where `df` is given too"):
        fitted.predict(other, other)


@pytest.mark.parametrize("model", ALL, ids=lambda model: type(model).__name__)
def test_every_layout_comes_back_as_it_was(model) -> None:
    values = np.arange(20.0)
    fitted = clone(model).set_params(horizon=3)
    assert fitted.fit(values[:, None]).predict().shape == (3, 1)
    series = fitted.fit(pd.Series(values, index=DAYS[:20], name="v")).predict()
    assert series.name == "v"
    assert series.index.tolist() == DAYS[20:23].tolist()
    polars = pytest.importorskip("polars")
    assert isinstance(fitted.fit(polars.from_pandas(LONG)).predict(), polars.DataFrame)


def test_the_horizon_is_the_frequencys_where_none_is_given() -> None:
    model = SeasonalNaive().fit(pd.Series(np.arange(60.0), index=pd.date_range("2024", periods=60)))
    assert (model.horizon_, model.season_, model.n_features_in_) == (14, 7, 1)
    assert len(model.predict()) == 14


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(NotFittedError):
        Drift().predict()
    with pytest.raises(ValueError, match="`y` must be None"):
        Drift().fit(LONG, LONG["y"])
    with pytest.raises(ValueError, match="`season` must be an integer >= 1, got 0"):
        SeasonalNaive(season=0).fit(LONG)
    with pytest.raises(ValueError, match=r"`estimators` must be a list of forecasters, got \[\]"):
        MeanForecaster([]).fit(LONG)
    with pytest.raises(ValueError, match="`h` must be an integer >= 1, got -1"):
        Drift().fit(LONG).predict(-1)
