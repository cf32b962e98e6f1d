"""A data set as windows in the benchmark's space, subsets of one, and the naive forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from benchmark.data import Benchmark, read_subset, seasonal_naive
from titans_ts.datasets import Dataset
from titans_ts.model import ModelConfig

CPU = torch.device("cpu")


def test_a_subset_is_named_as_one_and_has_its_own_scaler(small_subset: Path) -> None:
    data = read_subset("electricity", small_subset)
    assert data.name == "electricity, 2 of 321 series"
    assert data.frame.shape == (26304, 2)
    assert (len(data.split.train), len(data.split.test)) == (int(0.7 * 26304), int(0.2 * 26304))
    np.testing.assert_allclose(data.scaler.mean_, data.frame.to_numpy()[data.split.train].mean(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename(columns={"0": "999"}), r"columns \['999'\], which are not in electricity"),
        (lambda frame: frame[:-1], "must have the 26304 rows of electricity, got 26303"),
    ],
)
def test_what_is_no_subset_is_refused(small_subset: Path, change: Any, message: str) -> None:
    change(pd.read_csv(small_subset, index_col=0)).to_csv(small_subset)
    with pytest.raises(ValueError, match=message):
        read_subset("electricity", small_subset)


def config(lookback: int, horizon: int, **parts: Any) -> ModelConfig:
    return ModelConfig(lookback=lookback, horizon=horizon, n_series=2, **parts)


def test_windows_forecast_the_rows_of_their_part_alone(small: Dataset) -> None:
    found = Benchmark(small, CPU).windows(config(96, 6))
    assert [len(windows) for windows in found] == [2 * (rows - 6 + 1) for rows in (600 - 96, 200, 400)]
    scaled = small.scaler.transform(small.frame)
    for windows, row in zip(found, (96, 600, 800), strict=True):
        batch = windows.batch(torch.tensor([0]))
        np.testing.assert_allclose(batch.past[0], scaled[row - 96 : row, 0], rtol=1e-6)  # float32
        np.testing.assert_allclose(batch.future[0], scaled[row : row + 6, 0], rtol=1e-6)


def test_what_is_dropped_are_the_last_test_windows_of_each_channel(small: Dataset) -> None:
    benchmark = Benchmark(small, CPU)
    whole, dropped = (benchmark.windows(config(96, 6), dropped=n).test for n in (0, 11))
    assert (len(whole), len(dropped)) == (2 * 395, 2 * 384)
    second = whole.batch(torch.arange(395, 395 + 384))
    torch.testing.assert_close(dropped.batch(torch.arange(384, 768)).future, second.future, rtol=0, atol=0)


def test_windows_come_with_cross_series_features_where_the_network_reads_them(small: Dataset) -> None:
    benchmark = Benchmark(small, CPU)
    reads = config(96, 6, linear_per_series=True, linear_cross_series=True)
    batch = benchmark.windows(reads).validation.batch(torch.tensor([0]))
    assert batch.cross_series is not None
    whole = small.scaler.transform(small.frame)[504:600].mean(0)
    np.testing.assert_allclose(batch.cross_series[0, :, -1], whole, rtol=1e-5)  # means of float32 values
    assert benchmark.windows(config(96, 6)).validation.batch(torch.tensor([0])).cross_series is None


def test_a_horizon_past_a_part_is_refused(small: Dataset) -> None:
    with pytest.raises(ValueError, match="`horizon` must be at most the 200 validation and 400 test rows of ETTh1"):
        Benchmark(small, CPU).windows(config(24, 420))


def test_seasonal_naive_repeats_the_last_season(small: Dataset) -> None:
    mse, mae = seasonal_naive(Benchmark(small, CPU).windows(config(96, 30)).test, 24)

    scaled = small.scaler.transform(small.frame)
    errors = [
        np.concatenate([scaled[t - 24 : t], scaled[t - 24 : t - 18]]) - scaled[t : t + 30] for t in range(800, 1171)
    ]
    # float32 values, summed in float64
    assert mse == pytest.approx(np.mean(np.square(errors)), rel=1e-6)
    assert mae == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)


def test_where_a_season_is_longer_than_the_lookback_naive_repeats_the_last_step(small: Dataset) -> None:
    windows = Benchmark(small, CPU).windows(config(12, 30)).test
    assert seasonal_naive(windows, 24) == seasonal_naive(windows, 1)


def test_the_frame_is_the_scaled_data_up_to_the_end_of_test(small: Dataset) -> None:
    frame = Benchmark(small, CPU).frame()
    assert frame.columns.tolist() == ["a", "b"]
    np.testing.assert_allclose(frame.to_numpy(), small.scaler.transform(small.frame))


def test_the_profile_is_the_mean_train_day_of_each_channel(small: Dataset) -> None:
    benchmark = Benchmark(small, CPU)
    profile = benchmark.profile(24)
    assert profile is not None
    days = small.scaler.transform(small.frame)[:600].reshape(25, 24, 2)
    np.testing.assert_allclose(profile.numpy(), days.mean(0).T, atol=1e-6)
    assert benchmark.profile(0) is None
