"""The ring of errors and the forecasts in flight: bounded, by recency, and the same however rows come in."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from titans_ts.intervals import calibration
from titans_ts.intervals.calibration import Calibration, Due, room, typical_sizes
from titans_ts.tables.series_data import SeriesData

HORIZON, SPACING, CAPACITY = 5, 2, 6


def series_of(values: np.ndarray, starts: np.ndarray, observed: np.ndarray | None = None) -> SeriesData:
    lengths = np.full(len(starts), values.size // len(starts))
    return SeriesData(values.ravel(), lengths, starts, None if observed is None else observed.ravel())


def begun(n_series: int = 2) -> Calibration:
    empty = np.empty((n_series, 0, HORIZON, 1), dtype=np.float32)
    nothing = np.empty((n_series, 0), dtype=np.int64)
    return Calibration(np.arange(n_series), empty, empty, nothing, np.ones(n_series), SPACING, CAPACITY)


def moved(before: Calibration, rows: np.ndarray, cuts: list[int], observed: np.ndarray | None = None) -> Calibration:
    """After rows (n_series, rows) that come in cuts; a forecast is the number of its origin, at every step."""
    starts = np.array([3, 10])
    for first, last in itertools.pairwise(cuts):
        due = before.due(starts + first, starts + last)
        if due is None:
            continue
        known = series_of(rows[:, :last], starts, None if observed is None else observed[:, :last])
        forecast = np.where(due.is_due, due.time_index, np.nan).astype(np.float32)
        issued = np.broadcast_to(forecast[..., None, None], (*forecast.shape, HORIZON, 1))
        before = before.then(known, issued, due.time_index)
    return before


def test_an_error_is_truth_minus_forecast_by_origin_and_step() -> None:
    rows = np.arange(24.0).reshape(2, 12)
    found = moved(begun(), rows, [0, 12])
    # series 0 begins at time 3 and ends before 15: origins 4, 6, 8, 10 are known to their last step
    first = rows[0, [1, 3, 5, 7]][:, None] + np.arange(HORIZON) - np.array([4, 6, 8, 10])[:, None]
    assert found.errors[0, ..., 0].tolist() == first.tolist()
    assert found.issued.tolist() == [[0, 12, 14], [18, 20, 22]]
    # of 12 the first three steps are known
    until = found.errors_until(series_of(rows, np.array([3, 10])))[0, :, :, 0]
    assert np.array_equal(until[4], [9 - 12, 10 - 12, 11 - 12, np.nan, np.nan], equal_nan=True)


@pytest.mark.parametrize("observed", [False, True])
def test_it_is_the_same_however_rows_come_in(observed: bool) -> None:
    rng = np.random.default_rng(0)
    rows, mask = rng.normal(size=(2, 60)), rng.uniform(size=(2, 60)) < 0.7 if observed else None
    whole = moved(begun(), rows, [0, 60], mask)
    for cuts in (list(range(61)), [0, 1, 2, 30, 31, 60], [0, 7, 14, 60]):
        other = moved(begun(), rows, cuts, mask)
        for name in ("errors", "forecasts", "issued"):
            assert np.array_equal(getattr(other, name), getattr(whole, name), equal_nan=True)


def test_the_oldest_errors_go_where_there_is_no_room() -> None:
    rows = np.random.default_rng(1).normal(size=(2, 60))
    found = moved(begun(), rows, [0, 30, 60])
    assert found.errors.shape == (2, CAPACITY, HORIZON, 1)
    longer = moved(Calibration(**{**vars(begun()), "capacity": 100}), rows, [0, 60])
    assert np.array_equal(found.errors, longer.errors[:, -CAPACITY:])


def test_a_series_without_new_rows_keeps_its_errors() -> None:
    rows = np.random.default_rng(2).normal(size=(2, 60))
    found = moved(begun(), rows, [0, 30])
    due = Due(np.arange(2), np.array([[34], [0]]), np.array([[True], [False]]))
    forecast = np.array([1.0, np.nan], dtype=np.float32)[:, None, None, None] * np.ones((1, 1, HORIZON, 1), np.float32)
    data = SeriesData(np.append(rows[0, :40], rows[1, :30]), np.array([40, 30]), np.array([3, 10]))
    later = found.then(data, forecast, due.time_index)
    assert np.array_equal(later.errors[1], found.errors[1])
    assert not np.array_equal(later.errors[0], found.errors[0])


def test_a_row_that_was_filled_in_gives_no_error() -> None:
    rows, observed = np.random.default_rng(3).normal(size=(2, 20)), np.ones((2, 20), dtype=bool)
    observed[0, 6] = False
    found = moved(begun(), rows, [0, 20], observed).errors[0, ..., 0]
    origins = np.arange(4, 19, 2)[-len(found) :]  # of which those at 6 and 8 forecast time 9 at steps 3 and 1
    assert np.argwhere(np.isnan(found)).tolist() == [[i, 9 - t] for i, t in enumerate(origins) if 0 <= 9 - t < HORIZON]
    assert np.isfinite(moved(begun(), rows, [0, 20], observed).errors[1]).all()


@pytest.mark.parametrize("n_series", [1, 7, 2000, 200_000, 3_000_000])
@pytest.mark.parametrize("horizon", [1, 24, 720])
def test_the_room_for_errors_is_bounded(n_series: int, horizon: int) -> None:
    which, origins = room(n_series, horizon, n_outputs=3)
    calibrated = len(range(n_series)[which])
    assert 1 <= origins <= 200
    assert calibrated * horizon * 3 * max(origins, 8) <= calibration.MOST_NUMBERS
    assert origins >= min(200, calibration.LEAST_ORIGINS)


def test_a_typical_size_grows_with_the_values_and_is_nothing_of_a_constant() -> None:
    values = np.random.default_rng(4).normal(size=(3, 50))
    values[1], values[2] = 1000 * values[0] + 5, 7
    sizes = typical_sizes(series_of(values, np.zeros(3, dtype=np.int64)))
    assert sizes[1] == pytest.approx(1000 * sizes[0])
    assert sizes[2] == 0
    huge = typical_sizes(series_of(1e300 * values[:1], np.zeros(1, dtype=np.int64)))
    assert huge == pytest.approx(1e300 * sizes[:1])


def test_rows_that_were_filled_in_have_no_say_in_a_typical_size() -> None:
    values = np.random.default_rng(5).normal(size=(1, 30))
    filled, observed = values.copy(), np.ones((1, 30), dtype=bool)
    filled[0, -3:], observed[0, -3:] = 1e6, False
    begin = np.zeros(1, dtype=np.int64)
    assert typical_sizes(series_of(filled, begin, observed)) == typical_sizes(series_of(values[:, :-3], begin))
