"""Arguments as a user gives them: what does not fit is named, the rest comes as the toolkit's types."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from .reals import is_real
from .tables.panel import Panel

MOST = 2**31 - 1  # of what is counted
# Tables whose series need no name: where it is unknown they are known by their position.
NAMELESS = {"array", "series", "single"}


def check_no_targets(y: Any) -> None:
    """Refuse a `y`, which scikit-learn hands on; a table has its targets in itself."""
    if y is not None:
        raise ValueError(
            "`y` must be None: the table given as `df` holds the targets. "
            "To score by another measure pass as `scoring` a function of the forecaster and a table."
        )


def match_series(panel: Panel, fitted: Panel, forecaster: str) -> np.ndarray:
    """The number of each series of `panel` among those fitted, -1 for one that was not.

    They are found by name, those of an array or without a name by position.
    """
    kinds = {panel.layout.kind, fitted.layout.kind}
    series: np.ndarray = fitted.ids.get_indexer(panel.ids)
    if "array" in kinds or (kinds & NAMELESS and (series < 0).any()):
        if panel.n_series == fitted.n_series:
            return np.arange(fitted.n_series)
        if "array" in kinds:  # in scikit-learn's words too, which its checks ask for
            raise ValueError(
                f"`df` must have {fitted.n_series} series as the data fitted, got {panel.n_series}: X has "
                f"{panel.n_series} features, but {forecaster} is expecting {fitted.n_series} features as input."
            )
    if (series < 0).all() and panel.id_type != fitted.id_type and not kinds & NAMELESS:
        raise ValueError(
            f"`df` must name its series as the data fitted did, by {fitted.id_type} such as "
            f"{fitted.id_of(0)!r}, got {panel.id_type} such as {panel.id_of(0)!r}."
        )
    return series


def check_flag(name: str, value: Any) -> bool:
    """`value` as a bool; NumPy's is one too, which a grid of parameters holds."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")
    return bool(value)


def check_integer(name: str, value: Any, low: int, default: int | None = None) -> int:
    """`value` as an int from `low` to `MOST`; NumPy's is one too. The default for None where there is one."""
    if value is None and default is not None:
        return default
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        whole = operator.index(value)
    except TypeError:
        raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.") from None
    if whole < low:
        raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.")
    if whole > MOST:
        raise ValueError(f"`{name}` must be an integer <= {MOST}, got one of {whole.bit_length()} bits.")
    return whole


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value`, one of `choices`; a string alone can be, since arrays and missing values compare to neither."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"`{name}` must be one of {choices}, got {value!r}.")
    return value


def check_column(name: str, value: Any) -> None:
    """Refuse what names no column: what has no hash, and the missing value that equals nothing, itself included."""
    try:
        hash(value)
    except TypeError:
        value_is_name = False
    else:
        value_is_name = value is not pd.NA
    if not value_is_name:
        raise TypeError(f"`{name}` must be the name of a column, got {value!r} of type {type(value).__name__}.")


def check_seed(value: Any) -> np.random.RandomState:
    """The generator of a `random_state`: an int, a RandomState, or None for another one each time."""
    is_whole = isinstance(value, (int, np.integer)) and is_real(value)
    is_generator = value is None or value is np.random or isinstance(value, np.random.RandomState)
    if not is_generator and not (is_whole and 0 <= value < 2**32):
        raise ValueError(f"`random_state` must be an integer in [0, 2**32), a RandomState or None, got {value!r}.")
    generator: np.random.RandomState = check_random_state(value)
    return generator


def check_share(name: str, value: Any) -> float:
    """`value` as a number between 0 and 1, neither of them; NumPy's numbers are some too."""
    if not (is_real(value) and 0 < float(value) < 1):
        raise ValueError(f"`{name}` must be a number between 0 and 1, got {value!r}.")
    return float(value)


def check_positive(name: str, value: Any, unit: str, none: str) -> float | None:
    """`value` as a positive finite number of a unit, or None for `none`; NumPy's numbers are some too."""
    if value is None:
        return None
    if not (is_real(value) and 0 < float(value) < math.inf):
        raise ValueError(f"`{name}` must be a positive finite number of {unit}, or None for {none}, got {value!r}.")
    return float(value)


def split_table(h: Any, df: Any) -> tuple[Any, Any]:
    """The `h` and the `df` of `predict`, whose first argument may be the table, as a pipeline hands one on."""
    if h is None or np.isscalar(h):
        return h, df
    if df is not None:
        raise TypeError("`h` must be an integer where `df` is given too; pass one table.")
    return None, h
