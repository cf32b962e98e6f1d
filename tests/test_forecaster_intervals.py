"""Intervals of the estimator: coverage, order, names in every layout, streams, short series, and what is refused."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from titans_ts import TitansForecaster

HORIZON, LOOKBACK, ROWS = 4, 16, 400
ROUNDING = dict(rtol=0, atol=1e-5)


def tiny(**parameters: Any) -> TitansForecaster:
    given = dict(horizon=HORIZON, lookback=LOOKBACK, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0)
    given |= dict(verbose=0, combine=False, linear_path=True, context="window")
    return TitansForecaster(**(given | parameters))


def wide(columns: dict[str, np.ndarray], start: str = "2024-01-01") -> pd.DataFrame:
    rows = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=pd.date_range(start, periods=rows, freq="h", name="when"))


def noisy(rows: int = ROWS, names: str = "ab", seed: int = 0) -> pd.DataFrame:
    rng, t = np.random.default_rng(seed), np.arange(rows)
    return wide(
        {name: 10 * i + (i + 1) * (np.sin(t / 4 + i) + 0.3 * rng.normal(size=rows)) for i, name in enumerate(names)}
    )


def long(table: pd.DataFrame) -> pd.DataFrame:
    ids = np.repeat(table.columns.to_numpy(), len(table))
    times = np.tile(table.index, table.shape[1])
    return pd.DataFrame({"unique_id": ids, "ds": times, "y": table.to_numpy().T.ravel()})


def found(model: TitansForecaster, steps: int = HORIZON, **asked: Any) -> np.ndarray:
    """(n_series, steps, 1 + quantiles), whatever the layout."""
    fitted = model.fitted_
    levels = asked or {"level": [80, 95]}
    table = fitted.panel.layout
    forecast = model.predict(steps, **levels)
    if table.kind == "array":
        return np.stack(list(forecast.values()), axis=-1).transpose(1, 0, 2)
    numbers = forecast.to_pandas() if isinstance(forecast, pl.DataFrame) else forecast
    numbers = numbers.drop(columns=[c for c in ("unique_id", "ds", "when") if c in numbers]).to_numpy(dtype=float)
    if table.kind == "long":
        return numbers.reshape(fitted.panel.n_series, steps, -1)
    return numbers.reshape(steps, fitted.panel.n_series, -1).transpose(1, 0, 2)


@pytest.fixture(scope="module")
def model() -> TitansForecaster:
    return tiny().fit(noisy())


NOISES = {
    "homoscedastic": lambda rng, n: rng.normal(size=n),
    "asymmetric": lambda rng, n: rng.exponential(size=n),
    "growing with the step": lambda rng, n: rng.normal(size=n).cumsum(axis=-1),
}


@pytest.mark.parametrize("kind", NOISES)
def test_intervals_hold_as_many_values_as_they_say(kind: str) -> None:
    rows, later = 400, 24
    values = NOISES[kind](np.random.default_rng(1), (120, rows + later))
    table = wide({str(i): x for i, x in enumerate(values)})
    fitted = tiny(val_size=150).fit(table[:rows])
    inside = []
    for begin in range(rows, rows + later - HORIZON + 1, HORIZON):
        low95, low80, high80, high95 = (found(fitted)[..., i] for i in (1, 2, 3, 4))
        truth = values[:, begin : begin + HORIZON]
        inside.append([(truth >= low80) & (truth <= high80), (truth >= low95) & (truth <= high95), truth < low80])
        fitted.update(table[begin : begin + HORIZON])
    shares = np.mean(inside, axis=(0, 2, 3))
    assert shares == pytest.approx([0.8, 0.95, 0.1], abs=0.03)


def test_intervals_of_a_walk_widen_with_the_step_and_past_the_horizon() -> None:
    walk = np.random.default_rng(2).normal(size=(40, 300)).cumsum(axis=1)
    fitted = tiny(val_size=100).fit(wide({str(i): x for i, x in enumerate(walk)}))
    forecast = found(fitted, 4 * HORIZON, level=80)
    width = (forecast[..., 2] - forecast[..., 1]).mean(0)
    assert width[:HORIZON] / width[0] == pytest.approx(np.sqrt(np.arange(1, HORIZON + 1)), rel=0.15)
    assert width[-1] / width[0] == pytest.approx(4.0, rel=0.25)
    halves = np.abs(forecast[..., 1:] - forecast[..., :1])
    assert (halves[:, HORIZON:] >= np.maximum.accumulate(halves, axis=1)[:, HORIZON - 1 : -1]).all()


def test_a_level_and_its_quantiles_are_equal_to_the_bit(model: TitansForecaster) -> None:
    for level, pair in ((80, [0.1, 0.9]), (95, [0.975, 0.025]), (99.9, [0.0005, 0.9995])):
        assert np.array_equal(found(model, 9, level=level), found(model, 9, quantiles=pair))


def test_what_else_is_asked_for_changes_nothing(model: TitansForecaster) -> None:
    both, alone = found(model, level=[80, 99]), found(model, level=[99])
    assert np.array_equal(both[..., [0, 1, 4]], alone)
    assert np.array_equal(both[..., 0], found(model, quantiles=0.5)[..., 1])
    assert np.array_equal(both[..., 0].T, model.predict().to_numpy())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(quantiles=st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=6), steps=st.integers(1, 11))
def test_quantiles_rise_around_the_point(model: TitansForecaster, quantiles: list[float], steps: int) -> None:
    forecast, rising = found(model, steps, quantiles=quantiles), np.array(sorted(set(quantiles)))
    assert np.isfinite(forecast).all()
    point, others = forecast[..., :1], forecast[..., 1:]
    assert (np.diff(others, axis=-1) >= 0).all()
    assert (others[..., rising <= 0.5] <= point).all()
    assert (others[..., rising >= 0.5] >= point).all()


def test_bounds_are_kept_to_and_the_order_stays() -> None:
    counts = np.random.default_rng(3).poisson(0.7, size=(2, 300)).astype(float)
    fitted = tiny(lower=0, upper={"a": 1.5}).fit(wide(dict(zip("ab", counts, strict=True))))
    forecast = found(fitted, 9, level=[80, 99])
    assert forecast.min() == 0
    assert forecast[0].max() == 1.5
    assert forecast[1].max() > 1.5
    assert (np.diff(forecast[..., [1, 2, 0, 3, 4]], axis=-1) >= 0).all()


def test_every_layout_has_the_same_numbers_under_names_of_its_own() -> None:
    table = noisy()
    expected, of_one = found(tiny().fit(table)), found(tiny().fit(table[["a"]]))
    suffixes = ("lo-95", "lo-80", "hi-80", "hi-95")
    names = ["Titans", *(f"Titans-{suffix}" for suffix in suffixes)]
    own = [column if not suffix else f"{column}-{suffix}" for column in "ab" for suffix in ("", *suffixes)]
    single = long(table[["a"]]).drop(columns="unique_id")
    for kind, data, columns in (
        ("wide", table, own),
        ("wide, times in a column", table.reset_index(), ["when", *own]),
        ("wide, polars", pl.from_pandas(table.reset_index()), ["when", *own]),
        ("long", long(table).sample(frac=1, random_state=0), ["unique_id", "ds", *names]),
        ("long, polars", pl.from_pandas(long(table)), ["unique_id", "ds", *names]),
        ("array", table.to_numpy(), names),
        ("single", single, ["ds", *names]),
        ("Series", table["a"], names),
        ("Series, polars", pl.Series("a", table["a"].to_numpy()), names),
    ):
        fitted = tiny().fit(data)
        forecast = fitted.predict(level=[95, 80])
        assert list(forecast.keys() if isinstance(forecast, dict) else forecast.columns) == columns, kind
        if "polars" in kind:
            assert isinstance(forecast, pl.DataFrame), kind
        assert np.array_equal(found(fitted), expected if fitted.n_features_in_ == 2 else of_one), kind


def test_names_that_are_no_text_are_written_out() -> None:
    table = noisy().set_axis(pd.Index([7, 2], name="site"), axis=1)
    forecast = tiny().fit(table).predict(1, level=80)
    assert forecast.columns.tolist() == [7, "7-lo-80", "7-hi-80", 2, "2-lo-80", "2-hi-80"]
    assert forecast.columns.name == "site"


@pytest.mark.parametrize("parameters", [{}, {"context": "stream"}, {"combine": True}, {"horizon": 9}], ids=str)
def test_updates_give_the_same_intervals_however_rows_are_cut(parameters: dict[str, Any]) -> None:
    table, last = noisy(260, seed=4), 220
    begun = tiny(**parameters).fit(table[:last])
    before = found(begun)
    whole = copy.deepcopy(begun).update(table[last:])
    expected = found(whole, 9)
    for cuts in ([last, *range(last + 1, 261)], [last, last + 7, last + 8, 260]):
        other = copy.deepcopy(begun)
        for a, b in itertools.pairwise(cuts):
            other.update(table[a:b])
        np.testing.assert_allclose(found(other, 9), expected, **ROUNDING)
    assert np.array_equal(found(begun), before)
    more = whole.fitted_.calibration.errors.shape[1] > begun.fitted_.calibration.errors.shape[1]
    assert more == (begun.fitted_.combination is None)


@pytest.mark.parametrize("parameters", [{}, {"context": "stream"}], ids=str)
def test_errors_in_the_ring_are_those_of_the_forecasts_that_predict_makes(parameters: dict[str, Any]) -> None:
    table, last = noisy(260, seed=5), 220
    model = tiny(**parameters).fit(table[:last])
    spacing = model.fitted_.calibration.spacing
    expected = []
    for now in range(last, 260 - HORIZON + 1):
        if now > last and model.fitted_.panel.data.ends[0] % spacing == 0:
            expected.append((table[now : now + HORIZON].to_numpy() - model.predict().to_numpy()).T)
        model.update(table[now : now + 1])
    model.update(table[260 - HORIZON + 1 :])
    errors = model.fitted_.calibration.errors[..., 0] * model.scaler_.scale[:, None, None]
    np.testing.assert_allclose(errors[:, -len(expected) :], np.stack(expected, axis=1), **ROUNDING)


@pytest.mark.parametrize("parameters", [{}, {"context": "stream"}, {"combine": True}], ids=str)
def test_held_out_errors_are_those_of_forecasts_from_there(parameters: dict[str, Any]) -> None:
    table = noisy(240, seed=6)
    model = tiny(val_size=40, **parameters).fit(table)
    calibration = model.fitted_.calibration
    # the last origin is a horizon before the end; the network and its memory know nothing that came after it
    rows = table[: 240 - HORIZON]
    if model.fitted_.combination is None:
        errors = (table[-HORIZON:].to_numpy() - model.predict(df=rows).to_numpy()).T / model.scaler_.scale[:, None]
        np.testing.assert_allclose(calibration.errors[:, -1, :, 0], errors, **ROUNDING)
    assert calibration.errors.shape[1] == (37 if model.fitted_.combination is None else 16)


def test_intervals_follow_a_stream_whose_noise_grows() -> None:
    rng = np.random.default_rng(7)
    size = np.where(np.arange(900) < 400, 1.0, 4.0)
    table = wide({"a": size * rng.normal(size=900)})
    model = tiny().fit(table[:400])
    before = np.ptp(found(model, level=80)[..., 1:])
    after = np.ptp(found(model.update(table[400:]), level=80)[..., 1:])
    assert 3 < after / before < 5.5


def test_rows_that_were_filled_in_are_not_counted() -> None:
    table = noisy(300, seed=8)
    gaps = table.copy()
    gaps.iloc[-20:-12] = np.nan
    model = tiny(missing="interpolate", val_size=40).fit(gaps)
    errors = model.fitted_.calibration.errors[0, ..., 0]
    # of the origins after rows 260 to 296: none is in the gap but before its first row, and no step there counts
    assert np.isnan(errors).any()
    for origin, steps in zip([r for r in range(260, 297) if not 281 <= r <= 288], errors, strict=False):
        there = np.array([not 280 <= origin + step < 288 for step in range(HORIZON)])
        if there.any():
            assert np.array_equal(np.isfinite(steps), there)
            continue
        break
    wild = gaps.copy()
    wild.iloc[-20], wild.iloc[-13] = np.nan, np.nan
    assert np.array_equal(found(tiny(missing="interpolate", val_size=40).fit(wild)), found(model))


@pytest.mark.parametrize("kind", ["saved", "pickled", "copied"])
def test_a_model_that_comes_back_has_the_same_intervals_and_goes_on(kind: str, tmp_path: Path) -> None:
    table = noisy(300, seed=9)
    model = tiny(context="stream").fit(table[:250]).update(table[250:263])
    if kind == "saved":
        model.save(tmp_path / "model")
        again = TitansForecaster.load(tmp_path / "model")
    else:
        again = pickle.loads(pickle.dumps(model)) if kind == "pickled" else copy.deepcopy(model)
    assert np.array_equal(found(again, 9), found(model, 9))
    assert np.array_equal(found(again.update(table[263:])), found(model.update(table[263:])))


def test_a_constant_series_has_intervals_of_no_width() -> None:
    table = noisy(100)
    table["b"] = 7.0
    for data in (table, table[["b"]]):
        forecast = found(tiny().fit(data), 9)[-1]
        assert np.isfinite(forecast).all()
        assert np.abs(forecast - 7).max() < 1e-9


def test_an_unseen_series_has_the_errors_of_others_at_its_own_size(model: TitansForecaster) -> None:
    table = noisy(200, seed=10)
    by_one, by_many = (model.predict(df=by * table.set_axis(["c", "d"], axis=1), level=80) for by in (1.0, 1000.0))
    np.testing.assert_allclose(by_many.to_numpy(), 1000 * by_one.to_numpy(), rtol=1e-4)
    widths = by_one["c-hi-80"] - by_one["c-lo-80"], by_one["d-hi-80"] - by_one["d-lo-80"]
    assert (widths[1] > 1.3 * widths[0]).all()
    later = model.predict(df=noisy(ROWS)[-60:-1], level=80)  # the series fitted, by its own errors
    own = found(model, level=80)
    assert np.ptp(later.iloc[0][1:3]) == pytest.approx(np.ptp(own[0, 0, 1:]))
    with pytest.raises(ValueError, match=r"need 3 rows or more of a series that was not fitted.*'c' has 2"):
        model.predict(df=table.set_axis(["c", "d"], axis=1)[:2], level=80)


def test_twelve_months_have_an_interval_and_a_warning_that_says_by_what() -> None:
    months = pd.date_range("2024-01-01", periods=12, freq="MS")
    values = 100 + 10 * np.random.default_rng(11).normal(size=12)
    model = TitansForecaster(horizon=12 // 2, max_epochs=0, random_state=0, verbose=0, val_size=0)
    model.fit(pd.Series(values, months))
    with pytest.warns(UserWarning, match=r"no row was held out of the fit.*Give `fit` more rows") as seen:
        forecast = model.predict(level=80)
    assert seen[0].filename == __file__
    width = forecast["Titans-hi-80"] - forecast["Titans-lo-80"]
    assert ((width > 5) & (width < 200)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict()


def test_twelve_months_as_they_come_have_an_interval_that_is_finite_and_not_narrow() -> None:
    inside = []
    for seed in range(5):
        values = 100 + 10 * np.random.default_rng(seed).normal(size=24)
        months = pd.date_range("2024-01-01", periods=24, freq="MS")
        model = TitansForecaster(max_epochs=0, random_state=0, verbose=0).fit(pd.Series(values[:12], months[:12]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forecast = model.predict(level=80)
        truth = values[12 : 12 + len(forecast)]
        inside.append((truth >= forecast["Titans-lo-80"]) & (truth <= forecast["Titans-hi-80"]))
    assert np.concatenate(inside).mean() >= 0.7


def test_both_at_once_are_refused(model: TitansForecaster) -> None:
    with pytest.raises(ValueError, match="`level` and `quantiles` must not both be given"):
        model.predict(level=80, quantiles=[0.1])


def test_a_model_of_a_version_without_errors_says_to_fit_again(model: TitansForecaster) -> None:
    older = copy.deepcopy(model)
    object.__setattr__(older.fitted_, "calibration", None)
    assert np.array_equal(older.predict().to_numpy(), model.predict().to_numpy())
    older.update(noisy(ROWS + 5)[ROWS:])
    with pytest.raises(ValueError, match=r"saved by a version that kept none. Fit it again"):
        older.predict(level=80)
