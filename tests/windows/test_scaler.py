"""The scale that networks see series at."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.tables.read import read_table
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.scaler import Scaler


def series_of(*parts: np.ndarray, observed: np.ndarray | None = None) -> SeriesData[np.ndarray]:
    lengths = np.array([len(part) for part in parts])
    return SeriesData(np.concatenate(parts), lengths, np.zeros(len(parts), dtype=int), observed)


def test_scaler_takes_mean_and_population_deviation_of_the_training_rows() -> None:
    data = series_of(np.array([1.0, 3.0, 5.0, 100.0]), np.array([-2.0, 2.0, 7.0]))
    scaler = Scaler.fit(data, np.array([3, 2]))
    np.testing.assert_allclose(scaler.mean, [3, 0])
    np.testing.assert_allclose(scaler.std, [math.sqrt(8 / 3), 2])
    np.testing.assert_allclose(scaler.transform(data).values[4:], [-1, 1, 3.5])


def test_a_small_wave_far_from_zero_keeps_its_shape() -> None:
    wave = np.sin(2 * np.pi * np.arange(480) / 24)
    data = series_of(1e9 + wave, 1e9 + 1e-4 * wave)
    scaler = Scaler.fit(data, data.lengths)
    scaled = scaler.transform(data).values.astype(np.float32).reshape(2, -1)
    # float64 resolves 1.2e-7 at 1e9: a share of that of the wave, and 1.2e-3 of the smaller one.
    np.testing.assert_allclose(scaled[0], math.sqrt(2) * wave, atol=1e-6)
    np.testing.assert_allclose(scaled[1], math.sqrt(2) * wave, atol=5e-3)


@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3, 1e12, 1e-300])
def test_a_constant_series_has_no_deviation_and_the_scale_of_its_size(value: float) -> None:
    data = series_of(np.full(1001, value), np.arange(3.0))
    scaler = Scaler.fit(data, data.lengths)
    assert scaler.std[0] == 0
    assert scaler.scale[0] == pytest.approx(abs(value) or 1.0)
    np.testing.assert_allclose(scaler.transform(data).values[:1001], 0, atol=1e-12 * max(1, abs(value)))
    np.testing.assert_allclose(scaler.inverse(np.zeros((2, 4, 1)))[0], value, rtol=1e-15)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4), min_size=1, max_size=4))
def test_inverse_gives_the_values_back(rows: list[list[float]]) -> None:
    data = series_of(*(np.array(row) for row in rows))
    scaler = Scaler.fit(data, data.lengths)
    back = scaler.inverse(scaler.transform(data).values.reshape(len(rows), 4, 1))
    # Rounding in float64 is relative to each series' largest value.
    np.testing.assert_allclose(back[..., 0], np.array(rows), rtol=0, atol=1e-14 * max(1, np.abs(data.values).max()))


def test_what_was_filled_makes_no_scale() -> None:
    data = series_of(np.array([1.0, 3.0, 99.0, 5.0]), np.array([-2.0, 99.0, 2.0]))
    scaler = Scaler.fit(series_of(*np.split(data.values, [4]), observed=data.values != 99), data.lengths)
    np.testing.assert_allclose(scaler.mean, [3, 0])
    np.testing.assert_allclose(scaler.std, [math.sqrt(8 / 3), 2])


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e120, 1e200, 1e299])
def test_extreme_sizes_keep_their_shape(size: float) -> None:
    plain = series_of(np.sin(np.arange(50.0)))
    large = plain.with_values(size * plain.values)
    scaler = Scaler.fit(large, large.lengths)
    expected = Scaler.fit(plain, plain.lengths).transform(plain).values
    np.testing.assert_allclose(scaler.transform(large).values, expected, rtol=1e-12)
    back = scaler.inverse(expected[None, :, None])[0, :, 0]
    np.testing.assert_allclose(back, large.values, rtol=0, atol=1e-14 * size)


def test_every_output_comes_back_at_the_scale_of_its_series() -> None:
    scaler = Scaler(np.array([10.0, -1.0]), np.array([2.0, 5.0]))
    scaled = np.array([[[0.0, 1.0]], [[2.0, -1.0]]])  # two series, one step, two outputs
    assert scaler.inverse(scaled).tolist() == [[[10, 12]], [[9, -6]]]


def test_a_part_of_the_series_has_their_scales_in_its_order() -> None:
    scaler = Scaler(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    part = scaler.take(np.array([2, 0]))
    assert (part.mean.tolist(), part.std.tolist()) == ([3, 1], [6, 4])
    part.mean[0] = 99
    assert scaler.mean[2] == 3


def test_a_value_too_far_from_all_others_is_named() -> None:
    panel = read_table(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0, 1e200]}))
    scaler = Scaler.fit(panel.data, np.array([2, 2]))
    with pytest.raises(ValueError, match=r"series 'b' has 1e\+200 at 2, more than 1e\+15 deviations"):
        scaler.transform_panel(panel)
