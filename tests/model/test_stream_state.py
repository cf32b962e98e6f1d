"""States of the long-term memory: taken, put back, and the shares that their gates let through."""

from __future__ import annotations

import pytest
import torch

from titans_ts.model.long_term import LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.model.stream_state import StreamState

CONFIG = LongTermConfig(lookback=12, horizon=6, n_series=4, cycle=6)


def filled(memory: LongTermMemory, value: float) -> StreamState:
    state = memory.begin(4, torch.arange(4))
    named = {name: torch.full_like(x, value) for name, x in state.tensors().items()}
    return StreamState.of_tensors(named, state)


def test_a_state_put_back_is_a_copy_and_in_place_the_same() -> None:
    memory = LongTermMemory(CONFIG)
    whole, part, index = filled(memory, 1.0), filled(memory, 0.0).take(torch.arange(2)), torch.tensor([3, 1])
    copied = whole.put(index, part)
    assert all((x == 1).all() for x in whole.tensors().values())
    for x in copied.tensors().values():
        assert (x[[1, 3]] == 0).all()
        assert (x[[0, 2]] == 1).all()
    whole.put_(index, part)
    for name, x in whole.tensors().items():
        assert torch.equal(x, copied.tensors()[name])


def test_shares_are_what_was_best_of_late_by_group() -> None:
    memory = LongTermMemory(CONFIG)
    state = memory.begin(4, torch.arange(4))
    block, energy = state.blocks[0], memory.parts[0].energy
    assert energy.shape[1] == 2
    size = torch.ones_like(block.size)
    agreement = size.clone()
    agreement[0] = -1
    agreement[1] = 0.5
    agreement[2, 0] = 100
    agreement[3, 1, -1] = 0.25  # the least over half-lives
    state = StreamState((block._replace(agreement=agreement, size=size),), state.ends)
    (shares,) = memory.shares(state, torch.arange(4))
    most = 1 / 1.01  # by the prior, with an energy of 1
    expected = torch.tensor([[0, 0], [0.5 * most, 0.5 * most], [1, most], [most, 0.25 * most]], dtype=torch.float64)
    torch.testing.assert_close(shares, expected)


def test_a_memory_that_has_read_nothing_lets_nothing_through() -> None:
    memory = LongTermMemory(CONFIG)
    (shares,) = memory.shares(memory.begin(4, torch.arange(4)), torch.arange(4))
    assert (shares == 0).all()


def test_tensors_of_another_memory_are_refused_by_name() -> None:
    memory = LongTermMemory(CONFIG)
    state = memory.begin(4, torch.arange(4))
    tensors = state.tensors()
    for change in ({"0.keys.0": tensors["0.keys.0"][:, 1:]}, {"0.keys.0": tensors["0.keys.0"].double()}):
        with pytest.raises(ValueError, match=r"`0.keys.0` must have shape \(4, 6, 24\) of torch.float32, got \(4, "):
            StreamState.of_tensors(tensors | change, state)
    del tensors["ends"]
    with pytest.raises(ValueError, match=r"`ends` must have shape \(4,\) of torch.int64, got none"):
        StreamState.of_tensors(tensors, state)
