"""Origins of forecasts whose truth is known, and what a fitted model forecasts from them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from titans_ts.model.long_term import LongTermMemory
from titans_ts.stream.reading import Core, Reading, windows_after_rows
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.evaluate import EVALUATION_BATCH

NONE = -1  # rows seen where there is no origin


def spaced_origins(first: np.ndarray, last: np.ndarray, horizon: int, most: int) -> np.ndarray:
    """Evenly spaced origins whose steps lie in rows [first, last) of each series, `most` of each or fewer.

    Returns
    -------
    ndarray of int, shape (n_series, origins)
        Rows that each forecast has seen, rising; `NONE` before the first of a series that has fewer.
    """
    spare = last - first - horizon
    count = np.clip(spare + 1, 0, most)
    number = np.arange(count.max(initial=0)) - (count.max(initial=0) - count)[:, None]
    rows = first[:, None] + spare[:, None] * number // np.maximum(count - 1, 1)[:, None]
    return np.where(number >= 0, rows, NONE)


@torch.no_grad()
def network_forecasts(core: Core, data: SeriesData[Tensor], index: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """What a network forecasts from some origins.

    Parameters
    ----------
    core : Core
        Of all the series of `data`.
    data : SeriesData
        Scaled values on the network's device.
    index : ndarray of int, shape (series,)
    rows : ndarray of int, shape (series, origins)
        Rows of each series number `index` that each forecast has seen.

    Returns
    -------
    ndarray of float32, shape (series, origins, horizon, outputs)
        Scaled; NaN where there is no such row, or the last one was filled in, maybe by what came later.
    """
    config = core.network.config
    lengths = data.lengths[index, None]
    there = (rows >= 1) & (rows <= lengths)
    number = data.offsets[index, None] + np.clip(rows, 1, lengths) - 1  # there is a window after each row
    if data.observed is not None:
        there &= data.observed[number]
    found = np.full((*rows.shape, config.horizon, config.n_outputs), np.nan, dtype=np.float32)
    if not there.any():
        return found
    windows = windows_after_rows(core, data)
    parts = torch.from_numpy(number[there]).to(data.values.device).split(EVALUATION_BATCH)
    found[there] = torch.cat([core.forward(windows.batch(part)) for part in parts]).float().cpu().numpy()
    return found


@dataclass(eq=False)
class AddedForecasts:
    """What a long-term memory adds to the forecasts from some origins, noted while it reads.

    Parameters
    ----------
    memory : LongTermMemory
    index : ndarray of int, shape (series,)
        Rising numbers of series.
    rows : ndarray of int, shape (series, origins)
        Rows of each that each forecast has seen.
    """

    memory: LongTermMemory
    index: np.ndarray
    rows: np.ndarray
    values: np.ndarray = field(init=False)  # (series, origins, horizon) float32

    def __post_init__(self) -> None:
        self.values = np.zeros((*self.rows.shape, self.memory.config.horizon), dtype=np.float32)

    def note(self, part: Reading, added: tuple[Tensor, ...]) -> None:
        """Take what was added to the forecasts of a part; as `advance` calls it."""
        if not len(self.index):
            return
        mine = np.searchsorted(self.index, part.index).clip(max=len(self.index) - 1)
        own = np.flatnonzero(self.index[mine] == part.index)
        at = self.rows[mine[own]] - part.rows[own, :1]  # (own, origins): place among the part's
        i, j = np.nonzero((at >= 0) & (at < part.rows.shape[1]) & (self.rows[mine[own]] >= 1))
        if len(i):
            device = part.first.device
            which, place = torch.from_numpy(own[i]).to(device), torch.from_numpy(at[i, j]).to(device)
            ahead = self.memory.expand(tuple(block[which, place] for block in added))
            self.values[mine[own[i]], j] = ahead.float().cpu().numpy()
