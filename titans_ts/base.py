"""What all forecasters share: how tables are read, how later rows are matched to the series fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .arguments import match_series
from .tables.panel import Panel
from .tables.read import read_table


class PanelForecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A forecaster of tables; `id_col`, `time_col`, `target_col` and `missing` are among its parameters."""

    id_col: str
    time_col: str
    target_col: str
    missing: str

    @property
    def _panel(self) -> Panel:
        """The rows from whose end forecasts begin."""
        raise NotImplementedError(f"{type(self).__name__} has no `_panel`.")

    def _read(self, df: Any, **options: Any) -> Panel:
        options |= dict(id_col=self.id_col, time_col=self.time_col, target_col=self.target_col, missing=self.missing)
        return read_table(df, **options)

    @staticmethod
    def _check_fitted_series(panel: Panel, series: np.ndarray, name: str) -> None:
        if (series < 0).any():
            unknown = panel.ids[series < 0].tolist()
            raise ValueError(f"`{name}` has series {unknown[:5]} that were not in the data fitted; fit them first.")

    def _context(self, df: Any) -> tuple[Panel, np.ndarray]:
        """Read a table to predict from; its panel, and the number of each of its series among those fitted, or -1."""
        fitted = self._panel
        panel = self._read(df, min_rows=1, calendar=fitted.calendar, covariates=fitted.covariates)
        return panel, match_series(panel, fitted, type(self).__name__)
