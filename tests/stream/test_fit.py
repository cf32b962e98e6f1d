"""A memory is set by train rows, read through all, and kept where validation says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from titans_ts.fitted import FittedModel
from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.stream import fit as fit_module
from titans_ts.stream.fit import LEAST_HORIZONS, STREAM, WINDOW, WITH, WITHOUT, Stream, config_of, fit_long_term
from titans_ts.stream.reading import LongTerm
from titans_ts.tables.panel import Panel
from titans_ts.training.choices import Choice
from titans_ts.windows.splits import Fold, backtest_folds, network_windows

from .small_core import HORIZON, LOOKBACK, core_of, hourly, ragged, read, scaled

ROUNDING = dict(rtol=1e-4)  # float32


def split(panel: Panel, val_size: int = 60) -> Fold:
    (fold,) = backtest_folds(panel, HORIZON, val_size=val_size)
    return fold


def fit(
    core: FittedModel, panel: Panel, config: LongTermConfig | None = None, always: bool = False, val_size: int = 60
) -> tuple[LongTerm | None, tuple[Choice, ...]]:
    data, fold = scaled(core, panel), split(panel, val_size)
    windows = network_windows(data, fold, core.network.config)
    return fit_long_term(core.network, data, fold, windows.validation, always, config)


def test_the_configuration_is_the_cores() -> None:
    config = config_of(core_of(hourly(100)).network)
    assert config == LongTermConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=24)


def test_it_is_kept_where_what_the_core_leaves_can_be_learned() -> None:
    """A wave that begins after the rows of the core, which has none of a day in its window."""
    table = hourly(900, shift=2.0)
    core = core_of(table[:300], cycle=0)
    panel = read(table)
    long_term, (choice,) = fit(
        core, panel, val_size=200, config=LongTermConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=24)
    )
    assert (choice.name, choice.chosen) == ("context", STREAM)
    errors = dict(choice.errors)
    assert errors.keys() == {WINDOW, STREAM}
    assert errors[STREAM] < 0.9 * errors[WINDOW]
    assert long_term is not None
    assert long_term.state.ends.tolist() == panel.data.ends.tolist()


def test_it_is_off_where_it_does_not_help_and_kept_where_that_is_asked_for() -> None:
    """Of white noise around a level there is nothing to learn: a memory that errs much more must go."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2024-01-01", periods=400, freq="h")
    table = pd.DataFrame(rng.normal(size=(400, 2)), index=times, columns=["a", "b"])
    core, panel = core_of(table), read(table)
    long_term, (choice,) = fit(core, panel)
    errors = dict(choice.errors)
    kept = errors[STREAM] < errors[WINDOW]
    assert (choice.chosen, long_term is not None) == (STREAM if kept else WINDOW, kept)
    assert errors[STREAM] < 1.02 * errors[WINDOW]  # the gate keeps it small either way
    long_term, (choice,) = fit(core, panel, always=True)
    assert choice.chosen == STREAM
    assert long_term is not None


def eventful(repeated: bool) -> pd.DataFrame:
    """Noise with an event now and then, one of two or another each time."""
    rng = np.random.default_rng(0)
    values = 0.2 * rng.normal(size=(900, 2))
    events = 3 * rng.choice([-1.0, 1.0], (22, 16, 2))
    for i, at in enumerate(range(20, 880, 40)):
        values[at : at + 16] += events[i % 2 if repeated else i]
    return pd.DataFrame(values, index=pd.date_range("2024-01-01", periods=900, freq="h"), columns=["a", "b"])


@pytest.mark.parametrize("repeated", [True, False])
def test_recall_is_chosen_where_what_followed_comes_again(repeated: bool) -> None:
    table = eventful(repeated)
    core = core_of(table[:600])
    long_term, choices = fit(core, read(table), always=True, val_size=300)
    choice = next(choice for choice in choices if choice.name == "recall")
    errors = dict(choice.errors)
    assert choice.chosen == (WITH if repeated else WITHOUT)
    assert long_term is not None
    assert (long_term.memory.recall is not None) == (long_term.state.recall is not None) == repeated
    if repeated:
        assert errors[WITH] < 0.98 * errors[WITHOUT]


def test_there_is_no_choice_without_validation_or_on_few_rows() -> None:
    table = hourly(200)
    core, panel = core_of(table), read(table)
    data, fold = scaled(core, panel), split(panel)
    assert fit_long_term(core.network, data, fold, None) == (None, ())
    long_term, choices = fit_long_term(core.network, data, fold, None, always=True)
    assert (long_term is not None, choices) == (True, ())
    rows = LEAST_HORIZONS * HORIZON - 1
    few = read(table[:rows])
    assert fit(core, few, val_size=5) == (None, ())
    assert fit(core, few, val_size=5, always=True)[0] is not None


def test_only_train_rows_set_the_scales() -> None:
    table, other = hourly(200), hourly(200)
    other[140:] *= -7.0
    core = core_of(table[:140])
    found = []
    for t in (table, other):
        long_term, _ = fit(core, read(t), always=True)
        assert long_term is not None
        found.append(long_term)
    for name, tensor in found[0].memory.state_dict().items():
        assert torch.equal(found[1].memory.state_dict()[name], tensor), name
    assert not torch.equal(found[0].state.blocks[0].keys, found[1].state.blocks[0].keys)


@pytest.mark.parametrize("blocks", [(), (1, 4)])
def test_errors_are_those_of_forecasts_from_each_origin(blocks: tuple[int, ...]) -> None:
    """Of the core and with the memory, over the origins whose truth lies in the rows asked for."""
    table = ragged()
    core, panel = core_of(table), read(table)
    config = config_of(core.network)
    config = LongTermConfig(
        lookback=LOOKBACK, horizon=HORIZON, n_series=3, cycle=config.cycle, block_ends=blocks, rates=(3.0,)
    )
    data = scaled(core, panel)
    memory = LongTermMemory(config)
    stream = Stream.read(core.network, memory, data)
    first = panel.data.lengths - 40
    stream.initialise(memory, first)
    long_term, frozen, with_memory = stream.errors(memory, first, panel.data.lengths)
    for s in range(3):
        values = data.values[data.rows_of(s)].numpy()
        squared = []
        for row in range(int(first[s]), int(panel.data.lengths[s]) - HORIZON + 1):
            part = panel.take(np.array([s])).head(np.array([row]))
            forecast = core.forecast(HORIZON, part, np.array([s]))[0, :, 0]
            squared.append((values[row : row + HORIZON] - (forecast - core.scaler.mean[s]) / core.scaler.scale[s]) ** 2)
        assert float(frozen[s]) == pytest.approx(np.mean(squared), rel=1e-4)
    assert with_memory.isfinite().all()
    assert (with_memory - frozen).abs().max() > 1e-3
    nothing = stream.errors(memory, panel.data.lengths, panel.data.lengths)
    assert nothing[1].isnan().all()
    for name, tensor in nothing[0].state.tensors().items():
        assert torch.equal(long_term.state.tensors()[name], tensor)


def test_a_core_in_training_stays_so() -> None:
    table = hourly(200)
    core = core_of(table, dropout=0.5)
    core.network.train()
    long_term, _ = fit(core, read(table), always=True)
    assert core.network.training
    core.network.eval()
    again, _ = fit(core, read(table), always=True)
    assert long_term is not None
    assert again is not None
    for name, tensor in long_term.state.tensors().items():
        assert torch.equal(again.state.tensors()[name], tensor)


def test_it_is_not_tried_where_it_would_hold_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly(400)
    core, panel = core_of(table), read(table)
    memory = LongTermMemory(config_of(core.network))
    state = memory.begin(2, torch.zeros(2, dtype=torch.int64))
    held = sum(x.numel() * x.element_size() for x in state.tensors().values())
    assert memory.bytes_per_series == held / 2
    monkeypatch.setattr(fit_module, "MOST_BYTES", held - 1)
    assert fit(core, panel) == (None, ())
    assert fit(core, panel, always=True)[0] is not None
    monkeypatch.setattr(fit_module, "MOST_BYTES", held)
    assert len(fit(core, panel)[1]) == 1
