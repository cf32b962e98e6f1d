"""Folds, and the windows of each: the rows that train, validate and test never overlap."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.model import ModelConfig
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.splits import Fold, backtest_folds, fold_windows, network_windows, rolling_folds
from titans_ts.windows.windows import Windows, on_device


def panel_of(*lengths: int, missing: dict[int, list[int]] | None = None) -> Panel:
    """Series 's0', 's1', ... whose value is their row; rows of `missing` are filled in."""
    parts = []
    for i, n in enumerate(lengths):
        values = np.arange(float(n))
        values[(missing or {}).get(i, [])] = np.nan
        parts.append(pd.DataFrame({"unique_id": f"s{i}", "ds": np.arange(n), "y": values}))
    return read_table(pd.concat(parts), freq=1, missing="ffill")


def rows_of(fold: Fold) -> list[tuple[int, int, int]]:
    return [tuple(rows) for rows in np.stack([fold.train, fold.validation, fold.test], axis=1).tolist()]


@pytest.mark.parametrize(
    ("val_size", "expected"),
    [
        (None, 90),
        (0.25, 75),
        (20, 80),
        (np.int64(20), 80),
        (2, 96),
        (0, 100),
        (0.0, 100),
        (0.96, 100),
        (96, 100),
        (10**30, 100),
    ],
)
def test_the_last_rows_validate(val_size: Any, expected: int) -> None:
    """A tenth if nothing is said, at least the horizon, and none where a window to train on would be missing."""
    (fold,) = backtest_folds(panel_of(100), 4, val_size=val_size)
    assert rows_of(fold) == [(expected, 100, 100)]
    assert fold.validated.tolist() == [expected < 100]


def test_a_series_too_short_to_validate_is_trained_on_whole() -> None:
    (fold,) = backtest_folds(panel_of(100, 8, 9), 4)
    assert rows_of(fold) == [(90, 100, 100), (8, 8, 8), (5, 9, 9)]


def test_a_series_with_nothing_observed_to_validate_by_is_trained_on_whole() -> None:
    (fold,) = backtest_folds(panel_of(40, 41, missing={0: list(range(35, 39))}), 4, val_size=4)
    assert rows_of(fold) == [(40, 40, 40), (37, 41, 41)]  # the only future of the first begins after a filled row


def test_test_rows_come_last_and_are_neither_trained_nor_validated_on() -> None:
    (fold,) = backtest_folds(panel_of(100, 60), 4, val_size=10, test_size=20)
    assert rows_of(fold) == [(70, 80, 100), (30, 40, 60)]


def test_folds_go_back_one_block_of_validation_rows_after_the_other() -> None:
    folds = backtest_folds(panel_of(100, 60), 4, val_size=10, n_windows=3)
    assert [rows_of(fold) for fold in folds] == [
        [(90, 100, 100), (50, 60, 60)],
        [(80, 90, 90), (40, 50, 50)],
        [(70, 80, 80), (30, 40, 40)],
    ]


def test_a_share_is_of_the_rows_up_to_each_folds_end() -> None:
    folds = backtest_folds(panel_of(100), 4, val_size=0.5, n_windows=3)
    assert [rows_of(fold)[0] for fold in folds] == [(50, 100, 100), (25, 50, 50), (12, 25, 25)]


def test_a_fold_is_what_a_table_cut_at_its_end_would_be_split_into() -> None:
    panel = panel_of(100, 60, missing={0: [85, 86, 87, 88], 1: [3]})
    for fold in backtest_folds(panel, 4, val_size=6, n_windows=4):
        (again,) = backtest_folds(panel.head(fold.validation), 4, val_size=6)
        assert rows_of(again) == rows_of(Fold(fold.train, fold.validation, fold.validation))


@pytest.mark.parametrize("val_size", [-1, 1.0, 1.5, -0.1, True, "10", float("nan")])
def test_refuses_a_size_that_is_none(val_size: Any) -> None:
    message = f"`val_size` must be a number of rows or a share in [0, 1), got {val_size!r}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        backtest_folds(panel_of(50), 4, val_size=val_size)


def test_a_table_too_short_to_learn_from_is_named_by_its_longest_series() -> None:
    with pytest.raises(ValueError, match=r"at least `horizon` \+ 1 = 7 rows .* the longest, 's1', has 6\. Lower"):
        backtest_folds(panel_of(5, 6, 4), 6)


def test_more_folds_than_the_rows_have_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"`n_windows` = 9 leaves no validation rows for window 4\. Lower it"):
        backtest_folds(panel_of(20), 4, val_size=5, n_windows=9)


def futures(windows: Windows | None) -> set[tuple[int, int]]:
    """The rows of each series that are asked for: its value is its row."""
    if windows is None:
        return set()
    found = set()
    for batch in windows.batches(1000):
        for series, future in zip(batch.series.tolist(), batch.future.long().tolist(), strict=True):
            found |= {(series, row) for row in future}
    return found


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(8, 40), min_size=1, max_size=3),
    lookback=st.integers(1, 12),
    horizon=st.integers(1, 5),
    val_size=st.integers(0, 12),
    test_size=st.integers(0, 2),
)
def test_windows_of_a_fold_ask_for_its_rows_alone(
    lengths: list[int], lookback: int, horizon: int, val_size: int, test_size: int
) -> None:
    panel = panel_of(*lengths)
    (fold,) = backtest_folds(panel, horizon, val_size=val_size, test_size=test_size)
    data = on_device(panel.data, torch.device("cpu"))
    windows = fold_windows(data, fold, lookback=lookback, horizon=horizon)
    for part, first, last in (
        (windows.train, np.zeros_like(fold.train), fold.train),
        (windows.validation, fold.train, fold.validation),
        (windows.test, fold.validation, fold.test),
    ):
        allowed = {(i, row) for i in range(len(lengths)) for row in range(first[i], last[i])}
        assert futures(part) <= allowed
        if part is not windows.train:  # all of them, where there are enough for one window
            enough = {(i, row) for i, row in allowed if last[i] - first[i] >= horizon}
            assert futures(part) == enough


def test_training_begins_after_a_full_lookback_or_in_short_series_halfway() -> None:
    panel = panel_of(30, 9, 5)
    fold = Fold(panel.data.lengths, panel.data.lengths, panel.data.lengths)
    windows = fold_windows(on_device(panel.data, torch.device("cpu")), fold, lookback=8, horizon=3)
    first = {i: min(row for series, row in futures(windows.train) if series == i) for i in range(3)}
    assert first == {0: 8, 1: 3, 2: 1}
    assert windows.validation is None
    assert windows.test is None


def test_a_series_observed_early_alone_is_trained_on_from_its_second_row() -> None:
    panel = panel_of(12, 12, missing={1: [*range(4, 11)]})  # its last row is there, after one that is not
    fold = Fold(panel.data.lengths, panel.data.lengths, panel.data.lengths)
    windows = fold_windows(on_device(panel.data, torch.device("cpu")), fold, lookback=6, horizon=2)
    rows = {row for series, row in futures(windows.train) if series == 1}
    assert min(rows) == 1


def test_rolling_folds_lie_within_train_and_validation_rows_the_latest_first() -> None:
    fold = Fold(np.array([120, 120]), np.array([160, 160]), np.array([200, 200]))
    found = [(part.train[0], part.validation[0], part.test[0]) for part in rolling_folds(fold, 20, 10)]
    assert found == [(100, 130, 160), (70, 100, 130)]
    assert len(rolling_folds(fold, 51, 10)) == 1, "a lookback and two horizons do not fit into 70 rows"
    assert rolling_folds(fold, 20, 31) == [], "30 rows do not hold a horizon"


def test_rolling_folds_are_for_the_typical_series_among_those_that_validate() -> None:
    rows = np.array([160, 160, 20])
    assert len(rolling_folds(Fold(rows - 10, rows, rows), 20, 10)) == 2
    assert rolling_folds(Fold(rows - [0, 0, 10], rows, rows), 20, 10) == []


def test_the_fold_of_some_series_has_their_rows_in_the_order_asked_for() -> None:
    fold = Fold(np.array([1, 2, 3]), np.array([4, 5, 6]), np.array([7, 8, 9])).take(np.array([2, 0]))
    assert (fold.train.tolist(), fold.validation.tolist(), fold.test.tolist()) == ([3, 1], [6, 4], [9, 7])


@pytest.mark.parametrize("across", [False, True])
def test_windows_of_a_network_have_the_features_that_it_reads(across: bool) -> None:
    values = np.random.default_rng(0).normal(size=(2, 30))
    data = on_device(read_table(values.T).data, torch.device("cpu"))
    shape = dict(lookback=5, horizon=2, n_series=2, linear_per_series=across, linear_cross_series=across)
    fold = Fold(np.array([20, 20]), np.array([26, 26]), np.array([30, 30]))
    found = network_windows(data, fold, ModelConfig(**shape))
    assert [None if part is None else len(part) for part in found] == [2 * 14, 2 * 5, 2 * 3]
    features = found.train.batch(torch.tensor([0])).cross_series
    if not across:
        assert features is None
        return
    means = [values[:, 4], values[:, 3], values[:, 1:3].mean(1), values[:, 0], values[:, :5].mean(1)]
    np.testing.assert_allclose(features[0].numpy(), np.transpose(means), rtol=1e-6)


def test_a_series_of_weight_0_has_no_windows() -> None:
    data = SeriesData(torch.arange(120.0), np.array([60, 60]), np.array([0, 0]))
    fold = Fold(np.array([40, 40]), np.array([60, 60]), np.array([60, 60])).weighted(np.array([0.0, 2.0]), 7.0)
    assert fold.validated.tolist() == [False, True]
    assert fold.learned.tolist() == [1]
    windows = fold_windows(data, fold, lookback=8, horizon=4)
    for part, half_life in ((windows.train, 7.0), (windows.validation, None)):
        (batch,) = part.batches(1000)
        assert batch.series.unique().tolist() == [1]
        assert part.half_life == half_life
    both = Fold(np.array([40, 40]), np.array([60, 60]), np.array([60, 60])).weighted(np.array([1.0, 2.0]), None)
    assert both.take(np.array([1])).weight.tolist() == [2]
