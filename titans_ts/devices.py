"""Devices, and the random numbers that torch draws on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def find_device(name: str | None) -> torch.device:
    """The device called `name`, or a GPU if there is one for None; of several GPUs, each of torchrun's has its own.

    Raises
    ------
    ValueError
        If there is no such device on this machine.
    """
    if name is None:
        return local_gpu() if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
        if str(name) == "cuda":
            device = local_gpu()
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"`device` must be a device of this machine such as 'cpu', got {name!r}: {error}") from error
    return device


def local_gpu() -> torch.device:
    """The GPU of this process: the current one, or that of the number torchrun gave it.

    Raises
    ------
    ValueError
        If torchrun has started more processes here than there are GPUs.
    """
    count = torch.cuda.device_count()
    if not under_torchrun() or not count:
        return torch.device("cuda")
    number = int(os.environ["LOCAL_RANK"])
    if number >= count:
        raise ValueError(
            f"`device` must be a GPU for each process, but this one is number {number} of a machine with {count}. "
            f"Start fewer (`--nproc_per_node={count}`), or name the device, such as 'cpu'."
        )
    return torch.device("cuda", number)


def under_torchrun() -> bool:
    """Whether torchrun has started this process beside others."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK"} <= os.environ.keys() and int(os.environ["WORLD_SIZE"]) > 1


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Fix torch's random numbers within the block; the caller's go on afterwards as if nothing had been."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
