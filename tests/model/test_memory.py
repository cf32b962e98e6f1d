"""The memory as a layer: its equations, its state, its gates."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import conv1d, pad, silu

from titans_ts.kernels import memory_scan
from titans_ts.model import LayerState, ModelConfig, NeuralMemory
from titans_ts.model.memory import CausalConv

D_MODEL, HEADS, CHUNK = 8, 2, 4
# float64 sums of tens of terms in another order.
TOLERANCE = 1e-10


def make_layer(dtype: torch.dtype = torch.float64, backend: str = "auto", **changes: Any) -> NeuralMemory:
    torch.manual_seed(0)
    shape = {"lookback": 96, "horizon": 24, "d_model": D_MODEL, "n_heads": HEADS, "chunk_size": CHUNK}
    layer = NeuralMemory(ModelConfig(**shape | changes), backend)
    with torch.no_grad():
        layer.project_gates.weight.mul_(10)  # gates that differ from token to token
        if layer.conv is not None:
            layer.conv.bias.normal_()
    return layer.to(dtype)


def tokens(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, D_MODEL, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def close(x: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(x, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """What each scan from here on is asked with."""
    calls: list[dict[str, Tensor]] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        calls.append(dict(zip(("q", "k", "v", "alpha", "eta", "theta"), arguments, strict=False)))
        return memory_scan(*arguments, **options)

    monkeypatch.setattr("titans_ts.model.memory.memory_scan", spy)
    return calls


# The equations


def by_hand(layer: NeuralMemory, x: Tensor, depth: int, **changes: Any) -> Tensor:
    """The layer as the docstrings and the paper put it, by the oracle."""
    B, T, _ = x.shape
    qkv = x @ layer.project_qkv.weight.T
    if changes.get("memory_conv", True):
        weight = layer.conv.weight.T.unsqueeze(1)
        qkv = conv1d(pad(qkv.mT, (3, 0)), weight, layer.conv.bias, groups=len(weight)).mT

    def unit(u: Tensor) -> Tensor:
        return u / (u.square().sum(-1, keepdim=True) + 1e-6).sqrt()

    q, k, v = silu(qkv).reshape(B, T, 3, HEADS, -1).unbind(2)
    raw = (x @ layer.project_gates.weight.T + layer.project_gates.bias).reshape(B, T, 3, HEADS)
    if changes.get("memory_gates") == "chunk":
        raw = torch.stack([raw[:, t - t % CHUNK] for t in range(T)], dim=1)
    alpha, eta, theta = torch.sigmoid(raw).unbind(2)
    alpha = alpha * changes.get("memory_forgetting", True)
    eta = eta * changes.get("memory_momentum", True)
    kk = unit(k)
    asked, theta = theta, theta.clone()
    for t in range(T):
        for s in range(t - t % CHUNK, t if depth > 1 else 0):
            theta[:, t] *= 1 - asked[:, s] * (kk[:, s] * kk[:, t]).sum(-1) ** 2
    theta = (1 - eta) * theta / (CHUNK if depth == 1 else 2)
    theta = theta / v.norm(dim=-1).clamp(min=1) ** (2 * (depth - 1) / depth)

    arguments = (unit(q), unit(k), v, alpha, eta, theta, tuple(layer.initial))
    decay_to = "zero" if depth == 1 else "init"
    y = memory_scan(*arguments, chunk_size=CHUNK, decay_to=decay_to, backend="reference")
    y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * layer.norm.weight
    return (y.flatten(2) * silu(x @ layer.project_output_gate.weight.T)) @ layer.project_out.weight.T


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"memory_conv": False},
        {"memory_momentum": False},
        {"memory_forgetting": False},
        {"memory_gates": "chunk"},
        {"memory_expansion": 2},
    ],
    ids=str,
)
def test_is_its_equations(depth: int, changes: dict[str, Any]) -> None:
    layer, x = make_layer(memory_depth=depth, **changes), tokens(2, 11)
    close(layer(x), by_hand(layer, x, depth, **changes))


@pytest.mark.parametrize("T", [1, 15, 16, 17])
def test_chunkwise_equals_the_reference(T: int) -> None:
    found = {}
    for backend in ("reference", "chunkwise", "auto"):
        layer, x = make_layer(backend=backend, chunk_size=16), tokens(2, T).requires_grad_()
        y = layer(x)
        (y * tokens(2, T, seed=1)).sum().backward()
        found[backend] = [y, x.grad, *(p.grad for p in layer.parameters())]
    for backend in ("chunkwise", "auto"):
        for value, expected in zip(found[backend], found["reference"], strict=True):
            close(value, expected)


def test_initial_memory_is_random_and_its_widths_follow_the_expansion() -> None:
    layer = make_layer(memory_depth=3, memory_expansion=2, d_model=256, n_heads=2)
    assert [tuple(w.shape) for w in layer.initial] == [(2, 128, 256), (2, 256, 256), (2, 256, 128)]
    for w in layer.initial:  # N(0, 1 / in): the spread of 65,536 numbers is known to half a per cent
        assert w.std().item() == pytest.approx(w.shape[1] ** -0.5, rel=0.02)


# The state


def states_equal(a: LayerState, b: LayerState) -> None:
    assert a.memory.offset == b.memory.offset
    groups = ["weights", "momentum", *(["chunk_start"] if a.memory.offset else [])]
    for group in groups:
        for x, expected in zip(getattr(a.memory, group), getattr(b.memory, group), strict=True):
            close(x, expected)
    for x, expected in ((a.conv, b.conv), (a.gates, b.gates)):
        assert (x is None) == (expected is None)
        if x is not None:
            close(x, expected)


@settings(max_examples=30, deadline=None)
@given(
    depth=st.integers(1, 3),
    conv=st.booleans(),
    gates=st.sampled_from(["token", "chunk"]),
    some_masked=st.booleans(),
    cuts=st.sets(st.integers(1, 10), max_size=5),
)
def test_a_split_equals_the_whole(depth: int, conv: bool, gates: str, some_masked: bool, cuts: set[int]) -> None:
    layer = make_layer(memory_depth=depth, memory_conv=conv, memory_gates=gates)
    x = tokens(2, 11)
    masked = torch.arange(11).expand(2, -1) < torch.tensor([[0], [3]]) if some_masked else None
    with torch.no_grad():
        whole, expected = layer.step(x, masked=masked)
        parts, state = [], None
        for first, last in pairwise([0, *sorted(cuts), 11]):
            y, state = layer.step(x[:, first:last], state, None if masked is None else masked[:, first:last])
            parts.append(y)
    close(torch.cat(parts, dim=1), whole)
    states_equal(state, expected)
    close(layer(x, masked), whole)


@pytest.mark.parametrize("gates", ["token", "chunk"])
@pytest.mark.parametrize("at", [0, 3, 4])
def test_a_step_without_tokens_changes_nothing(gates: str, at: int) -> None:
    layer, x = make_layer(memory_gates=gates), tokens(2, 7)
    whole = layer(x)
    state = layer.step(x[:, :at])[1] if at else None
    nothing, state = layer.step(x[:, :0], state)
    assert nothing.shape == (2, 0, D_MODEL)
    close(layer.step(x[:, at:], state)[0], whole[:, at:])


def test_state_is_float32_unless_all_is_float64() -> None:
    single, double = make_layer(torch.float32), make_layer()
    assert single.step(tokens(1, 3, dtype=torch.float32))[1].memory.weights[0].dtype == torch.float32
    assert double.step(tokens(1, 3))[1].memory.weights[0].dtype == torch.float64


@pytest.mark.parametrize("gates", ["token", "chunk"])
@pytest.mark.parametrize("at", [1, 4, 6, 10])
def test_output_ignores_the_future(gates: str, at: int) -> None:
    layer, x = make_layer(memory_gates=gates), tokens(2, 11)
    y = layer(x)
    changed = layer(torch.cat([x[:, :at], tokens(2, 11 - at, seed=1)], dim=1))
    close(changed[:, :at], y[:, :at])
    assert (changed[:, at:] != y[:, at:]).any()


def test_samples_do_not_meet() -> None:
    layer, x = make_layer(), tokens(3, 6)
    close(layer(x), torch.cat([layer(x[i : i + 1]) for i in range(3)]))


# Gates


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_step_sizes_of_a_chunk_stay_within_the_bound(depth: int, size: float, scans: list[dict[str, Tensor]]) -> None:
    layer = make_layer(memory_depth=depth)
    layer(size * tokens(8, 64))
    (scan,) = scans
    assert (scan["theta"] >= 0).all()
    # The factor covers one rounding in float64.
    most = 0.5 if depth > 1 else 1 / CHUNK
    assert (scan["theta"] <= most * (1 - scan["eta"]) * (1 + 1e-15)).all()


def test_equal_keys_of_a_chunk_share_one_step(scans: list[dict[str, Tensor]]) -> None:
    layer = make_layer(memory_depth=2, memory_conv=False)
    with torch.no_grad():
        layer.project_gates.weight.zero_()
        layer.project_gates.bias.view(3, HEADS)[2] = 4.0
        layer.project_qkv.weight[2 * D_MODEL :] *= 0.1  # values of a norm below one, by which nothing is divided
    layer(tokens(2, 1).expand(-1, 5 * CHUNK, -1))
    (scan,) = scans
    sums = scan["theta"].unflatten(1, (-1, CHUNK)).sum(2)
    asked = torch.sigmoid(torch.tensor(4.0, dtype=torch.float64))
    # eta is a half; a unit key is short of one by what keeps zero keys finite, and rounding may not take all.
    torch.testing.assert_close(sums, (0.25 * (1 - (1 - asked) ** CHUNK)).expand_as(sums), rtol=1e-4, atol=0)


def test_the_heads_memories_last_from_a_hundred_to_ten_thousand_tokens(scans: list[dict[str, Tensor]]) -> None:
    torch.manual_seed(0)
    layer = NeuralMemory(ModelConfig(lookback=96, horizon=24, d_model=64, n_heads=4))
    layer(torch.nn.functional.layer_norm(torch.randn(8, 256, 64), (64,)))
    means = scans[0]["alpha"].mean((0, 1))
    torch.testing.assert_close(means, torch.logspace(-2, -4, 4), rtol=0.05, atol=0)


def test_alpha_of_one_head_starts_near_a_hundredth_for_every_token(scans: list[dict[str, Tensor]]) -> None:
    torch.manual_seed(0)
    layer = NeuralMemory(ModelConfig(lookback=96, horizon=24, d_model=64, n_heads=1))
    layer(torch.nn.functional.layer_norm(torch.randn(8, 256, 64), (64,)))
    alpha = scans[0]["alpha"]
    assert alpha.mean().item() == pytest.approx(0.01, rel=0.05)
    # A row of gate weights is 0.1 U(-1/8, 1/8), a token has norm 8: logits within 5 deviations of 0.058 each.
    assert alpha.max() < 0.0135
    assert scans[0]["eta"].mean().item() == pytest.approx(0.5, abs=0.02)


def test_switched_off_gates_are_zero(scans: list[dict[str, Tensor]]) -> None:
    x = tokens(2, 6)
    make_layer(memory_momentum=False)(x)
    make_layer(memory_forgetting=False)(x)
    no_momentum, no_forgetting = scans
    assert (no_momentum["eta"] == 0).all()
    assert (no_momentum["alpha"] > 0).all()
    assert (no_forgetting["alpha"] == 0).all()
    assert (no_forgetting["eta"] > 0).all()


@pytest.mark.parametrize("size", [1.0, 6.0, 60.0])
@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_constant_sequence_of_large_values_does_not_overflow(depth: int, size: float) -> None:
    """A hundred chunks of one token; without the division by the values' norm depth 2 overflows at size 6."""
    layer = make_layer(torch.float32, d_model=32, n_heads=1, memory_conv=False, memory_depth=depth, chunk_size=16)
    x = torch.ones(1, 1600, 32)
    with torch.no_grad():
        v = silu(layer.project_qkv(x[:, :1]))[..., 64:]
        layer.project_qkv.weight[64:] *= size / v.norm()
        layer.project_gates.bias[-1] = 10.0  # the largest theta there is
        _, state = layer.step(x)
    for w, start in zip(state.memory.weights, layer.initial, strict=True):
        assert w.isfinite().all()
        assert w.norm() < 10 * max(1.0, size) * start.norm()


# Masked tokens; without the convolution, by which a token sees its neighbours


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(
    ("momentum", "masked"),
    [
        (True, [1, 1, 1, 0, 0, 0]),
        *(
            (False, masked)
            for masked in ([1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1])
        ),
    ],
)
def test_a_masked_token_is_as_if_it_were_not_there(momentum: bool, depth: int, masked: list[int]) -> None:
    layer = make_layer(memory_conv=False, memory_momentum=momentum, memory_depth=depth, chunk_size=16)
    x, still = tokens(2, 6), torch.tensor(masked).bool()
    with_them, state = layer.step(x, masked=still.expand(2, -1))
    without, expected = layer.step(x[:, ~still])
    close(with_them[:, ~still], without)
    for a, b in zip(state.memory.weights, expected.memory.weights, strict=True):
        close(a, b)


@pytest.mark.parametrize("depth", [1, 2])
def test_no_token_masked_is_as_no_mask_where_gates_are_of_chunks(depth: int, scans: list[dict[str, Tensor]]) -> None:
    """A mask takes the gates to the tokens, whose products are others; gradients and all."""
    layer, x = make_layer(memory_gates="chunk", memory_depth=depth), tokens(2, 11)
    found = []
    for masked in (None, torch.zeros(2, 11, dtype=torch.bool)):
        y = layer(x, masked)
        found.append([y, *torch.autograd.grad((y * tokens(2, 11, seed=1)).sum(), list(layer.parameters()))])
    assert [scan["alpha"].shape[1] for scan in scans] == [3, 11]
    for value, expected in zip(*found, strict=True):
        close(value, expected)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_masked_token_keeps_the_weights_and_ends_past_surprise(depth: int) -> None:
    """No gates leave both weights and momentum as they are: W_t adds S_t, whatever eta carries on."""
    layer, x = make_layer(memory_conv=False, memory_depth=depth), tokens(2, 4)
    _, before = layer.step(x)
    _, after = layer.step(x, before, masked=torch.ones(2, 4, dtype=torch.bool))
    for a, b, s in zip(after.memory.weights, before.memory.weights, after.memory.momentum, strict=True):
        close(a, b)
        assert (s == 0).all()


def test_what_a_masked_token_holds_does_not_matter() -> None:
    layer, x = make_layer(memory_conv=False), tokens(2, 9)
    masked = torch.tensor([0, 1, 1, 0, 0, 0, 1, 0, 0]).bool()
    other = torch.where(masked[:, None], 1e6 * tokens(2, 9, seed=1), x)
    close(layer(other, masked.expand(2, -1))[:, ~masked], layer(x, masked.expand(2, -1))[:, ~masked])


# Numbers


@pytest.mark.parametrize("depth", [1, 2])
def test_gradients_are_exact_where_all_keys_are_zero(depth: int) -> None:
    """kernel-traps 19: normalising what can be exactly zero."""
    layer, x = make_layer(memory_depth=depth, memory_conv=False), tokens(1, 3)
    weight = torch.zeros_like(layer.project_qkv.weight)

    def loss(weight: Tensor) -> Tensor:
        y = torch.func.functional_call(layer, {"project_qkv.weight": weight}, (x,))
        return (y * tokens(1, 3, seed=1)).sum()

    gradient = torch.func.grad(loss)(weight)
    assert gradient.isfinite().all()
    step = 1e-8  # below NORM_EPS ** 0.5 = 1e-3 by so much that a central difference is good to 1e-5
    columns = torch.eye(weight.numel(), dtype=torch.float64)[::7].unflatten(1, weight.shape)
    with torch.no_grad():
        difference = torch.stack([(loss(step * d) - loss(-step * d)) / (2 * step) for d in columns])
    expected = torch.stack([(gradient * d).sum() for d in columns])
    assert expected.abs().max() > 1, "the zero must not be trivial"
    torch.testing.assert_close(difference, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("x", ["zero", "constant"])
def test_a_flat_sequence_has_finite_gradients(depth: int, x: str) -> None:
    layer = make_layer(torch.float32, memory_depth=depth)
    flat = torch.zeros(2, 12, D_MODEL) if x == "zero" else tokens(2, 1, dtype=torch.float32).repeat(1, 12, 1)
    flat.requires_grad_()
    layer(flat).square().sum().backward()
    assert flat.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    assert (flat.grad != 0).any() == (x != "zero")  # nothing is read of nothing


@pytest.mark.parametrize("depth", [1, 2])
def test_the_largest_steps_keep_the_memory_alive(depth: int) -> None:
    """512 equal tokens at the bound of theta, where each chunk's surprises all add up."""
    layer = make_layer(torch.float32, memory_depth=depth)
    with torch.no_grad():
        layer.project_gates.weight.zero_()
        layer.project_gates.bias.view(3, HEADS)[2] = 10.0  # what a token asks for is all there is
        y, state = layer.step(tokens(2, 1, dtype=torch.float32).expand(-1, 512, -1))
    assert y.isfinite().all()
    for w, start in zip(state.memory.weights, layer.initial, strict=True):
        ratio = w.norm() / (2**0.5 * start.norm())  # two samples
        assert 1e-3 < ratio < 1e3


def test_runs_in_automatic_mixed_precision() -> None:
    layer, x = make_layer(torch.float32), tokens(2, 11, dtype=torch.float32)
    exact = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer.step(x[:, :6])
        rest, state = layer.step(x[:, 6:], state)
    assert state.memory.weights[0].dtype == torch.float32
    # bfloat16 keeps 8 bits: 0.4% of each factor, through four products.
    error = (torch.cat([y, rest], dim=1).float() - exact).abs().max()
    assert 0 < error < 0.03 * exact.abs().max()
    (y.float().sum() + rest.float().sum()).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


# CausalConv


@pytest.mark.parametrize("T", [1, 2, 3, 4, 7])
def test_convolution_equals_a_grouped_one(T: int) -> None:
    conv, x = CausalConv(5).double(), torch.randn(2, T, 5, dtype=torch.float64, requires_grad=True)
    weight = conv.weight.detach().T.unsqueeze(1).clone().requires_grad_()
    bias = conv.bias.detach().clone().requires_grad_()
    expected = conv1d(pad(x.mT, (3, 0)), weight, bias, groups=5).mT
    found, rows = conv(x)
    close(found, expected)
    assert torch.equal(rows, pad(x, (0, 0, 3, 0))[:, -3:])
    cotangent = torch.randn(2, T, 5, dtype=torch.float64)
    gradients = torch.autograd.grad(found, (x, conv.weight, conv.bias), cotangent)
    wanted = torch.autograd.grad(expected, (x, weight, bias), cotangent)
    close(gradients[0], wanted[0])
    close(gradients[1], wanted[1].squeeze(1).T)
    close(gradients[2], wanted[2])


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_convolution_carries_its_rows(at: int) -> None:
    conv, x = CausalConv(5).double(), torch.randn(2, 7, 5, dtype=torch.float64)
    whole, expected = conv(x)
    left, rows = conv(x[:, :at])
    right, rows = conv(x[:, at:], rows)
    close(torch.cat([left, right], dim=1), whole)
    assert torch.equal(rows, expected)


def test_convolution_is_the_same_where_it_runs_as_shifted_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other devices than a CPU do."""
    conv, x = CausalConv(5).double(), torch.randn(2, 7, 5, dtype=torch.float64, requires_grad=True)
    inputs, cotangent = (x, conv.weight, conv.bias), torch.randn(2, 7, 5, dtype=torch.float64)
    expected = conv(x)[0]
    gradients = torch.autograd.grad(expected, inputs, cotangent)
    monkeypatch.setattr("titans_ts.model.memory.IMAGE_DEVICE", "none")
    found = conv(x)[0]
    close(found, expected)
    for value, wanted in zip(torch.autograd.grad(found, inputs, cotangent), gradients, strict=True):
        close(value, wanted)


def test_a_second_derivative_is_refused() -> None:
    layer, x = make_layer(), tokens(2, 6).requires_grad_()
    (first,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    assert first.count_nonzero() > 0
    with pytest.raises(RuntimeError, match="differentiate twice"):
        first.sum().backward()
