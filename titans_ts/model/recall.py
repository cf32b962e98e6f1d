"""Recall: what followed the surprising origins of a series, kept whole and read where the same rows come again.

The long-term memory's matrices learn what holds at many origins; what was seen once among thousands leaves no trace in
them. Beside them `Recall` keeps a few origins by themselves. With x_t the last rows before origin t and r_t what core
and memory left of the horizon after it,

    u_t = whitened x_t,   k_t = u_t / |u_t|,   g_t = how much longer u_t is than usual, in [0, 1]
    write   (k_t, r_t, g_t) into the oldest slot where g_t > 0          at origin t + H, when r_t is known
    read    y_t = g_t sum_s w_s r_s / (w_0 + sum_s w_s),    w_s = g_s exp((k_t . k_s - 1) / WIDTH)

A slot is written at once and in full, however rare its key. w_0 stands for a key that nothing held is like: the reading
is then near zero, as it is at all ordinary origins, whose g is zero. A gate multiplies the reading by the share of it
that would have been best on earlier readings whose truth is known; it counts readings, not time, since years may lie
between two of them.

Whitening is by the scatter of the ordinary rows: Tyler's weights keep the surprising ones from making themselves usual.

Source: Titans (Behrouz et al., 2024), section 3.1: what surprises is what is remembered. Nadaraya and Watson (1964)
for reading; Tyler, "A distribution-free M-estimator of multivariate scatter" (1987).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .batch import Batch
from .layers import centred

SPAN = 16  # rows before an origin that it is known by, those of a token of the window network
SURPRISING = 3.0  # times the usual square of a key's length, from which on an origin is kept; at twice it is so in full
WIDTH = 1 / 64  # of the kernel, in cosines
UNLIKE = 0.9  # cosine at which one key held and none weigh the same
TYLER_STEPS = 6
SMALLEST = 0.05  # of the mean, a squared length in Tyler's weights
RIDGE = 1e-3  # of the mean variance
PRIOR = 1.0  # evidence that the gate begins with against readings; an origin brings at most `WILD`
WILD = 0.3  # of the residuals' mean square: size of a reading from which on it counts for less
PART = 64  # tokens at a time


class RecallState(NamedTuple):
    """What is held of each series, (series, ...) each."""

    keys: Tensor  # (series, slots, span) of length one
    values: Tensor  # (series, slots, columns) over the scale of the series' residuals
    gates: Tensor  # (series, slots) 0 where nothing is held
    written: Tensor  # (series,) int64: how many were, the last of them in slot (written - 1) % slots
    rows: Tensor  # (series, delay, span) whitened, of the origins whose truth is awaited
    reads: Tensor  # (series, delay, columns)
    agreement: Tensor  # (series,) float64: sums of products of residuals and readings
    size: Tensor  # (series,) float64: sums of squares of readings


def recent_rows(batch: Batch, span: int) -> Tensor:
    """The last `span` rows of windows, minus the window mean, zero where they are masked: (samples, span)."""
    return centred(batch.past, batch.padding_mask)[0][:, -span:]


class Recall(nn.Module):
    """The surprising origins of many series, one state each.

    Parameters
    ----------
    slots : int
        Origins that are held of each series.
    span : int
        Rows before an origin that it is known by.
    columns : int
        Of what is held and read.
    delay : int
        Rows after which the truth of an origin is known.
    n_series : int
    """

    whitening: Tensor

    def __init__(self, slots: int, span: int, columns: int, delay: int, n_series: int) -> None:
        super().__init__()
        self.slots, self.span, self.columns, self.delay = slots, span, columns, delay
        # The last is for series that were not fitted.
        self.register_buffer("whitening", torch.zeros(n_series + 1, span, span, dtype=torch.float32))

    @torch.no_grad()
    def initialise(self, rows: Sequence[Tensor], live: Sequence[Tensor], series: Sequence[Tensor]) -> None:
        """Set the whitening by the train origins of each series.

        Parameters
        ----------
        rows : sequence of Tensor (series, origins, span)
        live : sequence of Tensor of bool (series, origins)
        series : sequence of Tensor of int64 (series,)
            The numbers of each part's series.
        """
        x = torch.cat([part[there] for part, there in zip(rows, live, strict=True)])
        numbers = torch.cat([s[:, None].expand_as(there)[there] for s, there in zip(series, live, strict=True)])
        order = numbers.argsort(stable=True)
        n_series = len(self.whitening) - 1
        counts = numbers.bincount(minlength=n_series).tolist()
        pooled = _whitening(x)
        for i, part in enumerate(x[order].split(counts)):
            self.whitening[i] = _whitening(part) if len(part) > self.span else pooled
        self.whitening[n_series] = pooled

    def begin(self, n_series: int) -> RecallState:
        """The state of series of which nothing was read."""
        device = self.whitening.device

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(n_series, *shape, dtype=dtype, device=device)

        return RecallState(
            keys=zeros(self.slots, self.span),
            values=zeros(self.slots, self.columns),
            gates=zeros(self.slots),
            written=zeros(dtype=torch.int64),
            rows=zeros(self.delay, self.span),
            reads=zeros(self.delay, self.columns),
            agreement=zeros(dtype=torch.float64),
            size=zeros(dtype=torch.float64),
        )

    @torch.no_grad()
    def advance(
        self, state: RecallState, rows: Tensor, left: Tensor, known: Tensor, series: Tensor
    ) -> tuple[RecallState, Tensor]:
        """Read on.

        Parameters
        ----------
        state : RecallState
        rows : Tensor (series, origins, span)
            Of the origins that are new.
        left : Tensor (series, origins, columns)
            What core and memory left of the origins `delay` before these, over the scale of the series' residuals.
        known : Tensor of bool (series, origins)
            Where that is known.
        series : Tensor of int64 (series,)

        Returns
        -------
        state : RecallState
        added : Tensor (series, origins, columns)
            What is added to the forecast of each, over that scale.
        """
        n_tokens = rows.shape[1]
        whitened = torch.cat([state.rows, rows @ self.whitening[series]], dim=1)
        found = [rows.new_zeros(len(rows), 0, self.columns)]
        for first in range(0, n_tokens, min(PART, self.slots)):
            here = slice(first, min(first + min(PART, self.slots), n_tokens))
            ahead = slice(first + self.delay, here.stop + self.delay)
            state, y = self._part(state, whitened[:, ahead], whitened[:, here], left[:, here], known[:, here])
            found.append(y)
        reads = torch.cat([state.reads, *found], dim=1)
        earlier = reads[:, :n_tokens].double()
        squares = earlier.square().sum(-1)
        weight = known / (1 + squares / WILD)
        agreement = state.agreement[:, None] + ((left * earlier).sum(-1) * weight).cumsum(1)
        size = state.size[:, None] + (squares * weight).cumsum(1)
        added = reads[:, self.delay :] * _share(agreement, size)
        if n_tokens:
            state = state._replace(
                rows=whitened[:, n_tokens:], reads=reads[:, n_tokens:], agreement=agreement[:, -1], size=size[:, -1]
            )
        return state, added

    def added(self, state: RecallState, rows: Tensor, series: Tensor) -> Tensor:
        """What is added to forecasts from origins with these rows (series, span): (series, columns)."""
        keys, gates = _keys(rows.unsqueeze(1) @ self.whitening[series])
        weights = _weights(keys, state.keys, state.gates)
        y = _read(gates, weights, state.values)
        return (y * _share(state.agreement[:, None], state.size[:, None]))[:, 0]

    def _part(
        self, state: RecallState, asking: Tensor, telling: Tensor, values: Tensor, known: Tensor
    ) -> tuple[RecallState, Tensor]:
        """Some tokens: what is read with the rows `asking`, after the `values` that followed the rows `telling`."""
        queries, query_gates = _keys(asking)
        keys, gates = _keys(telling)
        gates = torch.where(known, gates, 0)
        writes = gates > 0
        until = state.written[:, None] + writes.cumsum(1)  # written after each token
        y = values.new_zeros(*queries.shape[:2], self.columns)
        if bool((query_gates > 0).any()):
            slot = torch.arange(self.slots, device=y.device)
            number = state.written[:, None] - 1 - (state.written[:, None] - 1 - slot) % self.slots
            held = number[:, None] >= until[:, :, None] - self.slots  # not yet overwritten
            token = torch.arange(writes.shape[1], device=y.device)
            new = writes[:, None] & (token <= token[:, None])
            weights = torch.cat(
                [
                    torch.where(held, _weights(queries, state.keys, state.gates), 0),
                    torch.where(new, _weights(queries, keys, gates), 0),
                ],
                dim=2,
            )
            y = _read(query_gates, weights, torch.cat([state.values, values], dim=1))
        if bool(writes.any()):
            into = torch.where(writes, (until - 1) % self.slots, self.slots)  # the last is cut off again
            state = state._replace(
                keys=_put(state.keys, into, keys),
                values=_put(state.values, into, values),
                gates=_put(state.gates.unsqueeze(-1), into, gates.unsqueeze(-1)).squeeze(-1),
                written=until[:, -1],
            )
        return state, y


def _whitening(x: Tensor) -> Tensor:
    """What takes rows (n, span) to ones in which ordinary rows are alike in all directions, of length one at median."""
    span = x.shape[1]
    x = x.double()
    scatter = x.T @ x / max(len(x), 1)
    unit = torch.eye(span, dtype=x.dtype, device=x.device)
    for _ in range(TYLER_STEPS):
        ridge = RIDGE * scatter.diagonal().mean().clamp(min=1e-30)
        length = (x @ torch.linalg.inv(scatter + ridge * unit) * x).sum(1) / span
        weight = 1 / (length + SMALLEST * length.mean().clamp(min=1e-30))
        scatter = (x * weight[:, None]).T @ x / weight.sum().clamp(min=1e-30)
    variances, vectors = torch.linalg.eigh(scatter)
    found = vectors * (variances.clamp(min=0) + RIDGE * variances.mean().clamp(min=1e-30)).rsqrt()
    usual = (x @ found).square().sum(1).median() if len(x) else x.new_ones(())
    whitening: Tensor = (found / usual.clamp(min=1e-30).sqrt()).float()
    return whitening


def _keys(whitened: Tensor) -> tuple[Tensor, Tensor]:
    """Keys of length one and how surprising they are, in [0, 1]."""
    square = whitened.square().sum(-1)
    square = torch.where(square.isfinite(), square, 0)
    keys = torch.where(square.unsqueeze(-1) > 0, whitened * square.clamp(min=1e-30).rsqrt().unsqueeze(-1), 0)
    return keys, (square / SURPRISING - 1).clamp(0, 1)


def _weights(queries: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
    """Of keys (series, held, span) for queries (series, tokens, span): (series, tokens, held)."""
    return gates.unsqueeze(1) * ((queries @ keys.mT - 1) / WIDTH).exp()


def _read(query_gates: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    none = torch.tensor((UNLIKE - 1) / WIDTH, dtype=weights.dtype).exp()
    return query_gates.unsqueeze(-1) * (weights @ values) / (none + weights.sum(-1, keepdim=True))


def _share(agreement: Tensor, size: Tensor) -> Tensor:
    """The share in [0, 1] of readings that would have been best, (series, tokens, 1)."""
    return (agreement / (size + PRIOR)).clamp(0, 1).float().unsqueeze(-1)


def _put(held: Tensor, into: Tensor, new: Tensor) -> Tensor:
    """`held` (series, slots, n) with `new` (series, tokens, n) in the slots number `into`, those past the last lost."""
    spare = torch.cat([held, held[:, :1]], dim=1)
    return spare.scatter(1, into.unsqueeze(-1).expand_as(new), new)[:, :-1]
