"""The files of the M3 and M4 competitions: series of different lengths, forecasts and scores, each cell checked."""

from __future__ import annotations

import io
import json
import reprlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .read import open_file
from .registry import PublishedFile

__all__ = ["History", "read_m3", "read_m3_entries", "read_m4", "read_m4_scores"]

AGAIN = "Fetch it again."


class History(NamedTuple):
    """Series of different lengths, one after another, and what came after each."""

    ids: np.ndarray  # (series,)
    lengths: np.ndarray  # (series,)
    values: np.ndarray  # (all rows,)
    future: np.ndarray  # (series, horizon)


def read_m3(published: PublishedFile, path: Path, period: str, horizon: int) -> History:
    """The series of one period ("YEARLY"), or a ValueError that names the file and the series it cannot read."""
    with open_file(published, path) as file:
        try:
            found = json.load(file)
        except ValueError as error:  # of JSON or of its encoding
            raise ValueError(f"{path} is cut or no JSON: {error}. {AGAIN}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must map each series' id to its values, got a {type(found).__name__}. {AGAIN}")
    ids, histories, futures = [], [], []
    for name, fields in found.items():
        try:
            if fields["period"][0] != period:
                continue
            past, future = (_numbers(fields[part]) for part in ("x", "xx"))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: series {name!r} must have a `period` and finite numbers `x` and `xx`: {error!r}. {AGAIN}"
            ) from error
        if not len(past) or len(future) != horizon:
            raise ValueError(
                f"{path}: series {name!r} must have values `x`, and {horizon} of them `xx`, got {len(past)} and "
                f"{len(future)}. {AGAIN}"
            )
        ids.append(name)
        histories.append(past)
        futures.append(future)
    if not ids:
        raise ValueError(f"{path} has no series of period {period!r}. {AGAIN}")
    lengths = np.array([len(past) for past in histories])
    return History(np.array(ids, dtype=object), lengths, np.concatenate(histories), np.stack(futures))


def read_m3_entries(published: PublishedFile, path: Path, ids: np.ndarray, horizon: int) -> dict[str, np.ndarray]:
    """Forecasts (series, horizon) of every method for the series `ids`; a method that has none of them is left out."""
    table = _read_csv(published, path)
    steps = [str(step) for step in range(horizon)]
    if missing := [column for column in ("method", "id", *steps) if column not in table]:
        raise ValueError(f"{path} lacks the columns {reprlib.repr(missing)}. {AGAIN}")
    table = table[table["id"].isin(set(ids))]
    entries = {}
    for method, rows in table.groupby("method", sort=False):
        if rows["id"].duplicated().any() or len(rows) != len(ids):
            raise ValueError(
                f"{path} must have each of {len(ids)} series once for {method!r}, got {len(rows)} rows. {AGAIN}"
            )
        forecast = _cells(path, rows.set_index("id").loc[list(ids), steps])
        if np.isnan(forecast).all():
            continue
        if not np.isfinite(forecast).all():
            wrong = ids[~np.isfinite(forecast).all(axis=1)][0]
            raise ValueError(f"{path}: {method!r} has no finite forecast of {wrong!r} for all {horizon} steps. {AGAIN}")
        entries[str(method)] = forecast
    if not entries:
        raise ValueError(f"{path} has no forecast of the {len(ids)} series from {ids[0]!r} to {ids[-1]!r}. {AGAIN}")
    return entries


def read_m4(train: PublishedFile, train_path: Path, test: PublishedFile, test_path: Path, horizon: int) -> History:
    """The series of a file, each an id and as many values as it has, with their rows of the file of what came after."""
    ids, values = _m4_rows(train, train_path)
    there = ~np.isnan(values)
    lengths = there.sum(axis=1)
    # A value after an empty cell is a gap; the files have none.
    gaps = (lengths == 0) | (there[:, ::-1].argmax(axis=1) + lengths != values.shape[1])
    if gaps.any():
        raise ValueError(f"{train_path}: series {ids[gaps][0]!r} must have values without a gap. {AGAIN}")
    test_ids, future = _m4_rows(test, test_path)
    row_of = {name: row for row, name in enumerate(test_ids)}
    if missing := [name for name in ids if name not in row_of]:
        raise ValueError(f"{test_path} lacks the series {reprlib.repr(missing)} of {train_path}. {AGAIN}")
    future = future[[row_of[name] for name in ids]]
    if future.shape[1] != horizon or np.isnan(future).any():
        raise ValueError(f"{test_path} must have {horizon} values for each series. {AGAIN}")
    return History(ids, lengths, values[there], future)


def read_m4_scores(published: PublishedFile, path: Path, group: str) -> pd.DataFrame:
    """`method`, `smape` and `mase` of each method in the columns of a group ("Hourly") under a header of two rows."""
    table = _read_csv(published, path, header=None, dtype=str)
    if len(table) < 2:
        raise ValueError(f"{path} must have a header of two rows, got {len(table)}. {AGAIN}")
    measures, groups = table.iloc[0].ffill(), table.iloc[1]
    columns = {}
    for measure in ("sMAPE", "MASE"):
        where = np.flatnonzero((measures == measure) & (groups == group))
        if len(where) != 1:
            raise ValueError(f"{path} must have one column {group!r} under {measure!r}, got {len(where)}. {AGAIN}")
        columns[measure.lower()] = table.iloc[2:, where[0]]
    scored = pd.DataFrame({"method": table.iloc[2:, 0], **columns}).dropna(subset=["smape"])  # notes follow the scores
    values = _cells(path, scored[["smape", "mase"]])
    if not len(scored) or not np.isfinite(values).all():
        raise ValueError(f"{path} must have an sMAPE and a MASE of each method for {group!r}. {AGAIN}")
    return pd.DataFrame({"method": scored["method"].to_numpy(), "smape": values[:, 0], "mase": values[:, 1]})


def _m4_rows(published: PublishedFile, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ids, and values with NaN after the end of each series."""
    table = _read_csv(published, path)
    names = table.iloc[:, 0].astype(object).to_numpy()
    values = _cells(path, table.iloc[:, 1:])
    if not len(names) or pd.isna(names).any() or pd.Series(names).duplicated().any():
        raise ValueError(f"{path} must begin each row with an id of its own. {AGAIN}")
    if np.isinf(values).any():
        raise ValueError(
            f"{path} must have finite values, series {names[np.isinf(values).any(axis=1)][0]!r} has not. {AGAIN}"
        )
    return names, values


def _read_csv(published: PublishedFile, path: Path, **how: Any) -> pd.DataFrame:
    """The table in a CSV file, whose last line must have as many cells as its first: one that was cut has not."""
    with open_file(published, path) as file:
        content = file.read()
    lines = content.rstrip(b"\r\n")
    first, last = lines.partition(b"\n")[0], lines.rpartition(b"\n")[2]
    if not lines or first.count(b",") != last.count(b","):
        raise ValueError(f"{path} is empty or cut: its last line must have as many cells as its first. {AGAIN}")
    try:
        return pd.read_csv(io.BytesIO(content), **how)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}. {AGAIN}") from error


def _cells(path: Path, cells: pd.DataFrame) -> np.ndarray:
    try:
        numbers: np.ndarray = cells.to_numpy(dtype=np.float64)
        return numbers
    except ValueError as error:
        raise ValueError(f"{path} has a cell that is no number: {error}. {AGAIN}") from error


def _numbers(values: Any) -> np.ndarray:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError("not all are finite numbers")
    return numbers
