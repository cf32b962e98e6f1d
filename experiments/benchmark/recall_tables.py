"""The tables of recall and of permutations, in Markdown: the share of right answers, by length and by load.

Each cell is the mean over seeds, and after ± half the distance from the least to the greatest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

Row = dict[str, str]


class Grid(NamedTuple):
    """What one table or panel shows."""

    title: str
    across: str  # the CSV's column that its columns are of
    rows: list[Row]


def grids(rows: list[Row], task: str) -> list[Grid]:
    """Recall by length and by load, or permutations by length, one for each group."""
    if task == "recall":
        pairs = _most_lengths(rows)
        trained = min((row["length"] for row in rows), key=int, default="")
        return [
            Grid(f"{pairs} pairs, by length", "length", [row for row in rows if row["pairs"] == pairs]),
            Grid(f"{trained} tokens, by pairs", "pairs", [row for row in rows if row["length"] == trained]),
        ]
    groups = sorted({row["group"] for row in rows}, key=int)
    return [Grid(f"S{group}, by length", "length", [row for row in rows if row["group"] == group]) for group in groups]


def table(rows: list[Row], task: str) -> Iterator[str]:
    """The lines of a task's tables, a blank line behind each."""
    for grid in grids(rows, task):
        columns = sorted({row[grid.across] for row in grid.rows}, key=int)
        yield f"| {grid.title} | {' | '.join(f'{int(column):,}' for column in columns)} |"
        yield "|---" * (len(columns) + 1) + "|"
        for name in dict.fromkeys(row["row"] for row in grid.rows):
            found = means(grid.rows, name, grid.across)
            yield f"| {name} | {' | '.join(_cell(found.get(int(column), [])) for column in columns)} |"
        yield ""


def means(rows: list[Row], name: str, across: str) -> dict[int, list[float]]:
    """The accuracies of a row's seeds by the CSV's column `across`, which rises."""
    found: dict[int, list[float]] = {}
    for row in sorted((row for row in rows if row["row"] == name), key=lambda row: int(row[across])):
        found.setdefault(int(row[across]), []).append(float(row["accuracy"]))
    return found


def _most_lengths(rows: list[Row]) -> str:
    """The number of pairs that is asked for at most lengths."""
    lengths: dict[str, set[str]] = {}
    for row in rows:
        lengths.setdefault(row["pairs"], set()).add(row["length"])
    return max(lengths, key=lambda pairs: len(lengths[pairs]), default="")


def _cell(values: list[float]) -> str:
    if not values:
        return "–"
    text = _short(sum(values) / len(values))
    return text if len(values) == 1 else f"{text} ± {_short((max(values) - min(values)) / 2)}"


def _short(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
