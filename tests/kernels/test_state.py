"""What a memory's state is made of."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from titans_ts.kernels import MemoryState


def state() -> MemoryState:
    groups = [
        tuple(torch.full((1, 1, 2, 2), float(10 * i + j), requires_grad=True) for j in range(2)) for i in range(3)
    ]
    return MemoryState(weights=groups[0], momentum=groups[1], chunk_start=groups[2], offset=3)


def test_a_detached_state_has_the_same_numbers_and_no_graph() -> None:
    before = state()
    after = before.detach()
    assert after.offset == 3
    for field in ("weights", "momentum", "chunk_start"):
        for x, x_before in zip(getattr(after, field), getattr(before, field), strict=True):
            assert torch.equal(x, x_before)
            assert not x.requires_grad
            assert x_before.requires_grad


def test_a_state_is_made_by_keyword_and_cannot_be_changed() -> None:
    before = state()
    with pytest.raises(TypeError, match="positional"):
        MemoryState(before.weights, before.momentum, before.chunk_start, 3)  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.offset = 0  # type: ignore[misc]
