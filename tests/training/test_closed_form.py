"""The closed-form initialisation against NumPy, and on series where the answer is known."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.closed_form import LAG_DECAY, PARTS, initialise, initialised_network, reinitialised_network
from titans_ts.training.config import TrainConfig
from titans_ts.training.evaluate import evaluate, loss_by_series
from titans_ts.training.loop import fit_network
from titans_ts.training.relative import naive_errors, relative_error
from titans_ts.training.ridge import RIDGE_UNVALIDATED, RIDGES
from titans_ts.windows.cross_series import CrossSeriesFeatures
from titans_ts.windows.seasonal import seasonal_profiles
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON = 12, 4


def make(**changes: Any) -> ModelConfig:
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "d_model": 8, "n_layers": 1, "scale_windows": False}
    return ModelConfig(**shape | {"mixer": "none", "feature_mixer": "mlp"} | changes)


def data_of(*series: np.ndarray) -> SeriesData[Tensor]:
    lengths = np.array([len(values) for values in series])
    return SeriesData(torch.from_numpy(np.concatenate(series)).float(), lengths, np.zeros(len(series), dtype=int))


def windows_of(
    data: SeriesData[Tensor],
    first: Any,
    last: Any,
    lookback: int = LOOKBACK,
    horizon: int = HORIZON,
    cross_series: CrossSeriesFeatures | None = None,
) -> Windows:
    """Windows whose futures lie in rows [first, last), one number or one for each series."""
    shape = np.zeros_like(data.lengths)
    bounds = dict(first=shape + first, last=shape + last)
    return Windows(data, lookback=lookback, horizon=horizon, **bounds, cross_series=cross_series)


def split(values: np.ndarray, lookback: int = LOOKBACK, share: float = 0.75) -> tuple[Windows, Windows]:
    """Training and validation windows of one series."""
    rows, data = int(share * len(values)), data_of(values)
    return windows_of(data, lookback, rows, lookback), windows_of(data, rows, len(values), lookback)


def pairs(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Centred pasts and futures minus the window mean, (windows, steps), in float64."""
    (batch,) = windows.batches(10**6)
    past, future = batch.past.double().numpy(), batch.future.double().numpy()
    mean = past.mean(1, keepdims=True)
    return past - mean, future - mean


def ridge(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """Shrunk towards the window mean, which is zero here."""
    if strength == np.inf:
        return np.zeros((x.shape[1], y.shape[1]))
    moments = x.T @ x
    return np.linalg.solve(moments + strength * np.trace(moments) / len(moments) * np.eye(len(moments)), x.T @ y)


def ridge_by_lag(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """A ridge of which an older lag gets more; `x` may have the window mean after a lookback's lags."""
    expected = np.ones(x.shape[1])
    lags = min(x.shape[1], LOOKBACK)
    expected[:lags] = np.arange(lags, 0, -1.0) ** -LAG_DECAY
    return expected[:, None] * ridge(x * expected, y, strength)


def ridge_from_last(x: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    """Shrunk towards the window's last value."""
    last = np.zeros((x.shape[1], y.shape[1]))
    last[-1] = 1
    return last + ridge(x, y - x @ last, strength)


def ends(x: np.ndarray) -> list[np.ndarray]:
    """The whole of each window, its last half, its last quarter, ..."""
    lengths = [x.shape[1] >> i for i in range(PARTS) if x.shape[1] >> i > 1]
    return [x[:, -length:] for length in lengths]


def noise(n: int, seed: int = 0) -> np.ndarray:
    """An autoregression: a linear map can forecast a part of it."""
    rng = np.random.default_rng(seed)
    values = np.zeros(n)
    for t in range(2, n):
        values[t] = 1.2 * values[t - 1] - 0.5 * values[t - 2] + rng.normal()
    return values


def seasonal(n: int, period: int, scatter: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=period)[np.arange(n) % period] + scatter * rng.normal(size=n)


def profiles_of(series: list[np.ndarray], period: int) -> Tensor:
    """The profiles of the first three quarters of each series."""
    lengths = np.array([len(values) for values in series])
    data = SeriesData(np.concatenate(series), lengths, np.zeros_like(lengths))
    return torch.from_numpy(seasonal_profiles(data, 3 * lengths // 4, period))


def profile_of(values: np.ndarray, period: int) -> Tensor:
    return profiles_of([values], period)


# The solution


def test_a_sum_of_sines_is_forecast_almost_exactly() -> None:
    """It is a linear recurrence: 12 past values determine every later one."""
    t = np.arange(400)
    values = np.sin(t / 3) + 0.5 * np.sin(t / 7 + 1) + 0.3 * np.cos(t * 0.9)
    train, validation = split(values)
    network = initialised_network(make(), train, validation, None, 0)
    # The smallest ridge is 1e-7 of the mean eigenvalue, and the values are float32: errors below 1e-3 of the size.
    assert evaluate(network, validation) < 1e-6 * values.var()


@pytest.fixture
def whole_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that reads windows whole, and is no mean of several."""
    monkeypatch.setattr("titans_ts.training.closed_form.PARTS", 1)


@pytest.mark.usefixtures("whole_windows")
def test_equals_ridge_regression_with_the_strength_that_validates_best() -> None:
    train, validation = split(noise(200))
    network = initialised_network(make(), train, validation, None, 0)
    (x, y), (x_new, y_new) = pairs(train), pairs(validation)
    weights = {strength: ridge_by_lag(x, y, strength) for strength in RIDGES}
    errors = {strength: ((y_new - x_new @ w) ** 2).mean() for strength, w in weights.items()}
    best = min(errors, key=errors.__getitem__)
    assert min(RIDGES) < best < max(RIDGES), "the choice must matter"
    np.testing.assert_allclose(network.linear.weight.detach(), weights[best], rtol=1e-4, atol=1e-6)  # float32
    assert evaluate(network, validation) == pytest.approx(errors[best], rel=1e-5)


def test_is_the_mean_of_paths_from_as_many_ends_of_a_window_as_validate_best() -> None:
    chosen = []
    for seed in range(6):
        train, validation = split(noise(200, seed))
        network = initialised_network(make(), train, validation, None, 0)
        (x, y), (x_new, y_new) = pairs(train), pairs(validation)
        forecasts, means = [], []
        for part, part_new in zip(ends(x), ends(x_new), strict=True):
            found = (part_new @ ridge_by_lag(part, y, strength) for strength in RIDGES)
            forecasts.append(min(found, key=lambda forecast: ((y_new - forecast) ** 2).mean()))
            means.append(((y_new - np.mean(forecasts, axis=0)) ** 2).mean())
        assert len(means) == 3  # 12, 6 and 3 of 12 steps
        assert evaluate(network, validation) == pytest.approx(min(means), rel=1e-5)
        chosen.append(means.index(min(means)))
    assert len(set(chosen)) > 1, "the choice must matter"


@pytest.mark.parametrize("window_mean", [False, True])
def test_per_series_paths_and_the_common_one_each_take_the_mean_of_ends_that_validates_best(window_mean: bool) -> None:
    train, validation = two([returning(500, keeps, seed) for seed, keeps in enumerate((0.5, 0.9))])
    common = initialised_network(make(n_series=2), train, validation, None, 0)
    network = SimbaForecaster(make(n_series=2, linear_per_series=True, linear_window_mean=window_mean)).eval()
    error = initialise(network, train, validation)
    assert error == pytest.approx(relative(network, validation), rel=1e-5)
    torch.testing.assert_close(network.linear.weight, common.linear.weight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("titans_ts.training.closed_form.PARTS", 1)
        whole = SimbaForecaster(network.config).eval()
        assert error < initialise(whole, train, validation)


def test_with_many_windows_equals_least_squares() -> None:
    train, validation = split(noise(4000))
    network = initialised_network(make(), train, validation, None, 0)
    x, y = pairs(train)
    expected = np.linalg.lstsq(x, y, rcond=1e-9)[0]  # centring makes x singular in one direction
    forecast = x @ network.linear.weight.detach().double().numpy()
    # 3000 windows need little ridge: it moves the forecasts by a hundredth of their size at most.
    assert np.abs(forecast - x @ expected).max() < 1e-2 * np.abs(x @ expected).max()


def test_without_validation_windows_shrinks_hard() -> None:
    train, _ = split(noise(60))
    network = initialised_network(make(), train, None, None, 0)
    expected = ridge(*pairs(train), RIDGE_UNVALIDATED)
    np.testing.assert_allclose(network.linear.weight.detach(), expected, rtol=1e-4, atol=1e-6)  # float32


def test_batches_of_windows_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    train, validation = split(noise(120))
    whole = initialised_network(make(scale_windows=True), train, validation, None, 0)
    monkeypatch.setattr("titans_ts.training.moments.BATCH", 7)
    parts = initialised_network(make(scale_windows=True), train, validation, None, 0)
    torch.testing.assert_close(parts.linear.weight, whole.linear.weight, rtol=1e-5, atol=1e-7)  # float32 of float64


# The scale of windows


def swinging(n: int) -> np.ndarray:
    """Waves of which each is up to nine times as high as the last, so that high windows would outweigh all others."""
    t = np.arange(n)
    return np.sin(t / 3) * np.exp(2 * np.sin(t / 50)) + 0.02 * noise(n)


@pytest.mark.usefixtures("whole_windows")
def test_scaled_windows_count_alike_whatever_their_scale() -> None:
    train, validation = split(swinging(300))
    network = initialised_network(make(scale_windows=True), train, validation, None, 0)
    (x, y), (x_new, y_new) = pairs(train), pairs(validation)
    std = np.sqrt(x.var(1, keepdims=True) + network.norm.EPS)  # centred already
    weights = {strength: ridge_by_lag(x / std, y / std, strength) for strength in RIDGES}
    errors = {strength: ((y_new - x_new @ w) ** 2).mean() for strength, w in weights.items()}
    best = min(errors, key=errors.__getitem__)  # in the data's own scale
    np.testing.assert_allclose(network.linear.weight.detach(), weights[best], rtol=1e-3, atol=1e-4)  # float32
    assert evaluate(network, validation) == pytest.approx(errors[best], rel=1e-4)


def storm_then_wave(n: int) -> np.ndarray:
    """Windows of the storm outweigh all of the wave, unless each is divided by its scale; validation sees the wave."""
    return np.concatenate([10 * np.random.default_rng(0).normal(size=n // 2), np.sin(np.arange(n - n // 2) / 3)])


@pytest.mark.parametrize(
    ("values", "best"), [(storm_then_wave(300), True), (noise(300), False)], ids=["storm then wave", "noise"]
)
@pytest.mark.parametrize("validated", [True, False])
def test_validation_chooses_whether_windows_are_scaled(values: np.ndarray, best: bool, validated: bool) -> None:
    train, validation = split(values)
    windows = (train, validation if validated else None)
    errors = {}
    for scaling in (False, True):
        network = initialised_network(make(scale_windows=scaling), *windows, None, 0)
        assert network.config.scale_windows == network.norm.scale == scaling
        errors[scaling] = evaluate(network, validation if validated else train)
    chosen = initialised_network(make(scale_windows=None), *windows, None, 0)
    assert chosen.config.scale_windows == chosen.norm.scale == min(errors, key=errors.__getitem__)
    assert evaluate(chosen, validation if validated else train) == min(errors.values())
    assert not validated or chosen.config.scale_windows == best


def test_without_a_linear_path_windows_are_scaled_unless_told_otherwise() -> None:
    train, validation = split(noise(60))
    for given, expected in ((None, True), (True, True), (False, False)):
        config = make(linear_path=False, scale_windows=given)
        assert initialised_network(config, train, validation, None, 0).config.scale_windows is expected


# Where the moments are singular


@pytest.mark.parametrize("jitter", [0.0, 1e-7, 1e-3])
@pytest.mark.parametrize("validated", [True, False])
def test_flat_windows_are_forecast_at_their_mean(jitter: float, validated: bool) -> None:
    values = 3 + jitter * noise(80)
    train, validation = split(values)
    network = initialised_network(make(), train, validation if validated else None, None, 0)
    assert network.linear.weight.isfinite().all()
    assert evaluate(network, validation) <= 25 * jitter**2 + 1e-12


@pytest.mark.usefixtures("whole_windows")
def test_fewer_windows_than_steps_of_a_lookback() -> None:
    train, validation = split(noise(60), lookback=40)
    assert len(train) < 40
    network = initialised_network(make(lookback=40), train, validation, None, 0)
    (x, y), (x_new, y_new) = pairs(train), pairs(validation)
    least = min(((y_new - x_new @ fit(x, y, s)) ** 2).mean() for s in RIDGES for fit in (ridge, ridge_from_last))
    # At the smallest ridge float64 solves a matrix of condition 4e8, and the weights are float32.
    assert evaluate(network, validation) == pytest.approx(least, rel=1e-4)


def test_padded_windows_count_their_real_values_alone() -> None:
    short = windows_of(data_of(noise(20)), 6, 20)
    network = initialised_network(make(), short, None, None, 0)
    (batch,) = short.batches(10**6)
    real, past, future = (field.double().numpy() for field in (batch.padding_mask, batch.past, batch.future))
    mean = past.sum(1, keepdims=True) / real.sum(1, keepdims=True)  # the padding holds zeros
    x, y = (past - mean) * real, future - mean
    candidates = [fit(x, y, RIDGE_UNVALIDATED) for fit in (ridge, ridge_from_last)]  # fewer windows than lookback
    expected = min(candidates, key=lambda w: ((y - x @ w) ** 2).mean())
    np.testing.assert_allclose(network.linear.weight.detach(), expected, rtol=1e-4, atol=1e-6)  # float32


# The cycle


def test_takes_the_profile_where_the_season_is_longer_than_the_lookback() -> None:
    values = seasonal(600, period=24, scatter=0.1)
    train, validation = split(values, lookback=4)
    config, profile = make(lookback=4, cycle=24), profile_of(values, 24)
    network = initialised_network(config, train, validation, profile, 0)
    assert torch.equal(network.cycle.profile, profile.float())
    without = initialised_network(config, train, validation, None, 0)
    assert (without.cycle.profile == 0).all()
    # The scatter's own variance is 0.01; a mean over 4 values and the profile's own error add a third at most.
    assert evaluate(network, validation) < 0.015
    assert evaluate(without, validation) > 0.3


def test_leaves_a_profile_that_does_not_help() -> None:
    values = noise(600)
    train, validation = split(values)
    wrong = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 24)))
    network = initialised_network(make(cycle=24), train, validation, wrong, 0)
    assert (network.cycle.profile == 0).all()
    expected = initialised_network(make(), train, validation, None, 0)
    assert torch.equal(network.linear.weight, expected.linear.weight)


@pytest.mark.parametrize("scatter", [0.1, 1.0, 3.0])
def test_the_better_of_both_is_taken(scatter: float) -> None:
    values = seasonal(300, period=7, scatter=scatter)
    train, validation = split(values)
    profile = profile_of(values, 7)
    network = initialised_network(make(cycle=7), train, validation, profile, 0)
    errors = []
    for given in (profile.float(), None):
        tried = SimbaForecaster(make(cycle=7)).eval()
        tried.cycle.begin_at(given)
        initialise(tried, train, validation)
        errors.append(evaluate(tried, validation))
    assert evaluate(network, validation) == pytest.approx(min(errors), rel=1e-6)


def test_without_a_linear_path_the_profile_stands() -> None:
    values = seasonal(100, period=7, scatter=0.1)
    train, validation = split(values)
    network = initialised_network(make(cycle=7, linear_path=False), train, validation, profile_of(values, 7), 0)
    assert torch.equal(network.cycle.profile, profile_of(values, 7).float())


# Random numbers


def test_random_state_fixes_the_network_and_the_callers_numbers_go_on() -> None:
    train, validation = split(noise(60))

    def weights(seed: int) -> dict[str, Tensor]:
        return initialised_network(make(), train, validation, None, seed).state_dict()

    before = torch.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    again, other = weights(1), weights(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embed.project.weight"], other["embed.project.weight"])
    assert torch.equal(first["linear.weight"], other["linear.weight"])


def test_an_initialised_network_is_ready_to_forecast() -> None:
    train, validation = split(noise(60))
    network = initialised_network(make(dropout=0.5), train, validation, None, 0)
    assert not network.training
    assert (network.head.project.weight == 0).all()
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_short_trend_goes_on_from_its_last_value() -> None:
    """Too few windows to learn from: the last value says more than the mean of what is there."""
    data = data_of(np.arange(1.0, 7.0))
    short = windows_of(data, 2, 6, lookback=8, horizon=2)
    network = initialised_network(make(lookback=8, horizon=2), short, None, None, 0)
    (batch,) = windows_of(data, 6, 6, lookback=8, horizon=0).batches(1)
    with torch.no_grad():
        forecast = network(batch).flatten()
    assert (forecast > 5.5).all()
    assert (forecast < 8.5).all()


# Per-series weights


def relative(network: SimbaForecaster, windows: Windows) -> float:
    """The error by which paths are chosen."""
    totals, counts = loss_by_series(network, windows)
    return relative_error(totals / counts, naive_errors(windows)).item()


def two(values: list[np.ndarray]) -> tuple[Windows, Windows]:
    """Training and validation windows of several series of one length."""
    n, data = len(values[0]), data_of(*values)
    return windows_of(data, LOOKBACK, 3 * n // 4), windows_of(data, 3 * n // 4, n)


@pytest.mark.usefixtures("whole_windows")
def test_series_that_differ_in_kind_get_per_series_weights() -> None:
    unlike = [noise(400), seasonal(400, 5, 0.1)]
    train, validation = two(unlike)
    common = initialised_network(make(n_series=2), train, validation, None, 0)
    each = initialised_network(make(n_series=2, linear_per_series=True), train, validation, None, 0)
    assert each.linear is not None
    assert common.linear is not None
    torch.testing.assert_close(each.linear.weight, common.linear.weight, rtol=1e-3, atol=1e-4)  # ridges that tie
    assert evaluate(each, validation) < 0.97 * evaluate(common, validation)

    assert each.linear.per_series is not None
    for i, values in enumerate(unlike):  # the ridge is towards the common weights
        x, y = pairs(split(values)[0])
        weight = common.linear.weight.detach().double().numpy()
        expected = [ridge_by_lag(x, y - x @ weight, strength) for strength in RIDGES]
        errors = [np.abs(each.linear.per_series[i].numpy() - w).max() for w in expected]
        assert min(errors) < 1e-3


def test_series_alike_keep_the_common_weights_or_nearly() -> None:
    train, validation = two([noise(400, seed) for seed in range(4)])
    common, each = (
        initialised_network(make(n_series=4, linear_per_series=per_series), train, validation, None, 0)
        for per_series in (False, True)
    )
    assert relative(each, validation) <= relative(common, validation) * (1 + 1e-4)


def test_per_series_weights_are_saved_not_trained_and_other_series_have_none() -> None:
    train, validation = two([noise(400), seasonal(400, 5, 0.1)])
    network = initialised_network(make(n_series=2, linear_per_series=True), train, validation, None, 0)
    assert network.linear is not None
    assert network.linear.per_series is not None
    assert "linear.per_series" in network.state_dict()
    assert "linear.per_series" not in dict(network.named_parameters())
    before = network.linear.per_series.clone()
    fit_network(network, train, validation, TrainConfig(max_epochs=1, batch_size=64, initialisation_is_candidate=False))
    assert torch.equal(network.linear.per_series, before)

    z, series = torch.randn(6, LOOKBACK), torch.tensor([1, 0, 7, -1, 1, 0])
    added = network.linear(z, series) - z @ network.linear.weight
    expected = torch.stack([z[i] @ before[s] if 0 <= s < 2 else torch.zeros(HORIZON) for i, s in enumerate(series)])
    torch.testing.assert_close(added, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="`series` must say"):
        network.linear(z)


def test_per_series_weights_need_the_path_they_add_to() -> None:
    with pytest.raises(ValueError, match="`linear_per_series` must be False where `linear_path` is"):
        make(linear_path=False, linear_per_series=True)
    with pytest.raises(ValueError, match="`linear_window_mean` must be False where `linear_per_series` is"):
        make(linear_window_mean=True)


def returning(n: int, keeps: float, seed: int) -> np.ndarray:
    """A slow part that keeps a share of itself from step to step, around zero, and noise that hides it."""
    rng = np.random.default_rng(seed)
    slow = np.zeros(n)
    for t in range(1, n):
        slow[t] = keeps * slow[t - 1] + rng.normal()
    return slow + 3 * rng.normal(size=n)


@pytest.mark.parametrize("scale_windows", [False, True])
def test_series_that_return_to_their_mean_do_so_each_at_its_pace(scale_windows: bool) -> None:
    train, validation = two([returning(2000, keeps, seed) for seed, keeps in enumerate((0.5, 0.9))])
    without, each = (
        initialised_network(
            make(n_series=2, scale_windows=scale_windows, linear_per_series=True, linear_window_mean=window_mean),
            train, validation, None, 0,
        )
        for window_mean in (False, True)
    )  # fmt: skip
    assert evaluate(each, validation) < 0.95 * evaluate(without, validation)
    assert each.linear is not None
    assert each.linear.per_series is not None
    back = each.linear.per_series[:, -1].mean(-1)  # what a window mean of one adds to the forecast
    assert (back < 0).all()
    assert back[0] < back[1] - 0.1  # the quicker one returns further


@pytest.mark.usefixtures("whole_windows")
def test_weights_that_read_the_window_mean_are_least_squares_and_count_half_at_first_and_more_further_ahead() -> None:
    series = [returning(800, keeps, seed) for seed, keeps in enumerate((0.5, 0.9))]
    train, validation = two(series)
    config = make(n_series=2, linear_per_series=True, linear_window_mean=True)
    network = SimbaForecaster(config).eval()
    error = initialise(network, train, validation)
    assert error == pytest.approx(relative(network, validation), rel=1e-5)
    assert network.linear is not None
    assert network.linear.per_series is not None
    for i, values in enumerate(series):
        (batch,) = split(values)[0].batches(10**6)
        mean = batch.past.double().numpy().mean(1, keepdims=True)
        x, y = pairs(split(values)[0])
        added = (
            np.hstack([x, mean]) @ network.linear.per_series[i].double().numpy()
        )  # a constant part of them adds nothing
        left = y - x @ network.linear.weight.detach().double().numpy()
        plain, reading = (
            [inputs @ ridge_by_lag(inputs, left, strength) for strength in RIDGES]
            for inputs in (x, np.hstack([x, mean]))
        )
        share = 0.75 - 0.25 * np.exp(-np.arange(1, config.horizon + 1) / (3.5 * config.lookback))
        assert min(np.abs(added - (1 - share) * a - share * b).max() for a, b in product(plain, reading)) < 1e-3


def test_whether_the_profile_helps_is_told_by_the_weights_that_are_kept() -> None:
    """A profile that suits one series and spoils the other helps a common path, and not per-series ones."""
    t = np.arange(600)
    season = np.array([0.0, 1.0, 3.0, -2.0, 0.5])[t % 5]
    values = [season + 0.1 * np.random.default_rng(0).normal(size=600), noise(600, 1)]
    train, validation = two(values)
    profile = profiles_of(values, 5)
    for per_series in (False, True):
        errors = []
        for cycle in (0, 5):
            network = SimbaForecaster(make(n_series=2, cycle=cycle, linear_per_series=per_series)).eval()
            errors.append(initialise(network, train, validation, profile.float() if cycle else None))
            assert errors[-1] == pytest.approx(relative(network, validation), rel=1e-4)
        assert errors[1] <= errors[0] * (1 + 1e-9)


@pytest.mark.parametrize("scale_windows", [False, True, None])
def test_a_network_initialised_again_is_as_if_it_had_been_with_that_seed(scale_windows: bool | None) -> None:
    values = following(400, 2)
    train, validation = with_cross_series(values)
    profile = profiles_of(values, 5)
    config = make(
        n_series=3,
        cycle=5,
        scale_windows=scale_windows,
        mixer="memory",
        linear_per_series=True,
        linear_cross_series=True,
    )
    first, second = (initialised_network(config, train, validation, profile, seed) for seed in (1, 2))
    again = reinitialised_network(first, 2)
    assert again.config == second.config
    for (name, value), expected in zip(again.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(value, expected), name
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    other = reinitialised_network(first, 2, mixer="none")
    same = initialised_network(replace(config, mixer="none"), train, validation, profile, 2)
    assert other.config == same.config
    for (name, value), expected in zip(other.state_dict().items(), same.state_dict().values(), strict=True):
        assert torch.equal(value, expected), name


# Cross-series features


def following(n: int, lag: int, seed: int = 0) -> list[np.ndarray]:
    """A walk that returns, one that follows it `lag` steps later, and one of its own."""
    rng = np.random.default_rng(seed)
    walk = np.zeros(n + lag)
    for t in range(1, n + lag):
        walk[t] = 0.9 * walk[t - 1] + rng.normal()
    return [walk[lag:], walk[:n] + 0.1 * rng.normal(size=n), rng.normal(size=n)]


def with_cross_series(values: list[np.ndarray]) -> tuple[Windows, Windows]:
    """Training and validation windows, each with the recent means of all series."""
    data = data_of(*values)
    features, rows = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=len(values)), data.lengths
    return (
        windows_of(data, LOOKBACK, 3 * rows // 4, cross_series=features),
        windows_of(data, 3 * rows // 4, rows, cross_series=features),
    )


@pytest.mark.parametrize("scale_windows", [False, True])
@pytest.mark.parametrize("cycle", [0, 5])
def test_a_series_that_follows_another_is_told_by_it(scale_windows: bool, cycle: int) -> None:
    values = following(800, lag=HORIZON)
    train, validation = with_cross_series(values)
    profile = profiles_of(values, 5)
    networks = []
    for cross_series in (False, True):
        paths = dict(linear_per_series=True, linear_cross_series=cross_series)
        config = make(n_series=3, cycle=cycle, scale_windows=scale_windows, **paths)
        networks.append(SimbaForecaster(config).eval())
        error = initialise(networks[-1], train, validation, profile.float() if cycle else None)
        assert error == pytest.approx(relative(networks[-1], validation), rel=1e-4)
    without, reading = networks

    def error_of(network: SimbaForecaster, series: int) -> float:
        total = 0.0
        for batch in validation.batches(64):
            with torch.no_grad():
                error = network(batch)[..., 0] - batch.future
            total += error[batch.series == series].square().sum().item()
        return total

    assert error_of(reading, 1) < 0.5 * error_of(without, 1)
    assert error_of(reading, 0) < 1.05 * error_of(without, 0)
    before = {name: value.clone() for name, value in reading.state_dict().items() if name.startswith("cross_series")}
    assert list(before) == ["cross_series.weight"]
    fit_network(reading, train, validation, TrainConfig(max_epochs=1, batch_size=64, initialisation_is_candidate=False))
    assert torch.equal(reading.state_dict()["cross_series.weight"], before["cross_series.weight"])


def test_slow_parts_that_diverge_do_not_mislead() -> None:
    """Two slow parts rise together in the training rows and diverge in the validation rows; what is fast goes on."""
    n = 1200
    rng = np.random.default_rng(0)
    fast = rng.normal(size=n + 1)
    slow = np.concatenate([np.linspace(-3, 3, 3 * n // 4), np.full(n - 3 * n // 4, 3.0)])
    other = np.concatenate([np.linspace(-3, 3, 3 * n // 4), np.linspace(3, -9, n - 3 * n // 4)])
    train, validation = with_cross_series([slow + fast[:-1], other + fast[1:]])  # the first does as the second did
    without, reading = (
        initialised_network(
            make(n_series=2, linear_per_series=True, linear_cross_series=each), train, validation, None, 0
        )
        for each in (False, True)
    )
    assert reading.cross_series is not None
    assert reading.cross_series.weight[0].abs().amax(-1).unflatten(0, (2, -1))[1, 0] > 0.5  # by the other's last value
    assert evaluate(reading, validation) < 0.95 * evaluate(without, validation)


@pytest.mark.parametrize("lengths", [(900, 900), (900, 840)])
def test_a_series_may_follow_another_at_some_hours_alone(lengths: tuple[int, int]) -> None:
    """The second repeats the first in half of a day; where series end apart, moments are per series."""
    n, period = max(lengths), 12
    rng = np.random.default_rng(0)
    walk = np.zeros(n + HORIZON)
    for t in range(1, n + HORIZON):
        walk[t] = 0.9 * walk[t - 1] + rng.normal()
    at_day = np.arange(n) % period < period // 2
    values = [walk[HORIZON:], np.where(at_day, walk[:n], 0) + 0.1 * rng.normal(size=n)]
    train, validation = with_cross_series([v[:length] for v, length in zip(values, lengths, strict=True)])
    errors = []
    for harmonics in (0, 2):
        paths = dict(linear_per_series=True, linear_cross_series=True, linear_harmonics=harmonics)
        network = SimbaForecaster(make(n_series=2, cycle=period, scale_windows=False, **paths)).eval()
        errors.append(initialise(network, train, validation))
        assert errors[-1] == pytest.approx(relative(network, validation), rel=1e-4)
    assert errors[1] < 0.8 * errors[0]


@torch.no_grad()
def test_cross_series_weights_are_least_squares() -> None:
    values = following(600, lag=3)
    train, validation = with_cross_series(values)
    shape = dict(n_series=3, cycle=5, scale_windows=False, linear_per_series=True)
    without = SimbaForecaster(make(**shape)).eval()
    initialise(without, train, validation)
    network = SimbaForecaster(make(**shape, linear_cross_series=True, linear_harmonics=1)).eval()
    initialise(network, train, validation)
    assert network.cross_series is not None
    for i in range(3):
        x, y = [], []
        for batch in train.batches(256):
            of_series = batch.series == i
            left = batch.future - without(batch)[..., 0]
            x.append(network.cross_series_inputs(batch)[of_series].double())
            y.append(left[of_series].double())
        inputs, left = torch.cat(x).numpy(), torch.cat(y).numpy()
        scale = np.sqrt((inputs**2).sum(0))
        scale[scale == 0] = 1
        found = inputs @ network.cross_series.weight[i].double().numpy()
        solved = (ridge(inputs / scale, left, strength) for strength in RIDGES)
        assert min(np.abs(found - inputs / scale @ weight).max() for weight in solved) < 1e-3


def test_series_that_say_nothing_of_one_another_are_forecast_as_before_or_nearly() -> None:
    train, validation = with_cross_series([noise(400, seed) for seed in range(4)])
    without, reading = (
        initialised_network(
            make(n_series=4, linear_per_series=True, linear_cross_series=each), train, validation, None, 0
        )
        for each in (False, True)
    )
    assert evaluate(reading, validation) <= evaluate(without, validation) * (1 + 1e-6)


def test_cross_series_features_need_per_series_weights() -> None:
    with pytest.raises(ValueError, match="`linear_cross_series` must be False where `linear_per_series` is"):
        make(linear_cross_series=True)
    with pytest.raises(ValueError, match="`linear_harmonics` must be 0 where `linear_cross_series` is False"):
        make(cycle=24, linear_harmonics=1)
    with pytest.raises(ValueError, match="`linear_harmonics` must be at most half of `cycle` = 5, got 3"):
        make(cycle=5, linear_per_series=True, linear_cross_series=True, linear_harmonics=3)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_the_profile_is_taken_away_where_it_is_given(share: float) -> None:
    values = seasonal(300, 7, 0.1)
    train, validation = split(values)
    profile = profile_of(values, 7)
    network = initialised_network(make(cycle=7), train, validation, profile, 0, share)
    torch.testing.assert_close(network.cycle.profile.detach(), (share * profile).float())
    assert network.cycle.seasonal == share
    known = SimbaForecaster(make(cycle=7)).eval()
    assert initialise(known, train, validation, share * profile, 1.0) == pytest.approx(relative(network, validation))


def test_cross_series_weights_may_be_solved_for_by_some_of_the_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lead = rng.normal(size=1204)
    data = data_of(lead[4:], lead[:-4] + 0.1 * rng.normal(size=1200))
    features = CrossSeriesFeatures(data, lookback=LOOKBACK, n_series=2)
    train, validation = (windows_of(data, *rows, cross_series=features) for rows in ((LOOKBACK, 900), (900, 1200)))
    config = make(n_series=2, linear_per_series=True, linear_cross_series=True)
    errors = []
    for most in (1e9, 5e4):
        monkeypatch.setattr("titans_ts.training.closed_form.MOST_PRODUCTS", most)
        network = SimbaForecaster(config).eval()
        errors.append(initialise(network, train, validation))
    inputs = network.cross_series.n_inputs
    assert inputs * (inputs + 2 * HORIZON) * len(train) / 2 > 5e4, "some must be left out"
    assert errors[0] != errors[1]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


@pytest.mark.parametrize("step", [0.0, 1e-5, 1e-3])
def test_a_series_whose_train_windows_are_all_but_flat_has_no_huge_weights_of_its_own(step: float) -> None:
    """What came after a window that hardly varied is no multiple of it."""
    random = np.random.default_rng(0)
    t = np.arange(40)
    waves = [np.sin(t * (0.5 + i / 8)) + 0.01 * random.normal(size=40) for i in range(20)]  # each by weights of its own
    short = np.concatenate([[step, 0.0, step], np.cumsum(random.normal(size=37))])
    data = data_of(*waves, short)
    network = SimbaForecaster(make(n_series=21, lookback=6, linear_per_series=True, linear_window_mean=True)).eval()
    train, validation = (np.array([*[value] * 20, few]) for value, few in ((30, 7), (40, 11)))
    windows = windows_of(data, np.array([*[6] * 20, 3]), train, lookback=6)
    initialise(network, windows, windows_of(data, train, validation, lookback=6))
    assert network.linear is not None
    assert network.linear.per_series is not None
    assert network.linear.per_series[-1].abs().max() < 2 * network.linear.per_series[:-1].abs().max() + 10
