"""How long a call takes, and how much memory a process holds."""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

OUT_OF_MEMORY = ("can't allocate memory", "out of memory")  # in the words of PyTorch's RuntimeError


def milliseconds(run: Callable[[], object]) -> float:
    """Of one call, on a CPU."""
    begun = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begun)


def medians(timers: Iterable[Callable[[], float]], repeats: int, warm_up: int = 1) -> list[float]:
    """The median of what each timer returns over `repeats` rounds, after those of warm-up.

    The timers take turns, so that a busy moment of the machine spreads over all of them.
    """
    timers = list(timers)
    rounds = [[timer() for timer in timers] for _ in range(warm_up + repeats)][warm_up:]
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


@contextmanager
def memory_limited(gib: float) -> Iterator[None]:
    """Within it what this process would hold above `gib` raises, for `is_out_of_memory`; on Linux alone."""
    if not Path("/proc/self/status").exists():
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(gib * 2**30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def is_out_of_memory(failure: BaseException) -> bool:
    """Whether it says that there is no more memory."""
    return isinstance(failure, MemoryError) or any(words in str(failure) for words in OUT_OF_MEMORY)
