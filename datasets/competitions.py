"""The M3 and M4 competitions: many short series, what came after each, and how those who took part forecast it.

Sources
-------
M3 : Makridakis and Hibon, "The M3-Competition: results, conclusions and implications" (2000).
M4 : Makridakis, Spiliotis and Assimakopoulos, "The M4 Competition: 100,000 time series and 61 forecasting methods"
    (2020); the series lie at https://github.com/Mcompetitions/M4-methods.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .competition_files import History, read_m3, read_m3_entries, read_m4, read_m4_scores
from .fetch import find_file, require_file
from .registry import NamedSpec, PublishedFile, find_by_name

__all__ = ["COMPETITIONS", "Competition", "CompetitionSpec", "load_competition"]

LAST = pd.Timestamp("2000-01-01")  # of the rows before the forecast, of every series


@dataclass(frozen=True, kw_only=True)
class CompetitionSpec(NamedSpec):
    """A group of a competition's series.

    Parameters
    ----------
    name, aliases : str, tuple of str
        What it is called: the competition and the group, "M4 hourly".
    freq : str or None
        Step between rows, as a pandas alias; None where it is not known.
    horizon : int
        Steps to forecast.
    season : int
        Steps back that MASE compares with, m of its definition.
    series : int
        Number of series in the published group.
    """

    freq: str | None
    horizon: int
    season: int
    series: int

    @property
    def folder(self) -> str:
        """The sub-folder of its files, "m3" or "m4"."""
        return self.name.split()[0].lower()

    @property
    def group(self) -> str:
        return self.name.split()[1]


COMPETITIONS = {
    spec.name: spec
    for spec in (
        CompetitionSpec(name="M3 yearly", freq="YS", horizon=6, season=1, series=645),
        CompetitionSpec(name="M3 quarterly", freq="QS", horizon=8, season=4, series=756),
        CompetitionSpec(name="M3 monthly", freq="MS", horizon=18, season=12, series=1428),
        CompetitionSpec(name="M3 other", freq=None, horizon=8, season=1, series=174),
        CompetitionSpec(name="M4 hourly", freq="h", horizon=48, season=24, series=414),
        CompetitionSpec(name="M4 yearly", freq="YS", horizon=6, season=1, series=23_000),
        CompetitionSpec(name="M4 quarterly", freq="QS", horizon=8, season=4, series=24_000),
    )
}


@dataclass(frozen=True, eq=False)
class Competition:
    """A group of a competition's series in memory.

    The files hold no times. Each series is given those of its frequency, counted back from a last row before the
    forecast that all series share, 2000-01-01; where the frequency is not known ("M3 other") they are whole numbers.

    Parameters
    ----------
    name : str
        The competition and the group.
    freq : str or None
        Step between rows, as a pandas alias; None for whole numbers.
    horizon : int
        Steps to forecast.
    season : int
        Steps back that MASE compares with: 12 monthly, 4 quarterly, 24 hourly, else 1.
    n_published : int
        Number of series in the published group. `train` holds fewer where only a part of the file is at hand.
    train : DataFrame of columns `unique_id`, `ds`, `y`
        The rows before the forecast, series after series in the file's order.
    test : DataFrame of columns `unique_id`, `ds`, `y`
        The `horizon` rows that came after each.
    entries : DataFrame or None
        M3: the forecasts of those who took part, the rows of `test` with a column for each method that forecast the
        group. None for M4.
    published : DataFrame of columns `method`, `smape`, `mase`, or None
        M4: the published scores of those who took part, over all series of the published group. None for M3.
    """

    name: str
    freq: str | None
    horizon: int
    season: int
    n_published: int
    train: pd.DataFrame
    test: pd.DataFrame
    entries: pd.DataFrame | None
    published: pd.DataFrame | None


def load_competition(name: str, root: str | os.PathLike[str] | None = None) -> Competition:
    """Read a group of the M3 or M4 competition from files of yours; nothing is downloaded.

    The files are looked for in `root`, then in the folder that the environment variable `TITANS_TS_DATA` names; in
    each, directly or in the sub-folder `m3` or `m4`, plain or compressed as for `load_dataset`. M3:
    `m3_data.json`, from each id to its `period`, history `x` and what came, `xx`; and `m3_forecasts_24methods.csv` of
    columns `method`, `id`, `0`, `1`, ... M4: `Hourly-train.csv`, `Hourly-test.csv` (`Yearly`, `Quarterly`) and
    `point_forecast_scores_by_frequency.csv`, as published. Where there is no `Quarterly-train.csv`,
    `Quarterly-train-partial.csv` may hold some of its series.

    Parameters
    ----------
    name : str
        "M3 yearly", "M3 quarterly", "M3 monthly", "M3 other", "M4 hourly", "M4 yearly" or "M4 quarterly"; case, `-`,
        `_` and spaces do not count.
    root : path, optional
        A folder of yours.

    Returns
    -------
    Competition
        Rows before the forecast, rows after, and what those who took part forecast or scored.

    Raises
    ------
    ValueError
        If `name` is not known, or a file is damaged or does not hold that group's series.
    FileNotFoundError
        If a file is in no folder.

    Examples
    --------
    >>> yearly = load_competition("M3 yearly")  # doctest: +SKIP
    >>> yearly.train["unique_id"].nunique(), yearly.horizon, len(yearly.test)  # doctest: +SKIP
    (645, 6, 3870)
    """
    spec = find_by_name(name, COMPETITIONS)
    return _load_m3(spec, root) if spec.folder == "m3" else _load_m4(spec, root)


def _load_m3(spec: CompetitionSpec, root: str | os.PathLike[str] | None) -> Competition:
    series = PublishedFile(folder=spec.folder, filename="m3_data.json")
    forecasts = PublishedFile(folder=spec.folder, filename="m3_forecasts_24methods.csv")
    path, entries_path = require_file(series, root), require_file(forecasts, root)
    history = read_m3(series, path, period=spec.group.upper(), horizon=spec.horizon)
    _check_count(spec, path, history)
    entries = read_m3_entries(forecasts, entries_path, history.ids, spec.horizon)
    train, test = _frames(spec, history)
    columns = {method: forecast.ravel() for method, forecast in entries.items()}
    return _competition(spec, train, test, test[["unique_id", "ds"]].assign(**columns), None)


def _load_m4(spec: CompetitionSpec, root: str | os.PathLike[str] | None) -> Competition:
    group = spec.group.capitalize()
    whole, partial, test_file, scores = (
        PublishedFile(folder=spec.folder, filename=filename)
        for filename in (
            f"{group}-train.csv",
            f"{group}-train-partial.csv",
            f"{group}-test.csv",
            "point_forecast_scores_by_frequency.csv",
        )
    )
    some = spec.group == "quarterly" and not find_file(whole, root) and find_file(partial, root)
    train_file = partial if some else whole
    paths = [require_file(each, root) for each in (train_file, test_file, scores)]
    history = read_m4(train_file, paths[0], test_file, paths[1], spec.horizon)
    if not some:
        _check_count(spec, paths[0], history)
    return _competition(spec, *_frames(spec, history), None, read_m4_scores(scores, paths[2], group))


def _check_count(spec: CompetitionSpec, path: Path, history: History) -> None:
    if len(history.ids) != spec.series:
        raise ValueError(
            f"{path} must have the {spec.series} series of {spec.name}, got {len(history.ids)}; fetch it again."
        )


def _frames(spec: CompetitionSpec, history: History) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows before the forecast and those after it, with times."""
    longest, lengths = int(history.lengths.max()), history.lengths
    steps = longest + spec.horizon
    times: pd.Index = pd.RangeIndex(steps)
    if spec.freq is not None:
        # In seconds, because M4's longest yearly series begins before the year 1677, where nanoseconds do.
        before = pd.date_range(end=LAST, periods=longest, freq=spec.freq, unit="s")
        times = pd.date_range(before[0], periods=steps, freq=spec.freq, unit="s")
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])  # row of each series
    within = np.arange(lengths.sum()) - np.repeat(first, lengths)
    train = _frame(
        np.repeat(history.ids, lengths), times[np.repeat(longest - lengths, lengths) + within], history.values
    )
    ahead = np.tile(np.arange(longest, steps), len(history.ids))
    test = _frame(np.repeat(history.ids, spec.horizon), times[ahead], history.future.ravel())
    return train, test


def _frame(ids: np.ndarray, times: pd.Index, values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"unique_id": ids, "ds": times, "y": values})


def _competition(
    spec: CompetitionSpec,
    train: pd.DataFrame,
    test: pd.DataFrame,
    entries: pd.DataFrame | None,
    published: pd.DataFrame | None,
) -> Competition:
    facts = (spec.name, spec.freq, spec.horizon, spec.season, spec.series)
    return Competition(*facts, train, test, entries, published)
