"""The closed form alone as a forecaster: what the trained network, the memory and the combination must beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import match_series
from .baselines import Baseline
from .defaults import Defaults
from .forecaster import TitansForecaster
from .settings import CLOSED_FORM
from .tables.panel import Panel


class ClosedForm(Baseline):
    """The linear path that `TitansForecaster` solves for in closed form, with nothing trained, combined or remembered.

    Parameters
    ----------
    horizon, lookback, freq, id_col, time_col, target_col, missing, outliers, lower, upper, linear_path
        As those of `TitansForecaster`.
    season : int, optional
        Its `cycle`.

    Attributes
    ----------
    forecaster_ : TitansForecaster

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.sin(np.arange(300) * 2 * np.pi / 24)[:, None]
    >>> ClosedForm(horizon=6, lookback=24).fit(rows).predict(2).shape
    (2, 1)
    """

    _least_rows = 3

    def __init__(
        self,
        *,
        horizon: int | None = None,
        lookback: int | None = None,
        freq: Any = None,
        id_col: str = "unique_id",
        time_col: str = "ds",
        target_col: str = "y",
        missing: str = "error",
        outliers: str = "fill",
        lower: Any = None,
        upper: Any = None,
        linear_path: bool | str = "auto",
        season: int | None = None,
    ) -> None:
        super().__init__(
            horizon=horizon, freq=freq, id_col=id_col, time_col=time_col, target_col=target_col, missing=missing
        )
        self.lookback = lookback
        self.outliers = outliers
        self.lower = lower
        self.upper = upper
        self.linear_path = linear_path
        self.season = season

    def _learn(self, panel: Panel, defaults: Defaults) -> None:
        given = {name: value for name, value in self.get_params().items() if name != "season"}
        # the deep branch adds nothing before it is trained, so it is small
        alone = dict(CLOSED_FORM, n_layers=1, d_model=16, random_state=0)
        forecaster = TitansForecaster(device="cpu", verbose=0).set_params(**given, **alone, cycle=self.season)
        self.forecaster_ = forecaster.fit(panel)

    def _move_on(self, rows: Panel) -> None:
        self.forecaster_.update(rows)

    def _forecast(self, steps: int, panel: Panel, fitted: bool) -> np.ndarray:
        model = self.forecaster_.fitted_
        rows = () if fitted else (panel, match_series(panel, model.panel, type(self).__name__))
        forecast: np.ndarray = model.forecast(steps, *rows)[..., 0]
        return forecast
