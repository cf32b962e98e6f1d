"""The tables of intervals in print."""

from __future__ import annotations

from benchmark.interval_scores import SCORED

Record = dict[str, str]  # a row of the CSV
NOT_MEASURED = "–"
HEADS = (
    *("data, steps", "method", "origins", *(f"{level} %" for level in SCORED)),
    *("80 %, thirds of the horizon", "80 %, worst channel", "CRPS", "width of 80 %", "seconds"),
)


def tables(found: list[Record]) -> list[str]:
    """A table of streams and one of competitions, in Markdown; of each method its last row."""
    last = {(row["data"], row["horizon"], row["method"]): row for row in found}
    streams = [row for row in last.values() if int(row["origins"]) > 1]
    competitions = [row for row in last.values() if int(row["origins"]) == 1]
    return [table(rows) for rows in (streams, competitions) if rows]


def table(rows: list[Record]) -> str:
    """A line for each row, data by data; without columns that no row has a value of."""
    cells = [line(row) for row in sorted(rows, key=lambda row: (row["data"], int(row["horizon"])))]
    shown = [i for i in range(len(HEADS)) if any(cell[i] != NOT_MEASURED for cell in cells)]
    lines = ["| " + " | ".join(cell[i] for i in shown) + " |" for cell in (HEADS, *cells)]
    return "\n".join([lines[0], "|---" * len(shown) + "|", *lines[1:]])


def line(row: Record) -> list[str]:
    """The cells of a row."""
    thirds = " ".join(f"{float(row[name]):.1f}" for name in ("early_80", "middle_80", "late_80"))
    return [
        f"{row['data']}, {row['horizon']}",
        row["method"],
        row["origins"] if int(row["origins"]) > 1 else NOT_MEASURED,
        *(f"{float(row[f'coverage_{level}']):.1f}" for level in SCORED),
        thirds,
        f"{float(row['worst_80']):.1f}" if row["worst_80"] else NOT_MEASURED,
        f"{float(row['crps']):.4f}",
        f"{float(row['width_80']):.3f}",
        f"{float(row['seconds']):.0f}" if row["seconds"] else NOT_MEASURED,
    ]
