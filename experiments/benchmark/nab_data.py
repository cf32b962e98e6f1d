"""The Numenta Anomaly Benchmark's 58 files and their labelled windows, from a folder of yours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

WINDOWS = Path("labels", "combined_windows.json")


class LabelledFile(NamedTuple):
    """One series: when (rows,) datetime64, what (rows,) float64, and the first and last row of each labelled window.

    Times are as published: steps may differ, a time may come twice, and in `machine_temperature_system_failure` an hour
    is repeated where clocks were set back.
    """

    name: str
    timestamps: np.ndarray
    values: np.ndarray
    windows: list[tuple[int, int]]


def load_nab(root: str | os.PathLike[str] | None = None) -> list[LabelledFile]:
    """Read every file that has an entry in NAB's `labels/combined_windows.json`, in the order of their names.

    Parameters
    ----------
    root : path, optional
        A folder that holds NAB's folders `data` and `labels`, or a folder `nab` with these; else the one that
        `TITANS_TS_DATA` names. Nothing is downloaded.

    Raises
    ------
    FileNotFoundError
        If there are no labels in the folder, or one of the labelled files is missing.
    ValueError
        If a window's end is no time of its file, or stands there twice.
    """
    folder = _folder(root)
    labels = json.loads((folder / WINDOWS).read_text())
    return [read_file(folder / "data" / name, name, labels[name]) for name in sorted(labels)]


def read_file(path: Path, name: str, windows: list[list[str]]) -> LabelledFile:
    """Read one file; `windows` are pairs of times."""
    frame = pd.read_csv(path, parse_dates=["timestamp"])
    timestamps = frame["timestamp"].to_numpy()
    rows = [(_row(timestamps, first, name), _row(timestamps, last, name)) for first, last in windows]
    return LabelledFile(name, timestamps, frame["value"].to_numpy(np.float64), rows)


def _folder(root: str | os.PathLike[str] | None) -> Path:
    given = root or os.environ.get("TITANS_TS_DATA")
    folders = [Path(given), Path(given) / "nab"] if given else []
    found = next((folder for folder in folders if (folder / WINDOWS).is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"{WINDOWS} must be in `root` (given: {root}) or the folder that TITANS_TS_DATA names (given: "
            f"{os.environ.get('TITANS_TS_DATA')}), there or in its sub-folder nab. Put the folders `data` and "
            "`labels` of https://github.com/numenta/NAB there; they are not downloaded."
        )
    return found


def _row(timestamps: np.ndarray, time: str, name: str) -> int:
    rows = np.flatnonzero(timestamps == np.datetime64(pd.Timestamp(time)))
    if len(rows) != 1:
        raise ValueError(
            f"`windows` of {name} must begin and end at times that it has once, got {time} {len(rows)} times."
        )
    return int(rows[0])
