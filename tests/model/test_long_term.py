"""LongTermMemory: equal to its equations token by token, causal, in any cuts, and finite whatever comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.model.long_term import LARGEST, LONGEST_KEY, PRIOR, WILD, Block, LongTermMemory
from titans_ts.model.long_term_config import LongTermConfig
from titans_ts.model.origins import n_features
from titans_ts.model.stream_state import Origins, StreamState

ROUNDING = dict(rtol=1e-4, atol=1e-4)  # float32 over some hundred tokens, against float64


def config_with(**given: Any) -> LongTermConfig:
    small = dict(
        lookback=8, horizon=6, n_series=3, cycle=4, rates=(0.8, 3.0), forgetting=(0.01, 0.1), half_lives=(3, 9)
    )
    return LongTermConfig(**(small | given))  # type: ignore[arg-type]


def made(config: LongTermConfig, n_tokens: int, seed: int = 0, masked: bool = True) -> tuple[Origins, tuple[Any, ...]]:
    """Random origins of all series, what comes after which depends on their features, and the residuals."""
    rng = torch.Generator().manual_seed(seed)
    shape, blocks = (config.n_series, n_tokens), LongTermMemory(config).parts
    features = torch.randn(*shape, n_features(config.lookback, config.horizon, config.cycle), generator=rng)
    features[..., 0] = 1
    if config.recall:  # rows of which one in five is surprising, and of one of two kinds
        kinds = torch.randn(2, config.lookback, generator=rng)
        rows = 0.3 * torch.randn(*shape, config.lookback, generator=rng)
        which = torch.randint(0, 10, shape, generator=rng).unsqueeze(-1)
        rows = torch.where(which < 2, 9 * kinds[which.clamp(max=1).squeeze(-1)], rows)
        features = torch.cat([features, rows], dim=-1)
    live = torch.rand(shape, generator=rng) > 0.15 * masked
    forecasts, came, known, residuals = [], [], [], []
    for block in blocks:
        columns = block.basis.shape[1]
        law = torch.randn(features.shape[-1], columns, generator=rng) / 4
        law[n_features(config.lookback, config.horizon, config.cycle) :] *= 0.3
        forecast = torch.randn(*shape, columns, generator=rng)
        rest = features @ law + 0.3 * torch.randn(*shape, columns, generator=rng)
        later = torch.zeros_like(forecast)
        later[:, block.delay :] = (forecast + rest)[:, : -block.delay or None][:, : n_tokens - block.delay]
        there = torch.rand(shape, generator=rng) > 0.15 * masked
        there[:, : block.delay] = False
        forecasts.append(forecast)
        came.append(later)
        known.append(there)
        residuals.append(rest)
    origins = Origins(features, tuple(forecasts), tuple(came), tuple(known), live, torch.arange(config.n_series))
    return origins, tuple(residuals)


def memory_of(config: LongTermConfig, backend: str = "auto", n_tokens: int = 120) -> LongTermMemory:
    memory = LongTermMemory(config, backend)
    origins, residuals = made(config, n_tokens, seed=7)
    memory.initialise([origins], [residuals])
    return memory


def begun(memory: LongTermMemory, end: int = 0) -> StreamState:
    n_series = memory.config.n_series
    return memory.begin(n_series, torch.full((n_series,), end))


@torch.no_grad()
def read(memory: LongTermMemory, origins: Origins, state: StreamState | None = None) -> tuple[StreamState, list[Any]]:
    state, added = memory.advance(begun(memory) if state is None else state, origins)
    return state, [a.numpy() for a in added]


# The equations, token by token


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def slope(x: np.ndarray) -> np.ndarray:
    s = 1 / (1 + np.exp(-x))
    return s + x * s * (1 - s)


def gradients(weights: list[np.ndarray], k: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Of |M(k) - v|^2 by each layer's weights, one or two."""
    if len(weights) == 1:
        return [2 * np.outer(k, k @ weights[0] - v)]
    inner = k @ weights[0]
    error = 2 * (silu(inner) @ weights[1] - v)
    return [np.outer(k, (error @ weights[1].T) * slope(inner)), np.outer(silu(inner), error)]


def bounded_key(config: LongTermConfig, k: np.ndarray) -> np.ndarray:
    return k if config.depth == 1 else no_longer(k, LONGEST_KEY**0.5)


def answer(weights: list[np.ndarray], q: np.ndarray) -> np.ndarray:
    return q @ weights[0] if len(weights) == 1 else silu(q @ weights[0]) @ weights[1]


def no_longer(x: np.ndarray, most: float) -> np.ndarray:
    return x * min(1.0, most / max(np.linalg.norm(x), 1e-300))


def directly(memory: LongTermMemory, origins: Origins, end: int = 0) -> list[np.ndarray]:
    """What `LongTermMemory.advance` adds, series by series and token by token in float64."""
    config, found = memory.config, []
    for i, block in enumerate(memory.parts):
        rows = [_directly(config, block, i, origins, s, end) for s in range(len(origins.series))]
        found.append(np.stack(rows))
    return found


def _directly(config: LongTermConfig, block: Block, i: int, origins: Origins, s: int, end: int) -> np.ndarray:
    def double(x: Tensor) -> np.ndarray:
        array: np.ndarray = x.detach().double().numpy()
        return array

    number = int(origins.series[s])
    features, forecasts, came = (double(x[s]) for x in (origins.features, origins.forecasts[i], origins.came[i]))
    known, live = origins.known[i][s].numpy(), origins.live[s].numpy()
    whitening, scale, energy = (double(x[number]) for x in (block.whitening, block.scale, block.energy))
    group, columns, width = block.group.numpy(), block.basis.shape[1], block.head_dim
    keys = features @ whitening
    season, chunk = config.season, config.chunk_size
    eta = config.momentum ** (1 / chunk)
    heads = [(rate, share) for rate in config.rates for share in config.forgetting]
    initial = [[double(layer[h]) for layer in block.layers] for h in range(len(heads))]
    weights = [[w.copy() for w in own] for own in initial]
    momentum = [[np.zeros_like(w) for w in own] for own in initial]
    start = [[w.copy() for w in own] for own in initial]
    decay = 0.5 ** (1 / (np.array(config.half_lives) * season))
    agreement, size = np.zeros((2, block.n_groups, len(decay)))
    reads, found = [], []
    for t in range(len(features)):
        origin = t - block.delay
        writes = origin >= 0 and bool(known[t]) and bool(live[origin])
        if (end + t) % chunk == 0:
            start = [[w.copy() for w in own] for own in weights]
        value = no_longer((came[t] - forecasts[origin]) / scale, LARGEST) if writes else np.zeros(columns)
        for h, (rate, share) in enumerate(heads):
            if not writes:
                momentum[h] = [np.zeros_like(w) for w in momentum[h]]
                continue
            k, v = keys[origin], np.pad(value, (0, width - columns))
            theta = rate / (2 * season) * (1 - eta) * LONGEST_KEY / max(k @ k, LONGEST_KEY)
            if config.depth == 2:
                theta = min(theta, 0.5 * (1 - eta) / chunk) / max(np.linalg.norm(v), 1)
            alpha = min(share / season, 1)
            surprise = gradients(start[h], bounded_key(config, k), v)
            momentum[h] = [eta * m - theta * g for m, g in zip(momentum[h], surprise, strict=True)]
            weights[h] = [(1 - alpha) * w + m for w, m in zip(weights[h], momentum[h], strict=True)]
            if config.depth > 1:
                weights[h] = [w + alpha * first for w, first in zip(weights[h], initial[h], strict=True)]
        mean = np.mean([answer(own, bounded_key(config, keys[t])) for own in weights], axis=0)[:columns]
        reads.append(no_longer(mean, LARGEST))
        agreement, size = agreement * decay, size * decay
        if writes:
            for g in range(block.n_groups):
                inside = group == g
                square = (reads[origin][inside] ** 2).sum()
                weight = 1 / (1 + square / (WILD * energy[g]))
                agreement[g] += (1 - decay) * weight * (value[inside] @ reads[origin][inside])
                size[g] += (1 - decay) * weight * square
        shares = (agreement / (size + PRIOR * energy[:, None])).min(-1).clip(0, 1)
        found.append(reads[-1] * shares[group] * scale)
    return np.stack(found)


CASES = {
    "full delay": dict(),
    "two layers": dict(depth=2, rates=(30.0,), forgetting=(0.05, 0.5)),
    "blocks": dict(block_ends=(2, 6)),
    "no season": dict(cycle=0, rates=(30.0,)),
    "no momentum": dict(momentum=0.0, rates=(3.0,)),
    "long season": dict(cycle=30, horizon=3, rates=(10.0, 30.0)),
}
RECALL: dict[str, dict[str, Any]] = {"recall": dict(recall=40), "few slots": dict(recall=3)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["chunkwise", "reference"])
def test_it_equals_its_equations_token_by_token(case: str, backend: str) -> None:
    config = config_with(**CASES[case])
    memory = memory_of(config, backend)
    origins, _ = made(config, 90)
    expected = directly(memory, origins, end=5)
    _, found = read(memory, origins, begun(memory, end=5))
    assert max(np.abs(e).max() for e in expected) > 0.05, "the gate must have opened"
    for part, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, other, **ROUNDING)


@pytest.mark.parametrize("depth", [1, 2])
def test_it_learns_what_depends_on_the_features(depth: int) -> None:
    config = config_with(depth=depth, rates=(30.0,) if depth > 1 else (1.0,), forgetting=(0.0,))
    memory = memory_of(config)
    origins, residuals = made(config, 1200, masked=False)
    _, (found,) = read(memory, origins)
    late = slice(900, None)
    rest = residuals[0].numpy()[:, late]
    assert ((rest - found[:, late]) ** 2).mean() < (0.5 if depth == 1 else 0.8) * (rest**2).mean()


def test_nothing_is_added_before_anything_is_known() -> None:
    config = config_with(block_ends=(2, 6), depth=2)
    memory = memory_of(config)
    origins, _ = made(config, 40, masked=False)
    _, found = read(memory, origins)
    for block, added in zip(memory.parts, found, strict=True):
        assert not added[:, : block.delay].any()
        assert added[:, 2 * block.delay :].any()
    state = begun(memory)
    assert not memory.added(state, origins.features[:, 0], origins.series).any()


@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_masked_writes_nothing(depth: int) -> None:
    """Neither an origin that is not live nor a truth that is not known: their content makes no difference to others."""
    config = config_with(depth=depth)
    memory = memory_of(config)
    origins, _ = made(config, 60)
    _, (expected,) = read(memory, origins)
    wrong = origins.came[0].clone()
    wrong[~origins.known[0]] = 1e6
    forecasts = origins.forecasts[0].clone()
    forecasts[~origins.live] = -1e6
    state, (found,) = read(memory, origins._replace(came=(wrong,), forecasts=(forecasts,)))
    assert np.array_equal(found, expected)
    nothing = origins._replace(known=(torch.zeros_like(origins.known[0]),))
    state, (found,) = read(memory, nothing)
    assert not found.any()
    for now, first in zip(state.blocks[0].weights, begun(memory).blocks[0].weights, strict=True):
        assert torch.equal(now, first)
    assert not state.blocks[0].size.any()


@pytest.mark.parametrize("backend", ["chunkwise", "reference"])
@pytest.mark.parametrize("depth", [1, 2])
def test_no_origin_sees_a_later_one(depth: int, backend: str) -> None:
    config = config_with(depth=depth, block_ends=(2, 6))
    memory = memory_of(config, backend)
    origins, _ = made(config, 70)
    whole, first = read(memory, origins), read(memory, origins.between(0, 40))

    def corrupted(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, 40:] = ~x[:, 40:] if x.dtype == torch.bool else 1e3
        return x

    _, found = read(memory, origins.map(corrupted))
    for a, b, c in zip(found, whole[1], first[1], strict=True):
        assert np.array_equal(a[:, :40], b[:, :40])
        np.testing.assert_allclose(c, b[:, :40], rtol=0, atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(1, 69), max_size=8, unique=True), end=st.integers(0, 40), depth=st.sampled_from([1, 2])
)
def test_any_cuts_equal_one_pass(cuts: list[int], end: int, depth: int) -> None:
    config = config_with(depth=depth, cycle=30, block_ends=(2, 6), rates=(30.0,))
    memory = memory_of(config)
    origins, _ = made(config, 70)
    whole, expected = read(memory, origins, begun(memory, end))
    state, parts = begun(memory, end), []
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 70], strict=True):
        state, added = read(memory, origins.between(first, last), state)
        parts.append(added)
    for found, other in zip(map(np.concatenate, zip(*parts, strict=True), [1, 1]), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=0, atol=1e-5)
    for name, tensor in whole.tensors().items():
        np.testing.assert_allclose(state.tensors()[name].numpy(), tensor.numpy(), rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", RECALL)
def test_recall_adds_to_the_first_block_and_any_cuts_equal_one_pass(case: str) -> None:
    memory = memory_of(config_with(**RECALL[case]))
    origins, _ = made(memory.config, 100)
    whole, (expected,) = read(memory, origins)
    without = memory_of(replace(memory.config, recall=0))
    without.load_state_dict({n: x for n, x in memory.state_dict().items() if not n.startswith("recall.")})
    _, (alone,) = read(without, origins)
    differs = np.abs(expected - alone).max(-1) > 1e-3
    assert 0 < differs.mean() < 0.25  # at surprising origins only
    state, parts = begun(memory), []
    for first, last in zip([0, 1, 13, 14, 70], [1, 13, 14, 70, 100], strict=True):
        state, (added,) = read(memory, origins.between(first, last), state)
        parts.append(added)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, rtol=0, atol=1e-5)
    again = StreamState.of_tensors(state.tensors(), begun(memory))
    for name, tensor in whole.tensors().items():
        np.testing.assert_allclose(again.tensors()[name], tensor, rtol=0, atol=1e-5, err_msg=name)


def test_no_rows_change_nothing() -> None:
    memory = memory_of(config_with())
    state, _ = read(memory, made(memory.config, 30)[0])
    same, (added,) = read(memory, made(memory.config, 30)[0].between(0, 0), state)
    assert added.shape[1] == 0
    for name, tensor in state.tensors().items():
        assert torch.equal(same.tensors()[name], tensor)


@pytest.mark.parametrize("case", CASES | RECALL)
def test_a_forecast_from_the_state_is_that_of_the_last_origin(case: str) -> None:
    memory = memory_of(config_with(**(CASES | RECALL)[case]))
    origins, _ = made(memory.config, 60)
    state, added = read(memory, origins)
    expected = memory.expand(tuple(torch.from_numpy(a[:, -1]) for a in added))
    found = memory.added(state, origins.features[:, -1], origins.series)
    assert found.shape == (3, memory.config.horizon)
    assert found.abs().max() > 0.01
    np.testing.assert_allclose(found.detach(), expected, rtol=0, atol=1e-5)


def test_series_are_apart_and_may_come_in_any_order() -> None:
    memory = memory_of(config_with())
    origins, _ = made(memory.config, 60)
    whole, (expected,) = read(memory, origins)
    order = torch.tensor([2, 0])
    some = origins.map(lambda x: x[order])._replace(series=origins.series[order])
    state, (found,) = read(memory, some, begun(memory).take(order))
    np.testing.assert_allclose(found, expected[[2, 0]], rtol=0, atol=1e-6)
    again = begun(memory).put(order, state)
    for name, tensor in again.take(order).tensors().items():
        np.testing.assert_allclose(tensor, whole.take(order).tensors()[name], rtol=0, atol=1e-6)
    untouched = torch.tensor([1])
    for name, tensor in again.take(untouched).tensors().items():
        assert torch.equal(tensor, begun(memory).take(untouched).tensors()[name])


def test_what_is_held_goes_by_name_and_back() -> None:
    memory = memory_of(config_with(depth=2, block_ends=(2, 6)))
    state, _ = read(memory, made(memory.config, 30)[0])
    tensors = state.tensors()
    again = StreamState.of_tensors(tensors, state)
    assert again.tensors().keys() == tensors.keys()
    assert len(tensors) == 1 + 2 * (3 * 2 + 6)
    for name, tensor in again.to(torch.device("cpu")).tensors().items():
        assert torch.equal(tensor, tensors[name])
    origins = made(memory.config, 10, seed=3)[0]
    for a, b in zip(read(memory, origins, again)[1], read(memory, origins, state)[1], strict=True):
        assert np.array_equal(a, b)


def test_what_is_held_does_not_grow() -> None:
    memory = memory_of(config_with())
    state, _ = read(memory, made(memory.config, 20)[0])
    later, _ = read(memory, made(memory.config, 500)[0], state)
    for name, tensor in state.tensors().items():
        assert later.tensors()[name].shape == tensor.shape


def test_series_at_other_places_of_a_chunk_are_refused() -> None:
    memory = memory_of(config_with(cycle=30))
    origins, _ = made(memory.config, 5)
    with pytest.raises(ValueError, match="`state` must have series that ended at the same place in a chunk"):
        memory.advance(memory.begin(3, torch.tensor([0, 1, 0])), origins)
    size = memory.config.chunk_size
    assert size == 7
    memory.advance(memory.begin(3, torch.tensor([2, 2 + size, 2 - size])), origins)


# Scales


def test_keys_are_whitened_and_residuals_scaled_by_train_origins() -> None:
    config = config_with()
    memory = LongTermMemory(config)
    origins, (residuals,) = made(config, 400)
    residuals = residuals * torch.tensor([1.0, 5.0, 1.0])[:, None, None]
    residuals[2] = torch.nan  # nothing is known of it
    residuals[0, 300:] = torch.nan
    memory.initialise([origins], [(residuals,)])
    (block,) = memory.parts
    live = origins.live
    rows = origins.features[0, :300][live[0, :300]]
    keys = (rows @ block.whitening[0]).double()
    assert keys.square().sum(1).mean().item() == pytest.approx(1, rel=1e-4)
    moment = torch.linalg.eigvalsh(keys.T @ keys / len(keys))[-rows.shape[1] :]
    before = torch.linalg.eigvalsh((rows.T @ rows / len(rows)).double())
    assert moment.max() / moment.min() < before.max() / before.min()
    first = residuals[0, :300][live[0, :300]].double()
    assert block.scale[0].item() == pytest.approx(first.square().sum(1).mean().sqrt().item(), rel=1e-4)
    second = residuals[1][live[1]].double()
    assert block.scale[1].item() == pytest.approx(second.square().sum(1).mean().sqrt().item(), rel=1e-4)
    squares = torch.cat([first, second]).square().sum(1).mean().sqrt().item()
    assert block.scale[[2, 3]].tolist() == pytest.approx([squares] * 2, rel=1e-4)  # unknown ones have that of all
    assert torch.equal(block.whitening[2], block.whitening[3])
    assert block.energy.sum(1).tolist() == pytest.approx([1.0] * 4)
    parts = [(origins.map(lambda x, i=i: x[i : i + 1])._replace(series=torch.tensor([i])),) for i in range(3)]
    other = LongTermMemory(config)
    other.initialise([part for (part,) in parts], [(residuals[i : i + 1],) for i in range(3)])
    for name in ("scale", "energy", "whitening"):
        torch.testing.assert_close(getattr(other.parts[0], name), getattr(block, name), rtol=1e-4, atol=1e-4)


def test_series_that_were_forecast_without_error_have_a_share_of_the_scale_of_all() -> None:
    config = config_with()
    memory = LongTermMemory(config)
    origins, (residuals,) = made(config, 200, masked=False)
    residuals[1] = 0
    memory.initialise([origins], [(residuals,)])
    scale = memory.parts[0].scale
    assert scale[1].item() == pytest.approx(0.05 * scale[3].item(), rel=1e-5)
    memory.initialise([origins], [(torch.zeros_like(residuals),)])  # no error anywhere
    assert memory.parts[0].scale.gt(0).all()
    _, (added,) = read(memory, origins)
    assert np.isfinite(added).all()


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("size", [1e3, 1e15])
def test_outliers_and_constant_stretches_leave_it_finite(depth: int, size: float) -> None:
    config = config_with(depth=depth, rates=(0.8, 30.0) if depth > 1 else (0.8,))
    memory = memory_of(config)
    origins, residuals = made(config, 600)
    for x in (origins.features, *origins.forecasts, *origins.came):
        x[0, 200:240] *= size
        x[1, 100:101] = size
        x[1, 300:400] = x[1, 300:301].clone()
    state, (added,) = read(memory, origins)
    for name, tensor in state.tensors().items():
        assert tensor.isfinite().all(), name
    largest: np.ndarray = LARGEST * memory.parts[0].scale[:3].numpy()
    assert (np.linalg.norm(added, axis=-1) <= 1.001 * largest[:, None]).all()
    assert np.isfinite(memory.added(state, origins.features[:, 210], origins.series).detach().numpy()).all()
    rest = residuals[0].numpy()[2, 400:]  # the one series without them has learned
    assert ((rest - added[2, 400:]) ** 2).mean() < (rest**2).mean()


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_a_million_origins_leave_it_finite(depth: int) -> None:
    config = config_with(depth=depth, n_series=100, rates=(3.0, 30.0), cycle=30)
    memory = memory_of(config, n_tokens=20)
    state, size = begun(memory), 500
    for i in range(20):
        origins, residuals = made(config, size, seed=i % 3)
        origins.came[0][i % 100, 50 * i % size :] *= 1e12
        origins.features[(i + 1) % 100, 100:200] = origins.features[(i + 1) % 100, 100:101].clone()
        state, (added,) = read(memory, origins, state)
        assert np.isfinite(added).all()
    assert 20 * size * 100 == 1_000_000
    for name, tensor in state.tensors().items():
        assert tensor.isfinite().all(), name
    assert ((residuals[0].numpy() - added) ** 2)[50:].mean() < (residuals[0].numpy()[50:] ** 2).mean()
