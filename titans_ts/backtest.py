"""Backtests: forecasts of the last rows of each series, each from the rows before it alone."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone

from .arguments import check_integer
from .cutoffs import check_names, known_rows, observed_rows, scored_frame
from .defaults import defaults_for, shorten
from .tables.covariate_columns import COVARIATES, FUTURE, CovariateNames
from .tables.panel import Panel
from .tables.read import read_table

LEAST_ROWS = 3  # before the first cutoff, as `fit` needs
DEFAULT_NAMES = {"id_col": "unique_id", "time_col": "ds", "target_col": "y"}


def cross_validation(
    estimator: Any,
    df: Any,
    h: int | None = None,
    *,
    n_windows: int = 1,
    step_size: int | None = None,
    refit: bool | int = True,
    level: Any = None,
    quantiles: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Forecast the last rows of each series from several cutoffs, each time from what was known then.

    The last window ends with the last row of each series; the one before it ends `step_size` rows earlier, and so on.
    Series may end at different times: each has cutoffs of its own.

    Parameters
    ----------
    estimator : forecaster
        TitansForecaster, one of the baselines, or whatever has their `fit(df)` and `predict(h)`, such as a
        TitansSearchCV. It is cloned, never fitted itself.
    df : table of a kind that its `fit` takes
        Read once, by the estimator's `freq`, `missing` and column names.
    h : int, optional
        Steps forecast from each cutoff; the frequency's default if None.
    n_windows : int
        Cutoffs of each series.
    step_size : int, optional
        Rows between cutoffs; `h` if None.
    refit : bool or int
        Fit before each window (True), before the first alone (False), or before every so many windows. Between, the
        model moves on by `update`: its memory goes on, and nothing is trained. Where it has no `update`, it forecasts
        from the rows known by ``predict(h, df=rows)``.
    level, quantiles : optional
        Handed to `predict`.
    n_jobs : int, optional
        Tasks at a time, as joblib takes it: the windows from one fit to the next are a task. Under
        ``joblib.parallel_config(backend="dask")`` they run on a Dask cluster, likewise with Ray or any other backend.
        Of an estimator with an integer `random_state` results are the same to the bit, however many there are, where
        each process gives PyTorch as many threads.

    Returns
    -------
    DataFrame
        Of pandas, whatever the table was, in the order of ids, cutoffs and times: the id and time columns, "cutoff"
        (the time of the last row known), the target, and the columns of forecasts. Columns keep the table's names;
        where it has none they are the estimator's `id_col`, `time_col` and `target_col`. Rows that were filled in
        (`missing`) are left out: nobody knows what they should have been. A series ends with its last row that was not.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter that is wrong, or the series that are too short for the first window.

    Notes
    -----
    The columns are those that utilsforecast reads; custom names are passed on as its ``id_col``, ``time_col`` and
    ``target_col``. Its metrics are ``mse``, ``mae``, ``rmse``, ``smape`` (between 0 and 1), ``mase`` (with a
    ``train_df``) and, for intervals and with a ``level``, ``coverage``, ``quantile_loss``, ``mqloss`` and
    ``scaled_crps``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from utilsforecast.evaluation import evaluate
    >>> from utilsforecast.losses import mae, rmse
    >>> from titans_ts import SeasonalNaive, cross_validation
    >>> df = pd.DataFrame({"unique_id": "a", "ds": pd.date_range("2024-01-01", periods=30), "y": np.arange(30.0)})
    >>> frame = cross_validation(SeasonalNaive(), df, h=2, n_windows=2)
    >>> frame
      unique_id         ds     cutoff     y  SeasonalNaive
    0         a 2024-01-27 2024-01-26  26.0           19.0
    1         a 2024-01-28 2024-01-26  27.0           20.0
    2         a 2024-01-29 2024-01-28  28.0           21.0
    3         a 2024-01-30 2024-01-28  29.0           22.0
    >>> evaluate(frame, metrics=[mae, rmse], agg_fn="mean")
          cutoff metric  SeasonalNaive
    0 2024-01-26    mae            7.0
    1 2024-01-28    mae            7.0
    2 2024-01-26   rmse            7.0
    3 2024-01-28   rmse            7.0
    """
    backtest = Backtest.of(estimator, df, h, n_windows, step_size)
    options = {name: value for name, value in (("level", level), ("quantiles", quantiles)) if value is not None}
    return backtest.run(estimator, refit, options, n_jobs)


@dataclass(frozen=True, eq=False)
class Backtest:
    """Rows and the cutoffs they are forecast from.

    Parameters
    ----------
    panel : Panel
        As of a long table of pandas; each series ends with a row that was there.
    h, n_windows, step_size : int
    """

    panel: Panel
    h: int
    n_windows: int
    step_size: int

    @classmethod
    def of(cls, estimator: Any, df: Any, h: Any, n_windows: Any, step_size: Any) -> Backtest:
        """Read a table as an estimator does, and check that every window has rows before it."""
        if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
            raise TypeError(f"`estimator` must be a forecaster, got {estimator!r}; pass one, as TitansForecaster() is.")
        h = check_integer("h", h, 1, 0)
        n_windows = check_integer("n_windows", n_windows, 1)
        given = _reading(estimator)
        panel = read_table(df, **given, min_rows=1, covariates=_covariates(estimator, given))
        names = {name: given.get(name, default) for name, default in DEFAULT_NAMES.items()}
        panel = panel.as_long(**names)
        panel = panel.head(observed_rows(panel))
        check_names(panel)
        h = h or shorten(defaults_for(panel.calendar), panel.data.lengths).horizon
        step_size = check_integer("step_size", step_size, 1, h)
        backtest = cls(panel, h, n_windows, step_size)
        short = backtest.seen(0) < LEAST_ROWS
        if short.any():
            needed = LEAST_ROWS + h + (n_windows - 1) * step_size
            raise ValueError(
                f"series {panel.ids[short].tolist()[:5]} are too short to be backtested: {n_windows} windows of {h} "
                f"steps, {step_size} apart, need {needed} rows. Leave them out, or lower `n_windows`, `h` or "
                "`step_size`."
            )
        return backtest

    def seen(self, window: int) -> np.ndarray:
        """Rows of each series before the cutoff of a window, (n_series,)."""
        rows: np.ndarray = self.panel.data.lengths - self.h - (self.n_windows - 1 - window) * self.step_size
        return rows

    def run(self, estimator: Any, refit: bool | int, options: dict[str, Any], n_jobs: int | None) -> pd.DataFrame:
        """The frame that `cross_validation` returns."""
        if isinstance(refit, (bool, np.bool_)):
            every = 1 if refit else self.n_windows
        else:
            every = check_integer("refit", refit, 1)
        begins = range(0, self.n_windows, every)
        tasks = [(begin, min(begin + every, self.n_windows)) for begin in begins]
        parts = Parallel(n_jobs=n_jobs)(
            delayed(_windows_from_one_fit)(
                estimator, self.panel.head(self.seen(until - 1) + self.h), self._after(begin, until), self.h, options
            )
            for begin, until in tasks
        )
        forecasts = pd.concat([forecast for part in parts for forecast in part], ignore_index=True)
        series = np.tile(np.arange(self.panel.n_series), self.n_windows)
        seen = np.concatenate([self.seen(window) for window in range(self.n_windows)])
        _check_forecast(forecasts, self.panel, len(seen) * self.h)
        order = np.argsort(series, kind="stable")
        rows = (order[:, None] * self.h + np.arange(self.h)).ravel()
        outputs = forecasts.iloc[rows, 2:].reset_index(drop=True)
        return scored_frame(self.panel, series[order], seen[order], self.h, outputs)

    def _after(self, begin: int, until: int) -> list[int]:
        """Rows after the cutoff of each window of a task, to the end of its last window."""
        return [self.h + (until - 1 - window) * self.step_size for window in range(begin, until)]


def _covariates(estimator: Any, given: dict[str, Any]) -> CovariateNames | None:
    """The covariates that an estimator reads."""
    names = _reading(estimator, COVARIATES)
    roles = [given.get(name, default) for name, default in DEFAULT_NAMES.items()]
    static, past, future, calendar = (names.get(name) for name in COVARIATES)
    return CovariateNames.of(static, past, future, calendar, roles)


def _reading(estimator: Any, wanted: tuple[str, ...] = (*DEFAULT_NAMES, "missing", "freq")) -> dict[str, Any]:
    """How an estimator reads tables, or what it holds: a search, or the last step of a pipeline."""
    parameters = estimator.get_params()
    found = {}
    for name in wanted:
        matching = [key for key in parameters if key == name or key.endswith(f"__{name}")]
        if matching:
            found[name] = parameters[min(matching, key=len)]
    return found


def _check_forecast(forecast: pd.DataFrame, panel: Panel, rows: int) -> None:
    columns = [panel.layout.id_col, panel.layout.time_col]
    if len(forecast) != rows or list(forecast.columns[:2]) != columns:
        raise ValueError(
            f"`estimator` must forecast a long table with {rows} rows and the columns {columns[0]!r}, {columns[1]!r}, "
            f"..., got {len(forecast)} rows and {list(forecast.columns)}."
        )


def _windows_from_one_fit(
    estimator: Any, panel: Panel, after: list[int], h: int, options: dict[str, Any]
) -> list[pd.DataFrame]:
    """Forecasts from the cutoffs that have so many rows `after` them; fitted to what was known at the first."""
    model, forecasts = clone(estimator), list[pd.DataFrame]()
    before = np.zeros_like(panel.data.lengths)
    known_ahead = panel.covariates is not None and panel.covariates.named(FUTURE)
    parameters = signature(model.predict).parameters.values()
    taken, takes_any = {p.name for p in parameters}, any(p.kind == p.VAR_KEYWORD for p in parameters)
    if refused := [name for name in options if not takes_any and name not in taken]:
        raise TypeError(f"`{refused[0]}` must be None, for {type(model).__name__} forecasts points alone.")
    reads_future = bool(known_ahead) and (takes_any or "future" in taken)
    for rows in (panel.data.lengths - number for number in after):
        known, context = known_rows(panel, rows), dict[str, Any]()
        if not forecasts:
            model.fit(known)
        elif hasattr(model, "update"):
            model.update(known.tail(rows - before))
        else:
            context = {"df": known}
        if reads_future:
            context["future"] = panel.between(np.arange(panel.n_series), rows, rows + h)
        forecasts.append(model.predict(h, **context, **options))
        before = rows
    return forecasts
