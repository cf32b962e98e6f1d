"""EinFFT: SiMBA's feature mixing in the frequency domain.

Source: SiMBA (Patro and Agneeswaran, 2024), section 3.2.
"""

from __future__ import annotations

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
        dtype = x.dtype
        x = x.float() if dtype in (torch.float16, torch.bfloat16) else x  # no FFT in half precision
        with torch.autocast(x.device.type, enabled=False):
            spectrum = torch.fft.fft2(x.unflatten(-1, (self.n_blocks, -1)), dim=(1, 2), norm="ortho")
            real, imag = self.first(spectrum.real, spectrum.imag)
            real, imag = self.second(relu(real), relu(imag))
            spectrum = torch.complex(softshrink(real, self.SHRINK), softshrink(imag, self.SHRINK))
            return torch.fft.ifft2(spectrum, dim=(1, 2), norm="ortho").real.flatten(2).to(dtype)


class ComplexBlockLinear(nn.Module):
    """One complex linear map for each block, real and imaginary parts side by side."""

    def __init__(self, n_blocks: int, size: int) -> None:
        super().__init__()
        scale = (2 * size) ** -0.5
        self.real = nn.Parameter(scale * torch.randn(n_blocks, size, size))
        self.imag = nn.Parameter(scale * torch.randn(n_blocks, size, size))
        self.bias = nn.Parameter(torch.zeros(2, n_blocks, size))

    def forward(self, real: Tensor, imag: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens, blocks, size) twice -> the same twice."""
        # As one real product: [real, imag] [[R, I], [-I, R]].
        weight = torch.cat([torch.cat([self.real, self.imag], -1), torch.cat([-self.imag, self.real], -1)], -2)
        x = torch.cat([real, imag], -1).permute(2, 0, 1, 3)  # (blocks, batch, tokens, 2 size)
        out = (x.flatten(1, 2) @ weight).unflatten(1, x.shape[1:3]).permute(1, 2, 0, 3)
        real, imag = out.chunk(2, dim=-1)
        return real + self.bias[0], imag + self.bias[1]
