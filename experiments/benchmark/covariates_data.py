"""Hours with the weather of the same hours beside them: a target, what is known ahead of it, and where its test begins.

The covariates are what was measured in the hours to forecast, so errors are a lower bound of those with forecasts of
the weather. Rows are regular: hours that a file leaves out have NaN as their target and filled covariates.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd

from titans_ts.datasets.fetch import require_file
from titans_ts.datasets.registry import PublishedFile

ID, TIME, TARGET = "unique_id", "ds", "y"
STEP = pd.Timedelta(hours=1)
DAY = 24
LOOKBACK = 336


@dataclass(frozen=True, eq=False)
class Problem:
    """Series with covariates and the origins from which they are forecast.

    Parameters
    ----------
    name : str
    frame : DataFrame
        `unique_id`, `ds`, `y` and the covariates, by series and time, every hour; `y` is NaN where it is not known.
    future_cols : tuple of str
        Covariates that are known ahead; those of text are categories.
    calendar : tuple of str
        Features of the times, as `TitansForecaster(calendar=)` takes them.
    begin : Timestamp
        Of the test rows, the first hour of a day.
    end : Timestamp
        After their last hour.
    horizon : int
        Hours ahead of each origin; there is one origin a day.
    n_validation : int
        Last hours of each series before `begin` by which models choose.
    """

    name: str
    frame: pd.DataFrame
    future_cols: tuple[str, ...]
    calendar: tuple[str, ...]
    begin: pd.Timestamp
    end: pd.Timestamp
    horizon: int
    n_validation: int

    @cached_property
    def before(self) -> pd.DataFrame:
        """The rows before test."""
        return self.frame[self.frame[TIME] < self.begin].reset_index(drop=True)

    @cached_property
    def origins(self) -> pd.DatetimeIndex:
        """The first hour of each forecast."""
        return pd.date_range(self.begin, self.end - self.horizon * STEP, freq=f"{DAY}h")

    @cached_property
    def ids(self) -> list[str]:
        return list(self.frame[ID].unique())

    @cached_property
    def scale(self) -> pd.Series:
        """The mean of each series before test, by id: 1 % of it is the unit of errors."""
        mean: pd.Series = self.before.groupby(ID, sort=False)[TARGET].mean()
        return mean

    def actual(self) -> np.ndarray:
        """What came, (series, origins, horizon); NaN is not counted."""
        wide = self.frame.pivot(index=TIME, columns=ID, values=TARGET)[self.ids]
        return at_origins(wide, self.origins, self.horizon)

    @property
    def of_roots(self) -> Problem:
        """The same of the square roots of the target."""
        return replace(self, frame=self.frame.assign(**{TARGET: np.sqrt(self.frame[TARGET])}))

    def rows(self, begin: pd.Timestamp, hours: int) -> pd.DataFrame:
        """The rows of all series from a time on."""
        times = self.frame[TIME]
        return self.frame[(times >= begin) & (times < begin + hours * STEP)]


def at_origins(wide: pd.DataFrame, origins: pd.DatetimeIndex, horizon: int) -> np.ndarray:
    """Values of a frame of hours by series, (series, origins, horizon)."""
    first = wide.index.get_indexer(origins)
    rows: np.ndarray = wide.to_numpy()[np.add.outer(first, np.arange(horizon))].transpose(2, 0, 1)
    return rows


def bike_sharing(root: str | os.PathLike[str] | None = None, horizon: int = DAY) -> Problem:
    """Rented bicycles of two years; test is November and December 2012. Fanaee-T and Gama (2013), UCI, CC BY 4.0."""
    table = pd.read_csv(_file("bike_sharing", "hour.csv", root))
    table[TIME] = pd.to_datetime(table["dteday"], format="%m/%d/%Y") + pd.to_timedelta(table["hr"], unit="h")
    table = table.set_index(TIME).asfreq(STEP)
    numbers = ["temp", "hum", "windspeed", "holiday", "workingday"]
    frame = table[numbers].interpolate()
    daily = ["holiday", "workingday"]
    frame[daily] = table[daily].ffill()
    frame["weathersit"] = table["weathersit"].ffill().astype(int).map(lambda kind: f"kind {kind}")
    frame = frame.assign(**{ID: "bikes", TARGET: table["cnt"].astype(float)}).reset_index()
    return Problem(
        name="bike_sharing",
        frame=frame[[ID, TIME, TARGET, *numbers, "weathersit"]],
        future_cols=(*numbers, "weathersit"),
        calendar=("hour", "weekday", "month"),
        begin=pd.Timestamp("2012-11-01"),
        end=pd.Timestamp("2013-01-01"),
        horizon=horizon,
        n_validation=61 * DAY,
    )


def gefcom2012(root: str | os.PathLike[str] | None = None, horizon: int = DAY, every: int = 1) -> Problem:
    """Load of 20 zones of a utility, and the mean temperature of 11 stations; test is the last year.

    Of the zones `every` so many are taken. Zone 9 is an industrial customer, whose load does not follow the weather.
    Hong, Pinson and Fan (2014), "Global energy forecasting competition 2012".
    """
    load = pd.read_csv(_file("gefcom2012", "gefcom2012_load.csv.gz", root))
    temperature = pd.read_csv(_file("gefcom2012", "gefcom2012_temp.csv.gz", root))
    hours = pd.date_range("2004-01-01", periods=len(load), freq=STEP, name=TIME)
    load.columns = pd.Index([f"zone {name:>02}" for name in load], name=ID)
    wide = load.set_axis(hours).astype(float).iloc[:, ::every]
    frame = wide.unstack().rename(TARGET).reset_index()
    frame["temp"] = np.tile(temperature.mean(axis=1).to_numpy(), wide.shape[1])
    end = hours[-1].normalize()
    return Problem(
        name="gefcom2012" if every == 1 else f"gefcom2012, {wide.shape[1]} zones",
        frame=frame,
        future_cols=("temp",),
        calendar=("hour", "weekday", "month", "holidays:US"),
        begin=end - pd.Timedelta(days=365),
        end=end,
        horizon=horizon,
        n_validation=122 * DAY,
    )


PROBLEMS: dict[str, Callable[..., Problem]] = {
    "bike_sharing": bike_sharing,
    "gefcom2012, 5 zones": partial(gefcom2012, every=4),
    "gefcom2012": gefcom2012,
}


def _file(folder: str, name: str, root: str | os.PathLike[str] | None) -> Path:
    return require_file(PublishedFile(folder=folder, filename=name), root)
