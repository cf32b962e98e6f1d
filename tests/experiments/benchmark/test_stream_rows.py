"""The errors of rows at every origin: by hand, to a file and back, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.estimator import regular_frame
from benchmark.stream_data import Block, Clock, Stream, short_training
from benchmark.stream_rows import FROZEN, ROWS, Errors, Subject, measure
from titans_ts.datasets import Dataset, load_dataset
from titans_ts.fitting import FitOptions, fit_model
from titans_ts.model import ModelConfig
from titans_ts.tables.read import read_table
from titans_ts.training.config import TrainConfig
from titans_ts.windows.splits import backtest_folds


def zeros(first: int, *counts: int) -> Callable[[Subject, Clock], Iterator[Block]]:
    """A row that forecasts 0 in blocks of so many origins."""

    def row(subject: Subject, clock: Clock) -> Iterator[Block]:
        begin = first
        for count in counts:
            yield Block(begin, torch.zeros(2, count, 6))
            begin += count

    return row


def test_errors_are_means_over_the_steps_ahead(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    found, clock = measure(zeros(790, 5, 400), Subject(stream_of(small)))
    scaled = small.scaler.transform(small.frame)
    assert found.first == 790
    assert clock.updates == 0
    wanted = np.array([np.square(scaled[at : at + 6]).mean(0) for at in range(790, 1195)])
    np.testing.assert_allclose(found.squared, wanted, rtol=1e-5)
    wanted = np.array([np.abs(scaled[at : at + 6]).mean(0) for at in range(790, 1195)])
    np.testing.assert_allclose(found.absolute, wanted, rtol=1e-5)


def test_errors_of_some_origins_are_theirs() -> None:
    squared = np.arange(20, dtype=np.float32).reshape(10, 2)
    errors = Errors(100, squared, -squared)
    part = errors.at(range(103, 105))
    assert part.first == 103
    np.testing.assert_array_equal(part.squared, squared[3:5])
    np.testing.assert_array_equal(part.absolute, -squared[3:5])
    assert errors.at(range(50, 90)).squared.shape == (0, 2)


def test_errors_are_kept_in_a_file(tmp_path: Path) -> None:
    errors = Errors(7, np.ones((3, 2), dtype=np.float32), np.zeros((3, 2), dtype=np.float32))
    errors.save(tmp_path / "of" / "row.npz")
    held = Errors.load(tmp_path / "of" / "row.npz")
    assert held.first == 7
    np.testing.assert_array_equal(held.squared, errors.squared)
    np.testing.assert_array_equal(held.absolute, errors.absolute)


def test_forecasts_that_leave_origins_out_are_refused(small: Dataset, stream_of: Callable[..., Stream]) -> None:
    subject = Subject(stream_of(small))
    with pytest.raises(ValueError, match=r"cover the origins of test, range\(800, 1195\); got 800 to 1194"):
        measure(zeros(800, 394), subject)
    with pytest.raises(ValueError, match="got 801 to 1195"):
        measure(zeros(801, 394), subject)

    def gap(subject: Subject, clock: Clock) -> Iterator[Block]:
        yield Block(600, torch.zeros(2, 1, 6))
        yield Block(602, torch.zeros(2, 1, 6))

    with pytest.raises(ValueError, match="those from 602 on do not"):
        measure(gap, subject)

    def infinite(subject: Subject, clock: Clock) -> Iterator[Block]:
        yield Block(600, torch.full((2, 1, 6), torch.inf))

    with pytest.raises(ValueError, match="must be finite"):
        measure(infinite, subject)


def test_the_row_that_others_are_compared_with_is_the_first() -> None:
    assert next(iter(ROWS)) == FROZEN


@pytest.mark.data
@pytest.mark.parametrize(("name", "mse"), [("ETTh2", 1.8178), ("ETTm1", 1.4949), ("weather", 1.3986)])
def test_the_last_value_has_its_known_error_in_table_s2(name: str, mse: float, data_folder: Path) -> None:
    """Known from elsewhere: it tells a wrong split, scaler or count of windows."""
    data = short_training(load_dataset(name, root=data_folder))
    panel = read_table(regular_frame(data).iloc[: data.split.validation.stop])
    (fold,) = backtest_folds(panel, 24, val_size=len(data.split.validation))
    config = ModelConfig(lookback=24, horizon=24, n_series=panel.n_series, d_model=8, scale_windows=False)
    options = FitOptions(train_config=lambda n: TrainConfig(max_epochs=0), device=torch.device("cpu"))
    stream = Stream(data, fit_model(panel, fold, config, options))
    errors, _ = measure(ROWS["last value"], Subject(stream))
    assert errors.at(stream.test).squared.mean(dtype=np.float64) == pytest.approx(mse, abs=5e-5)
