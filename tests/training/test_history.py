"""Which evaluation is best, and when there is no more patience."""

from __future__ import annotations

import math

import pytest

from titans_ts.training.history import Evaluation, History


def history_of(*losses: float, **changes: bool) -> History:
    return History([Evaluation(0.0, i, 0.0, loss, 1e-3) for i, loss in enumerate(losses)], **changes)


def test_best_is_the_first_of_the_least_and_ignores_what_was_not_validated() -> None:
    assert history_of(math.nan, 2.0, 1.0, 1.0, math.inf).best.step == 2
    assert history_of(math.nan).best.step == 0
    assert history_of(math.nan, math.nan).best.step == 1


def test_the_initialisation_may_be_no_candidate() -> None:
    assert history_of(1.0, 3.0, 2.0).best.step == 0
    assert history_of(1.0, 3.0, 2.0, initialisation_is_candidate=False).best.step == 2


@pytest.mark.parametrize(
    ("losses", "exhausted"),
    [
        ((2.0,), False),
        ((2.0, 3.0), False),
        ((2.0, 3.0, 4.0), True),
        ((2.0, 3.0, 1.0, 1.0), False),
        ((math.nan,) * 9, False),
    ],
)
def test_patience_of_two_ends_after_two_evaluations_without_a_better_one(
    losses: tuple[float, ...], exhausted: bool
) -> None:
    assert history_of(*losses).is_exhausted(2) is exhausted


def test_the_relative_error_chooses_where_there_is_one() -> None:
    errors = [(3.0, 0.5), (1.0, 0.9), (2.0, 0.4)]
    history = History([Evaluation(0.0, i, 0.0, loss, 1e-3, relative) for i, (loss, relative) in enumerate(errors)])
    assert history.best.step == 2
    assert not history.is_exhausted(1)


def halves(*errors: tuple[float, float]) -> History:
    """Evaluations whose relative error says nothing, with the errors of those that choose and of those held back."""
    found = [Evaluation(0.0, i, 0.0, 1.0, 1e-3, 1.0, choosing, held) for i, (choosing, held) in enumerate(errors)]
    return History(found, margin=0.01)


@pytest.mark.parametrize(
    ("errors", "chosen", "best"),
    [
        ([(1.0, 2.0), (0.9, 1.9), (0.8, 1.8)], 2, 2),
        ([(1.0, 2.0), (0.9, 1.9), (0.8, 1.99)], 2, 0),  # the other half does not confirm the one chosen
        ([(1.0, 2.0), (0.995, 1.0)], 1, 0),  # too little to tell from chance
        ([(1.0, 2.0), (1.1, 1.0)], 0, 0),
        ([(1.0, 2.0), (0.99, 1.98)], 1, 1),
    ],
)
def test_what_one_half_of_the_series_chooses_the_other_half_must_confirm(
    errors: list[tuple[float, float]], chosen: int, best: int
) -> None:
    history = halves(*errors)
    assert (history.chosen.step, history.best.step) == (chosen, best)


def test_patience_goes_by_the_series_that_choose() -> None:
    assert not halves((1.0, 2.0), (0.9, 2.5)).is_exhausted(1)
    assert halves((1.0, 2.0), (0.9, 2.5), (0.95, 1.0)).is_exhausted(1)
