"""The GPU checks of how the kernels are called: compiled, in a CUDA graph, on strided inputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpu.common import SEQUENCES, Case, Problem, Row, Setup, Tensors, compared, first_line, make, scan


def use(setup: Setup) -> Iterator[Case]:
    """Every way of calling gives what the plain call gives."""
    for depth in (1, 2):
        size: dict[str, Any] = dict(depth=depth, chunk_size=16, head_dim=16 if setup.smoke else 32, steps=37)
        problem = Problem(**size, dtype=setup.half)
        for name, check in USES.items():
            yield Case(f"{name}, depth {depth}", partial(check, f"{name}, depth {depth}", setup, problem))


def _inputs(setup: Setup, problem: Problem) -> tuple[Tensors, Tensors]:
    """Inputs, and what the plain call gives for them: y and gradients under the cotangent of y alone."""
    x = make(problem, setup.device)
    return x, _plain(problem, x, x["cotangent.y"], setup)


def _plain(problem: Problem, x: Tensors, cotangent: Tensor, setup: Setup) -> Tensors:
    leaves = _leaves(x)
    return _with_gradients(scan(problem, leaves, setup.backend), leaves, cotangent)


def _leaves(x: Tensors) -> Tensors:
    return {n: value.detach().requires_grad_() for n, value in x.items() if not n.startswith("cotangent.")}


def _with_gradients(y: Tensor, leaves: Tensors, cotangent: Tensor) -> Tensors:
    gradients = torch.autograd.grad(y, list(leaves.values()), cotangent)
    return {"y": y.detach(), **{f"gradient by {n}": g for n, g in zip(leaves, gradients, strict=True)}}


def _compile(name: str, setup: Setup, problem: Problem) -> list[Row]:
    if setup.device.type != "cuda":
        return [Row(name, note="skipped: needs a GPU")]
    x, expected = _inputs(setup, problem)
    leaves = _leaves(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = torch.compile(lambda x: scan(problem, x, setup.backend) * 1, fullgraph=True)(leaves)
        found = _with_gradients(y, leaves, x["cotangent.y"])
    return compared(name, found, expected, (0, 0))


def _autocast(name: str, setup: Setup, problem: Problem) -> list[Row]:
    problem = replace(problem, dtype=torch.float32)
    x, expected = _inputs(setup, problem)
    leaves = _leaves(x)
    with torch.autocast(setup.device.type, torch.bfloat16):
        y = scan(problem, leaves, setup.backend)
    return compared(name, _with_gradients(y, leaves, x["cotangent.y"]), expected, (0, 0))


def _inference(name: str, setup: Setup, problem: Problem) -> list[Row]:
    x, expected = _inputs(setup, problem)
    with torch.inference_mode():
        found = {"y": scan(problem, x, setup.backend)}
    return compared(name, found, {"y": expected["y"]}, (0, 0))


def _cuda_graph(name: str, setup: Setup, problem: Problem) -> list[Row]:
    """Captured on other inputs than it is replayed on."""
    if setup.device.type != "cuda":
        return [Row(name, note="skipped: needs a GPU")]
    x, expected = _inputs(setup, problem)
    static = make(problem, setup.device, seed=1)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            _plain(problem, static, static["cotangent.y"], setup)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = _plain(problem, static, static["cotangent.y"], setup)
    for n, value in static.items():
        value.copy_(x[n])
    graph.replay()
    torch.cuda.synchronize()
    return compared(name, found, expected, (0, 0))


def _double_backward(name: str, setup: Setup, problem: Problem) -> list[Row]:
    if setup.backend != "triton":
        return [Row(name, note=f"skipped: {setup.backend} has second derivatives")]
    x = make(problem, setup.device)
    q = x["q"].requires_grad_()
    y = scan(problem, x, setup.backend)
    try:
        (gradient,) = torch.autograd.grad(y.float().square().sum(), q, create_graph=True)
        torch.autograd.grad(gradient.float().square().sum(), q)
    except RuntimeError as failure:
        return [Row(name, target="raises", ok="ok", note=first_line(failure))]
    return [Row(name, target="raises", ok="FAIL", note="a gradient of the gradient was given")]


def _own_device(name: str, setup: Setup, problem: Problem) -> list[Row]:
    if setup.device.type != "cuda" or torch.cuda.device_count() < 2:
        return [Row(name, note="skipped: needs two GPUs")]
    _, expected = _inputs(setup, problem)
    other = replace(setup, device=torch.device("cuda", 1))
    x = {n: value.to(other.device) for n, value in make(problem, setup.device).items()}
    found = {n: value.to(setup.device) for n, value in _plain(problem, x, x["cotangent.y"], other).items()}
    return compared(name, found, expected, (0, 0))


def _poisoned(name: str, setup: Setup, problem: Problem) -> list[Row]:
    """Inputs that lie in larger tensors, between NaN."""
    x, expected = _inputs(setup, problem)
    for n in (*SEQUENCES, "cotangent.y"):
        room = x[n].new_full((x[n].shape[0], problem.steps + 64, *x[n].shape[2:]), float("nan"))
        room[:, 32 : 32 + problem.steps] = x[n]
        x[n] = room[:, 32 : 32 + problem.steps]
    return compared(name, _plain(problem, x, x["cotangent.y"], setup), expected, (0, 0))


def _strided(name: str, setup: Setup, problem: Problem) -> list[Row]:
    """Heads ahead of steps in memory, as a transposed layout has them, and features last or not."""
    x, expected = _inputs(setup, problem)
    for n in (*SEQUENCES, "cotangent.y"):
        x[n] = x[n].transpose(1, 2).contiguous().transpose(1, 2)
    x["v"] = x["v"].mT.contiguous().mT
    return compared(name, _plain(problem, x, x["cotangent.y"], setup), expected, (0, 0))


def _cotangents(name: str, setup: Setup, problem: Problem) -> list[Row]:
    """`y.sum()` gives an expanded cotangent, a concatenation a slice of a larger one."""
    x, _ = _inputs(setup, problem)
    ones = torch.ones_like(x["q"])
    expected = _plain(problem, x, ones, setup)
    leaves = _leaves(x)
    rows = []
    for kind in ("sum", "concatenation"):
        y = scan(problem, leaves, setup.backend)
        total = y.sum() if kind == "sum" else torch.cat([y, torch.zeros_like(y)], dim=-1).sum()
        gradients = torch.autograd.grad(total, list(leaves.values()))
        found = {f"gradient by {n}": g for n, g in zip(leaves, gradients, strict=True)}
        rows += compared(f"{name}, {kind}", found, {n: expected[n] for n in found}, (0, 0))
    return rows


USES = {
    "torch.compile": _compile,
    "autocast": _autocast,
    "inference mode": _inference,
    "CUDA graph": _cuda_graph,
    "double backward": _double_backward,
    "the tensor's own device": _own_device,
    "poisoned surroundings": _poisoned,
    "strided": _strided,
    "cotangent": _cotangents,
}
