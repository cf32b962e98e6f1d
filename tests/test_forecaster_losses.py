"""What a fit is trained by: quantiles, a user's function, and what becomes of them in a search and on disk."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution
from sklearn.base import clone
from torch import Tensor

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.model import point_of
from titans_ts.training.losses import LEVELS

SIZE = dict(horizon=6, lookback=24, d_model=8, n_layers=1, n_heads=2, chunk_size=4)
HOW = dict(combine=False, context="window", linear_path=True, random_state=0, device="cpu", verbose=0)


def tiny(**parameters: Any) -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW, **parameters})


def waves(rows: int = 240) -> pd.DataFrame:
    hours, rng = np.arange(rows), np.random.default_rng(0)
    values = {"a": np.sin(hours * np.pi / 12), "b": 5 * np.cos(hours * np.pi / 12)}
    noisy = {name: wave + rng.normal(size=rows) for name, wave in values.items()}
    return pd.DataFrame(noisy, index=pd.date_range("2024-01-01", periods=rows, freq="h"))


def fourth(forecast: Tensor, truth: Tensor) -> Tensor:
    return (forecast - truth) ** 4


@pytest.fixture(scope="module")
def trained() -> TitansForecaster:
    return tiny(loss="quantile", max_epochs=1, learning_rate=5e-3, val_size=0).fit(waves())


def test_the_initialisation_forecasts_what_that_of_squares_does() -> None:
    found, other = (tiny(loss=loss, max_epochs=0).fit(waves()) for loss in ("quantile", "mse"))
    pd.testing.assert_frame_equal(found.predict(20), other.predict(20))
    quantiles = found.fitted_.forecast(20)
    assert quantiles.shape == (2, 20, len(LEVELS))
    assert found.network_.config.levels == LEVELS
    # of rows that were fitted, about so many lie below: the noise is 1, and wide quantiles span it
    wide = quantiles[..., -1] - quantiles[..., 0]
    assert (wide > 2).all()
    assert (wide < 7).all()


def test_trained_quantiles_do_not_cross_and_predict_writes_their_median(trained: TitansForecaster) -> None:
    assert trained.history_.best.step > 0, "without validation rows what was trained is kept"
    quantiles = trained.fitted_.forecast(20)
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    assert np.array_equal(trained.predict(20).to_numpy().T, point_of(quantiles))
    assert np.isfinite(trained.score(waves(250)[240:]))


def test_validation_is_by_the_same_loss() -> None:
    trained = tiny(loss="quantile", max_epochs=1, val_size=24).fit(waves())
    by_itself = tiny(loss="quantile", max_epochs=0, val_size=24).fit(waves(), val_loss="quantile").history_
    assert trained.history_.evaluations[0].relative_error == by_itself.best.relative_error
    point = tiny(max_epochs=0, val_size=24)
    absolute, pinball = (point.fit(waves(), val_loss=loss).history_.best for loss in ("mae", "quantile"))
    assert pinball.relative_error == pytest.approx(absolute.relative_error, rel=1e-6)  # of points it is that
    assert by_itself.best.relative_error < 0.85 * absolute.relative_error  # quantiles tell more
    squares = tiny(loss="quantile", max_epochs=0, val_size=24).fit(waves(), val_loss="mse").history_
    assert squares.best.relative_error == pytest.approx(
        point.fit(waves()).history_.best.relative_error, rel=1e-5
    )  # of the median


def test_combined_and_corrected_quantiles_move_with_the_point() -> None:
    model = tiny(loss="quantile", max_epochs=0, combine=True, context="stream", lower=-1.0).fit(waves())
    alone = tiny(loss="quantile", max_epochs=0).fit(waves())
    assert model.fitted_.combination is not None
    quantiles = model.fitted_.forecast(6)
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    assert quantiles.min() == -1
    widths, expected = (np.diff(m.fitted_.forecast(6), axis=-1)[1] for m in (model, alone))
    free = model.fitted_.forecast(6)[1, :, 0] > -1  # not at the bound
    np.testing.assert_allclose(widths[free], expected[free], rtol=1e-5)
    assert not np.allclose(model.predict(), alone.predict())
    points = tiny(max_epochs=0, combine=True, context="stream", lower=-1.0).fit(waves())
    pd.testing.assert_frame_equal(model.predict(), points.predict())


def test_it_is_saved(trained: TitansForecaster, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert loaded.loss == "quantile"
    assert np.array_equal(loaded.fitted_.forecast(20), trained.fitted_.forecast(20))


def test_a_constant_has_quantiles_of_no_width() -> None:
    table = waves().assign(flat=7.0)
    found = tiny(loss="quantile", max_epochs=1).fit(table).fitted_.forecast(10)[2]
    np.testing.assert_allclose(found, 7.0, atol=1.0)
    assert np.isfinite(found).all()


# A function


def test_a_function_trains_as_the_loss_of_its_name_does() -> None:
    def squares(forecast: Tensor, truth: Tensor) -> Tensor:
        return (forecast - truth) ** 2

    found, other = (tiny(loss=loss, max_epochs=1).fit(waves()) for loss in (squares, "mse"))
    errors, expected = ([e.relative_error for e in m.history_.evaluations] for m in (found, other))
    np.testing.assert_allclose(errors, expected, rtol=1e-4)
    np.testing.assert_allclose(found.predict(), other.predict(), rtol=1e-4, atol=1e-4)


def test_a_function_is_kept_by_clone_and_get_params() -> None:
    model = tiny(loss=fourth)
    assert model.get_params()["loss"] is fourth
    assert clone(model).loss is fourth
    assert pickle.loads(pickle.dumps(model)).loss is fourth


def test_a_function_is_tried_before_anything_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("titans_ts.fitting.initialised_network", None)
    with pytest.raises(ValueError, match=r"^`loss`, the function .*, must return the loss of every entry"):
        tiny(loss=lambda f, t: (f - t).mean()).fit(waves())
    with pytest.raises(ValueError, match=r"^`val_loss`, the function .*, must be differentiable"):
        tiny().fit(waves(), val_loss=lambda f, t: (f > t).float())
    with pytest.raises(ValueError, match=r"^`loss` must be one of .*'quantile'\) or a function .*, got 'rmse'\.$"):
        tiny(loss="rmse").fit(waves())


def test_a_model_saved_with_a_function_loads_without_it_and_asks_for_it(tmp_path: Path) -> None:
    model = tiny(loss=fourth, max_epochs=1).fit(waves())
    model.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.predict(), model.predict())
    loaded.save(tmp_path / "again")
    again = TitansForecaster.load(tmp_path / "again")
    assert again.loss == loaded.loss
    assert clone(again).loss == loaded.loss
    name = f"{__name__}.fourth"
    with pytest.raises(ValueError, match=rf"^`loss` was the function {name} when .*: set_params\(loss=\.\.\.\)\.$"):
        again.fit(waves())
    assert again.predict().shape == (6, 2)
    fitted = again.set_params(loss=fourth).fit(waves())
    pd.testing.assert_frame_equal(fitted.predict(), model.predict())


def test_a_search_has_functions_and_quantiles_among_its_losses() -> None:
    space = {"loss": CategoricalDistribution(["mse", "quantile"])}
    found = TitansSearchCV(tiny(max_epochs=0), space, n_trials=4, scoring="quantile", random_state=0).fit(waves())
    assert found.best_params_ == {"loss": "quantile"}  # a distribution has less of that error than a point
    search = TitansSearchCV(
        tiny(loss=fourth, max_epochs=1), {"d_model": CategoricalDistribution([8])}, n_trials=1, scoring=fourth
    ).fit(waves())
    assert search.best_estimator_.loss is fourth
    assert search.study_.user_attrs["terms"]["loss"].startswith(f"{__name__}.fourth, hash ")
