"""A training step as a CUDA graph: recorded once, replayed on every batch of the same shape.

A small network's step is mostly waiting for kernels to be launched one by one; a replay launches them all at once.

Source: PyTorch's notes on CUDA semantics, "Whole-network capture".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from titans_ts.model import Batch

Step = Callable[[Batch], Tensor]


class Recorder(Protocol):
    """The operations of a device that a recording needs."""

    def aside(self, call: Callable[[], Tensor]) -> tuple[Tensor, str]:
        """Run `call` apart from the current stream; its result, and where it waited for the device, if it did."""

    def record(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """A function that replays `call`, and where each replay leaves the result."""


def recorded(step: Step, device: torch.device) -> Step:
    """`step`, replayed as a graph where there is something to gain: on a GPU."""
    return GraphedStep(step, CudaRecorder(device)) if device.type == "cuda" else step


class GraphedStep:
    """A step that is replayed once it is warm.

    The first steps run as they are, since kernels are compiled and libraries set up in them, and so does the step of
    a batch of another shape than the first, such as an epoch's last. Where the step cannot be recorded, all of them do,
    after one warning that says why.

    Parameters
    ----------
    step : callable
        From a batch to its loss, detached; it changes weights and optimizer in place and never waits for the device.
    recorder : Recorder
    """

    WARM_UP = 3

    def __init__(self, step: Step, recorder: Recorder) -> None:
        self._step, self._recorder = step, recorder
        self._shapes: list[torch.Size | None] | None = None
        self._warm = 0
        self._gave_up = False
        self._graph: tuple[Batch, Callable[[], None], Tensor] | None = None

    def __call__(self, batch: Batch) -> Tensor:
        shapes = [None if x is None else x.shape for x in batch]
        if self._shapes is None:
            self._shapes = shapes
        if shapes != self._shapes or self._gave_up:
            return self._step(batch)
        if self._warm < self.WARM_UP:
            return self._warm_up(batch)
        if self._graph is None:
            self._record(batch)
        if self._graph is None:
            return self._step(batch)
        static, replay, loss = self._graph
        for held, given in zip(static, batch, strict=True):
            if held is not None and given is not None:
                held.copy_(given)
        replay()
        return loss.clone()

    def _warm_up(self, batch: Batch) -> Tensor:
        self._warm += 1
        loss, waited = self._recorder.aside(lambda: self._step(batch))
        if waited and self._warm == self.WARM_UP:
            self._give_up(f"it waits for the GPU at {waited}")
        return loss

    def _record(self, batch: Batch) -> None:
        static = batch.map(torch.clone)
        try:
            replay, loss = self._recorder.record(lambda: self._step(static))
        except RuntimeError as error:  # CUDA's errors are
            self._give_up(str(error).partition("\n")[0])
        else:
            self._graph = static, replay, loss

    def _give_up(self, why: str) -> None:
        self._gave_up = True
        warnings.warn(
            f"The training step is not recorded as a CUDA graph: {why}. It runs as it is, only slower; "
            "`cuda_graph=False` keeps it from being tried.",
            stacklevel=4,
        )


class CudaRecorder:
    """Streams and graphs of one GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def aside(self, call: Callable[[], Tensor]) -> tuple[Tensor, str]:
        with torch.cuda.device(self.device):
            stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
            stream.wait_stream(current)
            with torch.cuda.stream(stream), _watched() as waits:
                result = call()
            current.wait_stream(stream)
        return result, ", ".join(dict.fromkeys(waits))

    def record(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        with torch.cuda.device(self.device):
            random = torch.cuda.default_generators[torch.cuda.current_device()]
            before, graph = random.clone_state(), torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may go on
                    result = call()
            except BaseException:
                random.graphsafe_set_state(before)  # a recording that fails leaves it unusable
                raise
        return graph.replay, result


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Collect the lines of code within the block that wait for the GPU, which a recording forbids."""
    waits: list[str] = []
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield waits
        finally:
            torch.cuda.set_sync_debug_mode(before)
    for warning in caught:
        if "synchronizing CUDA operation" in str(warning.message):
            waits.append(f"{warning.filename}:{warning.lineno}")
        elif "Synchronization debug mode" not in str(warning.message):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
