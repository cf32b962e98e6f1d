"""Generated series of the needle task: a cue is shown once with its shape, and asked for after a long time.

A series is a season of 24 steps and white noise. An event is a cue, 16 steps of a pattern of plus and minus one, and
the 24 steps of shape that follow it; both are drawn anew for each kind of each series, so that no trained weight can
know them. Train rows show the kinds of their own several times. The rows after them are a stream: a kind that is new
is shown once, other new kinds are shown as distractors, and after a distance the cue comes again. Whoever has kept
the shape can forecast it from there; to whoever has not, it is a draw with mean zero.

Events begin at multiples of 8 steps, so that they fall on whole patches of 8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

CYCLE, NOISE = 24, 0.3
CUE, SHAPE = 16, 24  # steps
EVENT = CUE + SHAPE
AMPLITUDE = 2.0  # root mean square of cues and shapes; that of the season is about one
GRID = 8  # steps, on whose multiples events begin
TRAIN, LEAD = 3200, 96  # rows that are fitted, and rows of a stream before its first event
TRAIN_KINDS, REPEATS = 4, 3  # kinds in the train rows of a series, and how often each is shown
STREAMS = 1000  # seeds of their generators begin with it
N_ORDINARY = 8  # ordinary origins at which errors are counted beside the question


class Stream(NamedTuple):
    """Series that go on after their train rows to a question."""

    values: np.ndarray  # (series, rows) train rows too
    clean: np.ndarray  # (series, rows) the same without noise
    season: np.ndarray  # (series, rows) without noise and events
    begin: int  # the first row after the train rows
    question: int  # the row where the answer begins
    ordinary: np.ndarray  # (origins,) rows in whose horizon, and in the lookback of a cue before it, is no event

    @property
    def origins(self) -> list[int]:
        """Rows from which forecasts are issued, in order of time."""
        return [*self.ordinary.tolist(), self.question]


class Kind(NamedTuple):
    """What events of one kind are like in each series."""

    cue: np.ndarray  # (series, CUE)
    shape: np.ndarray  # (series, SHAPE)

    @property
    def event(self) -> np.ndarray:
        return np.concatenate([self.cue, self.shape], axis=1)


def draw_kinds(rng: np.random.Generator, n_series: int) -> Kind:
    """A kind of event: the cue of random signs, the shape smooth over three steps, both of the same power."""
    cue = AMPLITUDE * rng.choice([-1.0, 1.0], (n_series, CUE))
    rough = rng.normal(size=(n_series, SHAPE + 2))
    shape = rough[:, :-2] + rough[:, 1:-1] + rough[:, 2:]
    return Kind(cue, AMPLITUDE * shape / np.sqrt((shape**2).mean(1, keepdims=True)))


def draw_season(rng: np.random.Generator, n_series: int, rows: int) -> np.ndarray:
    """A daily season of two harmonics, of its own phases in each series: (series, rows)."""
    step = 2 * np.pi * np.arange(rows) / CYCLE
    phase = rng.uniform(0, 2 * np.pi, (2, n_series, 1))
    size = rng.uniform(0.7, 1.3, (2, n_series, 1)) * np.array([1.2, 0.5])[:, None, None]
    found: np.ndarray = size[0] * np.cos(step + phase[0]) + size[1] * np.cos(2 * step + phase[1])
    return found


def train_events(
    rng: np.random.Generator, n_series: int, rows: int, n_kinds: int, repeats: int
) -> tuple[np.ndarray, np.ndarray]:
    """Events of some kinds, each shown several times in an order and with gaps by chance.

    Returns
    -------
    events : ndarray (series, rows)
    asked : ndarray of bool (series, rows)
        Where the shape begins of a kind that was shown before.
    """
    kinds = [draw_kinds(rng, n_series) for _ in range(n_kinds)]
    found, asked = np.zeros((n_series, rows)), np.zeros((n_series, rows), dtype=bool)
    n_events = n_kinds * repeats
    for series in range(n_series):
        order = rng.permutation(np.repeat(np.arange(n_kinds), repeats))
        free = (rows - n_events * EVENT) // GRID
        gaps = np.sort(rng.integers(0, free + 1, n_events))
        for i, (kind, gap) in enumerate(zip(order, gaps, strict=True)):
            at = gap * GRID + i * EVENT
            found[series, at : at + EVENT] = kinds[kind].event[series]
            asked[series, at + CUE] = kind in order[:i]
    return found, asked


def needle(seed: int, distance: int, load: int, n_series: int = 32, train: int = TRAIN) -> Stream:
    """Series whose train rows depend on the seed alone, and a stream to one question.

    Parameters
    ----------
    seed : int
    distance : int
        Steps between the end of the one showing and the cue that asks; rounded down to a multiple of 8.
    load : int
        Kinds shown in between.
    n_series : int
    train : int
        Rows before the stream.

    Raises
    ------
    ValueError
        If so many events do not fit in between.
    """
    distance -= distance % GRID
    if load * EVENT > distance:
        raise ValueError(f"`load` must be at most {distance // EVENT} at a distance of {distance}, got {load}.")
    begun = np.random.default_rng([STREAMS, seed])
    question = train + LEAD + EVENT + distance + CUE
    rows = question + SHAPE
    season = draw_season(begun, n_series, rows)
    events = np.zeros_like(season)
    events[:, :train], _ = train_events(begun, n_series, train, TRAIN_KINDS, REPEATS)
    noise = NOISE * begun.normal(size=(n_series, train))
    rng = np.random.default_rng([STREAMS, seed, distance, load])
    asked = draw_kinds(rng, n_series)
    shown = train + LEAD
    events[:, shown : shown + EVENT] = asked.event
    events[:, question - CUE :] = asked.event
    free = (distance - load * EVENT) // GRID
    for i, gap in enumerate(np.sort(rng.integers(0, free + 1, load))):
        at = shown + EVENT + gap * GRID + i * EVENT
        events[:, at : at + EVENT] = draw_kinds(rng, n_series).event
    clean = season + events
    values = clean + np.concatenate([noise, NOISE * rng.normal(size=(n_series, rows - train))], axis=1)
    return Stream(values, clean, season, train, question, _ordinary(rng, events[0] != 0, train + LEAD // 2, question))


def _ordinary(rng: np.random.Generator, taken: np.ndarray, first: int, question: int) -> np.ndarray:
    """Some multiples of 8 rows between two, with no event in the horizon and in so many rows before."""
    rows = range(first - first % GRID, question - CUE - SHAPE, GRID)
    free = [t for t in rows if not taken[t - SHAPE : t + SHAPE].any()]
    return np.sort(rng.choice(free, min(N_ORDINARY, len(free)), replace=False))


def frame(values: np.ndarray, first: int = 0) -> pd.DataFrame:
    """Rows of series (series, rows) as a long table, the first at the step given."""
    n_series, rows = values.shape
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(n_series), rows),
            "ds": np.tile(np.arange(first, first + rows), n_series),
            "y": values.ravel(),
        }
    )
