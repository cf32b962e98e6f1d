"""Calibration of a fitted model: its forecasts from held-out origins, and those that it issues as rows come in.

Both are the forecasts that the model makes: the network's with what a long-term memory adds, combined with statistical
ones where they are. These take tens of milliseconds a series, too long for an update, so a combination keeps to the
errors of its fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from titans_ts.combination import Candidates, Combination
from titans_ts.model import point_of
from titans_ts.stream.reading import Core
from titans_ts.tables.panel import Panel
from titans_ts.tables.series_data import SeriesData, evenly_spaced
from titans_ts.windows.scaler import Scaler
from titans_ts.windows.splits import Fold

from .calibration import IN_FLIGHT, Calibration, Due, room, typical_sizes
from .origins import NONE, network_forecasts, spaced_origins

# Where forecasts are combined and nothing is held out: statistical forecasts take time.
COMBINED_SERIES, COMBINED_ORIGINS = 200, 16


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Origins that calibrate a fit.

    Parameters
    ----------
    series : ndarray of int, shape (calibrated,)
        Rising.
    rows : ndarray of int, shape (calibrated, origins)
        Rows that each forecast has seen, rising, `NONE` where there is no origin. They lie in validation rows, or, if
        no series has any, in train rows.
    n_combined : int
        How many of the first ones are those of `Candidates`.
    capacity : int
    held_out : bool
    """

    series: np.ndarray
    rows: np.ndarray
    n_combined: int
    capacity: int
    held_out: bool

    @classmethod
    def of(
        cls, fold: Fold, lookback: int, horizon: int, n_outputs: int, varies: np.ndarray, candidates: Candidates | None
    ) -> HeldOut:
        """The origins for a fold, of series that vary (n_series,)."""
        some, _ = room(int(varies.sum()), horizon, n_outputs)
        series = np.flatnonzero(varies)[some]
        held_out = bool(fold.validated[series].any())
        combined = np.empty((len(series), 0), dtype=np.int64)
        if candidates is not None and candidates.forecasts:
            chosen = varies[candidates.series]
            series = candidates.series[chosen]
            again = np.diff(candidates.origins, axis=1, prepend=-1) == 0
            combined = np.where(again, NONE, candidates.origins)[chosen]
            held_out = True
        elif candidates is not None:
            series = series[evenly_spaced(len(series), COMBINED_SERIES)]
        _, capacity = room(max(len(series), 1), horizon, n_outputs)
        train = fold.train[series]
        first, last = train, fold.validation[series]
        if not held_out:
            first, last = np.minimum(np.minimum(lookback, (train - horizon + 1) // 2), train - horizon), train
            first = np.maximum(first, 1)
        most = capacity if candidates is None or held_out else COMBINED_ORIGINS
        rows = spaced_origins(first, last, horizon, most)
        return cls(series, np.concatenate([combined, rows], axis=1), combined.shape[1], capacity, held_out)


def calibrated(
    plan: HeldOut,
    core: Core,
    data: SeriesData[Tensor],
    scaler: Scaler,
    panel: Panel,
    added: np.ndarray | None,
    candidates: Candidates | None,
    combination: Combination | None,
) -> Calibration:
    """The calibration of a model that was fitted.

    Parameters
    ----------
    plan : HeldOut
    core : Core
        Of all series.
    data : SeriesData
        Scaled values of all rows, on the network's device.
    scaler : Scaler
    panel : Panel
        All rows.
    added : ndarray, shape (calibrated, origins, horizon), optional
        What the long-term memory adds.
    candidates, combination : optional
    """
    horizon, n_outputs = core.network.config.horizon, core.network.config.n_outputs
    part = slice(plan.n_combined, None)
    if combination is not None and plan.n_combined:
        part = slice(plan.n_combined)
    rows = plan.rows[:, part]
    forecasts = network_forecasts(core, data, plan.series, rows)
    if added is not None:
        forecasts += added[:, part, :, None]
    scale = scaler.take(plan.series)
    if combination is not None and plan.n_combined and candidates is not None:
        share = candidates.share(combination)[np.isin(candidates.series, plan.series)]
        forecasts = _combined(forecasts, share, combination, scale)
    elif combination is not None and rows.size:
        known = np.where(rows >= 1, rows, np.iinfo(np.int64).max).min(1)
        own = panel.take(plan.series).data
        share = combination.model.forecast(
            own, horizon, np.minimum(known, own.lengths), np.maximum(rows, 1), combination.positive[plan.series]
        ).mean(0)
        forecasts = _combined(forecasts, np.tensordot(combination.weights[1:], share, 1), combination, scale)
    scaled = scaler.transform(panel.data)
    sizes = typical_sizes(scaled)
    spacing = -(-horizon // IN_FLIGHT)
    empty = np.full((len(plan.series), 0, horizon, n_outputs), np.nan, dtype=np.float32)
    nothing = np.empty((len(plan.series), 0), dtype=np.int64)
    levels = core.network.config.levels
    begun = Calibration(plan.series, empty, empty, nothing, sizes, spacing, plan.capacity, plan.held_out, levels)
    mine = scaled.take(plan.series)
    found = begun.then(mine, forecasts, np.where(rows >= 1, mine.starts[:, None] + rows, 0))
    return replace(found, forecasts=empty, issued=nothing)


def issued_forecasts(due: Due, core: Core, data: SeriesData[Tensor], added: np.ndarray | None) -> np.ndarray:
    """The forecasts that a model issues as rows come in; one that combines them with statistical ones issues none.

    Parameters
    ----------
    due : Due
    core : Core
        Of all series.
    data : SeriesData
        Scaled rows that have come in, and before them as many as a forecast reads, on the network's device.
    added : ndarray, shape (calibrated, issues, horizon), optional
        What the long-term memory adds.

    Returns
    -------
    ndarray of float32, shape (calibrated, issues, horizon, outputs)
        Scaled; NaN where none is due.
    """
    rows = due.rows(data)
    forecasts = network_forecasts(core, data, due.series, rows)
    if added is not None:
        forecasts += added[..., None]
    return forecasts


def _combined(network: np.ndarray, share: np.ndarray, combination: Combination, scaler: Scaler) -> np.ndarray:
    """Scaled forecasts (calibrated, origins, horizon, 1) with the `share` of statistical ones, in the data's units."""
    own, point = combination.weights[0], point_of(network)[..., None]
    # both are means of forecasts, so the series' mean is taken away as often as it is in
    others = (share - (1 - own) * scaler.mean[:, None, None]) / scaler.scale[:, None, None]
    combined: np.ndarray = own * point + others[..., None] + (network - point)
    return combined.astype(np.float32)
