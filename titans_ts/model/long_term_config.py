"""What fixes a long-term memory, in one frozen dataclass that is passed whole."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from .origins import season_of

LONGEST_CHUNK = 32  # tokens


@dataclass(frozen=True, kw_only=True)
class LongTermConfig:
    """What fixes a `LongTermMemory`.

    Parameters
    ----------
    lookback, horizon : int
        The core's.
    n_series : int
    cycle : int
        Period of the season in steps; 0 for none.
    block_ends : tuple of int
        Steps at which blocks of the horizon end, the last one the horizon; each block is written when its last step is
        known. Empty for one block, the full delay.
    depth : int
        Layers of the memory; from two on it is not linear, and forgets towards its initial weights.
    rates, forgetting : tuple of float
        Step sizes and shares forgotten per season; the memory has a head for each pair.
    momentum : float
        What is left of past surprise after a chunk.
    half_lives : tuple of float
        Seasons after which matured errors count half in the gate, which keeps to the least share of them.
    recall : int
        Surprising origins of each series that are kept by themselves, to be read where the same rows come again
        (`titans_ts.model.recall`); 0 for none. Of a horizon of one block.
    """

    lookback: int
    horizon: int
    n_series: int
    cycle: int = 0
    block_ends: tuple[int, ...] = ()
    depth: int = 1
    rates: tuple[float, ...] = (0.08, 0.24, 0.8)
    forgetting: tuple[float, ...] = (0.0012,)
    momentum: float = 0.9
    half_lives: tuple[float, ...] = (30.0, 90.0)
    recall: int = 0

    def __post_init__(self) -> None:
        ends = self.block_ends
        if ends and (ends[-1] != self.horizon or any(a >= b for a, b in pairwise((0, *ends)))):
            raise ValueError(f"`block_ends` must rise to the horizon, {self.horizon}, got {ends}.")
        if self.depth < 1:
            raise ValueError(f"`depth` must be 1 or more, got {self.depth}.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"`momentum` must be in [0, 1), got {self.momentum}.")
        if not self.rates or min(self.rates) < 0 or not self.forgetting or min(self.forgetting) < 0:
            raise ValueError("`rates` and `forgetting` must have numbers of 0 or more.")
        if not self.half_lives or min(self.half_lives) <= 0:
            raise ValueError(f"`half_lives` must have positive numbers, got {self.half_lives}.")

        if self.recall < 0 or (self.recall and len(self.blocks) > 1):
            raise ValueError(
                f"`recall` must be 0 or more, and 0 with several blocks, got {self.recall} with {len(self.blocks)}."
            )

    @property
    def season(self) -> int:
        """Steps that rates and half-lives are counted in."""
        return season_of(self.cycle)

    @property
    def chunk_size(self) -> int:
        """Tokens that learn from the same weights: a quarter of a season."""
        return min(max(self.season // 4, 1), LONGEST_CHUNK)

    @property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Where each block of the horizon begins and ends."""
        return tuple(pairwise((0, *(self.block_ends or (self.horizon,)))))
