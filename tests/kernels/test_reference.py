"""The oracle against routes of its own: numbers by hand, NumPy, finite differences. Never against a sibling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.kernels import MemoryState, memory_scan

Inputs = dict[str, Any]

# Two float64 sums of a few terms in another order.
ROUNDING = 1e-14
# A central difference with step 1e-5: 1e-10 by its third-order term, 1e-11 by cancellation, times a few.
DIFFERENCE = 1e-8


def surprise(inputs: Inputs) -> tuple[Tensor, ...]:
    """The u of one token, by `memory_scan`: with theta = 1 and nothing before it, the momentum afterwards is -u."""
    one = torch.ones_like(inputs["theta"])
    _, after = memory_scan(**inputs | {"theta": one}, chunk_size=4, return_state=True, backend="reference")
    return tuple(-s for s in after.momentum)


def test_surprise_of_one_layer_is_the_outer_product(make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=1, depth=1)
    W, k, v = inputs["weights"][0], inputs["k"][:, 0], inputs["v"][:, 0]
    error = torch.einsum("bhi,hij->bhj", k, W) - v
    expected = torch.einsum("bhi,bhj->bhij", k, 2 * error)
    torch.testing.assert_close(surprise(inputs)[0], expected, rtol=ROUNDING, atol=ROUNDING)


# kernel-traps 20: two implementations can share one wrong formula and agree.
@pytest.mark.parametrize("depth", [2, 3])
def test_surprise_equals_finite_differences(depth: int, make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(B=1, T=1, H=1, depth=depth)
    weights = [w[0].numpy().copy() for w in inputs["weights"]]
    k, v = inputs["k"].flatten().numpy(), inputs["v"].flatten().numpy()

    def loss() -> float:
        x = k
        for w in weights[:-1]:
            x = x @ w
            x = x / (1 + np.exp(-x))
        return ((x @ weights[-1] - v) ** 2).sum()

    step = 1e-5
    for w, u in zip(weights, surprise(inputs), strict=True):
        expected = np.empty_like(w)
        for index in np.ndindex(*w.shape):
            kept = w[index]
            w[index] = kept + step
            above = loss()
            w[index] = kept - step
            below = loss()
            w[index] = kept
            expected[index] = (above - below) / (2 * step)
        np.testing.assert_allclose(u[0, 0].numpy(), expected, rtol=DIFFERENCE, atol=DIFFERENCE)


# One weight, W_0 = 2, and two tokens; u = 2 k (k W - v), every number exact in binary.
#   t = 1: u = 2, S = -2/4 = -1/2, W = 2/2 - 1/2 = 1/2 (and + 2/2 towards W_0), y = 3 W
#   t = 2: u = 8 C with the chunk's C, S = -1/4 - u/8, W = 3/4 W + S (and + 2/4 towards W_0), y = W
TWO_TOKENS = {
    "q": [3.0, 1.0],
    "k": [1.0, 2.0],
    "v": [1.0, 0.0],
    "alpha": [0.5, 0.25],
    "eta": [0.75, 0.5],
    "theta": [0.25, 0.125],
}


@pytest.mark.parametrize(
    ("chunk_size", "decay_to", "y", "momentum"),
    [
        (1, "zero", [1.5, -0.375], -0.75),  # C = W_1 = 1/2
        (2, "zero", [1.5, -1.875], -2.25),  # C = W_0 = 2: the surprise of a chunk's start
        (1, "init", [4.5, -0.125], -1.75),  # C = W_1 = 3/2
        (2, "init", [4.5, -0.625], -2.25),
    ],
)
def test_two_tokens_by_hand(chunk_size: int, decay_to: str, y: list[float], momentum: float) -> None:
    sequences = {name: torch.tensor(x, dtype=torch.float64).view(1, 2, 1) for name, x in TWO_TOKENS.items()}
    for name in ("q", "k", "v"):
        sequences[name] = sequences[name].unsqueeze(-1)
    weights = (torch.tensor([[[2.0]]], dtype=torch.float64),)
    outputs, after = memory_scan(
        **sequences,
        weights=weights,
        chunk_size=chunk_size,
        return_state=True,
        decay_to=decay_to,
        backend="reference",
    )
    assert outputs.flatten().tolist() == y
    assert after.weights[0].item() == y[-1]
    assert after.momentum[0].item() == momentum
    assert after.offset == 0


def test_momentum_crosses_chunk_borders(make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=6)
    zero, one = torch.zeros_like(inputs["theta"]), torch.ones_like(inputs["theta"])
    only_first = torch.cat([one[:, :1], zero[:, 1:]], dim=1)
    u = surprise({name: x[:, :1] if isinstance(x, Tensor) else x for name, x in inputs.items()})
    # Nothing forgets and no surprise fades: the first one is written once per token, through three chunks.
    _, after = memory_scan(
        **inputs | {"alpha": zero, "eta": one, "theta": only_first},
        chunk_size=2,
        return_state=True,
        backend="reference",
    )
    for w, s, w_0, u_1 in zip(after.weights, after.momentum, inputs["weights"], u, strict=True):
        torch.testing.assert_close(s, -u_1, rtol=ROUNDING, atol=ROUNDING)
        torch.testing.assert_close(w, w_0 - 6 * u_1, rtol=ROUNDING, atol=ROUNDING)


def test_chunk_start_is_what_a_state_in_mid_chunk_surprises_with(make_inputs: Callable[..., Inputs]) -> None:
    inputs = make_inputs(T=1, offset=2)
    state = inputs["state"]
    assert isinstance(state, MemoryState)
    u = surprise(inputs | {"weights": tuple(w[0] for w in state.chunk_start), "state": None})
    _, after = memory_scan(**inputs, chunk_size=4, return_state=True, backend="reference")
    eta, theta = (inputs[name][0, 0, :, None, None] for name in ("eta", "theta"))
    for s, s_0, u_1 in zip(after.momentum, state.momentum, u, strict=True):
        torch.testing.assert_close(s[0], eta * s_0[0] - theta * u_1[0], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("decay_to", ["zero", "init"])
@pytest.mark.parametrize("depth", [1, 2])
def test_outer_gradients_equal_finite_differences(
    depth: int, decay_to: str, make_inputs: Callable[..., Inputs]
) -> None:
    inputs = make_inputs(B=1, T=3, H=1, D=2, depth=depth, expansion=1)
    inputs["alpha"][:, 1], inputs["eta"][:, 2] = 1, 0
    sequences = [inputs[name].requires_grad_() for name in ("q", "k", "v", "alpha", "eta", "theta")]
    weights = [w.requires_grad_() for w in inputs["weights"]]

    def values(*tensors: Tensor) -> tuple[Tensor, ...]:
        y, after = memory_scan(
            *tensors[:6],
            tensors[6:],
            chunk_size=2,
            return_state=True,
            decay_to=decay_to,
            backend="reference",
        )
        return (y, *after.weights, *after.momentum)

    assert torch.autograd.gradcheck(values, (*sequences, *weights), fast_mode=False)
