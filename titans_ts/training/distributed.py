"""Training in several processes that torchrun starts: each computes its share of a batch, all keep the same weights.

Gradients are summed here rather than by torch's DistributedDataParallel, which takes the plain mean over processes. The
mean over a batch that does not divide evenly needs each share to count by its samples; one sum over all gradients laid
end to end, the loss before them, is that and all there is to it. The networks are small enough to be sent at once.

Gloo, on CPUs, tells at once when another process is gone. NCCL, on GPUs, does not: there torchrun ends the others, and
where nothing else does, NCCL itself once `TIMEOUT` has passed, both with messages of their own.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from titans_ts.devices import under_torchrun
from titans_ts.model import Batch

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store  # torch.distributed, built without it, has none

TIMEOUT = timedelta(minutes=10)  # in which a process that says nothing counts as gone
ROUNDING = 1e-6  # relative, between the same sums taken on different machines

_T = TypeVar("_T")
_CPU = torch.device("cpu")
_joins = itertools.count()
_talking = threading.RLock()  # held by the thread that talks to the other processes


def first_rank() -> bool:
    """Whether this process is the one of its run that shows progress, before they have met."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    return not under_torchrun() or os.environ["RANK"] == "0"


@contextmanager
def process_group(device: torch.device, what: str) -> Iterator[Ranks]:
    """The processes of this run, able to talk to each other within the block.

    A process group that the caller has initialised is used and left as it is. Where there is none but torchrun's
    variables (RANK, WORLD_SIZE, LOCAL_RANK) are set, one is made, and taken down after the block: by NCCL on a GPU, by
    Gloo elsewhere.

    Parameters
    ----------
    device : torch.device
        Where the tensors lie that the processes exchange.
    what : str
        What every process must call, for the error where one does not.

    Yields
    ------
    Ranks
        `ALONE` where there is one process only.

    Raises
    ------
    RuntimeError
        If not all processes come within `TIMEOUT`, or if another thread of this one talks to them: a process has one
        group, whose messages two threads would mix up.
    ValueError
        If the caller's process group cannot carry tensors of `device`.
    """
    initialised = dist.is_available() and dist.is_initialized()
    if initialised and dist.get_backend() == dist.Backend.NCCL and device.type != "cuda":
        raise ValueError(
            f"the process group must carry tensors of the device {str(device)!r}, but NCCL carries those of GPUs "
            "alone. Initialise it with the backend 'gloo'."
        )
    if (initialised and dist.get_world_size() == 1) or not (initialised or under_torchrun()):
        yield ALONE
        return
    if not _talking.acquire(blocking=False):
        raise RuntimeError(
            f"`{what}` must be called by one thread at a time where several processes work together, but another "
            "thread is at it. Call it in one after the other, or start the script without torchrun."
        )
    try:
        with _group(device, what) as ranks:
            yield ranks
    finally:
        _talking.release()


@contextmanager
def _group(device: torch.device, what: str) -> Iterator[Ranks]:
    """The processes of this run, of which there are several, in the one thread that talks to them."""
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size(), device)
        return
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # Each group has another name: what an earlier one has left in the store would mislead a later one.
    store = dist.PrefixStore(f"titans_ts/{what}/{next(_joins)}", _store())  # type: ignore[attr-defined]
    _meet(store, rank, world, what)
    by_nccl, excepthook = device.type == "cuda" and dist.is_nccl_available(), sys.excepthook
    dist.init_process_group(
        "nccl" if by_nccl else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=TIMEOUT,
        device_id=device if by_nccl else None,
    )
    try:
        yield Ranks(rank, world, device)
    finally:
        dist.destroy_process_group()
        sys.excepthook = excepthook  # torch wraps it each time, to write the rank before every line once more


@dataclass(frozen=True)
class Ranks:
    """This process among those of the run; alone it does nothing to what it is given.

    What one process calls, all must call, in the same order; `shard` and `seed` alone do not talk to the others.

    Parameters
    ----------
    rank : int
        The number of this process. Number 0 shows progress and writes files, and its word counts.
    world : int
        How many there are.
    device : torch.device
        Where exchanged tensors lie.

    Raises
    ------
    RuntimeError
        From a method that talks to the others, if one of them was killed, has failed, or is silent for too long.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = _CPU

    def shard(self, batch: Batch) -> tuple[Batch, float]:
        """This process's samples of a batch that all hold, in order, and their share of it.

        A batch with fewer samples than there are processes leaves some with a share of 0. They are given one sample
        all the same, so that they have a loss and gradients to count nothing of.
        """
        if self.world == 1:
            return batch, 1.0
        size = batch.n_samples
        first, last = (size * rank // self.world for rank in (self.rank, self.rank + 1))
        part = slice(first, max(last, first + 1))
        return batch.map(lambda field: field[part]), (last - first) / size

    def all_reduce_gradients(self, loss: Tensor, parameters: Iterator[nn.Parameter], share: float) -> Tensor:
        """Reduce the loss of each share to the mean loss of the whole batch, (), and gradients in place likewise.

        Parameters without a gradient must have none in any process.
        """
        if self.world == 1:
            return loss
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([loss.reshape(1).to(gradients[0]), *(gradient.flatten() for gradient in gradients)])
        self._sum(flat.mul_(share))
        whole, *parts = flat.split([1, *(gradient.numel() for gradient in gradients)])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))
        mean: Tensor = whole[0].clone()  # a view would keep the gradients
        return mean

    def all_reduce(self, *numbers: float) -> Sequence[float]:
        """Each number, summed over the processes in float64."""
        if self.world == 1:
            return numbers
        found: list[float] = self._sum(torch.tensor(numbers, dtype=torch.float64, device=self.device)).tolist()
        return found

    def broadcast_weights(self, network: nn.Module) -> None:
        """Give every process the weights of rank 0."""
        if self.world == 1:
            return
        with self._peers_alive():
            for value in network.state_dict().values():
                dist.broadcast(value, src=0)

    def broadcast(self, value: _T) -> _T:
        """The `value` that rank 0 has."""
        if self.world == 1:
            return value
        values = [value]
        with self._peers_alive():
            dist.broadcast_object_list(values, src=0, device=self.device)
        return values[0]

    def run_on_rank0(self, action: Callable[[], None]) -> None:
        """Let rank 0 do something once for all; the others wait until it is done, and fail where it does."""
        failure = None
        if self.rank == 0:
            try:
                action()
            except Exception as error:
                failure = error
        text = self.broadcast(None if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        if text is not None:
            raise RuntimeError(f"Rank 0, which does this for all {self.world} processes, has failed with {text}")

    def require_same(self, facts: Mapping[str, float]) -> None:
        """Refuse, in every process, to go on with different data; integers are compared exactly.

        Raises
        ------
        ValueError
            Naming the fact that differs, and its value on two ranks.
        """
        if self.world == 1:
            return
        table = torch.zeros(self.world, len(facts), dtype=torch.float64, device=self.device)
        table[self.rank] = torch.tensor(list(facts.values()), dtype=torch.float64)
        for (name, fact), (first, *others) in zip(facts.items(), self._sum(table).T.tolist(), strict=True):
            tolerance = 0 if isinstance(fact, int) else ROUNDING
            for rank, other in enumerate(others, start=1):
                if not np.isclose(first, other, rtol=tolerance, atol=0, equal_nan=True):
                    raise ValueError(
                        f"every process must be given the same data and settings, but {name} is {first:.10g} on rank 0 "
                        f"and {other:.10g} on rank {rank}. Read all rows on every rank: each takes its own share of "
                        "every batch by itself."
                    )

    def seed(self, random_state: int) -> int:
        """The seed of what each process draws for itself, such as dropout; that of rank 0 is `random_state`."""
        if self.rank == 0:
            return random_state
        return int(np.random.SeedSequence((random_state, self.rank)).generate_state(1)[0])

    def _sum(self, values: Tensor) -> Tensor:
        """Sum over the processes, in place."""
        with self._peers_alive():
            dist.all_reduce(values)
        return values

    @contextmanager
    def _peers_alive(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            other = "another process" if self.world > 2 else f"rank {1 - self.rank}"
            raise RuntimeError(
                f"Rank {self.rank} of {self.world} has lost {other} of the run, which was killed, has failed or has "
                "been silent for too long. See what it printed last, and start the run again."
            ) from error


ALONE = Ranks()


def _meet(store: Store, rank: int, world: int, what: str) -> None:
    """Wait until all have come; a group that not all join would fail later, and not say who is missing."""
    store.set(f"rank {rank}", "here")
    try:
        store.wait([f"rank {other}" for other in range(world)], TIMEOUT)
    except RuntimeError as error:
        missing = ", ".join(str(other) for other in range(world) if not store.check([f"rank {other}"]))
        raise RuntimeError(
            f"Rank {rank} of {world} has waited {TIMEOUT.total_seconds():g} seconds in `{what}` for rank {missing}. "
            f"Every process that torchrun started must call `{what}`, and none may have ended before."
        ) from error


@cache
def _store() -> Store:
    """The store in which the processes find each other; cached, since rank 0 may serve it and others may come back."""
    store: Store = next(iter(dist.rendezvous("env://", timeout=TIMEOUT)))[0]  # type: ignore[attr-defined]
    return store
