"""What counts as a real number where a user gives one."""

from __future__ import annotations

from numbers import Real
from typing import Any, TypeGuard

import numpy as np

NO_REALS = (bool, np.bool_, np.timedelta64, np.complexfloating)


def is_real(value: Any) -> TypeGuard[float]:
    """Whether `value` is a real number, NumPy's too; no bool, and no span of time, which NumPy calls an integer.

    >>> [is_real(value) for value in (1, np.float32(0.5), True, np.timedelta64(3, "h"), "1")]
    [True, True, False, False, False]
    """
    return isinstance(value, (Real, np.number)) and not isinstance(value, NO_REALS)
