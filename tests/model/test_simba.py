"""The network as a whole: what a new one forecasts, what its switches build, and what a forecast may depend on."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.model.attention import WindowAttention
from titans_ts.model.einfft import EinFFT
from titans_ts.model.layers import Cycle
from titans_ts.model.memory import NeuralMemory
from titans_ts.model.mixers import Attention, Mamba
from titans_ts.model.simba import Perceptron
from titans_ts.model.titans import MemoryAsContext, MemoryAsGate, MemoryAsLayer

LOOKBACK, HORIZON, SERIES = 24, 6, 3
# float32 keeps 7 digits, and a forecast is a sum of some hundred terms near 1.
TOLERANCE = 1e-5


def make(*, random: bool = True, **changes: Any) -> SimbaForecaster:
    """A small network; its zeros (head, cycle, linear path) made random too unless it is to stay new."""
    torch.manual_seed(0)
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "n_series": SERIES, "cycle": 5, "patch_len": 8, "stride": 4}
    size = {"d_model": 8, "n_layers": 1, "n_heads": 2, "einfft_blocks": 2, "chunk_size": 4, "n_persistent": 2}
    network = SimbaForecaster(ModelConfig(**shape | size | changes)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if random and name.startswith(("head.", "cycle.", "linear.")):
                parameter.normal_(std=0.2)
    return network


def window(*, windows: int = 2, lookback: int = LOOKBACK, seed: int = 0, **changes: Any) -> Batch:
    """So many windows of each series, their futures unknown; every field may be given otherwise."""
    past = torch.randn(windows * SERIES, lookback, generator=torch.Generator().manual_seed(seed))
    zeros = torch.zeros(len(past), dtype=torch.int64)
    batch = Batch(past, past[:, :0], time_index=zeros, series=torch.arange(SERIES).repeat(windows))
    return batch._replace(**changes)


def point(network: SimbaForecaster, batch: Batch) -> Tensor:
    """The point forecast, (samples, horizon)."""
    forecast = network(batch)
    assert forecast.shape == (batch.n_samples, HORIZON, 1)
    return forecast[..., 0]


def close(found: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("scale_windows", [False, True])
def test_a_new_network_forecasts_the_mean_of_the_window(scale_windows: bool) -> None:
    batch = window()
    batch = batch._replace(past=5 + 3 * batch.past)
    forecast = point(make(random=False, scale_windows=scale_windows), batch)
    close(forecast, batch.past.mean(1, keepdim=True).expand(-1, HORIZON))


MIXERS = {
    "memory": NeuralMemory,
    "attention": Attention,
    "window_attention": WindowAttention,
    "mamba": Mamba,
    "none": type(None),
}
VARIANTS = {"lmm": NeuralMemory, "mac": MemoryAsContext, "mag": MemoryAsGate, "mal": MemoryAsLayer}
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
    assert network.persistent.shape == (0 if mixer == "window_attention" else n_persistent, 8)

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
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_builds_a_network_that_learns(variant: str) -> None:
    network = make(variant=variant, attention_window=3).train()
    (block,) = network.blocks
    assert isinstance(block.mixer, VARIANTS[variant])
    # Persistent tokens are ahead of the window's, or of each block where it has attention.
    assert len(network.persistent) == (2 if variant == "lmm" else 0)
    network(window()).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.numel() == 0 or (parameter.grad != 0).any(), name


def test_a_short_lookback_is_no_error() -> None:
    for lookback in (1, 2, 7):
        batch = window(lookback=lookback)
        forecast = point(make(random=False, lookback=lookback), batch)
        close(forecast, batch.past.mean(1, keepdim=True).expand(-1, HORIZON))
        assert point(make(lookback=lookback), batch).isfinite().all()


def test_deep_branch_reads_every_layer() -> None:
    network, z = make(n_layers=2, n_persistent=0, mixer="none", feature_mixer="mlp"), window().past
    tokens = network.embed(z)
    for block in network.blocks:
        tokens = tokens + block.features(block.features_norm(tokens))
    close(network.deep(z), network.head(network.final_norm(tokens)))


# What a forecast depends on


def test_a_deep_branch_with_a_head_of_zero_is_not_computed() -> None:
    """It adds nothing to a forecast; it is computed in training, and once the head is not zero."""
    network, z = make(random=False), torch.randn(5, LOOKBACK)
    computed: list[int] = []
    network.embed.register_forward_hook(lambda *_: computed.append(1))
    assert (network.deep(z) == 0).all()
    assert len(computed) == 1  # its head is to learn
    with torch.no_grad():
        zeros = network.deep(z)
        assert zeros.shape == (5, HORIZON, 1)
        assert (zeros == 0).all()
        assert len(computed) == 1
        network.head.project.bias[3] = 0.5
        assert (network.deep(z)[:, 3] == 0.5).all()
        assert len(computed) == 2


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba"])
def test_windows_of_a_batch_do_not_meet(mixer: str) -> None:
    network, batch = make(mixer=mixer), window()
    changed = batch.past.clone()
    changed[1::3] = 100 * window(seed=1).past[1::3]
    found, forecast = point(network, batch._replace(past=changed)), point(network, batch)
    unchanged = torch.tensor([0, 2, 3, 5])
    close(found[unchanged], forecast[unchanged], 1e-6)
    assert (found[1::3] - forecast[1::3]).abs().min() > 1e-3
    alone = [point(network, batch.map(lambda field, i=i: field[i : i + 1])) for i in range(batch.n_samples)]
    close(forecast, torch.cat(alone), 1e-6)


@pytest.mark.parametrize("scale_windows", [False, True])
def test_a_higher_window_mean_is_forecast_as_much_higher(scale_windows: bool) -> None:
    network, batch = make(scale_windows=scale_windows), window()
    more = torch.tensor([8.0, -4.0, 0.5]).repeat(2)[:, None]  # powers of two add to float32 with little rounding
    close(point(network, batch._replace(past=batch.past + more)), point(network, batch) + more)


def test_scaled_windows_make_the_forecast_scale() -> None:
    batch = window()
    small, large = (batch._replace(past=size * batch.past) for size in (64, 64**2))
    for scale_windows in (True, False, None):
        network = make(scale_windows=scale_windows, cycle=0)
        expected = point(network, small)
        difference = (point(network, large) / 64 - expected).abs().max() / expected.abs().max()
        # EPS = 0.01 beside a variance of 64 ** 2 changes the scale by 1e-6.
        assert (difference < 1e-5) == bool(scale_windows)


def test_without_scaling_the_linear_path_is_linear() -> None:
    network, batch = make(cycle=0), window()
    network.deep = lambda z, *_: torch.zeros(len(z), HORIZON, 1)  # type: ignore[method-assign]
    forecast = point(network, batch)
    close(point(network, batch._replace(past=64 * batch.past)), 64 * forecast, 64 * TOLERANCE)
    mean = batch.past.mean(1, keepdim=True)
    close(forecast, mean + (batch.past - mean) @ network.linear.weight)


def test_outputs_share_the_linear_path_and_differ_by_the_deep_branch() -> None:
    network, batch = make(n_outputs=3), window()
    forecast = network(batch)
    assert forecast.shape == (6, HORIZON, 3)
    seen = network.normalised(batch)
    deep = network.deep(seen.past)
    assert deep.shape == (6, HORIZON, 3)
    close(forecast - forecast[..., :1], deep - deep[..., :1])
    assert (deep[..., 1] - deep[..., 0]).abs().min() > 0
    with torch.no_grad():
        network.head.project.weight.zero_()
        network.head.project.bias.zero_()
        linear = network(batch)
    assert torch.equal(linear, linear[..., :1].expand(-1, -1, 3))


# Cycle: time index and series


def test_the_profile_is_taken_off_the_past_and_put_on_the_forecast() -> None:
    network, plain = make(), make(cycle=0)
    state = {name: value for name, value in network.state_dict().items() if not name.startswith("cycle.")}
    plain.load_state_dict(state)
    time_index, series = torch.tensor([3, 19, 3, 19, 4, 5]), torch.tensor([2, 0, 1, 1, 2, 0])
    batch = window(time_index=time_index, series=series)
    at = time_index[:, None] + torch.arange(LOOKBACK + HORIZON)
    profile = network.cycle.profile[series[:, None], at % 5]  # (samples, lookback + horizon)
    expected = point(plain, batch._replace(past=batch.past - profile[:, :LOOKBACK])) + profile[:, LOOKBACK:]
    close(point(network, batch), expected)


def test_another_cycle_takes_the_place_of_its_own_for_one_call() -> None:
    network, batch = make(), window()
    expected, other = network(batch), Cycle(SERIES + 1, 5)
    other.begin_at(torch.randn(SERIES + 1, 5, generator=torch.Generator().manual_seed(4)))
    twin = copy.deepcopy(network)
    twin.cycle.begin_at(other.profile[:SERIES])
    assert torch.equal(network(batch, other), twin(batch))
    assert not torch.equal(twin(batch), expected)
    assert torch.equal(network(batch), expected)


def test_a_whole_cycle_later_is_the_same_and_a_part_of_one_is_not() -> None:
    network, batch = make(), window()
    first = network(batch)
    later = torch.tensor([5, -10, 5, -10, 5, -10])
    assert torch.equal(network(batch._replace(time_index=later)), first)
    part = network(batch._replace(time_index=torch.tensor([1, 2, 3, 4, 6, 7])))
    assert (part - first).abs().amax((1, 2)).min() > 1e-2


@pytest.mark.parametrize("scale_windows", [False, True])
@pytest.mark.parametrize("per_series", [False, True])
def test_an_error_in_normalised_windows_times_their_scale_is_the_error(scale_windows: bool, per_series: bool) -> None:
    paths = dict.fromkeys(("linear_per_series", "linear_window_mean", "linear_cross_series"), per_series)
    network = make(scale_windows=scale_windows, **paths)
    cross_series = None
    if per_series:
        assert network.linear is not None
        assert network.linear.per_series is not None
        assert network.cross_series is not None
        network.linear.per_series.normal_()
        network.cross_series.weight.normal_()
        cross_series = torch.randn(6, 3, len(network.cross_series.spans))
    mask = torch.ones(6, LOOKBACK, dtype=torch.bool)
    mask[3, :9] = False
    batch = window(
        future=torch.randn(6, HORIZON),
        time_index=torch.tensor([3, 3, 3, 19, 19, 19]),
        series=torch.tensor([2, 0, 1, 1, 1, 0]),
        padding_mask=mask,
        cross_series=cross_series,
    )
    seen = network.normalised(batch)
    missed = (seen.normalise(batch.future) - network.forecast_normalised(seen)[..., 0]) * seen.stats.std
    close(missed, batch.future - point(network, batch))
    assert (seen.stats.std == 1).all() != scale_windows
    # Centred: each sum of up to 24 float32 values near 1 is zero to rounding.
    assert seen.past.sum(-1).abs().max() < 1e-4


def test_cross_series_features_are_needed_in_their_shape() -> None:
    network = make(linear_per_series=True, linear_cross_series=True)
    with pytest.raises(ValueError, match=r"`cross_series` must have shape .* got None; `CrossSeriesFeatures` makes it"):
        network(window())
    with pytest.raises(ValueError, match=r"`cross_series` must have shape .* got \(6, 3, 1\)"):
        network(window(cross_series=torch.zeros(6, 3, 1)))
    with pytest.raises(ValueError, match="`linear_cross_series` must be set"):
        make().cross_series_inputs(window())


# Padding


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba", "none"])
@pytest.mark.parametrize("scale_windows", [False, True])
@pytest.mark.parametrize("padding", [1e30, -5.0, float("nan")])
def test_what_stands_in_the_padding_does_not_matter(mixer: str, scale_windows: bool, padding: float) -> None:
    network, batch = make(mixer=mixer, scale_windows=scale_windows), window()
    mask = torch.ones(6, LOOKBACK, dtype=torch.bool)
    mask[:3, :20] = mask[4, :9] = mask[5, : LOOKBACK - 1] = False
    zeros, others = (
        batch._replace(past=torch.where(mask, batch.past, value), padding_mask=mask) for value in (0.0, padding)
    )
    forecast = point(network, zeros)
    assert forecast.isfinite().all()
    assert torch.equal(point(network, others), forecast)
    close(forecast[3], point(network, batch)[3], 1e-6)  # a window without padding is as it would be


def test_a_mask_without_padding_changes_nothing() -> None:
    network, batch = make(), window()
    close(network(batch._replace(padding_mask=torch.ones(6, LOOKBACK, dtype=torch.bool))), network(batch), 1e-6)


@pytest.mark.parametrize("mixer", ["memory", "attention", "mamba"])
def test_the_mixer_is_told_which_tokens_are_padding_alone(mixer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = make(mixer=mixer)
    told: list[Tensor] = []
    forward = network.blocks[0].mixer.forward
    monkeypatch.setattr(
        network.blocks[0].mixer, "forward", lambda x, masked: (told.append(masked), forward(x, masked))[1]
    )
    mask = torch.ones(6, LOOKBACK, dtype=torch.bool)
    mask[::3, :13] = False  # patches of 8 begin at 0, 4, 8, ..., 20: those at 0 and 4 are padding alone
    network(window(padding_mask=mask))
    assert told[0][0].tolist() == [False, False, True, True, False, False, False, False]
    assert told[0][3].tolist() == told[0][0].tolist()
    assert not told[0][[1, 2, 4, 5]].any()


# Errors


@pytest.mark.parametrize("shape", [(2, LOOKBACK - 1), (2, LOOKBACK, 1), (LOOKBACK,)])
def test_refuses_a_past_of_another_shape(shape: tuple[int, ...]) -> None:
    message = f"`past` must have shape (samples, {LOOKBACK}), got {shape}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()(window(past=torch.zeros(shape)))


@pytest.mark.parametrize("name", ["series", "time_index"])
@pytest.mark.parametrize("shape", [(5,), (6, 1), ()])
def test_refuses_a_field_that_does_not_name_each_window(name: str, shape: tuple[int, ...]) -> None:
    message = f"`{name}` must have shape (samples,) = (6,), got {shape}."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()(window(**{name: torch.zeros(shape, dtype=torch.int64)}))
