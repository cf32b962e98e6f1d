"""Where a fit goes on from the one before: what must not have changed since then."""

from __future__ import annotations

from dataclasses import fields

from .model import ModelConfig
from .tables.panel import Panel

CHOSEN = "linear_"  # begins the fields that `fit` chooses where the path is left to it
LISTED = 5  # ids, where an error names them
REMEDY = "Set `warm_start=False` to begin anew."


def check_same_series(panel: Panel, fitted: Panel) -> None:
    """Refuse a panel of other series than those fitted.

    Raises
    ------
    ValueError
        Naming series that are new, and those that are missing.
    """
    if panel.ids.equals(fitted.ids):
        return
    new, missing = panel.ids.difference(fitted.ids, sort=False), fitted.ids.difference(panel.ids, sort=False)
    parts = [
        f"{what} {', '.join(map(repr, names[:LISTED].tolist()))}{', ...' if len(names) > LISTED else ''}"
        for what, names in (("has the new series", new), ("lacks", missing))
        if len(names)
    ]
    found = " and ".join(parts) or "has them in another order"
    raise ValueError(f"`df` must have the series fitted before where `warm_start` is on, but {found}. {REMEDY}")


def same_shape(asked: ModelConfig, fitted: ModelConfig, chooses_path: bool) -> ModelConfig:
    """The shape of the fitted network, where it is the one that is asked for but for what is left open.

    Parameters
    ----------
    asked, fitted : ModelConfig
    chooses_path : bool
        The linear path is left open, and so is the scale of windows where it is None.

    Raises
    ------
    ValueError
        Naming what differs.
    """
    differing = []
    for field in fields(ModelConfig):
        old, new = getattr(fitted, field.name), getattr(asked, field.name)
        is_open = (field.name == "scale_windows" and new is None) or (chooses_path and field.name.startswith(CHOSEN))
        is_open |= field.name == "covariates"  # of the table, which was read as the one fitted
        if old != new and not is_open:
            differing.append(f"`{field.name}` = {old!r} (now {new!r})")
    if differing:
        raise ValueError(
            f"`warm_start` goes on from a network with {', '.join(differing)}, which must stay the same. {REMEDY}"
        )
    return fitted
