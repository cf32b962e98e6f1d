"""What a fitted forecaster tells of itself: the parts of its `FittedModel` under scikit-learn's names."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .base import PanelForecaster
from .fitted import FittedModel
from .model import SimbaForecaster
from .tables.panel import Panel
from .training.choices import choices_table
from .training.history import History
from .windows.scaler import Scaler


class FittedForecaster(PanelForecaster):
    """A forecaster that has fitted a network; its parts have names that end in an underscore."""

    fitted_: FittedModel

    def summary(self) -> pd.DataFrame:
        """What `fit` chose from the data, and by how much.

        Returns
        -------
        DataFrame
            One row for each candidate of each choice: `choice`, `candidate`, `relative_error`, `chosen`. The error is
            over that of the better of two naive forecasts, the last value and the mean, bounded so that no single
            series decides, and a mean over series and origins in time; below .8 is better than naive. Of two
            candidates with close errors the simpler one is chosen. Of the statistical methods, and of what is combined,
            it is the mean absolute error over the mean absolute change from row to row, bounded alike; of weights with
            close errors the mean is taken. Empty where everything was given.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        """
        check_is_fitted(self)
        return choices_table(self.fitted_.choices)

    @property
    def horizon_(self) -> int:
        return self.fitted_.network.config.horizon

    @property
    def lookback_(self) -> int:
        return self.fitted_.network.config.lookback

    @property
    def freq_(self) -> str | int:
        return self.fitted_.panel.calendar.freq

    @property
    def history_(self) -> History:
        return self.fitted_.history

    @property
    def network_(self) -> SimbaForecaster:
        return self.fitted_.network

    @property
    def scaler_(self) -> Scaler:
        return self.fitted_.scaler

    @property
    def n_features_in_(self) -> int:
        return self.fitted_.panel.n_series

    @property
    def feature_names_in_(self) -> np.ndarray:
        names = self.fitted_.panel.feature_names
        if names is None:
            raise AttributeError("`feature_names_in_` is there only where a wide table's columns are all strings.")
        return names

    @property
    def _panel(self) -> Panel:
        return self.fitted_.panel
