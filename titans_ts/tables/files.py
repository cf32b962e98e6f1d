"""Tables in files: one reader for CSV and Parquet that leaves ids as they are and guesses no dates.

pandas does the reading; Parquet needs pyarrow beside it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from .dates import holds_dates, is_date, parse, read_dates

CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
# What pandas takes for a missing value unless told otherwise; among ids only an empty text is one.
NO_VALUE = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"]
NO_VALUE += ["NA", "NULL", "NaN", "None", "n/a", "nan", "null"]


def read_file(
    path: str | os.PathLike[str],
    *,
    sep: str = ",",
    decimal: str = ".",
    date_format: str | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
) -> pd.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv or .txt, perhaps compressed (.csv.gz), or in .parquet or .pq. Text is UTF-8, with or without
        a byte order mark.
    sep, decimal : str
        Between the columns and within the numbers of a CSV file.
    date_format : str, optional
        How dates are written, as `datetime.strptime` knows it; needed where the year does not come first.
    id_col : str
        The column of ids. A CSV file's stay the text they are, so that '007' and 'NA' are ids too.
    time_col : str
        The column of dates; where there is none of that name, every column of text that begins with a date is one.

    Returns
    -------
    DataFrame

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If a Parquet file is to be read without pyarrow.
    ValueError
        If the name ends otherwise, the columns or numbers seem to be separated otherwise, a date has another format
        than `date_format` or the first one, or day and month could be either. Names the file, and the column.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "sales.csv")
    >>> with open(path, "w", encoding="utf-8") as file:
    ...     _ = file.write("unique_id;ds;y" + chr(10) + "007;31.01.2024;1,5" + chr(10))
    >>> read_file(path, sep=";", decimal=",", date_format="%d.%m.%Y")
      unique_id         ds    y
    0       007 2024-01-31  1.5
    """
    path = Path(path)
    kind = [suffix for suffix in path.suffixes if suffix.lower() not in COMPRESSED][-1:]
    suffix = kind[0].lower() if kind else ""
    if suffix not in CSV + PARQUET:
        raise ValueError(f"'{path}' must end in one of {', '.join(CSV + PARQUET)}; rename it, or read it with pandas.")
    table = _read_parquet(path) if suffix in PARQUET else _read_csv(path, sep, decimal, id_col, time_col)
    times = (
        [time_col]
        if time_col in table
        else [n for n, column in table.items() if n != id_col and _is_text_of_dates(column)]
    )
    for name in times:
        try:
            table[name] = _read_times(table[name], date_format)
        except ValueError as error:
            raise ValueError(f"'{path}', column {name!r}: {error}") from None
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ImportError(f"'{path}' is a Parquet file, which needs pyarrow: `pip install pyarrow`.") from error


def _read_csv(path: Path, sep: str, decimal: str, id_col: str, time_col: str) -> pd.DataFrame:
    how: dict[str, Any] = dict(sep=sep, encoding="utf-8-sig")
    try:
        names = pd.read_csv(path, header=None, nrows=1, dtype=str, **how).iloc[0]
        missing = {name: NO_VALUE for name in names if name != id_col}
        how |= dict(decimal=decimal, dtype={id_col: str}, na_values=missing, keep_default_na=False)
        table = pd.read_csv(path, **how)
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' must be UTF-8 ({error}); convert it, for example with `iconv`.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"'{path}' is empty; it must have a row of names and rows below.") from None
    if names.duplicated().any():
        raise ValueError(f"'{path}' must name every column once, got {names[names.duplicated()].iloc[0]!r} again.")
    if len(names) == 1 and (found := [other for other in ";\t,|" if other in names.iloc[0]]):
        raise ValueError(f"'{path}' has one column, {names.iloc[0]!r}; pass `sep={found[0]!r}`.")
    if id_col in table:
        table[id_col] = table[id_col].mask(table[id_col] == "")
    _refuse_decimals(table.drop(columns=[id_col, time_col], errors="ignore"), path, "," if decimal == "." else ".")
    return table


def _refuse_decimals(table: pd.DataFrame, path: Path, decimal: str) -> None:
    """Numbers with the other decimal mark are read as text."""
    for name, column in table.select_dtypes(["object", "string"]).items():
        numbers = column[column.astype("str").str.fullmatch(rf"\s*-?\d*\{decimal}\d+\s*")]
        if len(numbers):
            example = numbers.iloc[0]
            raise ValueError(f"'{path}', column {name!r} has text such as {example!r}; pass `decimal={decimal!r}`.")


def _is_text_of_dates(column: pd.Series) -> bool:
    return not is_date(column.dtype) and holds_dates(column)


def _read_times(column: pd.Series, date_format: str | None) -> pd.Series:
    """A column with its text as dates; what is missing stays so."""
    known = pd.Index(column[column.notna()])
    if is_date(known.dtype):
        return column
    if date_format is not None:
        dates = parse(known.astype("str"), date_format)
    else:
        dates, _ = read_dates(known, "pass `date_format={!r}`")
    return pd.Series(dates, index=column.index[column.notna()]).reindex(column.index)
