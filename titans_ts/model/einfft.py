"""EinFFT: SiMBA's feature mixing in the frequency domain.

Source: SiMBA (Patro and Agneeswaran, 2024), section 3.2.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, softshrink


class EinFFT(nn.Module):
    """A complex two-layer perceptron on the spectrum over tokens and blocks of features.

    Parameters
    ----------
    d_model : int
        Width, a multiple of `n_blocks`.
    n_blocks : int
        Blocks of features; the perceptron is diagonal in them.
    """

    SHRINK = 0.01

    def __init__(self, d_model: int, n_blocks: int) -> None:
        super().__init__()
        self.n_blocks = n_blocks
        size = d_model // n_blocks
        self.first = ComplexBlockLinear(n_blocks, size)
        self.second = ComplexBlockLinear(n_blocks, size)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, d_model) -> the same; every token sees every other."""
        batch, tokens, d_model = x.shape
        blocks = self.n_blocks
        transform, inverse = (m.to(x.dtype) for m in _fourier(tokens, blocks, x.device))
        spectrum = transform @ x.reshape(batch, tokens * blocks, -1)  # (batch, 2 tokens blocks, size)
        z = spectrum.view(batch, 2, tokens, blocks, -1).permute(3, 0, 2, 1, 4)
        z = z.reshape(blocks, batch * tokens, -1)  # real and imaginary parts side by side
        z = softshrink(self.second(relu(self.first(z))), self.SHRINK)
        z = z.view(blocks, batch, tokens, 2, -1).permute(1, 3, 2, 0, 4)
        return (inverse @ z.reshape(batch, 2 * tokens * blocks, -1)).view(batch, tokens, d_model)


class ComplexBlockLinear(nn.Module):
    """One complex linear map for each block, real and imaginary parts side by side."""

    def __init__(self, n_blocks: int, size: int) -> None:
        super().__init__()
        scale = (2 * size) ** -0.5
        self.real = nn.Parameter(scale * torch.randn(n_blocks, size, size))
        self.imag = nn.Parameter(scale * torch.randn(n_blocks, size, size))
        self.bias = nn.Parameter(torch.zeros(2, n_blocks, size))

    def forward(self, z: Tensor) -> Tensor:
        """(blocks, rows, 2 size), real and imaginary parts side by side -> the same."""
        # As one real product: [real, imag] [[R, I], [-I, R]].
        weight = torch.cat([torch.cat([self.real, self.imag], -1), torch.cat([-self.imag, self.real], -1)], -2)
        bias = torch.cat([self.bias[0], self.bias[1]], -1).unsqueeze(1)  # (blocks, 1, 2 size)
        return torch.baddbmm(bias, z, weight)


@lru_cache(maxsize=16)
def _fourier(tokens: int, blocks: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The orthonormal 2-D DFT over tokens and blocks as real matrices, and the real part of its inverse.

    (2 n, n) and (n, 2 n), n = tokens * blocks. For tens of tokens products beat an FFT, and run in any precision.
    """

    def dft(n: int) -> Tensor:
        index = torch.arange(n, dtype=torch.float64)
        return torch.polar(torch.full((n, n), n**-0.5, dtype=torch.float64), -2 * torch.pi * index.outer(index) / n)

    with torch.inference_mode(False):  # what is kept must serve training too
        both = torch.kron(dft(tokens), dft(blocks))
        transform = torch.cat([both.real, both.imag])
        return transform.to(device), transform.T.contiguous().to(device)
