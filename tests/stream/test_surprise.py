"""Surprise is causal and in units of usual errors; conformal values keep their rate whatever the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.stream.surprise import LARGEST, LEAST_ERRORS, conformal_p_values, surprises
from titans_ts.tables.series_data import SeriesData


def data_of(*lengths: int) -> SeriesData[np.ndarray]:
    rows = sum(lengths)
    return SeriesData(np.zeros(rows), np.array(lengths, dtype=np.int64), np.zeros(len(lengths), dtype=np.int64))


def slowly(errors: np.ndarray, half_life: float) -> np.ndarray:
    """The surprises of one series, each over a sum over all before it."""
    found, seen = np.full(len(errors), np.nan), list[float]()
    for row, error in enumerate(np.abs(errors)):
        if np.isnan(error):
            continue
        weights = 0.5 ** (np.arange(len(seen))[::-1] / half_life)
        usual = np.sqrt((weights * np.square(seen)).sum() / weights.sum()) if seen else 0.0
        if len(seen) >= LEAST_ERRORS:
            found[row] = 0.0 if error == 0 else np.inf if usual == 0 else error / usual
            seen.append(min(error, LARGEST * usual) if usual > 0 else error)
        else:
            seen.append(error)
    return found


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    half_life=st.floats(1, 200),
    seed=st.integers(0, 99),
    zeros=st.booleans(),
)
def test_each_series_is_over_its_own_discounted_errors(
    lengths: list[int], half_life: float, seed: int, zeros: bool
) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.standard_t(2, size=sum(lengths))
    errors[rng.random(len(errors)) < 0.2] = np.nan
    if zeros:
        errors[rng.random(len(errors)) < 0.7] = 0
    data = data_of(*lengths)
    found = surprises(errors, data, half_life)
    for i in range(data.n_series):
        np.testing.assert_allclose(found[data.rows_of(i)], slowly(errors[data.rows_of(i)], half_life), rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(0, 80), seed=st.integers(0, 99))
def test_no_row_depends_on_a_later_one(cut: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.normal(size=80)
    whole = surprises(errors, data_of(80), 10)
    other = errors.copy()
    other[cut:] = 1e6 * rng.normal(size=80 - cut)
    assert np.array_equal(surprises(other, data_of(80), 10)[:cut], whole[:cut], equal_nan=True)
    assert np.array_equal(surprises(errors[:cut], data_of(cut), 10), whole[:cut], equal_nan=True)
    values, lengths = conformal_p_values(whole, np.array([80])), np.array([cut])
    assert np.array_equal(conformal_p_values(whole[:cut], lengths), values[:cut], equal_nan=True)


def test_there_is_none_before_errors_are_usual_and_where_there_is_no_error() -> None:
    errors = np.ones(20)
    errors[[3, 15]] = np.nan
    found = surprises(errors, data_of(20), 5)
    assert np.flatnonzero(np.isnan(found)).tolist() == [*range(9), 15]
    assert found[~np.isnan(found)].tolist() == pytest.approx([1.0] * 10)
    assert len(surprises(np.empty(0), data_of(0), 5)) == 0


def test_an_error_after_none_at_all_is_infinite_and_then_usual() -> None:
    errors = np.zeros(14)
    errors[10:] = 2
    found = surprises(errors, data_of(14), 1e9)
    assert found[8:11].tolist() == [0, 0, np.inf]
    assert found[11] == pytest.approx(2 / np.sqrt(4 / 11))


def test_one_outlier_counts_as_a_few_usual_errors() -> None:
    errors = np.ones(30)
    errors[20] = 1e30
    found = surprises(errors, data_of(30), 1e9)
    assert found[20] == pytest.approx(1e30)
    assert found[21] == pytest.approx(1 / np.sqrt((20 + LARGEST**2) / 21))


# p-values


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4), seed=st.integers(0, 99), whole=st.booleans())
def test_a_value_is_the_share_of_those_so_far_that_are_as_large(lengths: list[int], seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    surprise = rng.exponential(size=sum(lengths))
    if whole:
        surprise = np.round(surprise)  # ties
    surprise[rng.random(len(surprise)) < 0.2] = np.nan
    surprise[rng.random(len(surprise)) < 0.1] = np.inf
    found = conformal_p_values(surprise, np.array(lengths))
    begin = 0
    for length in lengths:
        for row in range(begin, begin + length):
            so_far = surprise[begin : row + 1]
            so_far = so_far[~np.isnan(so_far)]
            expected = np.nan if np.isnan(surprise[row]) else (so_far >= surprise[row]).mean()
            assert found[row] == pytest.approx(expected, nan_ok=True)
        begin += length


@pytest.mark.parametrize("draw", ["exponential", "standard_cauchy"])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_false_alarms_come_at_the_rate(draw: str, alpha: float) -> None:
    surprise = np.abs(getattr(np.random.default_rng(0), draw)(size=20_000))
    found = conformal_p_values(surprise, np.full(10, 2000))
    assert 0.85 * alpha < (found <= alpha).mean() < 1.1 * alpha
    for part in found.reshape(10, 2000):  # none before there are enough
        assert not (part[: round(1 / alpha) - 1] <= alpha).any()


def test_equal_surprises_are_no_anomalies() -> None:
    assert conformal_p_values(np.full(50, 3.0), np.array([50])).tolist() == [1.0] * 50
