"""The errors on the validation windows by which the weights of one training are chosen."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import torch

from titans_ts.model import SimbaForecaster
from titans_ts.windows.windows import Windows

from .distributed import ALONE, Ranks
from .evaluate import loss_by_series
from .losses import AnyLoss
from .relative import naive_errors, relative_error

TIMED_WINDOWS = 64  # evaluated to learn how long all would take
LEAST_WINDOWS = 256  # of an evaluation, however little time there is
SHARE = 0.1  # of the time left, that one evaluation may take


class Errors(NamedTuple):
    """Of one network; NaN where nothing validates, the halves' where no series are held back."""

    loss: float  # the mean over all scaled values
    relative: float
    choosing: float = math.nan
    held_back: float = math.nan


class Validation:
    """Validation windows, and the naive errors that a network's are taken over. Series count by their weights.

    Parameters
    ----------
    windows : Windows, optional
        None where nothing validates.
    loss : str or callable
        As `TrainConfig` has it.
    most : int
        Evenly spaced windows stand for all where there are more.
    holds_back : bool
        Every other series that has windows does not choose, but confirms what the others have chosen.
    ranks : Ranks
        Each evaluates its share.
    """

    def __init__(
        self,
        windows: Windows | None,
        loss: AnyLoss,
        most: int,
        holds_back: bool = False,
        ranks: Ranks = ALONE,
    ) -> None:
        self.windows, self.loss, self.most, self.holds_back, self.ranks = windows, loss, most, holds_back, ranks
        self.seconds = 0.0  # that the slowest evaluation took
        self._naive = None if windows is None else naive_errors(windows, loss, most)

    @property
    def n_series(self) -> int:
        """Series that have validation windows."""
        return 0 if self._naive is None else int((~self._naive.isnan()).sum())

    @property
    def n_windows(self) -> int:
        """Windows of an evaluation, about."""
        return 0 if self.windows is None else min(self.most, len(self.windows))

    def fit_into(self, seconds: float, network: SimbaForecaster) -> None:
        """Evaluate fewer windows from now on where all would take more than a share of so many seconds.

        Until one was made, `seconds` is what an evaluation of the trained network would take.
        """
        if self.windows is None or self._naive is None:
            return
        batch = next(self.windows.batches(TIMED_WINDOWS, TIMED_WINDOWS))
        begun = time.perf_counter()
        with torch.enable_grad():  # without gradients a head of zeros would not be asked
            network(batch).sum().item()
        timed, affordable = (time.perf_counter() - begun) / batch.n_samples, SHARE * max(seconds, 0.0)
        most = self.ranks.broadcast(max(LEAST_WINDOWS, min(self.most, int(affordable / timed))))
        if most < self.n_windows:
            self.take(most)
        self.seconds = timed * self.n_windows

    def take(self, most: int) -> None:
        """Evaluate at most so many windows from now on."""
        if self.windows is not None and most != self.most:
            self.most, self._naive = most, naive_errors(self.windows, self.loss, most)

    def errors(self, network: SimbaForecaster) -> Errors:
        """The errors of a network as it is."""
        if self.windows is None or self._naive is None:
            return Errors(math.nan, math.nan)
        begun = time.perf_counter()
        totals, counts = loss_by_series(network, self.windows, self.loss, self.most, self.ranks)
        weight, errors = self.windows.series_weight, totals / counts
        shares = (totals, counts) if weight is None else (weight * totals, weight * counts)
        loss = (shares[0].sum() / shares[1].sum()).item()
        relative = relative_error(errors, self._naive, weight).item()
        self.seconds = max(self.seconds, time.perf_counter() - begun)
        if not self.holds_back:
            return Errors(loss, relative)
        validated = (counts > 0).nonzero().flatten()
        halves = (validated[::2], validated[1::2])
        of_halves = []
        for half in halves:
            of_half = None if weight is None else weight[half]
            of_halves.append(relative_error(errors[half], self._naive[half], of_half).item())
        return Errors(loss, relative, *of_halves)
