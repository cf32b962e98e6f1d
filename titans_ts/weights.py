"""How much each series counts in a fit, as a user gives it: by id, or in the order of the series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from .tables.panel import Panel

LISTED = 5  # ids, where an error names them


def series_weights(given: Any, panel: Panel) -> np.ndarray | None:
    """The weight of each of a panel's series, (n_series,) in float64; None where none was given.

    Parameters
    ----------
    given : mapping or Series from id to weight, or array-like of shape (n_series,), optional
        An array is in the order of the panel's series.
    panel : Panel

    Raises
    ------
    TypeError, ValueError
        If it leaves out a series, names one that is not there, has another shape, or a weight that is negative or no
        finite number, or if all are 0.
    """
    if given is None:
        return None
    if isinstance(given, (Mapping, pd.Series)):
        named = dict(given.items())
        if missing := [name for name in panel.ids.tolist() if name not in named]:
            raise ValueError(
                f"`sample_weight` must have a weight for every series, but has none for {_some(missing)}. Give 1 to "
                "those that count as others do, 0 to those that are not to be learned from."
            )
        if unknown := [name for name in named if name not in panel.ids]:
            raise ValueError(f"`sample_weight` must name series of the table, got {_some(unknown)}.")
        given = [named[name] for name in panel.ids.tolist()]
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`sample_weight` must be a mapping from id to number or an array of shape (n_series,), got {given!r}."
        ) from None
    if weights.shape != (panel.n_series,):
        raise ValueError(
            f"`sample_weight` must have a weight for each series, shape (n_series,) = ({panel.n_series},), got "
            f"{weights.shape}. Rows are weighted by recency alone; see `half_life`."
        )
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(
            f"`sample_weight` must be finite numbers >= 0, got {weights[i]:g} for series {panel.id_of(i)!r}."
        )
    if not weights.any():
        raise ValueError("`sample_weight` must be above 0 for at least one series, got 0 for all.")
    return weights


def _some(names: list[Any]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{', '.join(map(repr, names[:LISTED]))}{more}"
