"""A second fit that goes on from the first: what it keeps, what it learns, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from titans_ts import TitansForecaster

SIZE = dict(horizon=4, lookback=16, d_model=8, n_layers=1, n_heads=2, chunk_size=4)
HOW = dict(combine=False, context="window", random_state=0, device="cpu", verbose=0)


def tiny(**parameters: Any) -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW, "max_epochs": 1, "warm_start": True, **parameters})


def table(rows: int = 160, names: str = "ab", seed: int = 0) -> pd.DataFrame:
    noise = np.random.default_rng(seed).normal(size=(rows, len(names)))
    waves = np.sin(np.arange(rows)[:, None] * np.pi / 12 + np.arange(len(names)))
    return pd.DataFrame(
        waves + 0.3 * noise, index=pd.date_range("2024-01-01", periods=rows, freq="h"), columns=[*names]
    )


def test_the_second_fit_begins_where_the_first_ended() -> None:
    """Without validation rows the last weights are kept, so that training goes on from trained ones."""
    model = tiny(linear_path=False, cycle=0, val_size=0, batch_size=32, learning_rate=0.01).fit(table())
    weights, scaler = model.network_.state_dict(), model.scaler_
    first = model.history_.evaluations[1].train_loss
    model.set_params(max_epochs=0).fit(table())
    assert all(torch.equal(x, weights[name]) for name, x in model.network_.state_dict().items())
    model.set_params(max_epochs=1).fit(table())
    assert model.history_.evaluations[1].train_loss < 0.9 * first
    assert model.scaler_ is scaler
    assert model.history_.evaluations[0].step == 0


def test_later_rows_are_learned_from_at_the_scales_of_the_first() -> None:
    later = table(240)
    model = tiny(max_epochs=0).fit(later[:160])
    expected = model.predict(4, later)
    mean = model.scaler_.mean
    pd.testing.assert_frame_equal(model.fit(later[160:]).predict(), expected)  # nothing was trained
    assert np.array_equal(model.scaler_.mean, mean)
    assert not np.allclose(tiny(max_epochs=0).fit(later).scaler_.mean, mean)
    assert model.predict().index[0] == later.index[-1] + pd.Timedelta("1h")


def test_the_choices_of_the_first_fit_stay(tmp_path: Path) -> None:
    model = tiny(linear_path="auto", horizon=None, lookback=None, max_epochs=0).fit(table(300))
    config = model.network_.config
    model.fit(table(330)[300:])  # whose own defaults would be shorter
    assert model.network_.config == config
    assert len(model.summary()) == 0  # of this fit, which chose nothing
    model.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.fit(table(330)).predict(), model.fit(table(330)).predict())


def test_without_epochs_a_probe_says_whether_to_go_on() -> None:
    model = tiny(max_epochs=None).fit(table())
    assert model.fit(table()).history_.stopped == "few series"


def test_a_clone_and_a_fit_without_it_begin_anew() -> None:
    fresh = tiny(linear_path=False).fit(table()).predict()
    model = tiny(linear_path=False, val_size=0, max_epochs=2).fit(table())
    again = clone(model).set_params(max_epochs=1, val_size=None)
    assert not hasattr(again, "fitted_")
    pd.testing.assert_frame_equal(again.fit(table()).predict(), fresh)
    model.set_params(warm_start=False, max_epochs=1, val_size=None)
    pd.testing.assert_frame_equal(model.fit(table()).predict(), fresh)


@pytest.fixture(scope="module")
def fitted() -> TitansForecaster:
    return tiny(max_epochs=0, linear_path=True).fit(table())


@pytest.mark.parametrize(
    ("names", "message"),
    [("abc", "has the new series 'c'"), ("a", "lacks 'b'"), ("bc", "has the new series 'c' and lacks 'a'")],
)
def test_other_series_are_refused(fitted: TitansForecaster, names: str, message: str) -> None:
    before = fitted.predict()
    with pytest.raises(
        ValueError, match=f"^`df` must have the series fitted before .*, but {message}. Set `warm_start"
    ):
        fitted.fit(table(names=names))
    pd.testing.assert_frame_equal(fitted.predict(), before)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (dict(d_model=16, horizon=5), "`horizon` = 4 (now 5), `d_model` = 8 (now 16), which"),
        (dict(linear_path="per_series"), "`linear_per_series` = False (now True)"),
        (dict(loss="quantile"), "`n_outputs` = 1 (now 13)"),
    ],
)
def test_another_shape_is_refused(fitted: TitansForecaster, changed: dict[str, Any], message: str) -> None:
    before = fitted.get_params()
    try:
        with pytest.raises(ValueError, match=r"^`warm_start` goes on from a network with ") as refused:
            fitted.set_params(**changed).fit(table())
        assert message in str(refused.value)
    finally:
        fitted.set_params(**before)


def test_another_frequency_is_refused(fitted: TitansForecaster) -> None:
    days = table().set_axis(pd.date_range("2024-01-01 00:30", periods=160, freq="D"))
    with pytest.raises(ValueError, match="2024-01-01 00:30"):
        fitted.fit(days)


def test_what_is_no_flag_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^`warm_start` must be True or False, got 'yes'"):
        tiny(warm_start="yes").fit(table())
