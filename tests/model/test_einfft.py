"""EinFFT against the paper's formulas with plain DFT matrices and complex numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from titans_ts.model.einfft import ComplexBlockLinear, EinFFT, _fourier

# float64 sums of tens of terms in another order.
TOLERANCE = 1e-12


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(d_model: int, n_blocks: int) -> EinFFT:
    torch.manual_seed(0)
    layer = EinFFT(d_model, n_blocks).double()
    with torch.no_grad():
        layer.first.bias.normal_(std=0.1)
        layer.second.bias.normal_(std=0.1)
    return layer


def dft(n: int) -> Tensor:
    k = torch.arange(n, dtype=torch.float64)
    return torch.polar(torch.full((n, n), n**-0.5, dtype=torch.float64), -2 * math.pi * k[:, None] * k / n)


def by_hand(layer: EinFFT, x: Tensor) -> Tensor:
    """Both transforms as unitary matrices; the perceptron block by block in complex numbers."""
    over_tokens, over_blocks = dft(x.shape[1]), dft(layer.n_blocks)
    z = x.unflatten(-1, (layer.n_blocks, -1)).to(torch.complex128)  # (batch, tokens, blocks, size)
    z = torch.einsum("ut,cb,ntbs->nucs", over_tokens, over_blocks, z)
    for linear, after in ((layer.first, torch.relu), (layer.second, shrink)):
        weight, bias = torch.complex(linear.real, linear.imag), torch.complex(linear.bias[0], linear.bias[1])
        z = torch.stack([z[:, :, b] @ weight[b] + bias[b] for b in range(layer.n_blocks)], dim=2)
        z = torch.complex(after(z.real), after(z.imag))
    z = torch.einsum("tu,bc,nucs->ntbs", over_tokens.mH, over_blocks.mH, z)
    return z.real.flatten(2)


def shrink(x: Tensor) -> Tensor:
    return x.sign() * (x.abs() - 0.01).clamp(min=0)


@pytest.mark.parametrize("tokens", [1, 2, 12, 15])
@pytest.mark.parametrize("n_blocks", [1, 3, 4])
def test_equals_dft_matrices_and_complex_numbers(tokens: int, n_blocks: int) -> None:
    layer, x = make(12, n_blocks), normal(2, tokens, 12)
    torch.testing.assert_close(layer(x), by_hand(layer, x), rtol=TOLERANCE, atol=TOLERANCE)


def test_gradients_equal_those_of_dft_matrices_and_complex_numbers() -> None:
    layer, x = make(8, 4), normal(2, 5, 8).requires_grad_()
    inputs = (x, *layer.parameters())
    found = torch.autograd.grad((layer(x) * normal(2, 5, 8, seed=1)).sum(), inputs)
    expected = torch.autograd.grad((by_hand(layer, x) * normal(2, 5, 8, seed=1)).sum(), inputs)
    for value, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def test_samples_do_not_meet() -> None:
    layer, x = make(8, 4), normal(3, 5, 8)
    alone = torch.cat([layer(x[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(layer(x), alone, rtol=TOLERANCE, atol=TOLERANCE)


def test_mixed_precision_is_near_float32() -> None:
    layer, x = make(8, 4).float(), normal(2, 5, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    assert found.dtype == torch.bfloat16
    # Four products in a row, each rounded to 8 bits.
    torch.testing.assert_close(found.float(), layer(x.float()), rtol=0.02, atol=0.02)


def test_learns_after_a_first_pass_in_inference_mode() -> None:
    """The transform's matrices are kept from call to call."""
    layer, x = make(8, 4), normal(2, 7, 8)
    found = []
    for first_pass in (torch.inference_mode, torch.enable_grad):
        _fourier.cache_clear()
        with first_pass():
            layer(x)
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), layer.first.real)
        found.append(gradient)
    assert torch.equal(*found)
    assert (found[0] != 0).all()


def test_block_linear_is_a_complex_product() -> None:
    torch.manual_seed(0)
    linear = ComplexBlockLinear(3, 4).double()
    with torch.no_grad():
        linear.bias.normal_()
    x = torch.complex(normal(3, 10, 4), normal(3, 10, 4, seed=1))
    real, imag = linear(torch.cat([x.real, x.imag], -1)).chunk(2, dim=-1)
    weight, bias = torch.complex(linear.real, linear.imag), torch.complex(linear.bias[0], linear.bias[1])
    expected = x @ weight + bias.unsqueeze(1)
    torch.testing.assert_close(torch.complex(real, imag), expected, rtol=TOLERANCE, atol=TOLERANCE)


def test_block_linear_keeps_the_size_of_random_numbers() -> None:
    torch.manual_seed(0)
    linear = ComplexBlockLinear(4, 64).double()
    # Variance 1 in, 1 out; the sample's own spread is about 1%.
    assert linear(normal(4, 100, 128)).std().item() == pytest.approx(1, abs=0.03)
