"""Rows of the needle task: each a forecaster fitted once to the train rows of a seed, then asked in its streams."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmark.estimator import closed_form
from benchmark.needle_data import CYCLE, SHAPE, Stream, frame
from benchmark.needle_network import forecasts, trained
from titans_ts import TitansForecaster
from titans_ts.model.long_term import LongTermMemory
from titans_ts.stream.reading import LongTerm

LOOKBACK = 96  # of the core beside the long-term memory
VALIDATION = 640  # of the train rows
EPOCHS, TRAINED_SECONDS = 5, 30.0  # of a window network, at most; the whole fit
NETWORK_STEPS = {True: 4000, False: 600}  # of a memory network, that writes or does not

Answers = np.ndarray  # (series, origins, SHAPE) forecasts from the origins of a stream
Forecaster = Callable[[Stream], Answers]
Fit = Callable[[int, np.ndarray], Forecaster]  # from a seed and train rows (series, rows)


def streamed(model: TitansForecaster) -> Forecaster:
    """An estimator that goes on from its train rows to each origin by `update`, and forecasts there."""

    def ask(stream: Stream) -> Answers:
        at, here, found = stream.begin, copy.copy(model), []
        for origin in stream.origins:
            here.update(frame(stream.values[:, at:origin], at))
            at = origin
            found.append(here.predict(SHAPE).iloc[:, -1].to_numpy().reshape(-1, SHAPE))
        return np.stack(found, axis=1)

    return ask


def window(lookback: int, seconds: float = 0.0) -> Fit:
    """The estimator with a window: its closed form, or trained for so many seconds at most."""

    def fit(seed: int, values: np.ndarray) -> Forecaster:
        training = {"max_epochs": EPOCHS, "time_limit": seconds} if seconds else {"max_epochs": 0}
        model = _estimator(lookback, "window", random_state=seed, **training)
        return streamed(model.fit(frame(values)))

    return fit


def long_term(seed: int, values: np.ndarray) -> Forecaster:
    """The closed form with the long-term memory as it comes, which chooses recall on validation rows."""
    return streamed(_estimator(LOOKBACK, "stream", random_state=seed).fit(frame(values)))


def without_recall(seed: int, values: np.ndarray) -> Forecaster:
    """The same without recall."""
    model = _estimator(LOOKBACK, "stream", random_state=seed).fit(frame(values))
    found = model.fitted_.long_term
    if found is not None and found.memory.recall is not None:
        memory = LongTermMemory(replace(found.memory.config, recall=0))
        memory.load_state_dict({n: x for n, x in found.memory.state_dict().items() if not n.startswith("recall.")})
        model.fitted_ = replace(model.fitted_, long_term=LongTerm(memory, replace(found.state, recall=None)))
    return streamed(model)


def network(writes: bool) -> Fit:
    """A memory network; it learns from generated series, not from the train rows."""

    def fit(seed: int, values: np.ndarray) -> Forecaster:
        model = trained(seed, writes, NETWORK_STEPS[writes])
        return lambda stream: forecasts(model, stream)

    return fit


def season_alone(seed: int, values: np.ndarray) -> Forecaster:
    """Who knows all but the events."""
    return lambda stream: _ahead(stream.season, stream)


def shape_known(seed: int, values: np.ndarray) -> Forecaster:
    """Who knows all but the noise."""
    return lambda stream: _ahead(stream.clean, stream)


SHAPE_KNOWN, NEVER = "shape known (noise floor)", "closed form, lookback 96"
ROWS: dict[str, Fit] = {
    SHAPE_KNOWN: shape_known,
    "season known, no shape": season_alone,
    NEVER: window(LOOKBACK),
    "closed form, lookback 336": window(336),
    "closed form, lookback 1024": window(1024),
    "window network, lookback 96": window(LOOKBACK, TRAINED_SECONDS),
    "window network, lookback 336": window(336, TRAINED_SECONDS),
    "window network, lookback 1024": window(1024, TRAINED_SECONDS),
    "long-term memory, no recall": without_recall,
    "long-term memory": long_term,
    "memory network, never writes": network(False),
    "memory network": network(True),
}


def errors(ask: Forecaster, stream: Stream) -> tuple[float, float]:
    """Mean squared errors over the answer's span, and over ordinary horizons."""
    squared = (ask(stream) - _ahead(stream.values, stream)) ** 2
    return float(squared[:, -1].mean()), float(squared[:, :-1].mean())


def _estimator(lookback: int, context: str, **parameters: object) -> TitansForecaster:
    return closed_form(
        horizon=SHAPE,
        lookback=lookback,
        cycle=CYCLE,
        context=context,
        outliers="keep",  # events are no errors of measurement
        val_size=VALIDATION,
        **parameters,
    )


def _ahead(values: np.ndarray, stream: Stream) -> np.ndarray:
    """The horizon of each origin: (series, origins, SHAPE)."""
    return np.stack([values[:, origin : origin + SHAPE] for origin in stream.origins], axis=1)
