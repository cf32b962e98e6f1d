"""The clock, the rounds and the memory that the speed benchmarks measure by."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path

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
    assert measure.medians([partial(timer, "a")], 1, warm_up=0) == [8.0]
    assert measure.medians([], 1) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_above_a_limit_is_refused_within_it_alone() -> None:
    limit = measure.held_mib("VmData") / 1024 + 0.5
    with measure.memory_limited(limit), pytest.raises(RuntimeError) as caught:
        torch.empty(2**30 // 4)
    assert measure.is_out_of_memory(caught.value)
    assert len(torch.empty(2**30 // 4)) == 2**28
    assert not measure.is_out_of_memory(RuntimeError("other"))
    assert measure.is_out_of_memory(MemoryError())


SCRIPT = """
import measure, torch
before = measure.held_mib()
block = torch.ones(64 * 2**20 // 4)
held = measure.held_mib() - before
del block
print(held, measure.peak_mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_the_peak_of_a_process_holds_what_it_has_freed() -> None:
    # in a process of its own, where nothing that other tests have left is freed meanwhile
    folder = str(Path(measure.__file__).parent)
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=folder, check=True)
    held, peak = map(float, ran.stdout.split())
    assert held > 32  # of 64; the kernel's counts are rough
    assert peak > 32


def test_a_fresh_process_returns_what_the_function_does_and_has_as_many_threads() -> None:
    assert measure.in_a_process(torch.get_num_threads) == torch.get_num_threads()
