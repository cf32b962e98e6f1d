"""Values, labels and dataclasses as JSON, and back as they were; nothing that is read is ever run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype
from pandas.api.types import pandas_dtype

from .tables.calendar import Calendar
from .tables.zones import dtype_name

_FILE_AS_ZONE = re.compile(r"dateutil/(/|.*\.\.)")
# Offsets whose alias does not say all of them.
UNNAMED_OFFSETS = (
    pd.DateOffset,
    pd.offsets.CustomBusinessDay,
    pd.offsets.CustomBusinessMonthBegin,
    pd.offsets.CustomBusinessMonthEnd,
)


def pack_fields(instance: Any, but: str | None = None) -> dict[str, Any]:
    """A dataclass as JSON."""
    names = [field.name for field in fields(instance) if field.name != but]
    return {name: pack(getattr(instance, name), name) for name in names}


def pack(value: Any, what: str) -> Any:
    """`value` as JSON: its lists are tuples, and a dict has one key, which says what else its value is."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, tuple):
        return [pack(part, what) for part in value]
    if isinstance(value, Mapping):
        return {"map": [[pack(key, what), pack(part, what)] for key, part in value.items()]}
    if isinstance(value, (pd.Timestamp, pd.Period)):
        return {"label": pack(pd.Index([value]), what)}
    packed: dict[str, Any] = {}
    if isinstance(value, Calendar):
        return {"calendar": pack_fields(value)}
    if type(value) in UNNAMED_OFFSETS:
        packed = _pack_offset(value)
    elif isinstance(value, (np.dtype, ExtensionDtype)):
        packed = {"dtype": dtype_name(value)}
    elif isinstance(value, pd.Index):
        packed = {"index": _pack_index(value, what)}
    if not _same(packed, value):
        raise TypeError(
            f"`{what}` must be text, numbers, dates, periods, categories or tuples of these to be saved, got {value!r} "
            f"({type(value).__name__}). Convert it, for example with `.astype(str)`, and fit again."
        )
    return packed


def _pack_index(index: pd.Index, what: str) -> dict[str, Any]:
    packed: dict[str, Any] = {"name": pack(index.name, what), "dtype": dtype_name(index.dtype)}
    if isinstance(index, pd.RangeIndex):
        return {**packed, "range": [index.start, index.stop, index.step]}
    if isinstance(index, pd.CategoricalIndex):
        categories = pack(index.categories, what)
        return {**packed, "codes": index.codes.tolist(), "categories": categories, "ordered": bool(index.ordered)}
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return {**packed, "ordinals": index.asi8.tolist()}
    return {**packed, "labels": [pack(label, what) for label in index.tolist()]}


def _pack_offset(offset: pd.DateOffset) -> dict[str, Any]:
    """The class of an offset and what it was made with."""
    if type(offset) is pd.DateOffset:
        return {"offset": ["DateOffset", offset.n, [[name, int(n)] for name, n in offset.kwds.items()]]}
    days = offset.calendar
    weekmask = "".join(str(int(is_on)) for is_on in days.weekmask)
    made_with = [["weekmask", weekmask], ["holidays", days.holidays.astype(str).tolist()]]
    return {"offset": [type(offset).__name__, offset.n, made_with]}


def _unpack_offset(packed: Any) -> pd.DateOffset:
    name, n, made_with = packed
    kind = {kind.__name__: kind for kind in UNNAMED_OFFSETS}[name]
    return kind(n, **dict(made_with))


def _same(packed: dict[str, Any], value: Any) -> bool:
    """Whether an Index or a dtype comes back as it was."""
    try:
        back = unpack(packed)
    except (TypeError, ValueError):  # the text of some time zones names none
        return False
    if isinstance(value, pd.DatetimeIndex):  # zones of two libraries are not equal
        return dtype_name(back.dtype) == dtype_name(value.dtype) and np.array_equal(back.asi8, value.asi8)
    if isinstance(value, pd.Index):
        return type(back) is type(value) and str(back.dtype) == str(value.dtype) and back.equals(value)
    if type(value) in UNNAMED_OFFSETS:  # pandas compares how their holidays were given, too
        return _pack_offset(back) == packed
    return bool(back == value) or dtype_name(back) == dtype_name(value)


def unpack(value: Any) -> Any:
    """The value that `pack` was given."""
    if isinstance(value, list):
        return tuple(unpack(part) for part in value)
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    readers: dict[str, Callable[[Any], Any]] = {
        "float": float,
        "list": lambda packed: [unpack(part) for part in packed],
        "dtype": _read_dtype,
        "label": lambda packed: unpack(packed)[0],
        "index": _unpack_index,
        "map": lambda packed: {unpack(key): unpack(part) for key, part in packed},
        "offset": _unpack_offset,
        "calendar": lambda packed: Calendar(**unpack_all(packed)),
    }
    return readers[kind](content)


def _read_dtype(name: Any) -> Any:
    """The dtype of this name; dateutil would open any file that a zone of its own names."""
    if not isinstance(name, str) or _FILE_AS_ZONE.search(name):
        raise ValueError(f"a dtype must be named by text, and its zone by a name of zones, got {name!r}.")
    return pandas_dtype(name)


def _unpack_index(packed: dict[str, Any]) -> pd.Index:
    dtype = _read_dtype(packed["dtype"])
    if "range" in packed:
        index = pd.RangeIndex(*packed["range"])
    elif "codes" in packed:
        categories = unpack(packed["categories"])
        index = pd.CategoricalIndex(pd.Categorical.from_codes(packed["codes"], categories, packed["ordered"]))
    elif "ordinals" in packed:
        counts = "period" if isinstance(dtype, pd.PeriodDtype) else "instant"
        index = Calendar("", dtype, counts, span=1, anchor=0).labels(np.array(packed["ordinals"], dtype=np.int64))
    else:
        index = pd.Index(list(unpack(packed["labels"])), dtype=dtype, tupleize_cols=False)
    index.name = unpack(packed["name"])
    return index


def unpack_all(packed: dict[str, Any]) -> dict[str, Any]:
    return {name: unpack(value) for name, value in packed.items()}
