"""The content of a published file, plain or compressed: its bytes, its hash, and its rows checked against the spec."""

from __future__ import annotations

import gzip
import hashlib
import io
import reprlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import cast

import numpy as np
import pandas as pd

from .registry import DatasetSpec, PublishedFile

__all__ = ["open_file", "read_frame", "read_sha256"]

_AGAIN = "Fetch the published file again, or read yours with `titans_ts.read_file`."


def read_sha256(spec: DatasetSpec, path: Path) -> str:
    """The hash of the CSV file at `path`, of what is in it where it is compressed."""
    with open_file(spec, path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_frame(spec: DatasetSpec, path: Path) -> pd.DataFrame:
    """The file's channels as float64 over its dates, or a ValueError that says how it differs from the spec."""
    with open_file(spec, path) as file:
        try:
            # Given an open file, pandas takes a third of the memory that it takes given a path.
            table = pd.read_csv(file)
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as a CSV file: {error}. {_AGAIN}") from error
    expected = ["date", *spec.channels]
    if missing := [column for column in expected if column not in table]:
        raise ValueError(f"{path} lacks the columns {reprlib.repr(missing)} of {spec.name}. {_AGAIN}")
    if extra := [column for column in table if column not in expected]:
        raise ValueError(f"{path} has the columns {reprlib.repr(extra)}, which are not in {spec.name}. {_AGAIN}")
    if len(table) != spec.rows:
        raise ValueError(f"{path} must have {spec.rows} rows to be {spec.name}, got {len(table)}. {_AGAIN}")
    try:
        dates = pd.DatetimeIndex(pd.to_datetime(table["date"]), name="date")
        if spec.regular:
            # Refuses dates with a gap, a repetition or another step.
            dates.freq = spec.freq
        values = table[list(spec.channels)].to_numpy(dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"{path} has a cell that cannot be in {spec.name}: {error}. {_AGAIN}") from error
    if not dates.is_monotonic_increasing:
        raise ValueError(f"{path} must have its rows in the order of their dates to be {spec.name}. {_AGAIN}")
    unusable = ~np.isfinite(values)
    if unusable.any():
        row, column = np.argwhere(unusable)[0]
        raise ValueError(f"{path} has no finite value in column {spec.channels[column]} at {dates[row]}. {_AGAIN}")
    return pd.DataFrame(values, index=dates, columns=list(spec.channels), copy=False)


@contextmanager
def open_file(published: PublishedFile, path: Path) -> Iterator[io.BufferedIOBase]:
    """The bytes of the file at `path`, decompressed, or a ValueError where they are damaged."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as unpacked:
                yield unpacked
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(_member(published, path, archive)) as member:
                yield cast(io.BufferedIOBase, member)
        else:
            with path.open("rb") as file:
                yield file
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged: {error}. Compress the file again, or fetch it again.") from error


def _member(published: PublishedFile, path: Path, archive: zipfile.ZipFile) -> str:
    matching = [name for name in archive.namelist() if PurePosixPath(name).name == published.filename]
    if len(matching) != 1:
        got = reprlib.repr(matching or archive.namelist())
        raise ValueError(
            f"{path} must hold exactly one file named {published.filename}, got {got}. "
            "Unpack it and keep the right file."
        )
    return matching[0]
