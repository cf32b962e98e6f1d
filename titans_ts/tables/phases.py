"""Series of one step that lie on calendars of their own: quarter ends of January and of December, :00 and :30."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from .calendar import Calendar
from .layouts import Rows

Own = Callable[[pd.Index], Calendar]


def locate(rows: Rows, calendar: Calendar) -> tuple[np.ndarray, np.ndarray]:
    """As `Calendar.locate`, each row on the calendar of its series."""
    if rows.codes is None or not calendar.phases:
        return calendar.locate(rows.labels)
    phase = calendar.phase_of(rows.ids)[rows.codes]
    time_index, off = np.empty(len(phase), dtype=np.int64), np.empty(len(phase), dtype=bool)
    order = np.argsort(phase, kind="stable")
    ends = np.searchsorted(phase[order], np.arange(len(calendar.phases) + 2))
    for i, own in enumerate(calendar.of_phases):
        here = order[ends[i] : ends[i + 1]]
        if len(here):
            time_index[here], off[here] = own.locate(rows.labels[here])
    return time_index, off


def with_phases(rows: Rows, codes: np.ndarray, calendar: Calendar, misfit: np.ndarray, own: Own) -> Calendar:
    """The calendar with those of the misfits (n_series,) that keep its step, each on a phase of its own.

    `own` says on which calendar the labels of one series lie; two of them at least show one. Series that do not keep
    to theirs, and those whose phase is known already, are left as they are.
    """
    known = {name for _, names in calendar.phases for name in names}
    phases = {phase: list(names) for phase, names in calendar.phases}
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    ends = np.cumsum(counts)
    for code in np.flatnonzero(misfit):
        name = rows.name(int(code))
        labels = rows.labels[order[ends[code] - counts[code] : ends[code]]]
        found = None if name in known else _phase_of(labels, calendar, own)
        if found is not None:
            phases.setdefault(found, []).append(name)
    return replace(calendar, phases=tuple((phase, tuple(names)) for phase, names in phases.items()))


def _phase_of(labels: pd.Index, calendar: Calendar, own: Own) -> Calendar | None:
    try:
        found = own(labels)
        time_index, off = found.locate(labels)
    except ValueError:
        return None
    distances = np.diff(np.unique(time_index))
    keeps_step = found.step == calendar.step and not off.any() and 2 * (distances == 1).sum() >= len(distances) > 0
    return found if keeps_step else None
