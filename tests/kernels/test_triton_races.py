"""What the Triton kernels read and write, written down in triton's interpreter, which itself cannot show a race.

No number may be written by one program of a launch and met by another. Within a program what was stored may be loaded
only behind a barrier said aloud, for other threads may load it; nor may anything else meet a store without one, but a
store to the very tile of pointers that was loaded or stored before, which Triton gives to the same threads. What is in
shared memory is the compiler's to keep apart.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs the package triton")

from titans_ts.kernels import triton_convolution, triton_launch, triton_scan

pytestmark = pytest.mark.skipif(not triton_launch.INTERPRETED, reason="the interpreter alone says what kernels read")

Inputs = dict[str, Any]
Launch = partial(triton_launch.Launch, warps=4, backward_warps=4, group=2)

SHARED = ("triton_common", "triton_layer", "triton_launch", "triton_scan")  # modules of functions for several kernels
TOGETHER, APART = Launch(), Launch(split=True, apart=True)


class Accesses:
    """The loads and stores of the launches made while it is `recording`."""

    def __init__(self, *, barriers: bool = True) -> None:
        self.conflicts: set[tuple[str, ...]] = set()  # lines that meet in the same number
        self.stores = 0
        self._barriers = barriers
        self._launch()

    def _launch(self) -> None:
        self._found: list[dict[str, Any]] = []
        self._program = self._epoch = 0

    def _finish(self) -> None:
        if not self._found:
            return
        frame = pd.DataFrame(self._found).explode("address", ignore_index=True)
        frame["address"] = frame["address"].astype(np.uint64)
        self.stores += int(frame["store"].sum())
        frame["order"] = frame.index
        frame["first_store"] = frame["order"].where(frame["store"])
        frame["last_load"] = frame["order"].where(~frame["store"])
        for keys, different in ((["address"], "program"), (["address", "program", "epoch"], "tile")):
            met = frame.groupby(keys)
            first_store = met["first_store"].transform("min")
            bad = first_store.notna() & (met[different].transform("nunique") > 1)
            if "epoch" in keys:
                bad |= first_store < met["last_load"].transform("max")
            self.conflicts |= {tuple(sorted(set(lines))) for _, lines in frame[bad].groupby(keys)["line"]}
        self._launch()

    def _note(self, pointers: Any, mask: Any, store: bool) -> None:
        addresses = np.ravel(pointers.data)
        real = np.ravel(np.broadcast_to(mask.data, pointers.data.shape)).astype(bool)
        if real.any():
            self._found.append(
                {
                    "address": addresses[real],
                    "program": self._program,
                    "epoch": self._epoch,
                    "store": store,
                    "tile": hash((pointers.data.shape, addresses.tobytes())),
                    "line": _line_of_a_kernel(),
                }
            )

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        from triton.runtime.interpreter import InterpreterBuilder as Builder

        load, store, place, launch = (
            getattr(Builder, name)
            for name in ("create_masked_load", "create_masked_store", "set_grid_idx", "set_grid_dim")
        )

        def loads(builder: Any, pointers: Any, mask: Any, *others: Any) -> Any:
            self._note(pointers, mask, store=False)
            return load(builder, pointers, mask, *others)

        def stores(builder: Any, pointers: Any, value: Any, mask: Any, *others: Any) -> Any:
            self._note(pointers, mask, store=True)
            return store(builder, pointers, value, mask, *others)

        def barrier(_: Any) -> None:
            self._epoch += self._barriers

        def places(builder: Any, *index: int) -> Any:
            self._program += 1
            return place(builder, *index)

        def launches(builder: Any, *grid: int) -> Any:
            self._finish()
            return launch(builder, *grid)

        with monkeypatch.context() as patch:
            patch.setattr(Builder, "create_masked_load", loads)
            patch.setattr(Builder, "create_masked_store", stores)
            patch.setattr(Builder, "create_barrier", barrier)
            patch.setattr(Builder, "set_grid_idx", places)
            patch.setattr(Builder, "set_grid_dim", launches)
            yield
        self._finish()


def _line_of_a_kernel() -> str:
    """Where a kernel asks for it, be it of a function that kernels share."""
    nearest = ""
    for frame, line in traceback.walk_stack(None):
        name = frame.f_code.co_filename.rpartition("/")[2]
        if name.startswith("triton_"):
            nearest = nearest or f"{name}:{line}"
            if not name.startswith(SHARED):
                return f"{name}:{line}"
    return nearest


@pytest.fixture
def few_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs of the gates' kernels, and of a phase more than one part."""
    monkeypatch.setattr(triton_scan, "GATE_LANES", 64)
    monkeypatch.setattr(triton_launch, "SCRATCH", 1)


# 11: races.
@pytest.mark.usefixtures("few_together")
@pytest.mark.parametrize(
    ("depth", "launch", "D", "offset"),
    [
        (1, TOGETHER, 7, None),
        (1, TOGETHER, 7, 2),
        (1, APART, 7, None),  # a loop without a barrier, whose loads Triton may make a turn early
        (1, APART, 7, 2),
        (1, replace(APART, block=16), 17, 2),
        (2, TOGETHER, 7, None),
        (2, TOGETHER, 7, 2),
        (2, APART, 7, 2),
    ],
    ids=lambda x: ("apart" if x.apart else "together") if isinstance(x, triton_launch.Launch) else None,
)
def test_no_thread_meets_what_another_wrote(
    depth: int,
    launch: triton_launch.Launch,
    D: int,
    offset: int | None,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = make_inputs(B=2, T=13, H=1, D=D, depth=depth, expansion=1, offset=offset, dtype=torch.float32)
    accesses = Accesses()
    with accesses.recording(monkeypatch), triton_launch.forced(launch):
        evaluate(inputs, backend="triton", chunk_size=4, decay_to="zero" if offset is None else "init")
    assert accesses.stores > 0
    assert accesses.conflicts == set()


def test_no_thread_meets_what_another_wrote_in_the_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias = (torch.randn(shape, requires_grad=True) for shape in ((2, 9, 30), (4, 30), (30,)))
    accesses = Accesses()
    with accesses.recording(monkeypatch):
        torch.stack(triton_convolution.convolve(x, weight, bias, 2, 1, 1e-6)).sum().backward()
    assert accesses.stores > 0
    assert accesses.conflicts == set()


# The check itself: deaf to barriers, it hears of what they keep apart.
@pytest.mark.parametrize("depth", [1, 2])
def test_a_missing_barrier_is_found(
    depth: int,
    make_inputs: Callable[..., Inputs],
    evaluate: Callable[..., dict[str, Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = make_inputs(B=1, T=5, H=1, D=7, depth=depth, expansion=1, dtype=torch.float32)
    accesses = Accesses(barriers=False)
    with accesses.recording(monkeypatch), triton_launch.forced(TOGETHER):
        evaluate(inputs, backend="triton", chunk_size=4)
    files = {line.split(":")[0] for lines in accesses.conflicts for line in lines}
    assert {"triton_gates.py", "triton_deep.py" if depth == 2 else "triton_linear.py"} <= files
