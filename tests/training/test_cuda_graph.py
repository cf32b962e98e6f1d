"""The recorded training step: when it is replayed, that it trains alike, and what happens where it cannot be."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.config import TrainConfig
from titans_ts.training.cuda_graph import CudaRecorder, GraphedStep, recorded
from titans_ts.training.history import History
from titans_ts.training.loop import fit_network
from titans_ts.windows.windows import Windows

BATCH = 8


class Player:
    """A recorder that only notes what it would do: a replay runs the step again, on what lies in its own batch."""

    def __init__(self, waits: str = "", refuses: str = "") -> None:
        self.waits, self.refuses = waits, refuses
        self.done: list[str] = []

    def aside(self, call: Callable[[], Tensor]) -> tuple[Tensor, str]:
        self.done.append("aside")
        return call(), self.waits

    def record(self, call: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        self.done.append("record")
        if self.refuses:
            raise RuntimeError(self.refuses)
        result = torch.zeros(())

        def replay() -> None:
            self.done.append("replay")
            result.copy_(call())

        return replay, result


def batch(size: int, value: float = 1.0, masked: bool = False) -> Batch:
    past = torch.full((size, 3), value)
    number = torch.zeros(size, dtype=torch.int64)
    return Batch(past, past[:, :2] + 1, number, number, padding_mask=past > 0 if masked else None)


def mean(given: Batch) -> Tensor:
    return given.past.mean() + given.future.mean()


def test_the_first_steps_warm_up_then_every_batch_of_their_shape_is_replayed() -> None:
    player = Player()
    step = GraphedStep(mean, player)
    losses = [step(batch(4, value)).item() for value in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert losses == [3.0, 5.0, 7.0, 9.0, 11.0]
    assert player.done == [*["aside"] * 3, "record", "replay", "replay"]


def test_a_batch_of_another_shape_runs_as_it_is_and_the_graph_goes_on() -> None:
    player = Player()
    step = GraphedStep(mean, player)
    for size in (4, 4, 4, 4, 3, 4):
        assert step(batch(size, float(size))).item() == 2 * size + 1
    assert step(batch(4, 4.0, masked=True)).item() == 9.0
    assert player.done == [*["aside"] * 3, "record", "replay", "replay"]


def test_a_loss_stays_what_it_was_when_the_graph_is_replayed() -> None:
    step = GraphedStep(mean, Player())
    losses = [step(batch(4, value)) for value in (0.0, 0.0, 0.0, 7.0, 8.0)]
    assert [loss.item() for loss in losses[3:]] == [15.0, 17.0]


def test_the_graph_does_not_write_into_the_batches_it_is_given() -> None:
    step = GraphedStep(mean, Player())
    batches = [batch(4, float(i)) for i in range(6)]
    for given in batches:
        step(given)
    assert [given.past[0, 0].item() for given in batches] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("player", "why"),
    [
        (Player(waits="model.py:7"), "it waits for the GPU at model.py:7"),
        (Player(refuses="operation not permitted\nCUDA kernel errors"), "operation not permitted"),
    ],
)
def test_what_cannot_be_recorded_warns_once_and_runs_as_it_is(player: Player, why: str) -> None:
    step = GraphedStep(mean, player)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses = [step(batch(4, value)).item() for value in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert losses == [3.0, 5.0, 7.0, 9.0, 11.0]
    (warning,) = caught
    assert str(warning.message) == (
        f"The training step is not recorded as a CUDA graph: {why}. It runs as it is, only slower; "
        "`cuda_graph=False` keeps it from being tried."
    )
    assert "replay" not in player.done


def test_an_error_of_the_step_itself_is_raised() -> None:
    def broken(given: Batch) -> Tensor:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match=r"^a mistake$"):
        GraphedStep(broken, Player())(batch(4))


def test_only_a_gpu_has_graphs() -> None:
    assert recorded(mean, torch.device("cpu")) is mean
    step = recorded(mean, torch.device("cuda", 1))
    assert isinstance(step, GraphedStep)
    assert isinstance(step._recorder, CudaRecorder)
    assert step._recorder.device == torch.device("cuda", 1)


# In training


def split(device: str = "cpu") -> tuple[Windows, Windows]:
    values = np.sin(np.arange(160) / 3) + 0.3 * np.random.default_rng(0).normal(size=160)
    data = SeriesData(torch.from_numpy(values).float().to(device), np.array([160]), np.array([0]))
    train, validation = (
        Windows(data, lookback=16, horizon=4, first=np.array([first]), last=np.array([last]))
        for first, last in ((16, 117), (117, 160))
    )
    assert len(train) % BATCH, "the last batch must be partial"
    return train, validation


def fit(
    device: str = "cpu", dropout: float = 0.2, per_series: bool = False, **changes: Any
) -> tuple[dict[str, Tensor], History]:
    torch.manual_seed(0)
    size = dict(lookback=16, horizon=4, patch_len=4, stride=4, cycle=5, d_model=8, n_layers=1, n_heads=2, chunk_size=4)
    config = ModelConfig(
        **size, n_persistent=1, dropout=dropout, linear_per_series=per_series, linear_window_mean=per_series
    )
    network = SimbaForecaster(config).to(device).eval()
    history = fit_network(network, *split(device), TrainConfig(batch_size=BATCH, max_epochs=2, patience=100, **changes))
    return network.state_dict(), history


def test_training_with_replays_is_training_without_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    weights, history = fit()
    player = Player()
    monkeypatch.setattr("titans_ts.training.loop.recorded", lambda step, device: GraphedStep(step, player))
    again, replayed = fit()
    assert player.done.count("replay") == 2 * (98 // BATCH) - GraphedStep.WARM_UP
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert repr(history.evaluations[1:]) == repr(replayed.evaluations[1:])  # as NaN equals nothing


def test_a_run_may_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a recording was made")

    monkeypatch.setattr("titans_ts.training.loop.recorded", never)
    fit(cuda_graph=False)


def test_a_rate_in_a_tensor_is_scheduled_as_a_number_is() -> None:
    rates = []
    for rate in (0.5, torch.tensor(0.5)):
        parameter = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.AdamW([{"params": [parameter], "lr": rate}], lr=0.1, foreach=False)
        held = optimizer.param_groups[0]["lr"]
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
        found = []
        for _ in range(4):
            found.append(float(schedule.get_last_lr()[0]))
            optimizer.step()
            schedule.step()
        rates.append(found)
    assert optimizer.param_groups[0]["lr"] is held  # a recording reads it where it was
    assert rates[0] == [0.5, 0.25, 0.5 * (1 / 3), 0.125]
    assert rates[1] == pytest.approx(rates[0], rel=1e-7)  # float32


# On a GPU


@pytest.fixture
def gpu() -> str:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return "cuda"


@pytest.mark.gpu
@pytest.mark.parametrize("per_series", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_trains_alike_with_the_graph_and_without(gpu: str, precision: str, per_series: bool) -> None:
    runs = [
        fit(gpu, dropout=0.0, per_series=per_series, precision=precision, cuda_graph=graph)[1]
        for graph in (False, True)
    ]
    for eager, replayed in zip(*(run.evaluations[1:] for run in runs), strict=True):
        # The order of sums on a GPU, over 24 steps.
        limit = 1e-3 if precision == "float32" else 3e-2
        assert replayed.train_loss == pytest.approx(eager.train_loss, rel=limit)
        assert replayed.validation_loss == pytest.approx(eager.validation_loss, rel=limit)


@pytest.mark.gpu
def test_a_gpu_replays_with_new_dropout_every_time(gpu: str) -> None:
    weight = torch.ones(1000, device=gpu)
    step = recorded(lambda given: torch.nn.functional.dropout(weight).mean() * given.past.mean(), torch.device(gpu))
    given = batch(4).map(lambda field: field.to(gpu))
    assert len({step(given).item() for _ in range(8)}) > 4


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["waits", "refuses"])
def test_a_gpu_goes_on_where_the_step_cannot_be_recorded(gpu: str, kind: str) -> None:
    def step(given: Batch) -> Tensor:
        if kind == "refuses" and torch.cuda.is_current_stream_capturing():
            torch.nn.functional.dropout(given.past)
            raise RuntimeError("not while recording")
        loss = torch.nn.functional.dropout(given.past, 0.5).mean()
        return loss * (loss.item() > -1) if kind == "waits" else loss

    graphed = recorded(step, torch.device(gpu))
    given = batch(4).map(lambda field: field.to(gpu))
    with pytest.warns(UserWarning, match="waits for the GPU at" if kind == "waits" else "not while recording"):
        losses = [graphed(given).item() for _ in range(6)]
    assert all(0 <= loss <= 2 for loss in losses)
