"""Devices, and what torch holds for a whole process or thread: random numbers, modes, defaults.

Nothing here changes what another thread finds, but for a GPU's generator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DRAWS = {torch.rand, torch.randn, Tensor.uniform_, Tensor.normal_}
DRAWS |= {nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, nn.init.xavier_uniform_}
FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.rand, torch.randn}
AUTOCAST = ("cpu", "cuda")  # devices whose automatic mixed precision a caller may have on


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
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
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
def isolated() -> Iterator[None]:
    """Torch's own modes within the block, whatever the caller has set: gradients, float32 throughout, on the CPU.

    Inference mode, `no_grad`, autocast and a default device, all of which belong to a thread, are as torch begins with
    them. The default dtype belongs to the process and stays: what is made within says its dtype.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in AUTOCAST:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":  # not always: it would slow down every operation
            stack.enter_context(torch.device("cpu"))
        torch.get_num_threads()  # a thread has the number that was set only once it is asked for
        yield


@contextmanager
def enough_memory(**sizes: int) -> Iterator[None]:
    """Say which sizes ask for more memory than there is, where PyTorch or NumPy is refused it within the block.

    Raises
    ------
    MemoryError
        Naming each parameter of `sizes` and its value.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "can't allocate memory" not in str(error):
            raise
        raise MemoryError(
            f"{_listed(sizes)} need more memory than there is; lower the largest of them. ({error})"
        ) from error


def check_memory(n_bytes: int, **sizes: int) -> None:
    """Refuse what would take more memory than this machine has, where it says how much that is.

    Raises
    ------
    MemoryError
        Naming each parameter of `sizes` and its value.
    """
    try:
        held = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return
    if n_bytes > held:
        needed, there = (f"{number / 2**30:,.0f}" for number in (n_bytes, held))
        raise MemoryError(f"{_listed(sizes)} need {needed} GiB, and there are {there}; lower one of them.")


def _listed(sizes: dict[str, int]) -> str:
    return ", ".join(f"`{name}` = {size}" for name, size in sizes.items())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw what a module begins with from a generator of the block's own, in float32: the process's is not touched.

    They are the numbers that `torch.manual_seed(seed)` would give.
    """
    with _Initialising(torch.Generator().manual_seed(seed)):
        yield


@contextmanager
def seeded_gpu(seed: int, device: torch.device) -> Iterator[None]:
    """Fix the random numbers of a GPU within the block; the caller's go on afterwards as if nothing had been.

    A GPU has one generator for all threads, which `nn.Dropout` draws from and CUDA graphs record: of networks that
    several threads train on it at once, none repeats its dropout. On a CPU, nothing is done.
    """
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.get_rng_state(device)
    with torch.cuda.device(device):
        torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        torch.cuda.set_rng_state(before, device)


class _Initialising(TorchFunctionMode):
    """Tensors that a module's constructor makes are of float32, their random numbers from `generator`.

    Only this thread's: so the process's generator and its default dtype have no say and need no change.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        if func in DRAWS and given.get("generator") is None:
            given["generator"] = self.generator
        if func in FACTORIES and given.get("dtype") is None:
            given["dtype"] = torch.float32
        return func(*args, **given)
