"""The long-term memory of a fitted core: set by train rows, read through all, kept where validation says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from titans_ts.model import SimbaForecaster
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.choices import Choice
from titans_ts.training.evaluate import evaluating
from titans_ts.training.relative import naive_errors, relative_error
from titans_ts.windows.splits import Fold
from titans_ts.windows.windows import Windows

from .reading import Core, LongTerm, OriginReader, Reading, advance, first_rows, read_parts

LEAST_HORIZONS = 4  # of rows, from which on there is something to learn after the delay
MOST_BYTES = 2**28  # held of all series together, beyond which the memory is not tried
MARGIN = 0.003  # by which the memory must be better
RECALL_MARGIN = 0.01  # by which it must be better again with recall, whose evidence is of few origins
WINDOW, STREAM = "window", "stream"
RECALLED = 1024  # surprising origins that are held of each series where recall is chosen
WITHOUT, WITH = "without", "with"

Note = Callable[[Reading, tuple[Tensor, ...]], None]


@dataclass(frozen=True, eq=False)
class Stream:
    """All origins of a data set as a core sees them, read once for any number of memories.

    Parameters
    ----------
    reader : OriginReader
    last : ndarray of int, shape (n_series,)
        Rows of each series up to which they were read.
    groups : list of (ndarray, list of Reading)
    """

    reader: OriginReader
    last: np.ndarray
    groups: list[tuple[np.ndarray, list[Reading]]]

    @classmethod
    def read(cls, network: SimbaForecaster, memory: LongTermMemory, data: SeriesData[Tensor]) -> Stream:
        """Read the origins of each series, the last ones if they are too many."""
        reader = OriginReader(Core.of(network, np.arange(data.n_series)), memory, data)
        first, last = first_rows(data, network.config.lookback), data.lengths
        groups = [(index, list(parts)) for index, parts in read_parts(reader, first, last, fresh=True)]
        return cls(reader, last, groups)

    def initialise(self, memory: LongTermMemory, train: np.ndarray) -> None:
        """Set a memory's whitening and scales by the origins whose truth lies in the first `train` (n_series,) rows."""
        origins, residuals = [], []
        horizon = memory.config.horizon
        for index, parts in self.groups:
            for part in parts:
                inside = torch.from_numpy(part.rows + horizon <= train[index, None]).to(part.first.device)
                origins.append(part.origins)
                residuals.append(tuple(torch.where(inside.unsqueeze(-1), r, torch.nan) for r in part.residuals))
        memory.initialise(origins, residuals)

    def errors(
        self, memory: LongTermMemory, first: np.ndarray, last: np.ndarray, note: Note | None = None
    ) -> tuple[LongTerm, Tensor, Tensor]:
        """Read all through a memory.

        Parameters
        ----------
        memory : LongTermMemory
        first, last : ndarray of int, shape (n_series,)
            Errors are of the origins whose truth lies in these rows.
        note : callable, optional
            Is given each part and what the memory adds to its forecasts, as `advance` gives them.

        Returns
        -------
        long_term : LongTerm
            The memory after all rows.
        frozen, read : Tensor (n_series,)
            Mean squared errors of the core alone and with the memory, in float64; NaN for a series without such
            origins.
        """
        data, horizon = self.reader.data, memory.config.horizon
        device = data.values.device
        totals = torch.zeros(3, data.n_series, dtype=torch.float64, device=device)

        def keep(part: Reading, added: tuple[Tensor, ...]) -> None:
            begin, end = (torch.from_numpy(x[part.index, None]).to(device) for x in (first, last))
            rows = torch.from_numpy(part.rows).to(device)
            before, change = part.errors.sum(-1), part.change(added)
            counted = (rows >= begin) & (rows + horizon <= end) & before.isfinite()
            index = torch.from_numpy(part.index).to(device)
            for total, entries in zip(totals, (before, before + change, torch.ones_like(before)), strict=True):
                total.index_add_(0, index, torch.where(counted, entries, 0).double().sum(1))
            if note is not None:
                note(part, added)

        begun = memory.begin(data.n_series, torch.from_numpy(data.starts).to(device))
        state = advance(memory, begun, data, self.last, self.groups, keep)
        mean = totals / (totals[2] * torch.tensor([horizon, horizon, 1.0], device=device)[:, None])
        return LongTerm(memory, state), mean[0], mean[1]


def config_of(network: SimbaForecaster) -> LongTermConfig:
    """The memory's configuration beside a core."""
    config = network.config
    return LongTermConfig(
        lookback=config.lookback, horizon=config.horizon, n_series=config.n_series, cycle=config.cycle
    )


def fit_long_term(
    network: SimbaForecaster,
    data: SeriesData[Tensor],
    fold: Fold,
    validation: Windows | None,
    always: bool = False,
    config: LongTermConfig | None = None,
    noted: Callable[[LongTermMemory], Note] | None = None,
) -> tuple[LongTerm | None, tuple[Choice, ...]]:
    """The memory over all rows beside a fitted core, if it lowers the error on validation rows.

    Parameters
    ----------
    network : SimbaForecaster
    data : SeriesData
        Scaled values of all rows, on the network's device.
    fold : Fold
        Rows that trained the core, and rows that validate.
    validation : Windows, optional
        Of the validation rows.
    always : bool
        Keep it whatever validation says.
    config : LongTermConfig, optional
        Another than `config_of` says.
    noted : callable, optional
        From the memory to what is given each part that it reads and what it adds to its forecasts.

    Returns
    -------
    long_term : LongTerm or None
    choices : tuple of Choice
        What was chosen, if there was a choice.
    """
    horizon = network.config.horizon
    enough = np.median(data.lengths) >= LEAST_HORIZONS * horizon
    if not always and (validation is None or not enough):
        return None, ()
    memory = LongTermMemory(config_of(network) if config is None else config).to(network.device)
    if not always and memory.bytes_per_series * data.n_series > MOST_BYTES:
        return None, ()
    other = _recalling(memory, data.n_series) if validation is not None and enough else None
    with evaluating(network):
        stream = Stream.read(network, memory if other is None else other, data)
        stream.initialise(memory, fold.train)
        long_term, frozen, read = stream.errors(
            memory, fold.train, fold.validation, None if noted is None else noted(memory)
        )
    if validation is None:
        return long_term, ()
    naive = naive_errors(validation)
    weight = validation.series_weight
    errors = {name: relative_error(e, naive, weight).item() for name, e in ((WINDOW, frozen), (STREAM, read))}
    choices: tuple[Choice, ...] = ()
    if other is not None:
        stream.initialise(other, fold.train)
        recalling, _, read = stream.errors(other, fold.train, fold.validation, None if noted is None else noted(other))
        found = {WITHOUT: errors[STREAM], WITH: relative_error(read, naive, weight).item()}
        if found[WITH] != found[WITHOUT]:  # else it has read nothing
            better = found[WITH] < (1 - RECALL_MARGIN) * found[WITHOUT]
            choices = (Choice("recall", WITH if better else WITHOUT, found),)
            if better:
                long_term, errors[STREAM] = recalling, found[WITH]
    wins = always or errors[STREAM] < (1 - MARGIN) * errors[WINDOW]
    choice = Choice("context", STREAM if wins else WINDOW, errors)
    return (long_term, (choice, *choices)) if wins else (None, (choice,))


def _recalling(memory: LongTermMemory, n_series: int) -> LongTermMemory | None:
    """The same memory with recall, unless it has blocks or that takes too much memory."""
    config = memory.config
    if config.recall or len(config.blocks) > 1:
        return None
    other = LongTermMemory(replace(config, recall=RECALLED), memory.backend).to(memory.basis.device)
    return other if other.bytes_per_series * n_series <= MOST_BYTES else None
