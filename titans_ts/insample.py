"""Forecasts of rows from many cutoffs among them, all windows of some thousand in one batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from .devices import isolated
from .fitted import FittedModel
from .model import Batch
from .predict import Correction, Seen
from .stream.reading import LongTerm, OriginReader, Reading, advance, first_rows, read_parts
from .tables.future import future_of_rows
from .tables.panel import Panel
from .windows.windows import on_device

MOST_ROWS = 4_000_000  # of the histories that are held at once


def cutoffs_of(panel: Panel, h: int, step_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The cutoffs of each series, from the latest with `h` rows after it back in steps.

    Cutoffs at rows that were filled in are left out: such a fill may know of later rows.

    Returns
    -------
    series, seen : ndarray of int, shape (cutoffs,)
        The number of the series of each, and the rows of it before the cutoff, rising within each series.
    """
    data = panel.data
    count = np.maximum(data.lengths - h + step_size - 1, 0) // step_size
    series = np.repeat(np.arange(panel.n_series), count)
    before_last = np.repeat(np.cumsum(count), count) - 1 - np.arange(count.sum())
    seen = data.lengths[series] - h - step_size * before_last
    kept = data.is_observed[data.offsets[series] + seen - 1]
    return series[kept], seen[kept]


@isolated()
def forecast_cutoffs(
    fitted: FittedModel, panel: Panel, numbers: np.ndarray, series: np.ndarray, seen: np.ndarray, h: int
) -> np.ndarray:
    """What `fitted.forecast` forecasts from the end of the rows before each cutoff.

    Parameters
    ----------
    fitted : FittedModel
    panel : Panel
    numbers : ndarray of int, shape (panel.n_series,)
        The number of each of its series among those fitted, -1 for one that was not.
    series, seen : ndarray of int, shape (cutoffs,)
        As `cutoffs_of` returns them.
    h : int
        At most the trained horizon.

    Returns
    -------
    ndarray, shape (cutoffs, h, outputs)
    """
    held = np.full(panel.n_series, np.iinfo(np.int64).max)
    scaled = (numbers >= 0) & (fitted.scaler.std[numbers] > 0)  # others have the scale of all rows before the cutoff
    held[scaled] = fitted.kept_rows(panel)[scaled]
    first = np.maximum(seen - held[series], 0)
    added = None
    if fitted.long_term is not None:
        added = _added(fitted, fitted.long_term, panel, numbers, series, seen)
    found = []
    for part in _parts(seen - first):
        windows = panel.between(series[part], first[part], seen[part])
        correct = None if added is None else _correction(added[part])
        future = future_of_rows(panel.between(series[part], seen[part], seen[part] + h), windows, h)
        found.append(fitted.forecast(h, windows, numbers[series[part]], future, correct))
    return np.concatenate(found)


def _parts(rows: np.ndarray) -> Iterator[slice]:
    """Cutoffs that are forecast together, of which each reads so many rows."""
    begins = np.flatnonzero(np.diff(np.cumsum(rows) // MOST_ROWS, prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
        yield slice(int(begin), int(end))


def _correction(added: Tensor) -> Correction:
    def correct(batch: Batch, forecast: Tensor) -> Tensor:
        return added[batch.series]

    return correct


@torch.no_grad()
def _added(
    fitted: FittedModel, long_term: LongTerm, panel: Panel, numbers: np.ndarray, series: np.ndarray, seen: np.ndarray
) -> Tensor:
    """What the long-term memory adds after each cutoff, (cutoffs, horizon) scaled, in one pass over the rows.

    It holds nothing before the first row, and goes on learning from there.
    """
    memory, network = long_term.memory, fitted.network
    if fitted.regression is not None:
        panel = fitted.regression.without(panel, numbers)
    core_seen = Seen.of(network, fitted.scaler, panel, numbers)
    data = on_device(core_seen.scaler.transform_panel(panel), network.device, network.config.covariates)
    added = torch.zeros(len(seen), network.config.horizon, device=network.device)
    wanted = np.full(len(panel.data.values) + panel.n_series, -1)  # by series and rows before an origin
    begin = panel.data.offsets + np.arange(panel.n_series)
    wanted[begin[series] + seen] = np.arange(len(seen))

    def note(part: Reading, blocks: tuple[Tensor, ...]) -> None:
        rows = np.clip(part.rows, 0, panel.data.lengths[part.index][:, None])
        cutoff = wanted[begin[part.index][:, None] + rows]
        there = (cutoff >= 0) & part.origins.live.cpu().numpy()
        at = torch.from_numpy(cutoff[there]).to(network.device)
        added[at] = memory.expand(blocks)[torch.from_numpy(there).to(network.device)]

    reader = OriginReader(core_seen.core, memory, data)
    groups = read_parts(reader, first_rows(data, network.config.lookback), data.lengths, fresh=True)
    state = memory.begin(panel.n_series, torch.from_numpy(data.starts).to(network.device))
    advance(memory, state, data, data.lengths, groups, note)
    return added
