"""The checks of Triton kernels beside plain PyTorch that this process has made, and what it has warned of.

A check runs in a thread of its own, so that the caller's grad mode, autocast, hooks and modes do not meet it.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .agreement import Case
from .verdicts import Verdict, Verdicts, identity


def trust(case: Case, x: Tensor) -> bool:
    """Whether the kernels of a case agree on the device of `x`: as remembered, else as a check finds now."""
    return _process.trust(case, x)


def run(case: Case, device: torch.device) -> Verdict | None:
    """The verdict of a check now; None where the device has no memory left for it."""
    return _process.run(case, device)


def all_agree(device: torch.device, **fields: Any) -> bool:
    """Whether cases with these fields are remembered, and all of them agree."""
    return _process.trust_all(device, fields)


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
            warnings.warn(words, stacklevel=8)


_process = Checks()


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
