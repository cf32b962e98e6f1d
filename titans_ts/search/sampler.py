"""Optuna's default sampler, with draws that do not depend on who runs a trial."""

from __future__ import annotations

from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState


class SeededSampler(BaseSampler):
    """Tree-structured Parzen estimators, their random numbers fixed by the seed and each trial's number.

    So neither a study that goes on nor the processes that share one repeat each other's draws.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inner = TPESampler(seed=seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self._inner = TPESampler(seed=int(np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0]))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        self._inner.after_trial(study, trial, state, values)
