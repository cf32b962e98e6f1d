"""Load a published data set by name: frame, step, split and scaler."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd

from .bike_sharing import BIKE_SHARING, FREQ, MEASURES, SPLIT, read_bike_sharing
from .fetch import fetch_file, find_file
from .read import read_frame, read_sha256
from .registry import SPECS, DatasetSpec, find_by_name

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
        ``frame[~frame.index.duplicated()].asfreq(freq)`` and fill the rows that come up empty. That of bike_sharing is
        a table of one series with covariates, its times in a column `ds`; see `load_dataset`.
    name : str
        The name of the data set, whichever alias it was loaded by.
    freq : str
        Step between rows, nominal where the dates are not regular, as a pandas alias.
    split : Split
        Rows of the train, validation and test parts.
    scaler : StandardScaler
        Mean and population standard deviation of each channel over the train rows; `scaler.transform(frame)` is
        the space in which published errors are measured. Of bike_sharing it knows the numeric columns, those of
        `scaler.feature_names_in_`.
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

    "bike_sharing" comes with the package, so that neither `root` nor `download` matters to it: bicycles rented in
    Washington, D.C., in each hour of 2011 and 2012, with weather and holidays. Its frame is ready for a forecaster with
    `time_col="ds"` and a target, and may give it covariates:

    - `ds`: the hour, in local time. 17,379 hours have a row; 165 have none and are left out, as published, so that
      `missing="interpolate"` is needed.
    - `cnt`: rentals, those of `casual` users and of `registered` ones.
    - `temp`, `atemp`, `hum`, `windspeed`: temperature, felt temperature, humidity and wind as published, in [0, 1].
      Times 100 % and 67 these are humidity and wind speed. Of temperature the publisher's two descriptions differ: by
      the Readme, `41 * temp` and `50 * atemp` are °C, by the web page `47 * temp - 8` and `66 * atemp - 16`.
    - `weathersit`: "clear", "mist", "light rain or snow", "heavy rain or snow", which are 1 to 4 in the published file.
    - `season`: "winter", "spring", "summer", "fall", which are 1 to 4; `holiday`, `workingday`: booleans.

    It is by Hadi Fanaee-T, UCI Machine Learning Repository, doi.org/10.24432/C5W894, under CC BY 4.0; its split is by
    70, 10 and 20 % of the rows.

    Parameters
    ----------
    name : str
        "ETTh1", "ETTh2", "ETTm1", "ETTm2", "electricity" (also "ECL", "ELC"), "traffic", "weather", "exchange_rate"
        ("exchange"), "national_illness" ("illness", "ILI") or "bike_sharing"; case, `-`, `_` and spaces do not count.
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
    >>> hours = load_dataset("bike_sharing").frame
    >>> hours[["ds", "cnt", "temp", "weathersit", "workingday"]].tail(3)
                           ds  cnt  temp weathersit  workingday
    17376 2012-12-31 21:00:00   90  0.26      clear        True
    17377 2012-12-31 22:00:00   61  0.26      clear        True
    17378 2012-12-31 23:00:00   49  0.26      clear        True

    >>> data = load_dataset("ETTh1")  # doctest: +SKIP
    >>> data.frame.shape, data.split.test  # doctest: +SKIP
    ((17420, 7), range(11520, 14400))
    """
    spec = find_by_name(name, {**SPECS, BIKE_SHARING.name: BIKE_SHARING})
    if not isinstance(spec, DatasetSpec):
        frame = read_bike_sharing()
        return _split_and_scaled(frame, spec.name, FREQ, SPLIT, MEASURES)
    path = find_file(spec, root) or fetch_file(spec, root, download)
    frame = read_frame(spec, path)
    _compare_hash(spec, path)
    return as_dataset(spec, frame, spec.name)


def as_dataset(spec: DatasetSpec, frame: pd.DataFrame, name: str) -> Dataset:
    """A frame of the spec's rows, and of its channels or some of them, split and scaled as the spec says."""
    return _split_and_scaled(frame, name, spec.freq, spec.split, list(frame))


def _split_and_scaled(
    frame: pd.DataFrame, name: str, freq: str, ends: tuple[int, int, int], scaled: Sequence[str]
) -> Dataset:
    split = Split(range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]))
    return Dataset(frame, name, freq, split, _fit_scaler(frame.iloc[split.train][list(scaled)]))


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
