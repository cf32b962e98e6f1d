"""Forecasts of rows from cutoffs among them equal those of the rows before each, made one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from titans_ts import TitansForecaster
from titans_ts.insample import cutoffs_of
from titans_ts.tables.read import read_table

HOURS = pd.date_range("2024-01-01", periods=300, freq="h")


def forecaster(**parameters) -> TitansForecaster:
    given = dict(
        horizon=4, lookback=24, d_model=8, n_layers=1, n_heads=2, max_epochs=0, combine=False, context="window",
        random_state=0, verbose=0,
    )  # fmt: skip
    return TitansForecaster(**{**given, **parameters})


def waves(lengths: tuple[int, ...] = (120, 90)) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"unique_id": f"s{i}", "ds": HOURS[:n], "y": 3 * np.sin(np.arange(n) / 4) + rng.normal(size=n)})
        for i, n in enumerate(lengths)
    ]
    return pd.concat(parts, ignore_index=True)


def one_by_one(model: TitansForecaster, table: pd.DataFrame, frame: pd.DataFrame, h: int) -> np.ndarray:
    """`predict` from the rows up to each cutoff of a frame."""
    found = []
    for (name, cutoff), _ in frame.groupby(["unique_id", "cutoff"], sort=False):
        rows = table[(table["unique_id"] == name) & (table["ds"] <= cutoff)]
        found.append(model.predict(h, rows)["Titans"].to_numpy())
    return np.concatenate(found)


@pytest.mark.parametrize("parameters", [{}, {"linear_path": "per_series"}, {"combine": True}, {"context": "stream"}])
def test_each_forecast_is_that_of_the_rows_before_its_cutoff(parameters: dict) -> None:
    table = waves()
    model = forecaster(**parameters).fit(table)
    frame = model.predict_insample(table, step_size=13)
    assert list(frame.columns) == ["unique_id", "ds", "cutoff", "y", "Titans"]
    assert len(frame) == 4 * (9 + 7)
    assert frame["Titans"].to_numpy() == pytest.approx(one_by_one(model, table, frame, 4), abs=2e-5)


def test_series_with_cross_series_features_read_the_others_at_their_times() -> None:
    table = waves((120, 120))
    model = forecaster(linear_path="across").fit(table)
    frame = model.predict_insample(table, step_size=30)
    expected = [
        model.predict(4, table[table["ds"] <= cutoff]) for cutoff in sorted(frame["cutoff"].unique())
    ]  # of all series together
    found = frame.sort_values(["cutoff", "unique_id", "ds"])["Titans"].to_numpy()
    assert found == pytest.approx(pd.concat(expected)["Titans"].to_numpy(), abs=2e-5)


def test_each_row_that_can_be_is_forecast_once_and_the_last_window_is_there() -> None:
    table = waves((50, 3))
    frame = forecaster().fit(waves()).predict_insample(table)
    assert frame["ds"].tolist() == HOURS[2:50].tolist()
    assert frame["unique_id"].unique().tolist() == ["s0"]
    assert frame["y"].tolist() == table["y"][2:50].tolist()
    assert (frame["ds"] > frame["cutoff"]).all()


def test_a_series_that_was_not_fitted_has_the_scale_of_the_rows_before() -> None:
    table = waves().assign(y=lambda table: 100 * table["y"])
    table["unique_id"] = "other" + table["unique_id"]
    model = forecaster(max_epochs=0).fit(waves())
    frame = model.predict_insample(table, h=2, step_size=20)
    assert frame["Titans"].to_numpy() == pytest.approx(one_by_one(model, table, frame, 2), rel=1e-4)


def test_few_rows_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table, model = waves(), forecaster(context="stream").fit(waves())
    whole = model.predict_insample(table)
    monkeypatch.setattr("titans_ts.insample.MOST_ROWS", 100)
    pd.testing.assert_frame_equal(model.predict_insample(table), whole, rtol=1e-5, atol=1e-6)


def test_no_forecast_begins_at_a_filled_row_or_is_compared_with_one() -> None:
    table = waves((60,))
    table.loc[[40, 41, 50], "y"] = np.nan
    frame = forecaster(missing="interpolate").fit(table).predict_insample(table, h=2, step_size=1)
    # from hour 39 on, the two rows ahead were filled
    assert set(frame["cutoff"]) == set(HOURS[:58]) - {HOURS[39], HOURS[40], HOURS[41], HOURS[50]}
    assert not set(frame["ds"]) & {HOURS[40], HOURS[41], HOURS[50]}


def test_cutoffs_go_back_in_steps_from_the_last_with_rows_after_it() -> None:
    panel = read_table(np.arange(22.0).reshape(11, 2))
    series, seen = cutoffs_of(panel, 3, 4)
    assert series.tolist() == [0, 0, 1, 1]
    assert seen.tolist() == [4, 8, 4, 8]


def test_wrong_steps_are_named() -> None:
    model = forecaster().fit(waves())
    with pytest.raises(ValueError, match="`h` must be at most the trained horizon of 4, got 5"):
        model.predict_insample(waves(), 5)
    with pytest.raises(ValueError, match="`step_size` must be an integer >= 1, got 0"):
        model.predict_insample(waves(), step_size=0)
    with pytest.raises(ValueError, match="must have a series of more than `h` = 4 rows"):
        model.predict_insample(waves((4,)))


def test_effects_of_covariates_are_left_out_of_what_the_memory_reads_and_put_back() -> None:
    rng = np.random.default_rng(1)
    table = waves((150, 120)).assign(x=lambda table: rng.integers(0, 2, len(table)))
    table["y"] += 20 * table["x"]
    model = forecaster(context="stream", future_cols=["x"]).fit(table)
    assert model.fitted_.regression is not None
    assert model.fitted_.long_term is not None
    frame = model.predict_insample(table, step_size=29)
    expected = []
    for (name, cutoff), rows in frame.groupby(["unique_id", "cutoff"], sort=False):
        own = table[table["unique_id"] == name]
        future = own[own["ds"].isin(rows["ds"])].drop(columns="y")
        expected.append(model.predict(4, own[own["ds"] <= cutoff], future=future)["Titans"].to_numpy())
    assert frame["Titans"].to_numpy() == pytest.approx(np.concatenate(expected), abs=1e-4)
