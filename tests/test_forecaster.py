"""Tables in, forecasts out: what `fit`, `predict` and `score` say of data whose future is known."""

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from titans_ts import TitansForecaster

ROWS, HORIZON = 200, 6
CLOSE = dict(rtol=0, atol=2e-3)  # the ridge bends exact waves of size 1 by less than this
ROUNDING = dict(rtol=0, atol=1e-5)  # float32 inside; values of size 1 to 30


def tiny(**parameters) -> TitansForecaster:
    given = dict(
        horizon=HORIZON, lookback=24, d_model=8, n_heads=2, n_layers=1, max_epochs=1, random_state=0, verbose=0
    )
    return TitansForecaster(**{**given, **parameters})


def waves(first: int = 0, rows: int = ROWS, freq: str = "h") -> pd.DataFrame:
    """Rows [first, first + rows) of two series: a daily wave, and a trend with a half-daily one."""
    t = np.arange(first, first + rows)
    index = pd.date_range("2024-01-01", periods=first + rows, freq=freq, name="when")[first:]
    daily = 2 * np.pi * t / 24
    return pd.DataFrame({"a": 10 + np.sin(daily), "b": 0.1 * t + np.cos(2 * daily)}, index=index)


def long(wide: pd.DataFrame, ids: object = ("a", "b"), target: str = "y") -> pd.DataFrame:
    ids = pd.Series(ids) if not isinstance(ids, pd.Series) else ids
    times = {"ds": np.tile(wide.index, 2), target: wide.to_numpy().T.ravel()}
    return pd.DataFrame({"unique_id": ids.repeat(len(wide)).reset_index(drop=True), **times})


def single(wide: pd.DataFrame, target: str = "y") -> pd.DataFrame:
    return pd.DataFrame({"ds": wide.index, target: wide["b"].to_numpy()})


def by_count(wide: pd.DataFrame, name: str | None = None) -> pd.RangeIndex:
    first = int((wide.index[0] - pd.Timestamp("2024-01-01")) / pd.Timedelta("1h"))
    return pd.RangeIndex(first, first + len(wide), name=name)


# Each lays waves out in one kind, the second as the forecast of that kind is laid out.
KINDS = {
    "long": (long, lambda wide: long(wide, target="Titans")),
    "long, integer ids": (
        lambda wide: long(wide, [100100037, 100100038]),  # case 20
        lambda wide: long(wide, [100100037, 100100038], target="Titans"),
    ),
    "long, categories": (
        lambda wide: long(wide, pd.Series(["q", "p"], dtype=pd.CategoricalDtype(["q", "p", "r"]))),
        lambda wide: long(wide, pd.Series(["q", "p"], dtype=pd.CategoricalDtype(["q", "p", "r"])), target="Titans"),
    ),
    "one series": (single, lambda wide: single(wide, target="Titans")),
    "wide": (lambda wide: wide, None),
    "wide, zoned": (lambda wide: wide.tz_localize("Asia/Kolkata"), None),
    "wide, periods": (lambda wide: wide.to_period("h"), None),
    "wide, counted": (lambda wide: wide.set_axis(by_count(wide, "n")), None),
    "wide, numbered columns": (lambda wide: wide.set_axis(pd.Index([7, 2], name="site"), axis=1), None),
    "wide, date column": (lambda wide: wide.reset_index(), None),
    "Series": (lambda wide: wide["b"], None),
    "Series, counted": (lambda wide: wide["b"].set_axis(by_count(wide)).rename(None), None),
    "array": (lambda wide: wide.to_numpy(), None),
}


def assert_equal(found, expected, **tolerance):
    assert type(found) is type(expected)
    if isinstance(found, np.ndarray):
        np.testing.assert_allclose(found, expected, **(tolerance or dict(rtol=0, atol=0)))
    else:
        equal = pd.testing.assert_series_equal if isinstance(found, pd.Series) else pd.testing.assert_frame_equal
        equal(found, expected, check_exact=not tolerance, **tolerance)


@pytest.fixture(scope="module")
def fitted() -> TitansForecaster:
    return tiny().fit(waves())


@pytest.fixture(scope="module")
def noisy() -> pd.DataFrame:
    return waves(0, ROWS + 20) + np.random.default_rng(0).normal(size=(ROWS + 20, 2))


@pytest.fixture(scope="module")
def trained(noisy) -> TitansForecaster:
    """Without validation rows the last weights are kept, so that the deep branch has its say."""
    model = tiny(val_size=0, combine=False).fit(noisy[:ROWS])
    assert model.network_.head.project.weight.abs().max() > 1e-3
    return model


# Kinds of tables


@pytest.mark.parametrize("kind", KINDS)
def test_forecast_continues_the_table_in_its_own_kind(kind):
    layout, forecast_layout = KINDS[kind]
    model = tiny().fit(layout(waves()))
    expected = (forecast_layout or layout)(waves(ROWS, HORIZON))
    assert_equal(model.predict(), expected, **CLOSE)
    assert_equal(model.predict(df=layout(waves(100, 100))), model.predict(), **ROUNDING)
    assert model.score(layout(waves(ROWS, HORIZON))) > -1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_fit_predict_and_score_leave_tables_as_they_were(kind):
    layout, _ = KINDS[kind]
    tables = [layout(waves()), layout(waves(ROWS, HORIZON))]
    before = copy.deepcopy(tables)
    model = tiny(max_epochs=0).fit(tables[0])
    model.predict(df=tables[0])
    model.score(tables[1])
    for table, copied in zip(tables, before, strict=True):
        assert_equal(table, copied)
        if hasattr(table, "index") and hasattr(copied.index, "freq"):
            assert table.index.freq == copied.index.freq


def test_long_and_wide_forms_forecast_equally(noisy, trained):
    # To the bit: both become the same panel, and the same seed does the rest.
    forecast = tiny(val_size=0, combine=False).fit(long(noisy[:ROWS])).predict(20)
    assert np.array_equal(forecast["Titans"], trained.predict(20).to_numpy().T.ravel())


def test_rows_in_any_order_forecast_equally():
    table = long(waves())
    expected = tiny(val_size=0).fit(table).predict()
    for seed in range(3):
        assert_equal(tiny(val_size=0).fit(table.sample(frac=1, random_state=seed)).predict(), expected)


def test_columns_of_a_long_table_may_have_other_names():
    table = long(waves()).set_axis(["shop", "hour", "sales"], axis=1)
    model = tiny(id_col="shop", time_col="hour", target_col="sales").fit(table)
    expected = long(waves(ROWS, HORIZON)).set_axis(["shop", "hour", "Titans"], axis=1)
    assert_equal(model.predict(), expected, **CLOSE)


def test_series_of_unequal_ends_are_each_continued():
    table = pd.concat([long(waves())[:ROWS], long(waves(0, 150))[150:]])
    forecast = tiny().fit(table).predict(2)
    assert forecast["ds"].tolist() == [*waves(ROWS, 2).index, *waves(150, 2).index]
    expected = [*waves(ROWS, 2)["a"], *waves(150, 2)["b"]]
    np.testing.assert_allclose(forecast["Titans"], expected, **CLOSE)


# Quality


def test_waves_on_a_trend_are_forecast_closely_and_better_than_seasonal_naive():
    t = np.arange(400)
    y = 0.05 * t + 3 * np.sin(2 * np.pi * t / 24) + np.sin(2 * np.pi * t / 7 + 1)
    series = pd.Series(y, index=pd.date_range("2024-01-01", periods=400, freq="h"))
    forecast = tiny(horizon=24, lookback=48).fit(series[:-24]).predict()
    error = np.abs(forecast - series[-24:]).max()
    naive = np.abs(series[-48:-24].to_numpy() - series[-24:].to_numpy()).mean()
    assert error < 0.01
    assert naive > 0.5


def test_all_defaults_serve_144_months():
    t = np.arange(156)
    y = pd.Series(100 + t + 10 * np.sin(2 * np.pi * t / 12), index=pd.date_range("2010-01-01", periods=156, freq="MS"))
    model = TitansForecaster(max_epochs=1, random_state=0, verbose=0).fit(y[:144])
    assert (model.horizon_, model.lookback_, model.freq_) == (12, 36, "MS")
    pd.testing.assert_series_equal(model.predict(), y[144:], check_freq=False, rtol=0, atol=0.01)


def test_a_sine_far_from_zero_is_kept():
    y = pd.Series(1e9 + np.sin(0.3 * np.arange(306)))
    pd.testing.assert_series_equal(tiny().fit(y[:300]).predict(), y[300:], check_exact=False, **CLOSE)


@pytest.mark.parametrize(("value", "rows"), [(7.0, 100), (14.62, 1000), (0.0, 50)])
def test_a_constant_is_forecast_exactly(value, rows):  # cases 17 and 18
    forecast = tiny(horizon=3, lookback=8).fit(pd.Series(np.full(rows, value))).predict(7)
    np.testing.assert_allclose(forecast, value, rtol=1e-15)


def test_a_faint_slope_is_not_flattened():  # case 18
    y = pd.Series(1e-9 * np.arange(1007))
    model = tiny(horizon=7).fit(y[:1000])
    assert model.scaler_.std == pytest.approx(y[:900].std(ddof=0), rel=1e-12)
    pd.testing.assert_series_equal(model.predict(), y[1000:], rtol=1e-4, atol=0)


def test_two_years_of_months_fit_and_predict():  # case 2
    months = pd.date_range("2024", periods=26, freq="MS")
    model = tiny(horizon=2, lookback=8).fit(pd.DataFrame({"ds": months[:24], "y": np.arange(24.0)}))
    assert model.predict()["ds"].tolist() == months[24:].tolist()
    np.testing.assert_allclose(model.predict()["Titans"], [24, 25], atol=0.05)


def test_four_months_are_continued():  # case 1
    months = pd.date_range("2024", periods=6, freq="MS")
    forecast = tiny(horizon=3, lookback=8).fit(pd.DataFrame({"ds": months[:4], "y": [1, 2, 3, 4]})).predict(2)
    assert forecast["ds"].tolist() == months[4:].tolist()
    assert forecast["Titans"].between(1, 10).all()


def test_three_rows_are_forecast_or_refused_by_name():  # case 15
    table = long(waves(0, 3))
    assert tiny(horizon=2, lookback=8).fit(table).predict()["Titans"].between(-2, 12).all()
    with pytest.raises(ValueError, match=r"`horizon` \+ 1 = 4 rows to learn from, but the longest, 'a', has 3"):
        tiny(horizon=3, lookback=8).fit(table)


# Steps ahead


@pytest.mark.parametrize("h", [1, 5, np.int64(3), None])
def test_fewer_steps_are_the_first_of_the_horizon(trained, h):
    assert_equal(trained.predict(h), trained.predict()[:h])
    assert len(trained.predict(h)) == (h or HORIZON)


@pytest.mark.parametrize("rows", [3, 24, 100])
def test_more_steps_are_forecast_recursively(noisy, trained, rows):  # case 32
    history = context = noisy[ROWS - rows : ROWS]
    for _ in range(3):
        history = pd.concat([history, trained.predict(df=history)])
    assert_equal(trained.predict(15, context), history[rows : rows + 15].asfreq("h"), **ROUNDING)


def test_a_recursive_forecast_far_ahead_stays_with_the_waves(fitted):
    assert_equal(fitted.predict(48), waves(ROWS, 48), rtol=0, atol=0.02)


@pytest.mark.parametrize("h", [0, -1, 2.5, "3", True, np.nan])
def test_steps_that_are_no_positive_integer_are_refused(fitted, h):  # case 32
    with pytest.raises(ValueError, match=f"`h` must be an integer >= 1, got {h!r}"):
        fitted.predict(h)


# New contexts


@pytest.mark.parametrize("kind", ["wide", "Series", "array"])
def test_a_table_may_come_first(kind):
    layout, _ = KINDS[kind]
    model, later = tiny(max_epochs=0).fit(layout(waves())), layout(waves(ROWS, 50))
    assert_equal(model.predict(later), model.predict(df=later))
    assert_equal(model.predict(later), layout(waves(ROWS + 50, HORIZON)), **CLOSE)
    with pytest.raises(TypeError, match="`h` must be an integer where `df` is given too; pass one table"):
        model.predict(later, later)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("rows", [1, 5, 40])  # case 31: those short of a lookback are padded
def test_later_rows_keep_the_phase_of_the_season(unit, rows):
    # The lookback sees too little of the season to tell where in it one stands: only the calendar can.
    season = np.random.default_rng(0).normal(size=24)
    y = pd.Series(np.tile(season, 20), index=pd.date_range("2024-01-01", periods=480, freq="h"))
    model = tiny(horizon=24, lookback=5, max_epochs=0).fit(y[:240])
    later = y[301 - rows : 301].copy()
    later.index = later.index.as_unit(unit)
    assert_equal(model.predict(df=later), y[301:325], rtol=0, atol=1e-5)


def test_some_series_in_any_order_are_forecast_by_name(noisy, trained):
    expected, table = trained.predict(), noisy[:ROWS]
    assert_equal(trained.predict(df=table), expected, **ROUNDING)
    assert_equal(trained.predict(df=table[["b", "a"]]), expected[["b", "a"]], **ROUNDING)
    assert_equal(trained.predict(df=table[["b"]]), expected[["b"]], **ROUNDING)
    assert_equal(trained.predict(df=table["b"]), expected["b"], **ROUNDING)
    found = trained.predict(df=long(table)[ROWS:])
    assert found["unique_id"].tolist() == ["b"] * HORIZON
    np.testing.assert_allclose(found["Titans"], expected["b"], **ROUNDING)


def test_series_that_cannot_be_told_apart_are_refused(fitted):
    with pytest.raises(ValueError, match=r"`df` has series \['x'\] that were not in the data fitted"):
        fitted.score(long(waves(ROWS, 5), ["b", "x"]))
    with pytest.raises(ValueError, match="`df` must have 2 series as the data fitted, got 1"):
        tiny(max_epochs=0).fit(waves().to_numpy()).predict(waves()[["a"]].to_numpy())
    with pytest.raises(ValueError, match="name its series as the data fitted did, by string such as 'a', got integer"):
        fitted.predict(df=long(waves(), [1, 2]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda wide: wide.set_axis(wide.index + pd.Timedelta("30min")), "00:30:00 is not on the grid of 'h'"),
        (lambda wide: wide.set_axis(waves(freq="30min").index), "00:30:00 is not on the grid of 'h'"),
        (lambda wide: wide[::2], r"gap of 1 row .*\(freq 'h'\)"),
        (
            lambda wide: wide.tz_localize("UTC"),
            r"must have dtype datetime64\[.s\] as before, got datetime64\[.s, UTC\]",
        ),
        (lambda wide: wide.to_period("h"), r"must have dtype datetime64\[.s\] as before, got period\[h\]"),
        (lambda wide: wide.reset_index(drop=True), r"must have dtype datetime64\[.s\] as before, got int64"),
    ],
    ids=["half an hour off", "half-hourly", "every other hour", "zoned", "periods", "counted"],
)
def test_another_calendar_is_refused(fitted, change, words):
    with pytest.raises(ValueError, match=words):
        fitted.predict(df=change(waves()))


# Scores


@pytest.mark.parametrize("kind", ["long", "wide", "Series", "wide, date column"])
@pytest.mark.parametrize(("start", "stop"), [(0, 6), (0, 20), (13, 20), (4, 5)])
def test_score_is_minus_the_squared_error_over_the_training_variance(noisy, kind, start, stop):
    layout, _ = KINDS[kind]
    model = tiny(max_epochs=0).fit(layout(noisy[:ROWS]))
    truth = noisy[ROWS + start : ROWS + stop]
    wide = noisy[["b"]] if kind == "Series" else noisy
    forecast = tiny(max_epochs=0).fit(wide[:ROWS]).predict(stop)[start:]
    trained = wide[: ROWS - 20].std(ddof=0)  # a tenth is kept for validation
    expected = -float((((truth[wide.columns] - forecast) / trained) ** 2).to_numpy().mean())
    assert model.score(layout(truth)) == pytest.approx(expected, rel=1e-5)


def test_rows_of_an_array_follow_at_once(noisy):
    counted = noisy.set_axis(by_count(noisy))
    expected = tiny(max_epochs=0).fit(counted[:ROWS]).score(counted[ROWS:])
    assert tiny(max_epochs=0).fit(counted[:ROWS].to_numpy()).score(counted[ROWS:].to_numpy()) == expected


def test_each_series_is_scored_from_its_own_end(noisy):
    table = pd.concat([long(noisy[:ROWS])[:ROWS], long(noisy[:150])[150:]])
    later = pd.concat([long(noisy[ROWS:])[:20], long(noisy[150:160])[10:]])
    model = tiny(max_epochs=0).fit(table)
    forecast = model.predict(20)
    a = (noisy["a"][ROWS:].to_numpy() - forecast["Titans"][:20]) / noisy["a"][:180].std(ddof=0)
    b = (noisy["b"][150:160].to_numpy() - forecast["Titans"][20:30]) / noisy["b"][:135].std(ddof=0)
    assert model.score(later) == pytest.approx(-np.mean([*a**2, *b**2]))


def test_some_series_in_any_order_are_scored_by_name(noisy):
    model, later = tiny(max_epochs=0, linear_path="per_series").fit(noisy[:ROWS]), noisy[ROWS:]
    b = (later["b"] - model.predict(20)["b"]) / noisy["b"][:180].std(ddof=0)
    assert model.score(later[["b"]]) == pytest.approx(-(b**2).mean())
    assert model.score(later[["b", "a"]]) == pytest.approx(model.score(later))


def test_a_truth_nearer_the_forecast_scores_higher(fitted):
    truth = waves(ROWS, 48)
    shuffled = truth.sample(frac=1, random_state=0).set_axis(truth.index)
    assert fitted.score(truth) > -1e-3
    assert fitted.score(shuffled) < -0.5


def test_rows_already_fitted_are_not_scored(fitted):
    with pytest.raises(ValueError, match=r"must come after the rows fitted, but series 'a' overlaps them by 5\."):
        fitted.score(waves(ROWS - 5, 10))
    with pytest.raises(ValueError, match=r"series 'b' overlaps them by 1\."):
        fitted.score(waves(ROWS - 1, 10)["b"])


# What was chosen


def test_the_summary_tells_what_was_chosen_and_by_how_much(noisy):
    table = tiny(max_epochs=0, linear_path="auto").fit(noisy).summary()
    assert table.columns.tolist() == ["choice", "candidate", "relative_error", "chosen"]
    paths = table[table["choice"] == "linear path"]
    assert paths["candidate"].tolist()[:3] == ["common", "per_series", "across"]
    assert table.groupby("choice")["chosen"].sum().eq(1).all()
    assert table["relative_error"].between(0, 4).all()


def test_the_network_has_the_path_that_was_chosen(noisy):
    model = tiny(max_epochs=0, linear_path="auto").fit(noisy)
    table = model.summary()
    chosen = table[table["chosen"] & (table["choice"] == "linear path")]["candidate"].item()
    config = model.network_.config
    assert config.linear_per_series == (chosen != "common")
    assert config.linear_cross_series == chosen.startswith("across")
    alike = tiny(max_epochs=0, linear_path="auto").fit(noisy)
    pd.testing.assert_frame_equal(alike.summary(), table)


@pytest.mark.parametrize("path", [True, False, "per_series"])
def test_what_was_given_is_not_chosen(noisy, path):
    model = tiny(max_epochs=0, linear_path=path, combine=False, context="window").fit(noisy)
    assert len(model.summary()) == 0
    assert model.network_.config.linear_path is bool(path)
    assert model.network_.config.linear_per_series is (path == "per_series")


def test_a_summary_is_of_a_fit():
    with pytest.raises(NotFittedError):
        tiny().summary()


def test_a_forecast_that_no_machine_holds_is_refused_before_it_is_begun(fitted, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 2**16)
    with pytest.raises(MemoryError, match=r"`h` = 1000000000, `n_series` = \d+ need .* GiB"):
        fitted.predict(10**9)
