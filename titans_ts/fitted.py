"""FittedModel: what a fit made, in one frozen object that forecasts, moves on and is saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from .bounds import Bounds
from .combination import Candidates, Combination, is_combined, seconds_needed
from .devices import isolated
from .model import ModelConfig, SimbaForecaster
from .predict import recent_rows, recursive_forecast
from .progress import Progress
from .statistical.adjusted import Earlier
from .statistical.model import MOST_ROWS
from .tables.panel import Panel
from .training.choices import Choice
from .training.closed_form import initialised_network
from .training.config import TrainConfig
from .training.distributed import process_group
from .training.history import Evaluation, History
from .training.loop import fit_network
from .training.path_choice import Resolved, choose_path
from .training.probe import Probe
from .windows.scaler import Scaler
from .windows.seasonal import seasonal_profiles
from .windows.splits import Fold, network_windows
from .windows.windows import on_device

NO_BOUNDS = Bounds()


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
    """

    train_config: Callable[[int], TrainConfig]
    device: torch.device
    bounds: Bounds = NO_BOUNDS
    probe: Probe | None = None
    chooses_path: bool = False
    periods: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A trained network and what its forecasts begin from.

    Parameters
    ----------
    network : SimbaForecaster
    scaler : Scaler
        Mean and standard deviation of each series' train rows.
    panel : Panel
        The last rows of each series, as many as a forecast reads.
    history : History
        The evaluations of the training.
    bounds : Bounds
        What forecasts keep to.
    choices : tuple of Choice
        What was chosen from the data, and by how much.
    combination : Combination, optional
        What the network's forecasts are averaged with.
    """

    network: SimbaForecaster
    scaler: Scaler
    panel: Panel
    history: History
    bounds: Bounds = NO_BOUNDS
    choices: tuple[Choice, ...] = ()
    combination: Combination | None = None

    @classmethod
    @isolated()
    def fit(
        cls,
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
        device, horizon = options.device, config.horizon
        scaler = Scaler.fit(panel.data, fold.train)
        scaled = scaler.transform_panel(panel)
        profile = None
        if config.cycle:
            profile = torch.from_numpy(seasonal_profiles(scaled, fold.train, config.cycle))
        data = on_device(scaled, device)
        found = Resolved(config, None, ())
        with process_group(device, "fit") as ranks:
            with progress.among(ranks.broadcast):
                progress.begin("closed form")
                begun = progress.elapsed
                if options.chooses_path:
                    found = choose_path(config, scaled, data, fold, progress)
                config = found.config
                windows = network_windows(data, fold, config)
                training = options.train_config(len(windows.train))
                training = replace(training, random_state=ranks.broadcast(training.random_state))
                network = initialised_network(
                    config, windows.train, windows.validation, profile, training.random_state, found.share, progress
                )
                if progress.lacks(0.0):
                    warnings.warn(_too_short(progress, begun), stacklevel=4)
                candidates, interrupted = None, False
                if options.periods is not None and is_combined(panel.data, config):
                    progress.begin("statistical forecasts")
                    needed = 0.0
                    if progress.time_limit is not None and progress.left > 0:
                        needed = seconds_needed(panel.data, horizon, options.periods)
                    if not progress.lacks(needed):
                        try:
                            candidates = Candidates.fit(panel, fold, horizon, options.periods)
                        except KeyboardInterrupt:
                            if ranks.world > 1:  # others may be further
                                raise
                            interrupted, training = True, replace(training, max_epochs=0)
                            warnings.warn("The fit was interrupted; its closed form is kept.", stacklevel=4)
                    elif progress.left > 0:
                        warnings.warn(_not_combined(progress, needed), stacklevel=4)
            history = fit_network(
                network,
                windows.train,
                windows.validation,
                training,
                on_evaluation,
                probe=None if interrupted else options.probe,
                progress=progress,
            )
        if interrupted:
            history.stopped = "interrupted"
        combination, choices = None, found.choices
        if candidates is not None:

            def of_network(part: Panel, series: np.ndarray) -> np.ndarray:
                return recursive_forecast(network, scaler, part, series, horizon)[..., 0]

            try:
                combination, combined = candidates.choose(of_network)
                choices += combined
            except KeyboardInterrupt:
                history.stopped = "interrupted"
                warnings.warn("The fit was interrupted; forecasts are the network's alone.", stacklevel=4)
        rows = recent_rows(panel, network)
        if combination is not None:
            rows = np.maximum(rows, MOST_ROWS)
        return cls(network, scaler, panel.tail(rows), history, options.bounds, choices, combination)

    def forecast(self, steps: int, panel: Panel | None = None, series: np.ndarray | None = None) -> np.ndarray:
        """Forecast the steps after the last rows of the series fitted, or of others.

        Parameters
        ----------
        steps : int
        panel : Panel, optional
            Rows to forecast from instead.
        series : ndarray of int, shape (panel.n_series,), optional
            The number of each of its series among those fitted, -1 for one that was not; as in the panel fitted if
            None.

        Returns
        -------
        ndarray, shape (n_series, steps, outputs), float64
            In the units of the data, within the bounds.
        """
        panel = self.panel if panel is None else panel
        series = np.arange(self.panel.n_series) if series is None else series
        forecast = recursive_forecast(self.network, self.scaler, panel, series, steps)
        if self.combination is not None:
            if panel is self.panel and steps <= self.network.config.horizon:
                statistical = self._statistical[:, :steps]
            else:
                statistical = self.combination.statistical(panel.data, steps, Earlier(self.panel.data, series))
            forecast[..., 0] = self.combination.forecast(forecast[..., 0], statistical)
        return self.bounds.clip(forecast, panel)

    @cached_property
    def _statistical(self) -> np.ndarray:
        """What statistical forecasts add to those after the last rows fitted: (n_series, horizon)."""
        if self.combination is None:
            raise AttributeError("there are no statistical forecasts without a combination.")
        series = np.arange(self.panel.n_series)
        return self.combination.statistical(
            self.panel.data, self.network.config.horizon, Earlier(self.panel.data, series)
        )

    def squared_errors(self, panel: Panel, series: np.ndarray) -> np.ndarray:
        """Squared errors of forecasting a panel's rows from the end of the rows fitted, over the training variance.

        Parameters
        ----------
        panel : Panel
            Rows after those fitted; those of an array are taken to follow at once.
        series : ndarray of int, shape (panel.n_series,)
            The number of each of its series among those fitted.

        Returns
        -------
        ndarray, shape (observed rows,)

        Raises
        ------
        ValueError
            If rows of a series overlap those fitted: names it.
        """
        data, begin = panel.data, self.panel.data.ends[series]
        ahead = np.zeros(panel.n_series, dtype=np.int64) if panel.layout.kind == "array" else data.starts - begin
        if (ahead < 0).any():
            which = panel.id_of(int(ahead.argmin()))
            raise ValueError(
                f"`df` must come after the rows fitted, but series {which!r} overlaps them by {-ahead.min()}."
            )
        steps = int((ahead + data.lengths).max())
        forecast = self.forecast(steps, self.panel.take(series), series)[..., 0]
        step = data.row_in_series + np.repeat(ahead, data.lengths)
        errors = (data.values - forecast[data.series_of_row, step]) / np.repeat(self.scaler.scale[series], data.lengths)
        squared: np.ndarray = errors**2
        return squared if data.observed is None else squared[data.observed]

    @isolated()
    def to(self, device: torch.device) -> None:
        """Move the network, in place."""
        self.network.to(device)


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
