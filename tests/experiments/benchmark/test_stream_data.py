"""A data set as a stream: which origins are forecast, what has matured at each, and the splits of table S2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from benchmark.stream_data import Clock, Stream, parts_of, short_training, steps_per_day
from titans_ts.datasets import Dataset, Split, load_dataset


def test_origins_are_those_of_validation_and_test_and_between(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    stream = stream_of(small)
    assert stream.origins == range(600, 1195)
    assert stream.validation == range(600, 795)
    assert stream.test == range(800, 1195), "every window whose 6 rows are all of test"
    assert stream.day == 24


def test_what_matured_ends_before_the_origin(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    stream = stream_of(small)
    assert stream.matured(700) == 695, "694 forecasts rows 694 to 699"
    assert stream.matured(10) == 24


def test_values_and_rows_to_forecast_are_scaled_by_the_train_rows(
    small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small)
    scaled = small.scaler.transform(small.frame).T
    np.testing.assert_allclose(stream.values, scaled, atol=1e-6)
    np.testing.assert_allclose(stream.future(range(700, 703))[1, 2], scaled[1, 702:708], atol=1e-6)
    batch = next(stream.windows(range(700, 703)).batches(6))
    torch.testing.assert_close(batch.future.view(2, 3, 6), stream.future(range(700, 703)))
    torch.testing.assert_close(stream.ratio, torch.ones(2))


def test_parts_hold_every_origin_once() -> None:
    parts = list(parts_of(range(5, 17), 5))
    assert parts == [range(5, 10), range(10, 15), range(15, 17)]


@pytest.mark.parametrize(("freq", "steps"), [("h", 24), ("15min", 96), ("10min", 144), ("D", 1), ("W-TUE", 1)])
def test_steps_of_a_day(freq: str, steps: int) -> None:
    assert steps_per_day(freq) == steps


def test_train_rows_short_of_a_lookback_and_a_horizon_are_told(
    small: Dataset, stream_of: Callable[..., Stream]
) -> None:
    stream = stream_of(small)
    short = Dataset(small.frame, "ETTh1", "h", Split(range(29), range(29, 200), range(200, 400)), small.scaler)
    with pytest.raises(ValueError, match=r"24 \+ 6, got 29"):
        Stream(short, stream.fitted)


def test_a_clock_counts_updates() -> None:
    clock = Clock()
    assert clock.per_update == 0.0
    with clock.update(4):
        pass
    assert clock.updates == 4
    assert clock.per_update == clock.seconds / 4


def test_table_s2_trains_on_little() -> None:
    frame = pd.DataFrame({"a": np.arange(1001.0)}, index=pd.date_range("2020", periods=1001, freq="D"))
    data = Dataset(frame, "exchange_rate", "D", Split(range(700), range(700, 801), range(801, 1001)), StandardScaler())
    short = short_training(data)
    assert short.split == Split(range(200), range(200, 250), range(250, 1001))
    assert short.scaler.mean_ == pytest.approx([99.5])


@pytest.mark.data
@pytest.mark.parametrize(("name", "ends"), [("ETTh2", (2880, 3600, 14400)), ("ETTm1", (11520, 14400, 57600))])
def test_table_s2_splits_ett_by_months(name: str, ends: tuple[int, ...], data_folder: object) -> None:
    split = short_training(load_dataset(name, root=data_folder)).split
    assert tuple(rows.stop for rows in split) == ends
