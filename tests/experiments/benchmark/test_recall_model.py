"""A model of sequences answers where it is asked."""

from __future__ import annotations

import torch

from benchmark.recall_model import SequenceModel
from benchmark.recall_rows import config


def test_logits_are_of_the_places_that_are_asked() -> None:
    network = SequenceModel(7, 5, config("lmm", d_model=8))
    tokens = torch.arange(24).view(2, 12) % 7
    every = network(tokens, torch.arange(12).expand(2, 12))
    asked = torch.tensor([[3, 11], [0, 5]])
    assert every.shape == (2, 12, 5)
    torch.testing.assert_close(network(tokens, asked), torch.stack([every[0, [3, 11]], every[1, [0, 5]]]))
