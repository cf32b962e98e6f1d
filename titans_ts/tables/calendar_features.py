"""Features of the calendar: what the label of a time says of its hour, day and year, by the clocks of its zone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .calendar import Calendar

HOLIDAYS = "holidays:"
MOST_SPANNED = 4  # steps for each row, up to which all between the first and the last are looked up
CATEGORIES: dict[str, tuple[int, ...]] = {
    "minute": tuple(range(60)),
    "hour": tuple(range(24)),
    "weekday": tuple(range(7)),  # 0 is Monday
    "day": tuple(range(1, 32)),
    "week": tuple(range(1, 54)),
    "month": tuple(range(1, 13)),
    "quarter": tuple(range(1, 5)),
}


def check_feature(name: Any) -> None:
    """Refuse what is no feature of the calendar."""
    known = [*CATEGORIES, "holidays:COUNTRY"]
    if not isinstance(name, str) or (name not in CATEGORIES and not name.startswith(HOLIDAYS)):
        raise ValueError(f"`calendar` must name features among {known}, got {name!r}.")
    if name.startswith(HOLIDAYS):
        _holidays(name, [2000])


def calendar_features(
    names: tuple[str, ...], calendar: Calendar, ids: pd.Index, series: np.ndarray, time_index: np.ndarray
) -> np.ndarray:
    """The features of times, numbered as `CATEGORIES` is; 1 on a holiday.

    Parameters
    ----------
    names : tuple of str
        Keys of `CATEGORIES`, and "holidays:US" or "holidays:DE-BY" for the holidays of a country or a part of one.
    calendar : Calendar
    ids : Index, shape (n_series,)
        Of the series, which may lie on different phases of the calendar.
    series, time_index : ndarray of int, shape (rows,)

    Returns
    -------
    ndarray, shape (rows, features)

    Raises
    ------
    TypeError
        If times are integers.
    """
    found = np.empty((len(time_index), len(names)))
    if not names or not len(time_index):
        return found
    phase = calendar.phase_of(ids) if calendar.phases else np.zeros(len(ids), dtype=np.int64)
    for i, own in enumerate(calendar.of_phases):
        rows = np.flatnonzero(phase[series] == i)
        if not len(rows):
            continue
        steps, at = _steps(time_index[rows])
        labels = own.labels(steps)
        if isinstance(labels, pd.PeriodIndex):
            labels = labels.to_timestamp()
        if not isinstance(labels, pd.DatetimeIndex):
            raise TypeError(f"`calendar` needs dates, but times are numbers such as {labels[0]}; leave it out.")
        for column, name in enumerate(names):
            found[rows, column] = _feature(name, labels)[at]
    return found


def _steps(time_index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different steps in order, and the place among them of each time index (rows,)."""
    low, high = int(time_index.min()), int(time_index.max())
    if high - low >= MOST_SPANNED * len(time_index):  # series lie far apart
        return np.unique(time_index, return_inverse=True)
    return np.arange(low, high + 1), time_index - low


def _feature(name: str, labels: pd.DatetimeIndex) -> np.ndarray:
    if name.startswith(HOLIDAYS):
        days = labels.tz_localize(None).normalize()
        listed = pd.DatetimeIndex(list(_holidays(name, range(days[0].year, days[-1].year + 1))))
        is_holiday: np.ndarray = days.isin(listed).astype(np.float64)
        return is_holiday
    if name == "week":
        values = labels.isocalendar().week.to_numpy(np.float64)
    else:
        values = np.asarray(getattr(labels, "day_of_week" if name == "weekday" else name), dtype=np.float64)
    codes: np.ndarray = values - CATEGORIES[name][0]
    return codes


def _holidays(name: str, years: Any) -> Any:
    """The holidays of a country, or of a part of it, in some years."""
    try:
        import holidays  # an extra: few calendars ask for it
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"`calendar` with {name!r} needs the package holidays: pip install 'titans-ts[holidays]'."
        ) from None
    country, _, part = name.removeprefix(HOLIDAYS).partition("-")
    try:
        return holidays.country_holidays(country, subdiv=part or None, years=years)
    except NotImplementedError as error:
        raise ValueError(f"`calendar` has {name!r}, whose holidays are not known: {error}.") from None
