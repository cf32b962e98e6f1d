"""Memory as context, as gate and as layer: the paper's equations, who sees whom, and streams cut anywhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from titans_ts.model import ModelConfig
from titans_ts.model.titans import MemoryAsContext, MemoryAsGate, MemoryAsLayer, TitansState

Layer = MemoryAsContext | MemoryAsGate | MemoryAsLayer
KINDS: dict[str, type[Layer]] = {"mac": MemoryAsContext, "mag": MemoryAsGate, "mal": MemoryAsLayer}
WINDOW, PERSISTENT, D_MODEL, CHUNK, TOKENS = 5, 3, 8, 4, 13
# float64 sums of tens of terms in another order, through a normalisation.
TOLERANCE = 1e-10


def make(variant: str, **changes: Any) -> Layer:
    torch.manual_seed(0)
    size = {"d_model": D_MODEL, "n_heads": 2, "attention_window": WINDOW, "n_persistent": PERSISTENT}
    config = {"lookback": 96, "horizon": 24, "chunk_size": CHUNK, "variant": variant}
    layer = KINDS[variant](ModelConfig(**config | size | changes)).double()
    with torch.no_grad():
        layer.memory.project_gates.weight.mul_(10)  # gates that differ from token to token
    return layer


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hidden(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1)) < 0.3


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


# The equations


def gated(layer: MemoryAsContext | MemoryAsGate, y: Tensor, m: Tensor) -> Tensor:
    def normalised(u: Tensor, weight: Tensor) -> Tensor:
        return u / (u.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    gate = layer.gate
    product = normalised(y, gate.norm.weight).sigmoid() * normalised(m, gate.memory_norm.weight).sigmoid()
    return product @ gate.project.weight.T


def behind_persistent(layer: Layer, x: Tensor) -> Tensor:
    return torch.cat([layer.persistent.expand(len(x), -1, -1), x], dim=1)


def test_memory_as_gate_is_attention_times_what_the_memory_returns() -> None:
    layer, x = make("mag"), tokens(2, TOKENS)
    y, _ = layer.attend(x, layer.persistent.unsqueeze(0))
    m = layer.memory(behind_persistent(layer, x))[:, PERSISTENT:]
    close(layer(x), gated(layer, y, m))


def test_memory_as_layer_is_attention_to_what_the_memory_returns() -> None:
    layer, x = make("mal"), tokens(2, TOKENS)
    both = behind_persistent(layer, x)
    m = layer.memory(both)
    y, _ = layer.attend((both + m)[:, PERSISTENT:], (both + m)[:, :PERSISTENT])
    close(layer(x), m[:, PERSISTENT:] + y @ layer.project_out.weight.T)


def context_by_hand(layer: MemoryAsContext, x: Tensor) -> Tensor:
    """Segment by segment and token by token: retrieve, attend to what is seen, write, and read what was written."""
    weight = layer.attend.project_qkv.weight
    rate = 10_000.0 ** (-torch.arange(2, dtype=torch.float64) / 2)

    def turned(u: Tensor, by: int) -> Tensor:  # (heads, 4)
        z = torch.complex(u[:, :2], u[:, 2:]) * torch.exp(1j * by * rate)
        return torch.cat([z.real, z.imag], dim=-1)

    def heads(row: Tensor) -> tuple[Tensor, ...]:
        return (weight @ row).view(3, 2, 4).unbind(0)

    outputs = []
    for sample in x:
        state, weights = None, tuple(layer.memory.initial)
        for part in sample.split(WINDOW):
            h = []
            for row in part:
                q = silu(layer.project_query.weight @ row).view(2, 1, 4)
                q = q / (q.square().sum(-1, keepdim=True) + 1e-6).sqrt()
                read = silu(q @ weights[0]) @ weights[1]
                read = read / (read.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.retrieved_norm.weight
                h.append(read.flatten())
            for i, row in enumerate(part):
                q, _, _ = heads(row)
                # Persistent tokens have no place; a token and what it has retrieved have the token's.
                seen = [(heads(p), None) for p in layer.persistent]
                seen += [(heads(rows[j]), i - j) for rows in (h, part) for j in range(i + 1)]
                scores = [(turned(q, by or 0) * k).sum(-1) / 2 for (_, k, _), by in seen]
                share = torch.softmax(torch.stack(scores), 0).unsqueeze(-1)
                y = (
                    row
                    + layer.project_attended.weight
                    @ (share * torch.stack([v for (_, _, v), _ in seen])).sum(0).flatten()
                )
                m, state = layer.memory.step(y.view(1, 1, -1), state)
                outputs.append(gated(layer, y.view(1, 1, -1), m))
            assert state is not None
            weights = tuple(w[0] for w in state.memory.weights)
    return torch.cat(outputs, dim=1).view(x.shape)


def test_memory_as_context_retrieves_attends_writes_and_reads() -> None:
    layer, x = make("mac"), tokens(2, TOKENS)
    close(layer(x), context_by_hand(layer, x))


# Who sees whom


def changed_by(layer: Layer, x: Tensor, at: int) -> list[int]:
    """The tokens whose output changes with token `at`."""
    other = x.clone()
    other[:, at] += 1
    return ((layer(other) - layer(x)).abs() > TOLERANCE).any(-1).any(0).nonzero().flatten().tolist()


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("variant", KINDS)
@pytest.mark.parametrize("at", [0, 3, 4, 5, 9, 12])
def test_a_token_changes_none_before_it_and_through_the_memory_all_after(variant: str, writes: bool, at: int) -> None:
    """Where the memory does not write, a token reaches its window or segment alone."""
    layer, x = make(variant, memory_writes=writes, memory_conv=writes), tokens(2, TOKENS)
    last = TOKENS
    if not writes:
        last = min(TOKENS, at + WINDOW if variant != "mac" else at - at % WINDOW + WINDOW)
    assert changed_by(layer, x, at) == list(range(at, last))


@pytest.mark.parametrize("variant", KINDS)
def test_persistent_tokens_are_seen_by_all(variant: str) -> None:
    layer, x = make(variant, memory_writes=False, memory_conv=False), tokens(2, TOKENS)
    before = layer(x)
    with torch.no_grad():
        layer.persistent[-1] += 1
    assert (layer(x) != before).any(-1).all()


def test_within_a_segment_a_token_does_not_see_what_later_ones_retrieve() -> None:
    """Retrieved tokens are keys beside those of the segment, of which the paper's figure shows the same triangle."""
    layer, x = make("mac"), tokens(1, WINDOW).requires_grad_()
    for i in range(WINDOW):
        (grad,) = torch.autograd.grad(layer(x)[:, i].square().sum(), x)
        assert grad.abs().sum(-1)[0].nonzero().flatten().tolist() == list(range(i + 1))


@pytest.mark.parametrize("variant", KINDS)
def test_masked_tokens_change_no_other(variant: str) -> None:
    layer, x = make(variant, memory_conv=False), tokens(2, TOKENS)
    masked = torch.zeros(2, TOKENS, dtype=torch.bool)
    masked[:, [0, 1, 6]] = True
    other = torch.where(masked.unsqueeze(-1), 10 * tokens(2, TOKENS, seed=1), x)
    close(layer(x, masked)[~masked], layer(other, masked)[~masked])
    assert layer(x, torch.ones_like(masked)).isfinite().all()


@pytest.mark.parametrize("variant", KINDS)
def test_a_sample_does_not_depend_on_the_others(variant: str) -> None:
    layer, x = make(variant), tokens(3, TOKENS)
    close(layer(x)[1:2], layer(x[1:2]))


# Streams


@pytest.mark.parametrize("gates", ["token", "chunk"])
@pytest.mark.parametrize("n_persistent", [0, PERSISTENT])
@pytest.mark.parametrize("variant", KINDS)
def test_any_cut_gives_what_one_pass_gives(variant: str, n_persistent: int, gates: str) -> None:
    layer = make(variant, n_persistent=n_persistent, memory_gates=gates)
    x, masked = tokens(2, TOKENS), hidden(2, TOKENS)
    whole = layer(x, masked)
    for sizes in ([1] * TOKENS, [4, 9], [5, 5, 3], [12, 1]):
        state: TitansState | None = None
        parts = []
        for part, mask in zip(x.split(sizes, 1), masked.split(sizes, 1), strict=True):
            out, state = layer.step(part, state, mask)
            parts.append(out)
        close(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("variant", KINDS)
def test_gradients_through_a_cut_are_those_of_one_pass(variant: str) -> None:
    layer, x = make(variant), tokens(2, TOKENS)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    whole = torch.autograd.grad(layer(x).square().sum(), parameters)
    first, state = layer.step(x[:, :6])
    second, _ = layer.step(x[:, 6:], state)
    cut = torch.autograd.grad(torch.cat([first, second], dim=1).square().sum(), parameters)
    for name, found, expected in zip(names, cut, whole, strict=True):
        assert (expected != 0).any(), name
        close(found, expected)


@pytest.mark.parametrize("variant", KINDS)
def test_what_is_carried_does_not_grow(variant: str) -> None:
    layer = make(variant)
    _, state = layer.step(tokens(1, 40))
    assert state.window.rows.shape[1] <= WINDOW
    assert state.segment is None or state.segment.retrieved.shape[1] <= WINDOW


def test_a_memory_that_does_not_write_keeps_its_initial_weights() -> None:
    layer = make("mag", memory_writes=False)
    _, state = layer.step(tokens(1, TOKENS))
    for w, initial in zip(state.memory.memory.weights, layer.memory.initial, strict=True):
        close(w[0], initial)


# Automatic mixed precision


@pytest.mark.parametrize("variant", KINDS)
def test_norms_keep_their_precision_in_bfloat16(variant: str) -> None:
    layer, x = make(variant).float(), tokens(2, TOKENS).float()
    expected, always = layer(x), torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch warns of mixed dtypes once a process
    try:
        with torch.autocast("cpu", torch.bfloat16):
            found = layer(x)
    finally:
        torch.set_warn_always(always)
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)  # bfloat16 has 8 bits
