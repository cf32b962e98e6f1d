"""What the long-term memory reads and what it holds: origins in the order of time, and the state of each series."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .recall import RecallState


class Origins(NamedTuple):
    """Origins of series in the order of time, as the memory reads them. Those of a block are one entry a block."""

    features: Tensor  # (series, origins, features)
    forecasts: tuple[Tensor, ...]  # (series, origins, columns) the core's forecast in each block's basis
    came: tuple[Tensor, ...]  # (series, origins, columns) the last rows before each origin, as many as a block has
    known: tuple[Tensor, ...]  # (series, origins) of bool: those rows, and the newest of them, were observed
    live: Tensor  # (series, origins) of bool: there is such an origin, and the row before it was observed
    series: Tensor  # (series,) the number of each; `n_series` for one that was not fitted

    def map(self, function: Callable[[Tensor], Tensor]) -> Origins:
        """`function` of every tensor over origins."""
        forecasts, came, known = (tuple(map(function, group)) for group in (self.forecasts, self.came, self.known))
        return Origins(function(self.features), forecasts, came, known, function(self.live), self.series)

    def between(self, first: int, last: int) -> Origins:
        """Origins number `first` to `last` of each series."""
        return self.map(lambda x: x[:, first:last])


class BlockState(NamedTuple):
    """What one block of the memory holds of each series, (series, ...) each."""

    weights: tuple[Tensor, ...]  # (series, heads, in, out) of each layer
    momentum: tuple[Tensor, ...]
    chunk_start: tuple[Tensor, ...]
    keys: Tensor  # (series, delay, head_dim) of the origins whose truth is awaited
    forecasts: Tensor  # (series, delay, columns)
    reads: Tensor  # (series, delay, columns) over the scale of the series' residuals
    live: Tensor  # (series, delay) of bool
    agreement: Tensor  # (series, groups, half-lives) float64: discounted products of residuals and readings
    size: Tensor  # (series, groups, half-lives) float64: discounted squares of readings


@dataclass(frozen=True)
class StreamState:
    """What the memory holds of each series.

    Parameters
    ----------
    blocks : tuple of BlockState
    ends : Tensor of int64 (series,)
        The time index after the last row that was read.
    recall : RecallState, optional
        Of a memory that has it.
    """

    blocks: tuple[BlockState, ...]
    ends: Tensor
    recall: RecallState | None = None

    def take(self, index: Tensor) -> StreamState:
        """The states of the series number `index` (any,), in that order."""
        return self.map(lambda x: x[index])

    def put(self, index: Tensor, other: StreamState) -> StreamState:
        """A copy in which the series number `index` (any,) have the states of `other`."""
        copied = self.map(Tensor.clone)
        copied.put_(index, other)
        return copied

    def put_(self, index: Tensor, other: StreamState) -> None:
        """The series number `index` (any,) take the states of `other`, in place."""
        for pair in zip(self._held, other._held, strict=True):
            _joined(lambda into, values: into.index_copy_(0, index, values), *pair)
        self.ends.index_copy_(0, index, other.ends)

    def tensors(self) -> dict[str, Tensor]:
        """All that is held, by name."""
        found = {"ends": self.ends}
        for i, block in enumerate(self.blocks):
            for name, field in zip(block._fields, block, strict=True):
                fields = field if isinstance(field, tuple) else (field,)
                found |= {f"{i}.{name}.{j}": tensor for j, tensor in enumerate(fields)}
        if self.recall is not None:
            found |= {f"recall.{name}": tensor for name, tensor in self.recall._asdict().items()}
        return found

    @property
    def _held(self) -> tuple[Any, ...]:
        """Those of blocks, and of recall."""
        return self.blocks if self.recall is None else (*self.blocks, self.recall)

    @classmethod
    def of_tensors(cls, tensors: dict[str, Tensor], like: StreamState) -> StreamState:
        """The state whose `tensors` these are, of the memory that another state is of.

        Raises
        ------
        ValueError
            If a tensor is missing, or has another shape or dtype than that state's: names it.
        """
        for name, x in like.tensors().items():
            found = tensors.get(name)
            if found is None or found.shape != x.shape or found.dtype != x.dtype:
                got = "none" if found is None else f"{tuple(found.shape)} of {found.dtype}"
                raise ValueError(f"`{name}` must have shape {tuple(x.shape)} of {x.dtype}, got {got}.")
        blocks = []
        for i, block in enumerate(like.blocks):
            fields: dict[str, Any] = {name: tensors[f"{i}.{name}.0"] for name in BlockState._fields}
            for name in ("weights", "momentum", "chunk_start"):
                fields[name] = tuple(tensors[f"{i}.{name}.{j}"] for j in range(len(block.weights)))
            blocks.append(BlockState(**fields))
        recall = like.recall
        if recall is not None:
            recall = RecallState(**{name: tensors[f"recall.{name}"] for name in RecallState._fields})
        return cls(tuple(blocks), tensors["ends"], recall)

    def map(self, function: Callable[[Tensor], Tensor]) -> StreamState:
        """`function` of all that is held."""
        recall = None if self.recall is None else _joined(function, self.recall)
        return StreamState(tuple(_joined(function, block) for block in self.blocks), function(self.ends), recall)

    def to(self, device: torch.device) -> StreamState:
        """The same on another device."""
        return self.map(lambda x: x.to(device))


def _joined(function: Callable[..., Tensor], *states: Any) -> Any:
    """`function` of each tensor of states of like shape."""

    def of_all(*fields: Any) -> Any:
        return tuple(map(of_all, *fields)) if isinstance(fields[0], tuple) else function(*fields)

    return states[0]._make(map(of_all, *states))
