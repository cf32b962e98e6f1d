"""StatisticalModel: both methods, of values and of logarithms, in the units of the data."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical import model as module
from titans_ts.statistical.adjusted import Earlier
from titans_ts.statistical.model import METHODS, READINGS, StatisticalModel, last_rows
from titans_ts.tables.series_data import SeriesData

from .small_series import data_of, walk

YEAR = np.array([3.0, 1, -2, -4, 0, 2, 5, 1, -1, -3, -2, 0])
VALUES, LOGARITHMS = READINGS
SMOOTHING, AUTOREGRESSION = range(len(METHODS))


def fit(
    data: SeriesData[np.ndarray], horizon: int = 6, periods: tuple[int, ...] = (12,), **how: object
) -> StatisticalModel:
    return StatisticalModel.fit(data, data.lengths, horizon, periods, **how)


def seasonal(rows: int, seed: int) -> np.ndarray:
    """Positive, of a season, a trend and noise."""
    t, rng = np.arange(rows), np.random.default_rng(seed)
    return 100 + 0.2 * t + 5 * rng.uniform(0.5, 2) * YEAR[t % 12] + rng.normal(size=rows)


PANEL = data_of(*(seasonal(rows, rows) for rows in (40, 60, 75)), -seasonal(50, 1), seasonal(7, 2), [3.0])


def test_growth_by_the_same_factor_with_a_season_that_multiplies_is_exact_by_logarithms() -> None:
    rates = np.array([0.03, 0.01, -0.02])
    t = np.arange(60)
    series = [np.exp(rate * t + YEAR[t % 12] / 20) for rate in rates]
    found = fit(data_of(*series), readings=(LOGARITHMS,)).forecast(data_of(*series), 6)[0, :, :, 0]
    ahead = np.arange(60, 66)
    expected = np.exp(rates[:, None] * ahead + YEAR[ahead % 12] / 20)
    np.testing.assert_allclose(found[SMOOTHING], expected, rtol=2e-3)  # all but the slow methods have the line
    np.testing.assert_allclose(found[AUTOREGRESSION], expected, rtol=2e-3)  # the ridge


def test_a_line_with_a_season_that_adds_is_exact_by_values() -> None:
    t, ahead = np.arange(60), np.arange(60, 66)
    data = data_of(50 + t + YEAR[t % 12], 200 - 2 * t - 3 * YEAR[t % 12])
    found = fit(data, readings=(VALUES,)).forecast(data, 6)[0, :, :, 0]
    expected = [50 + ahead + YEAR[ahead % 12], 200 - 2 * ahead - 3 * YEAR[ahead % 12]]
    np.testing.assert_allclose(found, [expected, expected], atol=0.1)


def test_readings_and_methods_are_in_their_order() -> None:
    model = fit(PANEL)
    assert tuple(model.fitted) == READINGS
    assert model.forecast(PANEL, 9).shape == (len(READINGS), len(METHODS), PANEL.n_series, 1, 9)
    logarithms = model.take((LOGARITHMS,))
    assert np.array_equal(logarithms.forecast(PANEL, 9)[0], model.forecast(PANEL, 9)[1])


def test_a_series_that_is_not_positive_is_read_as_it_is_by_both() -> None:
    """The fits differ, as other series were read; with one such series alone they are the same."""
    alone = data_of(seasonal(60, 0) - 100)
    values, logarithms = fit(alone).forecast(alone, 6)
    assert np.array_equal(values, logarithms)
    positive = data_of(seasonal(60, 0))
    values, logarithms = fit(positive).forecast(positive, 6)
    assert np.abs(values - logarithms).max() > 1e-3


def test_logarithms_are_read_only_of_series_allowed() -> None:
    data, model = data_of(seasonal(60, 0), seasonal(60, 1)), fit(PANEL)
    allowed = model.forecast(data, 6, positive=np.array([True, False]))[1]
    assert np.array_equal(allowed[:, 0], model.forecast(data, 6)[1, :, 0])
    as_values = model.fitted[LOGARITHMS]
    expected = StatisticalModel(model.periods, {VALUES: as_values}).forecast(data, 6)[0]
    np.testing.assert_allclose(allowed[:, 1], expected[:, 1], rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-9, 1e9, 2.0**-500, 2.0**61])
def test_forecasts_are_equal_in_every_unit(unit: float) -> None:
    """To the bit where the unit is a power of two."""
    other = PANEL.with_values(unit * PANEL.values)
    found, expected = fit(other).forecast(other, 9), unit * fit(PANEL).forecast(PANEL, 9)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert np.array_equal(found, expected) == (np.frexp(unit)[0] == 0.5)


def test_series_are_each_in_a_unit_of_their_own() -> None:
    units = np.array([1e-9, 1, 1e12, 3, 1e-3, 1e200])
    other = PANEL.with_values(PANEL.values * np.repeat(units, PANEL.lengths))
    expected = units[:, None, None] * fit(PANEL).forecast(PANEL, 9)
    np.testing.assert_allclose(fit(other).forecast(other, 9), expected, rtol=1e-8)


def test_the_largest_values_and_forecasts_far_ahead_are_finite() -> None:
    huge = PANEL.with_values(PANEL.values * 1e297)
    assert np.isfinite(fit(huge).forecast(huge, 12)).all()
    growing = data_of(*(np.exp(rate * np.arange(50)) for rate in (0.1, 0.5, 2.0)))
    assert np.isfinite(fit(growing).forecast(growing, 5000)).all()


def test_constant_series_are_constant() -> None:
    values = (0.0, -2.5, 0.1, 1e9 / 7)
    data = data_of(*(np.full(40, value) for value in values), seasonal(40, 0))
    found = fit(data).forecast(data, 30)[:, :, : len(values), 0]
    assert not np.ptp(found, axis=-1).any()
    np.testing.assert_allclose(found[..., 0], np.broadcast_to(values, found.shape[:-1]), rtol=1e-15)


def test_what_comes_after_known_rows_is_not_learned_from_and_after_origins_not_read() -> None:
    """Later rows are of the same sign and power of two."""
    data = data_of(*(seasonal(70, seed) for seed in range(4)))
    known, origins = np.array([40, 45, 50, 55]), np.array([[40, 60], [45, 50], [50, 58], [55, 64]])
    row = data.row_in_series
    after = data.with_values(np.where(row >= np.repeat(origins[:, 1], data.lengths), 200.0, data.values))
    later = data.with_values(np.where(row >= np.repeat(known, data.lengths), 200.0, data.values))
    marked = [StatisticalModel.fit(each, known, 6, (12,)) for each in (data, after, later)]
    first = marked[0].arrays()
    for model in marked[1:]:
        assert all(np.array_equal(first[name], array) for name, array in model.arrays().items())
    found = marked[0].forecast(data, 6, known, origins)
    assert np.array_equal(marked[1].forecast(after, 6, known, origins), found)
    assert np.array_equal(marked[2].forecast(later, 6, known, origins)[..., 0, :], found[..., 0, :])
    assert not np.array_equal(marked[2].forecast(later, 6, known, origins)[..., 1, :], found[..., 1, :])


def test_a_forecast_from_an_origin_is_that_of_the_rows_before_it() -> None:
    """Where `known` is the origin."""
    data, model, known = data_of(*(seasonal(70, seed) for seed in range(3))), fit(PANEL), np.array([40, 50, 60])
    found = model.forecast(data, 6, known, known[:, None])
    np.testing.assert_allclose(found, model.forecast(data.head(known), 6), rtol=1e-9)


def test_few_rows_are_forecast_with_the_season_of_earlier_ones() -> None:
    t = np.arange(72)
    whole = data_of(100 + YEAR[t % 12], 50 - YEAR[t % 12])
    few = whole.tail(3)
    found = fit(whole).forecast(few, 6, earlier=Earlier(whole, np.arange(2)))[0, SMOOTHING, :, 0]
    ahead = np.arange(72, 78)
    np.testing.assert_allclose(found, [100 + YEAR[ahead % 12], 50 - YEAR[ahead % 12]], atol=1e-9)
    without = fit(whole).forecast(few, 6)[0, SMOOTHING, :, 0]
    assert np.abs(without - found).max() > 1


def test_each_series_is_forecast_alike_whichever_are_beside_it() -> None:
    model, order = fit(PANEL), np.array([4, 1, 3])
    np.testing.assert_allclose(model.forecast(PANEL.take(order), 6), model.forecast(PANEL, 6)[:, :, order], rtol=1e-11)


def test_the_last_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 50)
    monkeypatch.setattr(module, "LEAST_KNOWN", 25)
    long = walk(80, 0)
    data, recent = data_of(long), data_of(long[30:], starts=[30])
    first, other = fit(data, periods=()), fit(recent, periods=())
    assert all(np.array_equal(array, other.arrays()[name]) for name, array in first.arrays().items())
    assert np.array_equal(first.forecast(data, 6), other.forecast(recent, 6))


def test_known_rows_are_read_however_many_come_after() -> None:
    data = data_of(np.arange(5000), np.arange(2900), np.arange(900), np.arange(2500))
    recent, dropped = last_rows(data, np.array([4900, 400, 900, 1700]))
    assert dropped.tolist() == [3000, 0, 0, 500]
    assert recent.lengths.tolist() == [2000, 2900, 900, 2000]
    assert recent.values[recent.offsets].tolist() == dropped.tolist()
    assert last_rows(data, np.array([3500, 400, 900, 1300]))[1].tolist() == [2500, 0, 0, 300]


def test_origins_long_before_the_end_are_forecast_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 20)
    monkeypatch.setattr(module, "LEAST_KNOWN", 10)
    data, known = data_of(np.arange(100.0), 5 - np.arange(60.0)), np.array([40, 30])
    model = StatisticalModel.fit(data, known, 3, (), (VALUES,))
    found = model.forecast(data, 1, known, known[:, None])[0, :, :, 0, 0]
    np.testing.assert_allclose(found, [[40, -25]] * 2, atol=0.1)


@pytest.mark.parametrize("readings", [READINGS, (VALUES,), (LOGARITHMS,)])
def test_a_model_is_made_again_of_its_arrays(readings: tuple[str, ...]) -> None:
    model = fit(PANEL, readings=readings)
    again = StatisticalModel.of_arrays(model.periods, model.arrays())
    assert tuple(again.fitted) == readings
    assert again.periods == (12,)
    assert np.array_equal(again.forecast(PANEL, 9), model.forecast(PANEL, 9))


def test_two_fits_are_equal_to_the_bit() -> None:
    assert np.array_equal(fit(PANEL).forecast(PANEL, 9), fit(PANEL).forecast(PANEL, 9))
