"""The gate of the long-term memory along further rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from titans_ts import TitansForecaster

ROWS, FITTED = 260, 200


def model(context: str = "stream", **given: Any) -> TitansForecaster:
    how: dict[str, Any] = dict(horizon=24, lookback=24, d_model=8, n_layers=1, max_epochs=0, verbose=0, random_state=0)
    return TitansForecaster(**how, context=context, linear_path=True, combine=False, **given)


@pytest.fixture(scope="module")
def wide() -> pd.DataFrame:
    rng, t = np.random.default_rng(1), np.arange(ROWS)
    noise = rng.normal(0, 0.3, (ROWS, 2))
    swing = 1 + (t > 0.5 * ROWS)
    table = {name: swing * np.sin(2 * np.pi * t / 24 + i) + noise[:, i] for i, name in enumerate("ab")}
    return pd.DataFrame(table, index=pd.date_range("2024-01-01", periods=ROWS, freq="h", name="when"))


def test_shares_are_those_after_updates_to_each_time(wide: pd.DataFrame) -> None:
    fitted = model().fit(wide[:FITTED])
    later = wide[FITTED:]
    found = fitted.gates(later, every=25)
    assert found.columns.tolist() == ["unique_id", "ds", "smooth", "seasonal"]
    assert found["unique_id"].tolist() == ["a"] * 3 + ["b"] * 3
    assert found["ds"].tolist() == 2 * later.index[[24, 49, 59]].tolist()
    for i, (begin, until) in enumerate(((0, 25), (25, 50), (50, 60))):
        updated = fitted.update(later[begin:until]).fitted_.long_term
        shares = updated.memory.shares(updated.state, torch.arange(2))[0].numpy()
        assert found.iloc[[i, i + 3], 2:].to_numpy() == pytest.approx(shares, abs=1e-5)
    assert found["smooth"].nunique() > 3


def test_the_model_stays_where_it_is(wide: pd.DataFrame) -> None:
    fitted = model().fit(wide[:FITTED])
    before = fitted.predict()
    fitted.gates(wide[FITTED:])
    pd.testing.assert_frame_equal(fitted.predict(), before)


def test_a_season_is_between_two_readings_and_series_may_end_apart(wide: pd.DataFrame) -> None:
    long = wide.reset_index().melt("when", var_name="shop", value_name="sold")
    names = dict(id_col="shop", time_col="when", target_col="sold")
    fitted = model(**names).fit(pl.from_pandas(long[long["when"] < wide.index[FITTED]]))
    later = long[(long["when"] >= wide.index[FITTED]) & ((long["shop"] == "b") | (long["when"] < wide.index[230]))]
    found = fitted.gates(pl.from_pandas(later))
    assert isinstance(found, pl.DataFrame)
    assert found["shop"].to_list() == ["a", "a", "b", "b", "b"]
    assert found["when"].to_list() == [wide.index[i] for i in (223, 229, 223, 247, 259)]


def test_a_model_without_a_memory_has_no_gates(wide: pd.DataFrame) -> None:
    fitted = model("window").fit(wide[:FITTED])
    with pytest.raises(ValueError, match=r"does not read; fit it with `context='stream'`"):
        fitted.gates(wide[FITTED:])


def test_rows_must_follow_and_every_must_count(wide: pd.DataFrame) -> None:
    fitted = model().fit(wide[:FITTED])
    with pytest.raises(ValueError, match=r"repeats rows that the model has seen"):
        fitted.gates(wide)
    with pytest.raises(ValueError, match="`every`"):
        fitted.gates(wide[FITTED:], every=0)
