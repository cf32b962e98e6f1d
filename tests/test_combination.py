"""Combination: weights that held-back rows choose among the network and the statistical methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from titans_ts import combination as module
from titans_ts.combination import (
    BOTH,
    Candidates,
    Combination,
    best_weights,
    combinations,
    is_combined,
    scaled_errors,
)
from titans_ts.statistical.adjusted import Earlier
from titans_ts.statistical.model import METHODS, READINGS
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.relative import BOUND
from titans_ts.windows.splits import Fold, backtest_folds

HORIZON, PERIODS = 6, (12,)
YEAR = np.array([3.0, 1, -2, -4, 0, 2, 5, 1, -1, -3, -2, 0])
MEMBERS = 1 + len(METHODS)

Network = Callable[[Panel, np.ndarray], np.ndarray]


def panel_of(*series: np.ndarray) -> Panel:
    """A long table of months; series of any lengths, all of one beginning."""
    months = pd.date_range("2010-01-01", periods=max(map(len, series)), freq="MS")
    parts = [pd.DataFrame({"unique_id": f"s{i:03}", "ds": months[: len(y)], "y": y}) for i, y in enumerate(series)]
    return read_table(pd.concat(parts), min_rows=3)


def walks(n_series: int = 12, rows: int = 60, mean: float = 100.0) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [mean + YEAR[np.arange(rows) % 12] + np.cumsum(rng.normal(size=rows)) for _ in range(n_series)]


def candidates_of(panel: Panel, val_size: int = 12) -> Candidates:
    (fold,) = backtest_folds(panel, HORIZON, val_size=val_size)
    return Candidates.fit(panel, fold, HORIZON, PERIODS)


def knowing(panel: Panel, error: float = 0.0) -> Network:
    """A network that forecasts what comes in `panel`, off by so much."""

    def network(part: Panel, series: np.ndarray) -> np.ndarray:
        ahead = (panel.data.offsets[series] + part.data.lengths)[:, None] + np.arange(HORIZON)
        return panel.data.values[ahead] + error

    return network


def ignorant(part: Panel, series: np.ndarray) -> np.ndarray:
    return np.full((len(series), HORIZON), 1e4)


# Weights


@pytest.mark.parametrize(("members", "count"), [(1, 1), (2, 5), (3, 15), (4, 35)])
def test_combinations_are_all_quarters_that_sum_to_1(members: int, count: int) -> None:
    grid = combinations(members)
    assert grid.shape == (count, members)
    assert len(np.unique(grid, axis=0)) == count
    assert (grid.sum(1) == 1).all()
    assert ((4 * grid) % 1 == 0).all()
    assert (grid >= 0).all()


def test_the_network_alone_and_each_method_alone_are_among_them() -> None:
    grid = combinations(MEMBERS).tolist()
    assert all(row in grid for row in np.eye(MEMBERS).tolist())


def test_errors_are_bounded_ratios_of_mean_absolute_ones() -> None:
    forecasts = np.array([[[[1.0, 3.0]], [[0.0, 0.0]]], [[[3.0, 5.0]], [[10.0, 30.0]]]])
    future = np.array([[[2.0, 2.0]], [[0.0, 0.0]]])
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    found = scaled_errors(forecasts, future, np.ones((2, 1, 2), dtype=bool), np.array([2.0, 5.0]), weights)
    ratio = np.array([[0.5, 0.0], [1.0, 4.0], [0.5, 2.0]])
    np.testing.assert_allclose(found, ratio / (1 + ratio / BOUND))


def test_steps_that_were_not_observed_and_series_that_do_not_vary_do_not_count() -> None:
    forecasts, future = np.ones((1, 3, 2, 2)), np.zeros((3, 2, 2))
    future[0, 0, 1] = 50
    observed = np.ones((3, 2, 2), dtype=bool)
    observed[0, 0, 1], observed[1, 1] = False, False
    found = scaled_errors(forecasts, future, observed, np.array([1.0, 2.0, 0.0]), np.ones((1, 1)))
    ratio = np.array([1, 1, 0.5])  # two origins of the first series, one of the second, none of the third
    np.testing.assert_allclose(found, [ratio / (1 + ratio / BOUND)])


def test_how_many_errors_are_held_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=(3, 10, 4, 6)), rng.normal(size=(10, 4, 6)), np.ones((10, 4, 6), bool), np.ones(10)
    expected = scaled_errors(*given, combinations(3))
    monkeypatch.setattr(module, "MOST_ENTRIES", 1000)
    np.testing.assert_allclose(scaled_errors(*given, combinations(3)), expected, rtol=1e-13)


def test_the_best_weights_are_found_where_one_member_is_exact() -> None:
    rng, grid = np.random.default_rng(0), combinations(3)
    future = rng.normal(size=(20, 2, 5))
    forecasts = np.stack([future + rng.normal(size=future.shape), future, future + 3])
    errors = scaled_errors(forecasts, future, np.ones(future.shape, dtype=bool), np.ones(20), grid)
    assert best_weights(errors, grid).tolist() == [0, 1, 0]


def test_opposite_errors_are_averaged_away() -> None:
    future, grid = np.zeros((20, 2, 5)), combinations(2)
    forecasts = np.stack([future + 1, future - 1])
    errors = scaled_errors(forecasts, future, np.ones(future.shape, dtype=bool), np.ones(20), grid)
    assert best_weights(errors, grid).tolist() == [0.5, 0.5]


def test_weights_that_rows_cannot_tell_apart_are_averaged() -> None:
    grid = combinations(2)
    assert best_weights(np.ones((5, 30)), grid).tolist() == [0.5, 0.5]
    noise = np.random.default_rng(0).normal(size=(5, 30))
    assert best_weights(1 + noise, grid)[0] == pytest.approx(0.5, abs=0.25)
    apart = np.array([1.0, 1.001, 1.2, 1.4, 1.6])[:, None] + np.zeros((5, 30))  # a tenth of a percent is a tie
    np.testing.assert_allclose(best_weights(apart, grid), (grid[0] + grid[1]) / 2)


def test_of_fewer_than_two_samples_weights_are_equal() -> None:
    grid = combinations(3)
    for samples in (0, 1):
        np.testing.assert_allclose(best_weights(np.arange(15.0)[:, None][:, :samples], grid), 1 / 3)


# Candidates


def test_forecasts_are_of_the_rows_held_back_from_several_origins() -> None:
    panel = panel_of(*walks())
    found = candidates_of(panel, val_size=15)
    assert found.series.tolist() == list(range(12))
    assert found.known.tolist() == [45] * 12
    assert found.origins.tolist() == [list(range(45, 55))] * 12
    assert {name: forecast.shape for name, forecast in found.forecasts.items()} == dict.fromkeys(
        (*READINGS, BOTH), (len(METHODS), 12, 10, HORIZON)
    )
    np.testing.assert_allclose(found.forecasts[BOTH], sum(found.forecasts[name] for name in READINGS) / 2)


def test_held_back_rows_are_not_learned_from() -> None:
    """To the bit from the first origin, where they keep their sign and power of two."""
    series = walks()
    changed = [np.where(np.arange(60) < 48, values, 127.0 - 20 * (np.arange(60) % 2)) for values in series]
    assert all(min(values) > 64 and 64 <= max(values) < 128 for values in (*series, *changed))
    first, other = (candidates_of(panel_of(*rows)) for rows in (series, changed))
    for name, forecast in first.forecasts.items():
        assert np.array_equal(other.forecasts[name][:, :, 0], forecast[:, :, 0])
        assert not np.array_equal(other.forecasts[name][:, :, -1], forecast[:, :, -1])


def test_series_without_enough_held_back_rows_do_not_choose() -> None:
    panel = panel_of(*walks(3), walks(1, rows=14)[0])
    found = candidates_of(panel)
    assert found.series.tolist() == [0, 1, 2]
    assert found.positive.tolist() == [True] * 4
    assert found.choose(knowing(panel))[1]


def test_logarithms_are_tried_where_most_series_are_positive() -> None:
    positive, mixed = walks(2), walks(2, mean=0.0)
    assert tuple(candidates_of(panel_of(*positive, *mixed)).forecasts) == (*READINGS, BOTH)
    assert tuple(candidates_of(panel_of(positive[0], *mixed)).forecasts) == READINGS[:1]


def test_where_the_network_knows_it_forecasts_alone() -> None:
    panel = panel_of(*walks())
    combination, choices = candidates_of(panel).choose(knowing(panel))
    assert combination is None
    assert choices[-1].chosen == "network"
    assert choices[-1].errors["network"] == 0


def test_where_the_network_is_wrong_it_does_not_count() -> None:
    panel = panel_of(*walks())
    combination, choices = candidates_of(panel).choose(ignorant)
    assert combination is not None
    assert combination.weights[0] == 0
    assert combination.weights.sum() == pytest.approx(1)
    assert "network" not in choices[-1].chosen


def test_the_network_is_asked_from_every_origin() -> None:
    panel, asked = panel_of(*walks(), np.ones(60)), []

    def network(part: Panel, series: np.ndarray) -> np.ndarray:
        asked.append((part.data.lengths.tolist(), series.tolist()))
        assert np.array_equal(part.data.values, panel.data.take(series).head(part.data.lengths).values)
        return ignorant(part, series)

    candidates_of(panel, val_size=15).choose(network)
    assert asked == [([rows] * 13, list(range(13))) for rows in range(45, 55)]


def test_what_was_tried_is_told() -> None:
    panel = panel_of(*walks())
    found = candidates_of(panel)
    combination, choices = found.choose(knowing(panel, error=1.5))
    assert combination is not None
    read, combined = choices
    assert (read.name, combined.name) == ("statistical methods read", "combination")
    assert list(read.errors) == [*READINGS, BOTH]
    assert list(combined.errors)[:MEMBERS] == ["network", *METHODS]
    ratio = 1.5 / np.array([np.abs(np.diff(panel.data.values[panel.data.rows_of(i)][:48])).mean() for i in range(12)])
    assert combined.errors["network"] == pytest.approx((ratio / (1 + ratio / BOUND)).mean())
    assert combined.errors[combined.chosen] <= min(combined.errors.values()) * 1.1


@pytest.mark.parametrize(
    ("values", "logarithms", "both", "expected"),
    [(1.0, 2.0, 1.01, BOTH), (1.0, 2.0, 1.5, "values"), (2.0, 1.0, 1.5, "logarithms"), (2.0, 1.0, 0.5, BOTH)],
)
def test_one_reading_alone_must_be_better_than_both_by_a_margin(
    values: float, logarithms: float, both: float, expected: str
) -> None:
    """Statistical forecasts that are off by so much of a mean change."""
    panel = panel_of(*walks())
    found = candidates_of(panel)
    future, scale = found._future()[0], panel.data.mean_change(found.known)[:, None, None]
    errors = dict(zip((*READINGS, BOTH), (values, logarithms, both), strict=True))
    for name, error in errors.items():
        found.forecasts[name] = np.stack([future + error * scale] * len(METHODS))
    combination, choices = found.choose(ignorant)
    assert choices[0].chosen == expected
    assert combination is not None
    assert tuple(combination.model.fitted) == (READINGS if expected == BOTH else (expected,))


@pytest.mark.parametrize("series", [walks(3, rows=12), [np.full(60, 2.0), np.full(60, 7.0)]], ids=["short", "constant"])
def test_where_nothing_can_be_told_all_count_alike(series: list[np.ndarray]) -> None:
    panel = panel_of(*series)
    fold = Fold(panel.data.lengths, panel.data.lengths, panel.data.lengths)
    if len(series[0]) == 60:
        (fold,) = backtest_folds(panel, HORIZON, val_size=12)
    combination, choices = Candidates.fit(panel, fold, HORIZON, PERIODS).choose(ignorant)
    assert choices == ()
    assert combination is not None
    np.testing.assert_allclose(combination.weights, 1 / MEMBERS)


def test_some_series_choose_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 5)
    found = candidates_of(panel_of(*walks()))
    assert found.series.tolist() == [0, 3, 6, 9]
    assert found.panel.n_series == 4
    assert len(found.positive) == 12


# Combination


def fitted_on(panel: Panel) -> Combination:
    combination, _ = candidates_of(panel).choose(ignorant)
    assert combination is not None
    return combination


def test_a_forecast_is_the_weighted_mean() -> None:
    panel = panel_of(*walks())
    data, weights = panel.data, np.array([0.5, 0.25, 0.25])
    whole = fitted_on(panel)
    combination = Combination(whole.model, weights, whole.positive)
    network = np.random.default_rng(0).normal(size=(12, 20))
    found = combination.forecast(network, combination.statistical(data, 20, Earlier(data, np.arange(12))))
    statistical = whole.model.forecast(data, 20)[:, :, :, 0].mean(0)
    np.testing.assert_allclose(found, 0.5 * network + 0.25 * statistical.sum(0))


def test_a_series_that_was_not_positive_is_never_read_by_logarithms() -> None:
    """Nor are rows of it that are; of a series that was not fitted, its own rows tell."""
    low = walks(1, mean=0.0)[0]
    panel = panel_of(*walks(), low)
    combination = fitted_on(panel)
    assert combination.positive.tolist() == [True] * 12 + [False]
    few = panel_of(np.abs(low) + 1).data
    as_fitted = combination.statistical(few, 6, Earlier(panel.data, np.array([12])))
    as_new = combination.statistical(few, 6, Earlier(panel.data, np.array([-1])))
    model = combination.model
    values, logarithms = (model.forecast(few, 6, positive=np.array([p]))[:, :, :, 0].mean(0) for p in (False, True))
    np.testing.assert_allclose(as_fitted, np.tensordot(combination.weights[1:], values, 1))
    np.testing.assert_allclose(as_new, np.tensordot(combination.weights[1:], logarithms, 1))


@pytest.mark.parametrize(("rows", "expected"), [(5000, True), (5001, False)])
def test_series_of_few_rows_are_combined(rows: int, expected: bool) -> None:
    lengths = np.array([10, rows, 2 * rows])
    data = SeriesData(np.ones(lengths.sum()), lengths, np.zeros(3, dtype=np.int64))
    assert is_combined(data) == expected


def test_an_origin_that_a_series_has_twice_counts_once() -> None:
    """The last series has three rows to spare, the others five."""
    found = candidates_of(panel_of(*walks(3), walks(1, rows=50)[0]), val_size=0.18)
    assert found.origins.tolist() == [[49, 50, 51, 52, 53, 54]] * 3 + [[41, 41, 42, 42, 43, 44]]
    _, counted = found._future()
    once = np.array([[True] * 6] * 3 + [[True, False, True, False, True, True]])
    assert np.array_equal(counted, np.broadcast_to(once[..., None], counted.shape))


def test_many_series_choose_from_fewer_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FORECASTS", 40)
    assert candidates_of(panel_of(*walks()), val_size=15).origins.tolist() == [[45, 49, 54]] * 12  # 3 x 12 <= 40
    monkeypatch.setattr(module, "MOST_FORECASTS", 1)
    assert candidates_of(panel_of(*walks()), val_size=15).origins.tolist() == [[45, 54]] * 12  # two at least


def test_the_time_needed_grows_with_the_series_beside_what_they_take_together(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 11.0, 20.0, 21.5])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(module, "PILOTS", (4, 8))
    # One second for four series, half a second for four more; twelve to their end, and before the rows held back.
    assert module.seconds_needed(panel_of(*walks()).data, 6, ()) == pytest.approx(2 * 1.0 + 0.125 * 24)
