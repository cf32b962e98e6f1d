"""The shifts of local clocks in a graph, which has no search in a sorted list."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from titans_ts.tables.calendar import YEARS_AHEAD, Calendar
from titans_ts.tables.clock import LocalClock

NEVER = np.iinfo(np.int64).max


def clock_around(calendar: Calendar, first: int, last: int) -> LocalClock | None:
    """The clocks of `YEARS_AHEAD` before one time index and after another; None where seasons follow none."""
    if not calendar.local:
        return None
    return calendar.local_clock(first - YEARS_AHEAD * 366 * calendar.steps_of_a_day, last)


class ClockShift(nn.Module):
    """Steps by which local clocks are ahead of the time index, over `length` steps.

    The shift of the first step is looked up by counting the changes before it, and those that come within `length`
    steps of one another, of which there are one or two, are added where they begin.
    """

    begins: Tensor
    shifts: Tensor
    later: Tensor
    change: Tensor

    def __init__(self, clock: LocalClock, length: int) -> None:
        super().__init__()
        self.length = length
        inside = np.searchsorted(clock.begins, clock.begins + length) - np.arange(len(clock.begins))
        self.most = int(inside.max())  # changes within a window
        changes = np.diff(clock.shifts, prepend=clock.shifts[:1])
        arrays = {
            "begins": clock.begins,
            "shifts": clock.shifts,
            "later": np.append(clock.begins, [NEVER] * self.most),
            "change": np.append(changes, [0] * self.most),
        }
        for name, array in arrays.items():
            self.register_buffer(name, torch.from_numpy(array.astype(np.int64)))

    def forward(self, time_index: Tensor) -> Tensor:
        """(samples,) -> (samples, length)"""
        steps = time_index.unsqueeze(1) + torch.arange(self.length)
        at = ((time_index.unsqueeze(1) >= self.begins).sum(1) - 1).clamp(min=0)
        shift = self.shifts[at].unsqueeze(1).expand(-1, self.length)
        for i in range(1, self.most + 1):
            begun = steps >= self.later[at + i].unsqueeze(1)
            shift = shift + torch.where(begun, self.change[at + i].unsqueeze(1), 0)
        return shift
