"""What the columns of a table seem to be where they fit no layout: words for errors, and the calls that read them.

A wide table is one whose times are unmistakable. Everything here looks for columns that are something else than a
series (a counter of rows, years, seconds since 1970, ids), and never changes how a table is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from .dates import guess_format, holds_dates, is_date

# Columns that a file has where its index had no name, and such as count rows by habit.
_UNNAMED = re.compile(r"|Unnamed: \d+.*|_duplicated_\d+|__index_level_\d+__")
_ROW_NAMES = re.compile(r"#|level_\d+|(row_?)?(index|idx|nr|no|num|number|names?|id)|rows?|n", re.IGNORECASE)
_TIME_NAMES = re.compile(
    r"(.*[_ -])?(t|ts|ds|times?|time_?stamps?|time_?idx|epochs?|unix(_?time)?|dates?|date_?times?|year_?month|"
    r"yyyymm(dd)?|years?|yr|quarters?|months?|weeks?|(week)?days?|dow|doy|day_?of_?(week|year)|hours?|minutes?|seconds?|ms|periods?|steps?|jahr|datum|monat)(_?utc)?",
    re.IGNORECASE,
)
_ID_NAMES = re.compile(
    r"(.*[_ -])?(ids?|uid|uuid|key|code|sku|stores?|shops?|items?|products?|series|sites?|stations?|sensors?|meters?|"
    r"groups?|customers?|users?|devices?|machines?|households?|regions?|countr(y|ies))(_?(nr|no|nbr|num|number))?|"
    r".*[a-z]I[dD]",
    re.IGNORECASE,
)
MOST_DROPPED = 5  # columns that are named to be left out; where there are more, those that are kept
_EPOCHS = (("s", 1e8), ("ms", 1e11), ("us", 1e14), ("ns", 1e17))  # from 1973 on, up to a hundredfold
_DATE_PARTS = ("year", "month", "day")
_PARTS = {part: part for part in (*_DATE_PARTS, "quarter", "hour", "minute", "second", "day_of_week", "day_of_year")}
_PARTS |= {"weekday": "day_of_week", "dayofweek": "day_of_week", "dow": "day_of_week"}
_PARTS |= {"dayofyear": "day_of_year", "doy": "day_of_year"}


def check_channels(
    names: pd.Index,
    dtypes: list[Any],
    values: np.ndarray,
    labels: pd.Index | None,
    call_with_ids: Callable[[Hashable], str],
) -> None:
    """Refuse a wide table's columns that are no series: counters, times and ids.

    Parameters
    ----------
    names, dtypes : of the columns
    values : ndarray, shape (channels, rows)
    labels : Index, optional
        The times, which other columns or the index hold; None if the rows are merely counted.
    call_with_ids : callable
        What reads the table as a long one whose ids are in a column of that name.
    """
    if values.shape[1] < 3 or not len(names):
        return
    kinds = {dtype: types.is_integer_dtype(dtype) for dtype in set(dtypes)}
    whole = np.array([kinds[dtype] for dtype in dtypes])
    steady = None  # whether all columns are lines, and a line among them tells nothing
    for i in np.flatnonzero(_suspects(names, whole, values, labels is not None)):
        column, name, kind = values[i], names[i], _called(names[i])
        unit, step = _epoch_unit(column), _step(column)
        rises = bool((np.diff(column) > 0).all()) and (whole[i] or kind == "time")
        if unit and (_is_number(step) if labels is not None else step or rises):
            raise ValueError(_epoch(name, column, unit, labels is not None))
        if whole[i] and (kind == "unnamed" or (kind == "rows" and _counts(column))):
            raise ValueError(_counter(name, column, labels is not None))
        if not np.isfinite(column).all() or (column % 1).any():
            continue
        if whole[i] and kind == "id" and column.any():
            _check_id(name, column, call_with_ids)
        if kind == "time" and labels is not None and whole[i]:
            _check_repetition(name, column, labels)
        if kind == "time" and labels is None:
            _check_times(names, name, column, step, bool(whole[i]))
        if labels is None and len(column) > 4 and (form := _written_in_digits(column)):
            raise ValueError(_digits(name, column, form))
        counts = step == 1 and column[0] in (0, 1)
        if whole[i] and len(names) > 1 and (counts or (labels is None and _is_number(step))):
            steady = (np.diff(values) == np.diff(values[:, :2])).all() if steady is None else steady
            if not steady:
                raise ValueError(_counter(name, column, labels is not None) if counts else _times(name, column, True))


def _suspects(names: pd.Index, whole: np.ndarray, values: np.ndarray, has_times: bool) -> np.ndarray:
    """Which columns ask for a second look: a glance at all at once, for there may be thousands."""
    low, high = values.min(1), values.max(1)  # NaN where a value is missing
    suspect: np.ndarray = np.logical_or.reduce([(low >= least) & (high < 100 * least) for _, least in _EPOCHS])
    suspect |= whole & ((high - low == values.shape[1] - 1) | (low == high))
    suspect |= whole & ((values[:, 1:] == values[:, :-1]).mean(1) >= 0.5)  # ids, as rows of a series stand together
    steps = values[:, 1:3] - values[:, :2]
    suspect |= whole & (steps[:, 0] == steps[:, -1])
    suspect[[i for i in np.flatnonzero(whole) if names[i] is None or str(names[i])[:1] in ("", "U", "_")]] = True
    suspect[[i for i in np.flatnonzero(whole) if str(names[i]).lower() in _PARTS]] = True
    if not has_times:
        suspect |= (low >= 180_001) & (high <= 22_001_231)
        written_whole = np.flatnonzero((values[:, :3] % 1 == 0).all(1))
        suspect[[i for i in written_whole if _TIME_NAMES.fullmatch(str(names[i]))]] = True
    return suspect


def _check_id(name: Hashable, column: np.ndarray, call_with_ids: Callable[[Hashable], str]) -> None:
    """Refuse whole numbers under the name of an id that stand for few series."""
    if (column == column[0]).all():
        raise ValueError(
            f"column {name!r} holds {column[0]:.0f} in every row and has the name of an id, not of a series; "
            f"{_drop(name)}{_as_series(name)}."
        )
    if (np.diff(column) == 0).mean() >= 0.5:
        raise ValueError(
            f"column {name!r} has the name of an id and few values ({column[0]:.0f}, ...), and looks like no series; "
            f"{call_with_ids(name)}{_as_series(name)}."
        )


def _check_repetition(name: Hashable, column: np.ndarray, labels: pd.Index) -> None:
    """Refuse whole numbers under the name of a part of dates that are that part of the table's times."""
    part = getattr(labels, _PARTS.get(str(name).lower(), ""), None) if is_date(labels.dtype) else None
    if part is not None and np.array_equal(np.asarray(part), column):
        raise ValueError(
            f"column {name!r} repeats the {str(name).lower()} of the table's times and is no series; "
            f"{_drop(name)}{_as_series(name)}."
        )


def _check_times(names: pd.Index, name: Hashable, column: np.ndarray, step: Any, whole: bool) -> None:
    """Refuse a column that has the name of times, in a table without others."""
    if form := _written_in_digits(column):
        raise ValueError(_digits(name, column, form))
    parts = [other for other in names if str(other).lower() in _DATE_PARTS]
    if name in parts and {str(part).lower() for part in parts} >= {"year", "month"}:
        raise ValueError(_parts(parts))
    if step:
        raise ValueError(_times(name, column, whole))
    if whole and str(name).lower() in _PARTS:
        raise ValueError(
            f"column {name!r} has the name of a part of dates, and the table has no times; make one column of dates of "
            f"its parts, or {_drop(name)}{_as_series(name)}."
        )


def describe_text(table: pd.DataFrame, name: Hashable, id_col: str, time_col: str, target_col: str) -> str:
    """The remedy for a column of a wide table that holds no numbers."""
    column = table[name]
    known = column.dropna()
    if not len(known):
        return f"it holds nothing; {_drop(name)}"
    others = [other for label, other in table.items() if label != name]
    dated = [other for other in others if holds_dates(other)]
    repeats = _is_made(lambda: column.duplicated()) and bool(column.duplicated().any())
    if isinstance(column.dtype, pd.CategoricalDtype):
        if holds_dates(column.cat.categories):
            return f"it holds dates: make them plain, with `df.astype({{{name!r}: df[{name!r}].cat.categories.dtype}})`"
        repeats = repeats and bool(dated)
    elif is_date(column.dtype) or holds_dates(column):
        return f"it holds dates beside other times; keep one: `df.drop(columns=[{name!r}])`"
    if not repeats and _is_made(lambda: column.astype(float)):
        return f"use `.astype(float)`, as in `df.astype({{{name!r}: float}})`"
    if not _is_text(column) and numbers_from(column).startswith("use"):
        return numbers_from(column)
    first = known.iloc[0]
    kind = "text" if isinstance(first, str) else f"values of type {type(first).__name__}"
    seen = f"it holds {kind} such as {first!r}"
    if not _is_text(column) and not isinstance(column.dtype, pd.CategoricalDtype):
        return f"{seen}; {_drop(name)}"
    if call := call_for_times(column, f"df[{name!r}]"):
        return f"{seen}, which look like times: convert them, with `df.assign(**{{{name!r}: {call}}})`"
    if repeats and not dated and _is_made(lambda: column.astype(float)):
        return f"use `.astype(float)`, as in `df.astype({{{name!r}: float}})`"
    if not any(types.is_numeric_dtype(other.dtype) for other in others):
        return f"{seen}, and no column of the table holds numbers; make numbers of the one to forecast"
    times = dated[0] if dated else table.index
    if holds_dates(times) and times.is_unique and known.nunique() > 1:  # rows of one series
        roles = f"and name this column in `past_cols` or `future_cols`, or {_drop(name)}"
        return f"{seen}: name the column to forecast, with `target_col`, {roles}"
    if repeats or dated:
        return f"{seen}, which look like ids: {call_for(table, name, id_col, time_col, target_col)}"
    return f"{seen}; {_drop(name)}, or name the times, with `time_col`"


def numbers_from(column: pd.Series) -> str:
    """The remedy for values that are no numbers, all of them."""
    if _is_made(lambda: column.astype(float)):
        return "use `.astype(float)`"
    if _is_made(lambda: column.dt.total_seconds()):
        return "use `.dt.total_seconds()`"
    if is_date(column.dtype) or holds_dates(column):
        return "it holds dates: name the column of numbers with `target_col`"
    wrong = [i for i, value in enumerate(column) if not _is_made(lambda value=value: float(value))]
    seen = f"row {wrong[0]} has {column.iloc[wrong[0]]!r}" if wrong else "some are missing"
    return (
        f"{seen}: correct it, or make it missing, with `pd.to_numeric(..., errors='coerce')`, and pass "
        "`missing='interpolate'`"
    )


def call_for(table: pd.DataFrame, ids: Hashable | None, id_col: str, time_col: str, target_col: str) -> str:
    """What reads a long table whose ids are in column `ids`, if any: the arguments, and which columns to keep."""
    left = [name for name in table.columns if name not in (ids, id_col)]
    times = time_col if time_col in left else _the(left, lambda name: holds_dates(table[name]))
    times = times or _the(left, lambda name: _is_text(table[name]) and not _is_made(lambda: table[name].astype(float)))
    times = times or _the(left, lambda name: _TIME_NAMES.fullmatch(str(name)) and name != target_col)
    numbers = [name for name in left if name != times and types.is_numeric_dtype(table[name].dtype)]
    target = target_col if target_col in numbers else numbers[0] if numbers else None
    if times is None or target is None:
        return "pass ids, times and one target, and name their columns with `id_col`, `time_col` and `target_col`"
    found = {"id_col": (ids, id_col), "time_col": (times, time_col), "target_col": (target, target_col)}
    given = ", ".join(f"{key}={name!r}" for key, (name, default) in found.items() if name not in (None, default))
    keep = [name for name in (id_col if ids is None else ids, times, target) if name in table]
    drop = [name for name in table if name not in keep]
    kept = f"`df.drop(columns={drop!r})`" if len(drop) <= MOST_DROPPED else f"`df[{keep!r}]`"
    calls = ([kept] if drop else []) + ([f"`{given}`"] if given else [])
    return f"pass {' and '.join(calls)}"


def call_for_times(labels: Any, name: str) -> str | None:
    """The call that turns text, which stands in `name`, into times, where its format is known."""
    known = labels[labels.notna()]
    first = known.tolist()[0] if len(known) else None
    if not isinstance(first, str):
        return None
    if _is_made(lambda: [pd.Period(text) for text in known]) and (freq := pd.Period(first).freqstr)[0] in "QAY":
        return f"pd.PeriodIndex({name}, freq={freq!r})"
    form = guess_format(pd.Index(known))
    if form is None or "%q" in form:  # which pandas does not know
        return None
    if form.endswith("%V"):
        return f"pd.to_datetime({name} + '-1', format={f'{form}-%u'!r})"
    return f"pd.to_datetime({name}, format={form!r})"


def named_by_dates(columns: pd.Index) -> bool:
    """Whether most columns have dates for names, as those of a table have whose rows are its series."""
    columns = columns.infer_objects()
    if is_date(columns.dtype):
        return True
    if types.is_integer_dtype(columns.dtype):
        return len(columns) > 2 and bool(((columns >= 1800) & (columns <= 2200)).all() and columns.is_unique)
    if not (types.is_object_dtype(columns.dtype) or types.is_string_dtype(columns.dtype)) or len(columns) < 2:
        return False
    if not any(holds_dates(columns[[i]]) for i in (0, 1, -1)):  # one look for the many tables that have none
        return False
    dates = sum(holds_dates(columns[[i]]) for i in range(len(columns)))
    return dates > 1 and 2 * dates > len(columns)


def looks_like_ids(column: pd.Series) -> bool:
    """Whether a column's values repeat and are text, categories, or whole numbers under the name of an id."""
    dtype = column.dtype
    named = types.is_integer_dtype(dtype) and bool(_ID_NAMES.fullmatch(str(column.name)))
    if not (named or _is_text(column) or isinstance(dtype, pd.CategoricalDtype)):
        return False
    return _is_made(lambda: column.duplicated()) and bool(column.duplicated().any())


def _called(name: Hashable) -> str | None:
    """What a column's name alone says that it is."""
    text = "" if name is None else name if isinstance(name, str) else None
    if text is None:
        return None
    kinds = (("unnamed", _UNNAMED), ("rows", _ROW_NAMES), ("time", _TIME_NAMES), ("id", _ID_NAMES))
    return next((kind for kind, pattern in kinds if pattern.fullmatch(text)), None)


def _counts(column: np.ndarray) -> bool:
    """Whether whole numbers, in any order, are those of one range."""
    return column.max() - column.min() == len(column) - 1 and len(np.unique(column)) == len(column)


def _step(column: np.ndarray) -> Any:
    """The distance of whole numbers, if all are equally far apart; `...` if, sorted, half are, and none closer.

    None if they are no times.
    """
    distance = np.diff(column)
    if (distance == distance[0]).all():
        return abs(distance[0]) or None
    distance = np.diff(np.sort(column))
    least = distance.min()
    regular = least > 0 and not (distance % least).any() and 2 * (distance == least).sum() >= len(distance)
    return ... if regular else None


def _is_number(step: Any) -> bool:
    return step is not None and step is not ...


def _epoch_unit(column: np.ndarray) -> str | None:
    return next((unit for unit, low in _EPOCHS if low <= column.min() and column.max() < 100 * low), None)


def _written_in_digits(column: np.ndarray) -> str | None:
    """The format of whole numbers that are different dates, all of them: 20240131 or 202401."""
    if len(np.unique(column)) < len(column):
        return None
    for form, low, high in (("%Y%m%d", 18000101, 22001231), ("%Y%m", 180001, 220012)):
        if low <= column.min() and column.max() <= high:
            text = pd.Series(column).astype("int64").astype(str)
            return form if pd.to_datetime(text, format=form, errors="coerce").notna().all() else None
    return None


def _counter(name: Hashable, column: np.ndarray, has_times: bool) -> str:
    seen = ", ".join(f"{value:.0f}" for value in column[:3])
    use = "" if has_times else f", or pass `time_col={name!r}` where it counts the steps"
    return f"column {name!r} counts the rows ({seen}, ...) and is no series; {_drop(name)}{use}{_as_series(name)}."


def _epoch(name: Hashable, column: np.ndarray, unit: str, has_times: bool) -> str:
    date = pd.Timestamp(int(column[0]), unit=unit)
    call = f"`df.assign(**{{{name!r}: pd.to_datetime(df[{name!r}], unit={unit!r})}})`"
    remedy = f"{_drop(name)}" if has_times else f"convert it, with {call}"
    seen = f"{column[0]:.0f} is {date}"
    return f"column {name!r} looks like times in {unit} since 1970 ({seen}), not like a series; {remedy}."


def _digits(name: Hashable, column: np.ndarray, form: str) -> str:
    call = f"pd.to_datetime(df[{name!r}].astype(int).astype(str), format={form!r})"
    return (
        f"column {name!r} looks like dates written {form!r} ({column[0]:.0f}), not like a series; convert it, with "
        f"`df.assign(**{{{name!r}: {call}}})`."
    )


def _times(name: Hashable, column: np.ndarray, whole: bool) -> str:
    seen = ", ".join(f"{value:.0f}" for value in column[:3])
    first = "" if whole else f"make it whole, with `df.astype({{{name!r}: int}})`, and "
    return (
        f"column {name!r} looks like times ({seen}, ...), not like a series, and the table has no others; {first}pass "
        f"`time_col={name!r}`, or make it the index, with `df.set_index({name!r})`{_as_series(name) if whole else ''}."
    )


def _parts(parts: list[Hashable]) -> str:
    day = "" if any(str(name).lower() == "day" for name in parts) else ".assign(day=1)"
    call = f"df.set_index(pd.to_datetime(df[{parts!r}]{day})).drop(columns={parts!r})"
    return f"columns {parts!r} look like the parts of dates, not like series; join them, with `{call}`."


def _drop(name: Hashable) -> str:
    return f"drop it, with `df.drop(columns=[{name!r}])`"


def _as_series(name: Hashable) -> str:
    return f"; if it is a series, `df.astype({{{name!r}: float}})` says so"


def _the(names: list[Hashable], rule: Any) -> Hashable | None:
    """The one name that keeps to a rule."""
    found = [name for name in names if rule(name)]
    return found[0] if len(found) == 1 else None


def _is_text(column: Any) -> bool:
    known = column[column.notna()]
    return len(known) > 0 and isinstance(known[:1].tolist()[0], str)


def _is_made(make: Any) -> bool:
    """Whether a call raises nothing."""
    try:
        make()
    except Exception:  # whatever pandas raises for values of any kind
        return False
    return True
