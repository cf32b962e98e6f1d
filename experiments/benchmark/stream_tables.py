"""The stream tables in print: each row's errors, its difference from the frozen core, and what others published."""

from __future__ import annotations

from collections.abc import Iterator

from benchmark.stream_rows import FROZEN, ROWS

Record = dict[str, str]  # a row of the CSV
NOT_MEASURED = "–"

# MSE of table S2 by horizon, of those who learn from no row ahead of a forecast: of DSOF the best without the rows of
# its table that leak.
PUBLISHED: dict[str, dict[str, dict[int, float]]] = {
    "ETTh2": {"DSOF, best": {24: 1.694, 48: 2.988}},
    "ETTm1": {
        "DSOF, best": {24: 0.525, 48: 0.695},
        "iTransformer, frozen": {24: 0.609, 48: 0.797, 96: 0.852},
        "iTransformer with R-ARC": {24: 0.481, 48: 0.645, 96: 0.708},
    },
    "weather": {
        "DSOF, best": {24: 0.877, 48: 1.308},
        "iTransformer, frozen": {24: 0.998, 48: 1.372, 96: 1.724},
        "iTransformer with R-ARC": {24: 0.862, 48: 1.196, 96: 1.514},
    },
}


def print_tables(found: list[Record], channels: bool = False) -> None:
    """Each cell's rows as the CSV has them, then the means over horizons where several were measured."""
    for cell in _cells(found):
        records = [row for row in found if _cell(row) == cell]
        table, dataset, column, lookback, horizon = cell
        print(f"\nTable {table}, {dataset}, column {column}, lookback {lookback}, horizon {horizon}")
        heads = f"{'MSE':>8}{'MAE':>8}{'validation':>12}{'to frozen':>11}{'95 % interval':>22}{'s/update':>10}"
        print(f"{'row':<36}{heads}")
        for row in records:
            print(_line(row))
            if channels and (skill := channel_skill(row, records)):
                print("    skill by channel: " + " ".join(f"{x:+.3f}" for x in skill))
        if table == "S2":
            for name, cells in PUBLISHED.get(dataset, {}).items():
                if int(horizon) in cells:
                    print(f"{name + ' (published)':<36}{cells[int(horizon)]:>8.4f}")
    _print_means(found)


def channel_skill(row: Record, records: list[Record]) -> list[float] | None:
    """1 - MSE over the frozen core's, of each channel; None where that one's is not among the records."""
    frozen = next((other for other in records if other["row"] == FROZEN), None)
    if frozen is None:
        return None
    pairs = zip(row["channel_mse"].split(), frozen["channel_mse"].split(), strict=True)
    return [1 - float(mse) / float(of_frozen) for mse, of_frozen in pairs]


def _cell(row: Record) -> tuple[str, ...]:
    return tuple(row[name] for name in ("table", "dataset", "column", "lookback", "horizon"))


def _cells(found: list[Record]) -> Iterator[tuple[str, ...]]:
    return iter(dict.fromkeys(map(_cell, found)))


def _line(row: Record) -> str:
    validation = f"{float(row['validation_mse']):.4f}" if row["validation_mse"] else "-"
    difference, low, high = (float(row[name]) for name in ("difference", "low", "high"))
    interval = f"[{low:+.4f}, {high:+.4f}]"
    return (
        f"{row['row']:<36}{float(row['mse']):>8.4f}{float(row['mae']):>8.4f}{validation:>12}"
        f"{difference:>+11.4f}{interval:>22}{float(row['seconds_per_update']):>10.2g}"
    )


def _print_means(found: list[Record]) -> None:
    """The means over horizons of each row that was measured at all of those that the frozen core was."""
    for group in dict.fromkeys(_cell(row)[:4] for row in found):
        records = [row for row in found if _cell(row)[:4] == group]
        horizons = [row["horizon"] for row in records if row["row"] == FROZEN]
        if len(horizons) < 2:
            continue
        table, dataset, column, lookback = group
        print(f"\nTable {table}, {dataset}, column {column}, lookback {lookback}, mean over {', '.join(horizons)}")
        of_frozen = sum(float(row["mse"]) for row in records if row["row"] == FROZEN)
        for name in dict.fromkeys(row["row"] for row in records):
            errors = [float(row["mse"]) for row in records if row["row"] == name and row["horizon"] in horizons]
            if len(errors) == len(horizons):
                print(f"{name:<36}{sum(errors) / len(errors):>8.4f}{100 * (sum(errors) / of_frozen - 1):>+8.1f} %")


def summary(found: list[Record]) -> str:
    """The tables in Markdown: of S1 means over the horizons, of S2 each horizon; "–" where not all was measured."""
    parts = []
    for table, column in sorted({(row["table"], row["column"]) for row in found}):
        records = [row for row in found if (row["table"], row["column"]) == (table, column)]
        cells = sorted({(row["dataset"], row["horizon"]) for row in records}, key=lambda c: (c[0].lower(), int(c[1])))
        errors = {(row["row"], row["dataset"], row["horizon"]): float(row["mse"]) for row in records}
        heads: dict[str, list[tuple[str, str]]] = {}
        for dataset, horizon in cells:
            head = dataset if table == "S1" else f"{dataset} {horizon}"
            heads.setdefault(head, []).append((dataset, horizon))
        lines = [f"| Table {table}, column {column} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for name in sorted(dict.fromkeys(row["row"] for row in records), key=list(ROWS).index):
            entries = [_entry([errors.get((name, *cell)) for cell in part]) for part in heads.values()]
            if set(entries) != {NOT_MEASURED}:
                lines.append(f"| {name} | " + " | ".join(entries) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _entry(errors: list[float | None]) -> str:
    """The mean of errors as a table has it, if all were measured."""
    measured = [error for error in errors if error is not None]
    return f"{sum(measured) / len(measured):.4f}".lstrip("0") if len(measured) == len(errors) else NOT_MEASURED
