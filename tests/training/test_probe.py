"""When training is worth going on, by what its evaluations say."""

from __future__ import annotations

import math

import pytest

from titans_ts.training.history import Evaluation, History
from titans_ts.training.probe import LEAST_STEPS, Probe

PROBE = Probe(most_probes=3, margin=0.01, hopeless=0.05, steps=20, most_tokens=100_000)


def history_of(*errors: float) -> History:
    found = [Evaluation(0.0, i, 0.0, 1.0, 1e-3, 1.0, error, 1.0) for i, error in enumerate(errors)]
    return History(found, margin=PROBE.margin)


@pytest.mark.parametrize(
    ("errors", "pays"),
    [
        ((2.0, 1.98), True),
        ((2.0, 1.99), None),
        ((2.0, 2.09), None),
        ((2.0, 2.11), False),  # hopeless
        ((2.0, math.nan), False),
        ((2.0, 2.0, 1.99), None),
        ((2.0, 2.0, 1.99, 1.985), False),  # the last one
        ((2.0, 2.0, 2.0, 1.97), True),
    ],
)
def test_training_goes_on_where_it_gains_the_margin_in_time(errors: tuple[float, ...], pays: bool | None) -> None:
    assert PROBE.pays(history_of(*errors), len(errors) - 1) is pays


@pytest.mark.parametrize(("tokens", "steps"), [(100, 20), (5_000, 20), (10_000, 10), (10**6, LEAST_STEPS)])
def test_long_windows_are_probed_in_fewer_steps(tokens: int, steps: int) -> None:
    assert PROBE.steps_of(tokens) == steps
