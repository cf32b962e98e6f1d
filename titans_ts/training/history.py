"""What happened in training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evaluation:
    """One evaluation on the validation windows.

    `validation_loss` is a mean over all scaled values; `train_loss` is over windows as the network reads them, each
    over its own deviation where `scale_windows` is on, since the evaluation before. `relative_error` is that by which
    weights are chosen, which no single series can decide: see `training.relative`. Where some series are held back, as
    in a training that was probed, it is of all series, and `choosing_error` and `held_back_error` are those of the
    series that choose the weights and of those that confirm them.
    """

    epoch: float
    step: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    relative_error: float = math.nan
    choosing_error: float = math.nan
    held_back_error: float = math.nan

    @property
    def criterion(self) -> float:
        """What fits are compared by; for models saved without relative errors, the validation loss."""
        return self.validation_loss if math.isnan(self.relative_error) else self.relative_error


@dataclass
class History:
    """The evaluations of a training; the first is of the initialisation.

    `best` is the evaluation whose weights were kept, and `stopped` says why training ended:

    - "max_epochs", "patience", "interrupted", "time_limit";
    - "few series" or "no validation": training was not tried, and the initialisation is kept;
    - "probe": it was tried, and did not gain enough to go on; the initialisation is kept;
    - "held back": it went on, but the series held back did not confirm it; the initialisation is kept.
    """

    evaluations: list[Evaluation] = field(default_factory=list)
    stopped: str = "max_epochs"
    initialisation_is_candidate: bool = True
    margin: float = 0.0

    @property
    def chosen(self) -> Evaluation:
        """The evaluation with the least error of those that choose, or the last one where there was no validation."""
        candidates = self.evaluations if self.initialisation_is_candidate else self.evaluations[1:]
        scored = [evaluation for evaluation in candidates if not math.isnan(_choice(evaluation))]
        return min(scored, key=_choice) if scored else self.evaluations[-1]

    @property
    def best(self) -> Evaluation:
        """The chosen evaluation; where series are held back, the first one unless both halves gained `margin`."""
        first, chosen = self.evaluations[0], self.chosen
        if math.isnan(first.held_back_error) or chosen is first:
            return chosen
        halves = [(chosen.choosing_error, first.choosing_error), (chosen.held_back_error, first.held_back_error)]
        return chosen if all(error <= (1 - self.margin) * initial for error, initial in halves) else first

    def is_exhausted(self, patience: int) -> bool:
        """Whether the last `patience` evaluations brought no better one."""
        chosen = self.chosen
        since_chosen = len(self.evaluations) - 1 - self.evaluations.index(chosen)
        return not math.isnan(_choice(chosen)) and since_chosen >= patience


def _choice(evaluation: Evaluation) -> float:
    """What weights are chosen by within one training."""
    return evaluation.criterion if math.isnan(evaluation.choosing_error) else evaluation.choosing_error
