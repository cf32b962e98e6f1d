"""Load a published data set by name: frame, step, split and scaler."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from .fetch import fetch_file, find_file
from .read import read_frame, read_sha256
from .registry import DatasetSpec, find_spec

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

__all__ = ["Dataset", "Split", "load_dataset"]


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
        The values in their own units, float64, all rows in the file's order; the index is a DatetimeIndex named
        `date` of the file's own dates. Its `freq` is set where the dates are regular, which only weather's are not:
        there 2020-05-12 06:00 comes twice and 2020-05-29 skips from 09:30 to 11:10. Published results count its rows
        as they are, and its -9999 as values; where a clean clock matters more, take
        ``frame[~frame.index.duplicated()].asfreq(freq)`` and fill the rows that come up empty.
    name : str
        The name of the data set, whichever alias it was loaded by.
    freq : str
        Step between rows, nominal where the dates are not regular, as a pandas alias.
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

    The file, say `weather.csv`, is looked for in `root`, then in the folder that the environment variable
    `TITANS_TS_DATA` names; in each, directly or in the sub-folder that the data set usually comes in (`ETT-small`,
    `illness`, for the others the name). It may be compressed: `weather.csv.gz`, `weather.gz`, `weather.csv.zip` or
    `weather.zip`, which may hold other files too. If neither folder has it, it comes from the download folder, which
    `download` may fill.

    Parameters
    ----------
    name : str
        "ETTh1", "ETTh2", "ETTm1", "ETTm2", "electricity" (also "ECL", "ELC"), "traffic", "weather", "exchange_rate"
        ("exchange") or "national_illness" ("illness", "ILI"); case, `-`, `_` and spaces do not count.
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
        If `name` is not known, the file does not hold the rows and columns of that data set, or it is damaged.
    FileNotFoundError
        If the file is in no folder and `download` is false.
    OSError
        If no address gave the published file. Nothing is kept of a download that was cut or whose hash is wrong.

    Warns
    -----
    UserWarning
        If a file of yours holds the right rows and columns but is not, byte for byte once decompressed, the
        published one.

    Examples
    --------
    >>> data = load_dataset("ETTh1")  # doctest: +SKIP
    >>> data.frame.shape, data.split.test  # doctest: +SKIP
    ((17420, 7), range(11520, 14400))
    """
    spec = find_spec(name)
    path = find_file(spec, root) or fetch_file(spec, root, download)
    frame = read_frame(spec, path)
    _compare_hash(spec, path)
    return as_dataset(spec, frame, spec.name)


def as_dataset(spec: DatasetSpec, frame: pd.DataFrame, name: str) -> Dataset:
    """A frame of the spec's rows, and of its channels or some of them, split and scaled as the spec says."""
    ends = spec.split
    split = Split(range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]))
    return Dataset(frame, name, spec.freq, split, _fit_scaler(frame.iloc[split.train]))


def _compare_hash(spec: DatasetSpec, path: Path) -> None:
    sha256 = read_sha256(spec, path)
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
