"""The rows differ, and none of them sees the future."""

from __future__ import annotations

import pytest
import torch

from benchmark.recall_model import SequenceModel
from benchmark.recall_rows import LATE, LEARN_LATE, LMM, ROWS, config


def model(row: str) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(7, 5, config(row, d_model=8, attention_window=4, chunk_size=4)).eval()


def test_every_row_is_another_network() -> None:
    configs = [config(row) for row in ROWS if row != LATE]
    assert len(set(configs)) == len(configs)
    assert config(LATE) == config(LMM)
    assert LATE in LEARN_LATE
    assert LMM not in LEARN_LATE


@pytest.mark.parametrize("row", ROWS)
def test_a_row_ignores_the_future(row: str) -> None:
    network, tokens = model(row), torch.arange(22).view(2, 11) * 5 % 7
    asked = torch.arange(11).expand(2, 11)
    changed = tokens.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 7
    with torch.no_grad():
        found, other = network(tokens, asked), network(changed, asked)
    torch.testing.assert_close(found[:, :6], other[:, :6], rtol=1e-5, atol=1e-6)
    assert (found[:, 6:] != other[:, 6:]).any()
