"""Rows of the stream tables: a core, and the long-term memory that goes on learning what it leaves.

A memory that is reset at every window has learned from nothing that has matured, and is the frozen core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmark.stream_baselines import Span, frozen, network_forecast, solved_again
from benchmark.stream_core import Core as Solved
from benchmark.stream_data import Block, Clock, Stream, parts_of
from titans_ts.model.long_term import LongTermMemory
from titans_ts.stream.fit import MARGIN, config_of
from titans_ts.stream.fit import Stream as OriginStream
from titans_ts.stream.reading import MOST_TOKENS, Core, OriginReader
from titans_ts.training.relative import naive_errors, relative_error

CAREFUL = 2**21  # entries of the forecasts that are held at a time


def remembered(stream: Stream, clock: Clock, **changes: Any) -> Iterator[Block]:
    """The frozen core and the memory over all origins since the first of train.

    Parameters
    ----------
    stream : Stream
    clock : Clock
        Times reading, writing and the core's forecast, of all series at a row.
    **changes
        Fields of the memory's configuration that are not as they come.
    """
    yield from _read_through(stream, clock, [Span(stream.origins, stream.network)], changes)


def remembered_beside(core: Solved, clock: Clock, every: int) -> Iterator[Block]:
    """The same with a core that is solved for again each `every` origins, as `refitted` has it."""
    yield from _read_through(core.stream, clock, solved_again(core, Clock(), every), {})


def remembered_if_better(stream: Stream, clock: Clock) -> Iterator[Block]:
    """The memory where it lowers the relative error on validation, as `context="auto"` has it; else the frozen core."""
    validation = stream.windows(stream.validation)
    totals = torch.zeros(2, stream.n_series, dtype=torch.float64)
    rows = remembered(stream, Clock()), frozen(stream, stream.network, stream.validation)
    for blocks, total in zip(rows, totals, strict=True):
        for block in blocks:
            first, last = block.first, min(block.first + block.forecast.shape[1], stream.validation.stop)
            if first >= last:
                break
            error = block.forecast[:, : last - first] - stream.future(range(first, last))
            total += error.double().square().sum((1, 2))
    count = len(stream.validation) * stream.horizon
    memory, core = relative_error(totals / count, naive_errors(validation)).tolist()
    if memory < (1 - MARGIN) * core:
        yield from remembered(stream, clock)
    else:
        yield from frozen(stream, stream.network, stream.origins)


@torch.no_grad()
def _read_through(stream: Stream, clock: Clock, spans: Iterable[Span], changes: dict[str, Any]) -> Iterator[Block]:
    everyone, n_series = np.arange(stream.n_series), stream.n_series
    memory = LongTermMemory(replace(config_of(stream.network), **changes))
    train = stream.rows_until(stream.train_end)
    of_train = OriginStream.read(stream.network, memory, train)
    of_train.initialise(memory, train.lengths)
    state = of_train.errors(memory, train.lengths, train.lengths)[0].state
    del of_train
    size = max(1, min(MOST_TOKENS // n_series, CAREFUL // (n_series * stream.horizon)))
    for span in spans:
        reader = OriginReader(Core.of(span.network, everyone), memory, stream.series)
        for origins in parts_of(span.origins, size):
            with clock.update(len(origins)):
                last = np.full(n_series, origins.stop - 1)
                part = reader.read(everyone, last, len(origins))
                if origins.start == stream.origins.start:  # its first row is the last of train, which was read
                    begun = part.origins.between(1, len(origins))
                    first = memory.added(state, part.origins.features[:, 0], part.origins.series)
                    state, added = memory.advance(state, begun)
                    correction = torch.cat([first.unsqueeze(1), memory.expand(added)], dim=1)
                else:
                    state, added = memory.advance(state, part.origins)
                    correction = memory.expand(added)
            yield Block(origins.start, network_forecast(stream, span.network, origins) + correction)
