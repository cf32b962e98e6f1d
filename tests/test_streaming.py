"""The estimator as rows come in: `update` in any cuts is one pass, errors change nothing, surprise is causal."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import IntDistribution
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from titans_ts import TitansForecaster, TitansSearchCV

HORIZON, LOOKBACK = 4, 12
FITTED, ROWS = 160, 230
ROUNDING = dict(rtol=0, atol=1e-5)  # float32, of series of size 1 to 20
CONTEXTS = ["window", "stream"]

Layout = Callable[[pd.DataFrame], Any]


def tiny(**parameters: Any) -> TitansForecaster:
    given = dict(horizon=HORIZON, lookback=LOOKBACK, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0)
    given |= dict(verbose=0, context="stream", combine=False, linear_path=True)
    return TitansForecaster(**(given | parameters))


def hourly(rows: int = ROWS, names: str = "ab", seed: int = 0, **how: Any) -> pd.DataFrame:
    """Waves of a day with autoregressive noise, higher by a step from the middle of the rows fitted on."""
    rng, t, table = np.random.default_rng(seed), np.arange(rows), {}
    for i, name in enumerate(names):
        noise = rng.normal(size=rows)
        for j in range(1, rows):
            noise[j] += 0.7 * noise[j - 1]
        table[name] = i + (i + 1) * (np.sin(2 * np.pi * t / 24 + i) + 0.3 * noise + 1.0 * (t > FITTED // 2))
    how = dict(start="2024-01-01", freq="h") | how
    return pd.DataFrame(table, index=pd.date_range(periods=rows, name="when", **how))


def long(wide: pd.DataFrame) -> pd.DataFrame:
    ids = np.repeat(wide.columns.to_numpy(), len(wide))
    return pd.DataFrame({"unique_id": ids, "ds": np.tile(wide.index, wide.shape[1]), "y": wide.to_numpy().T.ravel()})


def values(forecast: Any) -> np.ndarray:
    """The numbers of a forecast or of surprises in any layout, series after series."""
    if isinstance(forecast, pl.DataFrame):
        forecast = forecast.to_pandas()
    if isinstance(forecast, pd.DataFrame):
        for column in ("Titans", "surprise"):
            if column in forecast:
                return forecast[column].to_numpy()
        forecast = forecast.select_dtypes("number")
    found: np.ndarray = np.asarray(forecast, dtype=float).T.ravel()
    return found


def held(model: TitansForecaster) -> dict[str, bytes]:
    """All that forecasts begin from, as bytes."""
    fitted = model.fitted_
    data = fitted.panel.data
    found = {name: np.asarray(getattr(data, name)).tobytes() for name in ("values", "lengths", "starts", "is_observed")}
    if fitted.long_term is not None:
        found |= {name: x.numpy().tobytes() for name, x in fitted.long_term.state.tensors().items()}
        found |= {name: x.numpy().tobytes() for name, x in fitted.long_term.memory.state_dict().items()}
    return found | {"forecast": values(model.predict(2 * HORIZON)).tobytes()}


def assert_same(found: TitansForecaster, expected: TitansForecaster, exactly: bool = False) -> None:
    """Forecasts, state and rows."""
    how = dict(rtol=0, atol=0) if exactly else ROUNDING
    for h in (1, 2 * HORIZON):
        np.testing.assert_allclose(values(found.predict(h)), values(expected.predict(h)), **how)
    a, b = found.fitted_, expected.fitted_
    assert a.panel.data.ends.tolist() == b.panel.data.ends.tolist()
    np.testing.assert_allclose(a.panel.data.values, b.panel.data.values, **how)
    assert np.array_equal(a.panel.data.is_observed, b.panel.data.is_observed)
    assert (a.long_term is None) == (b.long_term is None)
    if a.long_term is not None and b.long_term is not None:
        other = b.long_term.state.tensors()
        for name, tensor in a.long_term.state.tensors().items():
            np.testing.assert_allclose(tensor.numpy(), other[name].numpy(), **how, err_msg=name)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return hourly()


@pytest.fixture(scope="module")
def fitted(table: pd.DataFrame) -> dict[str, TitansForecaster]:
    return {context: tiny(context=context).fit(table[:FITTED]) for context in CONTEXTS}


@pytest.fixture
def model(fitted: dict[str, TitansForecaster]) -> TitansForecaster:
    return copy.deepcopy(fitted["stream"])


def in_cuts(model: TitansForecaster, rows: pd.DataFrame, cuts: list[int], layout: Layout) -> TitansForecaster:
    model = copy.deepcopy(model)
    bounds = [0, *sorted({c for c in cuts if 0 < c < len(rows)}), len(rows)]
    for first, last in itertools.pairwise(bounds):
        model.update(layout(rows[first:last]))
    return model


# One pass


@pytest.mark.parametrize("context", CONTEXTS)
@settings(max_examples=10, deadline=None)
@given(cuts=st.lists(st.integers(1, ROWS - FITTED - 1), max_size=6))
def test_any_cuts_equal_one_pass(
    context: str, cuts: list[int], fitted: dict[str, TitansForecaster], table: pd.DataFrame
) -> None:
    model, rows = fitted[context], table[FITTED:]
    whole = copy.deepcopy(model).update(rows)
    assert_same(in_cuts(model, rows, cuts, lambda t: t), whole)
    np.testing.assert_allclose(values(whole.predict()), values(model.predict(df=table)), **ROUNDING)
    np.testing.assert_allclose(
        values(whole.predict()), values(model.predict(df=table[FITTED - LOOKBACK :])), **ROUNDING
    )


def zoned(wide: pd.DataFrame) -> pd.DataFrame:
    return wide.set_axis(wide.index.tz_localize("UTC").tz_convert("Europe/Berlin"), axis=0)


def other_phases(wide: pd.DataFrame) -> pd.DataFrame:
    """Weeks, of one series from Mondays to Mondays, of the other from Wednesdays on."""
    start = pd.Timestamp("2000-01-03") + pd.Timedelta("7D") * (
        (wide.index[0] - pd.Timestamp("2024-01-01")) // pd.Timedelta("1h")
    )
    parts = []
    for i, name in enumerate(wide):
        weeks = pd.date_range(start + pd.Timedelta(days=2 * i), periods=len(wide), freq="7D")
        parts.append(pd.DataFrame({"unique_id": name, "ds": weeks, "y": wide[name].to_numpy()}))
    return pd.concat(parts, ignore_index=True)


LAYOUTS: dict[str, Layout] = {
    "long": long,
    "long, shuffled": lambda wide: long(wide).sample(frac=1, random_state=1),
    "wide with a column of times": lambda wide: wide.reset_index(),
    "one series": lambda wide: pd.DataFrame({"ds": wide.index, "y": wide["b"].to_numpy()}),
    "Series": lambda wide: wide["b"],
    "array": lambda wide: wide.to_numpy(),
    "polars, long": lambda wide: pl.from_pandas(long(wide)),
    "polars, wide": lambda wide: pl.from_pandas(wide.reset_index()),
    "integer times": lambda wide: wide.set_axis((wide.index - pd.Timestamp("2024-01-01")) // pd.Timedelta("1h")),
    "periods": lambda wide: wide.set_axis(wide.index.to_period("h")),
    "text": lambda wide: wide.set_axis(wide.index.strftime("%Y-%m-%d %H:%M")),
    "zoned, over a change of clocks": zoned,
    "other phases": other_phases,
}
# The change of clocks lies in the rows of the updates.
STARTS = {"zoned, over a change of clocks": "2024-03-22"}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_goes_on(name: str) -> None:
    table, layout = hourly(start=STARTS.get(name, "2024-01-01")), LAYOUTS[name]
    model = tiny().fit(layout(table[:FITTED]))
    before = held(model)
    whole = copy.deepcopy(model).update(layout(table[FITTED:]))
    assert_same(in_cuts(model, table[FITTED:], [1, 2, 30, 31], layout), whole)
    assert held(model) == before
    found, expected = whole.predict(), model.predict(df=layout(table))
    assert type(found) is type(expected)
    if not isinstance(found, np.ndarray):
        assert str(found) == str(expected) or np.allclose(values(found), values(expected), **ROUNDING)
        labels = found.index if isinstance(found, pd.Series) else found.columns
        assert list(labels) == list(expected.index if isinstance(found, pd.Series) else expected.columns)
    np.testing.assert_allclose(values(found), values(expected), **ROUNDING)
    assert not np.allclose(values(found), values(model.predict()), atol=1e-3)


def test_layouts_agree(table: pd.DataFrame, fitted: dict[str, TitansForecaster]) -> None:
    expected = values(copy.deepcopy(fitted["stream"]).update(table[FITTED:]).predict())
    for layout in (long, LAYOUTS["long, shuffled"], LAYOUTS["array"], LAYOUTS["polars, wide"], LAYOUTS["text"]):
        if layout is LAYOUTS["array"]:  # which has no clock, and so another cycle
            continue
        model = tiny().fit(layout(table[:FITTED])).update(layout(table[FITTED:]))
        np.testing.assert_allclose(values(model.predict()), expected, **ROUNDING)
    crossed = copy.deepcopy(fitted["stream"]).update(long(table[FITTED:]))
    np.testing.assert_allclose(values(crossed.predict()), expected, **ROUNDING)
    kolkata = tiny().fit(table[:FITTED].tz_localize("UTC").tz_convert("Etc/GMT-5"))
    zone = kolkata.update(table[FITTED:].tz_localize("UTC").tz_convert("Etc/GMT-5"))
    np.testing.assert_allclose(values(zone.predict()), expected, rtol=0, atol=0.2)  # its days begin elsewhere
    assert str(zone.predict().index.tz) == "Etc/GMT-5"


@pytest.mark.parametrize("context", CONTEXTS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_series_may_go_on_at_other_times(context: str, data: st.DataObject, ragged: dict[str, Any]) -> None:
    model, tables, n = copy.deepcopy(ragged[context]), ragged["tables"], dict.fromkeys("abc", 0)
    whole = copy.deepcopy(model)
    for _ in range(data.draw(st.integers(1, 5))):
        names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
        parts = []
        for name in names:
            rows = data.draw(st.integers(1, 15))
            parts.append(tables[name][n[name] : n[name] + rows])
            n[name] += rows
        model.update(pd.concat(parts, ignore_index=True))
    seen = [tables[name][: n[name]] for name in "abc" if n[name]]
    assert_same(model, whole.update(pd.concat(seen, ignore_index=True)))


@pytest.fixture(scope="module")
def ragged() -> dict[str, Any]:
    """Models of three series of other beginnings and ends, and the rows after those."""
    whole = hourly(ROWS + 60, "abc")
    begin, end = {"a": 0, "b": 37, "c": 5}, {"a": FITTED, "b": FITTED - 13, "c": 60}
    rows = pd.concat([long(whole[[n]][begin[n] : end[n]]) for n in "abc"], ignore_index=True)
    found: dict[str, Any] = {context: tiny(context=context).fit(rows) for context in CONTEXTS}
    return found | {"tables": {n: long(whole[[n]][end[n] :]) for n in "abc"}}


@pytest.mark.parametrize("path", ["across", "per_series", "auto", False])
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_linear_path_goes_on(path: Any, context: str) -> None:
    table = hourly(names="abc")
    model = tiny(linear_path=path, context=context, n_layers=1).fit(table[:FITTED])
    whole = copy.deepcopy(model).update(table[FITTED:])
    assert_same(in_cuts(model, table[FITTED:], [1, 5, 40], lambda t: t), whole)
    np.testing.assert_allclose(values(whole.predict()), values(model.predict(df=table)), **ROUNDING)


@pytest.mark.parametrize("context", CONTEXTS)
def test_combined_forecasts_go_on(context: str) -> None:
    table = hourly()
    given = dict(context=context, linear_path=False)  # a network that alone would not do
    model = tiny(combine=True, **given).fit(table[:FITTED])
    assert model.fitted_.combination is not None
    whole = copy.deepcopy(model).update(table[FITTED:])
    assert_same(in_cuts(model, table[FITTED:], [1, 5, 40], lambda t: t), whole)
    assert not np.allclose(
        values(whole.predict()), values(tiny(**given).fit(table[:FITTED]).update(table[FITTED:]).predict())
    )
    np.testing.assert_allclose(values(whole.predict()), values(model.predict(df=table)), rtol=1e-4, atol=1e-4)


def test_the_memory_helps_where_the_core_errs_alike_again_and_again() -> None:
    """A daily wave begins after the rows that the core was fitted on; its window is too short to know of it."""
    t = np.arange(1200)
    rng = np.random.default_rng(0)
    wave = np.where(t > 300, 2 * np.sin(2 * np.pi * t / 24) ** 3, 0)
    table = pd.DataFrame({"a": wave + 0.2 * rng.normal(size=1200)}, index=pd.date_range("2024", periods=1200, freq="h"))
    errors = {}
    for context in CONTEXTS:
        model = tiny(context=context, horizon=12, lookback=3).fit(table[:300])
        squared = []
        for begin in range(300, 1188, 12):
            if begin >= 800:
                squared.append((values(model.predict()) - table["a"].to_numpy()[begin : begin + 12]) ** 2)
            model.update(table[begin : begin + 12])
        errors[context] = np.mean(squared)
    assert errors["stream"] < 0.8 * errors["window"]


# What is held


def test_work_and_memory_do_not_grow_with_the_history() -> None:
    table = hourly(FITTED + 1100)
    model = tiny().fit(table[:FITTED])
    sizes = []
    for stop in (FITTED + 100, FITTED + 1100):
        model.update(table[len(table[:stop]) - (100 if stop == FITTED + 100 else 1000) : stop])
        fitted = model.fitted_
        assert fitted.long_term is not None
        sizes.append(({n: len(x) for n, x in held(model).items()}, fitted.panel.data.lengths.tolist()))
    assert sizes[0] == sizes[1]
    assert sizes[0][1] == [LOOKBACK, LOOKBACK]


def test_an_update_leaves_the_network_and_earlier_copies_alone(model: TitansForecaster, table: pd.DataFrame) -> None:
    other, before = copy.copy(model), held(model)
    weights = {name: x.clone() for name, x in model.network_.state_dict().items()}
    rows = table[FITTED:].copy()
    assert model.update(rows) is model
    pd.testing.assert_frame_equal(rows, table[FITTED:])
    assert held(other) == before
    assert held(model) != before
    assert all((weights[name] == x).all() for name, x in model.network_.state_dict().items())


@pytest.mark.parametrize("way", ["pickle", "deepcopy", "save"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_what_is_held_comes_back_to_the_bit_and_goes_on(
    way: str, context: str, fitted: dict[str, TitansForecaster], table: pd.DataFrame, tmp_path: Path
) -> None:
    model = copy.deepcopy(fitted[context]).update(table[FITTED : FITTED + 31])
    if way == "save":
        model.save(tmp_path / "model")
        again = TitansForecaster.load(tmp_path / "model")
    else:
        again = pickle.loads(pickle.dumps(model)) if way == "pickle" else copy.deepcopy(model)
    assert held(again) == held(model)
    assert again.get_params() == model.get_params()
    rest = table[FITTED + 31 :]
    assert held(again.update(rest)) == held(model.update(rest))
    found, expected = (values(m.surprise(table)) for m in (again, model))
    assert np.array_equal(found, expected, equal_nan=True)


def test_a_fit_forgets_what_was_held(model: TitansForecaster, table: pd.DataFrame) -> None:
    before = held(model)
    model.update(table[FITTED:]).fit(table[:FITTED])
    assert held(model) == before


# What does not follow


def rows_of(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def nothing_changes(model: TitansForecaster, rows: Any, words: str, kind: type = ValueError) -> None:
    before = held(model)
    with pytest.raises(kind, match=re.escape(words)):
        model.update(rows)
    assert held(model) == before


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("layout", [long, lambda wide: wide], ids=["long", "wide"])
def test_rows_that_do_not_follow_are_named(
    context: str, layout: Layout, fitted: dict[str, TitansForecaster], table: pd.DataFrame
) -> None:
    model = copy.deepcopy(fitted[context])
    repeated = (
        "`rows` must go on from the last row of each series, but series 'a' repeats rows that the model has seen: "
    )
    nothing_changes(model, layout(table[FITTED - 1 : FITTED + 2]), repeated + "it begins at 2024-01-07 15:00")
    nothing_changes(model, layout(table[:FITTED]), repeated)
    skipped = "but series 'a' skips 3 rows: it begins at 2024-01-07 19:00:00, and 2024-01-07 16:00:00 is next."
    nothing_changes(model, layout(table[FITTED + 3 :]), skipped)
    nothing_changes(model, layout(table[FITTED:].rename(columns={"b": "c"})), "`rows` has series ['c']")
    off = table[FITTED : FITTED + 9 : 2]
    nothing_changes(model, layout(off), "has a gap of 1 row between 2024-01-07 16:00:00 and 2024-01-07 18:00:00")
    nothing_changes(model, layout(table[FITTED:].shift(freq="30min")), "2024-01-07 16:30:00")
    for wrong, words in ((np.nan, "missing"), (np.inf, "inf"), (-np.inf, "inf")):
        rows = table[FITTED:].copy()
        rows.iloc[3, 1] = wrong
        nothing_changes(model, layout(rows), "'b'")
        nothing_changes(model, layout(rows), words)
    rows = table[FITTED:].copy()
    rows.iloc[3, 1] = 1e30
    nothing_changes(model, layout(rows), "series 'b' has 1e+30 at 2024-01-07 19:00")
    nothing_changes(model, layout(table[FITTED:FITTED]), "the table has no rows")
    nothing_changes(model, "rows", "DataFrame", TypeError)
    model.update(layout(table[FITTED:]))


def test_one_series_of_many_that_does_not_follow_is_named(model: TitansForecaster, table: pd.DataFrame) -> None:
    rows = pd.concat([long(table[["a"]][FITTED:]), long(table[["b"]][FITTED - 2 :])], ignore_index=True)
    nothing_changes(model, rows, "series 'b' repeats rows that the model has seen: it begins at 2024-01-07 14:00")
    twice = pd.concat([long(table[FITTED:])] * 2, ignore_index=True)
    nothing_changes(model, twice, "'a'")


def test_an_update_needs_a_fit(table: pd.DataFrame) -> None:
    for call in (tiny().update, tiny().surprise, tiny().anomalies):
        with pytest.raises(NotFittedError):
            call(table)


def test_another_context_is_refused(table: pd.DataFrame) -> None:
    for wrong in ("memory", None, True):
        with pytest.raises(
            ValueError, match=re.escape(f"`context` must be one of ('auto', 'window', 'stream'), got {wrong!r}")
        ):
            tiny(context=wrong).fit(table)


# Time steps without a row


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("missing", ["interpolate", "ffill"])
def test_steps_without_a_row_are_filled_as_in_one_pass(missing: str, context: str, table: pd.DataFrame) -> None:
    model = tiny(missing=missing, context=context).fit(table[:FITTED])
    rows = long(table[FITTED:])
    rows = rows.drop(index=[*range(20, 23), *range(70, 75), 100])  # a skips three; b begins late and skips one
    whole = copy.deepcopy(model).update(rows)
    n = ROWS - FITTED
    for cut in (20, 23, 31):  # at the beginning of a gap, at its end, and elsewhere
        parts = [rows[rows.index % n < cut], rows[rows.index % n >= cut]]
        cuts = copy.deepcopy(model)
        for part in parts:
            cuts.update(part)
        assert_same(cuts, whole)
    np.testing.assert_allclose(
        values(whole.predict()), values(model.predict(df=pd.concat([long(table[:FITTED]), rows]))), **ROUNDING
    )


def test_filled_rows_write_nothing(table: pd.DataFrame) -> None:
    """Thirty rows of which nothing was observed leave the memory as it was before them."""
    model = tiny(missing="ffill").fit(table[:FITTED])
    long_term = model.fitted_.long_term
    after = model.update(table[FITTED + 30 : FITTED + 31]).fitted_
    assert long_term is not None
    assert after.long_term is not None
    assert after.panel.data.ends.tolist() == [end + 31 for end in (long_term.state.ends.tolist())]
    for now, then in zip(after.long_term.state.blocks[0].weights, long_term.state.blocks[0].weights, strict=True):
        assert then.any()
        assert np.array_equal(now, then)
    season = 24 * np.array(long_term.memory.config.half_lives)
    faded = long_term.state.blocks[0].size.numpy() * 0.5 ** (31 / season)
    np.testing.assert_allclose(after.long_term.state.blocks[0].size, faded, rtol=1e-9)


def test_far_more_steps_without_a_row_than_can_be_meant_are_refused(table: pd.DataFrame) -> None:
    model = tiny(missing="ffill").fit(table[:FITTED])
    late = table[FITTED:].set_axis(table.index[FITTED:] + pd.Timedelta("5000D"))
    nothing_changes(model, late, "series 'a' skips 120000 rows")


# Series that are not like others


def test_a_series_that_was_not_fitted_is_forecast_from_its_own_rows(
    fitted: dict[str, TitansForecaster], table: pd.DataFrame
) -> None:
    other = hourly(names="xyz", seed=5)["z"].to_frame() * 1e3
    for model in fitted.values():
        before = held(model)
        forecast = values(model.predict(df=long(other)))
        assert np.isfinite(forecast).all()
        assert held(model) == before
        together = model.predict(df=pd.concat([long(table), long(other)]))
        own = together[together["unique_id"] == "z"]["Titans"].to_numpy()
        np.testing.assert_allclose(own, forecast, rtol=1e-5)
        rest = together[together["unique_id"] != "z"]["Titans"].to_numpy()
        np.testing.assert_allclose(rest, values(model.predict(df=table)), **ROUNDING)
    nothing_changes(copy.deepcopy(fitted["stream"]), long(other), "`rows` has series ['z'] that were not in the data")


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("level", [7.0, 14.62, 0.0, 1e-6])
def test_a_constant_series_stays_what_it_is(context: str, level: float, table: pd.DataFrame) -> None:
    table = table.assign(c=level)
    model = tiny(context=context).fit(table[:FITTED])
    for rows in (table[FITTED : FITTED + 1], table[FITTED + 1 :]):
        model.update(rows)
        assert (model.predict(2 * HORIZON)["c"] == level).all()
    assert np.isfinite(values(model.predict())).all()
    surprise = model.surprise(table)["c"]
    assert (surprise.dropna() == 0).all()
    assert not model.anomalies(table).query("unique_id == 'c'")["anomaly"].any()


def test_a_constant_series_that_begins_to_vary_is_forecast_from_its_last_rows(table: pd.DataFrame) -> None:
    """As one that was not fitted, at the scale of these."""
    table = table.assign(c=5.0)
    table.iloc[FITTED:, 2] += 100 * table["a"].to_numpy()[FITTED:]
    model = tiny().fit(table[:FITTED])
    begin = FITTED
    for stop in (FITTED + 1, FITTED + 5, FITTED + 20, ROWS):
        model.update(table[begin:stop])
        begin = stop
        recent = table[["c"]][stop - LOOKBACK : stop]
        np.testing.assert_allclose(model.predict()["c"], model.predict(df=long(recent))["Titans"], rtol=1e-5)


@pytest.mark.parametrize("combine", [True, False])
@pytest.mark.parametrize("rows", [3, 12])
def test_a_few_months_will_do(rows: int, combine: bool) -> None:
    t = np.arange(rows + 3)
    months = pd.date_range("2020", periods=rows + 3, freq="MS")
    table = pd.DataFrame({"a": 100 + 10 * np.sin(t), "b": 1e-9 * t}, index=months)
    model = tiny(horizon=None, lookback=None, combine=combine).fit(table[:rows])
    assert np.isfinite(values(model.predict())).all()
    for i in range(3):
        model.update(table[rows + i : rows + i + 1])
        assert np.isfinite(values(model.predict())).all()
    assert model.predict().index[0] == months[-1] + pd.offsets.MonthBegin()
    assert values(model.surprise(table)).shape == (2 * (rows + 3),)


def test_outliers_do_not_stay(table: pd.DataFrame) -> None:
    """Finite at once, and near what would have been when they are out of the window."""
    clean, wild = tiny().fit(table[:FITTED]), tiny().fit(table[:FITTED])
    rows = table[FITTED:].copy()
    rows.iloc[3, 0], rows.iloc[5, 1] = 1e14, -1e9
    clean.update(table[FITTED : FITTED + 10])
    wild.update(rows[:10])
    assert np.isfinite(values(wild.predict())).all()
    clean.update(table[FITTED + 10 :])
    wild.update(rows[10:])
    np.testing.assert_allclose(values(wild.predict()), values(clean.predict()), rtol=0, atol=0.5)


# As an estimator


def test_a_context_is_a_parameter_like_others(table: pd.DataFrame) -> None:
    model = tiny(context="stream")
    assert clone(model).get_params()["context"] == "stream"
    assert clone(model).set_params(context="auto").get_params()["context"] == "auto"
    assert TitansForecaster().context == "auto"
    two = [clone(model).fit(table[:FITTED]).update(table[FITTED:]) for _ in range(2)]
    assert held(two[0]) == held(two[1])
    summary = two[0].summary().query("choice == 'context'")
    assert summary["candidate"].tolist() == ["window", "stream"]
    assert summary["chosen"].tolist() == [False, True]


def test_what_is_chosen_is_what_validation_says(table: pd.DataFrame) -> None:
    model = tiny(context="auto").fit(table[:FITTED])
    errors = model.summary().query("choice == 'context'").set_index("candidate")
    best = "stream" if errors["relative_error"]["stream"] < errors["relative_error"]["window"] else "window"
    assert errors["chosen"].to_dict() == {"window": best == "window", "stream": best == "stream"}
    assert (model.fitted_.long_term is not None) == (best == "stream")
    same = tiny(context=best).fit(table[:FITTED])
    assert np.array_equal(values(model.predict()), values(same.predict()))


def test_a_score_goes_on_from_what_is_held(model: TitansForecaster, table: pd.DataFrame) -> None:
    model.update(table[FITTED : FITTED + 30])
    truth = table[FITTED + 30 : FITTED + 36]
    errors = (model.predict(6).to_numpy() - truth.to_numpy()) / model.scaler_.std
    assert model.score(truth) == pytest.approx(-np.mean(errors**2), rel=1e-5)
    with pytest.raises(ValueError, match="must come after the rows fitted"):
        model.score(table[FITTED:])


def test_a_search_fits_what_streams(table: pd.DataFrame) -> None:
    space = {"lookback": IntDistribution(8, 24)}
    search = TitansSearchCV(tiny(), space, n_trials=2, random_state=0).fit(table[:FITTED])
    assert search.best_estimator_.fitted_.long_term is not None
    assert np.isfinite(search.best_score_)
    assert np.isfinite(values(search.best_estimator_.update(table[FITTED:]).predict())).all()


# Surprise


SURPRISING: dict[str, Layout] = {
    "wide": lambda wide: wide,
    "long": long,
    "long, shuffled": LAYOUTS["long, shuffled"],
    "polars, long": LAYOUTS["polars, long"],
    "polars, wide": LAYOUTS["polars, wide"],
    "array": LAYOUTS["array"],
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("begin", [0, FITTED - 30, FITTED])
def test_surprise_is_causal(context: str, begin: int, fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    """To the bit where only the values after a row are others; equal where those rows are not there at all."""
    model, part = fitted[context], table[begin:]
    whole = model.surprise(part)
    assert values(whole)[~np.isnan(values(whole))].min() >= 0
    for stop in (1, 15, 20, 30, len(part) - 1):
        other = part.copy()
        other.iloc[stop:] = 1e3 * np.random.default_rng(stop).normal(size=(len(part) - stop, 2))
        assert np.array_equal(model.surprise(other)[:stop], whole[:stop], equal_nan=True)
        np.testing.assert_allclose(model.surprise(part[:stop]), whole[:stop], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_surprise_is_the_error_of_the_forecast_of_that_row(
    context: str, fitted: dict[str, TitansForecaster], table: pd.DataFrame
) -> None:
    """Over the usual size of those before it, which are the same in two models only up to a factor."""
    model, errors = copy.deepcopy(fitted[context]), []
    found = model.surprise(table[FITTED:]).to_numpy()
    for row in range(FITTED, ROWS):
        errors.append(np.abs(model.predict(1).to_numpy()[0] - table.to_numpy()[row]))
        model.update(table[row : row + 1])
    usual = np.array(errors) / found
    assert np.isfinite(usual).all()
    bounded, squared = np.minimum(errors, 5 * usual) ** 2, usual**2
    decay = 0.5 ** (1 / (7 * 24))
    told = np.abs(bounded - squared)[:-1] > 0.3 * squared[:-1]  # elsewhere, the quotient is of nothing by nothing
    weight = (bounded[:-1] - squared[:-1]) / np.diff(squared, axis=0)  # of all errors so far, the newest one's is 1
    both = told[:-1] & told[1:]
    assert both.sum() > 50
    np.testing.assert_allclose(weight[1:][both], decay * weight[:-1][both] + 1, rtol=0.02)


@pytest.mark.parametrize("context", CONTEXTS)
def test_layouts_are_equally_surprised(context: str, fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    part = table[20:130]
    expected = values(fitted[context].surprise(part))
    assert np.isnan(expected).sum() == 2 * (LOOKBACK // 2 + 1 + 8)
    for name, layout in SURPRISING.items():
        model = tiny(context=context, cycle=24).fit(layout(table[:FITTED]))
        if name == "array":  # has no times, so that its first row counts as the first step
            wide = tiny(context=context, cycle=24).fit(table[:FITTED])
            np.testing.assert_allclose(
                values(model.surprise(layout(table[:100]))), values(wide.surprise(table[:100])), rtol=1e-4, atol=1e-5
            )
            continue
        found = model.surprise(layout(part))
        np.testing.assert_allclose(values(found), expected, rtol=1e-4, atol=1e-5)
    frame = fitted[context].surprise(long(part))
    assert frame.columns.tolist() == ["unique_id", "ds", "surprise"]
    assert frame["ds"].tolist() == [*part.index, *part.index]
    wide = fitted[context].surprise(part)
    pd.testing.assert_index_equal(wide.index, part.index, check_exact=False)
    assert wide.columns.tolist() == ["a", "b"]
    for model in (fitted[context],):
        before = held(model)
        model.surprise(part)
        assert held(model) == before


def test_one_series_is_surprised_as_it_is_written(table: pd.DataFrame) -> None:
    model = tiny().fit(table["a"][:FITTED])
    found = model.surprise(table["a"][FITTED:])
    assert isinstance(found, pd.Series)
    pd.testing.assert_index_equal(found.index, table.index[FITTED:], check_exact=False)
    single = pd.DataFrame({"ds": table.index, "y": table["a"].to_numpy()})
    frame = tiny().fit(single[:FITTED]).surprise(single[FITTED:])
    assert frame.columns.tolist() == ["ds", "surprise"]
    np.testing.assert_allclose(frame["surprise"], found, rtol=1e-5)


def test_ragged_series_are_surprised_where_they_have_rows(ragged: dict[str, Any]) -> None:
    model, tables = ragged["stream"], ragged["tables"]
    rows = pd.concat([tables["a"][:40], tables["b"][5:60], tables["c"][:30]], ignore_index=True)
    found = model.surprise(rows)  # a and c follow, b begins anew
    missing = found.groupby("unique_id")["surprise"].apply(lambda x: x.isna().sum())
    assert missing.to_dict() == {"a": 0, "b": LOOKBACK // 2 + 1 + 8, "c": 0}
    for name in "abc":
        alone = model.surprise(rows[rows["unique_id"] == name].reset_index(drop=True))
        np.testing.assert_allclose(
            alone["surprise"], found[found["unique_id"] == name]["surprise"], rtol=1e-4, atol=1e-5
        )


def test_filled_rows_and_those_right_after_them_surprise_nobody(table: pd.DataFrame) -> None:
    model = tiny(missing="ffill").fit(table[:FITTED])
    rows = table[FITTED:].copy()
    rows.iloc[20:22, 0] = np.nan
    found = model.surprise(rows)
    assert np.flatnonzero(found["a"].isna()).tolist() == [20, 21, 22]
    assert not found["b"].isna().any()


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_was_planted_is_found(context: str, fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    rows = table[FITTED:].copy()
    rows.iloc[50, 0] += 10
    found = fitted[context].anomalies(rows, alpha=0.03)
    a = found[found["unique_id"] == "a"].reset_index(drop=True)
    assert a["surprise"].idxmax() in (50, 51)
    assert a["anomaly"][50]
    assert a["surprise"][50] > 5


def test_anomalies_are_one_row_for_each(fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    found = fitted["stream"].anomalies(table[:FITTED], alpha=0.05)
    assert found.columns.tolist() == ["unique_id", "ds", "surprise", "p_value", "anomaly"]
    assert found["ds"].tolist() == [*table.index[:FITTED]] * 2
    assert found["unique_id"].tolist() == ["a"] * FITTED + ["b"] * FITTED
    kinds = [str(found[name].dtype) for name in ("surprise", "p_value", "anomaly")]
    assert kinds == ["float64", "float64", "bool"]
    assert np.array_equal(found["surprise"], values(fitted["stream"].surprise(table[:FITTED])), equal_nan=True)
    assert not found["anomaly"][found["surprise"].isna()].any()
    assert found["p_value"].isna().equals(found["surprise"].isna())
    assert (found["anomaly"] == (found["p_value"] <= 0.05)).all()
    single = pd.DataFrame({"ds": table.index, "y": table["a"].to_numpy()})
    for layout in (
        lambda t: t["a"],
        lambda t: single[: len(t)],
        lambda t: t[["a"]].to_numpy(),
        lambda t: pl.from_pandas(long(t)),
    ):
        part = layout(table[:FITTED])
        frame = tiny(cycle=24).fit(part).anomalies(part, alpha=0.05)
        assert list(frame.columns) == ["unique_id", "ds", "surprise", "p_value", "anomaly"]
        assert len(frame) == FITTED * (2 if isinstance(part, pl.DataFrame) else 1)
    named = long(table).rename(columns={"unique_id": "shop", "ds": "day", "y": "sales"})
    names = tiny(id_col="shop", time_col="day", target_col="sales").fit(named).anomalies(named)
    assert names.columns.tolist() == ["shop", "day", "surprise", "p_value", "anomaly"]


@pytest.mark.parametrize("context", CONTEXTS)
def test_false_alarms_come_at_the_rate(context: str) -> None:
    rng = np.random.default_rng(3)
    times = pd.date_range("2024-01-01", periods=3000, freq="h")
    table = pd.DataFrame(rng.normal(size=(3000, 4)), index=times, columns=list("abcd"))
    model = tiny(context=context).fit(table[:500])
    for alpha in (0.01, 0.05):
        rate = model.anomalies(table[500:], alpha=alpha)["anomaly"].mean()
        assert 0.5 * alpha < rate < 1.2 * alpha


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, "a", None, True, np.nan])
def test_a_rate_is_a_share(alpha: Any, fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=re.escape(f"`alpha` must be a number between 0 and 1, got {alpha!r}.")):
        fitted["stream"].anomalies(table, alpha=alpha)


def test_only_series_that_were_fitted_surprise(fitted: dict[str, TitansForecaster], table: pd.DataFrame) -> None:
    other = long(table.rename(columns={"b": "z"}))
    for call in (fitted["stream"].surprise, fitted["stream"].anomalies):
        with pytest.raises(ValueError, match=re.escape("`df` has series ['z'] that were not in the data fitted")):
            call(other)
