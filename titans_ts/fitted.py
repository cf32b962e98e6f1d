"""FittedModel: what a fit made, in one frozen object that forecasts, moves on and is saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from .bounds import Bounds
from .devices import isolated
from .model import ModelConfig, SimbaForecaster
from .predict import recent_rows, recursive_forecast
from .progress import Progress
from .tables.panel import Panel
from .training.choices import Choice
from .training.closed_form import initialised_network
from .training.config import TrainConfig
from .training.distributed import process_group
from .training.history import Evaluation, History
from .training.loop import fit_network
from .training.path_choice import Resolved, choose_path
from .training.probe import Probe
from .windows.cross_series import CrossSeriesFeatures
from .windows.scaler import Scaler
from .windows.seasonal import seasonal_profiles
from .windows.splits import Fold, fold_windows
from .windows.windows import on_device

NO_BOUNDS = Bounds()


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
        What the fit chose from the data, in order.
    """

    network: SimbaForecaster
    scaler: Scaler
    panel: Panel
    history: History
    bounds: Bounds = NO_BOUNDS
    choices: tuple[Choice, ...] = ()

    @classmethod
    @isolated()
    def fit(
        cls,
        panel: Panel,
        fold: Fold,
        config: ModelConfig,
        train_config: Callable[[int], TrainConfig],
        device: torch.device,
        on_evaluation: Callable[[Evaluation], None] | None = None,
        bounds: Bounds = NO_BOUNDS,
        probe: Probe | None = None,
        progress: Progress | None = None,
        chooses_path: bool = False,
    ) -> FittedModel:
        """Scale the series, initialise the network in closed form and train it.

        Parameters
        ----------
        panel : Panel
            All rows.
        fold : Fold
            Which of them train and which validate.
        config : ModelConfig
        train_config : callable
            From the number of train windows to the TrainConfig.
        device : torch.device
        on_evaluation : callable, optional
            As `fit_network` takes it.
        bounds : Bounds
        probe, progress : optional
            As `fit_network` takes them.
        chooses_path : bool
            Replace the linear path of `config` by what `path_choice` finds best.

        Warns
        -----
        UserWarning
            If the time limit had passed when the closed form was solved.
        """
        progress = Progress() if progress is None else progress
        scaler = Scaler.fit(panel.data, fold.train)
        scaled = scaler.transform_panel(panel)
        profile = None
        if config.cycle:
            profile = torch.from_numpy(seasonal_profiles(scaled, fold.train, config.cycle))
        data, lookback = on_device(scaled, device), config.lookback
        found = Resolved(config, None, ())
        if chooses_path:
            found = choose_path(config, scaled, data, fold)
            config = found.config
        cross_series = None
        if config.linear_cross_series:
            cross_series = CrossSeriesFeatures(data, lookback=lookback, n_series=panel.n_series)
        windows = fold_windows(data, fold, lookback=lookback, horizon=config.horizon, cross_series=cross_series)
        training = train_config(len(windows.train))
        with process_group(device, "fit") as ranks:
            training = replace(training, random_state=ranks.broadcast(training.random_state))
            with progress.among(ranks.broadcast):
                progress.begin("closed form")
                begun = progress.elapsed
                network = initialised_network(
                    config, windows.train, windows.validation, profile, training.random_state, found.share, progress
                )
                if progress.lacks(0.0):
                    warnings.warn(_too_short(progress, begun), stacklevel=4)
            history = fit_network(
                network, windows.train, windows.validation, training, on_evaluation, probe=probe, progress=progress
            )
        return cls(network, scaler, recent_rows(panel, network), history, bounds, found.choices)

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
        return self.bounds.clip(recursive_forecast(self.network, self.scaler, panel, series, steps), panel)

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


def _too_short(progress: Progress, begun: float) -> str:
    """That the time limit is too short for the closed form, which began after so many seconds."""
    seconds = progress.elapsed
    return (
        f"`time_limit` = {progress.time_limit:g} seconds is too short for the closed form, which took "
        f"{seconds - begun:.3g} s after {begun:.3g} s of reading; it was finished, and nothing is trained. Allow "
        f"{seconds:.3g} s or more."
    )
