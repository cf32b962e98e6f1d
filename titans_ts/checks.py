"""Parameters as a user gives them, as the types that the toolkit works with; what does not fit is named."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch


def refuse_targets(y: Any) -> None:
    """scikit-learn hands `y` on; a table has its targets in itself."""
    if y is not None:
        raise ValueError("`y` must be None: the table given as `df` holds the targets.")


def find_device(name: str | None) -> torch.device:
    """The device called `name`, or a GPU if there is one for None."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
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
