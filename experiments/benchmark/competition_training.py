"""What training adds to the closed form of a competition's group, and by which mixer: networks without a combination.

The closed form is solved once, as the estimator does with its defaults, or with one linear path for all series, the
common path; every network begins in it and is trained for the same epochs of at most `MOST_WINDOWS` windows. Validation
chooses among the evaluations, the closed form among them. How much the combination with statistical forecasts would
give the network, and its error, is found beside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from titans_ts.combination import Candidates
from titans_ts.defaults import defaults_for, periods_of, shorten
from titans_ts.devices import find_device
from titans_ts.fitted import FittedModel
from titans_ts.fitting import FitOptions, fit_model
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.predict import Seen, recursive_forecast
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table
from titans_ts.training.closed_form import reinitialised_network
from titans_ts.training.config import TrainConfig
from titans_ts.training.loop import fit_network
from titans_ts.windows.outliers import fill_outliers
from titans_ts.windows.splits import Fold, FoldWindows, backtest_folds, network_windows
from titans_ts.windows.windows import on_device

EPOCHS, MOST_WINDOWS = 4, 2**15


class Variant(NamedTuple):
    """A network; its closed form alone where there is no mixer."""

    mixer: str | None = None
    writes: bool = True
    chooses_path: bool = True


VARIANTS = {
    "closed form": Variant(),
    "memory": Variant("memory"),
    "memory that never writes": Variant("memory", writes=False),
    "no mixer": Variant("none"),
    "attention": Variant("attention"),
}
VARIANTS |= {f"{name}, common path": found._replace(chooses_path=False) for name, found in VARIANTS.items()}


class Weighed(NamedTuple):
    """A network beside statistical forecasts: its weight among them, and the error of the mean on validation rows."""

    weight: float
    error: float


@dataclass(frozen=True)
class Outcome:
    """One network of a group.

    Parameters
    ----------
    variant : str
        One of `VARIANTS`.
    epochs, seed : int
        0 for the closed form, which has neither.
    forecast : DataFrame
        As the estimator returns it.
    error_before, error_after : float
        Relative errors on validation rows: of the closed form, and the least of the evaluations that came after.
    kept_epoch : float
        That of the weights which validation chose; 0 for the closed form.
    weighed : Weighed
    seconds : float
        Of fit and forecast; without the closed form where a network is trained from it.
    """

    variant: str
    epochs: int
    seed: int
    forecast: pd.DataFrame
    error_before: float
    error_after: float
    kept_epoch: float
    weighed: Weighed
    seconds: float


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """The closed form of a group, and what networks are trained on from there."""

    panel: Panel
    fold: Fold
    fitted: FittedModel
    windows: FoldWindows
    candidates: Candidates
    seconds: float

    @classmethod
    def of(cls, train: pd.DataFrame, horizon: int, chooses_path: bool = True) -> ClosedForm:
        """Solve for it as `TitansForecaster(horizon=horizon, combine=False, max_epochs=0)` does.

        With `linear_path=True` where no path is to be chosen.
        """
        device, begun = find_device(None), time.perf_counter()
        panel = fill_outliers(read_table(train))
        defaults = shorten(defaults_for(panel.calendar), panel.data.lengths)
        config = ModelConfig(lookback=defaults.lookback, horizon=horizon, n_series=panel.n_series, cycle=defaults.cycle)
        (fold,) = backtest_folds(panel, horizon)
        options = FitOptions(train_config=lambda n: TrainConfig(max_epochs=0), device=device, chooses_path=chooses_path)
        fitted = fit_model(panel, fold, config, options)
        seconds = time.perf_counter() - begun

        data = on_device(fitted.scaler.transform_panel(panel), device)
        windows = network_windows(data, fold, fitted.network.config)
        candidates = Candidates.fit(panel, fold, horizon, periods_of(panel.calendar, config.cycle))
        return cls(panel, fold, fitted, windows, candidates, seconds)

    def outcome(self, name: str) -> Outcome:
        """The closed form itself, by the name of its variant."""
        (first,) = self.fitted.history.evaluations
        begun = time.perf_counter()
        forecast = self._forecast(self.fitted)
        seconds = self.seconds + time.perf_counter() - begun
        errors = first.relative_error, float("nan"), 0.0
        return Outcome(name, 0, 0, forecast, *errors, self._weighed(self.fitted.network), seconds)

    def trained(self, name: str, epochs: int, seed: int) -> Outcome:
        """A network that was trained from it, by the name of its variant."""
        begun = time.perf_counter()
        variant = VARIANTS[name]
        network = reinitialised_network(self.fitted.network, seed, mixer=variant.mixer, memory_writes=variant.writes)
        config = TrainConfig(
            batch_size=min(256, max(16, len(self.windows.train) // 16)),  # the estimator's
            max_epochs=epochs,
            most_windows=MOST_WINDOWS,
            patience=epochs * TrainConfig.evaluations_per_epoch,
            random_state=seed,
        )
        history = fit_network(network, self.windows.train, self.windows.validation, config)
        forecast = self._forecast(replace(self.fitted, network=network, history=history))
        seconds = time.perf_counter() - begun
        first, *later = history.evaluations
        errors = first.relative_error, min(e.relative_error for e in later), history.best.epoch
        return Outcome(name, epochs, seed, forecast, *errors, self._weighed(network), seconds)

    def _forecast(self, fitted: FittedModel) -> pd.DataFrame:
        table: pd.DataFrame = fitted.panel.write(fitted.forecast(fitted.network.config.horizon))
        return table

    def _weighed(self, network: SimbaForecaster) -> Weighed:
        horizon = network.config.horizon
        combination, choices = self.candidates.choose(
            lambda part, series: recursive_forecast(Seen.of(network, self.fitted.scaler, part, series), part, horizon)[
                ..., 0
            ]
        )
        weight = 1.0 if combination is None else float(combination.weights[0])
        found = [choice.errors[choice.chosen] for choice in choices if choice.name == "combination"]
        return Weighed(weight, found[0] if found else float("nan"))


def outcomes(
    train: pd.DataFrame,
    horizon: int,
    variants: list[str],
    epochs: int,
    seeds: list[int],
    wanted: Callable[[str, int, int], bool],
) -> Iterator[Outcome]:
    """Every network that is wanted, by variant, epochs and seed, one after the other."""
    for chooses_path in (True, False):
        runs = list[tuple[str, int, int]]()
        for name in variants:
            if VARIANTS[name].chooses_path == chooses_path:
                runs += [(name, epochs, seed) for seed in seeds] if VARIANTS[name].mixer else [(name, 0, 0)]
        if not (runs := [run for run in runs if wanted(*run)]):
            continue
        closed_form = ClosedForm.of(train, horizon, chooses_path)
        for name, *how in runs:
            yield closed_form.trained(name, *how) if VARIANTS[name].mixer else closed_form.outcome(name)
