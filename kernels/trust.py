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

import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .agreement import Case, ConvolutionCase, case_of, dtype_name
from .state import MemoryState
from .verdicts import Verdict, Verdicts, identity

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
    found = [_checks.run(case, where) or Verdict(str(case), False, "no memory left on the device") for case in cases]
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
        return scan_agreed_before(q.device, q.dtype, *sizes, decay_to, gradients)
    return _checks.trust(case_of(q, gates, weights, chunk_size, state, decay_to, return_state, gradients), q)


def convolution_is_trusted(x: Tensor, heads: int) -> bool:
    """Whether "auto" may use the convolution's kernels for x (batch, tokens, 3 * heads * head_dim)."""
    head_dim = x.shape[-1] // (3 * heads)
    if torch.compiler.is_compiling():
        from .traced import convolution_agreed_before

        return convolution_agreed_before(x.device, x.dtype, head_dim)
    return _checks.trust(ConvolutionCase(dtype_name(x.dtype), head_dim), x)


def all_agree(device: torch.device, **fields: Any) -> bool:
    """Whether cases with these fields are remembered, and all of them agree."""
    return _checks.trust_all(device, fields)


class Checks:
    """The checks of this process: what they found, and of what the user has been warned."""

    def __init__(self) -> None:
        self._verdicts = Verdicts()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def trust(self, case: Case, x: Tensor) -> bool:
        """Whether the kernels of a case agree on the device of `x`: as remembered, else as a check finds now."""
        verdict = self._verdicts.get(case, x.device)
        if verdict is None:
            if isinstance(x, FakeTensor) or (x.device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
                self._warn_unchecked(str(case))
                return False
            verdict = self.run(case, x.device, again=False)
        return verdict is not None and self._agrees(verdict, x.device)

    def trust_all(self, device: torch.device, fields: dict[str, Any]) -> bool:
        verdicts = self._verdicts.matching(device, fields)
        if not verdicts:
            self._warn_unchecked(", ".join(f"{name} {value}" for name, value in fields.items()))
        found = [self._agrees(verdict, device) for verdict in verdicts]
        return bool(found) and all(found)

    def run(self, case: Case, device: torch.device, again: bool = True) -> Verdict | None:
        """The verdict of a check; None where the device has no memory left for it."""
        with self._lock:  # another thread may have run it meanwhile
            verdict = None if again else self._verdicts.get(case, device)
            if verdict is None:
                verdict = _verdict(case, device)
                if verdict is not None:
                    self._verdicts.put(case, device, verdict)
            return verdict

    def _agrees(self, verdict: Verdict, device: torch.device) -> bool:
        if not verdict.agrees:
            self._warn(
                verdict.case,
                f"The Triton kernels of this case are wrong on {identity(device)['device']}: {verdict.case}: "
                f"{verdict.words}. `backend='auto'` uses plain PyTorch for it, which is slower.",
            )
        return verdict.agrees

    def _warn_unchecked(self, what: str) -> None:
        self._warn(
            "unchecked",
            "Triton kernels are not checked while a CUDA graph is captured or a function is compiled, so "
            f"`backend='auto'` uses plain PyTorch there for what was not checked before: {what}. Run a step before "
            "that, or call `titans_ts.kernels.verify()`.",
        )

    def _warn(self, about: str, words: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            warnings.warn(words, stacklevel=7)


_checks = Checks()


def _verdict(case: Case, device: torch.device) -> Verdict | None:
    """What a check finds in a fresh thread, whose modes are torch's defaults; None where memory ran out."""
    found: list[Verdict | None] = []

    def run() -> None:
        try:
            words = _difference(case, device)
            found.append(Verdict(str(case), words is None, words or ""))
        except torch.OutOfMemoryError:
            found.append(None)
        except Exception as failure:
            words = f"{type(failure).__name__}: {(str(failure).strip() or 'no words').splitlines()[0].rstrip('.')}"
            # What breaks the GPU would break the next process too; a compiler that is missing may be installed.
            found.append(Verdict(str(case), False, words, lasting=isinstance(failure, torch.AcceleratorError)))

    thread = threading.Thread(target=run, name="check of titans_ts.kernels")
    thread.start()
    thread.join()
    return found[0]


def _difference(case: Case, device: torch.device) -> str | None:
    if device.type != "cuda":
        return case.difference(device)
    with torch.cuda.device(device):
        mode = torch.cuda.get_sync_debug_mode()
        if mode:  # somebody watches for code that waits for the GPU, as a check does
            torch.cuda.set_sync_debug_mode("default")
        try:
            return case.difference(device)
        finally:
            if mode:
                torch.cuda.set_sync_debug_mode(mode)


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
