"""The inputs of a graph from a table's rows, as arrays by name."""

from __future__ import annotations

import numpy as np

from titans_ts.fitted import FittedModel
from titans_ts.tables.panel import Panel

from .window import inputs_of


def feeds_of(fitted: FittedModel, panel: Panel, series: np.ndarray) -> dict[str, np.ndarray]:
    """The inputs of the graph for a window at the end of each of a panel's series.

    Parameters
    ----------
    fitted : FittedModel
    panel : Panel
    series : ndarray of int, shape (panel.n_series,)
        The number of each of its series among those fitted.

    Raises
    ------
    ValueError
        If a value lies too far from what its series was trained on, or a series that did not vary then does here, or
        the windows of series that read one another end at different times: names the series.
    """
    fitted.scaler.take(series).transform_panel(panel)  # which refuses what lies too far
    data, lookback = panel.data, fitted.network.config.lookback
    low, high = (extreme.reduceat(data.values, data.offsets) for extreme in (np.minimum, np.maximum))
    varies = (fitted.scaler.std[series] == 0) & (low < high)
    if varies.any():
        raise ValueError(
            f"series {panel.id_of(int(varies.argmax()))!r} varies here, but did not in the rows it was trained on: "
            "`predict` scales it by all its rows, which a window does not hold. Fit it on later rows, or leave it out."
        )
    tail = data.tail(lookback)
    place = tail.row_in_series + np.repeat(lookback - tail.lengths, tail.lengths)
    mask = np.zeros((tail.n_series, lookback), dtype=bool)
    mask[tail.series_of_row, place] = True
    past = np.zeros(mask.shape)
    past[mask] = tail.values
    found = {"past": past, "mask": mask, "series": series.astype(np.int64), "time_index": data.ends - lookback}
    if tail.covariates is not None:  # those of padding are the first row's
        row = np.maximum(np.arange(lookback) - (lookback - tail.lengths)[:, None], 0) + tail.offsets[:, None]
        found["covariates"] = tail.covariates[row]
    wanted = inputs_of(fitted.network)
    if "all_past" in wanted:
        other = data.ends != data.ends[0]
        if other.any():
            raise ValueError(
                f"series {panel.id_of(int(other.argmax()))!r} ends at another time than {panel.id_of(0)!r}, but series "
                "that read one another must have windows of the same times. Pass rows that end at one time."
            )
        found["all_past"] = np.full((len(fitted.scaler.mean), lookback), np.nan)
        found["all_past"][series] = np.where(mask, past, np.nan)
    return {name: found[name] for name in wanted}
