"""From rows to a fitted model: covariates, closed form, training, long-term memory, combination and intervals."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from .bounds import Bounds
from .combination import Candidates, Combination, is_combined, seconds_needed
from .devices import isolated
from .fitted import NO_BOUNDS, FittedModel
from .intervals.fit import HeldOut, calibrated
from .intervals.origins import AddedForecasts
from .model import ModelConfig, SimbaForecaster, point_of
from .model.covariates import Column
from .model.long_term import LongTermMemory
from .predict import Seen, recursive_forecast
from .progress import Progress
from .regression.dynamic import fit_regression
from .stream.fit import STREAM, WINDOW, Note, fit_long_term
from .stream.reading import Core
from .tables.covariates import mean_and_deviation
from .tables.panel import Panel
from .training.checkpoint import Checkpoint
from .training.choices import Choice
from .training.closed_form import initialised_network
from .training.config import TrainConfig
from .training.distributed import Ranks, process_group
from .training.history import Evaluation, History
from .training.loop import fit_network
from .training.path_choice import Resolved, choose_path
from .training.probe import Probe
from .windows.scaler import Scaler
from .windows.seasonal import seasonal_profiles
from .windows.splits import Fold, network_windows
from .windows.windows import on_device


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What a fit does beside the network's own configuration.

    Parameters
    ----------
    train_config : callable
        From the number of train windows to the TrainConfig.
    device : torch.device
    bounds : Bounds
    probe : Probe, optional
        As `fit_network` takes it.
    chooses_path : bool
        Replace the configuration's linear path by what `path_choice` finds best.
    periods : tuple of int, optional
        Of the seasons of statistical forecasts, with which the network's are combined; None for the network alone.
    context : {"window", "stream", "auto"}
        What a forecast knows of: its window alone, all rows since the first by the long-term memory, or that only where
        validation rows say so.
    earlier : FittedModel, optional
        The fit to go on from, with its scales and its network, whose shape the configuration must be.
    checkpoint : Checkpoint, optional
        Where the training is written, and goes on from after a kill; removed once the fit is finished. Not for several
        processes.
    """

    train_config: Callable[[int], TrainConfig]
    device: torch.device
    bounds: Bounds = NO_BOUNDS
    probe: Probe | None = None
    chooses_path: bool = False
    periods: tuple[int, ...] | None = None
    context: str = WINDOW
    earlier: FittedModel | None = None
    checkpoint: Checkpoint | None = None


@isolated()
def fit_model(
    panel: Panel,
    fold: Fold,
    config: ModelConfig,
    options: FitOptions,
    on_evaluation: Callable[[Evaluation], None] | None = None,
    progress: Progress | None = None,
) -> FittedModel:
    """Scale the series, initialise the network in closed form, train it, and combine it with simpler forecasts.

    Parameters
    ----------
    panel : Panel
        All rows.
    fold : Fold
        Which of them train and which validate.
    config : ModelConfig
    options : FitOptions
    on_evaluation, progress : optional
        As `fit_network` takes them.

    Warns
    -----
    UserWarning
        If the time limit had passed when the closed form was solved, or leaves no time for a combination.
    """
    progress = Progress() if progress is None else progress
    device, horizon, earlier = options.device, config.horizon, options.earlier
    regression, choices = None if earlier is None else earlier.regression, tuple[Choice, ...]()
    if panel.covariates is not None and earlier is None:
        progress.begin("covariates")
        regression, choices = fit_regression(panel, fold, config, device)
    if regression is not None:
        panel = regression.without(panel, np.arange(panel.n_series))
    scaler = Scaler.fit(panel.data, fold.train) if earlier is None else earlier.scaler
    scaled = scaler.transform_panel(panel)
    profile = torch.from_numpy(seasonal_profiles(scaled, fold.train, config.cycle)) if config.cycle else None
    columns = read_columns(panel, fold) if earlier is None else earlier.network.config.covariates
    data = on_device(scaled, device, columns)
    found = Resolved(config, None, ())
    with process_group(device, "fit") as ranks:
        if options.checkpoint is not None and ranks.world > 1:
            raise ValueError(
                f"`checkpoint_dir` must be None where {ranks.world} processes train together: each has random numbers "
                "of its own, which one checkpoint does not hold."
            )
        with progress.among(ranks.broadcast):
            progress.begin("closed form")
            begun = progress.elapsed
            if options.chooses_path and earlier is None:
                found = choose_path(config, scaled, replace(data, covariates=None), fold, progress)
            config = replace(found.config, covariates=columns)
            windows = network_windows(data, fold, config)
            training = options.train_config(len(windows.train))
            training = replace(training, random_state=ranks.broadcast(training.random_state))
            if earlier is None:
                network = initialised_network(
                    config, windows.train, windows.validation, profile, training.random_state, found.share, progress
                )
                if progress.lacks(0.0):
                    warnings.warn(_too_short(progress, begun), stacklevel=4)
            else:
                network = copy.deepcopy(earlier.network).to(device)
            candidates, interrupted = _candidates(panel, fold, horizon, options, progress, ranks)
        if options.checkpoint is not None:
            options.checkpoint.facts["warm start"] = "False" if earlier is None else _digest(earlier.network)
        history = fit_network(
            network,
            windows.train,
            windows.validation,
            replace(training, max_epochs=0) if interrupted else training,
            on_evaluation,
            probe=None if interrupted else options.probe,
            progress=progress,
            checkpoint=options.checkpoint,
        )
        with progress.among(ranks.broadcast):
            late = progress.lacks(0.0)
    if interrupted:
        history.stopped = "interrupted"
    choices += found.choices
    held_out = HeldOut.of(fold, config.lookback, horizon, config.n_outputs, scaler.std > 0, candidates)
    noted: list[AddedForecasts] = []

    def note(memory: LongTermMemory) -> Note:
        noted.append(AddedForecasts(memory, held_out.series, held_out.rows))
        return noted[-1].note

    long_term, always = None, options.context == STREAM
    if options.context != WINDOW and history.stopped != "interrupted" and (always or not late):
        progress.begin("long-term memory")
        try:
            long_term, chosen = fit_long_term(network, data, fold, windows.validation, always=always, noted=note)
            choices += chosen
        except KeyboardInterrupt:
            history.stopped = "interrupted"
            warnings.warn("The fit was interrupted; forecasts know their window alone.", stacklevel=4)
    combination, chosen = _combination(candidates, network, scaler, horizon, history)
    choices += chosen
    added = None
    if long_term is not None:
        added = next(n.values for n in noted if n.memory is long_term.memory)
    core = Core.of(network, np.arange(panel.n_series))
    calibration = calibrated(held_out, core, data, scaler, panel, added, candidates, combination)
    if options.checkpoint is not None and history.stopped != "interrupted":
        options.checkpoint.remove()
    fitted = FittedModel(
        network=network,
        scaler=scaler,
        panel=panel,
        history=history,
        bounds=options.bounds,
        choices=choices,
        combination=combination,
        long_term=long_term,
        regression=regression,
        calibration=calibration,
    )
    return replace(fitted, panel=panel.tail(fitted.kept_rows(panel)))


def _candidates(
    panel: Panel, fold: Fold, horizon: int, options: FitOptions, progress: Progress, ranks: Ranks
) -> tuple[Candidates | None, bool]:
    """Statistical forecasts that the network's may be combined with, and whether they were interrupted."""
    if options.periods is None or not is_combined(panel.data):
        return None, False
    progress.begin("statistical forecasts")
    needed = 0.0
    if progress.time_limit is not None and progress.left > 0:
        needed = seconds_needed(panel.data, horizon, options.periods)
    if progress.lacks(needed):
        if progress.left > 0:
            warnings.warn(_not_combined(progress, needed), stacklevel=5)
        return None, False
    try:
        return Candidates.fit(panel, fold, horizon, options.periods), False
    except KeyboardInterrupt:
        if ranks.world > 1:  # others may be further
            raise
        warnings.warn("The fit was interrupted; its closed form is kept.", stacklevel=5)
        return None, True


def _combination(
    candidates: Candidates | None, network: SimbaForecaster, scaler: Scaler, horizon: int, history: History
) -> tuple[Combination | None, tuple[Choice, ...]]:
    """What a trained network's forecasts are averaged with."""
    if candidates is None:
        return None, ()

    def of_network(part: Panel, series: np.ndarray) -> np.ndarray:
        found: np.ndarray = point_of(recursive_forecast(Seen.of(network, scaler, part, series), part, horizon))
        return found

    try:
        return candidates.choose(of_network)
    except KeyboardInterrupt:
        history.stopped = "interrupted"
        warnings.warn("The fit was interrupted; forecasts are the network's alone.", stacklevel=5)
        return None, ()


def read_columns(panel: Panel, fold: Fold) -> tuple[Column, ...]:
    """A panel's covariates as a network reads them, at the scale of the train rows."""
    spec, data = panel.covariates, panel.data
    if spec is None or data.covariates is None:
        return ()
    values = data.covariates[data.row_in_series < np.repeat(fold.train, data.lengths)]
    return tuple(
        Column(column.role, 0, *mean_and_deviation(values[:, i]))
        if column.categories is None
        else Column(column.role, len(column.categories), 0.0, 1.0)
        for i, column in enumerate(spec.columns)
    )


def _digest(network: SimbaForecaster) -> str:
    """A SHA-256 of the weights of a network."""
    found = hashlib.sha256()
    for name, value in network.state_dict().items():
        found.update(name.encode() + value.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _not_combined(progress: Progress, needed: float) -> str:
    """That the time limit leaves too little time for statistical forecasts, which need about so many seconds."""
    return (
        f"`time_limit` = {progress.time_limit:g} seconds leaves {progress.left:.3g} s for statistical forecasts, which "
        f"take about {needed:.3g} s; forecasts are the network's alone. "
        f"Allow {progress.elapsed + 1.5 * needed:.3g} s or more."
    )


def _too_short(progress: Progress, begun: float) -> str:
    """That the time limit is too short for the closed form, which began after so many seconds."""
    seconds = progress.elapsed
    return (
        f"`time_limit` = {progress.time_limit:g} seconds is too short for the closed form, which took "
        f"{seconds - begun:.3g} s after {begun:.3g} s of reading; it was finished, and nothing is trained. Allow "
        f"{seconds:.3g} s or more."
    )
