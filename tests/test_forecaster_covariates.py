"""The estimator with covariates: what they are worth, in every layout, and what update, scores and saving owe them."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from holidays import country_holidays as holidays_of
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from sklearn.base import clone

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.search.terms import study_terms

HORIZON, LOOKBACK, ROWS = 6, 24, 300
ROUNDING = dict(rtol=0, atol=1e-5)  # float32, of series of size 1 to 20
WORSE = 1.05  # error with over without, of covariates that say nothing
COLUMNS = dict(past_cols=["led"], future_cols=["temp", "kind", "off"])
NAMES = ["temp", "kind", "off", "led"]


def tiny(**parameters: Any) -> TitansForecaster:
    given = dict(horizon=HORIZON, lookback=LOOKBACK, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0)
    given |= dict(verbose=0, context="window", combine=False, linear_path=True)
    return TitansForecaster(**(given | parameters))


def hourly(
    rows: int = ROWS + HORIZON, names: str = "ab", seed: int = 0, effects: list[str] = NAMES, **how: Any
) -> pd.DataFrame:
    """Long: hours that follow temperature, kind of day, a 0/1 and what another column was six hours before."""
    rng, parts = np.random.default_rng(seed), []
    hours = pd.date_range(**(dict(start="2024-01-01", freq="h", periods=rows, name="ds") | how))
    for i, name in enumerate(names):
        temp = 15 + rng.normal(size=rows).cumsum() / 3
        kind, off = rng.choice(["dry", "rain", "snow"], rows), rng.random(rows) < 0.2
        led = rng.normal(size=rows + HORIZON)
        of_kind = np.select([kind == "rain", kind == "snow"], [1.0, -2.0])
        effect = {"temp": np.abs(temp - 15), "kind": of_kind, "off": 1.5 * off, "led": led[:-HORIZON]}
        y = 10 * i + np.sin(2 * np.pi * np.arange(rows) / 24) + 0.3 * rng.normal(size=rows)
        y += np.sum([effect[name] for name in effects], axis=0)
        columns = {"temp": temp, "kind": kind, "off": off.astype(int), "led": led[HORIZON:]}
        parts.append(pd.DataFrame({"unique_id": name, "ds": hours, "y": y} | columns))
    return pd.concat(parts, ignore_index=True)


def split(table: pd.DataFrame, h: int = HORIZON) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All but the last `h` rows of each series, and these."""
    last = table.groupby("unique_id").cumcount(ascending=False) < h
    return table[~last], table[last]


def values(forecast: Any) -> np.ndarray:
    if isinstance(forecast, pl.DataFrame):
        forecast = forecast.to_pandas()
    if isinstance(forecast, pd.DataFrame):
        forecast = forecast["Titans"] if "Titans" in forecast else forecast.select_dtypes("number")
    found: np.ndarray = np.asarray(forecast, dtype=float).T.ravel()
    return found


def error(table: pd.DataFrame, origins: int = 1, named: dict[str, Any] | None = None, **options: Any) -> float:
    """Mean absolute error from several ends of the table, one fit for all: (rows ahead are known)."""
    named = named or {}
    used = [name for key, names in named.items() if key != "calendar" for name in names]
    table = table[["unique_id", "ds", "y", *used]]
    length = int(table.groupby("unique_id").size().min())
    begun = table[table.groupby("unique_id").cumcount() < length - origins * HORIZON]
    model, found = tiny(**(named | options)).fit(begun), []
    for i in range(origins):
        step = table.groupby("unique_id").cumcount() - (length - (origins - i) * HORIZON)
        rows = table[(step >= 0) & (step < HORIZON)]
        future = rows.drop(columns="y") if "future_cols" in named else None
        found.append(np.abs(values(model.predict(future=future)) - rows.y.to_numpy()).mean())
        model.update(rows)
    return float(np.mean(found))


# What covariates are worth


@pytest.fixture(scope="module")
def known() -> pd.DataFrame:
    return hourly(420)


@pytest.mark.parametrize(
    "named",
    [{"future_cols": ["temp"]}, {"future_cols": ["kind"]}, {"future_cols": ["off"]}, {"past_cols": ["led"]}, COLUMNS],
    ids=["number that bends", "category", "0/1", "leading", "all"],
)
def test_each_covariate_helps(named: dict[str, list[str]]) -> None:
    table = hourly(420, effects=[name for names in named.values() for name in names])
    assert error(table, 5, named) < 0.6 * error(table, 5)


def test_a_group_gives_short_noisy_series_its_season() -> None:
    rng, parts, hours = np.random.default_rng(0), [], pd.date_range("2024-01-01", periods=104, freq="h")
    season = rng.normal(size=(2, 24))
    for i in range(60):
        y = season[i % 2, hours.hour] + 1.5 * rng.normal(size=104)
        parts.append(pd.DataFrame({"unique_id": f"s{i:02}", "ds": hours, "y": y, "group": "pq"[i % 2]}))
    table = pd.concat(parts, ignore_index=True)
    assert error(table, 3, {"static_cols": ["group"]}) < 0.95 * error(table, 3)


def test_the_calendar_gives_weekdays_beside_a_daily_season() -> None:
    hours = pd.date_range("2024-01-01", periods=24 * 7 * 6, freq="h")
    rng = np.random.default_rng(0)
    y = np.sin(2 * np.pi * hours.hour / 24) + 3 * (hours.day_of_week >= 5) + 0.1 * rng.normal(size=len(hours))
    table = pd.DataFrame({"unique_id": "a", "ds": hours, "y": y})
    assert error(table, 28, {"calendar": ["weekday"]}) < 0.8 * error(table, 28)


def test_holidays_are_forecast() -> None:
    days = pd.date_range("2019-01-01", "2024-12-31", freq="D")
    holidays = pd.DatetimeIndex(list(holidays_of("US", years=range(2019, 2025))))
    y = 10 + 0.3 * np.random.default_rng(0).normal(size=len(days)) - 5 * days.isin(holidays)
    table = pd.DataFrame({"ds": days, "y": y})[:-9]  # to 22 December
    given = dict(calendar=["holidays:US"], outliers="keep", cycle=0)
    without, found = (tiny(**options).fit(table).predict(3).Titans.to_numpy() for options in ({}, given))
    assert np.abs(found[[0, 1]] - 10).max() < 1
    assert found[2] < 7 < without[2]


@pytest.mark.parametrize("role", ["past_cols", "future_cols"])
def test_noise_does_no_harm(known: pd.DataFrame, role: str) -> None:
    table = known.assign(noise=np.random.default_rng(5).normal(size=len(known)))
    assert error(table, 10, {role: ["noise"]}) < WORSE * error(table, 10)


def test_what_is_the_series_itself_leaves_no_error() -> None:
    table = hourly(names="a").assign(same=lambda t: 3 * t.y - 4)
    first, last = split(table[["unique_id", "ds", "y", "same"]])
    forecast = tiny(future_cols=["same"]).fit(first).predict(future=last)
    assert np.abs(values(forecast) - last.y.to_numpy()).max() < 0.05 * first.y.std()


@pytest.mark.parametrize(
    "scale", [lambda x: 1e12 * x, lambda x: 1e-12 * x, lambda x: 1e6 + x], ids=["huge", "tiny", "far from zero"]
)
def test_the_size_of_covariates_does_not_matter(known: pd.DataFrame, scale: Any) -> None:
    changed = known.assign(temp=scale(known.temp), led=scale(known.led))
    named = {"future_cols": ["temp"], "past_cols": ["led"]}
    assert error(changed, 3, named) == pytest.approx(error(known, 3, named), rel=0.01)


@pytest.mark.parametrize("value", [0.1, 0.0, 1e12])
@pytest.mark.parametrize("role", ["static_cols", "past_cols", "future_cols"])
def test_a_constant_covariate_changes_nothing(known: pd.DataFrame, role: str, value: float) -> None:
    first, last = split(known[known.unique_id == "a"].assign(flat=value))
    first, last = first[["unique_id", "ds", "y", "flat"]], last[["unique_id", "ds", "flat"]]
    found = tiny(**{role: ["flat"]}).fit(first).predict(future=last if role == "future_cols" else None)
    expected = tiny().fit(first.drop(columns="flat")).predict()
    assert values(found) == pytest.approx(values(expected), abs=0.02 * first.y.std())


def test_a_constant_that_changes_ahead_moves_the_forecast_little(known: pd.DataFrame) -> None:
    first, last = split(known.assign(flat=0.1))
    model = tiny(future_cols=["temp", "flat"]).fit(first.drop(columns=["kind", "off", "led"]))
    found = model.predict(future=last.assign(flat=0.2))
    assert values(found) == pytest.approx(values(model.predict(future=last)), abs=0.1)


def test_a_constant_series_is_forecast_as_it_is() -> None:
    table = hourly().assign(y=lambda t: t.y.where(t.unique_id == "a", 7.0))
    first, last = split(table)
    found = values(tiny(**COLUMNS).fit(first).predict(future=last))
    assert found[HORIZON:] == pytest.approx([7.0] * HORIZON, abs=1e-3)


# Layouts


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return hourly()


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame) -> TitansForecaster:
    return tiny(**COLUMNS).fit(split(table)[0])


@pytest.fixture(scope="module")
def expected(table: pd.DataFrame, fitted: TitansForecaster) -> np.ndarray:
    return values(fitted.predict(future=split(table)[1]))


def test_rows_may_come_in_any_order(table: pd.DataFrame, expected: np.ndarray) -> None:
    first, last = (part.sample(frac=1, random_state=0) for part in split(table))
    assert np.array_equal(values(tiny(**COLUMNS).fit(first).predict(future=last)), expected)


def test_polars_frames_give_the_same(table: pd.DataFrame, expected: np.ndarray) -> None:
    first, last = map(pl.from_pandas, split(table))
    model = tiny(**COLUMNS).fit(first)
    found = model.predict(future=last)
    assert isinstance(found, pl.DataFrame)
    assert np.array_equal(values(found), expected)
    assert isinstance(model.make_future_frame(), pl.DataFrame)


def test_custom_names_of_columns_give_the_same(table: pd.DataFrame, expected: np.ndarray) -> None:
    names = {"unique_id": "shop", "ds": "when", "y": "sold"}
    first, last = (part.rename(columns=names) for part in split(table))
    found = tiny(id_col="shop", time_col="when", target_col="sold", **COLUMNS).fit(first).predict(future=last)
    assert found.columns.tolist() == ["shop", "when", "Titans"]
    assert np.array_equal(values(found), expected)


def test_a_single_series_and_a_wide_table_give_the_same() -> None:
    first, last = (part.drop(columns="unique_id") for part in split(hourly(names="a")))
    expected = values(tiny(**COLUMNS).fit(first).predict(future=last))
    for named in ("times in the index", "times in a column"):
        wide, ahead = (part.rename(columns={"y": "a"}).set_index("ds") for part in (first, last))
        if named == "times in a column":
            wide, ahead = wide.reset_index(), ahead.reset_index()
        found = tiny(**COLUMNS).fit(wide).predict(future=ahead[[c for c in ahead if c != "a"]])
        assert np.array_equal(values(found), expected), named


def test_ids_and_times_in_the_index_give_the_same(table: pd.DataFrame, expected: np.ndarray) -> None:
    first, last = (part.set_index(["unique_id", "ds"]) for part in split(table))
    found = tiny(**COLUMNS).fit(first).predict(future=last.drop(columns="y"))
    assert np.array_equal(values(found), expected)


def test_wide_and_long_tables_with_the_same_covariates_give_the_same() -> None:
    table = hourly()
    shared = table[table.unique_id == "a"][NAMES]
    table = table.assign(**{name: np.tile(shared[name], 2) for name in NAMES})
    first, last = split(table)
    expected = values(tiny(**COLUMNS).fit(first).predict(future=last))
    wide = table.pivot(index="ds", columns="unique_id", values="y").rename_axis(columns=None)
    wide = wide.join(table[table.unique_id == "a"].set_index("ds")[NAMES])
    found = tiny(**COLUMNS).fit(wide[:-HORIZON]).predict(future=wide[-HORIZON:][["temp", "kind", "off"]])
    assert found.columns.tolist() == ["a", "b"]
    assert np.array_equal(values(found), expected)


@pytest.mark.parametrize("zone", [None, "Asia/Kolkata", "America/New_York"])
@pytest.mark.parametrize("layout", ["long", "single", "wide", "wide column", "polars"])
def test_make_future_frame_has_the_ids_and_times_of_the_forecast(layout: str, zone: str | None) -> None:
    table = hourly(60, names="a" if layout == "single" else "ab", tz=zone)[["unique_id", "ds", "y"]]
    parameters = dict(calendar=["hour"], time_col="when" if layout == "wide column" else "ds")
    if layout == "single":
        table = table.drop(columns="unique_id")
    elif layout.startswith("wide"):
        table = table.pivot(index="ds", columns="unique_id", values="y").rename_axis(columns=None)
        table = table.rename_axis("when").reset_index() if layout == "wide column" else table
    elif layout == "polars":
        table = pl.from_pandas(table)
    model = tiny(**parameters).fit(table)
    forecast, frame = model.predict(3), model.make_future_frame(3)
    assert type(frame) is type(forecast)
    if layout == "wide":
        pd.testing.assert_index_equal(frame.index, forecast.index)
        assert frame.shape == (3, 0)
        return
    forecast, frame = (part.to_pandas() if layout == "polars" else part for part in (forecast, frame))
    kept = [name for name in forecast.columns if name not in ("Titans", "a", "b")]
    pd.testing.assert_frame_equal(frame, forecast[kept])


def test_make_future_frame_of_an_array_is_refused() -> None:
    with pytest.raises(TypeError, match="an array has no times"):
        tiny().fit(np.random.default_rng(0).normal(size=(60, 2))).make_future_frame()


def test_a_filled_future_frame_forecasts(table: pd.DataFrame, fitted: TitansForecaster, expected: np.ndarray) -> None:
    frame = fitted.make_future_frame()
    last = split(table)[1]
    future = frame.merge(last[["unique_id", "ds", "temp", "kind", "off"]])
    assert len(future) == len(frame) == 2 * HORIZON
    assert np.array_equal(values(fitted.predict(future=future)), expected)


@pytest.mark.parametrize("h", [1, 2])
def test_a_future_of_one_and_of_two_rows_has_the_frequency_of_the_history(
    table: pd.DataFrame, fitted: TitansForecaster, expected: np.ndarray, h: int
) -> None:
    future = split(table)[1]
    future = future[future.groupby("unique_id").cumcount() < h]
    found = fitted.predict(h, future=future)
    assert values(found) == pytest.approx(expected.reshape(2, -1)[:, :h].ravel(), abs=1e-9)


# Errors


def test_columns_that_are_not_named_are_refused_with_the_parameters(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"name covariates in `static_cols`, `past_cols` or `future_cols`"):
        tiny().fit(table)


@pytest.mark.parametrize("name", ["unique_id", "ds", "y"])
def test_a_covariate_with_the_name_of_a_column_of_the_table_is_refused(table: pd.DataFrame, name: str) -> None:
    with pytest.raises(ValueError, match=f"names of their own, but {name!r}"):
        tiny(past_cols=[name]).fit(table)


@pytest.mark.parametrize("name", ["cutoff", "index", "Titans"])
def test_covariates_of_common_names_work(table: pd.DataFrame, expected: np.ndarray, name: str) -> None:
    first, last = (part.rename(columns={"temp": name}) for part in split(table))
    model = tiny(past_cols=["led"], future_cols=[name, "kind", "off"]).fit(first)
    assert np.array_equal(values(model.predict(future=last)), expected)


def test_predict_asks_for_the_future_and_refuses_one_that_is_not_wanted(
    table: pd.DataFrame, fitted: TitansForecaster
) -> None:
    with pytest.raises(ValueError, match=r"`make_future_frame\(6\)` makes"):
        fitted.predict()
    with pytest.raises(ValueError, match=r"6 of 12 are missing: \[\('b', 2024-01-13 12:00:00\)"):
        fitted.predict(future=split(table)[1].query("unique_id == 'a'"))
    model = tiny(past_cols=["led"]).fit(split(table)[0][["unique_id", "ds", "y", "led"]])
    with pytest.raises(ValueError, match="`future` must be None: the forecaster was fitted without `future_cols`"):
        model.predict(future=split(table)[1])


def test_a_calendar_of_integer_times_is_refused() -> None:
    with pytest.raises(TypeError, match="`calendar` needs dates, but times are numbers"):
        tiny(calendar=["hour"]).fit(np.random.default_rng(0).normal(size=(60, 1)))


def test_scikit_learn_sees_the_parameters() -> None:
    model = tiny(static_cols=["g"], calendar=["hour"], **COLUMNS)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert copied.past_cols == ["led"]


# What goes on from a fit


def test_past_the_horizon_the_forecast_goes_on_with_the_future() -> None:
    table = hourly(effects=["kind", "off"])[["unique_id", "ds", "y", "kind", "off"]]
    first, last = split(table, 4 * HORIZON)
    model = tiny(future_cols=["kind", "off"]).fit(first)
    found = values(model.predict(4 * HORIZON, future=last)).reshape(2, -1)
    one = last[last.groupby("unique_id").cumcount() < HORIZON]
    assert found[:, :HORIZON].ravel() == pytest.approx(values(model.predict(future=one)), abs=1e-9)
    without = tiny().fit(first[["unique_id", "ds", "y"]]).predict(4 * HORIZON)
    y = last.y.to_numpy()
    assert np.abs(found.ravel() - y).mean() < 0.7 * np.abs(values(without) - y).mean()


def test_other_rows_of_a_fitted_series_are_forecast_from(table: pd.DataFrame) -> None:
    first, last = split(table)
    model = tiny(**COLUMNS).fit(first)
    expected = values(model.predict(future=last))
    assert values(model.predict(df=first, future=last)) == pytest.approx(expected, abs=1e-4)


def test_a_series_that_was_not_fitted_is_forecast_with_its_covariates(table: pd.DataFrame) -> None:
    model = tiny(**COLUMNS).fit(split(table)[0])
    first, last = split(hourly(names="c", seed=9))
    found = values(model.predict(df=first, future=last))
    blind = tiny().fit(split(table)[0][["unique_id", "ds", "y"]])
    without = values(blind.predict(df=first[["unique_id", "ds", "y"]]))
    y = last.y.to_numpy()
    assert np.abs(found - y).mean() < 0.5 * np.abs(without - y).mean()


def parts_of(table: pd.DataFrame, cuts: list[int]) -> list[pd.DataFrame]:
    row = table.groupby("unique_id").cumcount()
    bounds = [0, *cuts, len(table)]
    return [table[(row >= a) & (row < b)] for a, b in itertools.pairwise(bounds)]


@settings(max_examples=4, deadline=None)
@given(
    cuts=st.lists(st.integers(201, 299), min_size=1, max_size=4, unique=True),
    context=st.sampled_from(["window", "stream"]),
)
def test_updates_in_any_cuts_are_one(cuts: list[int], context: str) -> None:
    table = hourly(names="ab")
    begun, rows = split(table, 106)
    rows, last = split(rows)
    model = MODELS.setdefault(context, tiny(context=context, **COLUMNS).fit(begun))
    expected = copy.deepcopy(model).update(rows)
    found = copy.deepcopy(model)
    for part in parts_of(pd.concat([begun, rows]).sort_values(["unique_id", "ds"]), [200, *sorted(cuts)])[1:]:
        if len(part):
            found.update(part)
    assert np.allclose(values(found.predict(future=last)), values(expected.predict(future=last)), **ROUNDING)
    assert np.allclose(found.fitted_.panel.data.values, expected.fitted_.panel.data.values, **ROUNDING)


MODELS: dict[str, TitansForecaster] = {}


@pytest.mark.parametrize("missing", ["interpolate", "ffill"])
@pytest.mark.parametrize("cut", [250, 253, 256])
def test_updates_over_skipped_rows_are_one(missing: str, cut: int) -> None:
    table = hourly()
    table.loc[table.index[40:44], ["temp", "kind"]] = np.nan
    begun, rows = split(table, 106)
    rows, last = split(rows)
    there = ~rows.groupby("unique_id").cumcount().between(51, 54)
    rows = rows[there]
    model = tiny(missing=missing, calendar=["hour"], **COLUMNS).fit(begun)
    expected = copy.deepcopy(model).update(rows)
    at = pd.Timestamp("2024-01-01") + pd.Timedelta(hours=cut)
    found = copy.deepcopy(model).update(rows[rows.ds < at]).update(rows[rows.ds >= at])
    assert np.allclose(found.fitted_.panel.data.covariates, expected.fitted_.panel.data.covariates, **ROUNDING)
    assert np.allclose(found.fitted_.panel.data.values, expected.fitted_.panel.data.values, **ROUNDING)
    assert np.allclose(values(found.predict(future=last)), values(expected.predict(future=last)), **ROUNDING)


def test_gaps_are_refused_or_filled(table: pd.DataFrame, expected: np.ndarray) -> None:
    first, last = split(table)
    holes = first.drop(index=first.index[100:103])
    with pytest.raises(ValueError, match="gap of 3 rows"):
        tiny(**COLUMNS).fit(holes)
    found = tiny(missing="interpolate", **COLUMNS).fit(holes).predict(future=last)
    assert values(found) == pytest.approx(expected, abs=0.5)


def test_scores_read_the_covariates_of_the_rows(table: pd.DataFrame, fitted: TitansForecaster) -> None:
    rows = split(table)[1]
    scale = fitted.fitted_.regression.scaler.scale  # type: ignore[union-attr]
    errors = (values(fitted.predict(future=rows)) - rows.y.to_numpy()).reshape(2, -1) / scale[:, None]
    assert fitted.score(rows) == pytest.approx(-(errors**2).mean(), abs=1e-9)
    fewer = rows.drop(index=rows.index[-2:])
    assert fitted.score(fewer) == pytest.approx(-(errors.ravel()[:-2] ** 2).mean(), abs=1e-9)


def test_surprises_are_of_what_covariates_leave(table: pd.DataFrame) -> None:
    first, rows = split(table, 60)
    model = tiny(**COLUMNS).fit(first)
    spoilt = rows.reset_index(drop=True)
    spoilt.loc[30, "y"] += 8
    found = model.surprise(spoilt)
    assert int(np.nanargmax(np.abs(found.surprise))) == 30
    called = model.anomalies(spoilt, alpha=0.05)
    assert called.anomaly[30]
    early = spoilt.groupby("unique_id").cumcount() < 40
    later = spoilt.assign(**{name: spoilt[name].where(early, 99.0) for name in ("y", "led", "temp")})
    assert np.array_equal(model.surprise(later).surprise[early], found.surprise[early], equal_nan=True)


@pytest.mark.parametrize("how", ["save", "pickle", "deepcopy"])
def test_a_copy_forecasts_the_same_to_the_bit(table: pd.DataFrame, tmp_path: Path, how: str) -> None:
    first, last = split(table.assign(group=table.unique_id.map({"a": 1, "b": 2})))
    rows, last = last, last.assign(ds=last.ds + pd.Timedelta(hours=HORIZON))
    model = tiny(static_cols=["group"], calendar=["hour", "holidays:US"], **COLUMNS).fit(first)
    if how == "save":
        model.save(tmp_path / "model")
        copied = TitansForecaster.load(tmp_path / "model")
    else:
        copied = pickle.loads(pickle.dumps(model)) if how == "pickle" else copy.deepcopy(model)
    assert copied.get_params() == model.get_params()
    assert np.array_equal(values(copied.predict(future=rows)), values(model.predict(future=rows)))
    model.update(rows), copied.update(rows)
    assert np.array_equal(values(copied.predict(future=last)), values(model.predict(future=last)))


def test_without_covariates_a_forecast_is_what_it_was() -> None:
    t = np.arange(200)
    noise = (t * 7919 % 101 - 50) / 250  # the same everywhere
    wide = pd.DataFrame({"a": np.sin(t * np.pi / 12) + noise}, index=pd.date_range("2024-01-01", periods=200, freq="h"))
    model = tiny().fit(wide)
    assert model.fitted_.regression is None
    assert model.fitted_.panel.data.covariates is None
    assert model.summary().choice.tolist().count("covariates") == 0
    assert model.predict().a.to_numpy() == pytest.approx(BEFORE, abs=1e-6)


# Of the version before covariates, by the same lines.
BEFORE = [0.7454172, 0.747685, 0.6069911, 0.2133555, 0.1172839, -0.3783439]


# Causality


@settings(max_examples=5, deadline=None)
@given(st.integers(1, HORIZON - 1), st.floats(-1e6, 1e6))
def test_covariates_after_a_step_change_nothing_up_to_it(steps: int, value: float) -> None:
    table = hourly()
    model = MODELS.setdefault("causal", tiny(**COLUMNS).fit(split(table)[0]))
    future = split(table)[1]
    expected = values(model.predict(future=future)).reshape(2, -1)[:, :steps]
    late = future.groupby("unique_id").cumcount() >= steps
    spoilt = future.assign(
        temp=future.temp.mask(late, value), kind=future.kind.mask(late, "snow"), off=future.off.mask(late, 1)
    )
    assert np.array_equal(values(model.predict(future=spoilt)).reshape(2, -1)[:, :steps], expected)


def test_past_covariates_and_values_of_the_future_frame_are_not_read(
    table: pd.DataFrame, fitted: TitansForecaster, expected: np.ndarray
) -> None:
    future = split(table)[1].assign(led=np.nan, y="unknown")
    assert np.array_equal(values(fitted.predict(future=future)), expected)


def test_rows_of_another_series_change_nothing(
    table: pd.DataFrame, fitted: TitansForecaster, expected: np.ndarray
) -> None:
    future = split(table)[1]
    spoilt = future.assign(temp=future.temp.mask(future.unique_id == "a", 1e15))
    assert np.array_equal(values(fitted.predict(future=spoilt))[HORIZON:], expected[HORIZON:])


# With the rest of the estimator


def test_a_network_is_trained_with_covariates(table: pd.DataFrame) -> None:
    first, last = split(table)
    model = tiny(max_epochs=1, mixer="none", batch_size=128, **COLUMNS).fit(first)
    assert len(model.history_.evaluations) > 1
    assert np.isfinite(values(model.predict(future=last))).all()


@pytest.mark.parametrize(
    "options",
    [
        {"combine": True},
        {"context": "stream"},
        {"linear_path": "across"},
        {"linear_path": False},
        {"linear_path": "auto"},
    ],
)
def test_covariates_help_beside_every_other_part(options: dict[str, Any]) -> None:
    first, last = split(hourly(effects=["kind", "off"])[["unique_id", "ds", "y", "kind", "off"]])
    found = values(tiny(future_cols=["kind", "off"], **options).fit(first).predict(future=last))
    without = values(tiny(**options).fit(first[["unique_id", "ds", "y"]]).predict())
    y = last.y.to_numpy()
    assert np.abs(found - y).mean() < 0.6 * np.abs(without - y).mean()


def test_few_rows_with_covariates_are_forecast() -> None:
    first, last = split(hourly(4 + HORIZON, names="a").assign(kind="dry"))
    found = values(tiny(**(COLUMNS | {"horizon": 2})).fit(first).predict(future=last))
    assert np.abs(found - first.y.mean()).max() < 10 * first.y.std()


def test_bounds_hold_with_covariates(table: pd.DataFrame) -> None:
    first, last = split(table)
    found = values(tiny(lower=0, upper=3, **COLUMNS).fit(first).predict(future=last))
    assert found.min() >= 0
    assert found.max() <= 3


@pytest.mark.parametrize("n_windows", [1, 2])
def test_a_search_reads_covariates(table: pd.DataFrame, n_windows: int) -> None:
    first, last = split(table)
    space = {"dropout": FloatDistribution(0.0, 0.5)}
    search = TitansSearchCV(tiny(**COLUMNS), space, n_trials=1, n_windows=n_windows, random_state=0).fit(first)
    assert np.isfinite(search.best_score_)
    assert search.predict(future=last).shape == (2 * HORIZON, 3)
    assert search.score(last) == search.best_estimator_.score(last)


def test_a_study_is_of_the_covariates_that_it_was_begun_with(table: pd.DataFrame) -> None:
    space = {"dropout": FloatDistribution(0.0, 0.5)}
    one, same, other = (
        study_terms(tiny(**COLUMNS), part, space, "mse", 1)
        for part in (table, table.sample(frac=1, random_state=0), table.assign(temp=table.temp + 1))
    )
    assert one == same
    assert {name for name in one if one[name] != other[name]} == {"data"}
    assert "unreadable" not in one["data"]


def test_a_search_does_not_choose_covariates() -> None:
    space = {"past_cols": FloatDistribution(0.0, 0.5)}
    with pytest.raises(ValueError, match="`space` must not name 'past_cols'"):
        TitansSearchCV(tiny(), space).fit(hourly())
