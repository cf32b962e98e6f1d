"""A fitted forecaster as an ONNX graph."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from . import __version__
from .arguments import check_flag
from .attributes import FittedForecaster
from .export.feeds import feeds_of
from .export.graph import check_exportable, write_graph


class ExportingForecaster(FittedForecaster):
    """What `TitansForecaster` does for runtimes without PyTorch."""

    def export(self, path: str | os.PathLike[str], *, window_only: bool = False) -> None:
        """Write the forecast of a window as one ONNX graph, which onnxruntime runs without titans_ts and PyTorch.

        In the graph is all that `predict` makes of the last lookback of the series fitted, for one horizon: their
        scales, in float64 as `predict` takes them, seasonal profiles with the clocks of a time zone, window means, the
        linear path with per-series and cross-series weights, what covariates say in the window, the network with its
        memory unrolled over its chunks, and `lower` and `upper`. Intervals (`level`, `quantiles`), steps past the
        horizon, filling of missing values, and series that were not fitted are not. It takes seconds, of a network half
        a minute.

        Parameters
        ----------
        path : path
            A file, ending in ".onnx" as others do. A file there is replaced in one step.
        window_only : bool
            Export the network's part alone where `predict` averages it with statistical forecasts (`combine`), or adds
            what a long-term memory holds (`context`). The graph's forecast then differs from that of `predict`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If the forecast is more than a window holds, effects of `static_cols`, `future_cols` or `calendar`
            among it, or the graph takes over 2 GiB.
        ImportError
            If onnx or onnxscript are not installed.
        TypeError
            If `path` is no path.
        OSError
            If the file cannot be written, or its folder is not there.

        Notes
        -----
        Inputs, of any batch, of which `export_inputs` makes those at the end of a table:

        - `past`, float64 (batch, lookback): the last values of each window's series, in the units of the data and in
          the order of time. Missing ones are filled before, as `missing` does. A series that did not vary where it was
          trained on has NaN as forecast unless its window is as constant.
        - `mask`, bool (batch, lookback): False for padding ahead of a series that is shorter, where `past` may be
          anything; True elsewhere.
        - `series`, int64 (batch,): the number of each window's series in `ids`; another one is refused by onnxruntime
          on a CPU.
        - `time_index`, int64 (batch,), with a cycle: the number of each window's first step. It rises by one a step;
          `cutoff_time_index` has that of the last row of each series that was seen.
        - `covariates`, float64 (batch, lookback, columns), where the network reads them: those of the window, of
          categories the number; `covariates` in the metadata has the order of the columns and of their categories.
        - `all_past`, float64 (series, lookback), where series read one another (`linear_path="across"`): the windows of
          all series at the times of those in the batch, which are the same for all; NaN where one is not known.

        Outputs: `forecast`, float64 (batch, horizon), in the units of the data; with ``loss="quantile"`` the median,
        and then `quantiles`, float64 (batch, horizon, levels), whose levels are in the metadata.

        The model's metadata has JSON under the key "titans_ts": `horizon`, `lookback`, `freq`, `ids`, `cutoffs` (the
        last time seen of each series) and `cutoff_time_index`, `levels`, `covariates`, `inputs`, `outputs`, `part`
        ("all" of `predict`, or "window") and the version `titans_ts`.

        Examples
        --------
        >>> model = TitansForecaster(combine=False, context="window").fit(df)  # doctest: +SKIP
        >>> model.export("model.onnx")  # doctest: +SKIP
        >>> session = onnxruntime.InferenceSession("model.onnx")  # doctest: +SKIP
        >>> (forecast,) = session.run(["forecast"], model.export_inputs(df))  # doctest: +SKIP
        >>> np.allclose(forecast.T, model.predict(df=df))  # of a wide table  # doctest: +SKIP
        True
        """
        check_is_fitted(self)
        write_graph(self.fitted_, path, check_flag("window_only", window_only), __version__)

    def export_inputs(self, df: Any = None) -> dict[str, np.ndarray]:
        """The inputs of the graph that `export` writes, for the windows at the end of a table.

        Parameters
        ----------
        df : table of a kind that `fit` takes, optional
            Rows of series that were fitted, the last of which are read; those fitted if None.

        Returns
        -------
        dict of str to ndarray
            A window for each series, in the order of the ids of `df`.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If `df` does not fit the series fitted, as `predict` says; if it has one that was not fitted, or one that
            varies only here; if series that read one another end at different times; or if the model cannot be
            exported.
        """
        check_is_fitted(self)
        check_exportable(self.fitted_, window_only=True)
        fitted = self.fitted_.panel
        panel, series = (fitted, np.arange(fitted.n_series)) if df is None else self._context(df)
        self._check_fitted_series(panel, series, "df")
        return feeds_of(self.fitted_, panel, series)
