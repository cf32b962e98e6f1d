"""A fitted forecaster as rows go on coming: updates, surprise, anomalies, and the gates of its memory."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from .arguments import check_integer, check_share
from .attributes import FittedForecaster
from .gates import gate_shares, without_missing
from .model.origins import season_of
from .stream.surprise import conformal_p_values


class StreamingForecaster(FittedForecaster):
    """What `TitansForecaster` does with rows that come after those it was fitted to."""

    def update(self, rows: Any) -> Self:
        """Go on to the end of further rows, from which the next forecasts then begin; nothing is trained.

        A model with a long-term memory (`context`) writes what has become known into it, in time and memory that do not
        grow with the history. Rows may come in any cuts, one by one or many at once, of all series or of some.

        Parameters
        ----------
        rows : table of a kind that `fit` takes
            Rows that follow those of each series; the rows of an array are taken to. Steps without a row are filled or
            refused as `missing` says; filled ones teach the memory nothing.

        Returns
        -------
        TitansForecaster
            Itself.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If a row repeats one seen or leaves steps out, has another frequency, or is of a series that was not fitted:
            names it. The model is then as it was.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from titans_ts import TitansForecaster
        >>> hours = pd.date_range("2024-01-01", periods=600, freq="h")
        >>> df = pd.DataFrame({"load": 10 + np.sin(np.arange(600) * 2 * np.pi / 24)}, index=hours)
        >>> model = TitansForecaster(horizon=24, lookback=48, max_epochs=0, random_state=0).fit(df[:500])
        >>> model.update(df[500:]).predict().round(1).head(2)
                             load
        2024-01-26 00:00:00  10.0
        2024-01-26 01:00:00  10.3
        """
        check_is_fitted(self)
        panel, series = self._context(rows)
        self._check_fitted_series(panel, series, "rows")
        self.fitted_ = self.fitted_.update(panel, series, self.missing)
        return self

    def surprise(self, df: Any) -> Any:
        """How far each row is from what was forecast for it a step before, over the size of such errors until then.

        Causal: a row's surprise depends on no later row. Rows that go on from those fitted, or from those of `update`,
        are forecast from there; others from the first row of `df` on, with a memory that holds nothing at first.

        Parameters
        ----------
        df : table of a kind that `fit` takes
            Rows of series that were fitted. It is not learned from; `update` does.

        Returns
        -------
        DataFrame, Series or ndarray laid out as `df`
            A long frame's column is "surprise"; NaN where too few rows came before, or the row or that before it was
            filled in. 1 is an error of the usual size.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `df` has a series that was not fitted.
        """
        check_is_fitted(self)
        panel, series = self._context(df)
        self._check_fitted_series(panel, series, "df")
        return panel.write_rows(self.fitted_.surprise(panel, series), "surprise")

    def anomalies(self, df: Any, *, alpha: float = 0.01) -> pd.DataFrame:
        """Rows whose surprise is among the largest `alpha` of those before them.

        The threshold is conformal: of rows like those before them, a share of `alpha` or less is called anomalous,
        whatever their distribution.

        Parameters
        ----------
        df : table of a kind that `fit` takes
            As `surprise` takes it.
        alpha : float
            The rate of false alarms, in (0, 1). No row is called one before a series has 1 / alpha - 1 surprises.

        Returns
        -------
        DataFrame
            One row for each row of each series, in the order of ids and times: the id and time columns, "surprise",
            "p_value" and "anomaly".

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        ValueError
            If `alpha` is not between 0 and 1, or `df` has a series that was not fitted.

        Source
        ------
        Laxhammar and Falkman, "Conformal prediction for distribution-independent anomaly detection" (2010).
        """
        check_is_fitted(self)
        level = check_share("alpha", alpha)
        panel, series = self._context(df)
        self._check_fitted_series(panel, series, "df")
        found = self.fitted_.surprise(panel, series)
        p = conformal_p_values(found, panel.data.lengths)
        columns = {"surprise": found, "p_value": p, "anomaly": p <= level}
        return panel.rows_table(columns, self.id_col, self.time_col)

    def gates(self, rows: Any, *, every: int | None = None) -> Any:
        """Shares of what the long-term memory reads that its gates let through, as further rows come.

        The model stays where it is; `update` moves it on.

        Parameters
        ----------
        rows : table of a kind that `fit` takes
            Rows that follow those of each series, as `update` takes them.
        every : int, optional
            Rows after which the gates are read each time, the last ones too; a season if None.

        Returns
        -------
        DataFrame
            The id and time columns, and shares in [0, 1] for the "smooth" and, where a horizon holds a season, the
            "seasonal" part of a forecast: a row for each time after whose row the gates were read. `plot_gates` draws
            it.

        Raises
        ------
        NotFittedError
            If `fit` has not been called.
        TypeError, ValueError
            If the model reads no long-term memory, `every` is no positive integer, or as `update` raises them.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from titans_ts import TitansForecaster
        >>> hours = pd.date_range("2024-01-01", periods=300, freq="h")
        >>> df = pd.DataFrame({"load": 10 + np.sin(np.arange(300) * 2 * np.pi / 24)}, index=hours)
        >>> model = TitansForecaster(horizon=24, lookback=48, max_epochs=0, linear_path=True, context="stream")
        >>> model.fit(df[:250]).gates(df[250:])["ds"].dt.hour.tolist()
        [9, 9, 11]
        """
        check_is_fitted(self)
        panel, series = self._context(rows)
        self._check_fitted_series(panel, series, "rows")
        steps = check_integer("every", every, 1, season_of(self.network_.config.cycle))
        shares = gate_shares(self.fitted_, panel, series, steps, self.missing)
        return without_missing(panel.rows_table(shares, self.id_col, self.time_col), list(shares))
