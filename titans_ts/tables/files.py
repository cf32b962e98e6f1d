"""Tables in files: one reader for CSV and Parquet that leaves ids as they are and guesses no dates.

pandas does the reading; Parquet needs pyarrow beside it.
"""

from __future__ import annotations

import csv
import lzma
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from titans_ts.paths import check_path

from .dates import guess_format, holds_dates, is_date, parse, read_dates, text_format
from .layouts import some
from .zones import check_zone_name

CSV, PARQUET = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
# What the libraries raise for what was compressed otherwise, or was cut.
DAMAGED = (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)
ZONE_REMEDY = "pass `tz='Europe/Berlin'`, or the zone that is meant"
# What pandas takes for a missing value unless told otherwise; among ids only an empty text is one.
NO_VALUE = ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"]
NO_VALUE += ["NA", "NULL", "NaN", "None", "n/a", "nan", "null"]

# How numbers may be written: the mark before decimals, and the one between thousands.
NOTATIONS = ((".", None), (",", None), (".", ","), (",", "."), *((d, t) for t in " '’_\u00a0\u202f" for d in ".,"))
HEAD = 50  # lines that are looked at in every file, for rows wider than the names
MARKED = r"[+-]?\d*[.,' ’_\u00a0\u202f]\d[\d.,' ’_\u00a0\u202f]*(?:[eE][+-]?\d+)?"


def read_file(
    path: str | os.PathLike[str],
    *,
    sep: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    date_format: str | None = None,
    tz: str | None = None,
    id_col: str = "unique_id",
    time_col: str = "ds",
) -> pd.DataFrame:
    """Read a table from a file.

    Parameters
    ----------
    path : path
        Ends in .csv, .tsv or .txt, perhaps compressed (.csv.gz), or in .parquet or .pq. Text is UTF-8, with or without
        a byte order mark.
    sep : str, optional
        Between the columns of a CSV file; if None a comma, or a tab where the name ends in .tsv.
    decimal : str
        Within the numbers of a CSV file.
    thousands : str, optional
        Between every three digits of the numbers of a CSV file. Without it '1,150' is refused, for it may be 1150 or
        1.15.
    date_format : str, optional
        How dates are written, as `datetime.strptime` knows it; needed where the year does not come first. "%q" is the
        number of a quarter, as in "%YQ%q".
    tz : str, optional
        The time zone of dates that carry offsets from UTC, such as '+01:00'; needed where the offsets differ, as they
        do over a change of clocks.
    id_col : str
        The column of ids. A CSV file's stay the text they are, so that '007' and 'NA' are ids too.
    time_col : str
        The column of dates; where there is none of that name, every column of text that begins with a date, or with
        one in `date_format`, is one.

    Returns
    -------
    DataFrame

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If a Parquet file is to be read without pyarrow.
    TypeError
        If `path` is no path.
    ValueError
        If `tz` is no time zone, the name ends otherwise, the file cannot be decompressed, the columns or numbers seem
        to be separated otherwise, the first line holds no names, a row has more or fewer fields than there are names, a
        date has another format than `date_format` or the first one, or day and month could be either. Names the file,
        and the column or line.

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
    path = check_path(path, "a file")
    if tz is not None:
        check_zone_name(tz)
    kind = [suffix for suffix in path.suffixes if suffix.lower() not in COMPRESSED][-1:]
    suffix = kind[0].lower() if kind else ""
    if suffix not in CSV + PARQUET:
        raise ValueError(f"'{path}' must end in one of {', '.join(CSV + PARQUET)}; rename it, or read it with pandas.")
    if sep is None:
        sep = "\t" if suffix == ".tsv" else ","
    table = _read_parquet(path) if suffix in PARQUET else _read_csv(path, sep, decimal, thousands, id_col, time_col)
    times = [time_col]
    if time_col not in table:
        times = [n for n, column in table.items() if n != id_col and _begins_with_date(column, date_format)]
    for name in times:
        try:
            table[name] = _read_times(table[name], date_format, tz)
        except ValueError as error:
            raise ValueError(f"'{path}', column {name!r}: {error}") from None
    if date_format is None and suffix in CSV:
        _check_other_formats(table, path, id_col, time_col)
    return table


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ImportError(f"'{path}' is a Parquet file, which needs pyarrow: `pip install pyarrow`.") from error


def _read_csv(path: Path, sep: str, decimal: str, thousands: str | None, id_col: str, time_col: str) -> pd.DataFrame:
    if not sep:
        raise ValueError("`sep` must be what separates the columns, got ''; pass ',' or '\\t'.")
    if thousands is not None and (len(thousands) != 1 or thousands == decimal):
        raise ValueError(f"`thousands` must be one character other than `decimal`, got {thousands!r}.")
    how: dict[str, Any] = dict(sep=sep, encoding="utf-8-sig", keep_default_na=False)
    # The quick parser of pandas knows no other separators of several characters, and warns where it is left open.
    how |= dict(low_memory=False) if len(sep) == 1 or sep == r"\s+" else dict(engine="python")
    if len(sep) == 1 and int(pd.__version__.split(".")[0]) < 3:  # later ones read to the bit anyway
        how["float_precision"] = "round_trip"
    try:
        given = pd.read_csv(path, header=None, nrows=1, dtype=str, na_values=[""], **how).iloc[0]
        names = [f"Unnamed: {i}" if name != name else name for i, name in enumerate(given)]
        missing = {name: NO_VALUE for name in names if name != id_col}
        how |= dict(decimal=decimal, dtype={id_col: str}, na_values=missing)
        table = pd.read_csv(path, **how)
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' must be UTF-8 ({error}); convert it, for example with `iconv`.") from None
    except pd.errors.EmptyDataError:
        raise ValueError(f"'{path}' is empty; it must have a row of names and rows below.") from None
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:  # which the system says
            raise
        raise ValueError(
            f"'{path}' cannot be decompressed ({error}); its name must end as it was compressed, and the file be whole."
        ) from None
    except re.error as error:
        raise ValueError(f"`sep` must be a character, or a regular expression, got {sep!r} ({error}).") from None
    except pd.errors.ParserError as error:
        _check_fields(path, sep)
        raise ValueError(f"'{path}' cannot be read as rows of fields ({error}); check its quotes.") from None
    _check_header(given.dropna(), path)
    if given.dropna().duplicated().any():
        raise ValueError(f"'{path}' must name every column once, got {given[given.duplicated()].iloc[0]!r} again.")
    if len(names) == 1 and (found := [other for other in ";\t,|" if other in names[0]]):
        raise ValueError(f"'{path}' has one column, {names[0]!r}; pass `sep={found[0]!r}`.")
    if _misfit(path, sep, HEAD) or (len(table) and table.iloc[:, -1].isna().any()):
        _check_fields(path, sep)
    if len(names) > 1 and given.isna().iloc[-1] and table.iloc[:, -1].isna().all():
        table = table.iloc[:, :-1].copy()  # separators end every line
    if id_col in table:
        table[id_col] = table[id_col].mask(table[id_col] == "")
    return _with_numbers(table, path, (decimal, thousands), (id_col, time_col))


def _check_header(names: pd.Series, path: Path) -> None:
    """Refuse a first line of numbers, and perhaps one date, as that of a file without names of columns."""
    plain = [name.strip() for name in names]
    if plain and plain[0].startswith("sep="):
        raise ValueError(f"'{path}' begins with a line {plain[0]!r}, which only Excel reads; remove that line.")
    numbers = [bool(re.fullmatch(r"[+-]?\d*[.,]?\d+", name)) for name in plain]
    others = [name for name, is_number in zip(plain, numbers, strict=True) if not is_number]
    dates = [name for name in others if text_format(name) is not None]
    whole = all(name.isdigit() for name in plain)  # as pandas numbers columns
    if plain and not whole and len(others) == len(dates) <= 1:
        raise ValueError(
            f"'{path}' begins with {', '.join(plain[:3])} and so has no names of columns; write a line of names above, "
            "such as ds,y."
        )


def _check_fields(path: Path, sep: str) -> None:
    """Refuse a row with more or fewer fields than there are names, which pandas would shift or fill."""
    found = _misfit(path, sep)
    if found is None:
        return
    line, fields, names = found
    remedy = "name every column in the first line" if len(fields) > len(names) else "write every field"
    if len(fields) > len(names) and not any(fields[len(names) :]):
        remedy = f"remove the {sep!r} that ends the line, or end the first line with one too"
    shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    raise ValueError(
        f"'{path}', line {line} has {some(len(fields), 'field')} under {some(len(names), 'name')} ({shown}); {remedy}, "
        f"or quote fields that hold {sep!r}."
    )


def _misfit(path: Path, sep: str, most: int | None = None) -> tuple[int, list[str], list[str]] | None:
    """The first row, among `most` lines, with other fields than names: its line, its fields and the names."""
    how: dict[str, Any] = dict(header=None, names=["line"], dtype=str, nrows=most, encoding="utf-8-sig")
    how |= dict(sep="\x1f", quoting=csv.QUOTE_NONE, skip_blank_lines=False, keep_default_na=False)
    lines = pd.read_csv(path, **how)["line"]
    names: list[str] = []
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=sep if len(sep) == 1 else ",")
    rows = reader if len(sep) == 1 else (re.split(sep, line.strip()) for line in lines)
    for i, fields in enumerate(rows, start=1):
        names = names or fields
        if any(fields) and len(fields) != len(names):
            return reader.line_num if len(sep) == 1 else i, fields, names
    return None


def _with_numbers(
    table: pd.DataFrame, path: Path, notation: tuple[str, str | None], but: tuple[str, str]
) -> pd.DataFrame:
    """The table with text read as numbers if thousands have the mark that was passed; other marks are refused."""
    refused: dict[str, tuple[str, set[tuple[str, str | None]]]] = {}
    for name, column in table.drop(columns=list(but), errors="ignore").select_dtypes(["object", "string"]).items():
        known = column.dropna().astype("str").str.strip()
        marked = known[known.str.fullmatch(MARKED)]
        fitting = {each for each in NOTATIONS if len(marked) and _fits(marked, *each)}
        if not len(marked) or (notation in fitting and notation[1] is None) or holds_dates(column):
            continue
        if notation[1] is not None and _fits(known, *notation, strict=False):
            plain = known.str.replace(notation[1], "", regex=False).str.replace(notation[0], ".", regex=False)
            table[name] = pd.to_numeric(plain).reindex(column.index)
        else:
            refused[name] = marked.iloc[0], fitting
    if refused:
        raise ValueError(_other_marks(path, notation, refused))
    return table


def _fits(numbers: pd.Series, decimal: str, thousands: str | None, strict: bool = True) -> bool:
    """Whether all are numbers in a notation, and if `strict` any uses its mark of thousands."""
    decimal, group = re.escape(decimal), thousands and re.escape(thousands)
    whole = rf"(?:[1-9]\d{{0,2}}(?:{group}\d{{3}})+|\d+)" if group else r"\d+"
    pattern = rf"[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
    used = not (group and strict) or numbers.str.contains(group).any()
    return bool(used and numbers.str.fullmatch(pattern).all())


def _other_marks(
    path: Path, notation: tuple[str, str | None], refused: dict[str, tuple[str, set[tuple[str, str | None]]]]
) -> str:
    """The error about numbers in another notation: the one that all columns share, or all that some may have."""
    name, (example, _) = min(refused.items(), key=lambda item: len(item[1][1]))
    common = set.intersection(*(fitting for _, fitting in refused.values()))
    seen = f"'{path}', column {name!r} has text such as {example!r}"
    if not common:
        return f"{seen}, and no one notation fits all numbers of the file; write them alike."
    fewest = sorted(common, key=lambda each: (_arguments(each, notation).count("="), each[0]), reverse=True)
    readings = sorted({_value(example, *each): _arguments(each, notation) for each in fewest}.items())
    if len(readings) == 1:
        return f"{seen}; pass {readings[0][1]}."
    told = " or ".join(f"{value} (pass {arguments})" for value, arguments in readings)
    return f"{seen}, which may be {told}."


def _value(text: str, decimal: str, thousands: str | None) -> str:
    return text.replace(thousands or "", "").replace(decimal, ".")


def _arguments(notation: tuple[str, str | None], passed: tuple[str, str | None]) -> str:
    """What to pass for a notation where another was passed."""
    changed = zip(("decimal", "thousands"), notation, passed, strict=True)
    return " and ".join(f"`{name}={mark!r}`" for name, mark, other in changed if mark != other)


def _begins_with_date(column: pd.Series, date_format: str | None) -> bool:
    """Whether the first value of a column is text, or an object, that is a date."""
    if is_date(column.dtype):  # no text
        return False
    begins = holds_dates(column)
    if begins or date_format is None:
        return begins
    first = pd.Index(column.dropna()[:1])
    if first.inferred_type != "string":
        return False
    try:
        parse(first, date_format, tz="UTC")
    except ValueError:
        return False
    return True


def _check_other_formats(table: pd.DataFrame, path: Path, id_col: str, time_col: str) -> None:
    """Refuse a table whose times are text that was not read, with the format that it seems to have."""
    if time_col not in table and any(is_date(dtype) for dtype in table.dtypes):
        return
    for name in [time_col] if time_col in table else table.columns:
        known = pd.Index(table[name].dropna())
        if name != id_col and known.inferred_type == "string" and (form := guess_format(known)) is not None:
            raise ValueError(
                f"'{path}', column {name!r} has dates such as {known[0]!r}; pass `date_format={form!r}` or the format "
                "that is meant."
            )


def _read_times(column: pd.Series, date_format: str | None, tz: str | None) -> pd.Series:
    """A column with its text as dates; what is missing stays so."""
    known = pd.Index(column[column.notna()])
    if is_date(known.dtype):
        return column
    if date_format is not None:
        dates = parse(known.astype("str"), date_format, tz=tz, zone_remedy=ZONE_REMEDY)
    else:
        dates, _ = read_dates(known, "pass `date_format={!r}`", tz=tz, zone_remedy=ZONE_REMEDY)
    return pd.Series(dates, index=column.index[column.notna()]).reindex(column.index)
