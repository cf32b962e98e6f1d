"""LongTermMemory: what came after earlier origins, written once it is known and read at each new one.

A core forecasts from a window. Over the origins of a series, in the order of time, this memory learns what the core
leaves: with x_t the window that ends at origin t, f_t the core's forecast and y_t what came in the H steps after it,

    write    k_t = key(x_t, f_t, phase),   v_t = P' (y_t - f_t)       at origin t + H, when y_t is known
    read     forecast_t = f_t + P g_t mean_h M_h(k_t)

P is an orthonormal basis of the horizon, M_h a head of the memory with rates of its own, g_t the gate: the share of
what the memory adds that would have been best, of late, on forecasts whose truth is known. Token t of `memory_scan`
carries the key and value of origin t - H and the query of origin t, so that nothing after t is seen. By blocks of the
horizon, each with a basis and a memory of its own, the first steps are learned sooner.

Keys are whitened by their covariance on the train rows, so that a first-order write acts much as recursive least
squares. Steps are normalised where a key is long, values and readings bounded by the size of the core's errors: the
memory stays finite whatever comes.

Source: Titans (Behrouz et al., 2024), eq. 12 to 15, over origins in place of tokens; normalised least mean squares
(Nagumo and Noda, 1967) for long keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor, nn

from titans_ts.kernels import MemoryState, memory_scan

from .batch import Batch
from .long_term_config import LongTermConfig
from .origins import horizon_basis, n_features, origin_features
from .recall import SPAN, Recall, recent_rows
from .stream_state import BlockState, Origins, StreamState

ALIGNED = 8  # head sizes are multiples of it
WHITENING = 0.1  # of the mean variance, added to that of every direction
LONGEST_KEY = 5.0  # square of a key's length, from which on steps are shortened; their mean is 1
LARGEST = 4.0  # values and readings, over the root mean square of the train residuals
PRIOR = 0.01  # of the train residuals' mean square: how much evidence the gate begins with against the memory
WILD = 0.3  # of the same: size of what the memory adds from which on an origin counts for less in the gate
LEAST_SCALE = 0.05  # of the mean over all series, that a series' own residuals are taken to have
EMA_BLOCK = 64  # steps of a discounted sum at a time


class LongTermMemory(nn.Module):
    """The memory over origins of many series, one state each, weights and rates common to all.

    Parameters
    ----------
    config : LongTermConfig
    backend : str
        Of `memory_scan`.
    """

    def __init__(self, config: LongTermConfig, backend: str = "auto") -> None:
        super().__init__()
        self.config = config
        self.backend = backend
        self.blocks = nn.ModuleList(Block(config, i, backend) for i in range(len(config.blocks)))
        self.n_features = n_features(config.lookback, config.horizon, config.cycle)
        self.recall = None
        if config.recall:
            span, columns = min(SPAN, config.lookback), self.parts[0].basis.shape[1]
            self.recall = Recall(config.recall, span, columns, config.horizon, config.n_series)

    @property
    def parts(self) -> tuple[Block, ...]:
        """The memory of each block of the horizon."""
        return tuple(cast(Block, block) for block in self.blocks)

    @property
    def basis(self) -> Tensor:
        """The basis of the whole horizon, in which features see the core's forecast."""
        return self.parts[0].horizon_basis

    def features(self, batch: Batch, forecast: Tensor) -> Tensor:
        """What the memory knows origins by, those at the ends of a batch's windows.

        Parameters
        ----------
        batch : Batch
            Of scaled series.
        forecast : Tensor (samples, horizon)
            The core's.

        Returns
        -------
        Tensor (samples, features)
            Those of `origin_features`; with recall, the rows that it knows an origin by after them.
        """
        found = origin_features(batch, forecast, self.basis, self.config.cycle)
        return found if self.recall is None else torch.cat([found, recent_rows(batch, self.recall.span)], dim=1)

    @property
    def bytes_per_series(self) -> int:
        """What it holds of a series takes so many bytes."""
        return sum(
            x.numel() * x.element_size() for x in self.begin(1, torch.zeros(1, dtype=torch.int64)).tensors().values()
        )

    @torch.no_grad()
    def initialise(self, origins: Sequence[Origins], residuals: Sequence[tuple[Tensor, ...]]) -> None:
        """Set whitening and scales by train origins, in place.

        Parameters
        ----------
        origins : sequence of Origins
            Of disjoint sets of series.
        residuals : sequence of tuple of Tensor (series, origins, columns)
            What the core left in each block, NaN where that is not known.
        """
        of_blocks = [part._replace(features=part.features[..., : self.n_features]) for part in origins]
        for i, block in enumerate(self.parts):
            block.initialise(of_blocks, [residual[i] for residual in residuals])
        if self.recall is not None:
            there = [r[0].isfinite().all(-1) & part.live for part, r in zip(origins, residuals, strict=True)]
            rows = [part.features[..., self.n_features :] for part in origins]
            self.recall.initialise(rows, there, [part.series for part in origins])

    def begin(self, n_series: int, ends: Tensor) -> StreamState:
        """The state of series of which nothing was read, up to the time index `ends` (n_series,)."""
        recall = None if self.recall is None else self.recall.begin(n_series)
        return StreamState(tuple(block.begin(n_series) for block in self.parts), ends, recall)

    def advance(self, state: StreamState, origins: Origins) -> tuple[StreamState, tuple[Tensor, ...]]:
        """Read on: all series must have ended at the same place in a chunk.

        Parameters
        ----------
        state : StreamState
        origins : Origins
            Of the same series, one for each row since.

        Returns
        -------
        state : StreamState
        added : tuple of Tensor (series, origins, columns)
            What the memory adds to each block's forecast from each origin, in its basis.

        Raises
        ------
        ValueError
            If series stand at different places in their chunks.
        """
        offset = state.ends % self.config.chunk_size
        if len(offset) and bool((offset != offset[0]).any()):
            raise ValueError("`state` must have series that ended at the same place in a chunk; read others apart.")
        place = int(offset[0]) if len(offset) else 0
        of_blocks = origins._replace(features=origins.features[..., : self.n_features])
        found = [
            block.advance(before, of_blocks, i, place)
            for i, (block, before) in enumerate(zip(self.parts, state.blocks, strict=True))
        ]
        after, added = tuple(after for after, _, _ in found), tuple(added for _, added, _ in found)
        recall, ends = state.recall, state.ends + origins.features.shape[1]
        if self.recall is not None and recall is not None:
            left, known = found[0][2]
            rows = origins.features[..., self.n_features :]
            recall, more = self.recall.advance(recall, rows, left, known, origins.series)
            added = (added[0] + more * self.parts[0].scale[origins.series, None, None],)
        return StreamState(after, ends, recall), added

    def added(self, state: StreamState, features: Tensor, series: Tensor) -> Tensor:
        """What the memory adds to forecasts from origins with these features (series, features): (series, horizon)."""
        pairs = zip(self.parts, state.blocks, strict=True)
        of_blocks = features[:, : self.n_features]
        found = torch.cat([block.added(before, of_blocks, series) for block, before in pairs], dim=1)
        if self.recall is not None and state.recall is not None:
            more = self.recall.added(state.recall, features[:, self.n_features :], series)
            found = found + (more * self.parts[0].scale[series, None]) @ self.basis.T
        return found

    def shares(self, state: StreamState, series: Tensor) -> tuple[Tensor, ...]:
        """The shares in [0, 1] of what the memory reads that the gates let through.

        Parameters
        ----------
        state : StreamState
        series : Tensor of int64 (series,)
            The number of each of its series.

        Returns
        -------
        tuple of Tensor (series, groups)
            For each block of the horizon, of its smooth columns, and of its seasonal ones where it has them.
        """
        pairs = zip(self.parts, state.blocks, strict=True)
        return tuple(
            block.group_shares(before.agreement.unsqueeze(1), before.size.unsqueeze(1), series)[:, 0]
            for block, before in pairs
        )

    def expand(self, added: tuple[Tensor, ...]) -> Tensor:
        """Coefficients (..., columns) of each block as the steps they stand for: (..., horizon)."""
        return torch.cat([a @ block.basis.T for block, a in zip(self.parts, added, strict=True)], dim=-1)


class Block(nn.Module):
    """The memory of one block of the horizon."""

    basis: Tensor
    horizon_basis: Tensor
    group: Tensor
    whitening: Tensor
    scale: Tensor
    energy: Tensor

    def __init__(self, config: LongTermConfig, number: int, backend: str) -> None:
        super().__init__()
        self.config, self.backend = config, backend
        first, last = config.blocks[number]
        self.delay = last
        basis, seasonal = horizon_basis(last - first, config.cycle)
        whole = horizon_basis(config.horizon, config.cycle)[0]
        features = n_features(config.lookback, config.horizon, config.cycle)
        self.n_groups = 1 + bool(seasonal.any())
        width = max(features, basis.shape[1])
        self.head_dim = -(-width // ALIGNED) * ALIGNED
        self.register_buffer("basis", basis, persistent=False)
        self.register_buffer("horizon_basis", whole, persistent=False)
        self.register_buffer("group", seasonal.long(), persistent=False)
        # The last row of each is for series that were not fitted.
        self.register_buffer(
            "whitening", torch.zeros(config.n_series + 1, features, self.head_dim, dtype=torch.float32)
        )
        self.register_buffer("scale", torch.ones(config.n_series + 1, dtype=torch.float32))
        self.register_buffer("energy", torch.ones(config.n_series + 1, self.n_groups, dtype=torch.float64))
        pairs = torch.tensor(list(product(config.rates, config.forgetting)), dtype=torch.float32)
        self.log_rate = nn.Parameter(pairs[:, 0].clamp(min=1e-12).log())
        self.log_forgetting = nn.Parameter(pairs[:, 1].clamp(min=1e-12).log())
        self.key_map = nn.Parameter(torch.eye(self.head_dim, dtype=torch.float32))
        self.query_map = nn.Parameter(torch.eye(self.head_dim, dtype=torch.float32))
        self.layers = nn.ParameterList(self._first_weights(len(pairs)))

    def _first_weights(self, n_heads: int) -> list[Tensor]:
        """W_0: the last layer is zero, so that nothing is added at first; those before it are random."""
        generator = torch.Generator().manual_seed(0)
        shape = n_heads, self.head_dim, self.head_dim
        depth = self.config.depth
        drawn = [torch.randn(shape, generator=generator, dtype=torch.float32) for _ in range(depth - 1)]
        return [*(w / self.head_dim**0.5 for w in drawn), torch.zeros(shape, dtype=torch.float32)]

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return tuple(self.layers)

    def initialise(self, origins: Sequence[Origins], residuals: Sequence[Tensor]) -> None:
        """As `LongTermMemory.initialise`."""
        n, features = self.config.n_series, self.whitening.shape[1]
        moment = self.whitening.new_zeros(n, features, features, dtype=torch.float64)
        energy, counts = self.energy.new_zeros(n, self.n_groups), self.energy.new_zeros(n)
        groups = nn.functional.one_hot(self.group, self.n_groups).double()
        for part, residual in zip(origins, residuals, strict=True):
            there = (residual.isfinite().all(-1) & part.live).unsqueeze(-1)
            rows = torch.where(there, part.features, 0)
            moment.index_add_(0, part.series, (rows.mT @ rows).double())
            squares = torch.where(there, residual, 0).square().double().sum(1) @ groups
            energy.index_add_(0, part.series, squares)
            counts.index_add_(0, part.series, there.sum((1, 2)).double())
        pooled = moment.sum(0, keepdim=True) / counts.sum().clamp(min=1)
        own = moment / counts.clamp(min=1)[:, None, None]
        own = torch.where((counts > 0)[:, None, None], own, pooled)
        self.whitening.copy_(self._whitening(torch.cat([own, pooled])))
        mean = (energy.sum(0) / counts.sum().clamp(min=1)).clamp(min=torch.finfo(torch.float32).tiny)
        energy = torch.where((counts > 0)[:, None], energy / counts.clamp(min=1)[:, None], mean)
        energy = torch.cat([torch.maximum(energy, LEAST_SCALE**2 * mean), mean.unsqueeze(0)])
        scale = energy.sum(1).sqrt()
        self.scale.copy_(scale)
        self.energy.copy_(energy / scale.square().unsqueeze(1))

    def _whitening(self, moment: Tensor) -> Tensor:
        """What takes features with these second moments to keys whose mean square length is 1."""
        values, vectors = torch.linalg.eigh(moment)
        values = values.clamp(min=0)
        scale = (values / values.mean(-1, keepdim=True).clamp(min=1e-30) + WHITENING).rsqrt()
        found = vectors * scale.unsqueeze(-2)
        length = (found.mT @ moment @ found).diagonal(dim1=-2, dim2=-1).sum(-1)
        found = found / length.clamp(min=1e-30).sqrt()[:, None, None]
        return nn.functional.pad(found, (0, self.head_dim - found.shape[-1])).float()

    def begin(self, n_series: int) -> BlockState:
        weights = tuple(w.detach().expand(n_series, *w.shape).clone() for w in self.layers)
        columns, device = self.basis.shape[1], self.basis.device
        awaited = n_series, self.delay
        sums = torch.zeros(n_series, self.n_groups, len(self.config.half_lives), dtype=torch.float64, device=device)
        return BlockState(
            weights=weights,
            momentum=tuple(map(torch.zeros_like, weights)),
            chunk_start=weights,
            keys=torch.zeros(*awaited, self.head_dim, dtype=torch.float32, device=device),
            forecasts=torch.zeros(*awaited, columns, dtype=torch.float32, device=device),
            reads=torch.zeros(*awaited, columns, dtype=torch.float32, device=device),
            live=torch.zeros(awaited, dtype=torch.bool, device=device),
            agreement=sums,
            size=sums.clone(),
        )

    def advance(
        self, state: BlockState, origins: Origins, number: int, offset: int
    ) -> tuple[BlockState, Tensor, tuple[Tensor, Tensor]]:
        """As `LongTermMemory.advance`, from place `offset` of a chunk; also what is left of what came.

        That is in units of the scale, after the core's forecast and what the gates let through, and where it is known.
        """
        n_tokens, series = origins.features.shape[1], origins.series
        scale = self.scale[series, None, None]
        keys = origins.features @ self.whitening[series]
        awaited = torch.cat([state.keys, keys], dim=1)
        forecasts = torch.cat([state.forecasts, origins.forecasts[number]], dim=1)
        live = torch.cat([state.live, origins.live], dim=1)
        written = awaited[:, :n_tokens]
        known = live[:, :n_tokens] & origins.known[number]
        residual = _bounded((origins.came[number] - forecasts[:, :n_tokens]) / scale)
        residual = torch.where(known.unsqueeze(-1), residual, 0)

        memory = MemoryState(
            weights=state.weights, momentum=state.momentum, chunk_start=state.chunk_start, offset=offset
        )
        tokens = self._tokens(keys @ self.query_map, written @ self.key_map, residual, known)
        y, memory = memory_scan(*tokens, self.weights, state=memory, return_state=True, **self._how)
        reads = _bounded(y.mean(2)[..., : self.basis.shape[1]])

        awaited_reads = torch.cat([state.reads, reads], dim=1)
        agreement, size = self._evidence(residual, awaited_reads[:, :n_tokens], known, series)
        agreement, size = self._discounted(state.agreement, agreement), self._discounted(state.size, size)
        shares = self._shares(agreement, size, series)
        added = reads * shares * scale
        left = residual - awaited_reads[:, :n_tokens] * shares
        after = BlockState(
            weights=memory.weights,
            momentum=memory.momentum,
            chunk_start=memory.chunk_start,
            keys=awaited[:, n_tokens:],
            forecasts=forecasts[:, n_tokens:],
            reads=awaited_reads[:, n_tokens:],
            live=live[:, n_tokens:],
            agreement=agreement[:, -1] if n_tokens else state.agreement,
            size=size[:, -1] if n_tokens else state.size,
        )
        return after, added, (left, known)

    @property
    def _how(self) -> dict[str, Any]:
        """How the memory is scanned."""
        config = self.config
        decay_to = "zero" if config.depth == 1 else "init"
        return {"chunk_size": config.chunk_size, "decay_to": decay_to, "backend": self.backend}

    def _tokens(
        self, q: Tensor, k: Tensor, v: Tensor, known: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """q, k, v of each head, and gates alpha, eta, theta that write what is `known` (series, tokens)."""
        config = self.config
        chunk_size, depth = config.chunk_size, config.depth
        eta = config.momentum ** (1 / chunk_size)
        length = k.square().sum(-1, keepdim=True)
        step = (1 - eta) * LONGEST_KEY / length.clamp(min=LONGEST_KEY)
        theta = self.log_rate.exp() / (2 * config.season) * step
        if depth > 1:  # the layer's bounds: a deep memory overflows beyond
            q, k = _shortened(q, LONGEST_KEY**0.5), _shortened(k, LONGEST_KEY**0.5)
            size = v.square().sum(-1, keepdim=True).sqrt().clamp(min=1)
            theta = theta.clamp(max=0.5 * (1 - eta) / chunk_size) / size ** (2 - 2 / depth)
        alpha = (self.log_forgetting.exp() / config.season).clamp(max=1).expand_as(theta)
        writes = known.unsqueeze(-1).expand_as(theta)
        alpha, theta = torch.where(writes, alpha, 0), torch.where(writes, theta, 0)
        n_heads = len(self.log_rate)

        def of_heads(x: Tensor) -> Tensor:
            padded = nn.functional.pad(x, (0, self.head_dim - x.shape[-1]))
            return padded.unsqueeze(2).expand(-1, -1, n_heads, -1)

        eta_of_tokens = torch.where(writes, eta, 0.0).to(theta.dtype)
        return of_heads(q), of_heads(k), of_heads(v), alpha, eta_of_tokens, theta

    def added(self, state: BlockState, features: Tensor, series: Tensor) -> Tensor:
        """As `LongTermMemory.added`, of this block's steps."""
        queries = features.unsqueeze(1) @ self.whitening[series]
        memory = MemoryState(
            weights=state.weights,
            momentum=tuple(map(torch.zeros_like, state.momentum)),
            chunk_start=state.weights,
            offset=0,
        )
        nothing = torch.zeros_like(queries)
        tokens = self._tokens(queries @ self.query_map, nothing, nothing, nothing[..., 0] > 0)
        y = memory_scan(*tokens, self.weights, state=memory, **self._how)
        reads = _bounded(y.mean(2)[..., : self.basis.shape[1]])
        shares = self._shares(state.agreement.unsqueeze(1), state.size.unsqueeze(1), series)
        found: Tensor = ((reads * shares)[:, 0] * self.scale[series, None]) @ self.basis.T
        return found

    def _evidence(self, residual: Tensor, reads: Tensor, known: Tensor, series: Tensor) -> tuple[Tensor, Tensor]:
        """Products of residuals and readings, and squares of these: (series, tokens, groups) each, float64.

        An origin at which the memory adds much counts for less: no single one decides.
        """
        groups = nn.functional.one_hot(self.group, self.n_groups).double()
        products, squares = (residual * reads).double() @ groups, reads.square().double() @ groups
        weight = known.unsqueeze(-1) / (1 + squares / (WILD * self.energy[series].unsqueeze(1)))
        return products * weight, squares * weight

    def _discounted(self, before: Tensor, x: Tensor) -> Tensor:
        """The discounted sums after each of `x` (series, tokens, groups): (series, tokens, groups, half-lives)."""
        lives = torch.tensor(self.config.half_lives, dtype=torch.float64, device=x.device)
        decay = 0.5 ** (1 / (lives * self.config.season))
        found, last = [], before
        for part in x.split(EMA_BLOCK, dim=1) if x.shape[1] else ():
            n = part.shape[1]
            age = (torch.arange(n, device=x.device).unsqueeze(1) - torch.arange(n, device=x.device)).unsqueeze(-1)
            weight = torch.where(age >= 0, (1 - decay) * decay ** age.clamp(min=0), 0)  # (tokens, tokens, half-lives)
            sums = torch.einsum("tul,sug->stgl", weight, part)
            sums = sums + last.unsqueeze(1) * decay ** torch.arange(1, n + 1, device=x.device)[:, None, None]
            found.append(sums)
            last = sums[:, -1]
        return torch.cat(found, dim=1) if found else x.new_zeros(*x.shape, len(lives))

    def group_shares(self, agreement: Tensor, size: Tensor, series: Tensor) -> Tensor:
        """The share in [0, 1] of each group of columns that the gate lets through, (series, tokens, groups)."""
        prior = (PRIOR * self.energy[series])[:, None, :, None]
        return (agreement / (size + prior)).amin(-1).clamp(0, 1)

    def _shares(self, agreement: Tensor, size: Tensor, series: Tensor) -> Tensor:
        """The share of each column, (series, tokens, columns)."""
        return self.group_shares(agreement, size, series)[..., self.group].float()


def _bounded(x: Tensor) -> Tensor:
    """`x` (..., columns), no longer than LARGEST; what is not finite counts as nothing."""
    return _shortened(torch.where(x.isfinite().all(-1, keepdim=True), x, 0), LARGEST)


def _shortened(x: Tensor, longest: float) -> Tensor:
    """`x` (..., columns), no longer than `longest`."""
    length = x.square().sum(-1, keepdim=True).sqrt()
    return x * (longest / length.clamp(min=longest))
