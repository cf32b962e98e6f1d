"""The competitions' tables as Markdown, from their CSV: `python experiments/benchmark/competition_tables.py --summary`.

A cell has sMAPE / MASE, a dash where it was not measured; a row measured again takes the place of the one before. There
is no rank where only a part of a group's series was forecast: published scores are of all of them, which * says.
`--training` prints what training adds to the closed form, by competitions_training.csv: means over seeds.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import record
from titans_ts.datasets import COMPETITIONS

OURS = "TitansForecaster"
BASELINES = DRIFT, CLOSED_FORM, MEAN = "drift", "closed form", "mean of seasonal naive, drift and closed form"
PEERS = ("DynamicOptimizedTheta", "AutoETS")
HERE, ENTRY, PUBLISHED = "run here", "its forecasts", "as published"  # where a score comes from
THETA = ("THETA", "Theta")  # of M3 and of M4

# Columns of a table of trained networks, and their digits.
TRAINING = dict(error_before=4, error_after=4, kept_epoch=2, network_weight=2, combined_error=4, seconds=0)


class Line(NamedTuple):
    """A method's errors over a group."""

    method: str
    source: str
    series: int
    smape: float
    mase: float
    seconds: str


def main(argv: list[str] | None = None) -> None:
    """Print each group's ranking, or one line for each method that matters."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("groups", nargs="*", default=list(COMPETITIONS), help="names of groups (default: all)")
    parser.add_argument("--summary", action="store_true", help="all groups side by side, in place of the rankings")
    parser.add_argument("--training", action="store_true", help="what training is worth, in place of the rankings")
    parser.add_argument("--results", type=Path, default=record.RESULTS, help="folder of the CSV")
    args = parser.parse_args(argv)
    if args.training:
        print("\n".join(training(args.results / "competitions_training.csv")))
        return
    path = args.results / "competitions.csv"
    print("\n".join(summary(path) if args.summary else rankings(path, args.groups)))


def read(path: Path, group: str) -> list[Line]:
    """The last row of each method of a group."""
    found = {}
    for row in record.read(path):
        if row["group"] == group:
            errors = float(row["smape"]), float(row["mase"])
            found[row["method"], row["source"]] = Line(
                row["method"], row["source"], int(row["series"]), *errors, row["seconds"]
            )
    return list(found.values())


def rankings(path: Path, groups: list[str]) -> list[str]:
    """The lines of a table for each group, the least sMAPE first, and below it our place."""
    lines = []
    for group in groups:
        found = sorted(read(path, group), key=lambda line: line.smape)
        if not found:
            continue
        lines += [f"**{heading(group, found)}**", "", "| method | | sMAPE | MASE | seconds |", "|---|---|---|---|---|"]
        for line in found:
            star = "*" if is_of_more(line, found) else ""
            cells = [line.method, line.source + star, f"{line.smape:.2f}", f"{line.mase:.3f}", line.seconds or "–"]
            lines.append("| " + " | ".join(cells) + " |")
        ours = find(found, OURS, HERE)
        lines += ["", f"{OURS} beside those who took part, by sMAPE / MASE: {place(ours, found)}", ""]
    return lines


def summary(path: Path) -> list[str]:
    """The lines of a table of all groups, a column each."""
    groups = {group: read(path, group) for group in COMPETITIONS}
    lines = [
        "| sMAPE / MASE | " + " | ".join(heading(group, found) for group, found in groups.items()) + " |",
        "|---" * (len(groups) + 1) + "|",
    ]

    def add(words: str, cells: list[str]) -> None:
        lines.append(f"| {words} | {' | '.join(cells)} |")

    tables = list(groups.values())
    ours = [find(found, OURS, HERE) for found in tables]
    add(f"`{OURS}()`", [cell(line, found) for line, found in zip(ours, tables, strict=True)])
    add("its place beside those who took part", [place(line, found) for line, found in zip(ours, tables, strict=True)])
    add("its seconds", [line.seconds if line else "–" for line in ours])
    for method in ("seasonal naive", "Naive2", *BASELINES):
        add(method, [cell(find(found, method, HERE), found) for found in tables])
    add("Theta, of those who took part", [cell(theta(found), found) for found in tables])
    add("best of those who took part, each figure by itself", [cell(best(found), found) for found in tables])
    for method in PEERS:
        add(f"statsforecast {method}", [cell(find(found, method, HERE), found) for found in tables])
        add("its seconds", [line.seconds if (line := find(found, method, HERE)) else "–" for found in tables])
    return lines


def training(path: Path) -> list[str]:
    """The lines of a table of all groups' networks, a line for each variant and number of epochs."""
    last = {(row["group"], row["variant"], row["epochs"], row["seed"]): row for row in record.read(path)}
    networks: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for (of, variant, epochs, _), row in last.items():
        networks.setdefault((of, variant, epochs), []).append(row)
    lines = [
        "| group | network | epochs | seeds | sMAPE / MASE | relative error | trained | weights kept of epoch "
        "| weight in a combination | its error | seconds |",
        "|---" * 11 + "|",
    ]

    def mean(rows: list[dict[str, str]], name: str, digits: int) -> str:
        return f"{sum(float(row[name]) for row in rows) / len(rows):.{digits}f}" if rows[0][name] else "–"

    for group in COMPETITIONS:
        for (of, variant, epochs), rows in networks.items():
            if of == group:
                errors = f"{mean(rows, 'smape', 2)} / {mean(rows, 'mase', 3)}"
                cells = [mean(rows, column, digits) for column, digits in TRAINING.items()]
                lines.append("| " + " | ".join([group, variant, epochs, str(len(rows)), errors, *cells]) + " |")
    return lines


def find(found: list[Line], method: str, source: str) -> Line | None:
    return next((line for line in found if (line.method, line.source) == (method, source)), None)


def theta(found: list[Line]) -> Line | None:
    return next((line for line in took_part(found) if line.method in THETA), None)


def took_part(found: list[Line]) -> list[Line]:
    return [line for line in found if line.source in (ENTRY, PUBLISHED)]


def best(found: list[Line]) -> Line | None:
    """The least sMAPE and the least MASE of those who took part, which need not be of one method."""
    others = took_part(found)
    if not others:
        return None
    return others[0]._replace(smape=min(line.smape for line in others), mase=min(line.mase for line in others))


def place(line: Line | None, found: list[Line]) -> str:
    """The rank of a line among those who took part and itself, by sMAPE and by MASE."""
    others = took_part(found)
    if line is None or not others or any(other.series != line.series for other in others):
        return "–"
    by_smape = 1 + sum(other.smape < line.smape for other in others)
    by_mase = 1 + sum(other.mase < line.mase for other in others)
    return f"{by_smape} / {by_mase} of {len(others) + 1}"


def heading(group: str, found: list[Line]) -> str:
    """The group's name, and where only a part of its series was forecast how many."""
    all_of_them = COMPETITIONS[group].series
    here = min((line.series for line in found), default=all_of_them)
    return group if here == all_of_them else f"{group}, {here:,} of {all_of_them:,} series"


def cell(line: Line | None, found: list[Line]) -> str:
    return f"{line.smape:.2f} / {line.mase:.3f}{'*' if is_of_more(line, found) else ''}" if line else "–"


def is_of_more(line: Line, found: list[Line]) -> bool:
    """Whether a score is of more series than others of its group."""
    return line.series > min(other.series for other in found)


if __name__ == "__main__":
    main()
