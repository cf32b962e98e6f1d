"""The layers before and after the blocks: instance norm, cycle, patches, head.

Sources: RevIN (Kim et al., 2022) without its affine map, CycleNet (Lin et al., 2024), PatchTST (Nie et al., 2023).
Everything here sees one row per sample, a sample being one window of one series.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad


class WindowStats(NamedTuple):
    """Mean and scale of each window, (samples, 1)."""

    mean: Tensor
    std: Tensor


def centred(past: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Windows (samples, lookback) minus their means (samples, 1), and these; 0 and no part of a mean where masked."""
    if padding_mask is None:
        mean = past.mean(-1, keepdim=True)
        return past - mean, mean
    mean = torch.where(padding_mask, past, 0).sum(-1, keepdim=True) / padding_mask.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(padding_mask, past - mean, 0), mean


class InstanceNorm(nn.Module):
    """Take a window's mean away and, if asked, its scale.

    Parameters
    ----------
    scale : bool
        Divide by the window's standard deviation too.
    """

    EPS = 0.01  # of a variance, where that of a whole series is 1: a window that hardly moves is not blown up

    def __init__(self, scale: bool) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, WindowStats]:
        """Normalise `x` (samples, lookback); a value counts for nothing and becomes 0 where `padding_mask` is False."""
        z, mean = centred(x, padding_mask)
        if not self.scale:
            return z, WindowStats(mean, torch.ones_like(mean))
        count = x.shape[-1] if padding_mask is None else padding_mask.sum(-1, keepdim=True).clamp(min=1)
        std = (z.square().sum(-1, keepdim=True) / count + self.EPS).sqrt()
        return z / std, WindowStats(mean, std)

    @staticmethod
    def inverse(z: Tensor, stats: WindowStats) -> Tensor:
        """Give `z` (samples, any, outputs) the mean and scale back."""
        return z * stats.std.unsqueeze(-1) + stats.mean.unsqueeze(-1)


class Cycle(nn.Module):
    """A learnable seasonal profile of `period` steps for each series; the time index gives its phase.

    `seasonal` is the share of the train rows' profiles that they began at, 0 for none; a series first seen in
    prediction then has one too, of its rows.

    Source: CycleNet (Lin et al., 2024), section 3.
    """

    seasonal: Tensor

    def __init__(self, n_series: int, period: int) -> None:
        super().__init__()
        self.period = period
        self.profile = nn.Parameter(torch.zeros(n_series, period))
        self.register_buffer("seasonal", torch.zeros((), dtype=torch.float32))

    @torch.no_grad()
    def begin_at(self, profile: Tensor | None, share: float = 1.0) -> None:
        """Set the profiles to a share of `profile` (n_series, period), or to none."""
        if profile is None:
            self.profile.zero_()
        else:
            self.profile.copy_(share * profile)
        self.seasonal.fill_(share if self.profile.any() else 0.0)

    def forward(self, series: Tensor, time_index: Tensor, length: int, clock_shift: Tensor | None = None) -> Tensor:
        """The profile over `length` steps from `time_index` on: (samples,), (samples,) -> (samples, length).

        `clock_shift` (samples, length) are the steps by which local clocks are ahead.
        """
        steps = time_index.unsqueeze(-1) + torch.arange(length, device=time_index.device)
        phase = (steps if clock_shift is None else steps + clock_shift) % self.period
        index = series.unsqueeze(-1) * self.period + phase
        # An embedding, because the gradient of plain indexing adds in an order that varies between CPU runs.
        return embedding(index, self.profile.view(-1, 1)).squeeze(-1)

    def means(self, n_series: int, time_index: Tensor, lookback: int, spans: list[tuple[int, int]]) -> Tensor:
        """Means of each series' profile over `spans` (near, far) of the lookback from `time_index` (samples,) on.

        (samples, n_series, spans); each span lies from `far` steps before the end of the lookback to `near` before it.
        """
        steps = torch.arange(self.period + lookback, device=time_index.device) % self.period
        total = pad(self.profile[:n_series, steps].double().cumsum(1), (1, 0))
        begin = torch.arange(self.period, device=time_index.device) + lookback
        means = [(total[:, begin - near] - total[:, begin - far]) / (far - near) for near, far in spans]
        return torch.stack(means, dim=-1).transpose(0, 1).to(self.profile.dtype)[time_index % self.period]


def patches_of(x: Tensor, patch_len: int, stride: int) -> Tensor:
    """Overlapping patches whose last ones repeat the end: (samples, channels, lookback) -> (., ., tokens, patch_len)"""
    return pad(x, (0, stride), mode="replicate").unfold(-1, patch_len, stride)


class PatchEmbedding(nn.Module):
    """Cut a window into overlapping patches, its end padded by `stride` repeats, and embed each.

    Source: PatchTST (Nie et al., 2023), section 3.1.
    """

    def __init__(self, patch_len: int, stride: int, d_model: int) -> None:
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        self.project = nn.Linear(patch_len, d_model)

    def patches(self, x: Tensor) -> Tensor:
        """(samples, lookback) -> (samples, tokens, patch_len)"""
        return patches_of(x.unsqueeze(1), self.patch_len, self.stride).squeeze(1)

    def forward(self, z: Tensor) -> Tensor:
        """(samples, lookback) -> (samples, tokens, d_model)"""
        out: Tensor = self.project(self.patches(z))
        return out

    def masked(self, padding_mask: Tensor) -> Tensor:
        """Which tokens are padding alone: (samples, lookback) -> (samples, tokens)."""
        return ~self.patches(padding_mask.float()).bool().any(-1)


class Dropout(nn.Dropout):
    """`nn.Dropout`, its random numbers drawn four at a time on a CPU, where one by one they take a tenth of a step.

    The probability is rounded to 16 bits, and what is kept is scaled by the rounded one. Elsewhere it is `nn.Dropout`,
    whose numbers are those of the device's own generator.
    """

    generator: torch.Generator | None = None  # on a CPU; torch's own if None

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or not self.training or self.p == 0:
            return super().forward(x)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=self.generator)
        kept = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.ge(draws.view(torch.int16)[: x.numel()].view(x.shape), dropped - 2**15, out=kept)
        return x * kept.mul_(2**16 / (2**16 - dropped))


@contextmanager
def dropout_from(generator: torch.Generator, network: nn.Module) -> Iterator[None]:
    """Let the network's dropout draw from `generator` within the block, where it computes on a CPU."""
    layers = [module for module in network.modules() if isinstance(module, Dropout)]
    for layer in layers:
        layer.generator = generator
    try:
        yield
    finally:
        for layer in layers:
            layer.generator = None


class FlattenHead(nn.Module):
    """All tokens to the horizon; zero at first, so that the deep branch adds nothing to the linear path."""

    def __init__(self, n_tokens: int, d_model: int, horizon: int, dropout: float, n_outputs: int = 1) -> None:
        super().__init__()
        self.n_outputs = n_outputs
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(n_tokens * d_model, horizon * n_outputs)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    @property
    def is_zero(self) -> bool:
        """Whether the output is zero, whatever is read."""
        return not (self.project.weight.any() or self.project.bias.any())

    def forward(self, z: Tensor) -> Tensor:
        """(samples, tokens, d_model) -> (samples, horizon, outputs)"""
        out: Tensor = self.project(self.dropout(z.flatten(1)))
        forecast: Tensor = out.unflatten(-1, (-1, self.n_outputs))
        return forecast
