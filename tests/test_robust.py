"""One series must not harm another, nor one value its series (the second set of cases, 38 and 39)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts import TitansForecaster

ROWS, AHEAD = 400, 6


def small(**parameters: Any) -> TitansForecaster:
    given = dict(horizon=6, lookback=24, d_model=16, n_layers=1, max_epochs=1, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**given, **parameters})


def waves(n: int, rows: int = ROWS + AHEAD) -> pd.DataFrame:
    """Hourly waves of amplitude 10 and a period of a day."""
    t, rng = np.arange(rows), np.random.default_rng(0)
    values = {f"s{i}": 10 * np.sin(2 * np.pi * t / 24 + i) + 0.1 * rng.normal(size=rows) for i in range(n)}
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=rows, freq="h"))


def errors(model: TitansForecaster, truth: pd.DataFrame) -> pd.Series:
    """The mean absolute error of each series."""
    return (model.predict(AHEAD) - truth.iloc[ROWS : ROWS + AHEAD]).abs().mean()


@pytest.mark.parametrize("row", [50, 380, 399])
@pytest.mark.parametrize("value", [1000.0, -9999.0])
def test_38_an_outlier_harms_neither_its_series_nor_the_others(value: float, row: int) -> None:
    truth = waves(3)
    history = truth.iloc[:ROWS].copy()
    clean = errors(small().fit(history), truth)
    history.iloc[row, 0] = value
    with pytest.warns(UserWarning, match=rf"{value:g} in series 's0' at {history.index[row]:%Y-%m-%d}"):
        model = small().fit(history)
    assert (errors(model, truth) < clean + 0.3).all()  # of an amplitude of 10; flat lines err by 6
    forecast = model.predict(24)["s0"]
    assert (forecast.max() - forecast.min()) / 2 == pytest.approx(10, rel=0.2)


def test_38_outliers_may_be_kept_and_harm_no_other_series() -> None:
    truth = waves(4)
    history = truth.iloc[:ROWS].copy()
    clean = errors(small().fit(history), truth)
    history.iloc[380, 0] = 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = errors(small(outliers="keep").fit(history), truth)
    assert (found[1:] < clean[1:] + 0.3).all()


def test_38_a_wild_series_harms_no_other() -> None:
    """Not one value but all that is to be forecast in validation: nothing to be told as an outlier."""
    truth = waves(4)
    history = truth.iloc[:ROWS].copy()
    clean = errors(small().fit(history), truth)
    history.iloc[340:, 0] = 1e4 * np.random.default_rng(1).normal(size=60)
    found = errors(small(outliers="keep").fit(history), truth)
    assert (found[1:] < clean[1:] + 0.3).all()


def test_refuses_to_do_anything_else_with_outliers() -> None:
    with pytest.raises(ValueError, match=r"^`outliers` must be one of \('fill', 'keep'\), got 'drop'\.$"):
        small(outliers="drop").fit(waves(1))


@pytest.mark.parametrize("value", [1e-6, 7.0, -3e9, 0.0])
def test_39_a_constant_among_others_is_forecast_as_an_unseen_constant_is(value: float) -> None:
    rng = np.random.default_rng(0)
    chaos = np.empty((300, 4))
    chaos[0] = rng.uniform(0.1, 0.9, size=4)
    for t in range(1, 300):
        chaos[t] = 3.9 * chaos[t - 1] * (1 - chaos[t - 1])
    index = pd.date_range("2024-01-01", periods=300, freq="h")
    table = pd.DataFrame(chaos, index=index, columns=list("abcd")).assign(flat=value)
    model = small(max_epochs=0).fit(table)
    torch.nn.init.constant_(model.network_.head.project.bias, 0.3)  # as training of the others may leave it
    seen = model.predict(15)["flat"]
    unseen = model.predict(15, df=table[["flat"]].set_axis(["other"], axis=1))["other"]
    assert seen.tolist() == unseen.tolist() == [value] * 15


def test_39_a_series_that_was_constant_and_is_no_more_is_forecast_at_its_new_scale() -> None:
    table = waves(2, 400).assign(flat=5.0)
    model = small().fit(table.iloc[:300])
    later = table.iloc[300:].assign(flat=1e6 + 1e3 * np.sin(2 * np.pi * np.arange(100) / 24))
    forecast = model.predict(24, df=later)["flat"]
    assert forecast.between(1e6 - 2e3, 1e6 + 2e3).all()
    assert forecast.max() - forecast.min() > 1e3
