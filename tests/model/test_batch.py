"""The carrier between windows, network and loss."""

from __future__ import annotations

import torch

from titans_ts.model import Batch

BATCH = Batch(
    past=torch.arange(6.0).view(3, 2),
    future=torch.arange(3.0).view(3, 1),
    time_index=torch.tensor([5, 6, 7]),
    series=torch.tensor([0, 0, 1]),
    observed_mask=torch.tensor([[True], [False], [True]]),
)


def test_a_function_reaches_every_field_that_is_there() -> None:
    last = BATCH.map(lambda field: field[1:])
    assert last.n_samples == 2
    assert last.past.tolist() == [[2, 3], [4, 5]]
    assert last.future.tolist() == [[1], [2]]
    assert (last.time_index.tolist(), last.series.tolist()) == ([6, 7], [0, 1])
    assert last.observed_mask is not None
    assert last.observed_mask.tolist() == [[False], [True]]
    assert (last.padding_mask, last.cross_series) == (None, None)
    assert BATCH.n_samples == 3
