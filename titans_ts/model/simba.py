"""SimbaForecaster: normalise -> patch -> SimbaBlock x n -> head, beside a cycle and a linear path.

Sources: SiMBA (Patro and Agneeswaran, 2024) for the block, with Titans' memory (Behrouz et al., 2024) in place of
its Mamba; the parts around it as `parts` says.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.functional import gelu

from .config import ModelConfig
from .einfft import EinFFT
from .memory import NeuralMemory
from .mixers import Attention, Mamba
from .parts import AcrossPath, Cycle, Dropout, FlattenHead, InstanceNorm, LinearPath, PatchEmbedding

MIXERS: dict[str, type[NeuralMemory | Attention | Mamba]] = {
    "memory": NeuralMemory,
    "attention": Attention,
    "mamba": Mamba,
}


class NormalisedPair(NamedTuple):
    """Windows less cycle and level, over their scale; one row a sample."""

    past: Tensor  # (samples, lookback)
    future: Tensor  # (samples, horizon)
    level: Tensor  # (samples, 1) the level taken away, over the scale
    std: Tensor  # (samples, 1) the scale taken away
    mask: Tensor | None  # (samples, lookback)
    series: Tensor | None  # (samples,)


class SimbaForecaster(nn.Module):
    """Forecast each channel of a window from its own past.

    Parameters
    ----------
    config : ModelConfig

    Notes
    -----
    The output is cycle + level + linear path + deep branch. Linear path, cycle and head are zero in a new network,
    which therefore forecasts the window's mean; `closed_form_start` gives it a better start.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.cycle = Cycle(config.n_series, config.cycle) if config.cycle else None
        self.norm = InstanceNorm(bool(config.scale_windows))
        own = config.n_series if config.linear_per_series else 0
        self.linear = (
            LinearPath(config.lookback, config.horizon, own, config.linear_level) if config.linear_path else None
        )
        self.across = None
        if config.linear_across:
            shape = config.n_series, config.lookback, config.horizon
            self.across = AcrossPath(*shape, config.cycle, config.linear_harmonics)
        self.embed = PatchEmbedding(*config.patching, config.d_model)
        self.persistent = nn.Parameter(0.02 * torch.randn(config.n_persistent, config.d_model))
        self.blocks = nn.ModuleList(SimbaBlock(config) for _ in range(config.n_layers))
        self.final_norm = nn.LayerNorm(config.d_model)
        self.head = FlattenHead(config.n_tokens, config.d_model, config.horizon, config.dropout)

    def forward(
        self,
        past: Tensor,
        step: Tensor | None = None,
        series: Tensor | None = None,
        mask: Tensor | None = None,
        around: Tensor | None = None,
    ) -> Tensor:
        """Forecast the steps after `past`.

        Parameters
        ----------
        past : Tensor (batch, lookback, channels)
        step : Tensor of int (batch,), optional
            Absolute step of each window's first row, from which the cycle takes its phase; 0 if None.
        series : Tensor of int (batch, channels), optional
            Which series each channel is, in [0, n_series); 0, 1, ... if None.
        mask : Tensor of bool (batch, lookback, channels), optional
            False where a value is padding; all real if None.
        around : Tensor (batch, n_series, spans), optional
            Means of all series over parts of the window, as `Surroundings.at` has them; asked for where the series
            read one another.

        Returns
        -------
        Tensor (batch, horizon, channels)

        Raises
        ------
        ValueError
            If `past` has another lookback, or channels that `series` does not name, or `around` is missing where it is
            asked for.
        """
        x, profile, mask, numbers = self._samples(past, step, series, mask, around)
        z, stats = self.norm(x, mask)
        y = self.norm.inverse(self.answer(z, mask, numbers, stats.mean / stats.std), stats) + profile
        return y.unflatten(0, (past.shape[0], -1)).transpose(1, 2)

    def normalised(
        self,
        past: Tensor,
        future: Tensor,
        step: Tensor,
        series: Tensor,
        mask: Tensor | None,
        around: Tensor | None = None,
    ) -> NormalisedPair:
        """Past and future as the network sees them, where its loss is measured.

        Arguments as `forward` takes them; `future` (batch, horizon, channels).
        """
        x, profile, mask, numbers = self._samples(past, step, series, mask, around)
        z, stats = self.norm(x, mask)
        truth = (future.transpose(1, 2).flatten(0, 1) - profile - stats.mean) / stats.std
        return NormalisedPair(z, truth, stats.mean / stats.std, stats.std, mask, numbers)

    def answer(
        self, z: Tensor, mask: Tensor | None = None, series: Tensor | None = None, level: Tensor | None = None
    ) -> Tensor:
        """The forecast of normalised windows, normalised: (samples, lookback) -> (samples, horizon).

        `series` (samples,) is what the linear path asks for where each series has weights of its own, and `level`
        (samples, 1), over the window's scale, where those read it.
        """
        y = self.deep(z, mask)
        return y if self.linear is None else y + self.linear(z, series, level)

    def _samples(
        self,
        past: Tensor,
        step: Tensor | None,
        series: Tensor | None,
        mask: Tensor | None,
        around: Tensor | None,
    ) -> tuple[Tensor, Tensor | float, Tensor | None, Tensor | None]:
        """One row per channel of a window: the past less its cycle, what is known of the horizon, the mask, the series.

        Known of the horizon are the cycle and what the other series say. The last is None where nothing in the network
        is of one series alone.
        """
        config = self.config
        if past.ndim != 3 or past.shape[1] != config.lookback:
            raise ValueError(f"`past` must have shape (batch, {config.lookback}, channels), got {tuple(past.shape)}.")
        batch, lookback, channels = past.shape
        if mask is not None:
            mask = mask.transpose(1, 2).flatten(0, 1)
        x = past.transpose(1, 2).flatten(0, 1)  # (samples, lookback)
        if self.cycle is None and not config.linear_per_series:
            return x, 0.0, mask, None
        if series is not None and series.shape != (batch, channels):
            raise ValueError(
                f"`series` must have shape (batch, channels) = {(batch, channels)}, got {tuple(series.shape)}."
            )
        if series is None:
            if channels > config.n_series:
                raise ValueError(
                    f"`past` has {channels} channels but the network {config.n_series} series; pass `series`."
                )
            series = torch.arange(channels, device=past.device).expand(batch, -1)
        numbers = series.flatten()
        if step is None:
            step = torch.zeros(batch, dtype=torch.int64, device=past.device)
        ahead: Tensor | float = 0.0
        if self.cycle is not None:
            over = self.cycle(numbers, step.repeat_interleave(channels), lookback + config.horizon)
            x, ahead = x - over[:, :lookback], over[:, lookback:]
        if self.across is not None:
            ahead = ahead + self.across(self.read_across(around, step), series)
        return x, ahead, mask, numbers

    def read_across(self, around: Tensor | None, step: Tensor) -> Tensor:
        """What the series read of one another: means (batch, n_series, spans), (batch,) -> (batch, inputs)."""
        if self.across is None:
            raise ValueError("`linear_across` must be set for the series to read one another.")
        n_series, parts = self.config.n_series, self.across.spans
        if around is None or around.shape != (len(step), n_series, len(parts)):
            raise ValueError(
                f"`around` must have shape (batch, n_series, spans) = {(len(step), n_series, len(parts))}, got "
                f"{None if around is None else tuple(around.shape)}; `Surroundings` makes it."
            )
        if self.cycle is not None:
            around = around - self.cycle.means(n_series, step, self.config.lookback, parts)
        return self.across.read(around, step)

    def deep(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        """The patched branch alone: (samples, lookback) -> (samples, horizon)."""
        # Where the start was kept the head is zero. A GPU would have to be waited for to know.
        if not torch.is_grad_enabled() and z.device.type == "cpu" and not is_compiling() and self.head.silent:
            return z.new_zeros(len(z), self.config.horizon)
        tokens = self.embed(z)
        n_persistent = self.config.n_persistent
        tokens = torch.cat([self.persistent.expand(len(z), -1, -1).to(tokens.dtype), tokens], dim=1)
        inert = None
        if mask is not None:
            inert = nn.functional.pad(self.embed.inert(mask), (n_persistent, 0), value=False)
        for block in self.blocks:
            tokens = block(tokens, inert)
        out: Tensor = self.head(self.final_norm(tokens[:, n_persistent:]))
        return out


class SimbaBlock(nn.Module):
    """Mix tokens, then features, each a residual branch of its norm: (batch, tokens, d_model) -> the same."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.mixer = MIXERS[config.mixer](config) if config.mixer != "none" else None
        self.mixer_norm = nn.LayerNorm(d_model) if config.mixer != "none" else None
        self.features: nn.Module | None = None
        if config.feature_mixer == "einfft":
            self.features = EinFFT(d_model, config.einfft_blocks)
        elif config.feature_mixer == "mlp":
            self.features = Perceptron(d_model)
        self.features_norm = nn.LayerNorm(d_model) if self.features is not None else None
        self.dropout = Dropout(config.dropout)

    def forward(self, z: Tensor, inert: Tensor | None = None) -> Tensor:
        if self.mixer is not None and self.mixer_norm is not None:
            z = z + self.dropout(self.mixer(self.mixer_norm(z), inert))
        if self.features is not None and self.features_norm is not None:
            z = z + self.dropout(self.features(self.features_norm(z)))
        return z


class Perceptron(nn.Module):
    """The usual two-layer perceptron of each token, four times as wide inside."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d_model, 4 * d_model), nn.Linear(4 * d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, d_model) -> the same"""
        out: Tensor = self.down(gelu(self.up(x)))
        return out
