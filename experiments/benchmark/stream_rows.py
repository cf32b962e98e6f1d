"""The rows of the stream tables, and the errors of each at every origin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmark.stream_baselines import (
    drift,
    error_mean,
    frozen,
    frozen_later,
    recursive_least_squares,
    refitted,
    seasonal_naive,
    simple_mean,
)
from benchmark.stream_core import Core
from benchmark.stream_data import Block, Clock, Stream
from benchmark.stream_memory import remembered, remembered_beside, remembered_if_better

FROZEN = "frozen on train"  # the row that others are compared with
MEMORY = "long-term memory"
WEEK, MONTH, LEAST_CHUNK = 7, 30, 7  # days; origins between updates of recursive least squares, at least


class Subject:
    """What rows are measured on: a stream, and the core that is solved for again, which several of them share."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @cached_property
    def core(self) -> Core:
        """The core with what its train windows say, read when first asked for."""
        return Core(self.stream)


Row = Callable[[Subject, Clock], Iterator[Block]]


def _refitted(days: int) -> Row:
    return lambda subject, clock: refitted(subject.core, clock, days * subject.stream.day)


def _recursive(days: float) -> Row:
    def row(subject: Subject, clock: Clock) -> Iterator[Block]:
        stream = subject.stream
        return recursive_least_squares(stream, clock, days * stream.day, max(LEAST_CHUNK, stream.day))

    return row


def _frozen(subject: Subject, clock: Clock) -> Iterator[Block]:
    return frozen(subject.stream, subject.stream.network, subject.stream.origins)


def _by_blocks(subject: Subject, clock: Clock) -> Iterator[Block]:
    horizon = subject.stream.horizon
    return remembered(
        subject.stream, clock, block_ends=tuple(sorted({max(1, horizon // 4), max(1, horizon // 2), horizon}))
    )


# A row is a function of the same two arguments, yields a `Block` of forecasts for origins from `stream.origins.start`
# (or from the first of test) to the last, and times what it learns.
ROWS: dict[str, Row] = {
    FROZEN: _frozen,
    "last value": lambda subject, clock: seasonal_naive(subject.stream, 1),
    "seasonal naive": lambda subject, clock: seasonal_naive(subject.stream, subject.stream.season),
    "drift": lambda subject, clock: drift(subject.stream),
    "mean of seasonal naive, drift, frozen": lambda subject, clock: simple_mean(subject.stream),
    "frozen on train and validation": lambda subject, clock: frozen_later(subject.core, clock),
    "refitted every day": _refitted(1),
    "refitted every week": _refitted(WEEK),
    "refitted every month": _refitted(MONTH),
    "least squares, nothing forgotten": _recursive(math.inf),
    "least squares, half-life 90 days": _recursive(90),
    "least squares, half-life 30 days": _recursive(30),
    "frozen plus mean of errors": lambda subject, clock: error_mean(subject.stream, clock),
    MEMORY: lambda subject, clock: remembered(subject.stream, clock),
    "memory if validation says so": lambda subject, clock: remembered_if_better(subject.stream, clock),
    "memory, by parts of the horizon": _by_blocks,
    "memory, core refitted every month": lambda subject, clock: remembered_beside(
        subject.core, clock, MONTH * subject.stream.day
    ),
}


class Errors(NamedTuple):
    """Of one row at the origins from `first` on, means over the steps ahead; in the scale of published errors."""

    first: int
    squared: np.ndarray  # (origins, n_series), float32
    absolute: np.ndarray

    def at(self, origins: range) -> Errors:
        """The errors at some of the origins, which are none where there are none."""
        part = slice(max(0, origins.start - self.first), max(0, origins.stop - self.first))
        return Errors(max(self.first, origins.start), self.squared[part], self.absolute[part])

    def save(self, path: Path) -> None:
        """Write them to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, first=self.first, squared=self.squared, absolute=self.absolute)

    @classmethod
    def load(cls, path: Path) -> Errors:
        """Read a file that `save` wrote."""
        with np.load(path) as held:
            return cls(int(held["first"]), held["squared"], held["absolute"])


def measure(row: Row, subject: Subject) -> tuple[Errors, Clock]:
    """A row's errors at all origins that it forecasts, and the time that its updates took.

    Raises
    ------
    ValueError
        If its forecasts leave an origin of test out, or are not finite.
    """
    stream, clock = subject.stream, Clock()
    squared, absolute, first, expected = [], [], None, None
    for block in row(subject, clock):
        origins = range(block.first, block.first + block.forecast.shape[1])
        first, expected = (block.first if first is None else first), (block.first if expected is None else expected)
        if block.first != expected or not torch.isfinite(block.forecast).all():
            raise ValueError(f"forecasts must be finite and follow one another; those from {block.first} on do not.")
        expected = origins.stop
        error = (block.forecast - stream.future(origins)) * stream.ratio[:, None, None]
        squared.append(error.square().mean(2).T.numpy())
        absolute.append(error.abs().mean(2).T.numpy())
    if first is None or first > stream.test.start or expected != stream.test.stop:
        raise ValueError(f"forecasts must cover the origins of test, {stream.test}; got {first} to {expected}.")
    return Errors(first, np.concatenate(squared), np.concatenate(absolute)), clock
