"""What stands around the blocks: instance norm, cycle, patches, linear path, head.

Sources: RevIN (Kim et al., 2022) without its affine map, CycleNet (Lin et al., 2024), PatchTST (Nie et al., 2023),
DLinear (Zeng et al., 2023). Everything here sees one row per sample, a sample being one channel of one window.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

MOST_COPIED = 2**28  # weights, where each sample is given those of its series


class WindowStats(NamedTuple):
    """Level and scale of each window, (samples, 1)."""

    mean: Tensor
    std: Tensor


class InstanceNorm(nn.Module):
    """Take a window's level away and, if asked, its scale.

    Parameters
    ----------
    scale : bool
        Divide by the window's standard deviation too.
    """

    EPS = 0.01  # of a variance, where a series' own is 1: a window that hardly moves is not blown up

    def __init__(self, scale: bool) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, WindowStats]:
        """Normalise `x` (samples, lookback); where `mask` is False a value counts for nothing and becomes 0."""
        if mask is None:
            mean = x.mean(-1, keepdim=True)
            z = x - mean
            count: Tensor | int = x.shape[-1]
        else:
            count = mask.sum(-1, keepdim=True).clamp(min=1)
            mean = torch.where(mask, x, 0).sum(-1, keepdim=True) / count
            z = torch.where(mask, x - mean, 0)
        if not self.scale:
            return z, WindowStats(mean, torch.ones_like(mean))
        std = (z.square().sum(-1, keepdim=True) / count + self.EPS).sqrt()
        return z / std, WindowStats(mean, std)

    @staticmethod
    def inverse(z: Tensor, stats: WindowStats) -> Tensor:
        """Give `z` (samples, any) the level and scale back."""
        return z * stats.std + stats.mean


class Cycle(nn.Module):
    """A learnable profile of `period` steps for each series; absolute steps give its phase.

    Source: CycleNet (Lin et al., 2024), section 3.
    """

    def __init__(self, n_series: int, period: int) -> None:
        super().__init__()
        self.period = period
        self.profile = nn.Parameter(torch.zeros(n_series, period))

    def forward(self, series: Tensor, step: Tensor, length: int) -> Tensor:
        """The profile over `length` steps from `step` on: (samples,), (samples,) -> (samples, length)."""
        phase = (step.unsqueeze(-1) + torch.arange(length, device=step.device)) % self.period
        index = series.unsqueeze(-1) * self.period + phase
        # An embedding, because the gradient of plain indexing adds in an order that varies between CPU runs.
        return embedding(index, self.profile.view(-1, 1)).squeeze(-1)

    def means(self, n_series: int, step: Tensor, lookback: int, parts: list[tuple[int, int]]) -> Tensor:
        """Of each series' profile, over `parts` (near, far) of the `lookback` steps from `step` (samples,) on.

        (samples, n_series, parts); each part lies from `far` steps before the end of the lookback to `near` before it.
        """
        steps = torch.arange(self.period + lookback, device=step.device) % self.period
        total = pad(self.profile[:n_series, steps].double().cumsum(1), (1, 0))
        begin = torch.arange(self.period, device=step.device) + lookback
        means = [(total[:, begin - near] - total[:, begin - far]) / (far - near) for near, far in parts]
        return torch.stack(means, dim=-1).transpose(0, 1).to(self.profile.dtype)[step % self.period]


class LinearPath(nn.Module):
    """A linear map lookback -> horizon, zero at first; `closed_form_start` solves for it.

    The map is one for all series or, with `n_series`, that and one of each series' own, which training leaves as it is.
    A number beyond the series' has none. With `level` the last row of each series' weights is for the window's level.
    """

    own: Tensor | None

    def __init__(self, lookback: int, horizon: int, n_series: int = 0, level: bool = False) -> None:
        super().__init__()
        self.level = level
        self.weight = nn.Parameter(torch.zeros(lookback, horizon))
        self.register_buffer("own", torch.zeros(n_series, lookback + level, horizon) if n_series else None)

    def forward(self, z: Tensor, series: Tensor | None = None, level: Tensor | None = None) -> Tensor:
        """(samples, lookback), (samples,), (samples, 1) -> (samples, horizon)"""
        y = z @ self.weight
        if self.own is None:
            return y
        if series is None:
            raise ValueError("`series` must say which series each sample is of: the linear path has weights of each.")
        return y + _by_series(self.read_by_own(z, level), series.unsqueeze(-1), self.own)

    def read_by_own(self, z: Tensor, level: Tensor | None) -> Tensor:
        """What each series' own weights are multiplied with: `z`, and the level where they have a row for it."""
        if not self.level:
            return z
        if level is None:
            raise ValueError("`level` must be given: the linear path has weights for the windows' level.")
        return torch.cat([z, level], dim=-1)


def spans(lookback: int) -> list[tuple[int, int]]:
    """Parts of a window, from so many steps before its end back to so many: each twice the one before, then the whole.

    (0, 1), (1, 2), (2, 4), (4, 8), ..., (., lookback), (0, lookback)
    """
    ends = [min(2**k, lookback) for k in range((lookback - 1).bit_length() + 1)]
    return [*zip([0, *ends], ends, strict=False), (0, lookback)]


class AcrossPath(nn.Module):
    """A linear map from what all series did lately to each one's horizon, zero at first; training leaves it as it is.

    Of each series it reads the means over the window's `spans`, less the mean over the window. With `harmonics` of a
    `period` the map varies with the absolute step, and is one of 1, cos and sin of each.

    Source: the periodic autoregressions of Pagano (1978), of many series.
    """

    weight: Tensor
    waves: Tensor

    def __init__(self, n_series: int, lookback: int, horizon: int, period: int = 0, harmonics: int = 0) -> None:
        super().__init__()
        self.spans = spans(lookback)
        self.period = period if harmonics else 1
        self.register_buffer("waves", _waves(self.period, harmonics), persistent=False)
        self.n_inputs = n_series * (len(self.spans) - 1) * self.waves.shape[1]
        self.register_buffer("weight", torch.zeros(n_series, self.n_inputs, horizon))

    def read(self, means: Tensor, step: Tensor) -> Tensor:
        """What the weights are for, (windows, n_inputs), in windows from `step` (windows,) on.

        Of means (windows, n_series, spans); one that is NaN counts for nothing.
        """
        off = (means[..., :-1] - means[..., -1:]).nan_to_num(0.0).flatten(1)
        return (self.waves[step % self.period].unsqueeze(2) * off.unsqueeze(1)).flatten(1)

    def forward(self, read: Tensor, series: Tensor) -> Tensor:
        """(windows, n_inputs), (windows, channels) -> (windows * channels, horizon); 0 for a series without weights."""
        return _by_series(read, series, self.weight)


def _waves(period: int, harmonics: int) -> Tensor:
    """1, cos and sin of so many harmonics at each step of a period: (period, 1 + 2 harmonics)."""
    angle = (
        2 * math.pi / period * torch.arange(period, dtype=torch.float64).unsqueeze(1) * torch.arange(1, harmonics + 1)
    )
    return torch.cat([torch.ones(period, 1), angle.cos(), angle.sin()], dim=1).float()


def _by_series(z: Tensor, series: Tensor, weights: Tensor) -> Tensor:
    """Each row of `z` by the weights of each series that `series` (rows, channels) names: (rows * channels, outputs).

    One product for each series, so that no row needs a copy of them; but in training on a GPU a copy it is, which
    unlike the number of rows of each series need not be waited for, so that the step can be recorded.
    """
    known, channels = len(weights), series.shape[1]
    numbers = series.flatten()
    if z.is_cuda and torch.is_grad_enabled() and len(numbers) * weights[0].numel() <= MOST_COPIED:
        return _by_copies(z.repeat_interleave(channels, dim=0), numbers, weights)
    numbers = numbers.where((numbers >= 0) & (numbers < known), known)
    order = numbers.argsort(stable=True)
    counts = numbers.bincount(minlength=known + 1).tolist()
    parts = z[order // channels].split(counts)
    rows = [part @ weight for part, weight in zip(parts, weights, strict=False) if len(part)]
    rows.append(z.new_zeros(counts[known], weights.shape[-1]))
    return torch.cat(rows)[order.argsort()]


def _by_copies(z: Tensor, numbers: Tensor, weights: Tensor) -> Tensor:
    """Each row of `z` by a copy of the weights of the series that `numbers` (rows,) names: (rows, outputs)."""
    known = (numbers >= 0) & (numbers < len(weights))
    own = weights[numbers.where(known, 0)]
    return torch.bmm(z.unsqueeze(1), own).squeeze(1).where(known.unsqueeze(1), 0.0)


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
        x = pad(x.unsqueeze(1), (0, self.stride), mode="replicate").squeeze(1)
        return x.unfold(-1, self.patch_len, self.stride)

    def forward(self, z: Tensor) -> Tensor:
        """(samples, lookback) -> (samples, tokens, d_model)"""
        out: Tensor = self.project(self.patches(z))
        return out

    def inert(self, mask: Tensor) -> Tensor:
        """Tokens that hold no real value: (samples, lookback) -> (samples, tokens)."""
        return ~self.patches(mask.float()).bool().any(-1)


class Dropout(nn.Dropout):
    """`nn.Dropout`, its random numbers drawn four at a time on a CPU, where one by one they take a tenth of a step.

    The probability is rounded to 16 bits, and what is kept is scaled by the rounded one.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or not self.training or self.p == 0:
            return super().forward(x)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        kept = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.ge(draws.view(torch.int16)[: x.numel()].view(x.shape), dropped - 2**15, out=kept)
        return x * kept.mul_(2**16 / (2**16 - dropped))


class FlattenHead(nn.Module):
    """All tokens to the horizon; zero at first, so that the deep branch starts by saying nothing."""

    def __init__(self, n_tokens: int, d_model: int, horizon: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.project = nn.Linear(n_tokens * d_model, horizon)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    @property
    def silent(self) -> bool:
        """Whether it says nothing, whatever it is given."""
        return not (self.project.weight.any() or self.project.bias.any())

    def forward(self, z: Tensor) -> Tensor:
        """(samples, tokens, d_model) -> (samples, horizon)"""
        out: Tensor = self.project(self.dropout(z.flatten(1)))
        return out
