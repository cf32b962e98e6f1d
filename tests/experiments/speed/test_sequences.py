"""The blocks whose throughput is compared, on short sequences."""

from __future__ import annotations

import pytest
import torch

from speed.sequences import KINDS, CausalAttention, block_of, training_pass
from titans_ts.model.attention import WindowAttention
from titans_ts.model.memory import NeuralMemory
from titans_ts.model.mixers import Mamba
from titans_ts.model.titans import MemoryAsContext, MemoryAsGate, MemoryAsLayer

SIZE = dict(d_model=8, n_heads=2, chunk_size=4, attention_window=4)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_sees_what_comes_after(kind: str) -> None:
    torch.manual_seed(0)
    block = block_of(kind, **SIZE).double()
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    changed = x.clone()
    changed[:, 7:] += 1
    before, after = block(x), block(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7], rtol=0, atol=1e-12)
    assert (before[:, 7:] - after[:, 7:]).abs().min() > 0


def test_each_kind_is_what_its_name_says() -> None:
    mixers = {kind: block_of(kind, **SIZE).mixer for kind in KINDS}
    assert [type(mixer) for mixer in mixers.values()] == [
        *[NeuralMemory, NeuralMemory, MemoryAsContext, MemoryAsGate, MemoryAsLayer],
        *[CausalAttention, WindowAttention, Mamba],
    ]
    assert [len(mixers[f"lmm, {layers}"].initial) for layers in ("one layer", "two layers")] == [1, 2]


def test_the_first_and_the_last_token_reach_each_other_through_full_attention_alone() -> None:
    torch.manual_seed(0)
    for kind, reaches in (("attention", True), ("window attention", False)):
        x = torch.randn(1, 11, 8, requires_grad=True)
        (gradient,) = torch.autograd.grad(block_of(kind, **SIZE)(x)[0, -1].sum(), x)
        assert bool(gradient[0, 0].abs().max() > 0) == reaches


def test_causal_attention_has_no_masked_tokens() -> None:
    with pytest.raises(ValueError, match="`masked` must be None"):
        block_of("attention", **SIZE).mixer(torch.zeros(1, 3, 8), torch.zeros(1, 3, dtype=torch.bool))


def test_a_pass_takes_the_gradients_by_all_weights_and_by_the_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_of("mac", **SIZE)
    asked: list[tuple[int, ...]] = []
    right = torch.autograd.grad

    def grad(loss: torch.Tensor, leaves: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        asked.extend(tuple(leaf.shape) for leaf in leaves)
        return right(loss, leaves)

    monkeypatch.setattr(torch.autograd, "grad", grad)
    training_pass(block, 3, 5)()
    assert asked == [(3, 5, 8), *(tuple(weight.shape) for weight in block.parameters())]
