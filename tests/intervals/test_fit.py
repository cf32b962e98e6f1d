"""Which origins calibrate a fit: validation rows, those of the candidates of a combination, or train rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from titans_ts.combination import Candidates
from titans_ts.intervals.calibration import MOST_ORIGINS
from titans_ts.intervals.fit import HeldOut
from titans_ts.intervals.origins import NONE
from titans_ts.tables.read import read_table
from titans_ts.windows.splits import Fold, backtest_folds

HORIZON, LOOKBACK = 4, 10


def fold_of(train: list[int], validation: list[int]) -> Fold:
    return Fold(np.array(train), np.array(validation), np.array(validation))


def test_origins_are_of_validation_rows_and_none_of_a_series_without() -> None:
    plan = HeldOut.of(fold_of([50, 20, 30], [60, 20, 35]), LOOKBACK, HORIZON, 1, np.ones(3, dtype=bool), None)
    assert plan.held_out
    assert plan.series.tolist() == [0, 1, 2]
    assert plan.rows.tolist() == [[50, 51, 52, 53, 54, 55, 56], [NONE] * 7, [NONE] * 5 + [30, 31]]
    assert (plan.n_combined, plan.capacity) == (0, MOST_ORIGINS)


def test_long_validation_rows_have_no_more_origins_than_there_is_room_for() -> None:
    plan = HeldOut.of(fold_of([5000], [9000]), LOOKBACK, HORIZON, 1, np.ones(1, dtype=bool), None)
    assert plan.rows.shape == (1, MOST_ORIGINS)
    assert (plan.rows[0, 0], plan.rows[0, -1]) == (5000, 9000 - HORIZON)
    assert set(np.diff(plan.rows[0])) <= {20, 21}


def test_where_nothing_is_held_out_origins_are_of_train_rows() -> None:
    plan = HeldOut.of(fold_of([30, 6], [30, 6]), LOOKBACK, HORIZON, 1, np.ones(2, dtype=bool), None)
    assert not plan.held_out
    assert plan.rows[0].tolist() == list(range(10, 27))
    assert plan.rows[1, -2:].tolist() == [1, 2]


def test_a_series_that_does_not_vary_is_left_out() -> None:
    varies = np.array([True, False, True])
    plan = HeldOut.of(fold_of([50] * 3, [60] * 3), LOOKBACK, HORIZON, 1, varies, None)
    assert plan.series.tolist() == [0, 2]
    none = HeldOut.of(fold_of([50] * 3, [60] * 3), LOOKBACK, HORIZON, 1, np.zeros(3, dtype=bool), None)
    assert len(none.series) == 0


def test_the_origins_of_a_combination_come_first() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), pd.date_range("2024-01-01", periods=60), columns=list("abc"))
    panel = read_table(table)
    (fold,) = backtest_folds(panel, HORIZON, val_size=6)
    candidates = Candidates.fit(panel, fold, HORIZON, ())
    plan = HeldOut.of(fold, LOOKBACK, HORIZON, 1, np.array([True, False, True]), candidates)
    assert plan.series.tolist() == [0, 2]
    assert plan.n_combined == candidates.origins.shape[1]
    assert plan.rows[:, : plan.n_combined].tolist() == candidates.origins[[0, 2]].tolist()
    assert plan.rows[:, plan.n_combined :].tolist() == [[54, 55, 56]] * 2


@pytest.mark.parametrize("n_series", [200_000])
def test_many_series_are_calibrated_by_evenly_spaced_ones(n_series: int) -> None:
    ones = np.ones(n_series, dtype=np.int64)
    fold = Fold(80 * ones, 100 * ones, 100 * ones)
    plan = HeldOut.of(fold, LOOKBACK, 24, 1, np.ones(n_series, dtype=bool), None)
    assert 15_000 < len(plan.series) < 25_000
    assert len(set(np.diff(plan.series))) == 1
