"""Local clocks: by how many steps they are ahead of the time index, from one change of the clocks to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class LocalClock:
    """The clocks of a time zone beside a time index that counts elapsed time.

    A season of days follows them: its phase is (time index + shift) % period.

    Parameters
    ----------
    begins : ndarray of int64, shape (changes,)
        The time index from which on each shift holds, increasing; the first one holds before it too.
    shifts : ndarray of int64, shape (changes,)
        Steps that local clocks are ahead of UTC, rounded down.
    """

    begins: np.ndarray
    shifts: np.ndarray

    def shift(self, time_index: np.ndarray) -> np.ndarray:
        """The shift at each time index, of any shape."""
        shift: np.ndarray = self.shifts[np.maximum(np.searchsorted(self.begins, time_index, side="right") - 1, 0)]
        return shift
