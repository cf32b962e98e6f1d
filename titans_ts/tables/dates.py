"""Dates that tables hold as text or as `date` objects: to labels that have a calendar, and back as they were."""

from __future__ import annotations

import datetime
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types
from pandas.tseries.api import guess_datetime_format

DATE_OBJECTS = "date"  # how labels were written, where not in a strptime format

# What to do about times with several offsets from UTC; a list of them is read alike from a column and from an index.
ZONE_REMEDY = (
    "read them into one zone first, with `pd.to_datetime(list(...), utc=True).tz_convert('Europe/Berlin')` or the zone "
    "that is meant"
)

_YEAR_FIRST = re.compile(r"\d{4}(?:([-/.]?)\d\d(?:\1\d\d(?:([ T])\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:?\d\d)?)?)?)?")
_WITH_OFFSET = re.compile(r"\d{4}-\d\d-\d\d.*[+-]\d\d:?\d\d")  # perhaps with fractions of a second
# Of quarters, weeks and months, beside what pandas can guess; "%q" is the number of a quarter.
_OTHER_FORMATS = ("%YQ%q", "%Y-Q%q", "Q%q %Y", "Q%q-%Y", "%GW%V", "%G-W%V", "%b %Y", "%B %Y", "%b-%Y", "%b-%y", "%m/%Y")
_COLON = "%:z"  # an offset such as +01:00, as strptime and strftime call it from Python 3.15 on; '%z' has no colon here
_CLOCK = re.compile(r" \d{1,2}:\d\d(:\d\d)?( [AaPp][Mm])?")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/. ])(\d{1,2})\2(\d{4}|\d\d)\b.*")


def is_date(dtype: Any) -> bool:
    """Whether a dtype is one of dates or periods."""
    return types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype)


def holds_dates(column: pd.Series | pd.Index) -> bool:
    """Whether a column holds dates of any kind; text and objects are told by their first value."""
    if is_date(column.dtype):
        return True
    if not _may_be_text(column.dtype):
        return False
    known = column.notna()
    if not known.any():
        return False
    first = column[[int(np.argmax(known))]] if isinstance(column, pd.Index) else column.iloc[[int(np.argmax(known))]]
    label = first.tolist()[0]
    if isinstance(label, str):
        return any(form.fullmatch(label) for form in (_YEAR_FIRST, _YEAR_LAST, _WITH_OFFSET))
    return pd.api.types.infer_dtype(first) in ("date", "datetime", "datetime64", "period")


def read_dates(
    labels: pd.Index,
    remedy: str = "convert them first, with `pd.to_datetime(..., format={!r})`",
    *,
    tz: str | None = None,
    zone_remedy: str = ZONE_REMEDY,
) -> tuple[pd.Index, str | None]:
    """Labels as dates, and how they were written: a strptime format, 'date' for objects, None if they are as given.

    Only text with the year first is read, all of it in the format of the first: nothing is guessed. Text with an offset
    from UTC, such as '+01:00', becomes dates at that offset.

    Parameters
    ----------
    labels : Index
    remedy : str
        What to do about dates of other formats, with a place for the one that they seem to have.
    tz : str, optional
        The time zone that text with offsets is read into, whatever they are. It is not written as text again.
    zone_remedy : str
        What to do about text with several offsets where `tz` is None.

    Raises
    ------
    ValueError
        If day and month of text could be either, a later label has another format than the first, or text has several
        offsets from UTC and no `tz` says which zone is meant.
    """
    if not _may_be_text(labels.dtype) or not len(labels):
        return labels, None
    kind = labels.inferred_type
    if kind == "date":
        return pd.to_datetime(labels), DATE_OBJECTS
    if kind != "string":
        return _from_objects(labels, kind, tz, zone_remedy), None
    first = labels[0]
    written = text_format(first)
    if written is None:
        if _WITH_OFFSET.fullmatch(first):
            if tz is not None:
                return pd.to_datetime(labels, format="ISO8601", utc=True).tz_convert(tz), None
            _check_offsets(labels, _offsets(labels), zone_remedy)
        if (year_last := _YEAR_LAST.fullmatch(first)) is not None:
            column = "" if labels.name is None else f" {labels.name!r}"
            raise ValueError(
                f"time labels{column} must have the year first to be read as they are, got {first!r}{either(labels)}; "
                f"{remedy.format(_guess(labels, year_last))} or the format that is meant."
            )
        return labels, None
    dates = parse(labels, written, tz=tz, zone_remedy=zone_remedy)
    return dates, written if tz is None or "z" not in written else None


def write_dates(labels: pd.Index, written: str | None) -> pd.Index:
    """Labels as they were written."""
    if written is None:
        return labels
    if written == DATE_OBJECTS:
        return pd.Index(labels.date, dtype=object)
    text = labels.strftime(written.replace(_COLON, "%z"))
    return text.str.slice(stop=-2) + ":" + text.str.slice(start=-2) if written.endswith(_COLON) else text


def text_format(text: str) -> str | None:
    """The strptime format of a date with the year first; None for other text."""
    found = _YEAR_FIRST.fullmatch(text)
    if found is None:
        return None
    between, clock, seconds, zone = found.groups()
    parts = [part for part, end in (("%Y", 4), ("%m", 6), ("%d", 8)) if len(re.sub(r"\D", "", text)) >= end]
    if between == "" and len(parts) == 2:  # 202405 might as well be a number
        return None
    written = (between or "").join(parts)
    if clock is not None:
        written += f"{clock}%H:%M{':%S' if seconds else ''}"
    if zone is not None:
        written += "Z" if zone == "Z" else _COLON if ":" in zone else "%z"
    return written


def parse(labels: pd.Index, written: str, *, tz: str | None = None, zone_remedy: str = ZONE_REMEDY) -> pd.DatetimeIndex:
    """Text in a strptime format as dates; ValueError names the first label that has another.

    "%q" is the number of a quarter, and a format that ends in a week, "%G-W%V", begins it on Monday.

    Text with offsets from UTC, '%z', becomes dates in `tz`, or at the one offset that all of it has.
    """
    form = written.replace(_COLON, "%z")
    if "%q" in form:
        text, form = _first_months(labels, form), "%Y-%m"
    elif form.endswith("%V"):  # weeks by their Mondays
        text, form = labels + "-1", f"{form}-%u"
    else:
        text = labels
    dates = pd.to_datetime(text, format=form, errors="coerce", utc=form.endswith("%z"))
    bad = np.asarray(dates.isna() & labels.notna())
    if bad.any():
        column = "" if labels.name is None else f" {labels.name!r}"
        raise ValueError(
            f"time labels{column} must all have the format {written!r}, got {labels[int(bad.argmax())]!r} in row "
            f"{bad.argmax()}; write them alike, or convert them first, with `pd.to_datetime`."
        )
    if not form.endswith("%z"):
        return dates
    if tz is not None:
        return dates.tz_convert(tz)
    known = labels[labels.notna()]
    _check_offsets(labels, _offsets(known), zone_remedy)
    return dates.tz_convert(pd.to_datetime(known[:1], format=form).tz)


def _first_months(labels: pd.Index, form: str) -> pd.Index:
    """The first month of each quarter; missing where the text has another form."""
    pattern = re.escape(form).replace("%Y", r"(?P<year>\d{4})").replace("%q", "(?P<quarter>[1-4])")
    found = labels.str.extract(f"^{pattern}$")
    month = 3 * pd.to_numeric(found["quarter"]) - 2
    return pd.Index(found["year"] + "-" + month.map("{:02.0f}".format).where(month.notna()), name=labels.name)


def _offsets(labels: pd.Index) -> pd.Index:
    """The offset from UTC that each text ends with."""
    return labels.str.extract(r"([+-]\d\d:?\d\d|Z)$", expand=False)


def _check_offsets(labels: pd.Index, offsets: pd.Index, remedy: str) -> None:
    """ValueError where times have several offsets from UTC, and so no one time zone."""
    other = np.asarray(offsets != offsets[0])
    if other.any():
        row = int(other.argmax())
        column = "" if labels.name is None else f" {labels.name!r}"
        raise ValueError(
            f"time labels{column} must keep one offset from UTC, got {offsets[0]!r} and {offsets[row]!r} in row {row}, "
            f"as where clocks change; {remedy}."
        )


def _from_objects(labels: pd.Index, kind: str, tz: str | None, zone_remedy: str) -> pd.Index:
    """Objects that are datetimes or periods as such; anything else stays as it is."""
    found = labels.infer_objects()
    if kind != "datetime" or is_date(found.dtype) or any(label.tzinfo is None for label in labels):
        return found
    if tz is not None:
        return pd.to_datetime(labels, utc=True).tz_convert(tz)
    _check_offsets(labels, pd.Index([label.isoformat()[-6:] for label in labels]), zone_remedy)
    return pd.to_datetime(labels, utc=True).tz_convert(datetime.timezone(labels[0].utcoffset()))


def guess_format(labels: pd.Index) -> str | None:
    """A format, as `parse` reads it, that all of some text has which is no date with the year first; None if none."""
    first = labels[0]
    if not isinstance(first, str) or first.isdigit():
        return None
    for form in (*_OTHER_FORMATS, guess_datetime_format(first)):
        if form is None or not re.search("%[YyG]", form):  # a time of day is no date
            continue
        with suppress(ValueError, TypeError):
            parse(labels[:1], form)  # one look for the many that have another
            parse(labels, form)
            return form
    return None


def _guess(labels: pd.Index, first: re.Match[str]) -> str:
    """A strptime format for text with the year last; day first unless the text itself says otherwise."""
    _, between, _, year = first.groups()
    day_first = not _over_twelve(labels, 3)
    order = ("%d", "%m") if day_first else ("%m", "%d")
    clock = ""
    if found := _CLOCK.fullmatch(labels[0][first.end(4) :]):
        seconds, half = found.groups()
        clock = f" {'%I' if half else '%H'}:%M{':%S' if seconds else ''}{' %p' if half else ''}"
    return between.join([*order, "%Y" if len(year) == 4 else "%y"]) + clock


def either(labels: pd.Index) -> str:
    """Words for an error where no label tells day from month."""
    return "" if _over_twelve(labels, 1) or _over_twelve(labels, 3) else ", whose day and month could be either"


def _over_twelve(labels: pd.Index, part: int) -> bool:
    """Whether part 1 or 3 of any label is over twelve, and so no month."""
    matches = (_YEAR_LAST.fullmatch(label) for label in labels.unique() if isinstance(label, str))
    return any(int(found[part]) > 12 for found in matches if found)


def _may_be_text(dtype: Any) -> bool:
    may: bool = types.is_object_dtype(dtype) or types.is_string_dtype(dtype)
    return may
