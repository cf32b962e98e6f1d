"""Reading series into the long-term memory: the origins of every new row, and what is held after them.

A row that arrives makes the origin after it: its window and the core's forecast from there are read, and what came in
the horizon before it is written. That is the same whether rows come one by one or all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from titans_ts.model import Batch, SimbaForecaster, point_of
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.stream_state import Origins, StreamState
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.evaluate import EVALUATION_BATCH
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.windows import Windows

MOST_TOKENS = 2**15  # origins read at a time, of all series together
LEAST_ORIGINS = 256  # of each of long series that are read together; few at a time make it slow
MOST_ORIGINS = 1_000_000  # read of series that are new to the memory, of all together


@dataclass(frozen=True, eq=False)
class Core:
    """A network and the numbers by which it and the memory know series.

    Parameters
    ----------
    network : SimbaForecaster
    series : ndarray of int, shape (n_series,)
        The number the network knows each series by.
    remembered : ndarray of int, shape (n_series,)
        The number the memory has whitening and scale of each series by; that after the last for one not fitted.
    forward : callable
        The network of a batch, with the profiles of series that were not fitted.
    """

    network: SimbaForecaster
    series: np.ndarray
    remembered: np.ndarray
    forward: Callable[[Batch], Tensor]

    @classmethod
    def of(cls, network: SimbaForecaster, series: np.ndarray) -> Core:
        """The network of fitted series number `series`."""
        return cls(network, series, series, network)

    def take(self, index: np.ndarray) -> Core:
        """Of the series number `index` (any,), in that order."""
        return Core(self.network, self.series[index], self.remembered[index], self.forward)


@dataclass(frozen=True, eq=False)
class Reading:
    """Origins of series that have equally many, and what was forecast from each.

    Parameters
    ----------
    index : ndarray of int, shape (series,)
        Which of the series these are.
    rows : ndarray of int, shape (series, origins)
        Rows of each series before each origin; 0 or less where there is none.
    origins : Origins
    residuals : tuple of Tensor (series, origins, columns)
        What came minus what the core forecast, in each block's basis; NaN where that is not known.
    errors : Tensor (series, origins, blocks)
        Sums of the squares of what came minus what was forecast, over the steps of each block; NaN likewise.
    first : Tensor (series, origins)
        The core's forecast of the row after each origin.
    """

    index: np.ndarray
    rows: np.ndarray
    origins: Origins
    residuals: tuple[Tensor, ...]
    errors: Tensor
    first: Tensor

    def between(self, first: int, last: int) -> Reading:
        """Origins number `first` to `last` of each series."""
        return Reading(
            self.index,
            self.rows[:, first:last],
            self.origins.between(first, last),
            tuple(residual[:, first:last] for residual in self.residuals),
            self.errors[:, first:last],
            self.first[:, first:last],
        )

    def change(self, added: tuple[Tensor, ...]) -> Tensor:
        """What is added to the sums of squared errors where this is added to the forecasts: (series, origins)."""
        pairs = zip(added, self.residuals, strict=True)
        return torch.stack([(a.square() - 2 * r * a).sum(-1) for a, r in pairs]).sum(0)


def windows_after_rows(core: Core, data: SeriesData[Tensor]) -> Windows:
    """The window that a core forecasts from after each row of its series: as many as rows."""
    config, features = core.network.config, None
    if core.network.cross_series is not None:
        features = CrossSeriesFeatures(data, lookback=config.lookback, n_series=config.n_series, series=core.series)
    return Windows(
        data,
        lookback=config.lookback,
        horizon=0,
        first=np.ones(data.n_series, dtype=np.int64),
        last=data.lengths,
        series=core.series,
        cross_series=features,
        ahead=config.horizon,
    )


class OriginReader:
    """Reads the origins of series.

    Parameters
    ----------
    core : Core
    memory : LongTermMemory
        Whose bases and blocks the origins are read for.
    data : SeriesData
        Scaled values on the network's device: the rows to read, and before them a lookback and a horizon where there
        are so many.
    """

    def __init__(self, core: Core, memory: LongTermMemory, data: SeriesData[Tensor]) -> None:
        self.core, self.memory, self.data = core, memory, data
        device = data.values.device
        self._observed = None if data.observed is None else torch.from_numpy(data.observed).to(device)
        self._windows = windows_after_rows(core, data)

    def read(self, index: np.ndarray, last: np.ndarray, n_origins: int) -> Reading:
        """The last `n_origins` origins up to that after `last` (series,) rows of series number `index` (series,)."""
        rows = last[:, None] - np.arange(n_origins)[::-1]
        device = self.data.values.device
        at = torch.from_numpy(rows).to(device)
        first = torch.from_numpy(self.data.offsets[index]).to(device).unsqueeze(1)
        # Every series has a window after each of its rows, the first one after one row.
        number = (first + at.clamp(min=1) - 1).flatten()
        parts = [self._forecast(part) for part in number.split(EVALUATION_BATCH)]
        features, forecast = (torch.cat(x).view(len(index), n_origins, -1) for x in zip(*parts, strict=True))
        live = at >= 1
        if self._observed is not None:
            live &= self._observed[number].view_as(live)
        forecasts, came, known, residuals, errors = [], [], [], [], []
        ends = torch.from_numpy(self.data.lengths[index]).to(device).view(-1, 1)
        for block, (begin, end) in zip(self.memory.parts, self.memory.config.blocks, strict=True):
            steps = end - begin
            forecasts.append(forecast[..., begin:end] @ block.basis)
            before = at.unsqueeze(-1) - steps + torch.arange(steps, device=device)
            known_before = at >= end + 1
            values = self.data.values[first.unsqueeze(-1) + before.clamp(min=0)]
            came.append(values @ block.basis)
            known.append(known_before & self._are_observed(first, before))
            after = at.unsqueeze(-1) + torch.arange(begin, end, device=device)
            there = live & (at + end <= ends) & self._are_observed(first, after.clamp(max=ends.unsqueeze(-1) - 1))
            rest = self.data.values[first.unsqueeze(-1) + after.clamp(min=0).minimum(ends.unsqueeze(-1) - 1)]
            rest = torch.where(there.unsqueeze(-1), rest - forecast[..., begin:end], torch.nan)
            residuals.append(rest @ block.basis)
            errors.append(rest.square().sum(-1))
        numbers = torch.from_numpy(self.core.remembered[index]).to(device)
        origins = Origins(features, tuple(forecasts), tuple(came), tuple(known), live, numbers)
        return Reading(index, rows, origins, tuple(residuals), torch.stack(errors, -1), forecast[..., 0])

    def _are_observed(self, first: Tensor, rows: Tensor) -> Tensor:
        """Whether most of `rows` (series, origins, steps) and the last one were observed, (series, origins)."""
        if self._observed is None:
            return torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
        observed = self._observed[first.unsqueeze(-1) + rows.clamp(min=0)]
        return observed[..., -1] & (observed.float().mean(-1) > 0.5)

    @torch.no_grad()
    def _forecast(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """Features of the windows number `number` (samples,), and what is forecast from them (samples, horizon)."""
        batch = self._windows.batch(number)
        forecast = point_of(self.core.forward(batch))
        return self.memory.features(batch, forecast), forecast


@dataclass(frozen=True, eq=False)
class LongTerm:
    """The memory of fitted series, and what it holds of them at the end of their rows."""

    memory: LongTermMemory
    state: StreamState


def first_rows(data: SeriesData[Any], lookback: int) -> np.ndarray:
    """Rows of each series before its first origin, (n_series,): a lookback, or half a shorter series.

    More where all origins of all series would be over `MOST_ORIGINS`: the last ones are read.
    """
    most = max(1, MOST_ORIGINS // max(data.n_series, 1))
    first: np.ndarray = np.maximum(np.minimum(lookback, data.lengths // 2), data.lengths - most)
    return first


Parts = Iterator[tuple[np.ndarray, Iterator[Reading]]]


def read_parts(reader: OriginReader, first: np.ndarray, last: np.ndarray, fresh: bool) -> Parts:
    """Origins of series that can be read together, and of each such group one part after the other in time.

    Series of a group end at the same place in a chunk. Where any of them was read before, all have equally many
    origins; fresh series have origins that are not live before their first.

    Parameters
    ----------
    reader : OriginReader
    first, last : ndarray of int, shape (n_series,)
        The origins after rows [first, last) of each series are read.
    fresh : bool
        Whether nothing was read of any of them yet.

    Yields
    ------
    index : ndarray of int, shape (series,)
        The numbers of a group's series.
    parts : iterator of Reading
    """
    count, chunk_size = last - first, reader.memory.config.chunk_size
    place = (reader.data.starts + last) % chunk_size
    key = place if fresh else place * (int(count.max(initial=0)) + 1) + count
    for value in np.unique(key[count > 0]):
        index = np.flatnonzero((key == value) & (count > 0))
        index = index[np.argsort(-count[index], kind="stable")]
        while len(index):
            group = index[: max(1, MOST_TOKENS // min(int(count[index[0]]), LEAST_ORIGINS))]
            yield group, _parts_of(reader, group, first[group], last[group])
            index = index[len(group) :]


def _parts_of(reader: OriginReader, index: np.ndarray, first: np.ndarray, last: np.ndarray) -> Iterator[Reading]:
    n_origins, size = int((last - first).max()), max(1, MOST_TOKENS // len(index))
    for begin in range(0, n_origins, size):
        until = min(begin + size, n_origins)
        reading = reader.read(index, last - (n_origins - until), until - begin)
        own = torch.from_numpy(reading.rows > first[:, None]).to(reading.first.device)
        yield replace(reading, origins=reading.origins._replace(live=reading.origins.live & own))


@torch.no_grad()
def advance(
    memory: LongTermMemory,
    state: StreamState,
    data: SeriesData[Tensor],
    last: np.ndarray,
    groups: Iterable[tuple[np.ndarray, Iterable[Reading]]],
    keep: Callable[[Reading, tuple[Tensor, ...]], None] | None = None,
) -> StreamState:
    """The state once the origins of `groups` were read, up to rows `last` (n_series,) of each series.

    `keep` is given each part and what the memory adds to its forecasts.
    """
    ends = torch.from_numpy(data.starts + last).to(state.ends.device)
    everyone, begun = np.arange(data.n_series), state
    for index, parts in groups:
        where = torch.from_numpy(index).to(state.ends.device)
        whole = np.array_equal(index, everyone)  # as in an update of all series: nothing is copied
        part = state if whole else state.take(where)
        for reading in parts:
            begins = torch.from_numpy(data.starts[index] + reading.rows[:, 0] - 1).to(state.ends.device)
            part, added = memory.advance(replace(part, ends=begins), reading.origins)
            if keep is not None:
                keep(reading, added)
        if whole:
            state = part
        elif state is begun:
            state = state.put(where, part)
        else:
            state.put_(where, part)
    return replace(state, ends=ends)
