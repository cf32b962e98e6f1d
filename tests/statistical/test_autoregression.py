"""One regression for all series: what it continues, and what it does not heed."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical.adjusted import AdjustedSeries
from titans_ts.statistical.autoregression import BURN, LAGS, Autoregression

from .small_series import as_it_is, data_of, walk


def forecast(series: AdjustedSeries, steps: int, horizon: int = 4) -> np.ndarray:
    """(n_series, origins, steps) in the units of the data."""
    return series.inverse(Autoregression.fit(series, horizon).forecast(series, steps))


def lines() -> list[np.ndarray]:
    t = np.arange(40)
    return [3 + 0.5 * t, 1000 - 7.0 * t, 1e-6 * t[:20]]


@pytest.mark.parametrize("steps", [1, 4, 11])
def test_lines_are_continued_within_the_horizon_and_past_it(steps: int) -> None:
    found = forecast(as_it_is(*lines()), steps)[:, 0]
    ahead = np.arange(1, steps + 1)
    slopes, last = np.array([0.5, -7.0, 1e-6])[:, None], np.array([[values[-1]] for values in lines()])
    np.testing.assert_allclose(
        (found - last) / slopes, np.broadcast_to(ahead, (3, steps)), rtol=1e-2
    )  # the ridge bends them


def test_an_oscillation_is_continued() -> None:
    """Of period 5: a linear recurrence of two lags."""
    waves = [size * np.sin(2 * np.pi * np.arange(60) / 5 + phase) for size, phase in ((1, 0), (30, 1), (1e-3, 2))]
    found = forecast(as_it_is(*(wave[:50] for wave in waves)), 10)[:, 0]
    size = np.array([[1], [30], [1e-3]])
    np.testing.assert_allclose(found / size, np.array([wave[50:] for wave in waves]) / size, atol=0.1)


def test_past_the_horizon_the_forecast_is_that_from_its_own_end() -> None:
    series = as_it_is(*(walk(60, seed) for seed in range(5)))
    model = Autoregression.fit(series, 4)
    whole = model.forecast(series, 10)[:, 0]
    values = series.data.values.reshape(5, 60)
    scale = np.abs(np.diff(values)).mean(1)
    for block in range(3):
        part = whole[:, 4 * block : 4 * block + 4]
        longer = np.concatenate([values, whole[:, : 4 * block]], axis=1)
        lag = np.arange(1, LAGS + 1)
        off = (longer[:, -1 - lag] - longer[:, -1:]) / scale[:, None]
        slope = (longer[:, -1] - longer[:, 0]) / scale / (longer.shape[1] - 1)
        inputs = np.column_stack([np.clip(off, -3 * lag - 5, 3 * lag + 5), slope, np.ones(5)])
        expected = longer[:, -1:] + scale[:, None] * (inputs @ model.weight)
        np.testing.assert_allclose(part, expected[:, : part.shape[1]], rtol=1e-9)


def test_forecasts_are_equal_in_every_unit() -> None:
    series = [walk(50, seed) for seed in range(4)]
    found = forecast(as_it_is(*series), 6)
    for unit in (1e-9, 1e9):
        np.testing.assert_allclose(
            forecast(as_it_is(*(unit * values for values in series)), 6), unit * found, rtol=1e-9
        )


def test_a_series_in_another_unit_moves_none() -> None:
    """Each is read in the scale of its own changes."""
    series = [walk(50, seed) for seed in range(4)]
    found = forecast(as_it_is(*series), 6)
    other = forecast(as_it_is(1e7 * series[0], *series[1:]), 6)
    np.testing.assert_allclose(other[1:], found[1:], rtol=1e-9)


def test_one_wild_series_moves_the_others_little() -> None:
    series = [walk(60, seed) for seed in range(20)]
    wild = np.random.default_rng(0).standard_cauchy(size=60) ** 3
    found, other = forecast(as_it_is(*series), 4), forecast(as_it_is(*series, wild), 4)[:-1]
    assert np.abs(other - found).max() < 0.25  # of steps of size 1


def turning(rows: int, share: float, seed: int) -> np.ndarray:
    """Steps of size 1, each the opposite of the one before with a probability of `share`."""
    turns = np.random.default_rng(seed).random(rows) < share
    return np.cumsum(np.cumprod(np.where(turns, -1.0, 1.0)))


def test_a_long_series_counts_as_much_as_a_short_one() -> None:
    """Ten short series go on as they went, and one of more rows than all of them turns back."""
    short, long = [turning(40, 0.3, seed) for seed in range(10)], turning(4000, 0.7, 0)
    rising = as_it_is(np.arange(10.0))

    def step(*series: np.ndarray) -> float:
        """The step that is forecast after steps of 1."""
        found = rising.inverse(Autoregression.fit(as_it_is(*series), 1).forecast(rising, 1))
        return float(found[0, 0, 0]) - 9.0

    assert step(*short) > 0.8
    assert step(long) < -0.8
    assert step(*short, long) > 0.8


def test_a_forecast_is_a_median() -> None:
    """Of steps that are 0 or, less often, 3, it is near 0 and not their mean of 0.9."""
    rng = np.random.default_rng(0)
    series = [np.cumsum(np.where(rng.random(200) < 0.7, 0.0, 3.0)) for _ in range(5)]
    step = forecast(as_it_is(*series), 1, horizon=1)[:, 0, 0] - [values[-1] for values in series]
    assert np.abs(step).max() < 0.3


def test_only_known_rows_are_learned_from() -> None:
    series = [walk(50, seed) for seed in range(3)]
    changed = [np.where(np.arange(50) < 40, values, 0) for values in series]
    known = np.full(3, 40)
    weights = [Autoregression.fit(as_it_is(*rows, known=known), 4).weight for rows in (series, changed)]
    assert np.array_equal(*weights)
    np.testing.assert_allclose(weights[0], Autoregression.fit(as_it_is(*(v[:40] for v in series)), 4).weight, rtol=1e-9)


def test_rows_after_an_origin_are_not_read() -> None:
    series = [walk(50, seed) for seed in range(3)]
    how = dict(known=np.full(3, 30), origins=np.array([[30, 45]] * 3))
    model = Autoregression.fit(as_it_is(*series, **how), 4)
    found = model.forecast(as_it_is(*series, **how), 9)
    changed = [np.where(np.arange(50) < 45, values, -values) for values in series]
    assert np.array_equal(model.forecast(as_it_is(*changed, **how), 9), found)
    earlier = model.forecast(as_it_is(*(values[:30] for values in series)), 9)
    np.testing.assert_allclose(
        as_it_is(*series, **how).inverse(found)[:, 0], as_it_is(*(v[:30] for v in series)).inverse(earlier)[:, 0]
    )


def test_filled_rows_are_no_targets() -> None:
    """A last row is a target alone; what it was filled with moves no weight by more than its change of scale."""
    series = [walk(30, seed) for seed in range(3)]
    wild = [np.append(values[:-1], values[-2] + 8) for values in series]
    observed = np.tile(np.arange(30) < 29, 3)

    def weight(rows: list[np.ndarray], mask: np.ndarray | None) -> np.ndarray:
        data = data_of(*rows, observed=mask)
        return Autoregression.fit(AdjustedSeries.of(data, (), logarithms=False), 1).weight

    without = weight([values[:-1] for values in series], None)
    assert np.abs(weight(wild, observed) - without).max() < 0.02
    assert np.abs(weight(wild, None) - without).max() > 0.05


def test_series_too_short_to_learn_from_are_forecast_by_the_last_value() -> None:
    series = as_it_is(walk(BURN + 1, 0), walk(2, 1), [5.0])
    assert not Autoregression.fit(series, 1).weight.any()
    np.testing.assert_allclose(forecast(series, 3)[:, 0, 0], [walk(BURN + 1, 0)[-1], walk(2, 1)[-1], 5])


def test_constant_series_are_constant_and_teach_nothing() -> None:
    series = [walk(50, seed) for seed in range(3)]
    found = forecast(as_it_is(*series, np.full(50, 0.1)), 6)
    assert (found[-1] == 0.1).all()
    np.testing.assert_allclose(found[:-1], forecast(as_it_is(*series), 6), rtol=1e-12)
    assert not Autoregression.fit(as_it_is(np.full(50, 0.1)), 4).weight.any()


def test_forecasts_far_past_the_horizon_are_finite() -> None:
    series = as_it_is(*(np.exp(0.1 * np.arange(60)) * (1 + 0.01 * walk(60, seed)) for seed in range(3)))
    assert np.isfinite(forecast(series, 20_000, horizon=12)).all()
