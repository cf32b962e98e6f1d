"""How good a forecaster is: its score, its forecasts of rows it may have learned from, and a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .arguments import check_integer, check_no_targets
from .attributes import FittedForecaster
from .backtest import Backtest
from .baselines import Drift, SeasonalNaive
from .comparison import METRICS, compare
from .cutoffs import check_names, scored_frame
from .defaults import defaults_for, shorten
from .insample import cutoffs_of, forecast_cutoffs
from .model import point_of
from .settings import CLOSED_FORM
from .tables.layouts import FORECAST


class EvaluatedForecaster(FittedForecaster):
    """What `TitansForecaster` says of its own errors."""

    horizon: int | None
    freq: Any

    def score(self, df: Any, y: Any = None) -> float:
        """Minus the mean squared error of forecasting `df`'s rows, each series divided by its training variance.

        The forecast begins at the end of the fitted data and is recursive past the horizon, to the last row of `df`;
        rows must come after those fitted (the rows of an array are taken to follow at once). Rows that `missing` fills
        in are not scored. Greater is better.

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

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `df` has series that were not fitted, or rows that were.
        """
        check_is_fitted(self)
        check_no_targets(y)
        panel, series = self._context(df)
        self._check_fitted_series(panel, series, "df")
        return -float(self.fitted_.squared_errors(panel, series).mean())

    def predict_insample(self, df: Any, h: int | None = None, *, step_size: int | None = None) -> pd.DataFrame:
        """Forecast the rows of `df` from cutoffs among them, with the model as it is.

        The model may have learned from these very rows, as where they are those it was fitted to: the errors are then
        smaller than those of rows to come. `cross_validation` forecasts each row with a model that has not seen it.

        Parameters
        ----------
        df : table of a kind that `fit` takes
        h : int, optional
            Steps forecast from each cutoff, at most the trained horizon, which it is if None.
        step_size : int, optional
            Rows between cutoffs, the last of which has `h` rows after it; `h` if None, and then each row is forecast
            once.

        Returns
        -------
        DataFrame
            Laid out as that of `cross_validation`; without rows that were filled in, and without cutoffs at such rows.
            From each cutoff the forecast is that of ``predict(h, df)`` for the rows up to there: those short of a
            lookback are padded, and a long-term memory holds nothing before the first.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `h` is larger than the trained horizon, or no series has more than `h` rows.

        Examples
        --------
        >>> import numpy as np
        >>> from titans_ts import TitansForecaster
        >>> rows = np.sin(np.arange(200) * 2 * np.pi / 24)[:, None]
        >>> model = TitansForecaster(horizon=6, lookback=24, max_epochs=0).fit(rows)
        >>> model.predict_insample(rows).shape
        (198, 5)
        """
        check_is_fitted(self)
        steps = check_integer("h", h, 1, self.horizon_)
        if steps > self.horizon_:
            raise ValueError(f"`h` must be at most the trained horizon of {self.horizon_}, got {steps}.")
        step_size = check_integer("step_size", step_size, 1, steps)
        panel, numbers = self._context(df)
        panel = panel.as_long(self.id_col, self.time_col, self.target_col)
        check_names(panel)
        series, seen = cutoffs_of(panel, steps, step_size)
        if not len(seen):
            raise ValueError(f"`df` must have a series of more than `h` = {steps} rows; lower `h` or bring more rows.")
        forecast = forecast_cutoffs(self.fitted_, panel, numbers, series, seen, steps)
        outputs = pd.DataFrame({FORECAST: point_of(forecast).ravel()})
        return scored_frame(panel, series, seen, steps, outputs)

    def compare(
        self,
        df: Any,
        h: int | None = None,
        *,
        n_windows: int = 3,
        step_size: int | None = None,
        baselines: Mapping[str, Any] | None = None,
        metrics: Sequence[Any] = METRICS,
        n_jobs: int | None = None,
    ) -> pd.DataFrame:
        """Backtest this model beside baselines: whether it earns its place on these data.

        A copy of each is fitted once, to the rows before the first cutoff, and moved on by `update` from there; this
        one stays as it is, fitted or not.

        Parameters
        ----------
        df : table of a kind that `fit` takes
        h : int, optional
            Steps forecast; `horizon` if None, or its default.
        n_windows, step_size, n_jobs
            As `cross_validation` takes them.
        baselines : mapping of str to forecaster, optional
            The seasonal naive and the drift forecast, the closed form of this model, and the mean of these three if
            None.
        metrics : sequence of str or callable
            Of `utilsforecast.losses`. "mase" has the season of the frequency, and the rows before the first cutoff.

        Returns
        -------
        DataFrame
            One row for each model, the best first by the first metric: "model", the mean of each metric over series and
            cutoffs, and "wins", the share of series in which the model is the best of all by the first metric.

        Raises
        ------
        TypeError, ValueError
            As `fit` and `cross_validation`; if `baselines` is no mapping, or a baseline has the name of this model or
            of a column.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from titans_ts import SeasonalNaive, TitansForecaster
        >>> hours = pd.date_range("2024-01-01", periods=400, freq="h")
        >>> df = pd.DataFrame({"load": 10 + np.sin(np.arange(400) * 2 * np.pi / 30)}, index=hours)  # not of a day
        >>> model = TitansForecaster(horizon=12, lookback=60, max_epochs=0, combine=False, context="window")
        >>> model.compare(df, baselines={"SeasonalNaive": SeasonalNaive()}, metrics=["mae"]).round(2)
                      model   mae  wins
        0  TitansForecaster  0.00   1.0
        1     SeasonalNaive  0.71   0.0
        """
        own = type(self).__name__
        if baselines is not None and (not isinstance(baselines, Mapping) or own in baselines):
            raise ValueError(f"`baselines` must be a mapping from names other than {own!r}, got {baselines!r}.")
        panel = self._read(df, min_rows=3, freq=self.freq, covariates=self._covariate_names())
        default = shorten(defaults_for(panel.calendar), panel.data.lengths).horizon
        steps = check_integer("h", self.horizon if h is None else h, 1, default)
        models, mean_of = {own: self}, tuple[str, ...]()
        if baselines is None:
            alone = clone(self).set_params(**CLOSED_FORM)
            baselines = {"SeasonalNaive": SeasonalNaive(), "Drift": Drift(), "ClosedForm": alone}
            mean_of = tuple(baselines)
        backtest = Backtest.of(self, panel, steps, n_windows, step_size)
        return compare(models | dict(baselines), backtest, mean_of=mean_of, metrics=metrics, n_jobs=n_jobs)
