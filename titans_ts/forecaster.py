"""TitansForecaster: a scikit-learn estimator around the network.

Frames in, frames out; everything between is the internal Panel of `frames` and the windows of `windows`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .checks import as_flag, as_whole, find_device, match_series, refuse_given, refuse_reserved, refuse_targets
from .defaults import cut, defaults_for
from .distributed import joined
from .frames import Panel, read_table
from .model import ModelConfig
from .rolling import recent, roll_forward, to_scale
from .saving import load_model, save_model
from .splits import first_rows, split_rows
from .start import started_network
from .surroundings import Surroundings
from .training import Check, TrainConfig, fit_network
from .windows import Scaler, Windows, profiles

PATHS_OF_EACH = ("per_series", "across")  # linear paths with weights of each series' own
HARMONICS, MOST_BY_PHASE = 2, 40  # of the cycle, where so many series read one another: weights grow by the square
LEAST_STEPS = 300  # of training on short series, whose epochs have few


class TitansForecaster(BaseEstimator):
    """Forecast many series with one network that keeps learning while it reads.

    Everything left None is filled in by `fit` from the data's frequency and length.

    Parameters
    ----------
    horizon, lookback : int, optional
        Steps forecast at a time and steps read before them; for hourly data 24 and 336, cut to what the data can
        train.
    freq : str, int or offset, optional
        Distance of rows; if None that which all series have.
    id_col, time_col, target_col : str
        Columns of a long frame.
    static_cols, past_cols, future_cols, variant, context, channel_mixing, warm_start, checkpoint_dir
        Reserved; only the default is accepted yet.
    missing : {"error", "interpolate", "ffill"}
        What becomes of missing values and skipped rows. Filled in, by a line or by the value before, they are read as
        past but not learned from: no loss, scale, start or score counts them, and a window that would forecast one is
        left out. A series begins with its first value; its end is carried forward, never filled from what comes later.
    mixer : {"memory", "attention", "mamba", "none"}
        What mixes tokens; anything but the memory is for comparison.
    n_layers, d_model, n_heads : int
        Blocks, width and heads of the deep branch.
    memory_depth, memory_expansion : int
        Layers of the memory, and its hidden width over the head's.
    chunk_size : int
        Tokens that the memory learns from the same weights.
    patch_len, stride : int
        Steps of a token and between tokens.
    dropout : float
        In [0, 1).
    cycle : int, optional
        Period of the learned season in steps; 0 for none, None for the frequency's own.
    linear_path : bool, "per_series" or "across"
        A linear forecast beside the deep branch, solved for in closed form: one for all series or, where they differ in
        kind, with a part of each series' own, which also learns how soon that series returns to its mean, and takes
        memory for each. With "across" each series' part also reads what all series did at the same time, by the phase
        of the cycle where they are 40 or fewer, which takes memory by the square of their number.
    loss : {"mse", "mae", "huber"}
        Of the scaled values.
    learning_rate : float
        The optimizer's peak rate.
    batch_size, max_epochs : int, optional
        Windows a step, those of all processes together, and passes over all windows; None suits them to the number of
        windows.
    patience : int
        Validation checks, four an epoch, without a better error before training stops.
    val_size : int or float, optional
        Last rows of each series kept out of training, as a number or a share; a tenth and at least one horizon if
        None. A series too short for that, or with nothing but gaps there, is trained on whole; where all are,
        training has no check.
    random_state : int, RandomState or None
        An int makes two fits on a CPU equal to the bit.
    device : str, optional
        "cpu", "cuda", ...; a GPU if there is one if None. Under torchrun, None and "cuda" give each process a GPU.
    precision : {"float32", "bfloat16"}, optional
        bfloat16 is mixed precision, and the choice of None on a GPU.
    verbose : int
        0 hides the progress bar; 1 shows it where the output is a terminal or a notebook.

    Attributes
    ----------
    horizon_, lookback_ : int
    freq_ : str or int
    history_ : History
        Validation checks of the fit; ``pd.DataFrame(history_.checks)`` is a table of them.
    network_ : SimbaForecaster
    scaler_ : Scaler
        Mean and standard deviation of each series' training rows.
    seasonal_ : bool
        Whether the network's cycle began at each series' profile, which one seen first in `predict` then has as well.
    n_features_in_ : int
        Number of series.
    feature_names_in_ : ndarray of str
        Columns of a wide frame, if all are strings.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> hours = pd.date_range("2024-01-01", periods=500, freq="h")
    >>> df = pd.DataFrame({"load": 10 + np.sin(np.arange(500) * 2 * np.pi / 24)}, index=hours)
    >>> model = TitansForecaster(horizon=24, lookback=48, d_model=16, max_epochs=1, random_state=0).fit(df)
    >>> model.predict().round(1).head(3)
                         load
    2024-01-21 20:00:00   9.1
    2024-01-21 21:00:00   9.3
    2024-01-21 22:00:00   9.5
    """

    def __init__(
        self,
        *,
        horizon: int | None = None,
        lookback: int | None = None,
        freq: Any = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        static_cols: Any = None,
        past_cols: Any = None,
        future_cols: Any = None,
        variant: str = "lmm",
        mixer: str = "memory",
        context: str = "window",
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        memory_depth: int = 2,
        memory_expansion: int = 1,
        chunk_size: int = 16,
        patch_len: int = 16,
        stride: int = 8,
        dropout: float = 0.1,
        cycle: int | None = None,
        linear_path: bool | str = True,
        channel_mixing: bool = False,
        missing: str = "error",
        loss: str = "mse",
        learning_rate: float = 1e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        patience: int = 8,
        val_size: int | float | None = None,
        warm_start: bool = False,
        checkpoint_dir: Any = None,
        random_state: Any = None,
        device: str | None = None,
        precision: str | None = None,
        verbose: int = 1,
    ) -> None:
        self.horizon = horizon
        self.lookback = lookback
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.static_cols = static_cols
        self.past_cols = past_cols
        self.future_cols = future_cols
        self.variant = variant
        self.mixer = mixer
        self.context = context
        self.n_layers = n_layers
        self.d_model = d_model
        self.n_heads = n_heads
        self.memory_depth = memory_depth
        self.memory_expansion = memory_expansion
        self.chunk_size = chunk_size
        self.patch_len = patch_len
        self.stride = stride
        self.dropout = dropout
        self.cycle = cycle
        self.linear_path = linear_path
        self.channel_mixing = channel_mixing
        self.missing = missing
        self.loss = loss
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.val_size = val_size
        self.warm_start = warm_start
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose

    def fit(
        self,
        df: Any,
        y: Any = None,
        *,
        val_loss: str | None = None,
        on_check: Callable[[Check], None] | None = None,
    ) -> TitansForecaster:
        """Learn from a table of series; an earlier fit is forgotten.

        Parameters
        ----------
        df : DataFrame, Series or ndarray of shape (rows, channels)
            Long (`id_col`, `time_col`, `target_col`), one series (`time_col`, `target_col`), wide (times in the index
            or in one column), a Series, or an array; of pandas, polars or NumPy. Not changed.
        y : None
            For scikit-learn's sake.
        val_loss : {"mse", "mae", "huber"}, optional
            The error of the validation checks, by which the best weights are chosen; `loss` if None.
        on_check : callable, optional
            Called with each check of the history as it is made, to report it or to stop: what it raises ends training
            and leaves an earlier fit as it was.

        Returns
        -------
        TitansForecaster
            Itself.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, or the column, series and time, that is wrong.
        NotImplementedError
            For a reserved parameter.
        FloatingPointError
            If the loss becomes infinite or NaN.
        RuntimeError
            If several processes train together and another was killed, has failed, or is silent for too long.

        Notes
        -----
        ``torchrun --nproc_per_node=2 script.py`` trains one model in two processes, each on its share of every batch.
        The script calls `fit` on the same table in both, which then hold the same model; see `fit_network`.
        """
        refuse_targets(y)
        refuse_reserved(vars(self))
        device = find_device(self.device)
        panel = self._read(df, min_rows=3, freq=self.freq)
        defaults = cut(defaults_for(panel.calendar), panel.lengths)
        horizon = as_whole("horizon", self.horizon, 1, defaults.horizon)
        lookback = as_whole("lookback", self.lookback, 1, defaults.lookback)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        config = self._model_config(panel, lookback, horizon, defaults.cycle)

        train_rows, validated = split_rows(panel, horizon, self.val_size)
        scaler = Scaler.fit(panel.values, panel.lengths, train_rows, panel.observed)
        scaled = to_scale(panel, scaler)
        series = torch.from_numpy(scaled.astype(np.float32)).to(device), panel.lengths, panel.starts
        how: dict[str, Any] = dict(lookback=lookback, horizon=horizon, observed=panel.observed)
        if config.linear_across:
            how["around"] = Surroundings(*series, lookback=lookback, n_series=panel.n_series)
        train = Windows(*series, first=first_rows(panel, train_rows, lookback, horizon), last=train_rows, **how)
        validation = None
        if validated.any():
            validation = Windows(*series, first=train_rows, last=np.where(validated, panel.lengths, 0), **how)

        profile = None
        if config.cycle:
            rows = panel.lengths, panel.starts, train_rows
            profile = torch.from_numpy(profiles(scaled, *rows, config.cycle, panel.observed))
        with joined(device, "fit") as ranks:
            seed = ranks.of_first(seed)
            train_config = self._train_config(len(train), seed, device, val_loss)
            network = started_network(config, train, validation, profile, seed)
            seasonal = network.cycle is not None and bool(network.cycle.profile.any())
            history = fit_network(network, train, validation, train_config, on_check)

        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.horizon_, self.lookback_, self.freq_ = horizon, lookback, panel.calendar.freq
        self.network_, self.history_, self.scaler_ = network, history, scaler
        self.n_features_in_, self.seasonal_ = panel.n_series, seasonal
        if panel.feature_names is not None:
            self.feature_names_in_ = panel.feature_names
        self.panel_ = recent(panel, config)
        return self

    def predict(
        self, h: Any = None, df: Any = None, *, level: Any = None, quantiles: Any = None, future: Any = None
    ) -> Any:
        """Forecast the `h` steps after the last one seen.

        Parameters
        ----------
        h : int, optional
            Steps ahead; the trained horizon if None. Past it the forecast rolls forward in blocks. A table here is
            taken for `df`.
        df : table of a kind that `fit` takes, optional
            Forecast from the end of these rows instead: later or other rows of the series fitted, of some of them, or
            of others. Rows short of a lookback are padded. A series that was not fitted is seen at the scale of the
            rows given here, all of them, and less their own season once they cover one. An array has no times: its
            first row counts as the first step, as in `fit`, which matters to a model with a cycle.
        level, quantiles, future
            Reserved.

        Returns
        -------
        DataFrame, Series or ndarray of the kind of the table it continues
            One row per step, or per series and step, in the units of the data; a long frame's column is "Titans", and
            its series are in the order of their ids.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If `h` is no positive integer, or `df` does not fit the series fitted.
        NotImplementedError
            For a reserved parameter.
        """
        check_is_fitted(self)
        refuse_given(level=level, quantiles=quantiles, future=future)
        if h is not None and not np.isscalar(h):
            if df is not None:
                raise TypeError("`h` must be an integer where `df` is given too; pass one table.")
            h, df = None, h
        steps = as_whole("h", h, 1, self.horizon_)
        if df is None:
            panel, series = self.panel_, np.arange(self.n_features_in_)
        else:
            panel, series = self._context(df)
        return panel.write(roll_forward(self.network_, self.scaler_, panel, series, steps, self.seasonal_))

    def score(self, df: Any, y: Any = None) -> float:
        """Minus the mean squared error of forecasting `df`'s rows, each series divided by its training variance.

        The forecast starts at the end of the fitted data and rolls past the horizon to the last row of `df`; rows
        must come after those fitted (the rows of an array are taken to follow at once). Rows that `missing` fills in
        are not scored. Greater is better.

        scikit-learn's named scorers, such as "neg_mean_squared_error", need a `y` beside the table and do not apply;
        as `scoring`, a function of the forecaster and a table does.

        Parameters
        ----------
        df : table of a kind that `fit` takes
        y : None
            For scikit-learn's sake.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        refuse_targets(y)
        panel, series = self._context(df)
        if (series < 0).any():
            unknown = panel.ids[series < 0].tolist()
            raise ValueError(f"`df` has series {unknown[:5]} that were not in the data fitted; fit them first.")
        ahead = np.zeros(panel.n_series, dtype=np.int64)
        if panel.layout.kind != "array":
            ahead = panel.starts - self.panel_.ends[series]
        if (ahead < 0).any():
            which = panel.ids[[int(ahead.argmin())]].tolist()[0]
            raise ValueError(
                f"`df` must come after the rows fitted, but series {which!r} overlaps them by {-ahead.min()}."
            )
        fitted = self.panel_.take(series)
        steps = int((ahead + panel.lengths).max())
        forecast = roll_forward(self.network_, self.scaler_, fitted, series, steps, self.seasonal_)
        errors = [
            (panel.series(i) - forecast[i, start : start + n])[panel.known(i)] / self.scaler_.std[series[i]]
            for i, (start, n) in enumerate(zip(ahead, panel.lengths, strict=True))
        ]
        return -float(np.mean(np.concatenate(errors) ** 2))

    def update(self, rows: Any) -> TitansForecaster:
        """Reserved: read on from new rows."""
        raise NotImplementedError("`update` is not supported yet; pass the rows to `predict(df=...)`, or fit again.")

    def surprise(self, df: Any) -> Any:
        """Reserved: how much each row surprised the memory."""
        raise NotImplementedError("`surprise` is not supported yet.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted forecaster into a folder that `load` reads: JSON and safetensors, no pickle.

        A model saved there before is replaced in one step: where saving fails or is killed at any moment, the model
        before it stays whole. Of the data, only what a forecast reads is kept: the last lookback of each series, and
        with `linear_path="across"` what others did at those times.

        Parameters
        ----------
        path : path
            A new or empty folder, or one that holds a saved model.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        RuntimeError
            Under torchrun, if rank 0 could not write, or another process is gone.
        FileExistsError
            If `path` is a file, or a folder with anything but a model that this version can load; it is left alone.
        TypeError
            If a series or column has a name of a kind that cannot be kept; nothing is written.
        OSError
            If the folder cannot be written, or the disk is full.

        Notes
        -----
        Parameters come back as they are, NumPy's numbers as Python's; a `freq` that is an offset and a `device` come
        back as text, and a `random_state` that is a RandomState as None.

        Under torchrun every process must call it: rank 0 writes, the others wait until it has.
        """
        check_is_fitted(self)
        with joined(self.network_.persistent.device, "save") as ranks:
            ranks.on_first(lambda: save_model(self, path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | None = None) -> Self:
        """Restore a forecaster that `save` wrote; on the same CPU it forecasts the same to the bit.

        Nothing in the folder is run, so one from elsewhere is safe to load.

        Parameters
        ----------
        path : path
            The folder.
        device : str, optional
            Takes the place of the parameter `device` that was saved: a model from a GPU loads elsewhere with "cpu".

        Returns
        -------
        TitansForecaster
            Fitted; it can be fitted again.

        Raises
        ------
        FileNotFoundError
            If `path` does not exist.
        ValueError
            If it holds no saved model, one of a newer format, or files that were truncated or edited: names the file.
            If `device`, given or saved, is not one of this machine.
        """
        forecaster = load_model(cls, path)
        if device is not None:
            forecaster.device = device
        forecaster.network_.to(find_device(forecaster.device))
        return forecaster

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask: whether missing values are taken and two fits with one seed may differ."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.non_deterministic = torch.cuda.is_available() if self.device is None else str(self.device) != "cpu"
        return tags

    def _read(self, df: Any, **how: Any) -> Panel:
        how.update(id_col=self.id_col, time_col=self.time_col, target_col=self.target_col, missing=self.missing)
        return read_table(df, **how)

    def _model_config(self, panel: Panel, lookback: int, horizon: int, cycle: int) -> ModelConfig:
        path = self.linear_path if isinstance(self.linear_path, str) else None
        cycle = as_whole("cycle", self.cycle, 0, cycle)
        if path not in (None, *PATHS_OF_EACH):
            raise ValueError(f"`linear_path` must be True, False or one of {PATHS_OF_EACH}, got {path!r}.")
        return ModelConfig(
            lookback=lookback,
            horizon=horizon,
            n_series=panel.n_series,
            cycle=cycle,
            linear_path=True if path else as_flag("linear_path", self.linear_path),
            linear_per_series=path in PATHS_OF_EACH,
            linear_level=path in PATHS_OF_EACH,
            linear_across=path == "across",
            linear_harmonics=min(HARMONICS, cycle // 2) if path == "across" and panel.n_series <= MOST_BY_PHASE else 0,
            patch_len=as_whole("patch_len", self.patch_len, 1),
            stride=as_whole("stride", self.stride, 1),
            d_model=as_whole("d_model", self.d_model, 1),
            n_layers=as_whole("n_layers", self.n_layers, 1),
            n_heads=as_whole("n_heads", self.n_heads, 1),
            mixer=self.mixer,
            memory_depth=as_whole("memory_depth", self.memory_depth, 1),
            memory_expansion=as_whole("memory_expansion", self.memory_expansion, 1),
            chunk_size=as_whole("chunk_size", self.chunk_size, 1),
            dropout=self.dropout,
        )

    def _train_config(self, windows: int, seed: int, device: torch.device, val_loss: str | None) -> TrainConfig:
        batch_size = as_whole("batch_size", self.batch_size, 1, min(256, max(16, windows // 16)))
        steps = math.ceil(windows / batch_size)
        precision = self.precision
        if precision is None:
            precision = "bfloat16" if device.type == "cuda" else "float32"
        return TrainConfig(
            loss=self.loss,
            val_loss=val_loss,
            learning_rate=self.learning_rate,
            batch_size=batch_size,
            max_epochs=as_whole("max_epochs", self.max_epochs, 0, min(100, max(3, math.ceil(LEAST_STEPS / steps)))),
            patience=as_whole("patience", self.patience, 1),
            precision=precision,
            random_state=seed,
            verbose=self.verbose,
        )

    def _context(self, df: Any) -> tuple[Panel, np.ndarray]:
        """A table to predict from, and the number of each of its series, -1 for one that was not fitted.

        Its steps are those of the fitted calendar.
        """
        fitted = self.panel_
        panel = self._read(df, min_rows=1, calendar=fitted.calendar)
        return panel, match_series(panel, fitted, type(self).__name__)
