"""Read a published data set: from a folder of the user's, or downloaded once and checked by its hash."""

from __future__ import annotations

import difflib
import hashlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from .registry import SPECS, DatasetSpec

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

__all__ = ["Dataset", "Split", "load_dataset"]

_FOLDER_VARIABLE = "TITANS_TS_DATA"


class Split(NamedTuple):
    """The rows of each part, as ranges over the frame; rows past the test part are never used."""

    train: range
    validation: range
    test: range


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in memory.

    The fields cannot be reassigned, but `frame` and `scaler` are ordinary objects that can be changed in place:
    copy the frame before you do. Every `load_dataset` returns its own.

    Parameters
    ----------
    frame : DataFrame of shape (rows, channels)
        The values in their own units, float64; the index is a regular DatetimeIndex named `date`.
    name : str
        The name of the data set.
    freq : str
        Step between rows, as a pandas alias.
    split : Split
        Rows of the train, validation and test parts.
    scaler : StandardScaler
        Mean and population standard deviation of each channel over the train rows; `scaler.transform(frame)` is
        the space in which published errors are measured.
    """

    frame: pd.DataFrame
    name: str
    freq: str
    split: Split
    scaler: StandardScaler


def load_dataset(name: str, root: str | os.PathLike[str] | None = None, download: bool = True) -> Dataset:
    """Load a published data set by name.

    The file is looked for in `root`, then in the folder that the environment variable `TITANS_TS_DATA` names; in
    each, directly or in the sub-folder that the data set usually comes in (`ETT-small`). If neither holds it, it
    comes from the download folder, which `download` may fill.

    Parameters
    ----------
    name : str
        "ETTh1", "ETTh2", "ETTm1" or "ETTm2".
    root : path, optional
        A folder of yours. It also becomes the download folder, made if need be; otherwise that is the user's cache.
    download : bool
        Whether the file may be downloaded.

    Returns
    -------
    Dataset
        Frame, name, step, split and a scaler fitted on the train rows.

    Raises
    ------
    ValueError
        If `name` is not known, or the file does not hold the rows and columns of that data set.
    FileNotFoundError
        If the file is in no folder and `download` is false.
    OSError
        If no address gave the published file; nothing is kept of a download whose hash is wrong.

    Warns
    -----
    UserWarning
        If a file of yours holds the right rows and columns but is not, byte for byte, the published one.

    Examples
    --------
    >>> data = load_dataset("ETTh1")  # doctest: +SKIP
    >>> data.frame.shape, data.split.test  # doctest: +SKIP
    ((17420, 7), range(11520, 14400))
    """
    spec = _spec(name)
    path = _find(spec, root) or _fetch(spec, root, download)
    frame = _read(spec, path)
    _compare_hash(spec, path)
    ends = spec.split
    split = Split(range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]))
    return Dataset(frame, spec.name, spec.freq, split, _fit_scaler(frame.iloc[split.train]))


def _spec(name: str) -> DatasetSpec:
    if name in SPECS:
        return SPECS[name]
    # Compared without case, because `etth1` is the likeliest slip.
    lowered = {known.lower(): known for known in SPECS}
    close = difflib.get_close_matches(str(name).lower(), lowered, n=1)
    hint = f" Did you mean '{lowered[close[0]]}'?" if close else ""
    raise ValueError(f"`name` must be one of {', '.join(SPECS)}, got {name!r}.{hint}")


def _find(spec: DatasetSpec, root: str | os.PathLike[str] | None) -> Path | None:
    for folder in (root, os.environ.get(_FOLDER_VARIABLE)):
        if not folder:
            continue
        for path in (Path(folder, spec.filename), Path(folder, spec.folder, spec.filename)):
            if path.is_file():
                return path
    return None


def _fetch(spec: DatasetSpec, root: str | os.PathLike[str] | None, download: bool) -> Path:
    """The published file in the download folder, downloaded if it is not there yet."""
    # Imported here because a folder that holds the file should be enough without.
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{spec.filename} is in no folder of yours, and pooch, which downloads it, is not installed. "
            f"Install pooch, or name a folder that holds the file by `root` or {_FOLDER_VARIABLE}."
        ) from error

    folder = Path(root) if root else Path(pooch.os_cache("titans_ts"))
    path = folder / spec.filename
    if not download:
        if path.is_file():
            return path
        raise FileNotFoundError(
            f"{spec.filename} must be in `root` (given: {root}), in the folder that {_FOLDER_VARIABLE} names (given: "
            f"{os.environ.get(_FOLDER_VARIABLE)}) or in {folder}, and is in none. "
            f"Pass `download=True`, or put the file of {spec.addresses[0]} in one of them."
        )
    failures = []
    for address in spec.addresses:
        try:
            # pooch writes to a temporary file and moves it into place only once the hash is right.
            return Path(pooch.retrieve(address, f"sha256:{spec.sha256}", fname=spec.filename, path=folder))
        except (OSError, ValueError) as error:
            failures.append(f"\n  {address}: {error}")
    raise OSError(
        f"{spec.filename} could not be downloaded to {folder}:{''.join(failures)}\n"
        f"Download it by other means and pass its folder as `root`, or name that folder in {_FOLDER_VARIABLE}."
    )


def _read(spec: DatasetSpec, path: Path) -> pd.DataFrame:
    """The file's channels as float64 over its dates, or a ValueError that says how it differs from the spec."""
    try:
        table = pd.read_csv(path)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as a CSV file: {error}") from error
    expected = ["date", *spec.channels]
    if missing := [column for column in expected if column not in table]:
        raise ValueError(f"{path} lacks the columns {missing} of {spec.name}.")
    if extra := [column for column in table if column not in expected]:
        raise ValueError(f"{path} has the columns {extra}, which are not in {spec.name}.")
    if len(table) != spec.rows:
        raise ValueError(f"{path} must have {spec.rows} rows to be {spec.name}, got {len(table)}; fetch it again.")
    try:
        dates = pd.DatetimeIndex(pd.to_datetime(table["date"]), name="date")
        # Refuses dates with a gap, a repetition or another step.
        dates.freq = spec.freq
        frame = table[list(spec.channels)].astype(np.float64).set_axis(dates)
    except ValueError as error:
        raise ValueError(f"{path} has a cell that cannot be in {spec.name}: {error}") from error
    unusable = ~np.isfinite(frame.to_numpy())
    if unusable.any():
        row, column = np.argwhere(unusable)[0]
        raise ValueError(f"{path} has no finite value in column {frame.columns[column]} at {dates[row]}.")
    return frame


def _compare_hash(spec: DatasetSpec, path: Path) -> None:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != spec.sha256:
        warnings.warn(
            f"{path} is not the published {spec.name}: its sha256 is {sha256}, not {spec.sha256}. "
            "It is used as it is; results may differ from published ones.",
            UserWarning,
            stacklevel=3,
        )


def _fit_scaler(train: pd.DataFrame) -> StandardScaler:
    # Imported here because it takes a second, which reading the registry should not.
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit(train)
