"""Levels and quantiles as a user asks for them, and what their columns are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from titans_ts.reals import is_real
from titans_ts.tables.layouts import FORECAST

DIGITS = 12  # of a quantile: those of a level are then those that a user would write


@dataclass(frozen=True)
class Asked:
    """Quantiles asked for beside the point forecast.

    Parameters
    ----------
    quantiles : tuple of float
        Rising, each once.
    columns : tuple of str
        The point forecast's column, and that of each quantile.
    """

    quantiles: tuple[float, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, level: Any, quantiles: Any) -> Asked | None:
        """What `level` and `quantiles` of `predict` ask for; None where both are None.

        Raises
        ------
        ValueError
            If both are given, or one is no number, or none, or out of its range, or a level seems to be a share.
        """
        if level is None and quantiles is None:
            return None
        if level is not None and quantiles is not None:
            raise ValueError(
                f"`level` and `quantiles` must not both be given, got {level!r} and {quantiles!r}. "
                "Pass one: level=80 is quantiles=[0.1, 0.9]."
            )
        if quantiles is not None:
            rising = _numbers("quantiles", quantiles, 1)
            return cls(
                tuple(round(q, DIGITS) for q in rising), (FORECAST, *(f"{FORECAST}-q{_text(q)}" for q in rising))
            )
        rising = _numbers("level", level, 100)
        below = [round((100 - x) / 200, DIGITS) for x in reversed(rising)]
        names = [f"{FORECAST}-lo-{_text(x)}" for x in reversed(rising)] + [f"{FORECAST}-hi-{_text(x)}" for x in rising]
        return cls((*below, *(round(1 - q, DIGITS) for q in reversed(below))), (FORECAST, *names))


def _numbers(name: str, given: Any, high: int) -> list[float]:
    """One number or several between 0 and `high`, neither of them, rising and each once."""
    several = not isinstance(given, str) and np.ndim(given) == 1
    values = list(given) if several else [given]
    for value in values:
        if not (is_real(value) and 10**-DIGITS <= float(value) / high <= 1 - 10**-DIGITS):
            example = "80 or [80, 95]" if high == 100 else "[0.1, 0.9]"
            raise ValueError(f"`{name}` must have numbers between 0 and {high}, got {value!r}; pass {example}.")
        if high == 100 and value < 1:  # which nobody wants
            raise ValueError(f"`{name}` is in per cent, got {value!r}; pass {100 * float(value):g}.")
    if not values:
        raise ValueError(f"`{name}` must have a number or more, got {given!r}; leave it None for points alone.")
    return sorted({float(value) for value in values})


def _text(number: float) -> str:
    """'80', '97.5', '0.05'."""
    return str(int(number)) if number == int(number) else repr(number)
