"""Values, labels and dataclasses as JSON, and back as they were; nothing that is read is ever run."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionDtype
from pandas.api.types import pandas_dtype

from .tables.calendar import Calendar


def pack_fields(instance: Any, but: str | None = None) -> dict[str, Any]:
    """A dataclass as JSON."""
    names = [field.name for field in fields(instance) if field.name != but]
    return {name: pack(getattr(instance, name), name) for name in names}


def pack(value: Any, what: str) -> Any:
    """`value` as JSON: a list is a tuple, and a dict has one key, which says what else its value is."""
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
    if isinstance(value, (pd.Timestamp, pd.Period)):
        return {"label": pack(pd.Index([value]), what)}
    packed: dict[str, Any] = {}
    if isinstance(value, (np.dtype, ExtensionDtype)):
        packed = {"dtype": str(value)}
    elif isinstance(value, pd.Index):
        packed = {"index": _pack_index(value, what)}
    if not _same(packed, value):
        raise TypeError(
            f"`{what}` must be text, numbers, dates, periods, categories or tuples of these to be saved, got {value!r} "
            f"({type(value).__name__}). Convert it, for example with `.astype(str)`, and fit again."
        )
    return packed


def _pack_index(index: pd.Index, what: str) -> dict[str, Any]:
    packed: dict[str, Any] = {"name": pack(index.name, what), "dtype": str(index.dtype)}
    if isinstance(index, pd.RangeIndex):
        return {**packed, "range": [index.start, index.stop, index.step]}
    if isinstance(index, pd.CategoricalIndex):
        categories = pack(index.categories, what)
        return {**packed, "codes": index.codes.tolist(), "categories": categories, "ordered": bool(index.ordered)}
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return {**packed, "ordinals": index.asi8.tolist()}
    return {**packed, "labels": [pack(label, what) for label in index.tolist()]}


def _same(packed: dict[str, Any], value: Any) -> bool:
    """Whether an Index or a dtype comes back as it was."""
    try:
        back = unpack(packed)
    except (TypeError, ValueError):  # the text of some time zones names none
        return False
    if isinstance(value, pd.Index):
        return type(back) is type(value) and str(back.dtype) == str(value.dtype) and back.equals(value)
    return bool(back == value)


def unpack(value: Any) -> Any:
    """The value that `pack` was given."""
    if isinstance(value, list):
        return tuple(unpack(part) for part in value)
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    readers = {"float": float, "dtype": pandas_dtype, "label": lambda packed: unpack(packed)[0], "index": _unpack_index}
    return readers[kind](content)


def _unpack_index(packed: dict[str, Any]) -> pd.Index:
    dtype = pandas_dtype(packed["dtype"])
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
