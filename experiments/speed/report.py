"""Rows of the speed benchmarks: printed, and appended to a CSV as soon as they are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import record

COLUMNS = ("benchmark", "name", "value", "unit", "ratio", "target", "device", "threads", "versions", "commit")


class Row(NamedTuple):
    """One figure; `target` says what was aimed at and whether it is met."""

    name: str
    value: float
    unit: str
    ratio: float | None = None  # to ours
    target: str = ""


class Report:
    """The CSV of one run on one device."""

    def __init__(self, path: Path, packages: tuple[str, ...], threads: int) -> None:
        self.path = path
        self.stamp: dict[str, Any] = {**record.stamp(packages), "threads": threads}
        print(f"{self.stamp['device']}, threads: {threads}\n{self.stamp['versions']}\n")

    def add(self, benchmark: str, row: Row) -> None:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f} x ours"
        value = f"{row.value:,.0f}" if row.value >= 1000 else f"{row.value:.4g}"
        print(f"{benchmark:24}{row.name:46}{value:>11} {row.unit:9}{ratio:>14}  {row.target}".rstrip(), flush=True)
        record.append(self.path, COLUMNS, {"benchmark": benchmark, **row._asdict(), **self.stamp})


def with_target(row: Row, target: str, met: bool) -> Row:
    """The row, and whether it meets what it aims at."""
    return row._replace(target=f"{target}: {'met' if met else 'missed'}")
