"""Missing rows and values: filled to be read, and kept out of everything that is learned or measured."""

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster

ROWS = 200


def tiny(**parameters) -> TitansForecaster:
    given = dict(
        horizon=6, lookback=24, d_model=8, n_heads=2, n_layers=1, max_epochs=1, missing="interpolate", verbose=0
    )
    return TitansForecaster(**{**given, "random_state": 0, **parameters})


def waves(first: int = 0, rows: int = ROWS) -> pd.DataFrame:
    t = np.arange(first, first + rows)
    index = pd.date_range("2024-01-01", periods=first + rows, freq="h", name="when")[first:]
    return pd.DataFrame({"a": 10 + np.sin(2 * np.pi * t / 24), "b": 0.1 * t + np.cos(2 * np.pi * t / 12)}, index=index)


def with_gaps(wide: pd.DataFrame) -> pd.DataFrame:
    """Values missing here and there in one column, and three rows in both."""
    table = wide.copy()
    table.iloc[[30, 31, 90, 185], 0] = np.nan
    return table.drop(index=table.index[[50, 51, 52]])


@pytest.mark.parametrize("how", ["error", "interpolate", "ffill"])
def test_nothing_missing_is_the_same_to_the_bit(how):
    expected = tiny(missing="error").fit(waves()).predict(20)
    assert np.array_equal(tiny(missing=how).fit(waves()).predict(20), expected)


@pytest.mark.parametrize("how", ["interpolate", "ffill"])
def test_gaps_hardly_change_the_forecast(how):
    model = tiny(missing=how).fit(with_gaps(waves()))
    np.testing.assert_allclose(model.predict(), waves(ROWS, 6), rtol=0, atol=0.05)
    assert model.score(waves(ROWS, 6)) > -1e-3


def test_what_stands_in_a_gap_is_never_learned():
    """Values that a fill would make enormous leave scale, initialisation and losses as they are."""
    early, late = waves(), waves()
    early.iloc[:40] += 5
    for table in (early, late):
        table.iloc[40:100] = np.nan
    late.iloc[:40] = late.iloc[:40] * 3 - 7
    models = [tiny(lookback=12, cycle=0, max_epochs=0).fit(table) for table in (early, late)]
    for model, table in zip(models, (early, late), strict=True):
        np.testing.assert_allclose(model.scaler_.mean, table[:180].mean(), rtol=1e-12)
        np.testing.assert_allclose(model.scaler_.std, table[:180].std(ddof=0), rtol=1e-12)


def test_filled_rows_are_not_scored():
    model = tiny(max_epochs=0).fit(waves())
    truth = waves(ROWS, 20) + np.random.default_rng(0).normal(size=(20, 2))
    holes = truth.copy()
    holes.iloc[3, 0] = holes.iloc[19, 1] = np.nan
    errors = (holes - model.predict(20)) / model.scaler_.std
    assert model.score(holes) == pytest.approx(-np.nanmean(errors.to_numpy() ** 2))
    gone = truth.drop(index=truth.index[[7]])
    errors = (gone - model.predict(20).loc[gone.index]) / model.scaler_.std
    assert model.score(gone) == pytest.approx(-(errors.to_numpy() ** 2).mean())
    with pytest.raises(ValueError, match="column 'a' has 1 missing value"):
        tiny(missing="error", max_epochs=0).fit(waves()).score(holes)


def test_a_series_whose_validation_rows_are_missing_is_trained_on_whole():
    table = waves()
    table.iloc[175:, 0] = np.nan
    model = tiny().fit(table)
    np.testing.assert_allclose(model.scaler_.mean, [table["a"].mean(), table["b"][:180].mean()], rtol=1e-12)
    assert np.isfinite(model.history_.best.validation_loss)
    alone = tiny().fit(table[["a"]])
    assert np.isnan(alone.history_.best.validation_loss)


def test_a_gap_at_the_end_is_filled_from_what_came_before():
    table = waves()
    table.iloc[-3:, 0] = np.nan
    expected = table.copy()
    expected.iloc[-3:, 0] = table.iloc[-4, 0]
    model = tiny(combine=False).fit(waves())
    assert np.array_equal(model.predict(df=table), model.predict(df=expected))
    assert model.predict(df=table).index[0] == waves(ROWS, 1).index[0]


def test_columns_of_a_wide_table_may_begin_late():
    table = waves()
    table.iloc[:77, 1] = np.nan
    model = tiny().fit(table)
    assert model.fitted_.panel.data.observed is None
    np.testing.assert_allclose(model.scaler_.mean, [table["a"][:180].mean(), table["b"][:187].mean()], rtol=1e-12)
    np.testing.assert_allclose(model.predict(), waves(ROWS, 6), rtol=0, atol=0.05)


@pytest.mark.parametrize("cycle", [0, 24])
def test_gaps_in_every_horizon_leave_enough_to_learn_from(cycle):
    table = waves()
    table.iloc[3::5] = np.nan
    model = tiny(cycle=cycle, max_epochs=30, learning_rate=3e-3).fit(table)
    assert np.isfinite(model.history_.best.validation_loss)
    error = (model.predict() - waves(ROWS, 6)) / waves().std()
    assert np.sqrt((error**2).mean(axis=None)) < 0.5
