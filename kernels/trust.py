"""Which Triton kernels `backend="auto"` uses on a GPU: those that have agreed with plain PyTorch there.

Compilers have got such kernels wrong without an error. So before "auto" uses the kernels of a case (see `agreement`) it
runs them on a small problem beside plain PyTorch, and uses them only where values and gradients agree. That takes the
seconds in which the kernels are compiled, which they take anyway, and then milliseconds; the verdict is remembered (see
`verdicts`). A kernel that is wrong is named in one warning.

A check runs in a thread of its own, so that the caller's grad mode, autocast, hooks and modes do not meet it, and draws
no random numbers of the caller's. It waits for the GPU and allocates, which neither a CUDA graph under capture nor a
function that `torch.compile` traces may do. There "auto" uses what has been checked before, and otherwise plain
PyTorch, with one warning: run a step before the capture or the compilation, or call `verify`. A compiled function may
serve many lengths, and so many launches: for it, cases of the same depth, dtype, sizes and forgetting must have been
checked, in whatever lengths, and all of them must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import checks
from .agreement import Case, ConvolutionCase, case_of, dtype_name
from .state import MemoryState
from .verdicts import Verdict, identity

# Batch x heads and steps of typical calls, which choose launches: a forecast's batch, a few long series, one stream.
SHAPES = ((4096, 96), (128, 4096), (8, 4096))


@dataclass(frozen=True)
class Verification:
    """What `verify` found on one device; as text, a line for each case."""

    device: str
    verdicts: tuple[Verdict, ...]

    @property
    def agrees(self) -> bool:
        """Whether every kernel that was checked agrees with plain PyTorch."""
        return all(verdict.agrees for verdict in self.verdicts)

    def __str__(self) -> str:
        lines = [
            f"{'ok' if verdict.agrees else 'WRONG':<7}{verdict.case}{': ' if verdict.words else ''}{verdict.words}"
            for verdict in self.verdicts
        ]
        wrong = sum(not verdict.agrees for verdict in self.verdicts)
        return "\n".join([f"{self.device}: {len(lines)} cases, {wrong} wrong", *lines])


def verify(
    device: torch.device | str = "cuda",
    *,
    depths: Sequence[int] = (1, 2),
    head_dims: Sequence[int] = (32, 64),
    chunk_sizes: Sequence[int] = (16, 64),
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16),
) -> Verification:
    """Check kernels on a device now, whatever is remembered of them, and remember the verdicts.

    Parameters
    ----------
    device : torch.device or str
        A GPU, by default the current one; a CPU only with TRITON_INTERPRET=1, where bfloat16 is always wrong.
    depths, head_dims, chunk_sizes : sequence of int
        Sizes of the memories to check: each in the launches of short and of long sequences, with gradients, and from a
        state without. Compiling the default ones takes minutes.
    dtypes : sequence of torch.dtype
        Of the queries, keys and values; gates are float32.

    Returns
    -------
    Verification
        Its `agrees` says whether all of them may be trusted; printed, it names each case.

    Raises
    ------
    ValueError
        If no kernels run on the device.
    """
    where = torch.device(device)
    _check_device(where)
    if where == torch.device("cuda"):  # without a number
        where = torch.device("cuda", torch.cuda.current_device())
    cases = dict.fromkeys(_typical_cases(where, depths, head_dims, chunk_sizes, dtypes))
    found = [checks.run(case, where) or Verdict(str(case), False, "no memory left on the device") for case in cases]
    return Verification(identity(where)["device"], tuple(found))


def considered(device: torch.device) -> bool:
    """Whether "auto" looks for kernels on a device."""
    return device.type == "cuda"


def scan_is_trusted(
    q: Tensor,
    gates: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor, ...],
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
    gradients: bool,
) -> bool:
    """Whether "auto" may use the kernels for this call, which they take."""
    if torch.compiler.is_compiling():
        from .traced import scan_agreed_before

        sizes = len(weights), q.shape[-1], weights[0].shape[-1]
        agreed: bool = scan_agreed_before(q.device, q.dtype, *sizes, decay_to, gradients)
        return agreed
    return checks.trust(case_of(q, gates, weights, chunk_size, state, decay_to, return_state, gradients), q)


def convolution_is_trusted(x: Tensor, heads: int) -> bool:
    """Whether "auto" may use the convolution's kernels for x (batch, tokens, 3 * heads * head_dim)."""
    head_dim = x.shape[-1] // (3 * heads)
    if torch.compiler.is_compiling():
        from .traced import convolution_agreed_before

        agreed: bool = convolution_agreed_before(x.device, x.dtype, head_dim)
        return agreed
    return checks.trust(ConvolutionCase(dtype_name(x.dtype), head_dim), x)


def _check_device(device: torch.device) -> None:
    try:
        from . import triton_launch
    except ImportError as error:
        raise ValueError(f"`device` {device} needs the package triton, which cannot be imported ({error}).") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"`device` must be a GPU that torch can use, got {device}.")
    if device.type != "cuda" and not triton_launch.INTERPRETED:
        raise ValueError(
            f"`device` must be a GPU, got {device}. With TRITON_INTERPRET=1 in the environment before the first import "
            "kernels run on a CPU."
        )


def _typical_cases(
    device: torch.device,
    depths: Sequence[int],
    head_dims: Sequence[int],
    chunk_sizes: Sequence[int],
    dtypes: Sequence[torch.dtype],
) -> Iterator[Case]:
    """The cases of training, of scoring and of a stream, in the forgetting that the layer has at each depth."""
    from . import triton_launch

    for dtype in dtypes:
        for head_dim in head_dims:
            yield ConvolutionCase(dtype_name(dtype), head_dim)
            for depth in depths:
                weights = depth * (torch.empty(1, head_dim, head_dim, dtype=torch.float32, device=device),)
                for chunk_size in chunk_sizes:
                    for heads, steps in SHAPES:
                        q = torch.empty(1, dtype=dtype, device=device).expand(heads, steps, 1, head_dim)
                        gate = torch.empty(1, dtype=torch.float32, device=device).expand(heads, steps, 1)
                        if triton_launch.refusal(q, weights, chunk_size) is not None:
                            continue
                        decay_to = "zero" if depth == 1 else "init"
                        for offset, gradients in ((None, True), (None, False), (0, False), (chunk_size // 2, False)):
                            state = None
                            if offset is not None:
                                state = MemoryState(weights=(), momentum=(), chunk_start=(), offset=offset)
                            keep = state is not None
                            yield case_of(q, (gate, gate, gate), weights, chunk_size, state, decay_to, keep, gradients)
