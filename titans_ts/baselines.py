"""Baselines behind the forecaster's interface: what a model must beat to earn its place.

Few lines on a Panel rather than statsforecast, whose compiler (numba) weighs more than this package and which knows
neither its tables nor their calendars.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .arguments import check_integer, check_no_targets, split_table
from .base import PanelForecaster
from .defaults import Defaults, defaults_for, shorten
from .tables.panel import Panel
from .tables.series_data import SeriesData


class Baseline(PanelForecaster):
    """A forecast from the rows alone: `fit` only keeps them.

    Parameters
    ----------
    horizon : int, optional
        Steps that `predict` forecasts where it is not told; the frequency's default if None.
    freq, id_col, time_col, target_col, missing
        As those of `TitansForecaster`.

    Attributes
    ----------
    panel_ : Panel
        The rows of each series.
    horizon_ : int
    n_features_in_ : int
        Number of series.
    """

    _least_rows = 1
    panel_: Panel
    horizon_: int

    def __init__(
        self,
        *,
        horizon: int | None = None,
        freq: Any = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        missing: str = "error",
    ) -> None:
        self.horizon = horizon
        self.freq = freq
        self.id_col = id_col
        self.time_col = time_col
        self.target_col = target_col
        self.missing = missing

    def fit(self, df: Any, y: Any = None) -> Self:
        """Keep a table of series; as `TitansForecaster.fit` reads it, of whose errors it raises those of tables."""
        check_no_targets(y)
        panel = self._read(df, min_rows=self._least_rows, freq=self.freq)
        defaults = shorten(defaults_for(panel.calendar), panel.data.lengths)
        horizon = check_integer("horizon", self.horizon, 1, defaults.horizon)
        self._learn(panel, defaults)
        self.panel_, self.horizon_, self.n_features_in_ = panel, horizon, panel.n_series
        return self

    def predict(self, h: Any = None, df: Any = None) -> Any:
        """Forecast the `h` steps after the last row seen, or after those of `df`; as `TitansForecaster.predict`.

        A long frame's column is named after the class.
        """
        check_is_fitted(self, "panel_")
        h, df = split_table(h, df)
        steps = check_integer("h", h, 1, self.horizon_)
        panel = self.panel_ if df is None else self._context(df)[0]
        return panel.write(self._forecast(steps, panel, df is None)[..., None], (type(self).__name__,))

    def update(self, rows: Any) -> Self:
        """Go on to the end of further rows; as `TitansForecaster.update`."""
        check_is_fitted(self, "panel_")
        panel, series = self._context(rows)
        self._check_fitted_series(panel, series, "rows")
        later = self.panel_.then(panel, series, self.missing)
        self._move_on(panel)
        self.panel_ = later
        return self

    @property
    def _panel(self) -> Panel:
        return self.panel_

    def _learn(self, panel: Panel, defaults: Defaults) -> None:
        """What is to be found once, by `fit`; nothing for most."""

    def _move_on(self, rows: Panel) -> None:
        """What `update` does beside keeping the rows; nothing for most."""

    def _forecast(self, steps: int, panel: Panel, fitted: bool) -> np.ndarray:
        """Forecasts (n_series, steps) after a panel's rows, which are `fitted` ones or others."""
        raise NotImplementedError(f"{type(self).__name__} has no `_forecast`.")


class SeasonalNaive(Baseline):
    """The last season over and over; the last value where a series has less than a season.

    Parameters
    ----------
    horizon, freq, id_col, time_col, target_col, missing
        As those of `Drift`.
    season : int, optional
        Steps of a season, 1 for the last value; the frequency's default if None, which is 1 where it has none.

    Attributes
    ----------
    season_ : int

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=21)
    >>> df = pd.DataFrame({"sales": np.arange(21) % 7.0}, index=days)
    >>> SeasonalNaive().fit(df).predict(3)
                sales
    2024-01-22    0.0
    2024-01-23    1.0
    2024-01-24    2.0
    """

    def __init__(
        self,
        *,
        horizon: int | None = None,
        freq: Any = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        missing: str = "error",
        season: int | None = None,
    ) -> None:
        super().__init__(
            horizon=horizon, freq=freq, id_col=id_col, time_col=time_col, target_col=target_col, missing=missing
        )
        self.season = season

    def _learn(self, panel: Panel, defaults: Defaults) -> None:
        self.season_ = check_integer("season", self.season, 1, max(1, defaults.cycle))

    def _forecast(self, steps: int, panel: Panel, fitted: bool) -> np.ndarray:
        data = panel.data
        season = np.where(data.lengths >= self.season_, self.season_, 1)[:, None]
        before = season - np.arange(steps) % season  # rows before the end that each step repeats
        forecast: np.ndarray = data.values[data.last_rows[:, None] + 1 - before]
        return forecast


class Drift(Baseline):
    """The last value and the mean change of each series, which is the line from its first row to its last.

    Parameters
    ----------
    horizon : int, optional
        Steps that `predict` forecasts where it is not told; the frequency's default if None.
    freq, id_col, time_col, target_col, missing
        As those of `TitansForecaster`.

    Examples
    --------
    >>> import numpy as np
    >>> Drift().fit(np.array([[1.0], [2.0], [5.0]])).predict(2).ravel()
    array([7., 9.])
    """

    def _forecast(self, steps: int, panel: Panel, fitted: bool) -> np.ndarray:
        return drift(panel.data, steps)


def drift(data: SeriesData[np.ndarray], steps: int) -> np.ndarray:
    """The line through the first and the last row of each series, on for `steps`: (n_series, steps)."""
    first, last = data.values[data.offsets], data.values[data.last_rows]
    slope = (last - first) / np.maximum(data.lengths - 1, 1)
    forecast: np.ndarray = last[:, None] + slope[:, None] * np.arange(1, steps + 1)
    return forecast


class MeanForecaster(Baseline):
    """The mean of several forecasters' point forecasts.

    Parameters
    ----------
    estimators : list of forecasters
        They are cloned; the table is read once, by the names and the `missing` given here.
    horizon : int, optional
        The least of theirs if None.
    freq, id_col, time_col, target_col, missing
        As those of `TitansForecaster`.

    Attributes
    ----------
    estimators_ : list of forecasters
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> mean = MeanForecaster([SeasonalNaive(), Drift()]).fit(np.array([[1.0], [2.0], [5.0]]))
    >>> mean.predict(2).ravel()
    array([6., 7.])
    """

    estimators_: list[Any]

    def __init__(
        self,
        estimators: Any,
        *,
        horizon: int | None = None,
        freq: Any = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        missing: str = "error",
    ) -> None:
        self.estimators = estimators
        super().__init__(
            horizon=horizon, freq=freq, id_col=id_col, time_col=time_col, target_col=target_col, missing=missing
        )

    def fit(self, df: Any, y: Any = None) -> Self:
        """Fit each of the forecasters to a table; as `TitansForecaster.fit` reads it."""
        super().fit(df, y)
        if self.horizon is None:
            self.horizon_ = min(estimator.horizon_ for estimator in self.estimators_)
        return self

    def _learn(self, panel: Panel, defaults: Defaults) -> None:
        if not isinstance(self.estimators, (list, tuple)) or not self.estimators:
            raise ValueError(f"`estimators` must be a list of forecasters, got {self.estimators!r}.")
        panel = self._as_long(panel)
        self.estimators_ = [clone(estimator).fit(panel) for estimator in self.estimators]

    def _move_on(self, rows: Panel) -> None:
        for estimator in self.estimators_:
            estimator.update(self._as_long(rows))

    def _forecast(self, steps: int, panel: Panel, fitted: bool) -> np.ndarray:
        table = None if fitted else self._as_long(panel)
        found = [estimator.predict(steps, table).iloc[:, 2].to_numpy() for estimator in self.estimators_]
        mean: np.ndarray = np.mean(found, axis=0).reshape(panel.n_series, steps)
        return mean

    def _as_long(self, panel: Panel) -> Panel:
        """The panel with forecasts of one shape whatever its layout is."""
        return panel.as_long(self.id_col, self.time_col, self.target_col)
