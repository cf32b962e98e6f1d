"""When a network is worth its training: the closed form is kept unless training soon shows that it is better.

The least-squares initialisation is hard to beat by gradient steps. Where it can be, by a map that many series share and
that is not linear, the first few dozen steps show it; where it cannot, as in random walks, they do harm. What was
measured is in experiments/NOTES.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .history import History

LEAST_STEPS = 5  # a probe has, however long a window is


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How training is tried, and what it must gain to go on.

    The validated series are cut in two: one half chooses the weights and decides whether training goes on. The other
    half, held back, only confirms them in the end: both must be better than the initialisation by `margin`.

    Parameters
    ----------
    least_series : int
        Series with validation rows below which nothing is tried: so few do not tell a gain from chance.
    steps : int
        Training steps of a probe; fewer where windows are long.
    most_tokens : int
        Tokens of a probe, those of all windows of all its steps, which bound its time.
    most_probes : int
        After so many the gain must be there.
    margin : float
        The gain: how much less the relative error must be, as a share of the initialisation's.
    hopeless : float
        So much worse by the same measure, training ends at once.
    most_validation_windows : int
        Of an evaluation.
    """

    least_series: int = 200
    steps: int = 20
    most_tokens: int = 100_000
    most_probes: int = 3
    margin: float = 0.01
    hopeless: float = 0.05
    most_validation_windows: int = 5_000

    def steps_of(self, tokens: int) -> int:
        """The steps of a probe where one step reads so many tokens."""
        return min(self.steps, max(LEAST_STEPS, self.most_tokens // tokens))

    def pays(self, history: History, probes: int) -> bool | None:
        """Whether training pays, after so many probes; None where another one is to tell."""
        first, latest = history.evaluations[0], history.evaluations[-1]
        gain = 1 - latest.choosing_error / first.choosing_error
        if gain >= self.margin:
            return True
        hopeless = math.isnan(gain) or gain < -self.hopeless
        return False if hopeless or probes >= self.most_probes else None
