"""A small model of token sequences, made of the forecaster's own blocks."""

from __future__ import annotations

from torch import Tensor, nn

from titans_ts.model.config import ModelConfig
from titans_ts.model.simba import SimbaBlock


class SequenceModel(nn.Module):
    """Embedding, causal blocks, norm, and logits where they are asked for.

    Parameters
    ----------
    n_tokens, n_answers : int
    config : ModelConfig
        Of the blocks.
    """

    def __init__(self, n_tokens: int, n_answers: int, config: ModelConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(n_tokens, config.d_model)
        self.blocks = nn.ModuleList(SimbaBlock(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model)
        self.project = nn.Linear(config.d_model, n_answers)

    def forward(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Tokens (batch, length) and places in them (batch, questions) -> logits (batch, questions, answers)."""
        z = self.embed(tokens)
        for block in self.blocks:
            z = block(z)
        z = z.gather(1, asked.unsqueeze(-1).expand(-1, -1, z.shape[-1]))
        logits: Tensor = self.project(self.norm(z))
        return logits
