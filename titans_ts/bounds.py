"""Bounds that forecasts keep to: of all series, or of each by its id."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .reals import is_real
from .tables.panel import Panel


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a forecast.

    Parameters
    ----------
    lower, upper : float, mapping from id to float, or None
        A number is for every series, also for those not fitted; None, and a series that a mapping does not name, for
        none.
    """

    lower: Any = None
    upper: Any = None

    @classmethod
    def of(cls, lower: Any, upper: Any, panel: Panel) -> Bounds:
        """The bounds of a panel's series.

        Raises
        ------
        ValueError
            If one is no number, a mapping names a series that is not there, or a lower one is above the upper one.
        """
        for name, bound in (("lower", lower), ("upper", upper)):
            _check(name, bound, panel)
        bounds = cls(*(dict(bound) if isinstance(bound, Mapping) else bound for bound in (lower, upper)))
        low, high = bounds.of_series(panel)
        if (low > high).any():
            i = int((low > high).argmax())
            raise ValueError(
                f"`lower` must be at most `upper`, got {low[i]:g} and {high[i]:g} for series {panel.id_of(i)!r}."
            )
        return bounds

    def clip(self, forecast: np.ndarray, panel: Panel) -> np.ndarray:
        """Forecasts (n_series, steps, outputs) of a panel's series within the bounds."""
        if self.lower is None and self.upper is None:
            return forecast
        low, high = (bound[:, None, None] for bound in self.of_series(panel))
        clipped: np.ndarray = np.clip(forecast, low, high)
        return clipped

    def of_series(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of each series, (n_series,), infinite where there is none."""
        ids = panel.ids.tolist()
        found = []
        for bound, none in ((self.lower, -math.inf), (self.upper, math.inf)):
            if isinstance(bound, Mapping):
                found.append(np.array([bound.get(name, none) for name in ids], dtype=np.float64))
            else:
                found.append(np.full(len(ids), none if bound is None else bound, dtype=np.float64))
        return found[0], found[1]


def _check(name: str, bound: Any, panel: Panel) -> None:
    given = bound if isinstance(bound, Mapping) else {} if bound is None else {None: bound}
    for value in given.values():
        if not is_real(value) or math.isnan(value):
            raise ValueError(f"`{name}` must be a number, a dict from id to number, or None, got {value!r}.")
    if isinstance(bound, Mapping) and (unknown := [key for key in bound if key not in panel.ids]):
        raise ValueError(
            f"`{name}` must name series of the table, got {unknown[0]!r}; its ids are {panel.ids[:3].tolist()}"
            f"{', ...' if panel.n_series > 3 else ''}."
        )
