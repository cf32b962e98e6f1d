"""The memory network reads a stream as one sequence, and learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmark import needle_network
from benchmark.needle_data import GRID, SHAPE, needle
from benchmark.needle_network import SEEN, MemoryNetwork, forecasts, tokens_of, trained


def test_tokens_end_at_each_multiple_of_eight_rows() -> None:
    values = np.arange(2 * 64.0).reshape(2, 64)
    tokens = tokens_of(values)
    assert tokens.shape == (2, (64 - SEEN) // GRID + 1, SEEN)
    assert tokens[0, 1].tolist() == list(range(8, 8 + SEEN))


@pytest.mark.parametrize("writes", [True, False])
def test_a_stream_read_on_equals_one_pass(writes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needle_network, "SEGMENT", 7)
    torch.manual_seed(0)
    network = MemoryNetwork(writes, d_model=8, n_layers=1).eval()
    tokens = torch.randn(2, 40, SEEN)
    with torch.no_grad():
        torch.testing.assert_close(network.stream(tokens), network(tokens), rtol=1e-4, atol=1e-5)


def test_forecasts_are_those_of_tokens_that_end_at_the_origins() -> None:
    stream = needle(0, 100, 1, 2, 640)
    network = MemoryNetwork(d_model=8, n_layers=1).eval()
    found = forecasts(network, stream)
    assert found.shape == (2, len(stream.origins), SHAPE)
    with torch.no_grad():
        shorter = network(tokens_of(stream.values[:, stream.begin : stream.ordinary[0]]))[:, -1]
    np.testing.assert_allclose(found[:, 0], shorter, rtol=1e-3, atol=1e-4)


def test_training_lowers_the_error_of_ordinary_rows_and_repeats() -> None:
    stream = needle(0, 100, 0, 4, 640)
    truth = np.stack([stream.values[:, t : t + SHAPE] for t in stream.ordinary], axis=1)
    few, more = (((forecasts(trained(0, False, n), stream)[:, :-1] - truth) ** 2).mean() for n in (1, 15))
    assert more < 0.8 * few
