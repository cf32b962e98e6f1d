"""The Titans family: the memory beside causal attention, as the layer that mixes tokens.

p are persistent tokens, M the memory, M* the memory read without writing, and || puts tokens behind each other. The
product of attention's and memory's outputs is that of both normalised, each through a sigmoid, as section 4.2 says that
it is done in practice, and an output projection follows it. Where one of the two reads the other's output, a residual
connection goes around the other, as section 4.4 says of all blocks: without it pairs were learned late or not at all
(experiments/NOTES.md).

Source: Titans: Learning to Memorize at Test Time (Behrouz et al., 2024), section 4, equations 21 to 31, figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, silu

from .attention import SlidingWindow, WindowState, attend_with_prefix, persistent_tokens
from .config import ModelConfig
from .memory import LayerState, NeuralMemory, unit


@dataclass(frozen=True, kw_only=True)
class TitansState:
    """What a layer of memory and attention carries from one call to the next.

    Parameters
    ----------
    memory : LayerState
    window : WindowState
        The tokens that attention goes on to see: the last of its window, or those of a segment under way.
    segment : SegmentState, optional
        What else the memory as context holds of a segment under way.
    """

    memory: LayerState
    window: WindowState
    segment: SegmentState | None = None


@dataclass(frozen=True, kw_only=True)
class SegmentState:
    """A segment under way.

    Parameters
    ----------
    retrieved : Tensor (batch, tokens, d_model)
        What its tokens have read from the memory.
    weights : tuple of Tensor (batch, heads, in, out)
        The memory's when the segment began.
    """

    retrieved: Tensor
    weights: tuple[Tensor, ...]


class MemoryAndAttention(nn.Module):
    """A layer of both, with persistent tokens; how they are put together is its `step`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.persistent = persistent_tokens(config)
        self.memory, self.attend = NeuralMemory(config), SlidingWindow(config)

    def forward(self, x: Tensor, masked: Tensor | None = None) -> Tensor:
        """(batch, tokens, d_model) -> the same, of a fresh memory that `masked` (batch, tokens) tokens leave alone."""
        return self.step(x, None, masked)[0]

    def step(
        self, x: Tensor, state: TitansState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, TitansState]:
        """Read on from `state`; any split of a sequence into steps gives what one pass gives.

        Parameters
        ----------
        x : Tensor (batch, tokens, d_model)
        state : TitansState, optional
            A fresh memory, and no tokens before, if None.
        masked : Tensor of bool (batch, tokens), optional
            Tokens that leave the memory as it is, and that none but themselves attend to.

        Returns
        -------
        out : Tensor (batch, tokens, d_model)
        state : TitansState
        """
        raise NotImplementedError


class MemoryAsGate(MemoryAndAttention):
    """Sliding-window attention, gated by the memory: y = attention(p || x), o = y * M(p || x); equations 26 to 28."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.gate = GatedOutput(config)

    def step(
        self, x: Tensor, state: TitansState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, TitansState]:
        m, memory = _read(self.memory, self.persistent, x, state, masked)
        prefix, before = self.persistent.unsqueeze(0), None if state is None else state.window
        y, window = self.attend(x, prefix, before, masked)
        return self.gate(y, m[:, m.shape[1] - x.shape[1] :]), TitansState(memory=memory, window=window)


class MemoryAsLayer(MemoryAndAttention):
    """The memory, then sliding-window attention to what it returns: equations 29 to 31.

    y = p || x + M(p || x), and o = M(x) + attention(y), to which the block adds x.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.project_out = nn.Linear(config.d_model, config.d_model, bias=False)

    def step(
        self, x: Tensor, state: TitansState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, TitansState]:
        m, memory = _read(self.memory, self.persistent, x, state, masked)
        persistent, n_before = self.persistent.unsqueeze(0), m.shape[1] - x.shape[1]
        if state is None:
            prefix, before = persistent + m[:, :n_before], None
        else:  # what a fresh memory returns for the persistent tokens is the same in every call
            prefix, before = persistent + self.memory(persistent), state.window
        m = m[:, n_before:]
        y, window = self.attend(x + m, prefix, before, masked)
        return m + self.project_out(y), TitansState(memory=memory, window=window)


class MemoryAsContext(MemoryAndAttention):
    """Attention within segments, to persistent tokens and to what the memory of all before returns; equations 21 to 25.

    Of a segment S with queries q, h = M*(q) of the memory when the segment began, y = S + attention(p || h || S), y
    is written to the memory, and o = y * M*(y).

    Notes
    -----
    Two things keep a token from those after it, which the paper leaves open: of h it sees what tokens up to itself have
    retrieved, and the output is read from the memory as that token left it, not as the segment's last one did.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.segment, self.n_heads = config.attention_window, config.n_heads
        self.gate = GatedOutput(config)
        self.project_query = nn.Linear(config.d_model, config.d_model, bias=False)
        self.retrieved_norm = nn.RMSNorm(config.d_model // config.n_heads, eps=1e-5)
        self.project_attended = nn.Linear(config.d_model, config.d_model, bias=False)

    def step(
        self, x: Tensor, state: TitansState | None = None, masked: Tensor | None = None
    ) -> tuple[Tensor, TitansState]:
        held = 0 if state is None else state.window.rows.shape[1] % self.segment
        sizes = [min(self.segment - held, x.shape[1])]
        sizes += [min(self.segment, x.shape[1] - n) for n in range(sizes[0], x.shape[1], self.segment)]
        masks = [None] * len(sizes) if masked is None else masked.split(sizes, 1)
        outputs = []
        for part, mask in zip(x.split(sizes, 1), masks, strict=True):
            out, state = self._within(part, state, mask)
            outputs.append(out)
        assert state is not None  # there is a part, if an empty one
        return torch.cat(outputs, dim=1), state

    def _within(self, x: Tensor, state: TitansState | None, masked: Tensor | None) -> tuple[Tensor, TitansState]:
        """Tokens of one segment."""
        new = x.new_zeros(x.shape[:2], dtype=torch.bool) if masked is None else masked
        if state is None or state.window.rows.shape[1] == self.segment:  # a segment begins
            weights = tuple(self.memory.initial) if state is None else state.memory.memory.weights
            rows, hidden, retrieved = x[:, :0], new[:, :0], x[:, :0]
        else:
            assert state.segment is not None  # written below
            rows, hidden, retrieved, weights = *state.window, state.segment.retrieved, state.segment.weights
        q = unit(silu(self.project_query(x)).unflatten(-1, (self.n_heads, -1)))
        read = _retrieve(weights, q.transpose(1, 2)).transpose(1, 2).to(self.retrieved_norm.weight.dtype)
        h = self.retrieved_norm(read).flatten(2).to(x.dtype)
        rows, hidden = torch.cat([rows, x], dim=1), torch.cat([hidden, new], dim=1)
        retrieved = torch.cat([retrieved, h], dim=1)

        y = x + self.project_attended(self._attend(rows, retrieved, hidden)[:, rows.shape[1] - x.shape[1] :])
        m, memory = self.memory.step(y, None if state is None else state.memory, masked)
        segment = SegmentState(retrieved=retrieved, weights=weights)
        return self.gate(y, m), TitansState(memory=memory, window=WindowState(rows, hidden), segment=segment)

    def _attend(self, rows: Tensor, retrieved: Tensor, hidden: Tensor) -> Tensor:
        """Causal attention of a segment's tokens (batch, tokens, d_model), each to itself and what is before it."""
        n = rows.shape[1]
        q, k, v = self.attend.project_qkv(rows).unflatten(-1, (3, self.n_heads, -1)).transpose(1, 3).unbind(2)
        h_k, h_v = (u.squeeze(1) for u in self.attend.keys_and_values(retrieved))
        p_k, p_v = (u.squeeze(1) for u in self.attend.keys_and_values(self.persistent.unsqueeze(0)))
        place = torch.arange(n, device=rows.device)
        before = place[:, None] >= place
        seen = before & (~hidden[:, None, None, :] | (place[:, None] == place))
        # What a token has retrieved is where the token is.
        k, v = torch.cat([h_k, k], dim=-2), torch.cat([h_v, v], dim=-2)
        y = attend_with_prefix(q, k, v, torch.cat([seen, seen], dim=-1), p_k, p_v, place, place.repeat(2))
        return y.transpose(1, 2).flatten(2)


class GatedOutput(nn.Module):
    """Attention's output times the memory's, both normalised, and a projection (section 4.2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm, self.memory_norm = (nn.RMSNorm(config.d_model, eps=1e-5) for _ in range(2))
        self.project = nn.Linear(config.d_model, config.d_model, bias=False)

    def forward(self, y: Tensor, m: Tensor) -> Tensor:
        """Of attention's y and the memory's m, (batch, tokens, d_model) each."""
        dtype = self.norm.weight.dtype  # not that of automatic mixed precision
        out: Tensor = self.project(self.norm(y.to(dtype)).sigmoid() * self.memory_norm(m.to(dtype)).sigmoid())
        return out


def _read(
    memory: NeuralMemory, persistent: Tensor, x: Tensor, state: TitansState | None, masked: Tensor | None
) -> tuple[Tensor, LayerState]:
    """The memory's output for x, behind that for the persistent tokens where it is fresh, and its state."""
    if state is not None:
        return memory.step(x, state.memory, masked)
    if masked is not None:
        masked = pad(masked, (len(persistent), 0), value=False)
    return memory.step(torch.cat([persistent.to(x.dtype).expand(x.shape[0], -1, -1), x], dim=1), None, masked)


def _retrieve(weights: Sequence[Tensor], q: Tensor) -> Tensor:
    """M*(q) of memories with `weights`: (batch, heads, tokens, head_dim) -> the same."""
    for i, w in enumerate(weights):
        q = (q if i == 0 else silu(q)).to(w.dtype) @ w
    return q
