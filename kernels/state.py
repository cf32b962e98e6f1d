"""What the neural memory holds between two calls."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class MemoryState:
    """The memory's weights and momentum after some token, and where in a chunk that token lies.

    A stream cut anywhere and carried on from its state equals one pass.

    Parameters
    ----------
    weights, momentum : tuple of Tensor, one per layer, each (batch, heads, in, out)
        W and S after the last token read.
    chunk_start : tuple of Tensor, one per layer, each (batch, heads, in, out)
        The weights held when the current chunk began, at which surprises are taken. Ignored at offset 0.
    offset : int
        Tokens of the current chunk already read, 0 <= offset < chunk_size.
    """

    weights: tuple[Tensor, ...]
    momentum: tuple[Tensor, ...]
    chunk_start: tuple[Tensor, ...]
    offset: int

    def detach(self) -> MemoryState:
        """The same state, cut from the graph that computed it."""
        return MemoryState(
            weights=tuple(w.detach() for w in self.weights),
            momentum=tuple(s.detach() for s in self.momentum),
            chunk_start=tuple(c.detach() for c in self.chunk_start),
            offset=self.offset,
        )
