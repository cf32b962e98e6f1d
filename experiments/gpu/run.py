"""How the GPU checks run: section by section within their seconds, each row written as soon as it is known."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import torch

import record
from gpu.common import Case, Row, Setup, first_line

COLUMNS = (
    *("section", "name", "value", "unit", "target", "ok", "ratio", "note"),
    *("device", "versions", "commit"),
)
Sections = dict[str, tuple[Callable[[Setup], Iterator[Case]], float]]  # and the seconds that each may take


class Report:
    """Rows on the terminal and in the CSV, each as soon as it is known."""

    def __init__(self, path: Path, stamp: dict[str, str]) -> None:
        self.path, self.stamp = path, stamp
        self.rows: list[tuple[str, Row]] = []

    def add(self, section: str, row: Row) -> None:
        self.rows.append((section, row))
        print(_line(section, row), flush=True)
        record.append(self.path, COLUMNS, {"section": section, **row._asdict(), **self.stamp})

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
    """The GPU no longer responds to this process; the message is where to go on."""


def run(setup: Setup, sections: Sections, report: Report, end: float, after: tuple[str, int] | None = None) -> None:
    """Run the sections in order until `end` (`time.time()`); `after` a section's case that broke an earlier process."""
    names = list(sections)
    if after is not None:
        names = names[names.index(after[0]) :]
    for section in names:
        cases, seconds = sections[section]
        until = min(time.time() + seconds, end)
        begun = after[1] + 1 if after is not None and section == after[0] else 0
        for number, case in enumerate(itertools.islice(_cases_of(cases, setup), begun, None), start=begun):
            if time.time() > until:
                why = f"the section's {seconds} s" if until < end else "the time of the whole"
                report.add(section, Row(f"from {case.name} on", note=f"skipped: beyond {why}"))
                break
            for row in _rows_of(case):
                report.add(section, row)
            if not responds(setup.device):
                raise Broken(f"{section}:{number}")


def _cases_of(cases: Callable[[Setup], Iterator[Case]], setup: Setup) -> Iterator[Case]:
    try:
        yield from cases(setup)
    except Exception as failure:
        yield Case("cases", partial(_raise, failure))


def _rows_of(case: Case) -> Iterator[Row]:
    try:
        yield from case.run()
    except Exception as failure:
        yield Row(case.name, ok="FAIL", note=first_line(failure))


def _raise(failure: Exception) -> Iterable[Row]:
    raise failure


def responds(device: torch.device) -> bool:
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
