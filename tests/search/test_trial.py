"""A trial: what it is scored by, on which rows, what it reports, and why it fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study

from titans_ts import TitansForecaster, TitansSearchCV
from titans_ts.search import storage
from titans_ts.search.trial import EPOCHS, PARAMETERS, SURPLUS, Objective, Surplus
from titans_ts.training.history import History

from .small_search import DROPOUT, ROWS, tiny, waves


def objective(estimator: TitansForecaster, space: Any = None, df: Any = None, **given: Any) -> Objective:
    how = dict(scoring="mse", n_trials=9, n_windows=1, seed=5) | given
    return Objective(estimator, waves() if df is None else df, DROPOUT if space is None else space, **how)


def run(made: Objective, n_trials: int = 1) -> Study:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(made, n_trials=n_trials)
    return study


# The score


def test_a_trial_scores_the_network_alone_and_spends_no_time_on_a_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a trial combines nothing")

    monkeypatch.setattr("titans_ts.fitting.Candidates.fit", refuse)
    study = run(objective(tiny()))
    expected = tiny(combine=False, **study.trials[0].params).fit(waves()).history_.best.relative_error
    assert study.trials[0].value == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="`combine` must be True or False, got 'never'"):
        run(objective(tiny(combine="never")))


@pytest.mark.parametrize("named", [{"combine": True}, {"context": "stream"}, {"past_cols": ["a"]}])
def test_a_function_must_not_name_what_a_trial_does_not_score(named: dict[str, Any]) -> None:
    (name,) = named
    study = optuna.create_study()
    study.optimize(objective(tiny(), lambda trial: named), n_trials=1, catch=(ValueError,))
    assert f"`space` must not name '{name}': a trial's score is of the network" in study.trials[0].user_attrs["reason"]


def test_the_score_is_the_relative_error_of_a_fit() -> None:
    study = run(objective(tiny(max_epochs=2), scoring="mae"))
    history = tiny(max_epochs=2, **study.trials[0].params).fit(waves(), val_loss="mae").history_
    assert study.trials[0].value == history.best.relative_error


def test_no_series_decides_for_the_others() -> None:
    """Six noisy waves are forecast better from 32 rows; a walk of a hundredfold steps, by a mean over all, from 2."""
    rng, t, steps = np.random.default_rng(2), np.arange(300), np.where(np.arange(300) < 260, 1.0, 100.0)
    table = pd.DataFrame({f"s{i}": np.sin(2 * np.pi * t / 24 + i) + 0.3 * rng.normal(size=300) for i in range(6)})
    table["wild"] = (steps * rng.normal(size=300)).cumsum()
    how = tiny(horizon=2, lookback=8, cycle=0, max_epochs=0, val_size=40, outliers="keep")
    losses = [how.set_params(lookback=n).fit(table).history_.best.validation_loss for n in (2, 32)]
    assert losses[0] < losses[1]
    study = optuna.create_study(sampler=optuna.samplers.GridSampler({"lookback": [2, 32]}, seed=0))
    study.optimize(objective(how, {"lookback": CategoricalDistribution([2, 32])}, table), n_trials=2)
    assert study.best_params == {"lookback": 32}


def test_the_error_of_the_best_weights_so_far_is_reported_after_each_epoch() -> None:
    study = run(objective(tiny(max_epochs=2)))
    evaluations = tiny(max_epochs=2, **study.trials[0].params).fit(waves()).history_.evaluations
    best = [History(evaluations[:n]).best.relative_error for n in (5, 9)]
    assert study.trials[0].intermediate_values == {1: best[0], 2: best[1]}


def test_the_estimator_is_not_changed_and_has_a_seed_if_it_had_none() -> None:
    estimator = tiny(random_state=None, verbose=1)
    made = objective(estimator)
    run(made)
    assert (estimator.random_state, estimator.verbose) == (None, 1)
    assert not hasattr(estimator, "fitted_")
    assert (made.estimator.random_state, made.estimator.verbose) == (5, 0)
    assert objective(tiny(random_state=3)).estimator.random_state == 3


def test_windows_are_validation_blocks_one_before_the_other() -> None:
    found = TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=3, random_state=0).fit(waves())
    parameters = found.study_.trials[0].params
    errors = [tiny(**parameters).fit(waves()[: ROWS - cut]).history_.best.relative_error for cut in (0, 12, 24)]
    assert found.best_score_ == pytest.approx(np.mean(errors), rel=1e-12)


@pytest.mark.parametrize("layout", ["long", "array"])
def test_windows_are_cut_from_every_kind_of_table(layout: str) -> None:
    wide = waves() if layout == "long" else waves().reset_index(drop=True)
    table: Any = wide.to_numpy()
    if layout == "long":
        table = wide.rename_axis(index="ds", columns="unique_id").T.stack().rename("y").reset_index()
    scores = [
        TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=2, random_state=0).fit(x).best_score_
        for x in (table, wide)
    ]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_too_many_windows_are_refused_in_words() -> None:
    with pytest.raises(RuntimeError, match="`n_windows` = 30 leaves no validation rows for window 1"):
        TitansSearchCV(tiny(), DROPOUT, n_trials=1, n_windows=30).fit(waves())


def test_no_validation_rows_are_a_reason() -> None:
    with pytest.raises(RuntimeError, match=r"the validation error is nan\. No series has validation rows"):
        TitansSearchCV(tiny(val_size=0), DROPOUT, n_trials=1).fit(waves())


def test_each_window_reports_beside_those_before_it() -> None:
    study = run(objective(tiny(), n_windows=2))
    parameters = study.trials[0].params
    first, second = (tiny(**parameters).fit(waves()[: ROWS - cut]).history_.best.relative_error for cut in (0, 12))
    assert study.trials[0].intermediate_values == pytest.approx({1: first, EPOCHS + 1: (first + second) / 2})


def test_all_windows_have_the_horizon_and_lookback_of_the_whole_table() -> None:
    study = run(objective(tiny(horizon=None, lookback=None), n_windows=2))
    # Two days, of the third of 160 hours: the parts alone would be read by a shorter lookback.
    given = dict(horizon=24, lookback=48, **study.trials[0].params)
    errors = [tiny(**given).fit(waves()[: ROWS - cut]).history_.best.relative_error for cut in (0, 24)]
    assert study.trials[0].value == pytest.approx(np.mean(errors), rel=1e-12)


# Parameters


def test_parameters_are_drawn_from_every_kind_of_distribution() -> None:
    space = {
        "n_layers": IntDistribution(1, 2),
        "chunk_size": IntDistribution(4, 16, step=4),
        "dropout": FloatDistribution(0.0, 0.6, step=0.3),
        "learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
        "loss": CategoricalDistribution(["mse", "mae"]),
    }
    study = run(objective(tiny(max_epochs=0), space))
    trial = study.trials[0]
    assert trial.distributions == space
    assert trial.user_attrs[PARAMETERS] == trial.params
    assert trial.params.keys() == space.keys()


def test_a_function_suggests_parameters_and_must_return_a_dict() -> None:
    study = run(objective(tiny(max_epochs=0), lambda trial: {"d_model": 8 * trial.suggest_int("heads", 1, 1)}))
    assert study.trials[0].user_attrs[PARAMETERS] == {"d_model": 8}
    with pytest.raises(TypeError, match=r"`space` must return a dict of parameters, got \['d_model'\]"):
        run(objective(tiny(), lambda trial: ["d_model"]))


def test_a_distribution_of_another_kind_is_named() -> None:
    with pytest.raises(TypeError, match=r"`space\['dropout'\]` is of a kind that is unknown here"):
        run(objective(tiny(), {"dropout": [0.1, 0.2]}))


# Trials that fail


def test_a_failed_trial_keeps_its_reason() -> None:
    study = optuna.create_study()
    made = objective(tiny(), {"d_model": IntDistribution(9, 9)})
    study.optimize(made, n_trials=1, catch=ValueError)
    assert study.trials[0].user_attrs["reason"] == "ValueError: `d_model` must be a multiple of `n_heads` = 2, got 9."
    assert storage.begun(study) == 1
    assert not made.was_given_up(study)


def test_a_trial_that_another_worker_ended_was_given_up() -> None:
    study, made = optuna.create_study(), objective(tiny())
    study.ask()
    made.number = 0
    assert not made.was_given_up(study)
    study.tell(0, state=optuna.trial.TrialState.FAIL)
    assert made.was_given_up(study)


def test_of_two_that_begin_the_last_trial_at_once_one_withdraws() -> None:
    study = optuna.create_study()
    other = study.ask()
    storage.sign(other)
    study.optimize(objective(tiny(), n_trials=1), n_trials=1, catch=Surplus)
    assert [trial.state.name for trial in study.trials] == ["RUNNING", "FAIL"]
    assert (study.trials[1].user_attrs[SURPLUS], storage.begun(study)) == (True, 1)
