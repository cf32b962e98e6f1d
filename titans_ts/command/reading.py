"""Tables from files and from standard input, CSV or Parquet."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

import typer

from .options import Columns, Format

if TYPE_CHECKING:
    import pandas as pd

STANDARD_INPUT = Path("-")
# What the first bytes of a stream say that it is; any other is text.
FIRST_BYTES = {
    b"PAR1": ".parquet",
    b"\x1f\x8b": ".csv.gz",
    b"BZh": ".csv.bz2",
    b"\xfd7zXZ": ".csv.xz",
    b"PK\x03\x04": ".csv.zip",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
}
LONGEST = max(map(len, FIRST_BYTES))


def read_table(path: Path, how: Format, columns: Columns) -> pd.DataFrame:
    """The table of a file, or of standard input where `path` is "-", as `read_file` reads it.

    A stream, such as a pipe, is told apart by its first bytes.

    Raises
    ------
    OSError, ImportError, ValueError
        As `read_file`; names the file, or "standard input".
    typer.BadParameter
        If standard input is a terminal.
    """
    if path == STANDARD_INPUT:
        if sys.stdin.isatty():
            raise typer.BadParameter("name a file, or pipe a table in: `cat sales.csv | titans-ts ...`.")
        table = _read_stream(sys.stdin.buffer, how, columns, "standard input")
    elif path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; name a file in it.")
    elif path.exists() and not path.is_file():
        with path.open("rb") as stream:
            table = _read_stream(stream, how, columns, f"'{path}'")
    else:
        table = _read(path, how, columns, f"'{path}'")
    return _without(table, how.drop or [])


def _read_stream(stream: BinaryIO, how: Format, columns: Columns, name: str) -> pd.DataFrame:
    """A table from a stream, by way of a file, for it is read more than once."""
    head = stream.read(LONGEST)
    suffix = next((suffix for first, suffix in FIRST_BYTES.items() if head.startswith(first)), ".csv")
    with TemporaryDirectory() as folder:
        path = Path(folder, f"table{suffix}")
        with path.open("wb") as file:
            file.write(head)
            shutil.copyfileobj(stream, file)
        return _read(path, how, columns, name)


def _read(path: Path, how: Format, columns: Columns, name: str) -> pd.DataFrame:
    from titans_ts.tables.files import read_file

    try:
        return read_file(
            path,
            sep=how.sep,
            decimal=how.decimal,
            thousands=how.thousands,
            date_format=how.date_format,
            tz=how.tz,
            id_col=columns.id_col,
            time_col=columns.time_col,
        )
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {name}; check its spelling.") from None
    except (ValueError, ImportError) as error:
        text = str(error).replace(f"'{path}'", name)
        kind = ImportError if isinstance(error, ImportError) else ValueError
        raise kind(text if name in text else f"{name} cannot be read: {text}") from error


def _without(table: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    if absent := [name for name in names if name not in table]:
        raise ValueError(f"`drop` must name columns of the table, got {absent} beside {list(table)[:10]}.")
    return table.drop(columns=names)
