"""The rows of the recall tables: what each differs by from two blocks whose memory is one matrix a head."""

from __future__ import annotations

from typing import Any

from titans_ts.model.config import ModelConfig

LMM = "lmm"  # the row that others leave something out of
LATE = "lmm, as long as mac"  # trained as long as those that learn late
ROWS: dict[str, dict[str, Any]] = {
    LMM: {},
    LATE: {},
    "lmm, 2 layers": {"memory_depth": 2},
    "lmm, no momentum": {"memory_momentum": False},
    "lmm, no forgetting": {"memory_forgetting": False},
    "lmm, no convolution": {"memory_conv": False},
    "lmm, gates per chunk": {"memory_gates": "chunk"},
    "lmm, never writes": {"memory_writes": False},
    "mac": {"variant": "mac"},
    "mag": {"variant": "mag"},
    "mal": {"variant": "mal"},
    "mamba": {"mixer": "mamba"},
    "window attention": {"mixer": "window_attention"},
}
# Of these, accuracy in recall was still rising after as many steps as the others need.
LEARN_LATE = (LATE, "mac", "mag", "mal", "mamba")


def config(row: str, **changes: Any) -> ModelConfig:
    """The blocks of a row; EinFFT, which mixes features by all tokens, is in none of them."""
    common: dict[str, Any] = {
        # The forecaster's own, which a block does not read.
        "lookback": 1,
        "horizon": 1,
        "n_layers": 2,
        "d_model": 64,
        "n_heads": 2,
        "feature_mixer": "mlp",
        "dropout": 0.0,
        "memory_depth": 1,
        "attention_window": 32,
    }
    return ModelConfig(**common | changes | ROWS[row])
