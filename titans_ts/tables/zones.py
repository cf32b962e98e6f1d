"""Names of time zones: text that pandas reads as the same zone, whichever library made it."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pandas as pd


def zone_name(zone: datetime.tzinfo) -> str | None:
    """Text that pandas reads as a zone of the same times; None where a zone has no name, or that of another.

    That of zoneinfo and pytz is their key, dateutil's begins with 'dateutil/', and a fixed offset is 'UTC+01:00'.
    """
    name: str | None
    if file := re.fullmatch(r"tzfile\('(?:.*zoneinfo/)?([^/].*)'\)", str(zone)):
        name = f"dateutil/{file[1]}"
    else:
        name = getattr(zone, "key", None) or getattr(zone, "zone", None) or _fixed(zone)  # zoneinfo, pytz, others
    try:
        is_read = name is not None and pd.DatetimeTZDtype("s", name).tz is not None
    except (KeyError, TypeError, ValueError):
        return None
    return name if is_read else None


def dtype_name(dtype: Any) -> str:
    """The text of a dtype, with a zone that pandas reads where it has one."""
    zone = zone_name(dtype.tz) if isinstance(dtype, pd.DatetimeTZDtype) else None
    return str(dtype) if zone is None else f"datetime64[{dtype.unit}, {zone}]"


def check_zone(labels: pd.Index) -> None:
    """ValueError for times in a zone without a name, which no file could say."""
    zone = getattr(labels.dtype, "tz", None)
    if zone is not None and zone_name(zone) is None:
        column = "" if labels.name is None else f" {labels.name!r}"
        raise ValueError(
            f"time labels{column} must be in a time zone with a name or a fixed offset, got {zone!r}; convert them "
            "first, for example with `.dt.tz_convert('Europe/Berlin')`."
        )


def check_zone_name(name: Any) -> None:
    """ValueError for what is neither the name of a time zone nor one itself."""
    if isinstance(name, datetime.tzinfo):
        return
    try:
        is_zone = isinstance(name, str) and pd.DatetimeTZDtype("s", name).tz is not None
    except (KeyError, TypeError, ValueError):
        is_zone = False
    if not is_zone:
        raise ValueError(f"`tz` must be the name of a time zone, such as 'Europe/Berlin', got {name!r}.")


def _fixed(zone: datetime.tzinfo) -> str | None:
    """'UTC', or 'UTC+01:00', of a zone that keeps one offset of whole minutes."""
    last = "1950-01-01" if isinstance(zone, datetime.timezone) else "2050-01-01"  # the one class that keeps it for sure
    moments = pd.date_range("1950-01-01", last, freq="QS", tz="UTC").tz_convert(zone)
    offsets = {moment.utcoffset() for moment in moments}
    if type(zone).__name__ == "tzlocal" or len(offsets) > 1:  # the next computer's own zone is another
        return None
    minutes, rest = divmod(offsets.pop(), datetime.timedelta(minutes=1))
    if rest:
        return None
    return "UTC" if minutes == 0 else f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
