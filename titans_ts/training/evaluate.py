"""The error of a network over windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from titans_ts.model import SimbaForecaster
from titans_ts.windows.windows import Windows

from .distributed import ALONE, Ranks
from .losses import AnyLoss, find_loss

EVALUATION_BATCH = 1024  # windows; no gradients are kept, so larger than a training batch


def evaluate(
    network: SimbaForecaster,
    windows: Windows,
    loss: AnyLoss = "mse",
    most: int | None = None,
    ranks: Ranks = ALONE,
) -> float:
    """The mean loss over all windows and steps, or `most` evenly spaced windows; each of `ranks` takes its share."""
    totals, counts = loss_by_series(network, windows, loss, most, ranks)
    return (totals.sum() / counts.sum()).item()


@contextmanager
def evaluating(network: SimbaForecaster) -> Iterator[None]:
    """A network without dropout within the block; after it, however it ends, as it was."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


@torch.no_grad()
def loss_by_series(
    network: SimbaForecaster,
    windows: Windows,
    loss: AnyLoss = "mse",
    most: int | None = None,
    ranks: Ranks = ALONE,
) -> tuple[Tensor, Tensor]:
    """The sum of each series' loss and its number of observed entries, each (n_series,) in float64.

    Arguments as `evaluate`'s.
    """
    sums = torch.zeros(2, windows.n_series, dtype=torch.float64, device=windows.device)
    found = find_loss(loss)
    with evaluating(network):
        for whole in windows.batches(EVALUATION_BATCH * ranks.world, most):
            batch, share = ranks.shard(whole)
            if not share:
                continue
            entries, counted = found.entries(network(batch), batch.future, batch.observed_mask)
            sums[0].index_add_(0, batch.series, entries.sum(1))
            sums[1].index_add_(0, batch.series, counted.sum(1))
    if ranks.world > 1:
        sums = sums.new_tensor(ranks.all_reduce(*sums.flatten().tolist())).view_as(sums)
    return sums[0], sums[1]
