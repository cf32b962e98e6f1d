"""TitansForecaster: a scikit-learn estimator around the network.

Frames in, frames out. Here is the contract alone: a table becomes a Panel, parameters become configurations, and what
is fitted is one FittedModel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from .arguments import (
    check_choice,
    check_column,
    check_flag,
    check_integer,
    check_no_targets,
    check_positive,
    check_seed,
    split_table,
)
from .bounds import Bounds
from .defaults import Defaults, defaults_for, periods_of, shorten
from .devices import check_memory, enough_memory, find_device
from .evaluation import EvaluatedForecaster
from .exporting import ExportingForecaster
from .fitting import FitOptions, fit_model
from .intervals.levels import Asked
from .model import point_of
from .progress import Progress
from .saving import load_model, save_model
from .settings import AUTO, chooses_path, model_config, train_config
from .stream.fit import STREAM, WINDOW
from .streaming import StreamingForecaster
from .tables.covariate_columns import CovariateNames
from .tables.future import read_future
from .training.checkpoint import Checkpoint
from .training.config import TrainConfig
from .training.distributed import first_rank, process_group
from .training.history import Evaluation
from .training.losses import AnyLoss, check_loss, try_loss
from .training.probe import Probe
from .warm_start import check_same_series, same_shape
from .weights import series_weights
from .windows.outliers import fill_outliers
from .windows.splits import backtest_folds

OUTLIERS = ("fill", "keep")
CONTEXTS = (AUTO, WINDOW, STREAM)
BYTES_OF_A_VALUE = 32  # that a forecast takes at least, with its time and id


class TitansForecaster(StreamingForecaster, EvaluatedForecaster, ExportingForecaster):
    """Forecast many series with one network, its linear part solved for in closed form, its deep part trained.

    Everything left None is filled in by `fit` from the data's frequency and length.

    Parameters
    ----------
    horizon, lookback : int, optional
        Steps forecast at a time and steps read before them; for hourly data 24 and 336, cut to what the data can
        train.
    freq : str, int or offset, optional
        Distance of rows, as pandas names it, or "MD-15" for the 15th of each month; if None, it is inferred, and must
        be the same for all series. Each series may have a phase of its own, such as another weekday.
    id_col, time_col, target_col : str
        Columns of a long frame.
    static_cols, past_cols, future_cols : list of str, optional
        Columns of covariates, numbers or categories: those that do not change within a series; those known up to the
        last row; those known ahead, which `predict` is given in `future`. In a wide frame they are of all series.
    calendar : list of str, optional
        Features of the times, known ahead without being given: "minute", "hour", "weekday", "day", "week", "month",
        "quarter", and "holidays:US" or "holidays:DE-BY" for those of a country or a part of it, by the package
        holidays. What static and future covariates explain is solved for in closed form, as one regression beside the
        forecast of the rest, where that lowers the errors on validation rows.
    missing : {"error", "interpolate", "ffill"}
        What becomes of missing values and skipped rows. Filled in, by a line or by the value before, they are read as
        past but not learned from: no loss, scale, initialisation or score counts them, and a window that would forecast
        one is left out. A series begins with its first value; its end is carried forward, never filled from what comes
        later.
    outliers : {"fill", "keep"}
        What becomes of values that lie more than four times the range of the others beyond it. Filled in, by a line,
        they are named in a warning and treated as missing; "keep" learns from them as they are.
    lower, upper : float or dict of id to float, optional
        Bounds of the forecasts, of all series or of each: 0 where values cannot be negative.
    mixer : {"memory", "attention", "window_attention", "mamba", "none"}
        What mixes tokens; anything but the memory is for comparison.
    variant : {"lmm", "mac", "mag", "mal"}
        What stands where the memory is the mixer: the memory alone, the memory as a context that causal attention
        reads, sliding-window attention gated by the memory, or the memory as a layer ahead of such attention; see
        `titans_ts.model.titans`.
    attention_window : int
        Tokens that the attention of a variant, or of "window_attention", sees: those of a segment, or up to each token.
    feature_mixer : {"einfft", "mlp", "none"}
        What mixes features: EinFFT, over all tokens of the window, or a perceptron of each token.
    n_layers, d_model, n_heads : int
        Blocks, width and heads of the deep branch.
    memory_depth, memory_expansion : int
        Layers of the memory, and its hidden width over the head's.
    chunk_size : int
        Tokens that the memory learns from the same weights.
    memory_conv, memory_momentum, memory_forgetting, memory_writes : bool
        Whether queries, keys and values pass a convolution over four tokens, past surprise is carried on, the memory
        forgets, and it writes at all; without any of these for comparison.
    memory_gates : {"token", "chunk"}
        Whether the gates of forgetting, momentum and writing are each token's own, or those of a chunk's first token.
    n_persistent : int
        Learned tokens ahead of those of the window.
    patch_len, stride : int
        Steps of a token and between tokens.
    dropout : float
        In [0, 1).
    cycle : int, optional
        Period of the seasonal profile in steps; 0 for none, None for the frequency's own.
    linear_path : "auto", bool, "per_series" or "across"
        A linear forecast beside the deep branch, solved for in closed form: True has one for all series; "per_series"
        per-series weights beside it, which also learn how soon each series returns to its mean, and take memory for
        each. With "across" they also read cross-series features, what all series did at the same time, by the phase of
        the season where the series are 40 or fewer, which takes memory by the square of their number. "auto" chooses
        among these by the errors from several origins in time, as `summary` tells, and tries none that would take over
        a gibibyte or too long.
    combine : bool
        Average the network's forecasts with those of exponential smoothing and of one autoregression for all series,
        by weights that the validation rows choose, where series are short: 5,000 rows and fewer of a typical one.
    context : {"auto", "window", "stream"}
        What the network's forecast knows of. "window": the last lookback. "stream": all rows since the first, by a
        long-term memory that goes on learning, from every row that `update` brings, what the window's forecast leaves;
        see `titans_ts.model.long_term`. Where validation rows ask for it, that memory also keeps single surprising
        events and recalls what followed them (`titans_ts.model.recall`). "auto" reads that memory only where it lowers
        the error on validation rows, and tries it only where what it holds, 40 to 260 KiB a series and about 160 KiB
        more with recall, is at most 256 MiB of all.
    loss : {"mse", "mae", "huber", "quantile"} or callable
        The training loss, of the scaled values. With "quantile" (pinball) the network forecasts quantiles that cannot
        cross, of the levels `fitted_.network.config.levels`; `predict` writes their median. A callable is given the
        point forecast and the truth, tensors of shape (samples, horizon), over each window's deviation where windows
        are scaled, and returns the loss of every entry, of that shape and differentiable; `save` keeps its name alone,
        and a loaded model asks for it before it is fitted again. The closed form is that of least squares whatever the
        loss.
    half_life : float, optional
        Steps before the last train row in which a window comes to count half, in the closed form and in training; None
        for windows that all count alike. Scale and seasonal profile of a series are of all its train rows.
    learning_rate : float
        The optimizer's peak rate.
    batch_size : int, optional
        Windows a step, those of all processes together; None chooses them by the number of windows.
    max_epochs : int, optional
        Passes over all windows, 0 for the closed form alone. None trains a network with a linear path only where that
        pays: where there are validation rows of 200 series or more, a few dozen steps are tried, and training goes on
        only if they improve validation; what it learns is kept only if series that had no say in it confirm that. See
        `history_.stopped`.
    time_limit : float, optional
        Seconds that `fit` may take, to a tenth. The closed form is finished even if it takes longer, which a warning
        tells, as it does where no time is left to `combine`; training has what is left, and "auto" tries the long-term
        memory only where some is left after that. Where the limit ends a fit, another one may differ.
    patience : int
        Evaluations on validation rows, four an epoch, without a better error before training stops.
    val_size : int or float, optional
        Last rows of each series kept out of training, as a number or a share; a tenth and at least one horizon if
        None. A series too short for that, or with nothing but gaps there, is trained on whole; where all are,
        nothing validates the training.
    warm_start : bool
        Where this forecaster was fitted or loaded, the next `fit` goes on from its network, with its scales, for
        another `max_epochs`, or where None says that it pays, on rows of the same series: those fitted, others, or
        both. What forecasts are combined with and a long-term memory are fitted anew; `history_` and `summary` are of
        the last fit alone.
    checkpoint_dir : path, optional
        A folder where `fit` writes its training after each evaluation, from which it goes on after a kill where it is
        called with the same table, parameters and an int as `random_state`: on a CPU, with as many threads, to the same
        result to the bit. The checkpoint of another fit is refused by name. A fit that is finished removes its own;
        after Ctrl-C it stays, and the next fit goes on from there. Each of several fits at a time needs a folder of its
        own; several processes that train one model can have none, and trials of a search write none. A `time_limit`
        counts anew.
    random_state : int, RandomState or None
        An int makes two fits on a CPU equal to the bit.
    device : str, optional
        "cpu", "cuda", ...; if None, a GPU where there is one. Under torchrun, None and "cuda" give each process a GPU.
    precision : {"float32", "bfloat16"}, optional
        bfloat16 is mixed precision, and the choice of None on a GPU.
    verbose : int
        0 hides the progress bar; 1 shows it where the output is a terminal or a notebook.

    Attributes
    ----------
    fitted_ : FittedModel
        All that was fitted; the attributes below are parts of it.
    horizon_, lookback_ : int
    freq_ : str or int
    history_ : History
        Evaluations on validation rows; ``pd.DataFrame(history_.evaluations)`` is a table of them.
    network_ : SimbaForecaster
    scaler_ : Scaler
        Mean and standard deviation of each series' train rows.
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

    Quantiles, of windows that count by their recency and series that count by their weights:

    >>> size = dict(horizon=24, lookback=48, d_model=16, max_epochs=0, random_state=0)
    >>> model = TitansForecaster(**size, loss="quantile", half_life=100).fit(df, sample_weight={"load": 2.0})
    >>> model.fitted_.forecast(24).shape, model.network_.config.levels[::6]
    ((1, 24, 13), (0.025, 0.5, 0.975))

    A loss of one's own, by which what is forecast too low costs three times what is forecast too high:

    >>> def costs(forecast, truth):
    ...     return 3 * (truth - forecast).clamp(min=0) + (forecast - truth).clamp(min=0)
    >>> TitansForecaster(**size, loss=costs).fit(df).history_.best.relative_error < 0.1
    True
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
        static_cols: list[str] | None = None,
        past_cols: list[str] | None = None,
        future_cols: list[str] | None = None,
        calendar: list[str] | None = None,
        mixer: str = "memory",
        variant: str = "lmm",
        attention_window: int = 16,
        feature_mixer: str = "einfft",
        n_layers: int = 2,
        d_model: int = 128,
        n_heads: int = 4,
        memory_depth: int = 2,
        memory_expansion: int = 1,
        chunk_size: int = 16,
        memory_conv: bool = True,
        memory_momentum: bool = True,
        memory_forgetting: bool = True,
        memory_writes: bool = True,
        memory_gates: str = "token",
        n_persistent: int = 4,
        patch_len: int = 16,
        stride: int = 8,
        dropout: float = 0.1,
        cycle: int | None = None,
        linear_path: bool | str = "auto",
        combine: bool = True,
        context: str = AUTO,
        missing: str = "error",
        outliers: str = "fill",
        lower: Any = None,
        upper: Any = None,
        loss: AnyLoss = "mse",
        half_life: float | None = None,
        learning_rate: float = 1e-3,
        batch_size: int | None = None,
        max_epochs: int | None = None,
        time_limit: float | None = None,
        patience: int = 8,
        val_size: int | float | None = None,
        warm_start: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
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
        self.calendar = calendar
        self.mixer = mixer
        self.variant = variant
        self.attention_window = attention_window
        self.feature_mixer = feature_mixer
        self.n_layers = n_layers
        self.d_model = d_model
        self.n_heads = n_heads
        self.memory_depth = memory_depth
        self.memory_expansion = memory_expansion
        self.chunk_size = chunk_size
        self.memory_conv = memory_conv
        self.memory_momentum = memory_momentum
        self.memory_forgetting = memory_forgetting
        self.memory_writes = memory_writes
        self.memory_gates = memory_gates
        self.n_persistent = n_persistent
        self.patch_len = patch_len
        self.stride = stride
        self.dropout = dropout
        self.cycle = cycle
        self.linear_path = linear_path
        self.combine = combine
        self.context = context
        self.missing = missing
        self.outliers = outliers
        self.lower = lower
        self.upper = upper
        self.loss = loss
        self.half_life = half_life
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.time_limit = time_limit
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
        sample_weight: Any = None,
        val_loss: AnyLoss | None = None,
        on_evaluation: Callable[[Evaluation], None] | None = None,
    ) -> TitansForecaster:
        """Learn from a table of series; an earlier fit is forgotten but where `warm_start` goes on from it.

        Parameters
        ----------
        df : DataFrame, Series or ndarray of shape (rows, channels)
            Long (`id_col`, `time_col`, `target_col`), one series (`time_col`, `target_col`), wide (times in the index
            or in one column), a Series, or an array; of pandas, polars or NumPy. Not changed.
        y : None
            For scikit-learn's sake.
        sample_weight : mapping or Series from id to number, or array of shape (n_series,), optional
            How much each series counts, as if there were so many of it, in the closed form, in training and in the
            errors on validation rows that choose; all count alike if None. An array is in the order of a wide table's
            columns or of sorted ids. A series of weight 0 is not learned from, and still forecast, at its own scale
            and minus its own seasonal profile. The statistical forecasts of `combine` learn from all series alike.
        val_loss : as `loss`, optional
            The error of the evaluations on validation rows, by which the best weights are chosen; `loss` if None. The
            quantile loss of a point forecast is its absolute error, and the others take the median of quantiles.
        on_evaluation : callable, optional
            Called with each evaluation of the history as it is made, to report it or to stop: what it raises ends
            training and leaves an earlier fit as it was.

        Returns
        -------
        TitansForecaster
            Itself.

        Raises
        ------
        TypeError, ValueError
            Naming the parameter, or the column, series and time, that is wrong.
        FloatingPointError
            If the loss becomes infinite or NaN.
        MemoryError
            If the sizes asked for need more memory than there is.
        RuntimeError
            If several processes train together and another was killed, has failed, or is silent for too long.

        Notes
        -----
        ``torchrun --nproc_per_node=2 script.py`` trains one model in two processes, each on its share of every batch.
        The script calls `fit` on the same table in both, which then hold the same model; see `fit_network`.
        """
        check_no_targets(y)
        time_limit = check_positive("time_limit", self.time_limit, "seconds", "no limit")
        verbose = check_integer("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, 0)
        with Progress(time_limit, verbose if first_rank() else 0) as progress:
            progress.begin("reading")
            device = find_device(self.device)
            check_choice("outliers", self.outliers, OUTLIERS)
            check_choice("context", self.context, CONTEXTS)
            checkpoint = self._checkpoint()
            earlier = getattr(self, "fitted_", None) if check_flag("warm_start", self.warm_start) else None
            names = self._covariate_names()
            how: dict[str, Any] = dict(freq=self.freq, covariates=names)
            if earlier is not None:
                how = dict(calendar=earlier.panel.calendar, covariates=earlier.panel.covariates)
            panel = self._read(df, min_rows=3, **how)
            bounds = Bounds.of(self.lower, self.upper, panel)
            check_loss("loss", self.loss)
            weights = series_weights(sample_weight, panel)
            half_life = check_positive("half_life", self.half_life, "steps", "none")
            if self.outliers == "fill":
                panel = fill_outliers(panel)
            defaults = shorten(defaults_for(panel.calendar), panel.data.lengths)
            seed = int(check_seed(self.random_state).randint(2**31 - 1))
            if earlier is not None:
                check_same_series(panel, earlier.panel)
                shape = earlier.network.config
                defaults = Defaults(cycle=shape.cycle, lookback=shape.lookback, horizon=shape.horizon)
            config = model_config(self, panel.n_series, defaults)
            if earlier is not None:
                config = same_shape(config, earlier.network.config, chooses_path(self))
            try_loss("loss", self.loss, config.horizon, device)
            if val_loss is not None:
                try_loss("val_loss", val_loss, config.horizon, device)
            (fold,) = backtest_folds(panel, config.horizon, val_size=self.val_size)
            fold = fold.weighted(weights, half_life)

            def of_windows(n_windows: int) -> TrainConfig:
                return train_config(self, n_windows, seed, device, val_loss)

            options = FitOptions(
                train_config=of_windows,
                device=device,
                bounds=bounds,
                probe=Probe() if self.max_epochs is None and config.linear_path else None,
                chooses_path=chooses_path(self),
                periods=periods_of(panel.calendar, config.cycle) if check_flag("combine", self.combine) else None,
                context=self.context,
                earlier=earlier,
                checkpoint=checkpoint,
            )
            sizes = {name: getattr(config, name) for name in ("lookback", "horizon", "cycle", "d_model", "n_layers")}
            with enough_memory(n_series=config.n_series, **sizes):
                fitted = fit_model(panel, fold, config, options, on_evaluation, progress)
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.fitted_ = fitted
        return self

    def predict(
        self, h: Any = None, df: Any = None, *, level: Any = None, quantiles: Any = None, future: Any = None
    ) -> Any:
        """Forecast the `h` steps after the last one seen.

        Parameters
        ----------
        h : int, optional
            Steps ahead; the trained horizon if None. Past it the network's forecast is recursive, in blocks of a
            horizon. A table here is taken for `df`.
        df : table of a kind that `fit` takes, optional
            Forecast from the end of these rows instead: later or other rows of the series fitted, of some of them, or
            of others. Rows short of a lookback are padded. A series that was not fitted is scaled by the rows given
            here, all of them, and minus their seasonal profile once they cover one. Where forecasts are combined, a
            series fitted has the season of the rows fitted, if these are more. A long-term memory goes on from the end
            of the rows fitted where those given reach it and beyond; of others it reads all rows given, with nothing
            held at first. An array has no times: its first row counts as the first step, as in `fit`, which matters to
            a model with a cycle.
        level : float or list of float, optional
            Intervals beside the point forecast, in percent, in (0, 100): 80 is the interval that 8 of 10 values are to
            lie in, 1 of 10 below it and 1 above.
        quantiles : float or list of float, optional
            Quantiles beside the point forecast, in (0, 1); not with `level`, of which 80 is the quantiles .1 and .9.
            The quantile .5 is the point forecast.
        future : DataFrame, optional
            The columns `future_cols` of the steps to forecast, beside ids and times as in the table that the forecast
            continues; `make_future_frame` makes these. Rows may come in any order, and more than are needed.

        Returns
        -------
        DataFrame, Series or ndarray of the kind of the table it continues
            One row per step, or per series and step, in the units of the data; a long frame's column is "Titans", and
            its series are in the order of their ids. With `level`, or `quantiles`, a long frame's further columns are
            "Titans-lo-95", "Titans-lo-80", "Titans-hi-80", "Titans-hi-95", or "Titans-q0.1", ..., from the lowest
            quantile to the highest. A wide frame has them after each of its own, "a-lo-80" and "a-hi-80" after "a"; for
            a Series there is a frame of columns "Titans", "Titans-lo-80", ...; for an array a dict of arrays, by these
            names.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If `h` is no positive integer, `df` does not fit the series fitted, a row or value of `future` is missing
            (lists the ids and times), `level` or `quantiles` is out of its range or both are given, or the model was
            saved by a version that had no intervals.
        MemoryError
            If so many steps of so many series take more memory than the machine has.

        Warns
        -----
        UserWarning
            If no rows could be held out of the fit, so that intervals are by errors in the rows that it learned from.

        Notes
        -----
        Intervals are conformal: by the errors of forecasts that the fitted model makes of the validation rows, from up
        to 200 origins of each series, and of those that it has made since, as `update` brings the rows that they were
        of, unless forecasts are combined with statistical ones (`combine`), which take too long. Newer errors count for
        more. Rows that were filled in do not count.

        A quantile of the errors of a series' own, at each step ahead, needs 9 of them for a level of 80, 39 for 95 and
        199 for 99, and lies between two of them where the level does; of higher levels than there are errors for, the
        interval grows as that of all series does. A series with fewer than 9 has the quantiles of all series' errors
        over their typical sizes, the mean of change and deviation; where all together have fewer, as one short series,
        Student's t for the spread of those errors takes their place. Series that were not fitted, and all but evenly
        spaced ones of more than 2,000 whose forecasts are combined, or of tens of thousands, share in the same way.
        Past the horizon intervals widen from the widest one within it, by the power of the step by which errors grow
        there, at least .1.

        Errors are signed, so intervals are wider on the side where forecasts err more; point forecasts and `lower` and
        `upper` are kept to.

        Source: Vovk, Gammerman and Shafer (2005) and Lei et al. (2018), conformal prediction; Barber et al. (2023),
        weights for errors that drift; Stankeviciute, Alaa and van der Schaar (2021), steps ahead of many series.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> hours = pd.date_range("2024-01-01", periods=500, freq="h")
        >>> noise = np.random.default_rng(0).normal(size=500)
        >>> df = pd.DataFrame({"load": 50 + 5 * np.sin(np.arange(500) * 2 * np.pi / 24) + noise}, index=hours)
        >>> model = TitansForecaster(horizon=24, lookback=48, max_epochs=0, random_state=0).fit(df)
        >>> model.predict(3, level=80).round(1)
                             load  load-lo-80  load-hi-80
        2024-01-21 20:00:00  45.4        43.7        46.3
        2024-01-21 21:00:00  46.2        44.6        47.2
        2024-01-21 22:00:00  47.1        44.8        48.0
        """
        check_is_fitted(self)
        h, df = split_table(h, df)
        steps = check_integer("h", h, 1, self.horizon_)
        asked = Asked.of(level, quantiles)
        panel, series = (self.fitted_.panel, None) if df is None else self._context(df)
        outputs = 1 if asked is None else 1 + len(asked.quantiles)
        check_memory(BYTES_OF_A_VALUE * panel.n_series * steps * outputs, h=steps, n_series=panel.n_series)
        known, rows = read_future(future, panel, steps), None if df is None else panel
        if asked is None:
            return panel.write(point_of(self.fitted_.forecast(steps, rows, series, known))[..., None])
        found = self.fitted_.forecast_quantiles(steps, asked.quantiles, rows, series, known)
        return panel.write(found, asked.columns)

    def make_future_frame(self, h: int | None = None, df: Any = None) -> Any:
        """The ids and times of the steps after the last one seen, to which the columns of `future_cols` are added.

        Parameters
        ----------
        h : int, optional
            Steps ahead; the trained horizon if None.
        df : table of a kind that `fit` takes, optional
            After these rows instead, as `predict` takes them.

        Returns
        -------
        DataFrame of the kind of the table it continues
            One row per step, or per series and step. Where a wide table had its times in the index, they are in the
            index here.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If `h` is no positive integer, or `df` does not fit the series fitted or is an array, which has no times.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> rng, hours = np.random.default_rng(0), pd.date_range("2024-01-01", periods=500, freq="h")
        >>> df = pd.DataFrame({"ds": hours, "temp": rng.normal(15, 5, 500)})
        >>> df["y"] = 100 + 2 * df.temp
        >>> model = TitansForecaster(horizon=3, lookback=24, max_epochs=0, future_cols=["temp"]).fit(df)
        >>> future = model.make_future_frame().assign(temp=[10.0, 20.0, 30.0])
        >>> model.predict(future=future).round({"Titans": 0})
                           ds  Titans
        0 2024-01-21 20:00:00   120.0
        1 2024-01-21 21:00:00   140.0
        2 2024-01-21 22:00:00   160.0
        """
        check_is_fitted(self)
        steps = check_integer("h", h, 1, self.horizon_)
        panel = self.fitted_.panel if df is None else self._context(df)[0]
        return panel.write_times(steps)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted forecaster into a folder that `load` reads: JSON and safetensors, no pickle.

        A model saved there before is replaced in one step: where saving fails or is killed at any moment, the model
        before it stays whole. Of the data, only what a forecast reads is kept: the last lookback of each series, with
        `linear_path="across"` what others did at those times, and where forecasts are combined the last 2,000 rows;
        beside them what a long-term memory holds of each series.

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
            If a series or column has a name of a kind that cannot be kept, or `path` is none; nothing is written.
        OSError
            If the folder cannot be written, or the disk is full.

        Notes
        -----
        Parameters come back as they are, NumPy's numbers as Python's; a `freq` that is an offset and a `device` come
        back as text, and a `random_state` that is a RandomState as None. Of a `loss` that is a function the
        name is kept: the model loaded forecasts as before, and asks for the function before it is fitted again.

        Under torchrun every process must call it: rank 0 writes, the others wait until it has.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        with process_group(self.network_.device, "save") as ranks:
            ranks.run_on_rank0(lambda: save_model(parameters, self.fitted_, path))

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
            If what it says does not fit together, such as sizes and weights, or weights are not finite.
            If `device`, given or saved, is not one of this machine.
        """
        forecaster, fitted = load_model(cls, path)
        if device is not None:
            forecaster.device = device
        fitted.to(find_device(forecaster.device))
        forecaster.fitted_ = fitted
        return forecaster

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn whether missing values are accepted and whether two fits with one seed may differ."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        tags.non_deterministic = torch.cuda.is_available() if self.device is None else str(self.device) != "cpu"
        return tags

    def _covariate_names(self) -> CovariateNames | None:
        for name in ("id_col", "time_col", "target_col"):
            check_column(name, getattr(self, name))
        roles = (self.id_col, self.time_col, self.target_col)
        return CovariateNames.of(self.static_cols, self.past_cols, self.future_cols, self.calendar, roles)

    def _checkpoint(self) -> Checkpoint | None:
        if self.checkpoint_dir is None:
            return None
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                f"`random_state` must be an int where there is a `checkpoint_dir`, got {self.random_state!r}: a fit "
                "that is begun again would draw other batches."
            )
        return Checkpoint.at(self.checkpoint_dir)
