"""The neural memory: a small network that keeps learning while it reads.

`memory_scan` is its entry point; `convolution_kernel` is what a layer puts in front of it on a GPU, and `verify` checks
there that the kernels compute what plain PyTorch does. Letters, here and nowhere else in the toolkit:

    B batch    H heads    T steps    D head size    E hidden size    C chunk    N chunks    L layers

Source: Titans: Learning to Memorize at Test Time (Behrouz et al., 2024), section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor

from . import chunkwise, reference, trust
from .held import to_tokens
from .state import MemoryState
from .trust import Verification, verify

__all__ = [
    "BACKENDS",
    "ConvolutionKernel",
    "MemoryState",
    "Verification",
    "convolution_kernel",
    "memory_scan",
    "verify",
]

BACKENDS = ("auto", "triton", "chunkwise", "reference")
# x (batch, before + tokens, channels), weight, bias, heads, before, eps -> q, k, v; see `triton_convolution.convolve`
ConvolutionKernel = Callable[[Tensor, Tensor, Tensor, int, int, float], tuple[Tensor, Tensor, Tensor]]


@overload
def memory_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    *,
    chunk_size: int,
    state: MemoryState | None = None,
    return_state: Literal[False] = False,
    decay_to: str = "zero",
    gates: str = "token",
    backend: str = "auto",
) -> Tensor: ...


@overload
def memory_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    *,
    chunk_size: int,
    state: MemoryState | None = None,
    return_state: Literal[True],
    decay_to: str = "zero",
    gates: str = "token",
    backend: str = "auto",
) -> tuple[Tensor, MemoryState]: ...


def memory_scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    *,
    chunk_size: int,
    state: MemoryState | None = None,
    return_state: bool = False,
    decay_to: str = "zero",
    gates: str = "token",
    backend: str = "auto",
) -> Tensor | tuple[Tensor, MemoryState]:
    """Read a sequence with a memory that stores each token before it is queried.

    The memory of each (batch, head) is an MLP with SiLU between its layers. Token t is stored by one step down the
    gradient u_t of |M(k_t) - v_t|^2, taken at the weights held when t's chunk began, then queried:

        S_t = eta_t S_{t-1} - theta_t u_t        W_t = (1 - alpha_t) W_{t-1} + S_t        y_t = M_t(q_t)

    Parameters
    ----------
    q, k, v : Tensor (batch, steps, heads, head_dim)
        Queries, keys and values, of one floating dtype.
    alpha, eta, theta : Tensor (batch, steps, heads)
        Gates in [0, 1], not checked: alpha forgets, eta carries past surprise, theta is the step size.
        With ``gates="chunk"`` alpha and eta are (batch, chunks, heads).
    weights : tuple of Tensor, one per layer, each (heads, in, out)
        The memory's initial weights W_0. With a `state` only their shapes are used, and their values if
        ``decay_to="init"``.
    chunk_size : int
        Tokens whose surprises are taken at the same weights; a part of the model, not only of its speed.
    state : MemoryState, optional
        Where an earlier call stopped. Float64 where `q` is, else float32.
    return_state : bool
        Return the state after the last token as well.
    decay_to : {"zero", "init"}
        What forgetting leads to: zero (the paper's eq. 13) or W_0 (alpha_t W_0 is added; the memory cannot die).
    gates : {"token", "chunk"}
        Whether each token has gates of its own, or alpha and eta are the same at all tokens of a chunk: one for each
        chunk that has any of `steps`, the one under way in `state` first. "chunkwise" then takes powers of them
        (section 3.2, "Parameters as the function of chunks"); the others repeat them for every token.
    backend : {"auto", "triton", "chunkwise", "reference"}
        "reference" is the slow oracle. "triton" runs on a GPU (on a CPU where TRITON_INTERPRET=1, slowly), takes one
        layer up to 128 wide or two up to 64 wide (half of that where a GPU's shared memory is small), chunks up to 64,
        and float32, bfloat16 or float16 inputs. "auto" takes it on a GPU wherever it applies and has been found to
        agree with "chunkwise" there (see `titans_ts.kernels.trust`), else "chunkwise".

    Returns
    -------
    y : Tensor (batch, steps, heads, head_dim)
        In the dtype of `q`; empty where steps or batch is 0. The mathematics runs in the state's dtype.
    state : MemoryState
        Only with ``return_state=True``.

    Raises
    ------
    ValueError
        For shapes, dtypes, devices, a state, a chunk size or a name that do not fit.

    Source
    ------
    Titans (Behrouz et al., 2024), eq. 12 to 15 and section 3.2.
    """
    dtype = _check(q, k, v, alpha, eta, theta, weights, chunk_size)
    if state is not None:
        _check_state(state, q, weights, dtype, chunk_size)
    _check_gates(q, alpha, eta, theta, gates, chunk_size, 0 if state is None else state.offset)
    if decay_to not in ("zero", "init"):
        raise ValueError(f"`decay_to` must be 'zero' or 'init', got {decay_to!r}.")
    if backend not in BACKENDS:
        raise ValueError(f"`backend` must be one of {list(BACKENDS)}, got {backend!r}.")

    scan = _choose(backend, q, k, v, (alpha, eta, theta), weights, chunk_size, state, decay_to, return_state, dtype)
    with _full_precision(q.device):
        y, after = scan(q, k, v, alpha, eta, theta, weights, chunk_size, state, decay_to, return_state, gates)
    y = y.to(q.dtype)
    return y if after is None else (y, after)


def convolution_kernel(x: Tensor, heads: int, backend: str) -> ConvolutionKernel | None:
    """What makes q, k and v of x (batch, tokens, 3 * heads * head_dim) in one kernel, where `backend` runs one.

    "triton" runs it wherever it can, "auto" on a GPU where it has been found to agree with plain PyTorch.
    """
    if x.numel() == 0 or backend not in ("auto", "triton") or (backend == "auto" and not trust.considered(x.device)):
        return None
    try:
        from . import triton_convolution
    except ImportError:
        return None
    if not triton_convolution.takes(x, heads) or (backend == "auto" and not trust.convolution_is_trusted(x, heads)):
        return None
    return triton_convolution.convolve


def _choose(
    backend: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor, ...],
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
    dtype: torch.dtype,
) -> Callable[..., Any]:
    """The scan to run; only "auto" may take another where one cannot run. The plain ones run in the state's `dtype`."""
    if backend == "reference":
        return partial(_widened, partial(_by_tokens, reference.scan), dtype)
    plain = partial(_widened, chunkwise.scan, dtype)
    if backend == "chunkwise" or (backend == "auto" and not trust.considered(q.device)):
        return plain
    try:
        from . import triton_launch, triton_scan
    except ImportError as error:
        refused: str | None = f"needs the package triton, which cannot be imported ({error})"
    else:
        refused = triton_launch.refusal(q, weights, chunk_size)
    if refused is not None:
        if backend == "triton":
            raise ValueError(f"`backend='triton'` {refused}; use 'chunkwise' or 'auto'.")
        return plain
    if q.numel() == 0:  # nothing is no work for a kernel
        return plain
    if backend == "auto":
        held = () if state is None else (*state.weights, *state.momentum, *state.chunk_start)
        gradients = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *gates, *weights, *held))
        if not trust.scan_is_trusted(q, gates, weights, chunk_size, state, decay_to, return_state, gradients):
            return plain
    return partial(_by_tokens, triton_scan.scan)


def _by_tokens(
    scan: Callable[..., Any], q: Tensor, k: Tensor, v: Tensor, alpha: Tensor, eta: Tensor, *others: Any
) -> tuple[Tensor, MemoryState | None]:
    """A `scan` that knows gates of tokens alone."""
    *rest, gates = others
    if gates == "chunk":
        _, _, chunk_size, state, *_ = rest
        offset = 0 if state is None else state.offset
        alpha, eta = (to_tokens(gate, q.shape[1], chunk_size, offset) for gate in (alpha, eta))
    result: tuple[Tensor, MemoryState | None] = scan(q, k, v, alpha, eta, *rest)
    return result


def _widened(scan: Callable[..., Any], dtype: torch.dtype, *arguments: Any) -> tuple[Tensor, MemoryState | None]:
    """`scan` of all but a state in `dtype`; arguments as it takes them."""
    sequences, (weights, *options) = arguments[:6], arguments[6:]
    widened = (x.to(dtype) for x in sequences)
    result: tuple[Tensor, MemoryState | None] = scan(*widened, tuple(w.to(dtype) for w in weights), *options)
    return result


def _full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off: the state must not be rounded to the precision of what is read."""
    # `torch.amp.is_autocast_available` would ask, which torch.compile of torch 2.11 cannot trace.
    return nullcontext() if device.type == "meta" else torch.autocast(device.type, enabled=False)


def _check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: tuple[Tensor, ...],
    chunk_size: int,
) -> torch.dtype:
    """Refuse what does not fit together; return the dtype of the state."""
    if q.ndim != 4:
        raise ValueError(f"`q` must have shape (batch, steps, heads, head_dim), got {tuple(q.shape)}.")
    for name, x in {"k": k, "v": v}.items():
        if x.shape != q.shape:
            raise ValueError(f"`{name}` must have the shape of `q`, {tuple(q.shape)}, got {tuple(x.shape)}.")
        if x.dtype != q.dtype:
            raise ValueError(f"`{name}` must have the dtype of `q`, {q.dtype}, got {x.dtype}.")
    gates = {"alpha": alpha, "eta": eta, "theta": theta}

    _, _, H, D = q.shape
    if not isinstance(weights, tuple) or not weights:
        raise ValueError("`weights` must be a tuple of at least one tensor (heads, in, out).")
    width = D
    for i, w in enumerate(weights):
        out = D if i == len(weights) - 1 else "any"
        if w.ndim != 3 or w.shape[:2] != (H, width) or out not in ("any", w.shape[2]):
            raise ValueError(
                f"`weights[{i}]` must have shape (heads, in, out) = ({H}, {width}, {out}), got {tuple(w.shape)}."
            )
        width = w.shape[2]

    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    for name, x in {"q": q, **gates, **{f"weights[{i}]": w for i, w in enumerate(weights)}}.items():
        if not x.is_floating_point():
            raise ValueError(f"`{name}` must be floating point, got {x.dtype}.")
        if x.dtype == torch.float64 and dtype != torch.float64:
            raise ValueError(
                f"`{name}` is float64 beside {q.dtype} queries and would lose precision; convert one of them."
            )
    for name, x in {"k": k, "v": v, **gates, **{f"weights[{i}]": w for i, w in enumerate(weights)}}.items():
        if x.device != q.device:
            raise ValueError(f"`{name}` must be on the device of `q`, {q.device}, got {x.device}.")
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
        raise ValueError(f"`chunk_size` must be an integer >= 1, got {chunk_size!r}.")
    return dtype


def _check_gates(
    q: Tensor, alpha: Tensor, eta: Tensor, theta: Tensor, gates: str, chunk_size: int, offset: int
) -> None:
    if gates not in ("token", "chunk"):
        raise ValueError(f"`gates` must be 'token' or 'chunk', got {gates!r}.")
    B, T, H, _ = q.shape
    tokens, held = f"(batch, steps, heads) = {(B, T, H)}", (B, T, H)
    words = tokens
    if gates == "chunk":
        held = (B, -(-(offset + T) // chunk_size) if T > 0 else 0, H)
        words = f"(batch, chunks, heads) = {held} as `gates` is 'chunk' (steps {T} from offset {offset} on)"
    for name, gate in (("alpha", alpha), ("eta", eta)):
        if gate.shape != held:
            raise ValueError(f"`{name}` must have shape {words}, got {tuple(gate.shape)}.")
    if theta.shape != (B, T, H):
        raise ValueError(f"`theta` must have shape {tokens}, got {tuple(theta.shape)}.")


def _check_state(
    state: MemoryState, q: Tensor, weights: tuple[Tensor, ...], dtype: torch.dtype, chunk_size: int
) -> None:
    groups = {"weights": state.weights, "momentum": state.momentum}
    if not isinstance(state.offset, int) or not 0 <= state.offset < chunk_size:
        raise ValueError(f"`state.offset` must be an integer in [0, chunk_size = {chunk_size}), got {state.offset!r}.")
    if state.offset > 0:
        groups["chunk_start"] = state.chunk_start
    for name, group in groups.items():
        if len(group) != len(weights):
            raise ValueError(f"`state.{name}` must hold {len(weights)} layers as `weights` does, got {len(group)}.")
        for i, (x, w) in enumerate(zip(group, weights, strict=True)):
            if x.shape != (q.shape[0], *w.shape):
                raise ValueError(
                    f"`state.{name}[{i}]` must have shape (batch, heads, in, out) = {(q.shape[0], *w.shape)}, "
                    f"got {tuple(x.shape)}."
                )
            if x.dtype != dtype:
                raise ValueError(f"`state.{name}[{i}]` must be {dtype} for {q.dtype} inputs, got {x.dtype}.")
            if x.device != q.device:
                raise ValueError(f"`state.{name}[{i}]` must be on the device of `q`, {q.device}, got {x.device}.")
