"""Features of covariates: bends, dummies, the season of effects, trailing means and groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.regression.basis import BEND, MOST_FEATURES, TRAIL, WAVE, Basis, trailing_mean
from titans_ts.tables.covariate_columns import FUTURE, PAST, STATIC, CovariateColumn
from titans_ts.tables.series_data import SeriesData

NUMBER = CovariateColumn("x", FUTURE, None)
KIND = CovariateColumn("kind", FUTURE, ("p", "q", "r"))


def data_of(covariates: np.ndarray, lengths: list[int], starts: int = 0) -> SeriesData[np.ndarray]:
    of_series = np.array(lengths)
    return SeriesData(np.zeros(len(covariates)), of_series, np.full(len(lengths), starts), covariates=covariates)


def features(columns: tuple[CovariateColumn, ...], covariates: np.ndarray, period: int = 0) -> np.ndarray:
    return Basis.of(columns, covariates, period).features(data_of(covariates, [len(covariates)]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(1, 26), st.integers(0, 100))
def test_a_trailing_mean_is_of_the_last_rows_of_its_own_series(lengths: list[int], rows: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=sum(lengths))
    data = data_of(values[:, None], lengths)
    found = trailing_mean(values, data, rows)
    for i in range(len(lengths)):
        own = values[data.rows_of(i)]
        expected = [own[max(0, j + 1 - rows) : j + 1].mean() for j in range(len(own))]
        assert found[data.rows_of(i)] == pytest.approx(expected, abs=1e-12)


def test_a_trailing_mean_depends_on_its_own_rows_alone_to_the_bit() -> None:
    values = np.random.default_rng(0).normal(size=60)
    data = data_of(values[:, None], [30, 30])
    expected = trailing_mean(values, data, 7)
    values[:30], values[30:43] = 1e15, -1e15
    assert np.array_equal(trailing_mean(values, data, 7)[49:], expected[49:])


def test_a_number_bends_at_its_quantiles() -> None:
    x = np.arange(1001.0)
    found = features((NUMBER,), x[:, None])
    z = (x - x.mean()) / x.std()
    assert found[:, 0] == pytest.approx(z, abs=1e-6)
    for i, knot in enumerate((200, 400, 600, 800), start=1):
        assert found[:, i] == pytest.approx(BEND * np.maximum(z - z[knot], 0), abs=1e-6)


@pytest.mark.parametrize("values", [(0.0, 1.0), (3.0, 7.0), (5.0, 5.0)])
def test_a_number_of_two_values_or_one_has_no_bend(values: tuple[float, float]) -> None:
    assert features((NUMBER,), np.tile(values, 20)[:, None]).shape == (40, 1)


@pytest.mark.parametrize("value", [0.1, 1e12, -1e-12])
def test_a_constant_is_no_feature_and_a_change_of_it_is_of_its_size(value: float) -> None:
    basis = Basis.of((NUMBER,), np.full((999, 1), value), 0)
    after = np.array([[value], [value + 1]])
    assert basis.features(data_of(after, [2]))[:, 0] == pytest.approx([0, 1], abs=1e-3)


@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_the_size_of_a_number_does_not_matter(size: float) -> None:
    x = np.random.default_rng(0).normal(size=(200, 1))
    assert features((NUMBER,), size * x) == pytest.approx(features((NUMBER,), x), abs=1e-4)


def test_a_category_is_a_dummy() -> None:
    found = features((KIND,), np.array([[0.0], [2], [1], [2]]))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]]


def test_past_columns_are_no_features() -> None:
    found = features((CovariateColumn("z", PAST, None), KIND), np.array([[5.0, 0], [np.nan, 2]]))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1]]


def test_effects_vary_with_the_phase_of_the_season() -> None:
    found = features((CovariateColumn("g", STATIC, ("p",)),), np.zeros((8, 1)), period=4)
    phase = np.arange(8) * np.pi / 2
    waves = [np.cos(phase), np.sin(phase), np.cos(2 * phase) / np.sqrt(2), np.sin(2 * phase) / np.sqrt(2)]
    expected = np.stack([np.ones(8), *(WAVE * wave for wave in waves)], axis=1)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_trailing_mean_of_a_season_is_a_feature() -> None:
    x = np.random.default_rng(0).normal(size=(50, 1))
    basis = Basis.of((NUMBER,), x, 4)
    found = basis.features(data_of(x, [50]))
    mean = np.array([x[max(0, i - 3) : i + 1].mean() for i in range(50)])
    expected = TRAIL * (mean - x.mean()) / x.std()
    assert np.abs(found - expected[:, None]).max(0).min() == pytest.approx(0, abs=1e-5)


def test_groups_have_effects_of_their_own() -> None:
    columns = (CovariateColumn("g", STATIC, ("p", "q")), CovariateColumn("x", FUTURE, None))
    covariates = np.array([[0.0, 1], [0, 0], [1, 1], [1, 0]])
    found = Basis.of(columns, covariates, 0).features(data_of(covariates, [2, 2]))
    assert found[:, -2:].tolist() == [[1, 0], [-1, 0], [0, 1], [0, -1]]


def test_many_columns_follow_the_season_less_closely() -> None:
    columns = tuple(CovariateColumn(i, FUTURE, None) for i in range(30))
    covariates = np.random.default_rng(0).normal(size=(500, 30))
    basis = Basis.of(columns, covariates, 24)
    assert max(basis.harmonics) < 8
    assert sum(5 * (1 + 2 * n) for n in basis.harmonics) <= MOST_FEATURES


def test_rows_without_covariates_are_refused() -> None:
    with pytest.raises(ValueError, match="`data` must have covariates"):
        Basis.of((NUMBER,), np.zeros((3, 1)), 0).features(SeriesData(np.zeros(3), np.array([3]), np.array([0])))
