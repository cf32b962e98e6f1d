"""The network's shape, in one frozen dataclass that is passed whole."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from .covariates import Column

CHOICES = {
    "mixer": ("memory", "attention", "window_attention", "mamba", "none"),
    "variant": ("lmm", "mac", "mag", "mal"),
    "feature_mixer": ("einfft", "mlp", "none"),
    "memory_gates": ("token", "chunk"),
}
AT_LEAST = {
    **dict.fromkeys(
        ("lookback", "horizon", "n_outputs", "n_series", "d_model", "n_heads", "n_layers", "patch_len", "stride"), 1
    ),
    **dict.fromkeys(("memory_depth", "memory_expansion", "chunk_size", "einfft_blocks", "attention_window"), 1),
    **dict.fromkeys(("cycle", "linear_harmonics", "n_persistent"), 0),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that fixes a `SimbaForecaster`.

    Parameters
    ----------
    lookback, horizon : int
        Steps read and steps forecast.
    n_outputs : int
        Numbers forecast for each step, as many as the loss asks for; one for a point forecast. The one in the middle
        is the point forecast, which stands for what came in a recursive forecast. Linear path, window mean and seasonal
        profile are common to all.
    levels : tuple of float, optional
        What each output is the quantile of: rising and symmetric about a median. None where they are none.
    n_series : int
        Series, each with a seasonal profile.
    cycle : int
        Period of the learnable seasonal profile in steps; 0 for none.
    linear_path : bool
        A linear map lookback -> horizon beside the deep branch. Its closed-form initialisation is the mean of maps that
        read the window's whole, its last half, its last quarter and so on: as many as forecast the validation windows
        best.
    linear_per_series : bool
        Per-series weights, added to the linear path's: solved for in closed form and fixed from then on.
    linear_window_mean : bool
        Those weights also read the window mean, which the path otherwise only passes on: a series may return to its
        mean, and some do sooner than others. Solved for, they are a mean of weights that do, which count for more the
        further ahead, and weights that do not.
    linear_cross_series : bool
        Each series' forecast also reads cross-series features: a linear map of the means of all series over spans that
        double going back, minus the window mean, solved for in closed form and fixed from then on.
    linear_harmonics : int
        That map varies with the phase of the season, by so many harmonics: a mean says other things at noon than at
        night.
    scale_windows : bool, optional
        Divide each window by its standard deviation, in what the network reads and in its loss, not only centre it.
        None lets `initialised_network` choose on validation; until then it is no.
    patch_len, stride : int
        Steps of a token and between tokens; halved until two patches fit into the lookback.
    d_model, n_layers, n_heads : int
        Width, blocks and heads of the deep branch.
    mixer : {"memory", "attention", "window_attention", "mamba", "none"}
        What mixes tokens in a block.
    variant : {"lmm", "mac", "mag", "mal"}
        The memory alone, or with causal attention: as its context, gated by it, or as the layer after it; see
        `titans_ts.model.titans`.
    attention_window : int
        Tokens of a segment of the memory as context, and of a sliding window, the token itself among them.
    feature_mixer : {"einfft", "mlp", "none"}
        What mixes features in a block.
    einfft_blocks : int
        Diagonal blocks of EinFFT's weights.
    memory_depth, memory_expansion : int
        Layers of the memory, and its hidden width over the head's.
    chunk_size : int
        Tokens whose surprise is taken at the same weights.
    memory_conv, memory_momentum, memory_forgetting, memory_writes : bool
        The convolution of q, k, v; eta; alpha; theta. A memory that does not write is what it began with, which says
        what one that writes is worth.
    memory_gates : {"token", "chunk"}
        Gates per token, or those of a chunk's first token for the whole chunk (Titans, section 3.2).
    covariates : tuple of Column
        The columns of covariates that are read beside the past.
    n_persistent : int
        Learned tokens ahead of those of the series (Titans, section 3.3); of each block's own where the variant has
        attention.
    dropout : float
        In [0, 1), on each block's branches and ahead of the head.

    Raises
    ------
    ValueError
        Naming the field that is out of range.
    """

    lookback: int
    horizon: int
    n_outputs: int = 1
    levels: tuple[float, ...] | None = None
    n_series: int = 1
    cycle: int = 0
    linear_path: bool = True
    linear_per_series: bool = False
    linear_window_mean: bool = False
    linear_cross_series: bool = False
    linear_harmonics: int = 0
    scale_windows: bool | None = None
    patch_len: int = 16
    stride: int = 8
    d_model: int = 128
    n_layers: int = 2
    n_heads: int = 4
    mixer: str = "memory"
    variant: str = "lmm"
    attention_window: int = 16
    feature_mixer: str = "einfft"
    einfft_blocks: int = 4
    memory_depth: int = 2
    memory_expansion: int = 1
    chunk_size: int = 16
    memory_conv: bool = True
    memory_momentum: bool = True
    memory_forgetting: bool = True
    memory_writes: bool = True
    memory_gates: str = "token"
    n_persistent: int = 4
    dropout: float = 0.1
    covariates: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", tuple(Column(*column) for column in self.covariates))
        for name, low in AT_LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"`{name}` must be an integer >= {low}, got {value!r}.")
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in choices:
                raise ValueError(f"`{name}` must be one of {choices}, got {value!r}.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type in ("bool", "bool | None") and not isinstance(value, bool):
                if value is None and field.type == "bool | None":
                    continue
                raise ValueError(f"`{field.name}` must be True or False, got {value!r}.")
        if self.levels is not None and not _are_levels(self.levels, self.n_outputs):
            raise ValueError(
                f"`levels` must be `n_outputs` = {self.n_outputs} numbers in (0, 1), rising and symmetric about 0.5, "
                f"got {self.levels!r}."
            )
        for name in ("n_heads", "einfft_blocks"):
            if self.d_model % getattr(self, name):
                raise ValueError(
                    f"`d_model` must be a multiple of `{name}` = {getattr(self, name)}, got {self.d_model}."
                )
        if self.linear_per_series and not self.linear_path:
            raise ValueError("`linear_per_series` must be False where `linear_path` is: it adds to that path.")
        if self.linear_window_mean and not self.linear_per_series:
            raise ValueError(
                "`linear_window_mean` must be False where `linear_per_series` is: it adds to those weights."
            )
        if self.linear_cross_series and not self.linear_per_series:
            raise ValueError(
                "`linear_cross_series` must be False where `linear_per_series` is: each series has weights for it."
            )
        if self.linear_harmonics and not self.linear_cross_series:
            raise ValueError(
                "`linear_harmonics` must be 0 where `linear_cross_series` is False: its weights have them."
            )
        if 2 * self.linear_harmonics > self.cycle:
            raise ValueError(
                f"`linear_harmonics` must be at most half of `cycle` = {self.cycle}, got {self.linear_harmonics}."
            )
        if (self.mixer == "attention" or self.is_windowed) and self.d_model // self.n_heads % 2:
            raise ValueError(f"`d_model` / `n_heads` must be even for attention, got {self.d_model // self.n_heads}.")
        if self.stride > self.patch_len:
            raise ValueError(f"`stride` must be at most `patch_len` = {self.patch_len}, got {self.stride}.")
        if not isinstance(self.dropout, (int, float, np.number)) or not 0 <= self.dropout < 1:
            raise ValueError(f"`dropout` must be in [0, 1), got {self.dropout!r}.")

    @property
    def is_windowed(self) -> bool:
        """Whether a block has causal attention, and persistent tokens of its own."""
        return self.mixer == "window_attention" or (self.mixer == "memory" and self.variant != "lmm")

    @property
    def n_leading(self) -> int:
        """Persistent tokens ahead of those of the window, where no block has its own."""
        return 0 if self.is_windowed else self.n_persistent

    @property
    def patching(self) -> tuple[int, int]:
        """Patch length and stride as used: halved until two patches fit into the lookback."""
        patch_len, stride = self.patch_len, self.stride
        while patch_len > 1 and 2 * patch_len > self.lookback:
            patch_len, stride = patch_len // 2, max(1, stride // 2)
        return patch_len, stride

    @property
    def n_tokens(self) -> int:
        """Patches of a lookback whose end is padded by one stride."""
        patch_len, stride = self.patching
        return (self.lookback + stride - patch_len) // stride + 1


def _are_levels(levels: tuple[float, ...], n_outputs: int) -> bool:
    """Whether there is one for each output, and they rise in (0, 1), symmetric about a median."""
    numbers = np.array(levels, dtype=np.float64)
    inside = len(numbers) == n_outputs and n_outputs % 2 == 1 and bool((numbers > 0).all() and (numbers < 1).all())
    return inside and bool((np.diff(numbers) > 0).all()) and np.allclose(numbers + numbers[::-1], 1)
