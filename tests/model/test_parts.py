"""What stands around the blocks, each part against its definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.model.parts import (
    AcrossPath,
    Cycle,
    Dropout,
    FlattenHead,
    InstanceNorm,
    LinearPath,
    PatchEmbedding,
    _by_copies,
    _by_series,
    spans,
)

# float64 means of tens of values in another order.
TOLERANCE = 1e-12


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# InstanceNorm


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=5, max_size=5), min_size=1, max_size=3),
    scale=st.booleans(),
)
def test_inverse_gives_the_window_back(rows: list[list[float]], scale: bool) -> None:
    x = torch.tensor(rows, dtype=torch.float64)
    norm = InstanceNorm(scale)
    z, stats = norm(x)
    # Rounding in float64 is relative to the window's largest value.
    torch.testing.assert_close(norm.inverse(z, stats), x, rtol=0, atol=1e-12 * max(1.0, x.abs().max().item()))
    # The mean of 5 values of up to 1e6 is off by 1e-10; dividing by a small scale, at least EPS**0.5, magnifies it.
    assert z.mean(-1).abs().max() <= 1e-6
    if not scale:
        assert (stats.std == 1).all()


def test_scale_divides_by_the_standard_deviation() -> None:
    x = 3 + 2 * normal(4, 50)
    z, stats = InstanceNorm(scale=True)(x)
    torch.testing.assert_close(stats.mean.squeeze(-1), x.mean(-1))
    torch.testing.assert_close(stats.std.squeeze(-1).square(), x.var(-1, correction=0) + InstanceNorm.EPS)
    torch.testing.assert_close(z, (x - stats.mean) / stats.std)


@pytest.mark.parametrize("scale", [False, True])
def test_a_constant_window_is_zero_with_finite_gradients(scale: bool) -> None:
    x = torch.full((1, 8), 5.0, requires_grad=True)
    z, stats = InstanceNorm(scale)(x)
    assert (z == 0).all()
    (gradient,) = torch.autograd.grad((z.square() + z).sum() + stats.std.sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("padding", [float("nan"), float("inf"), 1e30, -7.0])
def test_masked_norm_is_that_of_the_real_part_alone(scale: bool, padding: float) -> None:
    norm, x = InstanceNorm(scale), normal(2, 10)
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[0, :4] = mask[1, :9] = False
    z, stats = norm(torch.where(mask, x, padding), mask)
    assert (z[~mask] == 0).all()
    for i, first in enumerate((4, 9)):
        alone, own = norm(x[i : i + 1, first:])
        torch.testing.assert_close(z[i : i + 1, first:], alone, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(stats.mean[i : i + 1], own.mean, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(stats.std[i : i + 1], own.std, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_window_with_nothing_real_is_zero() -> None:
    z, stats = InstanceNorm(scale=True)(normal(1, 6), torch.zeros(1, 6, dtype=torch.bool))
    assert (z == 0).all()
    assert stats.mean.item() == 0


# Cycle


def test_phase_comes_from_the_absolute_step() -> None:
    cycle = Cycle(n_series=2, period=3)
    with torch.no_grad():
        cycle.profile.copy_(torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]))
    out = cycle(series=torch.tensor([0, 1, 0, 1]), step=torch.tensor([0, 0, 7, -1]), length=5)
    assert out.tolist() == [[0, 1, 2, 0, 1], [10, 11, 12, 10, 11], [1, 2, 0, 1, 2], [12, 10, 11, 12, 10]]


def test_phase_is_exact_at_steps_a_float_cannot_hold() -> None:
    cycle = Cycle(n_series=1, period=7)
    with torch.no_grad():
        cycle.profile.copy_(torch.arange(7.0).view(1, 7))
    step = 2**53 + 1  # odd: float64 would round it
    assert cycle(torch.tensor([0]), torch.tensor([step]), 3).tolist() == [[(step + i) % 7 for i in range(3)]]


def test_cycle_gradient_equals_that_of_a_dense_sum() -> None:
    cycle = Cycle(n_series=3, period=4).double()
    series, step, weight = torch.tensor([0, 2, 0, 2, 2]), torch.tensor([5, 0, 6, 3, 11]), normal(5, 9)
    (cycle(series, step, 9) * weight).sum().backward()
    expected = torch.zeros(3, 4, dtype=torch.float64)
    for i in range(5):
        for t in range(9):
            expected[series[i], (step[i] + t) % 4] += weight[i, t]
    torch.testing.assert_close(cycle.profile.grad, expected, rtol=TOLERANCE, atol=TOLERANCE)


# PatchEmbedding


def test_patches_overlap_and_the_end_repeats_the_last_value() -> None:
    patches = PatchEmbedding(patch_len=4, stride=2, d_model=1).patches(torch.arange(8.0).unsqueeze(0))
    assert patches.tolist() == [[[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 7, 7]]]


def test_embeds_each_patch_by_one_linear_map() -> None:
    embed, z = PatchEmbedding(patch_len=4, stride=2, d_model=3).double(), normal(2, 10)
    weight, bias = embed.project.weight, embed.project.bias
    expected = [z[:, i : i + 4] @ weight.T + bias for i in (0, 2, 4, 6)]
    torch.testing.assert_close(embed(z)[:, :4], torch.stack(expected, dim=1))


def test_a_token_is_inert_where_its_whole_patch_is_padding() -> None:
    embed = PatchEmbedding(patch_len=4, stride=2, d_model=1)  # patches begin at 0, 2, 4, 6
    mask = torch.arange(8) >= torch.tensor([[0], [3], [4], [7]])
    assert embed.inert(mask).tolist() == [
        [False, False, False, False],
        [False, False, False, False],
        [True, False, False, False],
        [True, True, False, False],
    ]


# LinearPath and FlattenHead


def test_linear_path_is_zero_at_first_and_has_no_intercept() -> None:
    path = LinearPath(lookback=6, horizon=3).double()
    assert (path(normal(2, 6)) == 0).all()
    with torch.no_grad():
        path.weight.copy_(normal(6, 3, seed=1))
    assert (path(torch.zeros(1, 6, dtype=torch.float64)) == 0).all()
    torch.testing.assert_close(path(normal(2, 6)), normal(2, 6) @ normal(6, 3, seed=1))


def test_linear_path_reads_the_level_where_it_has_weights_for_it() -> None:
    path = LinearPath(lookback=6, horizon=3, n_series=2, level=True).double()
    assert path.own is not None
    path.own[1, -1] = torch.tensor([1.0, -2.0, 0.5])
    z, series, level = normal(3, 6), torch.tensor([1, 0, 2]), torch.tensor([[2.0], [3.0], [5.0]]).double()
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[0] = torch.tensor([2.0, -4.0, 1.0])
    torch.testing.assert_close(path(z, series, level), expected)
    with pytest.raises(ValueError, match="`level` must be given"):
        path(z, series)


def test_copies_of_weights_say_what_one_product_for_each_series_does() -> None:
    weights, series = normal(3, 6, 2), torch.tensor([[2], [0], [-1], [2], [3], [0]])
    found = []
    for by in (_by_series, lambda z, series, weights: _by_copies(z, series.flatten(), weights)):
        z = normal(6, 6, seed=1).requires_grad_()
        y = by(z, series, weights)
        y.backward(normal(6, 2, seed=2))
        assert (y[[2, 4]] == 0).all()
        found.append((y.detach(), z.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.gpu
def test_a_gpu_trains_by_copies_of_weights_unless_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    weights, series, z = normal(3, 6, 2).cuda(), torch.tensor([[2, 0], [-1, 1], [3, 0]]).cuda(), normal(3, 6).cuda()
    with torch.no_grad():
        expected = _by_series(z, series, weights)
    torch.testing.assert_close(_by_series(z, series, weights), expected)
    monkeypatch.setattr("titans_ts.model.parts.MOST_COPIED", 71)  # 72 are asked for
    monkeypatch.setattr("titans_ts.model.parts._by_copies", None)
    torch.testing.assert_close(_by_series(z, series, weights), expected)


def test_spans_double_going_back_and_end_with_the_whole() -> None:
    assert spans(1) == [(0, 1), (0, 1)]
    assert spans(6) == [(0, 1), (1, 2), (2, 4), (4, 6), (0, 6)]
    assert spans(8) == [(0, 1), (1, 2), (2, 4), (4, 8), (0, 8)]


def test_the_path_across_reads_what_is_off_the_level() -> None:
    path = AcrossPath(n_series=2, lookback=4, horizon=3).double()
    nan = torch.nan
    means = torch.tensor([[[5.0, 4.0, 2.5, 3.5], [nan, nan, nan, nan]]], dtype=torch.float64)
    assert path.read(means, torch.tensor([7])).tolist() == [[1.5, 0.5, -1.0, 0.0, 0.0, 0.0]]
    read, series = path.read(normal(3, 2, 4), torch.arange(3)), torch.tensor([[0, 1], [1, 2], [-1, 0]])
    assert (path(read, series) == 0).all()
    path.weight.copy_(normal(2, 6, 3, seed=1))
    none, (first, second) = torch.zeros(3).double(), path.weight
    expected = [read[0] @ first, read[0] @ second, read[1] @ second, none, none, read[2] @ first]
    torch.testing.assert_close(path(read, series), torch.stack(expected))


def test_the_path_across_varies_with_the_phase() -> None:
    path = AcrossPath(n_series=2, lookback=4, horizon=3, period=6, harmonics=2).double()
    plain = AcrossPath(n_series=2, lookback=4, horizon=3).double()
    step = torch.tensor([0, 4, 13, 6 * 10**12 + 1, -5])
    means = normal(len(step), 2, 4)
    off, found = plain.read(means, step), path.read(means, step).unflatten(1, (5, -1))
    angle = 2 * torch.pi / 6 * (step % 6).double().unsqueeze(1)
    for i, wave in enumerate((angle.cos() ** 0, angle.cos(), (2 * angle).cos(), angle.sin(), (2 * angle).sin())):
        torch.testing.assert_close(found[:, i], off * wave, rtol=1e-6, atol=1e-6)


def test_a_cycles_means_are_those_of_what_it_answers() -> None:
    cycle, lookback = Cycle(n_series=3, period=5).double(), 7
    with torch.no_grad():
        cycle.profile.copy_(normal(3, 5))
    step = torch.tensor([0, 3, 11, -4])
    found = cycle.means(2, step, lookback, spans(lookback))
    assert found.shape == (4, 2, len(spans(lookback)))
    for number in range(2):
        over = cycle(torch.full_like(step, number), step, lookback)
        for part, (near, far) in enumerate(spans(lookback)):
            torch.testing.assert_close(found[:, number, part], over[:, lookback - far : lookback - near].mean(1))


def test_head_is_zero_at_first_and_still_learns() -> None:
    head = FlattenHead(n_tokens=3, d_model=4, horizon=5, dropout=0.0).double()
    z = normal(2, 3, 4)
    assert (head(z) == 0).all()
    head(z).sum().backward()
    expected = z.flatten(1).sum(0).expand(5, -1)
    torch.testing.assert_close(head.project.weight.grad, expected)


# Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_zeroes_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(101, 999, requires_grad=True)  # no multiple of four
    y = Dropout(p)(x)
    share = (y == 0).double().mean().item()
    # 100,899 numbers: five standard deviations of the share are 0.008 at most.
    assert share == pytest.approx(p, abs=0.008)
    assert y[y != 0].unique().tolist() == pytest.approx([1 / (1 - p)], rel=2e-4)  # p to 16 bits
    y.sum().backward()
    assert torch.equal(x.grad, y)


def test_dropout_neighbours_are_independent() -> None:
    """Four numbers come from one draw."""
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(2**18)) > 0).double().view(-1, 4) - 0.5
    correlation = 4 * kept.T @ kept / len(kept)
    # 65,536 draws: five standard deviations of a correlation are 0.02.
    torch.testing.assert_close(correlation, torch.eye(4, dtype=torch.float64), rtol=0, atol=0.02)


def test_dropout_follows_the_seed_and_leaves_evaluation_alone() -> None:
    x, layer = torch.randn(7, 5), Dropout(0.3)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(layer(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


def test_dropout_near_one_stays_finite() -> None:
    torch.manual_seed(0)
    y = Dropout(1 - 1e-9)(torch.ones(2**20))
    assert y.isfinite().all()
    assert y.count_nonzero() < 100  # 16 of 2 ** 20 are expected
