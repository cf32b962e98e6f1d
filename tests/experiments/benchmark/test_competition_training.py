"""What training is worth, on a group whose series follow a map that no linear one comes near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark import competition_training
from benchmark.competition_training import VARIANTS, ClosedForm, Outcome, outcomes
from titans_ts import TitansForecaster
from titans_ts.tables.read import read_table
from titans_ts.windows.splits import backtest_folds

HORIZON, EPOCHS, SEED = 2, 3, 1
CHOSEN = ["closed form", "memory", "memory that never writes", "no mixer", "attention"]
COMMON = ["closed form, common path", "memory, common path"]


@pytest.fixture(scope="module")
def train() -> pd.DataFrame:
    """x -> 1 - 1.8 x², of 60 series of 40 years."""
    x, values = np.random.default_rng(0).uniform(-0.5, 0.5, 60), []
    for _ in range(40):
        x = 1 - 1.8 * x**2
        values.append(x)
    years = pd.date_range("1960-01-01", periods=40, freq="YS")
    wide = pd.DataFrame(np.array(values), index=years, columns=[f"s{i:02}" for i in range(60)])
    long: pd.DataFrame = wide.rename_axis("ds").reset_index().melt("ds", var_name="unique_id", value_name="y")
    return long[["unique_id", "ds", "y"]]


@pytest.fixture(scope="module")
def found(train: pd.DataFrame) -> dict[str, Outcome]:
    return {one.variant: one for one in outcomes(train, HORIZON, CHOSEN, EPOCHS, [SEED], lambda *run: True)}


def test_the_closed_form_is_the_estimators(train: pd.DataFrame, found: dict[str, Outcome]) -> None:
    alone = TitansForecaster(horizon=HORIZON, combine=False, max_epochs=0, random_state=0, verbose=0).fit(train)
    combined = TitansForecaster(horizon=HORIZON, max_epochs=0, random_state=0, verbose=0).fit(train)
    closed = found["closed form"]
    pd.testing.assert_frame_equal(closed.forecast, alone.predict())
    assert (closed.epochs, closed.seed, closed.kept_epoch) == (0, 0, 0)
    assert closed.error_before == alone.history_.best.relative_error
    assert np.isnan(closed.error_after)
    assert combined.fitted_.combination is not None
    assert closed.weighed.weight == combined.fitted_.combination.weights[0]
    summary = combined.summary().query("choice == 'combination' and chosen")
    assert closed.weighed.error == summary["relative_error"].item()


def test_every_network_begins_there_and_is_trained_alike(found: dict[str, Outcome]) -> None:
    assert list(found) == CHOSEN
    closed, *trained = found.values()
    assert len({one.error_before for one in found.values()}) == 1
    for one in trained:
        assert (one.epochs, one.seed) == (EPOCHS, SEED)
        assert one.error_after < 0.9 * one.error_before, "what a linear map cannot do is learned"
        assert 0 < one.kept_epoch <= EPOCHS
        assert one.weighed.weight > closed.weighed.weight
        assert one.weighed.error < closed.weighed.error
        assert not np.allclose(one.forecast["Titans"], closed.forecast["Titans"])
    assert len({one.error_after for one in trained}) == len(trained), "no two networks are one"


def test_a_network_can_begin_in_the_common_path(train: pd.DataFrame) -> None:
    settings: dict[str, Any] = dict(horizon=HORIZON, combine=False, max_epochs=0, random_state=0, verbose=0)
    alone = TitansForecaster(linear_path=True, **settings).fit(train)
    closed, memory = outcomes(train, HORIZON, COMMON, EPOCHS, [SEED], lambda *run: True)
    assert list(VARIANTS) == [*CHOSEN, *(f"{name}, common path" for name in CHOSEN)]
    assert [closed.variant, memory.variant] == COMMON
    pd.testing.assert_frame_equal(closed.forecast, alone.predict())
    assert closed.error_before == memory.error_before == alone.history_.best.relative_error
    assert memory.error_after < 0.9 * memory.error_before


def test_the_closed_form_is_kept_where_training_gains_nothing(train: pd.DataFrame) -> None:
    """Walks, of which nothing is to be learned."""
    steps = np.random.default_rng(0).normal(size=(60, 40))
    walks = train.sort_values(["unique_id", "ds"]).assign(y=steps.cumsum(1).ravel())
    closed, memory = outcomes(walks, HORIZON, CHOSEN[:2], 1, [SEED], lambda *run: True)
    assert memory.error_after > memory.error_before
    assert memory.kept_epoch == 0
    np.testing.assert_allclose(memory.forecast["Titans"], closed.forecast["Titans"], rtol=1e-6)
    assert memory.weighed.weight == closed.weighed.weight
    assert memory.weighed.error == pytest.approx(closed.weighed.error, rel=1e-6)


def test_only_what_is_wanted_is_measured(train: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = outcomes(train, HORIZON, CHOSEN, 1, [0, 2], lambda *run: run == ("no mixer", 1, 2))
    assert (one.variant, one.epochs, one.seed) == ("no mixer", 1, 2)
    monkeypatch.setattr(competition_training, "ClosedForm", None)  # which is not solved for in vain
    assert list(outcomes(train, HORIZON, CHOSEN, 1, [0], lambda *run: False)) == []


def test_where_nothing_validates_the_combination_has_no_error() -> None:
    table = pd.DataFrame(
        {"unique_id": "a", "ds": pd.date_range("2000-01-01", periods=4, freq="YS"), "y": [1.0, 3, 2, 4]}
    )
    (fold,) = backtest_folds(read_table(table), HORIZON)
    assert not fold.validated.any()
    found = ClosedForm.of(table, HORIZON).outcome("closed form")
    assert np.isnan(found.weighed.error)
    assert found.weighed.weight == pytest.approx(1 / 3), "all count alike"
