"""The clock, the rounds and the memory that the speed benchmarks measure by."""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import count

import pytest
import torch

import measure


def test_milliseconds_are_those_of_the_call() -> None:
    assert 20 <= measure.milliseconds(partial(time.sleep, 0.02)) < 2000


def test_timers_take_turns_and_the_first_round_does_not_count() -> None:
    order: list[str] = []
    clock = count()

    def timer(name: str) -> float:
        order.append(name)
        return float(next(clock))

    found = measure.medians([partial(timer, "a"), partial(timer, "b")], 3)

    assert order == ["a", "b"] * 4
    assert found == [4.0, 5.0]  # of 2, 4, 6 and of 3, 5, 7


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_the_peak_of_a_process_holds_what_it_has_freed() -> None:
    before = measure.held_mib()
    block = torch.ones(64 * 2**20 // 4)  # so large that it is no memory that the process has held before
    held = measure.held_mib() - before
    del block
    assert held > 32  # of 64; the kernel's counts are rough, and other memory may have been freed meanwhile
    assert measure.peak_mib() > before + 32


def test_a_fresh_process_returns_what_the_function_does_and_has_as_many_threads() -> None:
    assert measure.in_a_process(torch.get_num_threads) == torch.get_num_threads()
