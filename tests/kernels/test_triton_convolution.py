"""The kernels of a layer's convolution: values and gradients against plain PyTorch in float64.

They run on a GPU where there is one, else in triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad, silu

from titans_ts.kernels import convolution_kernel
from titans_ts.model import ModelConfig, NeuralMemory

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_convolution

pytestmark = pytest.mark.skipif(
    not triton_convolution.INTERPRETED and not torch.cuda.is_available(), reason="needs a GPU or triton's interpreter"
)

DEVICE = torch.device("cpu" if triton_convolution.INTERPRETED else "cuda")
EPS = 1e-6
NAMES = ("q", "k", "v", "gradient by x", "gradient by weight", "gradient by bias")
# Sums of four float32 products, over at most 77 rows in a gradient, and a sigmoid; there are no products of matrices.
SINGLE = 1e-5
HALF = 2e-3  # inputs and outputs are rounded once each, by half of float16's epsilon
Inputs = tuple[Tensor, Tensor, Tensor]


def plain(x: Tensor, weight: Tensor, bias: Tensor, heads: int, before: int, eps: float) -> list[Tensor]:
    """Token by token, as the layer's own convolution defines it."""
    width = len(weight)
    padded = pad(x, (0, 0, width - 1, 0))
    rows = [bias + sum(weight[j] * padded[:, t + j] for j in range(width)) for t in range(before, x.shape[1])]
    q, k, v = silu(torch.stack(rows, dim=1)).unflatten(-1, (3, heads, -1)).unbind(2)
    return [*(y / (y.square().sum(-1, keepdim=True) + eps).sqrt() for y in (q, k)), v]


def inputs(length: int, heads: int = 2, head_dim: int = 5, batch: int = 2, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    channels = 3 * heads * head_dim
    shapes = ((batch, length, channels), (4, channels), (channels,))
    x, weight, bias = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    return x, weight, bias


def waves(y: Tensor) -> Tensor:
    return torch.arange(y.numel(), dtype=y.dtype, device=y.device).sin().view(y.shape)


def everything(
    run: Callable[..., Any],
    given: Inputs,
    *options: Any,
    scalar_of: Callable[[Tensor], Tensor] = lambda y: (waves(y) * y).sum(),
) -> dict[str, Tensor]:
    leaves = [x.detach().requires_grad_() for x in given]
    out = run(*leaves, *options)
    gradients = torch.autograd.grad(sum(scalar_of(y) for y in out), leaves)
    return dict(zip(NAMES, [*(y.detach() for y in out), *gradients], strict=True))


def assert_close(values: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    for name, x in expected.items():
        scale = x.abs().max().clamp(min=0.1)
        assert (values[name].double() - x.double()).abs().max() <= tolerance * scale, name


def check(given: Inputs, heads: int = 2, before: int = 0, tolerance: float = SINGLE) -> dict[str, Tensor]:
    expected = everything(plain, tuple(x.double() for x in given), heads, before, EPS)  # type: ignore[arg-type]
    values = everything(triton_convolution.convolve, given, heads, before, EPS)
    assert_close(values, expected, tolerance)
    return values


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 17])
@pytest.mark.parametrize("before", [0, 3])
def test_equals_plain_pytorch(before: int, tokens: int) -> None:
    check(inputs(before + tokens), before=before)


@pytest.mark.parametrize(("heads", "head_dim"), [(1, 3), (1, 16), (3, 8), (2, 33)])
def test_equals_plain_pytorch_at_any_width(heads: int, head_dim: int) -> None:
    check(inputs(7, heads, head_dim), heads)


def test_equals_plain_pytorch_where_a_program_has_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_convolution, "TILE", 16 * 8)
    monkeypatch.setattr(triton_convolution, "PROGRAMS", 2)
    given = inputs(11, heads=1, batch=7)  # 77 rows are 5 blocks of 16, of 2 programs
    values = check(given, heads=1)
    monkeypatch.undo()
    for name, x in check(given, heads=1).items():
        assert torch.allclose(values[name], x, rtol=SINGLE, atol=SINGLE), name


# The dtype of what comes out is that of what comes in; the inside is float32.
def test_halves() -> None:
    x, weight, bias = inputs(9)
    values = check((x.half(), weight, bias), tolerance=HALF)
    assert {values[name].dtype for name in ("q", "k", "v", "gradient by x")} == {torch.float16}
    assert {values[name].dtype for name in ("gradient by weight", "gradient by bias")} == {torch.float32}


def test_zeros_have_gradients() -> None:
    x, weight, bias = inputs(5)
    values = check((torch.zeros_like(x), weight, torch.zeros_like(bias)))  # as plain PyTorch has them
    assert values["gradient by bias"].count_nonzero() > 0


@pytest.mark.parametrize(
    "change",
    [lambda x: x[:, ::2], lambda x: x[:1].expand(3, -1, -1), lambda x: x.mT.contiguous().mT, lambda x: x[..., ::2]],
    ids=["rows", "expanded", "turned", "channels"],
)
def test_any_layout(change: Callable[[Tensor], Tensor]) -> None:
    x, _, _ = inputs(12, head_dim=8)
    x = change(x)
    _, weight, bias = inputs(1, head_dim=x.shape[-1] // 6)
    given = (x, weight, bias)
    values = everything(triton_convolution.convolve, given, 2, 0, EPS, scalar_of=Tensor.sum)  # its gradient is expanded
    expected = everything(
        triton_convolution.convolve, tuple(x.contiguous() for x in given), 2, 0, EPS, scalar_of=Tensor.sum
    )  # type: ignore[arg-type]
    for name, x in expected.items():
        assert torch.equal(values[name], x), name


def test_what_lies_around_changes_no_bit_and_all_is_written(request: pytest.FixtureRequest) -> None:
    given = inputs(9)
    expected = everything(triton_convolution.convolve, given, 2, 3, EPS)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()  # what that does to new tensors
    surrounded = []
    for x in given:
        buffer = x.new_full([n + 8 for n in x.shape], torch.nan)
        middle = buffer[tuple(slice(4, 4 + n) for n in x.shape)]
        surrounded.append(middle.copy_(x))
    weight, bias = (x.contiguous() for x in surrounded[1:])  # parameters are
    values = everything(triton_convolution.convolve, (surrounded[0], weight, bias), 2, 3, EPS)
    for name, x in expected.items():
        assert torch.equal(values[name], x), name


def test_is_an_operator_for_torch() -> None:
    given = tuple(x.requires_grad_() for x in inputs(6))
    torch.library.opcheck(torch.ops.titans_ts.short_convolution.default, (*given, 2, 3, EPS))
    q, k, v = torch.compile(triton_convolution.convolve, fullgraph=True, backend="aot_eager")(*given, 2, 3, EPS)
    assert all(map(torch.equal, (q, k, v), triton_convolution.convolve(*given, 2, 3, EPS)))


def test_a_gradient_of_the_gradient_raises() -> None:
    x, weight, bias = (x.requires_grad_() for x in inputs(6))
    q, _, _ = triton_convolution.convolve(x, weight, bias, 2, 0, EPS)
    (gradient,) = torch.autograd.grad(q.sin().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(gradient.sum(), x)


# Where it runs


def test_is_taken_where_the_backend_runs_kernels() -> None:
    x, _, _ = inputs(3)
    assert convolution_kernel(x, 2, "triton") is triton_convolution.convolve
    for backend in ("chunkwise", "reference"):
        assert convolution_kernel(x, 2, backend) is None
    assert convolution_kernel(x.double(), 2, "triton") is None
    assert convolution_kernel(x[:, :0], 2, "triton") is None
    wide = torch.zeros(1, 2, 3 * (triton_convolution.WIDEST + 1), device=DEVICE)
    assert convolution_kernel(wide, 1, "triton") is None
    assert convolution_kernel(x.cpu(), 2, "auto") is None


def test_needs_a_gpu_without_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_convolution, "INTERPRETED", False)
    assert convolution_kernel(inputs(3)[0].cpu(), 2, "triton") is None


@pytest.mark.parametrize("depth", [1, 2])
def test_a_layer_is_what_it_is_without_kernels(depth: int, tolerances: Any) -> None:
    config = ModelConfig(lookback=20, horizon=1, d_model=16, n_heads=2, memory_depth=depth, chunk_size=4)
    torch.manual_seed(0)
    layers = [NeuralMemory(config, backend=backend).to(DEVICE) for backend in ("triton", "chunkwise")]
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(2, 11, 16).to(DEVICE)
    found = []
    for layer in layers:
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        parts, state = [], None
        for part in x.split([2, 1, 8], dim=1):
            out, state = layer.step(part, state)
            parts.append(out)
        gradients = torch.autograd.grad(y.sin().sum(), [leaf, *layer.parameters()])
        assert state is not None
        assert state.conv is not None
        found.append([y, torch.cat(parts, dim=1), state.conv, *gradients])
    for value, expected in zip(*found, strict=True):
        scale = expected.abs().max().item()
        assert (value - expected).abs().max() <= tolerances.gradients * scale
