"""Make datasets/bike_sharing.csv.gz of UCI's hour.csv: `python experiments/pack_bike_sharing.py FOLDER/hour.csv`."""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

from titans_ts.datasets.bike_sharing import COLUMNS, FILE

SHA256 = "462d1c779b4d3825c35555e6dffa3063cc0d66b89feeffcaa5093cd475e4a1c3"  # of hour.csv, whose dates are m/d/Y
TARGET = Path(__file__).parents[1] / "datasets" / FILE


def main(argv: list[str] | None = None) -> None:
    """Write the file, and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="hour.csv of doi.org/10.24432/C5W894")
    parser.add_argument("--out", type=Path, default=TARGET, help="where it is written")
    args = parser.parse_args(argv)
    content = args.source.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != SHA256:
        raise SystemExit(f"{args.source} is not the hour.csv that was packed: its sha256 is {sha256}.")
    packed = gzip.compress(table(content.decode()).encode(), compresslevel=9, mtime=0)
    args.out.write_bytes(packed)
    print(f"{args.out}: {len(packed)} bytes")


def table(hours: str) -> str:
    """The rows with their dates year first, without the columns that the date tells; no value is changed."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(_rows(hours))
    return out.getvalue()


def _rows(hours: str) -> Iterator[list[str]]:
    yield ["ds", *COLUMNS]
    for row in csv.DictReader(hours.splitlines()):
        month, day, year = map(int, row["dteday"].split("/"))
        yield [f"{year}-{month:02}-{day:02} {int(row['hr']):02}:00", *(row[name] for name in COLUMNS)]


if __name__ == "__main__":
    main()
