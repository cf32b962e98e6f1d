"""What stands around the blocks, each part against its definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from titans_ts.model.layers import Cycle, Dropout, FlattenHead, InstanceNorm, PatchEmbedding, dropout_from
from titans_ts.model.linear import spans

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
    back = norm.inverse(z.unsqueeze(-1), stats).squeeze(-1)
    torch.testing.assert_close(back, x, rtol=0, atol=1e-12 * max(1.0, x.abs().max().item()))
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
        alone, stats_alone = norm(x[i : i + 1, first:])
        torch.testing.assert_close(z[i : i + 1, first:], alone, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(stats.mean[i : i + 1], stats_alone.mean, rtol=TOLERANCE, atol=TOLERANCE)
        torch.testing.assert_close(stats.std[i : i + 1], stats_alone.std, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_window_with_nothing_real_is_zero() -> None:
    z, stats = InstanceNorm(scale=True)(normal(1, 6), torch.zeros(1, 6, dtype=torch.bool))
    assert (z == 0).all()
    assert stats.mean.item() == 0


# Cycle


def test_phase_comes_from_the_time_index() -> None:
    cycle = Cycle(n_series=2, period=3)
    with torch.no_grad():
        cycle.profile.copy_(torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]))
    out = cycle(series=torch.tensor([0, 1, 0, 1]), time_index=torch.tensor([0, 0, 7, -1]), length=5)
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


def test_means_of_a_cycle_are_those_of_its_profile() -> None:
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


@pytest.mark.parametrize("seasonal", [True, False])
def test_a_cycle_knows_whether_it_began_at_profiles_and_keeps_it_in_its_state(seasonal: bool) -> None:
    cycle = Cycle(n_series=2, period=3)
    cycle.begin_at(torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]) if seasonal else torch.zeros(2, 3))
    other = Cycle(n_series=2, period=3)
    other.load_state_dict(cycle.state_dict())
    assert bool(other.seasonal) is seasonal
    assert torch.equal(other.profile, cycle.profile)
    cycle.begin_at(None)
    assert not cycle.seasonal
    assert (cycle.profile == 0).all()


# PatchEmbedding


def test_patches_overlap_and_the_end_repeats_the_last_value() -> None:
    patches = PatchEmbedding(patch_len=4, stride=2, d_model=1).patches(torch.arange(8.0).unsqueeze(0))
    assert patches.tolist() == [[[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 7, 7]]]


def test_embeds_each_patch_by_one_linear_map() -> None:
    embed, z = PatchEmbedding(patch_len=4, stride=2, d_model=3).double(), normal(2, 10)
    weight, bias = embed.project.weight, embed.project.bias
    expected = [z[:, i : i + 4] @ weight.T + bias for i in (0, 2, 4, 6)]
    torch.testing.assert_close(embed(z)[:, :4], torch.stack(expected, dim=1))


def test_a_token_is_masked_where_its_whole_patch_is_padding() -> None:
    embed = PatchEmbedding(patch_len=4, stride=2, d_model=1)  # patches begin at 0, 2, 4, 6
    mask = torch.arange(8) >= torch.tensor([[0], [3], [4], [7]])
    assert embed.masked(mask).tolist() == [
        [False, False, False, False],
        [False, False, False, False],
        [True, False, False, False],
        [True, True, False, False],
    ]


# FlattenHead


def test_head_is_zero_at_first_and_still_learns() -> None:
    head = FlattenHead(n_tokens=3, d_model=4, horizon=5, dropout=0.0).double()
    z = normal(2, 3, 4)
    assert (head(z) == 0).all()
    head(z).sum().backward()
    expected = z.flatten(1).sum(0).expand(5, -1)
    torch.testing.assert_close(head.project.weight.grad, expected)


def test_every_output_of_the_head_has_weights_for_each_step() -> None:
    head, z = FlattenHead(n_tokens=3, d_model=4, horizon=5, dropout=0.0, n_outputs=2).double(), normal(2, 3, 4)
    with torch.no_grad():
        head.project.weight.copy_(normal(10, 12, seed=1))
    out = head(z)
    assert out.shape == (2, 5, 2)
    torch.testing.assert_close(out.flatten(1), z.flatten(1) @ normal(10, 12, seed=1).T)


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


def test_dropout_draws_from_the_generator_given_and_leaves_the_processs_alone() -> None:
    x, network = torch.ones(7, 5), torch.nn.Sequential(Dropout(0.3), torch.nn.Linear(5, 5), Dropout(0.3))
    torch.manual_seed(2)
    expected = network(x)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with dropout_from(torch.Generator().manual_seed(2), network):
        assert torch.equal(network(x), expected)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ZeroDivisionError), dropout_from(torch.Generator(), network):
        raise ZeroDivisionError
    network(x)
    assert not torch.equal(torch.get_rng_state(), before)  # of no block any more


def test_dropout_near_one_stays_finite() -> None:
    torch.manual_seed(0)
    y = Dropout(1 - 1e-9)(torch.ones(2**20))
    assert y.isfinite().all()
    assert y.count_nonzero() < 100  # 16 of 2 ** 20 are expected
