"""Recent means of all series, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from titans_ts.model.linear import spans
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.cross_series import CrossSeriesFeatures, _spans_of_time

LOOKBACK = 6


def expected(rows: np.ndarray, begin: int) -> np.ndarray:
    """Of `rows` (n_series, steps) from time index 0 on, NaN where there is no value and where a mean would need one."""
    padded = np.pad(rows, ((0, 0), (LOOKBACK, LOOKBACK)), constant_values=np.nan)
    window = padded[:, begin + LOOKBACK : begin + 2 * LOOKBACK]
    means = np.stack([window[:, LOOKBACK - far : LOOKBACK - near].mean(1) for near, far in spans(LOOKBACK)], axis=1)
    means[np.isnan(window).any(1)] = np.nan
    return means


def test_means_are_of_the_same_times_whenever_a_series_begins() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 20))
    rows[1, :4], rows[1, 15:], rows[2, :11] = np.nan, np.nan, np.nan
    parts = [row[np.isfinite(row)] for row in rows]
    lengths, starts = np.array([len(part) for part in parts]), np.array([100, 104, 111])
    data = SeriesData(torch.from_numpy(np.concatenate(parts)).float(), lengths, starts)
    features = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=3)
    for begin in range(-LOOKBACK, 15):
        found = features.at(torch.tensor([100 + begin]))
        np.testing.assert_allclose(found[0].numpy(), expected(rows, begin), rtol=1e-5, atol=1e-6)


def test_parts_of_a_series_are_put_together_and_series_without_weights_left_out() -> None:
    data = SeriesData(torch.arange(24.0), np.array([8, 8, 8]), np.array([0, 8, 2]))
    features = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=2, series=np.array([1, 1, 7]))
    found = features.at(torch.tensor([5]))[0]
    assert found[0].isnan().all()
    assert found[1].tolist() == [10.0, 9.0, 7.5, 5.5, 7.5]


def test_what_is_written_is_read_and_what_was_there_stays() -> None:
    data = SeriesData(torch.arange(13.0), np.array([8, 5]), np.array([0, 3]))
    features = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=2, ahead=3)
    assert features.at(torch.tensor([5])).isnan().all()
    new = torch.tensor([[8.0, 9.0, 10.0], [13.0, 14.0, 15.0], [70.0, 70.0, 70.0]])
    features.write(torch.tensor([0, 1, 5]), torch.tensor([8, 8, 8]), new)
    found = features.at(torch.tensor([5]))[0]
    assert found[0].tolist() == [10.0, 9.0, 7.5, 5.5, 7.5]
    assert found[1].tolist() == [15.0, 14.0, 12.5, 10.5, 12.5]


def test_55_time_without_rows_takes_no_memory_and_changes_nothing() -> None:
    """Two series of the same length, a million steps apart: each is alone, as it is without the other."""
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.normal(size=40)).float()
    far = SeriesData(values, np.array([20, 20]), np.array([7, 10**12]))
    features = CrossSeriesFeatures(far, lookback=LOOKBACK, n_series=2, ahead=3)
    assert features._values.shape == (2, 2 * (20 + LOOKBACK + 3))
    for number, start in ((0, 7), (1, 10**12)):
        alone = SeriesData(values[20 * number : 20 * number + 20], np.array([20]), np.array([start]))
        expected = CrossSeriesFeatures(alone, lookback=LOOKBACK, n_series=1, ahead=3)
        steps = start + torch.arange(-LOOKBACK, 15)
        found = features.at(steps)
        torch.testing.assert_close(found[:, number], expected.at(steps)[:, 0], equal_nan=True)
        assert found[:, 1 - number].isnan().all()
    features.write(torch.tensor([1]), torch.tensor([10**12 + 20]), torch.tensor([[1.0, 2.0, 3.0]]))
    window = torch.cat([values[37:], torch.tensor([1.0, 2.0, 3.0])])
    last = features.at(torch.tensor([10**12 + 17]))[0, 1]
    assert last[0].item() == 3
    assert last[-1].item() == pytest.approx(window.mean().item())


def test_parts_that_touch_or_overlap_are_one_stretch_of_time() -> None:
    begins, ends = _spans_of_time(np.array([30, 0, 5, 12]), np.array([40, 10, 8, 20]))
    assert (begins.tolist(), ends.tolist()) == ([0, 12, 30], [10, 20, 40])
    begins, ends = _spans_of_time(np.array([0, 10, 2]), np.array([10, 15, 30]))
    assert (begins.tolist(), ends.tolist()) == ([0], [30])
