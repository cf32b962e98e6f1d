"""The GPU checks' kernels, compiled ahead of them by many processes that leave them in Triton's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gpu import exact, speed
from gpu.common import Case, Problem, Row, Setup, everything, first_line, launched, launches, make, verdict

SCRIPT = Path(__file__).parents[1] / "gpu_check.py"
SECONDS = 170


def compiled(setup: Setup) -> Iterator[Case]:
    """Every configuration that the other sections use."""
    yield Case("compile", partial(rows, setup))


def jobs(setup: Setup) -> list[tuple[str, Callable[[], Any]]]:
    """What the sections will compile, by name: every problem as the kernels choose, then with the other settings.

    What is timed comes first, then float32, which takes longest.
    """
    whole, plain = exact.compilations(setup)
    runs: list[tuple[Problem, Callable[[], Any]]] = [
        (p, partial(speed.compile_pass, setup, p)) for p in (*speed.compilations(setup), *plain)
    ]
    whole = sorted(whole, key=lambda problem: problem.dtype != torch.float32)
    runs += [(problem, partial(_everything, setup, problem)) for problem in whole]
    settings = [launches(problem, setup.backend) for problem, _ in runs]
    found: list[tuple[str, Callable[[], Any]]] = [(str(problem), run) for problem, run in runs]
    for choice in range(1, max(map(len, settings))):
        for (problem, run), given in zip(runs, settings, strict=True):
            if choice < len(given):
                found.append((f"{problem} {given[choice]}", partial(_with, given[choice], run)))
    return found


def _everything(setup: Setup, problem: Problem) -> None:
    everything(problem, make(problem, setup.device), setup.backend)


def _with(launch: Any, run: Callable[[], Any]) -> None:
    with launched(launch):
        run()


def compile_share(setup: Setup, share: tuple[int, int], claims: Path) -> None:
    """One process's part: the other packages with every n-th of their settings, then each job that nobody has begun."""
    _timed("other packages", partial(speed.compile_peers, setup, share))
    for number, (name, job) in enumerate(jobs(setup)):
        try:
            (claims / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        _timed(name, job)


def _timed(name: str, job: Callable[[], Any]) -> None:
    begun = time.perf_counter()
    try:
        job()
    except Exception as failure:
        if "out of memory" in str(failure):  # the others' share of it, as torch or the driver says; compiled later
            return
        print(f"failed {name}: {first_line(failure)}", flush=True)
    print(f"{time.perf_counter() - begun:.1f} {name}", flush=True)


def rows(setup: Setup) -> Iterator[Row]:
    if setup.device.type != "cuda":
        yield Row("compile", note="skipped: needs a GPU")
        return
    begun = time.perf_counter()
    count = max(1, min(16, os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{i}.log") for i in range(count)]
        call = [sys.executable, str(SCRIPT), "--backend", setup.backend, *(["--smoke"] if setup.smoke else [])]
        processes = []
        for i, log in enumerate(logs):
            with log.open("w") as file:
                processes.append(
                    subprocess.Popen(
                        [*call, "--share", f"{i}/{count}", "--claims", folder], stdout=file, stderr=subprocess.STDOUT
                    )
                )
        left = SECONDS
        for process in processes:
            try:
                process.wait(max(0.1, left - (time.perf_counter() - begun)))
            except subprocess.TimeoutExpired:
                process.terminate()
        unfinished = sum(process.wait() != 0 for process in processes)
        lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    seconds = time.perf_counter() - begun
    timed = sorted((line for line in lines if line[:1].isdigit()), key=lambda line: float(line.split()[0]))
    done = sum("other packages" not in line for line in timed)
    yield Row(f"{done} of {len(jobs(setup))} configurations, {count} processes", seconds, "s")
    if unfinished:
        yield Row("processes that did not end by themselves", unfinished, "", note=lines[-1][:200] if lines else "")
    for line in timed[-3:]:
        took, _, name = line.partition(" ")
        yield Row(f"slowest: {name}", float(took), "s", note="compilation and first run")
    for line in dict.fromkeys(line for line in lines if line.startswith("failed ")):
        yield Row(line[:200], ok=verdict(False))
