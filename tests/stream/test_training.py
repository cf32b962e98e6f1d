"""Training of the long-term memory: it learns what its constants miss, and is kept only where that helps later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.model.origins import n_features
from titans_ts.model.stream_state import Origins
from titans_ts.stream.fit import Stream
from titans_ts.stream.reading import OriginReader, Reading
from titans_ts.stream.training import CONSTANTS, TRAINED, MemoryTraining, _losses, _segments, trained
from titans_ts.tables.series_data import SeriesData

LOOKBACK, HORIZON, N_SERIES, N_ORIGINS = 8, 4, 2, 1200
FIRST, MIDDLE, LAST = (np.full(N_SERIES, row) for row in (300, 700, 900))
NAIVE = torch.ones(N_SERIES, dtype=torch.float64)
SMALL = 0.05  # size of a feature that whitening drowns: its variance is far below a tenth of the others'


def config(**changes: Any) -> LongTermConfig:
    one_head: dict[str, Any] = dict(rates=(0.24,), forgetting=(0.0024,))
    return LongTermConfig(lookback=LOOKBACK, horizon=HORIZON, n_series=N_SERIES, **one_head | changes)


def made(carried_by: int, shape: LongTermConfig, until: int = N_ORIGINS) -> tuple[Stream, LongTermMemory]:
    """A stream of random features, whose residuals follow one of them to some origin; the last feature is small."""
    generator = torch.Generator().manual_seed(0)
    width = n_features(LOOKBACK, HORIZON, 0)
    features = torch.randn(N_SERIES, N_ORIGINS, width, generator=generator)
    residual = 0.3 * torch.randn(N_SERIES, N_ORIGINS, HORIZON, generator=generator)
    residual[:, :until] += features[:, :until, carried_by, None]
    features[..., -1] *= SMALL
    came = torch.cat([torch.zeros(N_SERIES, HORIZON, HORIZON), residual[:, :-HORIZON]], dim=1)
    rows = np.arange(1, N_ORIGINS + 1)
    known = torch.from_numpy(rows > HORIZON).expand(N_SERIES, -1)
    live = torch.ones(N_SERIES, N_ORIGINS, dtype=torch.bool)
    origins = Origins(features, (torch.zeros_like(came),), (came,), (known,), live, torch.arange(N_SERIES))
    errors = residual.square().sum(-1, keepdim=True)
    index, lengths = np.arange(N_SERIES), np.full(N_SERIES, N_ORIGINS)
    part = Reading(index, np.tile(rows, (N_SERIES, 1)), origins, (residual,), errors, residual[..., 0])
    data = SeriesData(torch.zeros(N_SERIES * N_ORIGINS), lengths, np.zeros(N_SERIES, dtype=np.int64))
    stream = Stream(cast(OriginReader, SimpleNamespace(data=data)), lengths, [(index, [part])])
    memory = LongTermMemory(shape)
    stream.initialise(memory, FIRST)
    return stream, memory


def later_error(stream: Stream, memory: LongTermMemory) -> float:
    """Over the core's, on rows that nothing was trained or chosen on."""
    _, frozen, read = stream.errors(memory, LAST, np.full(N_SERIES, N_ORIGINS))
    return (read.sum() / frozen.sum()).item()


def weights(memory: LongTermMemory) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in memory.named_parameters()}


def test_learned_keys_find_the_feature_that_whitening_drowns() -> None:
    stream, memory = made(-1, config())
    only_maps = MemoryTraining(passes=6, segment=100, gates_rate=0.0, maps_rate=0.03)
    found, choice = trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, only_maps)
    assert choice.chosen == TRAINED
    assert choice.errors[TRAINED] < choice.errors[CONSTANTS]
    assert later_error(stream, memory) > 0.95
    assert later_error(stream, found) < 0.9 * later_error(stream, memory)
    before, after = weights(memory), weights(found)
    same = {name for name in before if torch.equal(before[name], after[name])}
    assert same == {"blocks.0.log_rate", "blocks.0.log_forgetting", "blocks.0.layers.0"}


def test_learned_rates_mend_a_rate_that_is_too_small() -> None:
    stream, memory = made(0, config(rates=(0.004,)))
    found, choice = trained(
        memory, stream, (FIRST, MIDDLE, LAST), NAIVE, MemoryTraining(passes=4, segment=50, gates_rate=0.2)
    )
    assert choice.chosen == TRAINED
    assert found.parts[0].log_rate.item() > memory.parts[0].log_rate.item() + 1
    assert later_error(stream, found) < 0.9 * later_error(stream, memory)


def test_initial_weights_of_a_deep_memory_can_be_learned() -> None:
    stream, memory = made(0, config(depth=2))
    training = MemoryTraining(passes=2, segment=100, gates_rate=0.0, weights_rate=0.01)
    found, choice = trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, training)
    assert choice.chosen == TRAINED
    assert later_error(stream, found) < later_error(stream, memory)


def test_what_does_worse_on_later_rows_is_not_kept() -> None:
    stream, memory = made(0, config(rates=(0.04,)), until=int(MIDDLE[0]))
    training = MemoryTraining(passes=2, segment=50, gates_rate=0.3)
    found, choice = trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, training)
    assert found is memory
    assert choice.chosen == CONSTANTS
    assert choice.errors[TRAINED] >= choice.errors[CONSTANTS]


def test_the_memory_given_stays_and_the_same_call_gives_the_same() -> None:
    stream, memory = made(0, config(rates=(0.004,)))
    before = weights(memory)
    training = MemoryTraining(passes=2, segment=100, gates_rate=0.2, maps_rate=0.01)
    (one, choice), (two, again) = (trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, training) for _ in range(2))
    assert choice == again
    assert all(torch.equal(before[name], p) for name, p in memory.named_parameters())
    assert all(torch.equal(p, q) for p, q in zip(one.parameters(), two.parameters(), strict=True))
    assert all(p.requires_grad for p in one.parameters())


def test_rows_after_the_last_change_nothing() -> None:
    stream, memory = made(0, config(rates=(0.004,)))
    training = MemoryTraining(passes=1, gates_rate=0.2)
    found, _ = trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, training)
    ((_, (part,)),) = stream.groups
    part.residuals[0][:, LAST[0] :] = torch.nan
    part.origins.came[0][:, LAST[0] :] = torch.nan
    other, _ = trained(memory, stream, (FIRST, MIDDLE, LAST), NAIVE, training)
    assert all(torch.equal(p, q) for p, q in zip(found.parameters(), other.parameters(), strict=True))


def test_the_state_goes_on_from_segment_to_segment() -> None:
    stream, memory = made(0, config())
    n_counted = int(MIDDLE[0] - HORIZON - FIRST[0]) + 1
    means = []
    for size in (37, 10_000):
        with torch.no_grad():
            losses = torch.stack([*_losses(memory, stream, FIRST, MIDDLE, NAIVE, size)])
        counts = torch.tensor([min(size, n_counted - begin) for begin in range(0, n_counted, size)])
        means.append((losses * counts).sum() / n_counted)
    assert torch.allclose(*means, rtol=1e-5)  # float32
    frozen, read = (error.mean() for error in stream.errors(memory, FIRST, MIDDLE)[1:])
    assert torch.allclose(means[0].double(), (read - frozen) / (1 + 1e-4), rtol=1e-4)


def test_segments_are_cut_where_origins_begin_to_count() -> None:
    counted = np.zeros((2, 12), dtype=bool)
    counted[0, 3:8] = counted[1, 4:9] = True
    assert [*_segments(counted, 4)] == [(0, 3), (3, 7), (7, 9), (9, 12)]
    assert [*_segments(np.zeros((2, 5), dtype=bool), 4)] == [(0, 5)]
    assert [*_segments(np.ones((1, 8), dtype=bool), 4)] == [(0, 4), (4, 8)]


def test_what_cannot_be_trained_is_refused() -> None:
    stream, memory = made(0, config())
    with pytest.raises(ValueError, match="`rows` must rise"):
        trained(memory, stream, (MIDDLE, FIRST, LAST), NAIVE)
    with pytest.raises(ValueError, match="`passes` must be 1 or more, got 0"):
        MemoryTraining(passes=0)
    with pytest.raises(ValueError, match="`maps_rate` must be a number of 0 or more, got -1"):
        MemoryTraining(maps_rate=-1)
    with pytest.raises(ValueError, match="`weights_rate` must not all be 0"):
        MemoryTraining(gates_rate=0.0)
    with pytest.raises(ValueError, match="`most_norm` must be positive, got 0"):
        MemoryTraining(most_norm=0)
