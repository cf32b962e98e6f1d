"""Parameters and tables as a user gives them: what does not fit is named, the rest comes as the toolkit's types."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .distributed import own_gpu
from .frames import Panel

# Tables whose series need no name: where it is unknown they are known by their position.
NAMELESS = {"array", "series", "single"}

# Parameters that are settled and functions that are to come: each is refused unless it says nothing.
NOT_YET = {
    "static_cols": None,
    "past_cols": None,
    "future_cols": None,
    "variant": "lmm",
    "context": "window",
    "channel_mixing": False,
    "warm_start": False,
    "checkpoint_dir": None,
}


def refuse_targets(y: Any) -> None:
    """scikit-learn hands `y` on; a table has its targets in itself."""
    if y is not None:
        raise ValueError(
            "`y` must be None: the table given as `df` holds the targets. "
            "To score by another measure pass as `scoring` a function of the forecaster and a table."
        )


def refuse_reserved(parameters: Mapping[str, Any]) -> None:
    """Parameters that do nothing yet may only have their defaults."""
    for name, only in NOT_YET.items():
        value = parameters[name]
        if value is not only and not (isinstance(value, type(only)) and value == only):
            raise NotImplementedError(f"`{name}` must be {only!r} yet, got {value!r}.")


def refuse_given(**arguments: Any) -> None:
    """Arguments that do nothing yet."""
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(f"`{name}` is not supported yet; leave it None.")


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
    if (series < 0).all() and panel.kind_of_ids != fitted.kind_of_ids and not kinds & NAMELESS:
        raise ValueError(
            f"`df` must name its series as the data fitted did, by {fitted.kind_of_ids} such as "
            f"{fitted.ids[:1].tolist()[0]!r}, got {panel.kind_of_ids} such as {panel.ids[:1].tolist()[0]!r}."
        )
    return series


def find_device(name: str | None) -> torch.device:
    """The device called `name`, or a GPU if there is one for None; of several GPUs, each of torchrun's has its own."""
    if name is None:
        return own_gpu() if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
        if str(name) == "cuda":
            device = own_gpu()
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"`device` must be a device of this machine such as 'cpu', got {name!r}: {error}") from error
    return device


def as_flag(name: str, value: Any) -> bool:
    """`value` as a bool, NumPy's too, which a grid of parameters holds."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"`{name}` must be True or False, got {value!r}.")
    return bool(value)


def as_whole(name: str, value: Any, low: int, default: int | None = None) -> int:
    """`value` as an int, NumPy's among them; the default for None where there is one."""
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
    return whole
