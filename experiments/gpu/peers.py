"""Other packages' kernels and layers, on inputs made of ours, for the GPU measurements.

`fla-core` has kernels of simpler memories, `titans-pytorch` the same memory in plain PyTorch. None is needed: what
cannot be imported, or refuses to run on the card at hand, is said where it would be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu.common import Problem, Setup, Tensors, layer_of


class Peer(NamedTuple):
    """Another package's function, its inputs made of ours, and the ratio aimed at."""

    name: str
    call: Callable[..., Tensor]
    inputs: Tensors
    target: float | None = None


def peers(problem: Problem, x: Tensors, backward: bool) -> list[Peer]:
    """Linear memories beside a linear one; beside a deep one what stands nearest to it."""
    qkv = {n: x[n] for n in ("q", "k", "v")}
    if problem.depth == 1:
        gated = Peer("simple_gla", _simple_gla, qkv | {"g": -x["alpha"]}, 1.0 if backward else 1.2)
        return [gated, Peer("linear_attn", _linear_attn, qkv, 1.0)] if backward else [gated]
    delta = qkv | {"g": -x["alpha"], "beta": x["theta"]}
    # The layer norm's scale and bias, (heads, head_dim), are in the place of our second layer.
    norm = {name: x["weights.0"][:, i].to(problem.dtype) for i, name in enumerate("wb")}
    inner = qkv | norm | {"eta": x["theta"].to(problem.dtype).unsqueeze(-1)}
    return [
        Peer("gated_delta_rule", _gated_delta_rule, delta, None if backward else 1.2),
        Peer("ttt_linear", partial(_ttt_linear, problem.chunk_size), inner, 1.0 if backward else None),
    ]


def _simple_gla(**x: Tensor) -> Tensor:
    out: Tensor = import_module("fla.ops.simple_gla").chunk_simple_gla(**x)[0]
    return out


def _linear_attn(**x: Tensor) -> Tensor:
    out: Tensor = import_module("fla.ops.linear_attn").chunk_linear_attn(**x, normalize=False)[0]
    return out


def _gated_delta_rule(**x: Tensor) -> Tensor:
    out: Tensor = import_module("fla.ops.gated_delta_rule").chunk_gated_delta_rule(**x)[0]
    return out


def _ttt_linear(chunk_size: int, **x: Tensor) -> Tensor:
    out: Tensor = import_module("fla.ops.ttt").chunk_ttt_linear(**x, chunk_size=chunk_size)[0]
    return out


def layers(setup: Setup, chunk: int, batch: int, steps: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Forward and backward of a layer of ours and of one of titans-pytorch's, of one size, under autocast.

    Theirs does less: its weights change once a chunk, ours after every token.
    """
    heads, head_dim = (2, 16) if setup.smoke else (16, 64)
    width = heads * head_dim
    ours = layer_of(setup, heads, head_dim, chunk, steps)
    x = torch.randn(batch, steps, width, device=setup.device, requires_grad=True)
    autocast = nullcontext() if setup.interpreted else torch.autocast(setup.device.type, torch.bfloat16)

    def our_pass() -> None:
        with autocast:
            y = ours(x)
        torch.autograd.grad(y.float().square().mean(), [x, *ours.parameters()])

    def their_pass() -> None:
        with autocast:
            y = theirs()(x)[0]
        torch.autograd.grad(y.float().square().mean(), [x, *theirs().parameters()], allow_unused=True)

    made: list[Any] = []

    def theirs() -> Any:
        if not made:
            package = import_module("titans_pytorch")
            memory = package.MemoryMLP(head_dim, depth=2, expansion_factor=1.0)
            same: dict[str, Any] = dict(dim=width, heads=heads, dim_head=head_dim, chunk_size=chunk)
            layer = package.NeuralMemory(**same, model=memory, mem_model_norm_add_residual=False)
            made.append(layer.to(setup.device))
        return made[0]

    return our_pass, their_pass


def shorten_autotuning(share: tuple[int, int] | None = None) -> None:
    """Before a peer is imported: its autotuner takes 20 ms a configuration, or one run of each of a share of them."""
    from triton.runtime.autotuner import Autotuner
    from triton.testing import do_bench

    whole = Autotuner.__init__

    def once(call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
        call()
        return [1.0] * len(quantiles)

    def short(self: Any, fn: Any, arg_names: Any, configs: Any, *args: Any, **kwargs: Any) -> None:
        if share is not None and configs:
            configs = configs[share[0] :: share[1]] or configs[:1]
        whole(self, fn, arg_names, configs, *args, **kwargs)
        self._do_bench = once if share is not None else partial(do_bench, warmup=5, rep=20)

    Autotuner.__init__ = short
