"""The error of a network over windows."""

from __future__ import annotations

import torch

from titans_ts.model import SimbaForecaster
from titans_ts.windows.windows import Windows

from .distributed import ALONE, Ranks
from .losses import LOSSES

EVALUATION_BATCH = 1024  # windows; no gradients are kept, so larger than a training batch


@torch.no_grad()
def evaluate(
    network: SimbaForecaster, windows: Windows, loss: str = "mse", most: int | None = None, ranks: Ranks = ALONE
) -> float:
    """The mean loss over all windows and steps, or `most` evenly spaced windows; each of `ranks` takes its share."""
    was_training = network.training
    network.eval()
    total, count = 0.0, 0.0
    for whole in windows.batches(EVALUATION_BATCH * ranks.world, most):
        batch, share = ranks.shard(whole)
        if not share:
            continue
        more, entries = LOSSES[loss].total(network(batch), batch.future, batch.observed_mask)
        total, count = total + more, count + entries
    network.train(was_training)
    total, count = ranks.all_reduce(total, count)
    return total / count
