"""Recent means of all series, against NumPy."""

from __future__ import annotations

import numpy as np
import torch

from titans_ts.model.linear import spans
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.cross_series import CrossSeriesFeatures

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
