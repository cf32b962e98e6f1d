"""Check the Triton kernels on a GPU, then time them: `PYTHONPATH=. python experiments/gpu_check.py`.

    compile   every configuration used below, in parallel processes that share Triton's cache
    exact     outputs, final state and all gradients against float64, with every launch setting
    repeat    20 runs are equal to the bit
    speed     tokens a second, the share of the arithmetic's floor, other packages side by side
    memory    peak memory of forward and backward, beside titans-pytorch's
    grid      65,600 batch x heads equal two halves
    use       torch.compile, autocast, inference mode, CUDA graphs, strides, poisoned surroundings
    lengths   ten lengths are one compilation
    far       offsets past 2^31 elements
    scaling   tokens a second from 4k to 256k steps
    epoch     one epoch of ETTm1 by backend, with and without the CUDA graph

Every row is in the CSV as soon as it is measured. A section that runs out of its seconds leaves its other rows out and
says so; what raises becomes a row, and the next case goes on, in a fresh process where the GPU no longer answers. The
exit status is 1 where a check failed; a missed target of speed or memory is only said. Other packages are compared
where they can be imported. Without a GPU: `TRITON_INTERPRET=1 python experiments/gpu_check.py --smoke`.
"""

from __future__ import annotations

import argparse
import csv
import faulthandler
import itertools
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import gpu_exact
import gpu_peers
import gpu_speed
import torch
from gpu_common import Case, Problem, Row, Setup, everything, first_line, launched, launches, make, verdict
from stamp import commit, device_name

CSV_COLUMNS = (
    *("section", "name", "value", "unit", "target", "ok", "ratio", "note"),
    *("device", "versions", "commit"),
)
PACKAGES = ("torch", "triton", "numpy", "fla-core", "titans-pytorch")
BESIDE = Path(__file__).resolve().parents[2] / "shared"
OVERTIME = 45  # seconds past the whole's end after which a hanging kernel ends the run


def compiled(setup: Setup) -> Iterator[Case]:
    """Every configuration used below, by processes that leave them in the cache on disk."""
    yield Case("compile", partial(_compiled, setup))


SECTIONS: dict[str, tuple[Callable[[Setup], Iterator[Case]], int]] = dict(  # and the seconds that each may take
    compile=(compiled, 170),
    exact=(gpu_exact.exactness, 60),
    repeat=(gpu_exact.repeatability, 10),
    speed=(gpu_speed.speed, 90),
    memory=(gpu_speed.memory, 20),
    scaling=(gpu_speed.scaling, 20),
    epoch=(gpu_speed.epoch, 30),
    grid=(gpu_exact.grid, 10),
    far=(gpu_exact.far, 15),
    use=(gpu_exact.use, 30),
    lengths=(gpu_exact.lengths, 20),
)


class Report:
    """Rows on the terminal and in the CSV, each as soon as it is known."""

    def __init__(self, path: Path, stamp: dict[str, str]) -> None:
        self.path, self.stamp = path, stamp
        self.rows: list[tuple[str, Row]] = []

    def add(self, section: str, row: Row) -> None:
        self.rows.append((section, row))
        print(_line(section, row), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            numbers = {
                name: "" if value is None else f"{value:.6g}"
                for name, value in (("value", row.value), ("ratio", row.ratio))
            }
            writer.writerow({"section": section, **row._asdict(), **numbers, **self.stamp})

    def summary(self) -> None:
        """What failed or was missed, and how many rows of each section did not."""
        print("\nsection      rows    ok  FAIL missed")
        for section in dict.fromkeys(section for section, _ in self.rows):
            marks = [row.ok for where, row in self.rows if where == section]
            counts = (len(marks), *(marks.count(mark) for mark in ("ok", "FAIL", "missed")))
            print(f"{section:<10}" + "".join(f"{count:6}" for count in counts))
        for section, row in self.rows:
            if row.ok in ("FAIL", "missed") or (row.ok == "ok" and row.ratio is not None):
                print(_line(section, row))

    @property
    def failed(self) -> bool:
        return any(row.ok == "FAIL" for _, row in self.rows)


class Broken(Exception):
    """The GPU answers this process no more; the message is where to go on."""


def run(setup: Setup, only: Iterable[str], report: Report, end: float, after: tuple[str, int] | None = None) -> None:
    """Run the sections in order until `end` (`time.time()`); `after` a section's case that broke an earlier process."""
    names = list(only)
    if after is not None:
        names = names[names.index(after[0]) :]
    for section in names:
        cases, seconds = SECTIONS[section]
        until = min(time.time() + seconds, end)
        begun = after[1] + 1 if after is not None and section == after[0] else 0
        for number, case in enumerate(itertools.islice(_guarded_cases(cases, setup), begun, None), start=begun):
            if time.time() > until:
                why = f"the section's {seconds} s" if until < end else "the time of the whole"
                report.add(section, Row(f"from {case.name} on", note=f"skipped: beyond {why}"))
                break
            for row in _guarded(case):
                report.add(section, row)
            if not _answers(setup.device):
                raise Broken(f"{section}:{number}")


def _guarded_cases(cases: Callable[[Setup], Iterator[Case]], setup: Setup) -> Iterator[Case]:
    try:
        yield from cases(setup)
    except Exception as failure:
        yield Case("cases", partial(_raise, failure))


def _guarded(case: Case) -> Iterator[Row]:
    try:
        yield from case.run()
    except Exception as failure:
        yield Row(case.name, ok="FAIL", note=first_line(failure))


def _raise(failure: Exception) -> Iterable[Row]:
    raise failure


def _answers(device: torch.device) -> bool:
    """Whether more can run in this process; what the last case held is given back."""
    try:
        if device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _line(section: str, row: Row) -> str:
    value = "" if row.value is None else f"{row.value:,.0f}" if abs(row.value) >= 1000 else f"{row.value:.3g}"
    return f"{section:<8} {row.name:<62} {value:>9} {row.unit:<10} {row.target:<12} {row.ok:<6} {row.note}".rstrip()


def jobs(setup: Setup) -> list[tuple[str, Callable[[], Any]]]:
    """What the sections will compile, by name: every problem as the kernels choose, then with the other settings.

    What is timed comes first, then float32, which takes longest.
    """
    whole, plain = gpu_exact.compilations(setup)
    runs: list[tuple[Problem, Callable[[], Any]]] = [
        (p, partial(gpu_speed.compile_pass, setup, p)) for p in (*gpu_speed.compilations(setup), *plain)
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
    _timed("other packages", partial(gpu_speed.compile_peers, setup, share))
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


def _compiled(setup: Setup) -> Iterator[Row]:
    if setup.device.type != "cuda":
        yield Row("compile", note="skipped: needs a GPU")
        return
    begun = time.perf_counter()
    count = max(1, min(16, os.cpu_count() or 1))
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{i}.log") for i in range(count)]
        call = [sys.executable, __file__, "--backend", setup.backend, *(["--smoke"] if setup.smoke else [])]
        processes = []
        for i, log in enumerate(logs):
            with log.open("w") as file:
                processes.append(
                    subprocess.Popen(
                        [*call, "--share", f"{i}/{count}", "--claims", folder], stdout=file, stderr=subprocess.STDOUT
                    )
                )
        left = SECTIONS["compile"][1]
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


def main(argv: list[str] | None = None) -> int:
    args = _arguments(argv)
    device = torch.device("cpu" if args.smoke and not torch.cuda.is_available() else "cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        print("There is no GPU here; --smoke runs tiny sizes on the CPU.", file=sys.stderr)
        return 2
    setup = Setup(device=device, backend=args.backend, smoke=args.smoke, data=args.data, oracle=args.oracle)
    if args.share:
        share, of = (int(part) for part in args.share.split("/"))
        compile_share(setup, (share, of), args.claims)
        return 0
    if device.type == "cuda":
        gpu_peers.shorten_autotuning()
    versions = [f"{name} {version(name)}" for name in PACKAGES if any(distributions(name=name))]
    stamp = dict(
        device=device_name(device),
        versions=", ".join([*versions, f"python {platform.python_version()}"]),
        commit=args.commit or commit(),
    )
    out = args.out / "gpu.csv" if args.out.is_dir() or not args.out.suffix else args.out
    report = Report(out, stamp)
    print(f"{stamp['device']}\n{stamp['versions']}\n", flush=True)
    end = args.end or time.time() + 60 * args.minutes
    if device.type == "cuda":
        faulthandler.dump_traceback_later(max(1.0, end - time.time()) + OVERTIME, exit=True)
    after = None
    if args.after:
        section, number = args.after.split(":")
        after = section, int(number)
    try:
        run(setup, args.only, report, end, after)
    except Broken as where:
        print(f"The GPU answers no more after {where}; a fresh process goes on.", flush=True)
        report.summary()
        given = [part for part in (sys.argv[1:] if argv is None else argv) if not part.startswith(("--after", "--end"))]
        on = [f"--after={where}", f"--end={end}", *(["--failed"] if report.failed or args.failed else [])]
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, __file__, *given, *on])
    finally:
        faulthandler.cancel_dump_traceback_later()
    report.summary()
    print(f"rows appended to {out}")
    return int(report.failed or args.failed)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument(
        "--only", type=lambda given: given.split(","), default=list(SECTIONS), help="sections, by comma"
    )
    parser.add_argument("--minutes", type=float, default=7.5, help="of the whole (default 7.5)")
    parser.add_argument("--backend", default="triton", help="of memory_scan (default triton)")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, on the CPU where there is no GPU")
    results = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=results / "gpu.csv", help="the CSV, or its folder")
    named = os.environ.get("TITANS_TS_DATA")
    data = Path(named) if named else BESIDE / "data"
    parser.add_argument("--data", type=Path, default=data, help="folder of ETTm1.csv (else TITANS_TS_DATA)")
    parser.add_argument("--oracle", type=Path, help="folder of exact vectors (else beside that of the data)")
    parser.add_argument("--commit", help="what the rows say, where git cannot")
    for hidden in ("--share", "--after"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--failed", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if unknown := [name for name in args.only if name not in SECTIONS]:
        parser.error(f"--only knows {', '.join(SECTIONS)}; got {', '.join(unknown)}")
    if args.oracle is None:
        beside = args.data.parent / "oracle"
        args.oracle = beside if beside.is_dir() else None
    return args


if __name__ == "__main__":
    sys.exit(main())
