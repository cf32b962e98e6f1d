"""Files of the shape of M3's and M4's, with few series."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

M3 = {
    # id: period, history, what came
    "N0001": ("YEARLY", [1.0, 2.5, 4], [5.0, 6.0, 7.0, 8.0, 9.0, 10.0]),
    "N0002": ("YEARLY", [10, 20, 30, 40, 50], [60, 70, 80, 90, 100, 110]),
    "N0646": ("QUARTERLY", [1.0] * 9, [2.0] * 8),
    "N2830": ("OTHER", [3.0, 4.0], [5.0] * 8),
    "N2831": ("OTHER", [6.0], [7.0] * 8),
}


def m3_series(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    found = {
        name: {"sn": [name], "n": [len(x)], "h": [len(xx)], "period": [period], "x": x, "xx": xx}
        for name, (period, x, xx) in M3.items()
    }
    return found | (changes or {})


def m3_forecasts() -> list[list[Any]]:
    """Rows of two methods, of which the second did not forecast the yearly series; what is empty is ''."""
    rows: list[list[Any]] = [["method", "id", *range(18)]]
    for method, error in (("THETA", 1), ("AAM1", 2)):
        for name, (period, _, xx) in M3.items():
            values = [""] * len(xx) if (method, period) == ("AAM1", "YEARLY") else [value + error for value in xx]
            rows.append([method, name, *values, *[""] * (18 - len(xx))])
    return rows


def m4_rows(series: dict[str, list[float]]) -> list[list[Any]]:
    """A header, and rows that end with empty cells where their series are shorter."""
    longest = max(map(len, series.values()))
    rows = [[name, *values, *[""] * (longest - len(values))] for name, values in series.items()]
    return [[f"V{column + 1}" for column in range(longest + 1)], *rows]


SCORES = [
    ["Method", "sMAPE", "", "", "MASE", "", "", "OWA", "", ""],
    ["User ID", "Yearly", "Quarterly", "Hourly", "Yearly", "Quarterly", "Hourly", "Yearly", "Quarterly", "Hourly"],
    ["Naive2", 16.342, 11.012, 18.383, 3.974, 1.371, 2.395, 1, 1, 1],
    [118, 13.176, 9.679, 9.328, 2.98, 1.118, 0.893, 0.778, 0.847, 0.44],
    [""] * 10,
    ["sMAPE: symmetric mean absolute percentage error", *[""] * 9],
]


def text(rows: list[list[Any]]) -> bytes:
    """The rows as the published files have them: words in quotation marks."""
    cells = [[f'"{cell}"' if isinstance(cell, str) and cell else str(cell) for cell in row] for row in rows]
    return "".join(",".join(row) + "\n" for row in cells).encode()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_m3(folder: Path) -> None:
    write(folder / "m3" / "m3_data.json", json.dumps(m3_series()).encode())
    write(folder / "m3" / "m3_forecasts_24methods.csv.gz", text(m3_forecasts()))


def write_m4(folder: Path, group: str, past: dict[str, list[float]], future: dict[str, list[float]], end: str) -> None:
    """The files of a group; `end` is that of the name of its file of histories."""
    write(folder / "m4" / f"{group}-train{end}", text(m4_rows(past)))
    write(folder / "m4" / f"{group}-test.csv", text(m4_rows(future)))
    write(folder / "m4" / "point_forecast_scores_by_frequency.csv", text(SCORES))
