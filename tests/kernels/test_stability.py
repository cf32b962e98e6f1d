"""Long streams: with the layer's step sizes the memory neither explodes nor dies, and either can be shown to happen.

The gradients of a chunk add up, so what bounds theta is the chunk: (1 - eta) / chunk_size for a linear memory, half
of that for a deep one, with queries, keys and values of length 1.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from titans_ts.kernels import memory_scan

H, D = 2, 8
KINDS = ("constant", "periodic", "random")  # one sample of the batch each
ALPHA, ETA = 0.01, 0.5
LINEAR, DEEP = 1.0, 0.5  # theta in units of (1 - eta) / chunk_size


def stream(T: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of each kind (3, T, heads, head_dim)."""
    generator = torch.Generator().manual_seed(0)

    def unit(steps: int) -> Tensor:
        return normalize(torch.randn(3, 1, steps, H, D, generator=generator), dim=-1)

    periods = -(-T // 24)
    q, k, v = torch.cat([unit(1).expand(-1, -1, T, -1, -1), unit(24).repeat(1, 1, periods, 1, 1)[:, :, :T], unit(T)], 1)
    return q, k, v


@torch.no_grad()
def read(T: int, *, depth: int, chunk_size: int, step: float, decay_to: str) -> tuple[Tensor, Tensor]:
    """The outputs of a stream, and every 1000 tokens the size of the weights (T / 1000, 3) over that of their start."""
    generator = torch.Generator().manual_seed(1)
    widths = (depth + 1) * [D]
    weights = tuple(torch.randn(H, n, m, generator=generator) * n**-0.5 for n, m in pairwise(widths))
    start = torch.stack([w.square().sum() for w in weights]).sum().sqrt()

    state, outputs, sizes = None, [], []
    for q, k, v in zip(*(x.split(1000, dim=1) for x in stream(T)), strict=True):
        one = torch.ones(q.shape[:3])
        y, state = memory_scan(
            *(q, k, v),
            *(ALPHA * one, ETA * one, step * (1 - ETA) / chunk_size * one),
            weights,
            chunk_size=chunk_size,
            state=state,
            return_state=True,
            decay_to=decay_to,
            backend="chunkwise",
        )
        outputs.append(y)
        sizes.append(torch.stack([w.square().sum(dim=(1, 2, 3)) for w in state.weights]).sum(dim=0).sqrt() / start)
    return torch.cat(outputs, dim=1), torch.stack(sizes)


@pytest.mark.parametrize("chunk_size", [16, 64])
@pytest.mark.parametrize(("depth", "step", "decay_to"), [(1, LINEAR, "zero"), (2, DEEP, "init"), (3, DEEP, "init")])
def test_the_memory_neither_explodes_nor_dies(depth: int, step: float, decay_to: str, chunk_size: int) -> None:
    y, sizes = read(20_000, depth=depth, chunk_size=chunk_size, step=step, decay_to=decay_to)
    assert sizes.shape == (20, len(KINDS))
    assert sizes.isfinite().all()
    assert sizes.min() > 1e-3
    # The values have length 1; an output may overshoot them, but stays of their order.
    assert y.norm(dim=-1).max() < 5


@pytest.mark.parametrize(("depth", "step"), [(1, LINEAR), (2, DEEP)])
def test_ten_times_the_step_explodes(depth: int, step: float) -> None:
    _, sizes = read(2_000, depth=depth, chunk_size=16, step=10 * step, decay_to="init")
    assert not sizes[-1, KINDS.index("constant")] < 1e3  # NaN included


def test_forgetting_towards_zero_kills_a_deep_memory() -> None:
    _, sizes = read(4_000, depth=2, chunk_size=16, step=DEEP, decay_to="zero")
    assert sizes[-1, KINDS.index("random")] < 1e-3
