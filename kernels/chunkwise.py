"""The memory by chunks: the recurrence of `reference` in closed form, as matrix products.

Inside a chunk every surprise is taken at the weights C held when the chunk began, so the states of its tokens are
sums that need no scan. With b_t, e_t the products of (1 - alpha) and of eta up to t, and L_b[t, s], L_e[t, s] the
same products from s (not included) to t,

    A = (L_b L_e) diag(theta)        D = L_e diag(theta)        a = L_b e
    keys, through C:    X^1 = K,  Z = X C,  X' = silu(Z);   E^L = 2 (V - Z^L),  U = E' C'^T,  E = U silu'(Z)
    queries:            Y = (b Q) W + (a Q) S + ((Q X^T) * A) E,   Q' = silu(Y)
    state:              W <- b_n W + a_n S + (A[n] X)^T E,         S <- e_n S + (D[n] X)^T E

(a prime marks the next layer; E points down the gradient). Forgetting towards the initial weights W_0 adds
((1 - b) Q) W_0 and (1 - b_n) W_0. `chunk` holds these formulas and their gradients, and `held` those of A, D, a, b and
e where alpha and eta are the same at all tokens of a chunk; here they are strung together, in one function with a
backward of its own, because autograd's keeps more and passes over it more often.

Source: Titans (Behrouz et al., 2024), section 3.2, whose associative scan this replaces; any depth, any device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import chunk, held
from .chunk import Gates, Group, Keys, Products, Queries
from .held import Powers
from .state import MemoryState


class _Plan(NamedTuple):
    """What a scan does, its tensors apart."""

    sizes: list[int]  # of the segments between chunk borders
    offset: int  # of the first token in its chunk
    shapes: list[torch.Size]  # of the weights
    to_init: bool  # forgetting leads to W_0
    taken: int  # groups of weights in the state it begins with: none, W and S, or C too
    returned: int  # and in the state it ends with; C only where it became another
    held: bool  # alpha and eta are of chunks

    def at_border(self, i: int) -> bool:
        """Whether segment `i` begins a chunk, so that C is W."""
        return i > 0 or self.offset == 0

    def shared(self, i: int) -> bool:
        """Whether the whole batch still holds W_0 in segment `i`, and no momentum."""
        return i == 0 and self.taken == 0

    def writes(self, i: int) -> bool:
        """Whether the state after segment `i` is wanted."""
        return self.returned > 0 or i < len(self.sizes) - 1


def scan(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    alpha: Tensor,
    eta: Tensor,
    theta: Tensor,
    weights: Group,
    chunk_size: int,
    state: MemoryState | None,
    decay_to: str,
    return_state: bool,
    gates: str = "token",
) -> tuple[Tensor, MemoryState | None]:
    """Run the recurrence chunk by chunk; arguments as `memory_scan` hands them on, checked and in one dtype."""
    before = 0 if state is None else state.offset
    after = (before + q.shape[1]) % chunk_size
    sizes = _segments(q.shape[1], chunk_size, before)
    groups: tuple[Group, ...]
    if state is None:
        W = tuple(w.expand(q.shape[0], *w.shape) for w in weights)  # (B, H, in, out)
        groups = (W, tuple(map(torch.zeros_like, W)) if return_state else (), W)
    else:
        groups = (state.weights, state.momentum, state.chunk_start if before else state.weights)

    if q.numel() == 0:
        y = q.transpose(1, 2)
        for w in weights:  # nothing, but their gradient by nothing is zero
            y = y @ w
        y = y.transpose(1, 2)
    else:
        taken = 0 if state is None else 3 if before else 2
        returned = 0 if not return_state else 3 if after and len(sizes) > 1 else 2
        plan = _Plan(sizes, before, [w.shape for w in weights], decay_to == "init", taken, returned, gates == "chunk")
        init = weights if plan.to_init or state is None else ()
        tensors = (q, k, v, alpha, eta, theta, *init, *(w for group in groups[:taken] for w in group))
        if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            y, *ends = _Scan.apply(plan, _Tape(), *tensors)  # type: ignore[no-untyped-call]
        else:
            y, *ends = _forward(plan, None, tensors)
        groups = (*_layers(plan, ends), *groups[returned:])
    if not return_state:
        return y, None
    W, S, C = groups
    return y, MemoryState(weights=W, momentum=S, chunk_start=C if after else W, offset=after)


def _segments(T: int, chunk_size: int, offset: int) -> list[int]:
    """Tokens up to each chunk border: the rest of the chunk under way, whole chunks, what is left."""
    borders = [0, *range(chunk_size - offset, T, chunk_size), T]
    return [last - first for first, last in pairwise(borders) if last > first]


class _Tape:
    """What a forward pass leaves to its backward: records of groups of tensors, in the order they were made.

    A class and no list, because torch.func passes copies of lists on.
    """

    def __init__(self) -> None:
        self.records: list[tuple[Group, ...]] = []


class _Scan(torch.autograd.Function):
    """(plan, tape, q, k, v, alpha, eta, theta, *weights, *state) -> y and the wanted parts of the final state."""

    @staticmethod
    def forward(plan: _Plan, tape: _Tape, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _forward(plan, tape, tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.plan, tape, *_ = inputs
        ctx.lengths = [[len(group) for group in record] for record in tape.records]
        ctx.save_for_backward(*(x for record in tape.records for group in record for x in group))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor, *d_ends: Tensor) -> tuple[Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        records = (tuple(tuple(islice(saved, n)) for n in lengths) for lengths in ctx.lengths)
        with torch.autocast(dy.device.type, enabled=False):
            gradients = _backward(ctx.plan, records, dy, d_ends)
        wanted = ctx.needs_input_grad[2:]
        return None, None, *(g if want else None for g, want in zip(gradients, wanted, strict=True))


def _forward(plan: _Plan, tape: _Tape | None, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    q, k, v, alpha, eta, theta, *others = tensors
    groups = _layers(plan, others)
    init = groups.pop(0) if len(groups) > plan.taken else ()
    target = init if plan.to_init else ()
    W: Group = init
    S: Group = ()
    C: Group = init
    if groups:
        W, S, *late = (tuple(map(_heads_first, group)) for group in groups)
        C = late[0] if late else W

    products = [_multiply_out(plan, *run) for run in _runs(plan, alpha, eta, theta)]
    records: list[tuple[Group, ...]] = [(init,), *((tuple(p),) for p in products)]
    parts = []
    for i, (span, gates) in enumerate(zip(_spans(plan), _each(map(_gates_of, products)), strict=True)):
        if plan.at_border(i):
            C = W
        q_i, k_i, v_i = (_heads_first(x[:, span].transpose(1, 2)) for x in (q, k, v))
        keys = chunk.surprises(C, k_i, v_i)
        read, queries = chunk.read(q_i, keys, W, S, target, gates)
        parts.append(_batch_first(read, q).transpose(1, 2))
        records.append((*keys, *queries, () if plan.shared(i) else W, S, () if plan.at_border(i) else C))
        if plan.writes(i):
            W, S = chunk.write(keys, W, S, target, gates)
    if tape is not None:
        tape.records = records
    return torch.cat(parts, dim=1), *(_batch_first(w, q) for group in (W, S, C)[: plan.returned] for w in group)


def _backward(
    plan: _Plan, records: Iterator[tuple[Group, ...]], dy: Tensor, d_ends: tuple[Tensor, ...]
) -> list[Tensor]:
    """The gradients by all tensors of `_forward`, in their order."""
    ((init,),) = islice(records, 1)
    d_init = tuple(map(torch.zeros_like, init))
    kind = Powers if plan.held else Products
    products = [kind(*p) for (p,) in islice(records, len(_counts(plan)))]
    gates = [_gates_of(p) for p in products]
    d_gates = [Gates(*map(torch.zeros_like, run)) for run in gates]
    steps = list(zip(_spans(plan), islice(records, len(plan.sizes)), _each(gates), _each(d_gates), strict=True))

    by_tokens = [torch.empty_like(dy, memory_format=torch.contiguous_format) for _ in range(3)]  # q, k and v
    dW, dS, *d_late = _layers(plan, [_heads_first(x) for x in d_ends]) or [(), ()]
    dC: Group = ()
    for i, (span, record, gates_i, d_gates_i) in reversed(list(enumerate(steps))):
        dy_i = _heads_first(dy[:, span].transpose(1, 2))
        start = d_late[0] if d_late and i == len(steps) - 1 else ()
        by_i, dW, dS, dC = _chunk_backward(plan, i, record, init, gates_i, d_gates_i, dy_i, dW, dS, start, d_init)
        for whole, part in zip(by_tokens, by_i, strict=True):
            whole[:, span] = _batch_first(part, dy).transpose(1, 2)

    by_runs = zip(*(_gates_backward(*pair) for pair in zip(products, d_gates, strict=True)), strict=True)
    by_gates = [_batch_first(torch.cat([d.flatten(1) for d in runs], dim=1), dy).transpose(1, 2) for runs in by_runs]
    d_state = [_batch_first(w, dy) for group in (dW, dS, dC)[: plan.taken] for w in group]
    return [*by_tokens, *by_gates, *d_init, *d_state]


def _chunk_backward(
    plan: _Plan,
    i: int,
    record: tuple[Group, ...],
    init: Group,
    gates: Gates,
    by_gates: Gates,
    dy: Tensor,
    dW: Group,
    dS: Group,
    d_start: Group,
    d_init: Group,
) -> tuple[tuple[Tensor, Tensor, Tensor], Group, Group, Group]:
    """The gradients by q, k and v, and by W, S and C at the start of segment `i`.

    From those by its outputs, by the state after it, and by W at its start where that was returned.
    """
    keys, queries, (W, S, C) = Keys(*record[:4]), Queries(*record[4:7]), record[7:]
    W = W or init
    C = C or W
    target = init if plan.to_init else ()
    dX: Sequence[Tensor | None]
    dE: Sequence[Tensor | None]
    if plan.writes(i):
        dX, dE, dW, dS = chunk.write_backward(keys, W, S, target, gates, by_gates, dW, dS, d_init)
    else:
        dX = dE = [None] * len(W)
        dW, dS = (tuple(torch.zeros_like(w) for w in group) for group in (W, S))
    for dw, d in zip(dW, d_start, strict=False):  # none is given, or of each layer
        dw += d
    if plan.shared(i):
        if plan.writes(i):
            for total, dw in zip(d_init, dW, strict=True):
                total += chunk.summed(dw, len(total))
        dW = d_init
    dC = dW if plan.at_border(i) else tuple(map(torch.zeros_like, C))
    dq, by_X, by_E = chunk.read_backward(dy, queries, keys, W, S, target, gates, by_gates, dX, dE, dW, dS, d_init)
    dk, dv = chunk.surprises_backward(keys, C, by_X, by_E, dC)
    return (dq, dk, dv), dW, dS, dC


def _layers(plan: _Plan, tensors: Sequence[Tensor]) -> list[Group]:
    """Groups of one tensor a layer."""
    depth = len(plan.shapes)
    return [tuple(tensors[i : i + depth]) for i in range(0, len(tensors), depth)]


def _spans(plan: _Plan) -> list[slice]:
    return [slice(end - size, end) for end, size in zip(accumulate(plan.sizes), plan.sizes, strict=True)]


def _counts(plan: _Plan) -> list[tuple[int, int]]:
    """Runs of segments of one size: that size, and how many they are; what all have alike is computed at once."""
    return [(size, len(list(same))) for size, same in groupby(plan.sizes)]


def _runs(plan: _Plan, alpha: Tensor, eta: Tensor, theta: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Gates (B, T, H) of each run of N segments, (H B, N, C); where they are of chunks, (B, N, H) and (H B, N, 1)."""

    def runs_of(gate: Tensor, held: bool) -> list[Tensor]:
        sizes = [(1 if held else size, count) for size, count in _counts(plan)]
        parts = _heads_first(gate.transpose(1, 2)).split([size * count for size, count in sizes], dim=1)
        return [part.unflatten(1, (count, size)) for part, (size, count) in zip(parts, sizes, strict=True)]

    return zip(runs_of(alpha, plan.held), runs_of(eta, plan.held), runs_of(theta, False), strict=True)


def _multiply_out(plan: _Plan, alpha: Tensor, eta: Tensor, theta: Tensor) -> Products | Powers:
    return held.raise_gates(alpha, eta, theta) if plan.held else chunk.multiply_out(alpha, eta, theta)


def _gates_of(p: Products | Powers) -> Gates:
    return held.gates_of(p) if isinstance(p, Powers) else chunk.gates_of(p)


def _gates_backward(p: Products | Powers, d: Gates) -> tuple[Tensor, Tensor, Tensor]:
    return held.gates_backward(p, d) if isinstance(p, Powers) else chunk.gates_backward(p, d)


def _each(runs: Iterable[Gates]) -> list[Gates]:
    """The gates of every chunk: views of those of the runs."""
    return [Gates(*one) for run in runs for one in zip(*(x.unbind(1) for x in run), strict=True)]


def _heads_first(x: Tensor) -> Tensor:
    """(B, H, ...) -> (H B, ...)"""
    return x.transpose(0, 1).flatten(0, 1).contiguous()


def _batch_first(x: Tensor, like: Tensor) -> Tensor:
    """(H B, ...) -> (B, H, ...), the sizes those of `like` (B, T, H, D)."""
    return x.view(like.shape[2], like.shape[0], *x.shape[1:]).transpose(0, 1)
