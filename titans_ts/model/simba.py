"""SimbaForecaster: normalise -> patch -> SimbaBlock x n -> head, beside a cycle and a linear path.

Sources: SiMBA (Patro and Agneeswaran, 2024) for the block, with Titans' memory (Behrouz et al., 2024) in place of
its Mamba; for the other parts see `layers` and `linear`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.functional import gelu

from .attention import WindowAttention
from .batch import Batch
from .config import ModelConfig
from .covariates import CovariateEmbedding, CovariateInputs, PastPath
from .einfft import EinFFT
from .layers import Cycle, Dropout, FlattenHead, InstanceNorm, PatchEmbedding, WindowStats
from .linear import CrossSeriesPath, LinearPath
from .memory import NeuralMemory
from .mixers import Attention, Mamba
from .quantiles import QuantileWidths
from .titans import MemoryAsContext, MemoryAsGate, MemoryAsLayer

MIXERS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "attention": Attention,
    "window_attention": WindowAttention,
    "mamba": Mamba,
}
VARIANTS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "lmm": NeuralMemory,
    "mac": MemoryAsContext,
    "mag": MemoryAsGate,
    "mal": MemoryAsLayer,
}


class NormalisedBatch(NamedTuple):
    """Windows as the network's paths read them, minus seasonal profile and window mean, over the window's scale."""

    past: Tensor  # (samples, lookback)
    stats: WindowStats
    ahead: Tensor | float  # (samples, horizon) what is added back: the seasonal profile, what other series say
    series: Tensor  # (samples,)
    padding_mask: Tensor | None  # (samples, lookback)
    covariates: Tensor | None = None  # (samples, lookback, columns)

    @property
    def window_mean(self) -> Tensor:
        """The window mean that was taken away, over the scale: (samples, 1)."""
        return self.stats.mean / self.stats.std

    def normalise(self, future: Tensor) -> Tensor:
        """The future of these windows (samples, horizon), where a loss compares it with the normalised forecast."""
        return (future - self.ahead - self.stats.mean) / self.stats.std


class SimbaForecaster(nn.Module):
    """Forecast each window of a series from its past.

    Parameters
    ----------
    config : ModelConfig

    Notes
    -----
    The output is seasonal profile + window mean + linear path + deep branch. Linear path, cycle and head are zero in a
    new network, which therefore forecasts the window mean; the closed-form initialisation solves for a better one.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.cycle = Cycle(config.n_series, config.cycle) if config.cycle else None
        self.norm = InstanceNorm(bool(config.scale_windows))
        self.linear = None
        if config.linear_path:
            n_series = config.n_series if config.linear_per_series else 0
            self.linear = LinearPath(config.lookback, config.horizon, n_series, config.linear_window_mean)
        self.cross_series = None
        if config.linear_cross_series:
            shape = config.n_series, config.lookback, config.horizon
            self.cross_series = CrossSeriesPath(*shape, config.cycle, config.linear_harmonics)
        self.embed = PatchEmbedding(*config.patching, config.d_model)
        self.covariates = self.past_path = self.embed_covariates = None
        if config.covariates:
            self.covariates = CovariateInputs(config.covariates)
            self.embed_covariates = CovariateEmbedding(self.covariates.size, self.embed, config.d_model)
            if self.covariates.past:
                self.past_path = PastPath(self.covariates.past_size, config.lookback, config.horizon)
        self.persistent = nn.Parameter(0.02 * torch.randn(config.n_leading, config.d_model))
        self.blocks = nn.ModuleList(SimbaBlock(config) for _ in range(config.n_layers))
        self.final_norm = nn.LayerNorm(config.d_model)
        self.head = FlattenHead(config.n_tokens, config.d_model, config.horizon, config.dropout, config.n_outputs)
        self.quantiles = None
        if config.levels is not None:
            self.quantiles = QuantileWidths(config.horizon, config.levels, config.n_series)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.persistent.device

    def forward(self, batch: Batch, cycle: Cycle | None = None) -> Tensor:
        """Forecast the steps after each window.

        Parameters
        ----------
        batch : Batch
            Its future is not read.
        cycle : Cycle, optional
            The seasonal profiles of the network's series and of others after them; its own if None.

        Returns
        -------
        Tensor (samples, horizon, outputs)

        Raises
        ------
        ValueError
            If the past has another lookback, `series` another shape, or `cross_series` or `covariates` are missing
            where they are needed.
        """
        seen = self.normalised(batch, cycle)
        ahead = seen.ahead if isinstance(seen.ahead, float) else seen.ahead.unsqueeze(-1)
        return self.norm.inverse(self.forecast_normalised(seen), seen.stats) + ahead

    def normalised(self, batch: Batch, cycle: Cycle | None = None, cross_series: bool = True) -> NormalisedBatch:
        """A batch as the network's paths read it, minus window mean and seasonal profile, that of `cycle` if given.

        Without `cross_series` what other series say is not added ahead.
        """
        config, past, cycle = self.config, batch.past, self.cycle if cycle is None else cycle
        if past.ndim != 2 or past.shape[1] != config.lookback:
            raise ValueError(f"`past` must have shape (samples, {config.lookback}), got {tuple(past.shape)}.")
        for name in ("time_index", "series"):
            shape = getattr(batch, name).shape
            if shape != past.shape[:1]:
                raise ValueError(f"`{name}` must have shape (samples,) = ({len(past)},), got {tuple(shape)}.")
        ahead: Tensor | float = 0.0
        if cycle is not None:
            profile = cycle(batch.series, batch.time_index, config.lookback + config.horizon, batch.clock_shift)
            past, ahead = past - profile[:, : config.lookback], profile[:, config.lookback :]
        if self.cross_series is not None and cross_series:
            ahead = ahead + self.cross_series(self.cross_series_inputs(batch), batch.series)
        covariates = None
        if self.covariates is not None:
            covariates = _covariates(batch, config)
            if self.past_path is not None:
                ahead = ahead + self.past_path(self.past_inputs(batch))
        past, stats = self.norm(past, batch.padding_mask)
        return NormalisedBatch(past, stats, ahead, batch.series, batch.padding_mask, covariates)

    def forecast_normalised(self, seen: NormalisedBatch) -> Tensor:
        """The forecast of normalised windows, normalised: (samples, horizon, outputs)."""
        out = self.deep(seen.past, seen.padding_mask, seen.covariates)
        if self.quantiles is not None:
            out = self.quantiles(out, seen.series)
        if self.linear is None:
            return out
        forecast: Tensor = out + self.linear(seen.past, seen.series, seen.window_mean).unsqueeze(-1)
        return forecast

    def past_inputs(self, batch: Batch) -> Tensor:
        """The inputs of the path of past covariates, (samples, inputs)."""
        if self.covariates is None or self.past_path is None:
            raise ValueError("`covariates` must have past columns for the network to read them.")
        return self.past_path.inputs(self.covariates(_covariates(batch, self.config), self.covariates.past))

    def cross_series_inputs(self, batch: Batch) -> Tensor:
        """The inputs of the cross-series path: its features minus those of the seasonal profiles, (samples, inputs)."""
        if self.cross_series is None:
            raise ValueError("`linear_cross_series` must be set for the series to read one another.")
        means, time_index = batch.cross_series, batch.time_index
        shape = batch.n_samples, self.config.n_series, len(self.cross_series.spans)
        if means is None or means.shape != shape:
            raise ValueError(
                f"`cross_series` must have shape (samples, n_series, spans) = {shape}, got "
                f"{None if means is None else tuple(means.shape)}; `CrossSeriesFeatures` makes it."
            )
        if batch.clock_shift is not None:  # the phase of a window is that of its first step
            time_index = time_index + batch.clock_shift[:, 0]
        if self.cycle is not None:
            means = means - self.cycle.means(
                self.config.n_series, time_index, self.config.lookback, self.cross_series.spans
            )
        return self.cross_series.inputs(means, time_index)

    def deep(self, z: Tensor, padding_mask: Tensor | None = None, covariates: Tensor | None = None) -> Tensor:
        """The patched branch alone: (samples, lookback) -> (samples, horizon, outputs)."""
        # The head is zero where the initialisation was kept. A GPU would have to be waited for to know.
        if not torch.is_grad_enabled() and z.device.type == "cpu" and not is_compiling() and self.head.is_zero:
            return z.new_zeros(z.shape[0], self.config.horizon, self.config.n_outputs)
        tokens = self.embed(z)
        if self.covariates is not None and self.embed_covariates is not None and covariates is not None:
            tokens = tokens + self.embed_covariates(self.covariates(covariates))
        n_leading = self.config.n_leading
        tokens = torch.cat([self.persistent.expand(z.shape[0], -1, -1).to(tokens.dtype), tokens], dim=1)
        masked = None
        if padding_mask is not None:
            masked = nn.functional.pad(self.embed.masked(padding_mask), (n_leading, 0), value=False)
        for block in self.blocks:
            tokens = block(tokens, masked)
        out: Tensor = self.head(self.final_norm(tokens[:, n_leading:]))
        return out


def _covariates(batch: Batch, config: ModelConfig) -> Tensor:
    shape = *batch.past.shape, len(config.covariates)
    if batch.covariates is None or batch.covariates.shape != shape:
        got = None if batch.covariates is None else tuple(batch.covariates.shape)
        raise ValueError(f"`covariates` must have shape (samples, lookback, columns) = {shape}, got {got}.")
    return batch.covariates


class SimbaBlock(nn.Module):
    """Mix tokens, then features, each a residual branch of its norm: (batch, tokens, d_model) -> the same."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        d_model = config.d_model
        kind = VARIANTS[config.variant] if config.mixer == "memory" else MIXERS.get(config.mixer)
        self.mixer = None if kind is None else kind(config)
        self.mixer_norm = nn.LayerNorm(d_model) if config.mixer != "none" else None
        self.features: nn.Module | None = None
        if config.feature_mixer == "einfft":
            self.features = EinFFT(d_model, config.einfft_blocks)
        elif config.feature_mixer == "mlp":
            self.features = Perceptron(d_model)
        self.features_norm = nn.LayerNorm(d_model) if self.features is not None else None
        self.dropout = Dropout(config.dropout)

    def forward(self, z: Tensor, masked: Tensor | None = None) -> Tensor:
        if self.mixer is not None and self.mixer_norm is not None:
            z = z + self.dropout(self.mixer(self.mixer_norm(z), masked))
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
