"""Forecasts of series that were not fitted: by their own scale and season, and nothing of the others'."""

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts import TitansForecaster
from titans_ts.tables.read import read_table
from titans_ts.windows.seasonal import seasonal_profiles

CLOSE = dict(rtol=0, atol=5e-3)  # of a wave of size 1, which the initialisation's ridge bends by less


def tiny(**parameters) -> TitansForecaster:
    given = dict(horizon=6, lookback=24, d_model=8, n_heads=2, n_layers=1, max_epochs=1, random_state=0, verbose=0)
    return TitansForecaster(**{**given, **parameters})


def season(mean: float, size: float, phase: float, first: int = 0, rows: int = 240) -> np.ndarray:
    t = np.arange(first, first + rows)
    return mean + size * (np.sin(2 * np.pi * (t + phase) / 24) + 0.5 * np.cos(4 * np.pi * t / 24 + phase))


def table(first: int = 0, rows: int = 240, **series: tuple[float, float, float]) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=first + rows, freq="h")[first:]
    return pd.DataFrame({name: season(*how, first, rows) for name, how in series.items()}, index=index)


A, B, C = (10, 1, 0), (-3, 2, 7), (5e4, 800, 13)


@pytest.fixture(scope="module")
def fitted() -> TitansForecaster:
    return tiny().fit(table(a=A, b=B))


@pytest.mark.parametrize("rows", [60, 100])
def test_an_unseen_series_is_forecast_at_its_own_scale(fitted, rows):
    forecast = fitted.predict(48, table(50, rows, c=C))
    expected = table(50 + rows, 48, c=C)
    np.testing.assert_allclose(forecast / 800, expected / 800, rtol=0, atol=0.1)
    assert forecast.index.equals(expected.index)


def test_an_unseen_series_brings_its_own_season():
    # The lookback sees too little of the season to tell where in it one stands: only the profile can.
    random = np.random.default_rng(0)
    index = pd.date_range("2024-01-01", periods=480, freq="h")
    wide = pd.DataFrame({name: np.tile(random.normal(size=24), 20) for name in "abc"}, index=index)
    model = tiny(horizon=24, lookback=5, max_epochs=0).fit(wide[["a", "b"]])
    assert model.network_.cycle.seasonal
    forecast = model.predict(df=wide[["c"]][100:201])
    np.testing.assert_allclose(forecast["c"], wide["c"][201:225], rtol=0, atol=1e-4)


def test_a_context_short_of_a_season_has_none(fitted):
    forecast = fitted.predict(df=table(50, 20, c=C))
    assert forecast["c"].between(5e4 - 4000, 5e4 + 4000).all()


def test_an_unseen_series_depends_on_itself_alone(fitted):
    alone = fitted.predict(df=table(c=C))
    beside = fitted.predict(df=table(b=B, c=C, d=(0, 1, 3)))
    np.testing.assert_allclose(beside["c"], alone["c"], rtol=1e-6)
    np.testing.assert_allclose(beside["b"], fitted.predict()["b"], **CLOSE)


def test_the_scale_of_an_unseen_series_is_that_of_its_own_rows(fitted):
    context = table(c=C)
    np.testing.assert_allclose(fitted.predict(df=context * 2**20), fitted.predict(df=context) * 2**20, rtol=1e-6)


@pytest.mark.parametrize("seasonal", [True, False])
def test_an_unseen_series_has_a_profile_only_where_those_fitted_have_one(seasonal):
    """Without a linear path an untrained network forecasts the window mean, and the profile on top."""
    random = np.random.default_rng(0)
    index = pd.date_range("2024-01-01", periods=240, freq="h")
    wide = pd.DataFrame({name: np.tile(random.normal(size=24), 10) for name in "abc"}, index=index)
    model = tiny(cycle=24, max_epochs=0, linear_path=False, combine=False).fit(wide[["a", "b"]])
    assert model.network_.cycle.seasonal
    if not seasonal:
        model.network_.cycle.begin_at(None)
    expected = wide["c"][:6] if seasonal else np.full(6, wide["c"].mean())
    np.testing.assert_allclose(model.predict(df=wide[["c"]])["c"], expected, rtol=0, atol=1e-5)  # float32


@pytest.mark.parametrize("cycle", [0, 24])
def test_per_series_paths_learn_what_one_cannot_and_an_unseen_series_has_the_common_one(cycle):
    t, rng = np.arange(600), np.random.default_rng(0)  # both scale their windows, or the common one is not the same
    unlike = {"a": np.sin(t), "b": rng.permutation(5)[t % 5].astype(float)}
    wide = pd.DataFrame(unlike, index=pd.date_range("2024-01-01", periods=600, freq="h"))
    wide += 0.3 * rng.normal(size=wide.shape)
    given = dict(cycle=cycle, max_epochs=0, context="window")
    one, each = (tiny(**given, linear_path=path).fit(wide) for path in (True, "per_series"))
    assert each.history_.best.validation_loss < 0.9 * one.history_.best.validation_loss
    seen, unseen = wide[["a"]], wide[["a"]].set_axis(["c"], axis=1)
    assert np.abs(each.predict(df=seen).to_numpy() - one.predict(df=seen).to_numpy()).max() > 0.01
    # The initialisation may do without the season, and that of an unseen series is taken off all the same.
    if not cycle:
        np.testing.assert_allclose(each.predict(df=unseen), one.predict(df=unseen), rtol=1e-5)
    assert np.isfinite(each.predict(df=unseen)).all().all()


@pytest.mark.parametrize("rows", [1, 5, 60])
@pytest.mark.parametrize("value", [0.1, -7e-9, 3e12])
def test_a_constant_context_of_an_unseen_series_is_continued(fitted, rows, value):
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    forecast = fitted.predict(15, pd.DataFrame({"flat": value, "c": season(*C, rows=rows)}, index=index))
    np.testing.assert_allclose(forecast["flat"], value, rtol=1e-15)  # a mean's rounding
    assert np.isfinite(forecast["c"]).all()


@pytest.mark.parametrize("kind", ["long", "single", "Series"])
def test_an_unseen_series_may_come_in_any_kind(fitted, kind):
    wide = table(c=C)
    tables = {
        "long": pd.DataFrame({"unique_id": "c", "ds": wide.index, "y": wide["c"].to_numpy()}),
        "single": pd.DataFrame({"ds": wide.index, "y": wide["c"].to_numpy()}),
        "Series": wide["c"],
    }
    forecast = fitted.predict(df=tables[kind])
    values = forecast if kind == "Series" else forecast["Titans"]
    np.testing.assert_allclose(values, fitted.predict(df=wide)["c"], rtol=1e-6)


def test_values_that_were_filled_do_not_make_the_scale(fitted):
    context = table(c=C)
    gaps = context.copy()
    gaps.iloc[-6:-3] = np.nan
    model = tiny(missing="ffill").fit(table(a=A, b=B))
    assert np.abs(model.predict(df=gaps) - context.iloc[-24:-18].to_numpy()).to_numpy().max() < 2000
    with pytest.raises(ValueError, match="column 'c' has 3 missing values"):
        fitted.predict(df=gaps)


# Series that read one another


def follower(rows: int = 600, lag: int = 2) -> pd.DataFrame:
    """`b` does what `a` did `lag` hours before."""
    rng = np.random.default_rng(0)
    walk = np.zeros(rows + lag)
    for t in range(1, rows + lag):
        walk[t] = 0.9 * walk[t - 1] + rng.normal()
    index = pd.date_range("2024-01-01", periods=rows, freq="h")
    return pd.DataFrame({"a": 50 + walk[lag:], "b": 10 * walk[:rows]}, index=index)


@pytest.fixture(scope="module")
def across() -> TitansForecaster:
    return tiny(horizon=4, lookback=12, max_epochs=0, linear_path="across").fit(follower()[:560])


def test_one_that_follows_another_is_forecast_from_it(across):
    seen, truth = follower()[:580], follower()["b"][580:582]  # where it goes in two hours, the other has been
    np.testing.assert_allclose(across.predict(df=seen)["b"][:2], truth, rtol=0, atol=2.5)  # slow parts are not read
    alone = tiny(horizon=4, lookback=12, max_epochs=0, linear_path="per_series").fit(follower()[:560])
    assert (alone.predict(df=seen)["b"][:2] - truth).abs().max() > 6


def test_few_series_read_one_another_by_the_phase_of_the_cycle_and_many_do_not(across, monkeypatch):
    assert (across.network_.config.cycle, across.network_.config.linear_harmonics) == (24, 2)
    assert tiny(max_epochs=0, cycle=3, linear_path="across").fit(follower()).network_.config.linear_harmonics == 1
    monkeypatch.setattr("titans_ts.settings.MOST_BY_PHASE", 1)
    assert tiny(max_epochs=0, linear_path="across").fit(follower()).network_.config.linear_harmonics == 0


def test_past_the_horizon_the_forecasts_of_others_are_read(across):
    seen = follower()[:580]
    expected = []
    for _ in range(3):
        expected.append(across.predict(df=seen))
        seen = pd.concat([seen, expected[-1]])
    pd.testing.assert_frame_equal(across.predict(11, follower()[:580]), pd.concat(expected)[:11], rtol=1e-4)


def test_without_the_other_series_there_is_still_a_forecast_and_a_new_one_changes_nothing(across):
    seen = follower()[:580]
    both, alone = across.predict(9, seen), across.predict(9, seen[["b"]])
    assert np.isfinite(alone).all().all()
    assert (both["b"] - alone["b"]).abs().max() > 1
    more = across.predict(9, seen.assign(c=np.arange(580.0)))
    assert np.isfinite(more["c"]).all()
    pd.testing.assert_frame_equal(more[["a", "b"]], both, rtol=1e-5)


def test_series_of_other_lengths_read_one_another_while_both_are_there():
    wide = follower()
    parts = [wide["a"][:560], wide["b"][100:557], wide["a"][550:560] + 1]
    long = pd.concat(
        pd.DataFrame({"unique_id": name, "ds": part.index, "y": part.to_numpy()})
        for name, part in zip(("a", "b", "short"), parts, strict=True)
    )
    model = tiny(horizon=4, lookback=12, max_epochs=0, linear_path="across", combine=False).fit(long)
    forecast = model.predict(9).set_index("unique_id")["Titans"]
    assert np.isfinite(forecast).all()
    assert forecast.index.value_counts().tolist() == [9, 9, 9]
    np.testing.assert_allclose(forecast["b"][:2], wide["b"][557:559], rtol=0, atol=2.5)  # goes to 0 and -19


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_series_never_seen_is_minus_as_much_of_its_profile(share: float) -> None:
    rows = table(a=A)
    rows += 0.1 * np.random.default_rng(0).normal(size=rows.shape)
    model = tiny(cycle=24, max_epochs=0, linear_path=True, val_size=0).fit(rows)
    scaled = model.scaler_.transform(read_table(rows).data)
    model.network_.cycle.begin_at(torch.from_numpy(seasonal_profiles(scaled, np.array([240]), 24)), share)
    panel = read_table(rows, calendar=model.fitted_.panel.calendar)
    seen, unseen = (model.fitted_.forecast(24, panel, np.array([number])) for number in (0, -1))
    np.testing.assert_allclose(unseen, seen, rtol=0, atol=1e-5)
