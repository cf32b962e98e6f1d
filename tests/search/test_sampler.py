"""Draws that are fixed by the seed and the number of a trial, whoever runs it."""

from __future__ import annotations

import optuna
from optuna.study import Study

from titans_ts.search.sampler import SeededSampler


def study(seed: int, before: Study | None = None) -> Study:
    """A study with a sampler of its own; trials of another one, if any, are known to it."""
    made = optuna.create_study(sampler=SeededSampler(seed))
    if before is not None:
        made.add_trials(before.trials)
    return made


def run(found: Study, n_trials: int) -> list[dict[str, float]]:
    """The parameters of so many more trials, scored by a parabola."""

    def objective(trial: optuna.Trial) -> float:
        return (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2 + trial.suggest_int("n", 1, 9)

    begin = len(found.trials)
    found.optimize(objective, n_trials=n_trials)
    return [trial.params for trial in found.trials[begin:]]


def test_a_study_that_another_process_goes_on_with_draws_what_one_would() -> None:
    alone = study(3)
    expected = run(alone, 14)  # after ten, draws depend on the trials before
    begun = study(3)
    assert run(begun, 6) == expected[:6]
    assert run(study(3, begun), 8) == expected[6:]


def test_no_two_trials_and_no_two_seeds_draw_alike() -> None:
    drawn = [parameters["x"] for seed in (0, 1) for parameters in run(study(seed), 6)]
    assert len(set(drawn)) == 12


def test_processes_that_begin_at_once_draw_differently() -> None:
    first = study(0)
    first.ask().suggest_float("x", 0.0, 1.0)
    second = study(0, first)
    assert second.ask().suggest_float("x", 0.0, 1.0) != first.trials[0].params["x"]


def test_later_draws_go_where_the_value_was_low() -> None:
    found = study(0)
    run(found, 10)
    later = run(found, 20)
    assert sum(parameters["n"] <= 3 for parameters in later) > 12  # of 20, where chance would give 7
