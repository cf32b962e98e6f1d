"""When `fit` trains its network, how long it takes, and what an interrupt leaves."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from titans_ts import TitansForecaster
from titans_ts import fitting as fitting_module
from titans_ts.progress import Progress
from titans_ts.training.history import Evaluation

SERIES, ROWS = 240, 40


def tiny(**parameters: Any) -> TitansForecaster:
    size = dict(horizon=2, lookback=6, cycle=0, d_model=16, n_layers=1, n_heads=2, mixer="none", dropout=0.0)
    how = dict(combine=False, context="window", learning_rate=5e-3, random_state=0, device="cpu", verbose=0)
    return TitansForecaster(**{**size, **how, **parameters})


def table(values: np.ndarray) -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=values.shape[1], freq="D")
    return pd.DataFrame(values.T, index=days, columns=[f"s{i}" for i in range(len(values))])


def chaotic(series: int = SERIES) -> pd.DataFrame:
    """Series of one map, 1 - 1.8 x^2, of which least squares sees nothing; each has its own level and size."""
    rng = np.random.default_rng(0)
    values = np.empty((series, 20 + ROWS))
    values[:, 0] = rng.uniform(-1, 1, series)
    for t in range(1, 20 + ROWS):
        values[:, t] = 1 - 1.8 * values[:, t - 1] ** 2
    return table(rng.uniform(5, 50, (series, 1)) + rng.uniform(0.5, 5, (series, 1)) * values[:, 20:])


def walks(series: int = SERIES, seed: int = 0) -> pd.DataFrame:
    return table(np.random.default_rng(seed).normal(size=(series, ROWS)).cumsum(1))


@pytest.fixture(scope="module")
def won() -> TitansForecaster:
    return tiny().fit(chaotic())


@pytest.fixture(scope="module")
def closed_form() -> TitansForecaster:
    return tiny(max_epochs=0).fit(chaotic())


# Whether it pays


def test_training_is_kept_where_series_share_a_map_that_is_not_linear(
    won: TitansForecaster, closed_form: TitansForecaster
) -> None:
    history = won.history_
    first, best = history.evaluations[0], history.best
    assert history.stopped in ("max_epochs", "patience")
    assert best.choosing_error < 0.7 * first.choosing_error
    assert best.held_back_error < 0.7 * first.held_back_error
    assert best.validation_loss < 0.6 * first.validation_loss
    # What it has learned serves series that it has never seen, too.
    rows = chaotic(SERIES + 50).iloc[:, SERIES:]
    errors = [
        ((model.predict(2, rows[:-2]) - rows[-2:]) / rows.std()).pow(2).to_numpy().mean()
        for model in (won, closed_form)
    ]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_random_walks_keep_the_closed_form(seed: int) -> None:
    model = tiny().fit(walks(seed=seed))
    closed_form = tiny(max_epochs=0).fit(walks(seed=seed))
    assert model.history_.stopped == "probe"
    assert model.history_.best is model.history_.evaluations[0]
    assert 1 < len(model.history_.evaluations) <= 4
    assert np.array_equal(model.predict(), closed_form.predict())


def test_few_series_are_not_tried() -> None:
    model = tiny().fit(chaotic(199))
    assert model.history_.stopped == "few series"
    assert len(model.history_.evaluations) == 1
    assert tiny(max_epochs=1).fit(chaotic(199)).history_.evaluations[-1].epoch == 1


def test_without_validation_rows_nothing_tells_whether_training_pays() -> None:
    model = tiny(val_size=0).fit(chaotic())
    assert model.history_.stopped == "no validation"
    assert np.array_equal(model.predict(), tiny(val_size=0, max_epochs=0).fit(chaotic()).predict())


def test_a_network_without_a_linear_path_has_no_closed_form_to_keep() -> None:
    history = tiny(linear_path=False).fit(chaotic(20)).history_
    assert history.stopped in ("max_epochs", "patience")
    assert np.isnan(history.best.held_back_error)


def test_two_default_fits_are_equal_to_the_bit(won: TitansForecaster) -> None:
    again = tiny().fit(chaotic())
    assert again.history_.evaluations[1:] == won.history_.evaluations[1:]
    assert np.array_equal(again.predict(), won.predict())


def test_how_it_was_decided_is_saved(won: TitansForecaster, tmp_path: Path) -> None:
    won.save(tmp_path / "model")
    loaded = TitansForecaster.load(tmp_path / "model")
    assert repr(loaded.history_) == repr(won.history_)
    assert loaded.history_.best.step == won.history_.best.step


# The time limit


class Clock:
    """Seconds that pass only where a test lets them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("titans_ts.forecaster.Progress", partial(Progress, clock=clock))
    return clock


def passing(clock: Clock, seconds: float, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, taking so many seconds."""

    def slow(*arguments: Any, **named: Any) -> Any:
        clock.now += seconds
        return function(*arguments, **named)

    return slow


def test_a_time_limit_that_is_not_reached_changes_nothing(won: TitansForecaster) -> None:
    model = tiny(time_limit=1e6).fit(chaotic())
    assert model.history_.evaluations[1:] == won.history_.evaluations[1:]
    assert np.array_equal(model.predict(), won.predict())


def test_a_time_limit_ends_training_with_the_best_so_far(clock: Clock) -> None:
    """Each evaluation takes five seconds of 22: there is time for four, the initialisation's among them."""

    def slow(evaluation: Evaluation) -> None:
        clock.now += 5

    model = tiny(time_limit=22).fit(chaotic(), on_evaluation=slow)
    assert model.history_.stopped == "time_limit"
    assert len(model.history_.evaluations) == 5
    assert model.history_.best is model.history_.evaluations[-1]


def test_a_limit_too_short_for_the_closed_form_says_how_long_it_took(
    clock: Clock, closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved: list[Any] = []
    initialise = passing(clock, 4.0, fitting_module.initialised_network)
    monkeypatch.setattr(fitting_module, "initialised_network", initialise)
    monkeypatch.setattr(Progress, "begin", lambda self, stage, steps=None: solved.append(stage))
    words = (
        r"^`time_limit` = 3 seconds is too short for the closed form, which took 4 s after 0 s of reading; it was "
        r"finished, and nothing is trained\. Allow 4 s or more\.$"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        model = tiny(time_limit=3).fit(chaotic())
    assert caught[0].filename == __file__
    assert model.history_.stopped == "time_limit"
    assert solved == ["reading", "closed form", "validation"]
    assert np.array_equal(model.predict(), closed_form.predict())


def test_an_interrupt_among_statistical_forecasts_keeps_the_closed_form(
    closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting_module.Candidates, "fit", interrupt)
    with pytest.warns(UserWarning, match=r"^The fit was interrupted; its closed form is kept\.$") as caught:
        model = tiny(combine=True).fit(chaotic())
    assert caught[0].filename == __file__
    assert model.history_.stopped == "interrupted"
    assert model.fitted_.combination is None
    assert np.array_equal(model.predict(), closed_form.predict())


def test_an_interrupt_while_weights_are_chosen_keeps_the_network(
    closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting_module.Candidates, "choose", interrupt)
    with pytest.warns(UserWarning, match=r"^The fit was interrupted; forecasts are the network's alone\.$") as caught:
        model = tiny(combine=True, max_epochs=0).fit(chaotic())
    assert caught[0].filename == __file__
    assert model.history_.stopped == "interrupted"
    assert np.array_equal(model.predict(), closed_form.predict())


def test_an_interrupt_while_the_memory_is_fitted_keeps_the_window(
    closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting_module, "fit_long_term", interrupt)
    with pytest.warns(UserWarning, match=r"^The fit was interrupted; forecasts know their window alone\.$") as caught:
        model = tiny(context="stream", max_epochs=0).fit(chaotic())
    assert caught[0].filename == __file__
    assert model.history_.stopped == "interrupted"
    assert model.fitted_.long_term is None
    assert np.array_equal(model.predict(), closed_form.predict())


def test_without_time_to_combine_the_network_forecasts_alone_and_a_warning_says_so(
    clock: Clock, closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting_module, "seconds_needed", passing(clock, 0.5, lambda *_: 8.0))
    words = (
        r"^`time_limit` = 9 seconds leaves 8.5 s for statistical forecasts, which take about 8 s; forecasts are the "
        r"network's alone\. Allow 12.5 s or more\.$"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        model = tiny(time_limit=9, max_epochs=0, combine=True).fit(chaotic())
    assert caught[0].filename == __file__
    assert model.fitted_.combination is None
    assert np.array_equal(model.predict(), closed_form.predict())
    assert tiny(time_limit=11, max_epochs=0, combine=True).fit(chaotic()).fitted_.combination is not None


def test_without_time_for_a_second_candidate_the_first_is_taken(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from titans_ts.training import closed_form

    scalings: list[bool] = []
    initialise = closed_form.initialise

    def slow(network: Any, *arguments: Any) -> float:
        clock.now += 2
        scalings.append(network.config.scale_windows)
        return initialise(network, *arguments)

    monkeypatch.setattr(closed_form, "initialise", slow)
    tiny(time_limit=3.5, max_epochs=0, linear_path=True).fit(chaotic())
    assert scalings == [False]
    tiny(time_limit=5.0, max_epochs=0, linear_path=True).fit(chaotic())
    assert scalings[1:] == [False, True]


def test_a_time_limit_is_a_parameter_like_the_others(tmp_path: Path) -> None:
    model = clone(tiny(time_limit=np.float64(600))).set_params(max_epochs=0).fit(walks(3))
    model.save(tmp_path / "model")
    assert TitansForecaster.load(tmp_path / "model").time_limit == 600
    assert "time_limit" in json.loads(next((tmp_path / "model").glob("forecaster-*.json")).read_text())["parameters"]


# Interrupts


@pytest.mark.parametrize("stage", ["reading", "closed form"])
def test_an_interrupt_before_the_closed_form_leaves_an_earlier_fit(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny(max_epochs=0).fit(walks(3))
    before = model.predict()
    monkeypatch.setattr(Progress, "begin", interrupting(stage))
    with pytest.raises(KeyboardInterrupt):
        model.fit(chaotic())
    assert np.array_equal(model.predict(), before)


@pytest.mark.parametrize("stage", ["validation", "probing", "training"])
def test_an_interrupt_after_the_closed_form_keeps_the_best_so_far(
    stage: str, closed_form: TitansForecaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Progress, "begin", interrupting(stage))
    with pytest.warns(UserWarning, match=r"^Training was interrupted; the best weights so far are kept\.$"):
        model = tiny().fit(chaotic())
    assert model.history_.stopped == "interrupted"
    assert np.array_equal(model.predict(), closed_form.predict()) == (stage != "training")
    assert model.history_.best is model.history_.evaluations[-1]


@pytest.mark.parametrize("number", [0, 1, 3])  # of the initialisation, of a probe, of the training after it
def test_a_callback_may_interrupt_at_any_evaluation(number: int) -> None:
    seen: list[Evaluation] = []

    def stop(evaluation: Evaluation) -> None:
        seen.append(evaluation)
        if len(seen) == number + 1:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="Training was interrupted"):
        model = tiny().fit(chaotic(), on_evaluation=stop)
    assert model.history_.stopped == "interrupted"
    assert model.history_.evaluations == seen
    assert model.history_.best is seen[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict().notna().all(axis=None)


def interrupting(stage: str) -> Callable[..., None]:
    def begin(self: Progress, name: str, steps: int | None = None) -> None:
        if name == stage:
            raise KeyboardInterrupt

    return begin
