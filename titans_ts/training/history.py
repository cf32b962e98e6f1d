"""What happened in training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evaluation:
    """One evaluation on the validation windows.

    `validation_loss` is a mean over all scaled values; `train_loss` is over windows as the network reads them, each
    over its own deviation where `scale_windows` is on, since the evaluation before. `relative_error` is that by which
    weights are chosen, which no single series can decide: see `training.relative`.
    """

    epoch: float
    step: int
    train_loss: float
    validation_loss: float
    learning_rate: float
    relative_error: float = math.nan

    @property
    def criterion(self) -> float:
        """What is least in the best evaluation; for models saved without relative errors, the validation loss."""
        return self.validation_loss if math.isnan(self.relative_error) else self.relative_error


@dataclass
class History:
    """The evaluations of a training; the first is of the initialisation.

    `best` is the evaluation whose weights were kept, and `stopped` says why training ended: "max_epochs", "patience" or
    "interrupted".
    """

    evaluations: list[Evaluation] = field(default_factory=list)
    stopped: str = "max_epochs"
    initialisation_is_candidate: bool = True

    @property
    def best(self) -> Evaluation:
        """The evaluation with the least relative error, or the last one where there was no validation."""
        candidates = self.evaluations if self.initialisation_is_candidate else self.evaluations[1:]
        scored = [evaluation for evaluation in candidates if not math.isnan(evaluation.criterion)]
        return min(scored, key=lambda evaluation: evaluation.criterion) if scored else self.evaluations[-1]

    def is_exhausted(self, patience: int) -> bool:
        """Whether the last `patience` evaluations brought no better one."""
        best = self.best
        since_best = len(self.evaluations) - 1 - self.evaluations.index(best)
        return not math.isnan(best.criterion) and since_best >= patience
