"""Where a fit stands: its stage, the time it has left and its best error, and the bar that shows them.

One `Progress` belongs to one fit and is passed whole to whatever takes time in it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

SPARE = 1.2  # what is about to be done may take so much longer than it did before


class Progress:
    """The stages of one fit, within a time limit.

    As a context manager it closes its bar at the end of the block.

    Parameters
    ----------
    time_limit : float, optional
        Seconds, from now on.
    verbose : int
        0 shows nothing; 1 a progress bar where the output is a terminal or a notebook.
    clock : callable
        Seconds from any moment on.
    """

    def __init__(
        self, time_limit: float | None = None, verbose: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.time_limit = time_limit
        self.stage = ""
        self.best_error = math.nan
        self._clock, self._begun = clock, clock()
        self._agreed: Callable[[bool], bool] = bool
        self._bar: Any = None
        if verbose:
            from tqdm.auto import tqdm  # loaded for the bar alone

            self._bar = tqdm(unit="step", disable=None)  # None: off where no terminal

    @property
    def elapsed(self) -> float:
        """Seconds since the fit began."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """Seconds until the time limit, negative beyond it; infinite without one."""
        return math.inf if self.time_limit is None else self.time_limit - self.elapsed

    def lacks(self, seconds: float) -> bool:
        """Whether there is no time for what took so many seconds before; among several processes rank 0 decides."""
        return self.time_limit is not None and self._agreed(self.left < SPARE * seconds)

    @contextmanager
    def among(self, broadcast: Callable[[bool], bool]) -> Iterator[None]:
        """Within the block `lacks` is what the first of several processes finds, which `broadcast` tells the others."""
        before, self._agreed = self._agreed, broadcast
        try:
            yield
        finally:
            self._agreed = before

    def begin(self, stage: str, steps: int | None = None) -> None:
        """Begin a stage, of so many steps where that is known: the bar then estimates the time left."""
        self.stage = stage
        if self._bar is not None:
            self._bar.set_description(stage, refresh=False)
            self._bar.reset(steps)
            self._show()

    def step(self) -> None:
        """Count a step of the stage."""
        if self._bar is not None:
            self._show(refresh=False)
            self._bar.update()

    def found(self, best_error: float) -> None:
        """Note the best validation error so far."""
        self.best_error = best_error
        self._show()

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _show(self, refresh: bool = True) -> None:
        if self._bar is None:
            return
        parts = [] if math.isnan(self.best_error) else [f"best validation={self.best_error:.4f}"]
        if self.time_limit is not None:
            parts.append(f"limit in {max(0.0, self.left):.0f} s")
        self._bar.set_postfix_str(", ".join(parts), refresh)
