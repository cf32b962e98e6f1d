"""Tables from files and standard input, told apart by their first bytes, and what is no table."""

from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from titans_ts.command.options import Columns, Format
from titans_ts.command.reading import read_table

TABLE = pd.DataFrame({"unique_id": ["007", "ä"], "ds": pd.to_datetime(["2024-01-01", "2024-01-02"]), "y": [1.5, 2.0]})
TEXT = TABLE.to_csv(index=False).encode()


class Piped:
    """Standard input that is no terminal, with these bytes."""

    def __init__(self, data: bytes, terminal: bool = False) -> None:
        self.buffer, self.terminal = io.BytesIO(data), terminal

    def isatty(self) -> bool:
        return self.terminal


def parquet() -> bytes:
    file = io.BytesIO()
    TABLE.to_parquet(file)
    return file.getvalue()


# Named, since gzip writes the time and tests of several processes must have the same names.
@pytest.mark.parametrize(
    "data",
    [TEXT, b"\xef\xbb\xbf" + TEXT, gzip.compress(TEXT), parquet()],
    ids=["text", "byte order mark", "gzip", "parquet"],
)
def test_standard_input_is_told_by_its_first_bytes(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Piped(data))
    pd.testing.assert_frame_equal(read_table(Path("-"), Format(), Columns()), TABLE, check_dtype=False)


def test_a_pipe_with_a_name_is_read_like_standard_input(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(parquet(),))
    writer.start()
    found = read_table(pipe, Format(), Columns())
    writer.join()
    pd.testing.assert_frame_equal(found, TABLE, check_dtype=False)


def test_a_terminal_is_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Piped(b"", terminal=True))
    with pytest.raises(Exception, match="name a file, or pipe a table in"):
        read_table(Path("-"), Format(), Columns())


def test_semicolons_decimal_commas_and_dates_are_read_by_options(titans: Any, small: str) -> None:
    rows = "".join(f"{i % 28 + 1:02}.{i // 28 + 1:02}.2023;{i % 5},5\n" for i in range(56))
    text = f"Tag;Größe\n{rows}".encode()
    missing = "--freq D --missing interpolate"
    wrong = titans("forecast", small, input=text)
    assert wrong.exit_code == 1
    assert "standard input has one column" in wrong.stderr
    assert "`--sep ';'`" in wrong.stderr
    wrong = titans("forecast --sep ;", small, input=text)
    assert "`--decimal ,`" in wrong.stderr
    wrong = titans("forecast --sep ; --decimal ,", small, input=text)
    assert "`--date-format %d.%m.%Y`" in wrong.stderr
    done = titans("forecast --sep ; --decimal , --date-format %d.%m.%Y", small, missing, input=text)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Tag,Größe\n2023-03-01,")


def test_a_column_of_counts_is_left_out_on_request(titans: Any, sales_file: Path, small: str) -> None:
    pd.read_csv(sales_file).to_csv(sales_file)
    wrong = titans("forecast", sales_file, small)
    assert wrong.exit_code == 1
    assert "`--drop 'Unnamed: 0'`" in wrong.stderr
    found = read_table(sales_file, Format(drop=["Unnamed: 0"]), Columns())
    assert list(found.columns) == ["month", "sales"]
    wrong = titans("forecast --drop rain", sales_file, small)
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "`--drop` must name columns of the table, got ['rain']" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("none.csv", None, "there is no file"),
        ("empty.csv", b"", "is empty"),
        ("names.csv", b"ds,y\n", "has no rows"),
        ("table.xlsx", b"PK", "must end in one of .csv"),
        ("bad.parquet", b"PAR1 and no more", "Parquet magic bytes"),
        ("latin.csv", "ds,Größe\n2024-01-01,1\n".encode("latin-1"), "must be UTF-8"),
    ],
)
def test_what_is_no_table_is_an_error_in_words(
    titans: Any, tmp_path: Path, name: str, data: bytes | None, words: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    done = titans("forecast", tmp_path / name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_folder_and_an_empty_pipe_are_no_tables(titans: Any, tmp_path: Path) -> None:
    assert titans("forecast", tmp_path).stderr == f"error: '{tmp_path}' is a folder; name a file in it.\n"
    done = titans("forecast", input=b"")
    assert done.exit_code == 1
    assert done.stderr == "error: standard input is empty; it must have a row of names and rows below.\n"
