"""The tables of a segment's gates, and their gradients, by their definitions in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_gates

GATES = ("alpha", "eta", "theta")
ROUNDING = 1e-6  # float32 products of up to 9 gates, and sums of them, in another order


# 5: no power is divided by and no logarithm taken, so the derivatives at 0 are the products of the other gates.
@pytest.mark.parametrize(
    "ends", [(None, None, None), ("sprinkled", None, "sprinkled"), (1.0, 0.0, 1.0), (0.0, 1.0, 0.0)], ids=str
)
def test_tables_of_gates_and_their_gradients_are_those_of_the_products(
    ends: tuple[float | str | None, ...], device: torch.device
) -> None:
    B, T, H, C, chunk_size, offset, together = 2, 19, 1, 16, 9, 5, 4
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).to(device)

    def unfilled(*shape: int) -> Tensor:
        return torch.empty(shape, device=device)

    gates = [random(B, T, H) for _ in GATES]
    for i, end in enumerate(ends):
        if end == "sprinkled":
            gates[i] = (3 * gates[i] - 1).clamp(0, 1)
        elif end is not None:
            gates[i] = torch.full_like(gates[i], end)
    lengths = [chunk_size - offset, chunk_size, T - 2 * chunk_size + offset]
    segments = B * len(lengths)
    programs = -(-segments // together)
    assert programs * together > segments  # the last program has fewer
    sizes = (segments, H, T, len(lengths), offset, chunk_size, *(s for gate in gates for s in gate.stride()))
    A, table = unfilled(segments, C, C), unfilled(segments, 4, C)
    triton_gates.gates_forward[(programs,)](*gates, A, table, *sizes, C=C, M=together)
    dA, dtable, scratch = random(segments, C, C), random(segments, 4, C), unfilled(segments, C, C)
    dtable[:, 2, :-1] = 0  # of what is left of the momentum, only the last is used
    gradients = [torch.empty_like(gate) for gate in gates]
    triton_gates.gates_backward[(programs,)](*gates, A, table, dA, dtable, scratch, *gradients, *sizes, C=C, M=together)

    leaves = [gate.double().requires_grad_() for gate in gates]
    exact = [
        products(*parts, C)
        for sample in range(B)
        for parts in zip(*(x[sample, :, 0].split(lengths) for x in leaves), strict=True)
    ]
    exact_A, exact_table = (torch.stack(x) for x in zip(*exact, strict=True))
    torch.testing.assert_close(A.double(), exact_A, rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(table.double(), exact_table, rtol=ROUNDING, atol=ROUNDING)
    exact_gradients = torch.autograd.grad((exact_A * dA).sum() + (exact_table * dtable).sum(), leaves)
    for gradient, expected in zip(gradients, exact_gradients, strict=True):
        scale = expected.abs().max().item()
        torch.testing.assert_close(gradient.double(), expected, rtol=ROUNDING, atol=ROUNDING * scale)


def products(alpha: Tensor, eta: Tensor, theta: Tensor, lanes: int) -> tuple[Tensor, Tensor]:
    """A (lanes, lanes) and the table of b, a, e and D_n (4, lanes) of a segment's tokens, by their definitions."""
    n = len(alpha)

    def left(gate: Tensor, t: int) -> Tensor:
        """Of each token s, what the gates after it have left by token t; zero where s is later."""
        return torch.stack([gate[s + 1 : t + 1].prod() if s <= t else torch.zeros_like(gate[0]) for s in range(n)])

    L_b, L_e = (torch.stack([left(gate, t) for t in range(n)]) for gate in (1 - alpha, eta))
    A = (L_b @ L_e) * theta
    b, e = (torch.stack([gate[: t + 1].prod() for t in range(n)]) for gate in (1 - alpha, eta))
    a = L_b @ e
    last = torch.tensor(
        [*range(n), *(lanes - n) * [n - 1]], device=alpha.device
    )  # the lanes past the end keep what the last token left
    none = alpha.new_zeros(lanes - n)
    A = torch.cat([A[last], none.expand(lanes, -1)], dim=1)
    return A, torch.stack([b[last], a[last], e[last], torch.cat([L_e[-1] * theta, none])])
