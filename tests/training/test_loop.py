"""The training loop: what it keeps, when it stops, and that it does so twice alike."""

from __future__ import annotations

import copy
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.progress import Progress
from titans_ts.tables.series_data import SeriesData
from titans_ts.training import losses
from titans_ts.training.config import TrainConfig
from titans_ts.training.evaluate import evaluate
from titans_ts.training.history import Evaluation, History
from titans_ts.training.loop import _optimizer, fit_network
from titans_ts.training.probe import Probe
from titans_ts.training.validation import Errors, Validation
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON = 16, 4
ROWS, TRAIN_ROWS = 160, 115
BATCH, STEPS = 10, 10  # 96 training windows: the tenth batch of an epoch is partial


def split(values: np.ndarray | None = None) -> tuple[Windows, Windows]:
    """Training and validation windows of a noisy wave, or of `values`."""
    if values is None:
        values = np.sin(np.arange(ROWS) / 3) + 0.3 * np.random.default_rng(0).normal(size=ROWS)
    data = SeriesData(torch.from_numpy(values).float(), np.array([ROWS]), np.array([0]))
    train, validation = (
        Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.array([first]), last=np.array([last]))
        for first, last in ((LOOKBACK, TRAIN_ROWS), (TRAIN_ROWS, ROWS))
    )
    return train, validation


def make(seed: int = 0, **changes: Any) -> SimbaForecaster:
    torch.manual_seed(seed)
    shape = {"lookback": LOOKBACK, "horizon": HORIZON, "patch_len": 4, "stride": 4, "cycle": 5}
    size = {"d_model": 8, "n_layers": 1, "n_heads": 2, "chunk_size": 4, "n_persistent": 1, "dropout": 0.2}
    return SimbaForecaster(ModelConfig(**shape | size | changes)).eval()


def quick(**changes: Any) -> SimbaForecaster:
    return make(mixer="none", feature_mixer="mlp", **changes)


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"batch_size": BATCH, "max_epochs": 2, "patience": 100, **changes})


def weights(network: SimbaForecaster) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def all_windows(windows: Windows) -> Batch:
    (batch,) = windows.batches(10**6)
    return batch


# Two runs


def run(random_state: int, **changes: Any) -> tuple[dict[str, Tensor], History]:
    network = make()
    history = fit_network(network, *split(), config(random_state=random_state, **changes))
    return weights(network), history


def test_two_runs_are_equal_to_the_bit() -> None:
    first, history = run(3)
    torch.manual_seed(99)  # the caller's random numbers have no say
    second, again = run(3)
    assert same(first, second)
    assert repr(history.evaluations[1:]) == repr(again.evaluations[1:])  # as NaN equals nothing
    assert history.evaluations[0].validation_loss == again.evaluations[0].validation_loss  # its training loss is NaN


def test_another_random_state_gives_another_run() -> None:
    (first, history), (second, other) = run(3), run(4)
    assert not same(first, second)
    assert history.evaluations[0].validation_loss == other.evaluations[0].validation_loss
    assert history.evaluations[1].train_loss != other.evaluations[1].train_loss


def test_the_callers_random_numbers_go_on_as_if_nothing_had_been() -> None:
    network, windows = make(), split()
    before = torch.get_rng_state()
    fit_network(network, *windows, config(max_epochs=1))
    assert torch.equal(torch.get_rng_state(), before)


# What is kept


def test_a_run_that_only_gets_worse_keeps_the_initialisation() -> None:
    network, (train, validation) = quick(), split()
    before = weights(network)
    history = fit_network(network, train, validation, config(learning_rate=10.0))
    assert history.best is history.evaluations[0]
    assert all(evaluation.validation_loss > history.best.validation_loss for evaluation in history.evaluations[1:])
    assert same(weights(network), before)


def test_no_epochs_keep_the_initialisation() -> None:
    network, (train, validation) = quick(), split()
    before = weights(network)
    history = fit_network(network.train(), train, validation, config(max_epochs=0))
    assert same(weights(network), before)
    (evaluation,) = history.evaluations
    assert (evaluation.epoch, evaluation.step) == (0, 0)
    assert math.isnan(evaluation.train_loss)
    assert evaluation.validation_loss == evaluate(network, validation)
    assert history.stopped == "max_epochs"
    assert not network.training


def test_the_weights_kept_are_those_of_the_best_evaluation() -> None:
    network, (train, validation) = quick(), split()
    history = fit_network(network, train, validation, config(learning_rate=0.05, max_epochs=50, patience=3))
    losses = [evaluation.validation_loss for evaluation in history.evaluations]
    assert history.best.validation_loss == min(losses)
    assert 0 < losses.index(min(losses)) < len(losses) - 1, "the best must lie within the run"
    assert evaluate(network, validation) == history.best.validation_loss
    assert not network.training


def test_training_learns() -> None:
    network, (train, validation) = make(), split()
    start = evaluate(network, validation)
    fit_network(network, train, validation, config(learning_rate=0.01, initialised_rate=1.0, max_epochs=4))
    assert evaluate(network, validation) < 0.7 * start


def test_without_validation_the_last_weights_are_kept() -> None:
    train, _ = split()
    network, followed = quick(), quick()
    history = fit_network(network, train, None, config(learning_rate=1.0, patience=1))
    assert all(math.isnan(evaluation.validation_loss) for evaluation in history.evaluations)
    assert history.best is history.evaluations[-1]
    assert history.best.step == 2 * STEPS
    assert history.stopped == "max_epochs"
    # The same run beside validation windows that always prefer the latest weights ends at the same weights.
    scores = itertools.count(start=0, step=-1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("titans_ts.training.validation.relative_error", lambda *_: torch.tensor(float(next(scores))))
        fit_network(followed, *split(), config(learning_rate=1.0))
    assert same(weights(network), weights(followed))
    assert not same(weights(network), weights(quick()))


def test_without_validation_weights_that_overflow_are_told() -> None:
    steps = itertools.count(start=1)

    def overflow(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if next(steps) == 2 * STEPS:
            optimizer.param_groups[0]["params"][0].data.fill_(math.inf)

    train, _ = split()
    hook = register_optimizer_step_post_hook(overflow)
    try:
        with pytest.raises(FloatingPointError, match=r"^The weights became infinite or NaN by step 20\. Lower `learn"):
            fit_network(quick(), train, None, config())
    finally:
        hook.remove()


# When it stops


def test_patience_counts_evaluations_without_a_better_one() -> None:
    network, (train, validation) = quick(), split()
    history = fit_network(network, train, validation, config(learning_rate=10.0, patience=3))
    assert history.stopped == "patience"
    assert len(history.evaluations) == 1 + 3
    assert history.evaluations.index(history.best) == 0


def test_a_better_evaluation_renews_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([5.0, 6.0, 4.0, 4.5, 4.0, 1.0])  # equal is not better
    monkeypatch.setattr("titans_ts.training.validation.relative_error", lambda *_: torch.tensor(next(losses)))
    history = fit_network(quick(), *split(), config(patience=2))
    assert [evaluation.relative_error for evaluation in history.evaluations] == [5.0, 6.0, 4.0, 4.5, 4.0]
    assert history.best.relative_error == 4.0
    assert history.best is history.evaluations[2]


def test_an_interrupt_keeps_the_best_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    network, (train, validation) = quick(), split()
    shuffled = train.shuffled

    def interrupted(size: int, generator: torch.Generator, most: int) -> Iterator[Batch]:
        yield from itertools.islice(shuffled(size, generator, most), 7)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "shuffled", interrupted)
    with pytest.warns(UserWarning, match=r"^Training was interrupted; the best weights so far are kept\.$"):
        history = fit_network(network, train, validation, config(learning_rate=0.01, evaluations_per_epoch=5))
    assert history.stopped == "interrupted"
    assert [evaluation.step for evaluation in history.evaluations] == [0, 2, 4, 6]
    assert history.best.step > 0
    assert evaluate(network, validation) == history.best.validation_loss
    assert not network.training


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("times", [1, 4, STEPS])
def test_a_loss_that_is_no_number_names_epoch_step_and_rate(value: float, times: int) -> None:
    values = np.sin(np.arange(ROWS) / 3)
    values[0] = value  # in the first training window's past alone
    train, validation = split(values)
    network = quick()
    before = weights(network)
    batches = train.shuffled(BATCH, torch.Generator().manual_seed(5))
    step = [bool(batch.past.isfinite().all()) for batch in batches].index(False) + 1
    assert step > 1
    message = rf"^The training loss became (nan|inf) at epoch 1, step {step}, learning rate 0\.002\. "
    with pytest.raises(FloatingPointError, match=message + r"Lower `learning_rate`\.$"):
        fit_network(network, train, validation, config(learning_rate=2e-3, random_state=5, evaluations_per_epoch=times))
    assert all(value.isfinite().all() for value in network.state_dict().values())
    if times == 1:  # the error came with the first evaluation, so none but the first weights were ever evaluated
        assert same(weights(network), before)
    assert not network.training


def test_a_later_epoch_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    values = itertools.chain([1.0] * (2 * STEPS + 3), itertools.repeat(math.nan))

    def loss(forecast: Tensor, future: Tensor) -> Tensor:
        return forecast.square().mean() * 0 + next(values)

    monkeypatch.setitem(losses.LOSSES, "mse", losses.PointLoss("mse", loss))
    monkeypatch.setattr("titans_ts.training.validation.naive_errors", lambda *_: torch.ones(1))
    monkeypatch.setattr("titans_ts.training.validation.loss_by_series", lambda *_: (torch.ones(1), torch.ones(1)))
    with pytest.raises(FloatingPointError, match="became nan at epoch 3, step 24, "):
        fit_network(quick(), *split(), config(max_epochs=4))


# Evaluations and rates


def test_evaluations_are_spread_over_the_epoch() -> None:
    history = fit_network(quick(), *split(), config(evaluations_per_epoch=4))
    assert [evaluation.step for evaluation in history.evaluations] == [0, 3, 5, 8, 10, 13, 15, 18, 20]
    expected = [0, 0.3, 0.5, 0.8, 1, 1.3, 1.5, 1.8, 2]
    assert [evaluation.epoch for evaluation in history.evaluations] == pytest.approx(expected)
    assert history.stopped == "max_epochs"


@pytest.mark.parametrize(("times", "steps"), [(1, [0, 10]), (3, [0, 4, 7, 10]), (50, list(range(11)))])
def test_an_epoch_has_so_many_evaluations_but_one_a_step_at_most(times: int, steps: list[int]) -> None:
    history = fit_network(quick(), *split(), config(evaluations_per_epoch=times, max_epochs=1))
    assert [evaluation.step for evaluation in history.evaluations] == steps


def test_the_training_loss_of_an_evaluation_is_the_mean_since_the_last() -> None:
    network, (train, validation) = quick(dropout=0.0), split()
    start = evaluate(network, train)
    history = fit_network(
        network, train, validation, config(batch_size=len(train), evaluations_per_epoch=1, max_epochs=1)
    )
    assert history.evaluations[1].train_loss == pytest.approx(start, rel=1e-5)  # float32
    rates = {"learning_rate": 1e-12, "weight_decay": 0.0}  # so that every batch sees the same weights
    history = fit_network(quick(dropout=0.0), train, validation, config(evaluations_per_epoch=2, max_epochs=1, **rates))
    batches = train.shuffled(BATCH, torch.Generator().manual_seed(0))
    network = quick(dropout=0.0)
    losses = [F.mse_loss(network(batch)[..., 0], batch.future).item() for batch in batches]
    found = [evaluation.train_loss for evaluation in history.evaluations[1:]]
    assert found == pytest.approx([np.mean(losses[:5]), np.mean(losses[5:])], rel=1e-5)  # float32


def test_the_loss_is_taken_of_normalised_windows() -> None:
    train, validation = split(3 * np.sin(np.arange(ROWS) / 3) * np.exp(np.sin(np.arange(ROWS) / 20)))
    network = quick(dropout=0.0, scale_windows=True)
    batch = all_windows(train)
    past, future = batch.past, batch.future
    std = (past.var(-1, correction=0, keepdim=True) + network.norm.EPS).sqrt()
    error = (future - past.mean(-1, keepdim=True)) / std  # a new network forecasts the mean
    once = config(batch_size=len(train), evaluations_per_epoch=1, max_epochs=1)
    history = fit_network(network, train, validation, once)
    assert history.evaluations[1].train_loss == pytest.approx(error.square().mean().item(), rel=1e-5)  # float32
    # Validation stays in the data's scale, where forecasts are compared.
    batch = all_windows(validation)
    error = batch.future - batch.past.mean(1, keepdim=True)
    assert history.evaluations[0].validation_loss == pytest.approx(error.square().mean().item(), rel=1e-5)


def test_the_rate_rises_linearly_then_falls_by_half_a_cosine() -> None:
    rates = config(learning_rate=0.5, warmup=0.2, evaluations_per_epoch=STEPS, max_epochs=2)
    history = fit_network(quick(), *split(), rates)
    rising = [0.5 * i / 4 for i in (1, 2, 3, 4)]  # a fifth of 20 steps
    falling = [0.25 * (1 + math.cos(math.pi * i / 16)) for i in range(17)]
    assert [evaluation.learning_rate for evaluation in history.evaluations] == pytest.approx(rising + falling)
    assert history.evaluations[-1].learning_rate == 0


def test_without_warmup_the_first_step_has_the_full_rate() -> None:
    history = fit_network(quick(), *split(), config(warmup=0.0, max_epochs=1))
    assert history.evaluations[0].learning_rate == 1e-3


# The optimizer


def test_only_linear_maps_decay_and_the_initialised_parts_have_a_lower_rate() -> None:
    network = make()
    groups = _optimizer(network, config(learning_rate=0.01, initialised_rate=0.1, weight_decay=0.3)).param_groups
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    settings = {
        names[id(parameter)]: (group["lr"], group["weight_decay"]) for group in groups for parameter in group["params"]
    }
    assert settings.keys() == dict(network.named_parameters()).keys()
    for name, found in settings.items():
        if name in ("cycle.profile", "linear.weight"):
            expected = (pytest.approx(0.001), 0.0)
        elif name.endswith("weight") and ("project" in name or name.endswith(("up.weight", "down.weight"))):
            expected = (0.01, 0.3)
        else:  # biases, norms, W_0, Mamba's rates, EinFFT
            expected = (0.01, 0.0)
        assert found == expected, name


def test_an_initialised_rate_of_zero_leaves_cycle_and_linear_path_alone() -> None:
    network, (train, _) = quick(), split()
    with torch.no_grad():
        network.linear.weight.normal_(std=0.1)
    before = weights(network)
    fit_network(network, train, None, config(initialised_rate=0.0, max_epochs=1))
    still = {name for name, value in weights(network).items() if torch.equal(value, before[name])}
    # Without a mixer no token reads the persistent ones.
    assert still == {"linear.weight", "cycle.profile", "cycle.seasonal", "persistent"}


def test_gradients_are_clipped_to_the_norm() -> None:
    norms = []

    def measure(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norms.append(torch.stack([gradient.norm() for gradient in gradients]).norm().item())

    hook = register_optimizer_step_pre_hook(measure)
    try:
        fit_network(quick(), *split(), config(clip=0.01, max_epochs=1))
    finally:
        hook.remove()
    assert len(norms) == STEPS
    assert norms == pytest.approx([0.01] * STEPS, rel=1e-3)  # clip_grad_norm_ adds 1e-6 to a norm near 1


def test_a_network_of_the_deep_branch_alone_trains() -> None:
    network, (train, _) = quick(cycle=0, linear_path=False, n_persistent=0), split()
    before = weights(network)
    fit_network(network, train, None, config(max_epochs=1))
    assert not same(weights(network), before)


def test_bfloat16_keeps_weights_in_float32_and_validates_in_it() -> None:
    network, (train, validation) = make(dropout=0.0), split()
    exact = fit_network(copy.deepcopy(network), train, validation, config(max_epochs=1))
    history = fit_network(network, train, validation, config(max_epochs=1, precision="bfloat16"))
    assert all(value.dtype == torch.float32 for value in network.parameters())
    assert evaluate(network, validation) == history.best.validation_loss
    for evaluation, reference in zip(history.evaluations[1:], exact.evaluations[1:], strict=True):
        assert evaluation.train_loss != reference.train_loss
        assert evaluation.train_loss == pytest.approx(reference.train_loss, rel=0.02)  # 8 bits in each product


@pytest.mark.parametrize("loss", ["mae", "huber"])
def test_evaluations_are_by_the_loss_and_by_as_many_windows_as_asked(loss: str) -> None:
    network, (train, validation) = quick(), split()
    start = evaluate(network, validation, loss, most=7)
    history = fit_network(network, train, validation, config(loss=loss, most_validation_windows=7, max_epochs=1))
    assert history.evaluations[0].validation_loss == start
    assert evaluate(network, validation, loss, most=7) == history.best.validation_loss


# What is shown


@pytest.mark.parametrize(
    ("verbose", "terminal", "shown"), [(0, False, False), (0, True, False), (1, False, False), (1, True, True)]
)
def test_a_bar_is_shown_on_a_terminal_alone(
    verbose: int, terminal: bool, shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    fit_network(quick(), *split(), config(verbose=verbose, max_epochs=1))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("validation=" in printed.err) == shown
    assert (printed.err == "") != shown


def test_one_wild_series_does_not_choose_the_weights() -> None:
    """Of eleven series ten are learned; the values to forecast of one are a thousand times what it trained on."""
    t = np.arange(ROWS)
    rng = np.random.default_rng(0)
    waves = [np.sin(t / 3 + i) + 0.1 * rng.normal(size=ROWS) for i in range(10)]
    wild = np.where(t < TRAIN_ROWS, np.sin(t / 3), 1e3 * rng.normal(size=ROWS))
    lengths = np.full(11, ROWS)
    data = SeriesData(torch.from_numpy(np.concatenate([*waves, wild])).float(), lengths, np.zeros_like(lengths))
    train, validation = (
        Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.full(11, first), last=np.full(11, last))
        for first, last in ((LOOKBACK, TRAIN_ROWS), (TRAIN_ROWS, ROWS))
    )
    network = quick(cycle=0)
    settings = config(learning_rate=0.01, initialised_rate=1.0, batch_size=64, max_epochs=3)
    history = fit_network(network, train, validation, settings)
    assert history.best is not history.evaluations[0]
    assert history.best.relative_error < 0.7 * history.evaluations[0].relative_error
    by_loss = min(history.evaluations, key=lambda evaluation: evaluation.validation_loss)
    assert history.best is not by_loss, "the loss of all must be that of the one"


def test_an_epoch_draws_no_more_windows_than_it_may() -> None:
    train, validation = split()
    assert len(train) > 40
    history = fit_network(
        quick(), train, validation, config(batch_size=8, most_windows=40, max_epochs=2, evaluations_per_epoch=1)
    )
    assert [evaluation.step for evaluation in history.evaluations] == [0, 5, 10]


def test_a_network_must_have_the_outputs_that_the_loss_needs() -> None:
    with pytest.raises(
        ValueError, match="`n_outputs` = 1 and `levels` = None, which the loss 'mae' needs, got 3 and None"
    ):
        fit_network(quick(n_outputs=3), *split(), config(loss="mae"))


# Rows that were filled in


def filled(value: float) -> Windows:
    """Training windows whose last row was not there; no past reaches it."""
    values = np.sin(np.arange(ROWS) / 3)
    values[TRAIN_ROWS - 1] = value
    observed = np.arange(ROWS) != TRAIN_ROWS - 1
    data = SeriesData(torch.from_numpy(values).float(), np.array([ROWS]), np.array([0]), observed)
    bounds = dict(first=np.array([LOOKBACK]), last=np.array([TRAIN_ROWS]))
    return Windows(data, lookback=LOOKBACK, horizon=HORIZON, **bounds)


def test_what_stands_in_a_filled_row_of_the_future_trains_nothing() -> None:
    networks = [make(), make()]
    for network, value in zip(networks, (0.0, 1e6), strict=True):
        fit_network(network, filled(value), None, config(max_epochs=1))
    assert same(*map(weights, networks))
    assert not same(weights(networks[0]), weights(make()))


def test_an_error_is_the_mean_over_the_rows_that_were_there() -> None:
    network, windows = make(), filled(1e6)
    batch = all_windows(windows)
    assert batch.observed_mask.sum() == batch.observed_mask.numel() - 1  # the last window's last row
    error = (network(batch)[..., 0] - batch.future)[batch.observed_mask]
    assert evaluate(network, windows) == pytest.approx(error.square().mean().item(), rel=1e-5)
    assert evaluate(network, windows, loss="mae") == pytest.approx(error.abs().mean().item(), rel=1e-5)


# What is reported


def test_every_evaluation_is_reported() -> None:
    reported: list[Evaluation] = []
    history = fit_network(quick(), *split(), config(evaluations_per_epoch=2), reported.append)
    assert len(reported) == 5
    assert [evaluation.step for evaluation in reported] == [evaluation.step for evaluation in history.evaluations]


def test_what_is_raised_at_an_evaluation_ends_training_with_the_best_weights() -> None:
    class Enough(Exception):
        pass

    def stop(evaluation: Evaluation) -> None:
        if evaluation.step == STEPS:
            raise Enough

    network, seen = quick(), []
    with pytest.raises(Enough):
        fit_network(
            network,
            *split(),
            config(evaluations_per_epoch=1, initialisation_is_candidate=False),
            lambda c: (seen.append(c), stop(c)),
        )
    assert not network.training
    assert evaluate(network, split()[1]) == seen[1].validation_loss != seen[0].validation_loss


def test_validation_may_be_by_another_error_than_training() -> None:
    network, twin = quick(), quick()
    found = fit_network(network, *split(), config(loss="mae", val_loss="mse"))
    other = fit_network(twin, *split(), config(loss="mae"))
    assert found.evaluations[1].train_loss == other.evaluations[1].train_loss
    assert found.best.validation_loss == evaluate(network, split()[1], "mse")
    assert other.best.validation_loss == evaluate(twin, split()[1], "mae")


# Within a time limit


class Clock:
    """Seconds that pass only where a test lets them."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_time_limit_ends_training_and_what_was_learned_by_then_counts() -> None:
    clock, network, windows = Clock(), quick(), split()

    def slow(_: Evaluation) -> None:
        clock.now += 10

    progress = Progress(25, clock=clock)
    how = config(learning_rate=0.01, evaluations_per_epoch=2)
    history = fit_network(network, *windows, how, slow, progress=progress)
    assert history.stopped == "time_limit"
    assert [evaluation.step for evaluation in history.evaluations] == [0, 5, 10]
    assert evaluate(network, windows[1]) == history.best.validation_loss
    assert progress.best_error == history.best.validation_loss
    assert not network.training


def test_steps_since_the_last_evaluation_are_evaluated_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, (train, validation) = Clock(), split()
    shuffled = train.shuffled

    def slow(size: int, generator: torch.Generator, most: int) -> Iterator[Batch]:
        for batch in shuffled(size, generator, most):
            clock.now += 1
            yield batch

    monkeypatch.setattr(train, "shuffled", slow)
    how = config(evaluations_per_epoch=1)
    history = fit_network(quick(), train, validation, how, progress=Progress(7.5, clock=clock))
    assert history.stopped == "time_limit"
    assert [evaluation.step for evaluation in history.evaluations] == [0, 7]


def test_where_time_is_up_nothing_is_trained() -> None:
    clock, network = Clock(), quick()
    before, progress = weights(network), Progress(5, clock=clock)
    clock.now = 6.0
    history = fit_network(network, *split(), config(), progress=progress)
    assert history.stopped == "time_limit"
    assert len(history.evaluations) == 1
    assert same(weights(network), before)


def test_stages_follow_one_another_and_a_bar_that_was_given_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[tuple[str, int | None]] = []
    progress = Progress()
    monkeypatch.setattr(progress, "begin", lambda stage, steps=None: stages.append((stage, steps)))
    monkeypatch.setattr(progress, "close", lambda: stages.append(("closed", None)))
    fit_network(quick(), *split(), config(), progress=progress)
    assert stages == [("validation", None), ("training", 2 * STEPS)]


# Probed


def test_a_probe_needs_the_initialisation_as_a_candidate() -> None:
    with pytest.raises(ValueError, match="`probe` must be None where `initialisation_is_candidate` is False"):
        fit_network(quick(), *split(), config(initialisation_is_candidate=False), probe=Probe())


def of_series(n_series: int = 4) -> tuple[Windows, Windows]:
    """Training and validation windows of several noisy waves."""
    noise = 0.1 * np.random.default_rng(0).normal(size=(n_series, ROWS))
    values = np.sin(np.arange(ROWS) / 3 + np.arange(n_series)[:, None]) + noise
    lengths = np.full(n_series, ROWS)
    data = SeriesData(torch.from_numpy(values.ravel()).float(), lengths, np.zeros_like(lengths))
    train, validation = (
        Windows(data, lookback=LOOKBACK, horizon=HORIZON, first=np.full(n_series, first), last=np.full(n_series, last))
        for first, last in ((LOOKBACK, TRAIN_ROWS), (TRAIN_ROWS, ROWS))
    )
    return train, validation


PROBE = Probe(least_series=4, steps=6, most_probes=2, margin=0.05)


def scored(monkeypatch: pytest.MonkeyPatch, *errors: tuple[float, float]) -> None:
    """Let the evaluations find these errors of the series that choose and of those held back."""
    found = iter(errors)
    monkeypatch.setattr(Validation, "errors", lambda *_: Errors(1.0, 1.0, *next(found)))


@pytest.mark.parametrize(
    ("errors", "stopped", "steps", "best"),
    [
        ([(1.0, 1.0), (1.04, 1.0), (0.96, 0.9)], "probe", [0, 6, 12], 0),
        ([(1.0, 1.0), (1.06, 0.1)], "probe", [0, 6], 0),
        ([(1.0, 1.0), (0.94, 1.2), (0.9, 0.9)], "max_epochs", [0, 6, 39], 39),
        ([(1.0, 1.0), (0.97, 1.0), (0.94, 0.9), (0.97, 0.5)], "max_epochs", [0, 6, 12, 39], 12),
        ([(1.0, 1.0), (0.94, 0.94), (0.9, 0.96)], "held back", [0, 6, 39], 0),
    ],
)
def test_training_goes_on_where_a_probe_gains_and_is_kept_where_the_others_confirm_it(
    errors: list[tuple[float, float]], stopped: str, steps: list[int], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored(monkeypatch, *errors)
    network, before = quick(n_series=4), weights(quick(n_series=4))
    settings = config(max_epochs=1, evaluations_per_epoch=1)
    history = fit_network(network, *of_series(), settings, probe=PROBE)
    assert history.stopped == stopped
    assert [evaluation.step for evaluation in history.evaluations] == steps
    assert history.best.step == best
    assert same(weights(network), before) == (best == 0)


def test_a_probe_warms_up_in_half_its_steps() -> None:
    history = fit_network(quick(n_series=4), *of_series(), config(warmup=0.5, max_epochs=3), probe=PROBE)
    assert history.evaluations[0].learning_rate == pytest.approx(1e-3 / 3)
    assert history.evaluations[1].learning_rate > 0.99e-3


@pytest.mark.parametrize(("n_series", "validated", "stopped"), [(3, True, "few series"), (4, False, "no validation")])
def test_what_nothing_could_confirm_is_not_trained(n_series: int, validated: bool, stopped: str) -> None:
    train, validation = of_series(n_series)
    network, before = quick(n_series=4), weights(quick(n_series=4))
    history = fit_network(network, train, validation if validated else None, config(), probe=PROBE)
    assert history.stopped == stopped
    assert len(history.evaluations) == 1
    assert same(weights(network), before)


def test_a_probed_training_is_that_of_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the evaluations of its probes and its warm-up nothing differs."""
    scored(monkeypatch, *[(1.0 - 0.06 * i, 1.0 - 0.06 * i) for i in range(9)])
    networks = [quick(n_series=4), quick(n_series=4)]
    settings = config(max_epochs=1, evaluations_per_epoch=1, warmup=0.05)  # two steps
    fit_network(networks[0], *of_series(), settings, probe=PROBE)
    fit_network(networks[1], *of_series(), settings)
    assert same(*map(weights, networks))
