"""The recursion of many series and methods at once, against one series and one method a row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from titans_ts.statistical.methods import Methods, damped_trends, lines
from titans_ts.statistical.recursion import BURN, Smoothed, smooth

from .small_series import added, smooth_by_row, walk

ROUNDING = dict(rtol=1e-9, atol=1e-9)  # float64; values of size 1 to 50
SCORED = np.array([1, 2, 5])
SERIES = [walk(40, 0), walk(40, 1), walk(23, 2), walk(4, 3), walk(3, 4), walk(2, 5), walk(1, 6)]
LENGTHS = np.array([len(values) for values in SERIES])
FEW = np.arange(0, 136, 9)  # methods of `damped_trends`


def stacked(series: list[np.ndarray], before: float = np.nan) -> np.ndarray:
    """(steps, n_series), the last rows below one another; `before` is what no one reads."""
    steps = max(len(values) for values in series)
    return np.array([np.concatenate([np.full(steps - len(values), before), values]) for values in series]).T


def smoothed(series: list[np.ndarray], methods: Methods, **changes: np.ndarray) -> Smoothed:
    rows, lengths = stacked(series), np.array([len(values) for values in series])
    given = dict(observed=np.ones(rows.shape, dtype=bool), known=lengths, origins=lengths[:, None])
    return smooth(rows, lengths, methods, SCORED, **given | changes)


def by_row(methods: Methods, i: int, values: np.ndarray) -> list[tuple[float, float]]:
    return smooth_by_row(values, methods.level[i], methods.trend[i], methods.damping[i], methods.share[i])


FAMILIES = pytest.mark.parametrize("methods", [damped_trends().take(FEW), lines()], ids=["trends", "lines"])


@FAMILIES
def test_levels_and_trends_are_those_of_each_series_alone(methods: Methods) -> None:
    origins = np.maximum(LENGTHS[:, None] - np.array([7, 3, 0]), 1)
    found = smoothed(SERIES, methods, origins=origins)
    for i in range(len(methods)):
        for s, values in enumerate(SERIES):
            steps = by_row(methods, i, values)
            expected = np.array([steps[seen - 1] for seen in origins[s]])
            np.testing.assert_allclose(found.level[s, :, i], expected[:, 0], **ROUNDING)
            np.testing.assert_allclose(found.trend[s, :, i], expected[:, 1], **ROUNDING)


def naive_error(methods: Methods, i: int, values: np.ndarray, counted: np.ndarray) -> tuple[float, float]:
    """The mean absolute error of one method over all origins and steps scored, and origins."""
    steps, errors = by_row(methods, i, values), []
    for t in range(BURN, len(values)):
        level, trend = steps[t]
        for ahead in SCORED.tolist():
            if t + ahead < len(values) and counted[t + ahead]:
                errors.append(abs(level + added(trend, methods.damping[i], ahead) - values[t + ahead]))
    return sum(errors) / max(len(errors), 1), len(errors) / len(SCORED)


@FAMILIES
def test_errors_are_the_mean_of_all_steps_scored(methods: Methods) -> None:
    found = smoothed(SERIES, methods)
    for i in range(len(methods)):
        expected = [naive_error(methods, i, values, np.ones(len(values), dtype=bool)) for values in SERIES]
        np.testing.assert_allclose(found.errors[:, i], [error for error, _ in expected], **ROUNDING)
        np.testing.assert_allclose(found.counts, [count for _, count in expected])


def test_a_series_of_too_few_rows_is_not_scored() -> None:
    found = smoothed(SERIES, lines())
    assert found.counts[LENGTHS <= BURN + 1].tolist() == [0, 0, 0]
    assert not found.errors[LENGTHS <= BURN + 1].any()
    assert found.counts[3] == 1 / len(SCORED)  # four rows: one origin, one step


def test_filled_rows_are_smoothed_but_not_scored() -> None:
    methods, values = damped_trends().take(FEW), walk(30, 7)
    observed = np.ones((30, 1), dtype=bool)
    observed[[12, 13, 29]] = False
    found = smoothed([values], methods, observed=observed)
    for i in range(len(methods)):
        error, count = naive_error(methods, i, values, observed[:, 0])
        np.testing.assert_allclose(found.errors[0, i], error, **ROUNDING)
        assert found.counts[0] == pytest.approx(count)
    assert np.array_equal(found.level, smoothed([values], methods).level)


@FAMILIES
def test_what_comes_after_changes_nothing(methods: Methods) -> None:
    """To the bit: rows after `known` are in no error, rows after an origin in no forecast."""
    known, origins = np.array([30, 25, 20]), np.array([[30, 34], [25, 31], [20, 21]])
    first = smoothed(SERIES[:3], methods, known=known, origins=origins)
    changed = [values.copy() for values in SERIES[:3]]
    for s, values in enumerate(changed):
        values[origins[s, 1] :] = 1e6
    later = smoothed(changed, methods, known=known, origins=origins)
    assert all(np.array_equal(a, b) for a, b in zip(first, later, strict=True))
    for s, values in enumerate(changed):
        values[known[s] :] = -1e6
    latest = smoothed(changed, methods, known=known, origins=origins)
    assert np.array_equal(latest.errors, first.errors)
    assert np.array_equal(latest.counts, first.counts)
    assert np.array_equal(latest.level[:, 0], first.level[:, 0])
    assert not np.array_equal(latest.level[:, 1], first.level[:, 1])


def test_errors_are_of_the_rows_known() -> None:
    values = walk(30, 8)
    found = smoothed([values], lines(), known=np.array([20]))
    np.testing.assert_allclose(found.errors, smoothed([values[:20]], lines()).errors, rtol=1e-14)
    assert np.array_equal(found.counts, smoothed([values[:20]], lines()).counts)


def test_what_stands_before_a_series_is_not_read() -> None:
    """`stacked` puts NaN there."""
    found = smoothed(SERIES, damped_trends().take(FEW))
    assert all(np.isfinite(part).all() for part in found)


def test_a_line_is_continued_by_its_whole_slope() -> None:
    """At every level of 0.5 and more; below that the second row, taken half, leaves simple smoothing off its course."""
    values = 3.0 + 0.5 * np.arange(30)
    quick = Methods.grid((0.5, 0.8, 1.0), (0.0,), (1.0,), (1.0,))
    found = smoothed([values], quick)
    np.testing.assert_allclose(found.level[0, 0], values[-1], rtol=1e-12)
    np.testing.assert_allclose(found.trend[0, 0], 0.5, rtol=1e-12)


def test_the_naive_method_forecasts_the_last_value() -> None:
    found = smoothed(SERIES, Methods.grid((1.0,), (0.0,), (1.0,), (0.0,)))
    assert found.level[:, 0, 0].tolist() == [values[-1] for values in SERIES]
    assert not found.trend.any()


def test_a_constant_series_has_no_error() -> None:
    for methods in (damped_trends(), lines()):
        found = smoothed([np.full(20, 0.7)], methods)
        assert not found.errors.any()
        assert not found.trend.any()
        assert (found.level == 0.7).all()
