"""How long a call takes, and how much memory a process holds."""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch


def milliseconds(run: Callable[[], object]) -> float:
    """Of one call, on a CPU."""
    begun = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begun)


def medians(timers: Iterable[Callable[[], float]], repeats: int) -> list[float]:
    """The median of what each timer returns over `repeats` rounds, after one of warm-up.

    The timers take turns, so that a busy moment of the machine spreads over all of them.
    """
    timers = list(timers)
    rounds = [[timer() for timer in timers] for _ in range(1 + repeats)][1:]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process, whose peak memory is then its own."""
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, fresh, torch.set_num_threads, (torch.get_num_threads(),)) as pool:
        return pool.submit(function, *arguments).result()


def peak_mib() -> float:
    """The most memory this process has held, NaN elsewhere than on Linux.

    Not ru_maxrss, which begins at that of the process that started it.
    """
    return held_mib("VmHWM")


def held_mib(field: str = "VmRSS") -> float:
    """The memory that a field of /proc/self/status tells: held now by default. NaN elsewhere than on Linux."""
    status = Path("/proc/self/status")
    return int(status.read_text().split(f"{field}:")[1].split()[0]) / 1024 if status.exists() else math.nan
