"""The network as a whole: where it starts, what its switches build, and what a forecast may depend on."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.model.einfft import EinFFT
from titans_ts.model.memory import NeuralMemory
from titans_ts.model.mixers import Attention, Mamba
from titans_ts.model.simba import Perceptron

LOOKBACK, HORIZON, CHANNELS = 24, 6, 3
# float32 keeps 7 digits, and a forecast is a sum of some hundred terms near 1.
TOLERANCE = 1e-5


def make(*, random: bool = True, **changes: Any) -> SimbaForecaster:
    """A small network; its zeros (head, cycle, linear path) made random too unless it is to stay new."""
    torch.manual_seed(0)
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "n_series": CHANNELS, "cycle": 5, "patch_len": 8, "stride": 4}
    size = {"d_model": 8, "n_layers": 1, "n_heads": 2, "einfft_blocks": 2, "chunk_size": 4, "n_persistent": 2}
    network = SimbaForecaster(ModelConfig(**shape | size | changes)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if random and name.startswith(("head.", "cycle.", "linear.")):
                parameter.normal_(std=0.2)
    return network


def window(*, batch: int = 2, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    return torch.randn(batch, LOOKBACK, channels, generator=torch.Generator().manual_seed(seed))


def close(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("scale_windows", [False, True])
def test_a_new_network_forecasts_the_mean_of_the_window(scale_windows: bool) -> None:
    past = 5 + 3 * window()
    forecast = make(random=False, scale_windows=scale_windows)(past)
    close(forecast, past.mean(1, keepdim=True).expand(-1, HORIZON, -1))


MIXERS = {"memory": NeuralMemory, "attention": Attention, "mamba": Mamba, "none": type(None)}
FEATURES = {"einfft": EinFFT, "mlp": Perceptron, "none": type(None)}


@pytest.mark.parametrize("n_persistent", [0, 2])
@pytest.mark.parametrize("cycle", [0, 5])
@pytest.mark.parametrize("linear_path", [True, False])
@pytest.mark.parametrize("feature_mixer", FEATURES)
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_switch_builds_a_network_that_learns(
    mixer: str, feature_mixer: str, linear_path: bool, cycle: int, n_persistent: int
) -> None:
    changes = {"linear_path": linear_path, "cycle": cycle, "n_persistent": n_persistent}
    network = make(mixer=mixer, feature_mixer=feature_mixer, **changes).train()
    (block,) = network.blocks
    assert isinstance(block.mixer, MIXERS[mixer])
    assert isinstance(block.features, FEATURES[feature_mixer])
    assert (network.linear is not None) == linear_path
    assert (network.cycle is not None) == (cycle > 0)
    assert network.persistent.shape == (n_persistent, 8)

    network(window()).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # Persistent tokens reach the series' own through what mixes tokens.
        alone = name == "persistent" and mixer == "none" and feature_mixer != "einfft"
        assert parameter.numel() == 0 or alone or (parameter.grad != 0).any(), name


@pytest.mark.parametrize(
    "changes",
    [{"memory_depth": depth} for depth in (1, 3, 4)]
    + [{"memory_conv": False, "memory_momentum": False, "memory_forgetting": False}]
    + [{"memory_gates": "chunk"}, {"memory_expansion": 2}, {"scale_windows": True}, {"dropout": 0.5}],
    ids=str,
)
def test_every_memory_builds_a_network_that_learns(changes: dict[str, Any]) -> None:
    network = make(**changes).train()
    network(window()).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters())


def test_a_short_lookback_is_no_error() -> None:
    for lookback in (1, 2, 7):
        past = window()[:, :lookback]
        forecast = make(random=False, lookback=lookback)(past)
        close(forecast, past.mean(1, keepdim=True).expand(-1, HORIZON, -1))
        assert make(lookback=lookback)(past).isfinite().all()


def test_deep_branch_reads_every_layer() -> None:
    network, z = make(n_layers=2, n_persistent=0, mixer="none", feature_mixer="mlp"), window()[:, :, 0]
    tokens = network.embed(z)
    for block in network.blocks:
        tokens = tokens + block.features(block.features_norm(tokens))
    close(network.deep(z), network.head(network.final_norm(tokens)))


# What a forecast depends on


def test_a_branch_that_says_nothing_is_not_asked() -> None:
    """Where the start was kept, a forecast is the linear path's; what is trained or not silent goes all the way."""
    network, z = make(random=False), torch.randn(5, LOOKBACK)
    asked: list[int] = []
    network.embed.register_forward_hook(lambda *_: asked.append(1))
    assert (network.deep(z) == 0).all()
    assert len(asked) == 1  # its head is to learn
    with torch.no_grad():
        silent = network.deep(z)
        assert silent.shape == (5, HORIZON)
        assert (silent == 0).all()
        assert len(asked) == 1
        network.head.project.bias[3] = 0.5
        assert (network.deep(z)[:, 3] == 0.5).all()
        assert len(asked) == 2


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba"])
def test_channels_do_not_meet(mixer: str) -> None:
    network, past = make(mixer=mixer), window()
    changed = past.clone()
    changed[:, :, 1] = 100 * window(seed=1)[:, :, 1]
    found, forecast = network(changed), network(past)
    close(found[:, :, [0, 2]], forecast[:, :, [0, 2]], 1e-6)
    assert (found[:, :, 1] - forecast[:, :, 1]).abs().min() > 1e-3


def test_windows_of_a_batch_do_not_meet() -> None:
    network, past = make(), window(batch=3)
    close(network(past), torch.cat([network(past[i : i + 1]) for i in range(3)]), 1e-6)


@pytest.mark.parametrize("scale_windows", [False, True])
def test_a_higher_level_is_forecast_as_much_higher(scale_windows: bool) -> None:
    network, past = make(scale_windows=scale_windows), window()
    level = torch.tensor([8.0, -4.0, 0.5])  # powers of two add to float32 with little rounding
    close(network(past + level), network(past) + level)


def test_scaled_windows_make_the_forecast_scale() -> None:
    past = 64 * window()
    for scale_windows in (True, False, None):
        network = make(scale_windows=scale_windows, cycle=0)
        difference = (network(64 * past) / 64 - network(past)).abs().max() / network(past).abs().max()
        # EPS = 0.01 beside a variance of 64 ** 2 changes the scale by 1e-6.
        assert (difference < 1e-5) == bool(scale_windows)


def test_without_scaling_the_linear_path_is_linear() -> None:
    network, past = make(cycle=0), window()
    network.deep = lambda z, mask: torch.zeros(len(z), HORIZON)  # type: ignore[method-assign]
    close(network(64 * past), 64 * network(past), 64 * TOLERANCE)
    level = past.mean(1, keepdim=True)
    expected = level + ((past - level).transpose(1, 2) @ network.linear.weight).transpose(1, 2)
    close(network(past), expected)


# Cycle: step and series


def test_cycle_is_taken_off_the_past_and_put_on_the_forecast() -> None:
    network, plain = make(), make(cycle=0)
    plain.load_state_dict({name: value for name, value in network.state_dict().items() if name != "cycle.profile"})
    past, step, series = window(channels=2), torch.tensor([3, 19]), torch.tensor([[2, 0], [1, 1]])
    at = step[:, None] + torch.arange(LOOKBACK + HORIZON)
    over = network.cycle.profile[series[:, None, :], at[:, :, None] % 5]  # (batch, lookback + horizon, channels)
    expected = plain(past - over[:, :LOOKBACK]) + over[:, LOOKBACK:]
    close(network(past, step, series), expected)


def test_a_whole_cycle_later_is_the_same_and_a_part_of_one_is_not() -> None:
    network, past = make(), window()
    first = network(past, torch.tensor([0, 0]))
    assert torch.equal(network(past, torch.tensor([5, -10])), first)
    assert (network(past, torch.tensor([1, 2])) - first).abs().amax((1, 2)).min() > 1e-2


def test_step_and_series_default_to_zero_and_the_order_of_channels() -> None:
    network, past = make(), window()
    named = network(past, torch.zeros(2, dtype=torch.int64), torch.tensor([[0, 1, 2], [0, 1, 2]]))
    assert torch.equal(network(past), named)


@pytest.mark.parametrize("scale_windows", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_an_error_in_normalised_windows_times_their_scale_is_the_error(scale_windows: bool, own: bool) -> None:
    network = make(scale_windows=scale_windows, linear_per_series=own, linear_level=own, linear_across=own)
    around = None
    if own:
        assert network.linear is not None
        assert network.linear.own is not None
        assert network.across is not None
        network.linear.own.normal_()
        network.across.weight.normal_()
        around = torch.randn(2, 3, len(network.across.spans))
    past, future = window(), torch.randn(2, HORIZON, CHANNELS)
    step, series = torch.tensor([3, 19]), torch.tensor([[2, 0, 1], [1, 1, 0]])
    mask = torch.ones_like(past, dtype=torch.bool)
    mask[1, :9, 0] = False
    pair = network.normalised(past, future, step, series, mask, around)
    missed = (pair.future - network.answer(pair.past, pair.mask, pair.series, pair.level)) * pair.std
    close(missed.unflatten(0, (2, CHANNELS)).transpose(1, 2), future - network(past, step, series, mask, around))
    assert (pair.std == 1).all() != scale_windows
    # Centred: each sum of up to 24 float32 values near 1 is zero to rounding.
    assert pair.past.sum(-1).abs().max() < 1e-4


def test_means_of_other_series_are_asked_for_by_their_shape() -> None:
    network = make(linear_per_series=True, linear_across=True)
    assert network.across is not None
    with pytest.raises(ValueError, match=r"`around` must have shape .* got None; `Surroundings` makes it"):
        network(window())
    with pytest.raises(ValueError, match=r"`around` must have shape .* got \(2, 3, 1\)"):
        network(window(), around=torch.zeros(2, 3, 1))
    with pytest.raises(ValueError, match="`linear_across` must be set"):
        make().read_across(None, torch.zeros(2, dtype=torch.int64))


# Mask


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba", "none"])
@pytest.mark.parametrize("scale_windows", [False, True])
@pytest.mark.parametrize("padding", [1e30, -5.0, float("nan")])
def test_what_stands_in_the_padding_does_not_matter(mixer: str, scale_windows: bool, padding: float) -> None:
    network, past = make(mixer=mixer, scale_windows=scale_windows), window()
    mask = torch.ones_like(past, dtype=torch.bool)
    mask[0, :20] = mask[1, :9, 1] = mask[1, : LOOKBACK - 1, 2] = False
    zeros, others = torch.where(mask, past, 0.0), torch.where(mask, past, padding)
    forecast = network(zeros, mask=mask)
    assert forecast.isfinite().all()
    assert torch.equal(network(others, mask=mask), forecast)
    close(forecast[1, :, 0], network(past)[1, :, 0], 1e-6)  # a channel without padding is as it would be


def test_a_mask_of_all_real_values_changes_nothing() -> None:
    network, past = make(), window()
    close(network(past, mask=torch.ones_like(past, dtype=torch.bool)), network(past), 1e-6)


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba"])
def test_the_mixer_is_told_which_tokens_hold_nothing_real(mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, past = make(mixer=mixer), window()
    seen: list[Tensor] = []
    forward = network.blocks[0].mixer.forward
    monkeypatch.setattr(network.blocks[0].mixer, "forward", lambda x, inert: (seen.append(inert), forward(x, inert))[1])
    mask = torch.ones_like(past, dtype=torch.bool)
    mask[:, :13, 0] = False  # patches of 8 begin at 0, 4, 8, ..., 20: those at 0 and 4 hold nothing real
    network(past, mask=mask)
    inert = seen[0].unflatten(0, (2, CHANNELS))
    assert inert[0, 0].tolist() == [False, False, True, True, False, False, False, False]
    assert not inert[:, 1:].any()


# Errors


@pytest.mark.parametrize("shape", [(2, LOOKBACK - 1, CHANNELS), (2, LOOKBACK), (2, LOOKBACK, CHANNELS, 1)])
def test_refuses_a_past_of_another_shape(shape: tuple[int, ...]) -> None:
    message = f"`past` must have shape (batch, {LOOKBACK}, channels), got {shape}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()(torch.zeros(shape))


def test_refuses_more_channels_than_series_with_a_cycle() -> None:
    past = window(channels=4)
    with pytest.raises(ValueError, match=r"^`past` has 4 channels but the network 3 series; pass `series`\.$"):
        make()(past)
    assert make(cycle=0)(past).shape == (2, HORIZON, 4)


@pytest.mark.parametrize("series", [[[2]], [[0, 1]]])
def test_refuses_channels_that_series_does_not_name(series: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="`series`"):
        make()(window(batch=1), series=torch.tensor(series))
