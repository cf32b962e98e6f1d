"""Moments of runs of windows, against those of the windows one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.moments import Moments, moments_of_batches, moments_of_runs
from titans_ts.start import closed_form_start
from titans_ts.windows import Batch, Windows

LOOKBACK, HORIZON = 7, 3


def windows_of(lengths: list[int], levels: list[float], **given: np.ndarray) -> Windows:
    rng = np.random.default_rng(0)
    values = [level + rng.normal(size=n).cumsum() for n, level in zip(lengths, levels, strict=True)]
    count = len(lengths)
    return Windows(
        torch.from_numpy(np.concatenate(values)).float(),
        np.array(lengths),
        np.zeros(count, dtype=int),
        lookback=LOOKBACK,
        horizon=HORIZON,
        **{"first": np.full(count, LOOKBACK), "last": np.array(lengths)} | given,
    )


def one_by_one(windows: Windows, parts: int, by_series: bool, level: bool) -> Moments:
    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        past, future = batch.past[..., 0].double(), batch.future[..., 0].double()
        at = past.mean(1, keepdim=True)
        x = torch.cat([past - at, at], dim=1) if level else past - at
        return x, future - at, batch.series[:, 0] * by_series

    return moments_of_batches(windows, 10**9, (parts, LOOKBACK + level, HORIZON), read)


@pytest.mark.parametrize("level", [False, True])
@pytest.mark.parametrize("by_series", [False, True])
def test_runs_have_the_moments_of_their_windows(by_series: bool, level: bool) -> None:
    windows = windows_of([40, 10, 11, 25], [0.0, 30.0, -5.0, 1e3])  # one has a single window
    runs = windows.runs
    assert runs is not None
    assert [len(run.values) for run in runs] == [40, 10, 11, 25]
    runs = [run._replace(values=run.values.double()) for run in runs]
    parts = torch.tensor([run.series * by_series for run in runs])
    found = moments_of_runs(runs, parts, 4, LOOKBACK, HORIZON, level)
    expected = one_by_one(windows, 4, by_series, level)
    assert found.n == expected.n == (31 + 1 + 2 + 16) * HORIZON
    for name in ("xx", "xy", "yy"):
        a, b = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * b.abs().max().item())


def test_a_run_is_of_the_rows_asked_for_alone() -> None:
    windows = windows_of([30, 30], [0.0, 5.0], first=np.array([9, 12]), last=np.array([20, 12]))
    runs = windows.runs
    assert runs is not None
    (run,) = runs  # the other has no window
    (batch,) = windows.batches(100)
    assert (run.series, run.step) == (0, 2)
    assert torch.equal(
        run.values.unfold(0, LOOKBACK + HORIZON, 1), torch.cat([batch.past, batch.future], dim=1)[..., 0]
    )


def test_there_are_no_runs_of_padded_or_filled_windows() -> None:
    assert windows_of([30], [0.0], first=np.array([3])).runs is None
    observed = np.ones(30, dtype=bool)
    observed[12] = False
    assert windows_of([30], [0.0], observed=observed).runs is None


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("cycle", [0, 5])
def test_the_start_is_the_same_by_runs_and_by_windows(cycle: int, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ModelConfig(
        lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=cycle, d_model=8, n_layers=1, scale_windows=False,
        linear_per_series=own, linear_level=own,
    )  # fmt: skip
    first, last = np.array([LOOKBACK, LOOKBACK]), np.array([150, 140])
    train = windows_of([200, 180], [1.0, -2.0], first=first, last=last)
    validation = windows_of([200, 180], [1.0, -2.0], first=last, last=np.array([200, 180]))
    profile = torch.from_numpy(np.random.default_rng(1).normal(size=(2, cycle))).float() if cycle else None
    found = []
    for other in ("titans_ts.start.moments_of_batches", "titans_ts.windows.Windows.runs"):
        monkeypatch.undo()
        monkeypatch.setattr(other, None)  # so that the start cannot go that way
        network = SimbaForecaster(config).eval()
        error = closed_form_start(network, train, validation, profile)
        assert network.linear is not None
        found.append(
            (
                error,
                network.linear(torch.eye(LOOKBACK) - 1 / LOOKBACK, torch.arange(LOOKBACK) % 2, torch.ones(LOOKBACK, 1)),
            )
        )
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-3, atol=1e-4)


def test_what_all_series_read_alike_is_counted_once() -> None:
    """Inputs that depend on the step alone, as what a series reads of all does."""
    windows = windows_of([40, 40, 40], [0.0, 5.0, -1.0], series=np.array([2, 0, 1]))

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        step = batch.step.double()
        return torch.stack([step.cos(), step.sin()], dim=1), batch.future[..., 0], batch.series[:, 0]

    once, each = (moments_of_batches(windows, None, (3, 2, HORIZON), read, alike) for alike in (True, False))
    assert once.xx.shape == (1, 2, 2)
    torch.testing.assert_close(once.xx.expand(3, -1, -1), each.xx)
    torch.testing.assert_close(once.xy, each.xy)
    weight = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 2, HORIZON)))
    assert once.error(weight) == pytest.approx(each.error(weight))
    together = once.as_outputs()
    assert (together.xx.shape, together.xy.shape) == ((2, 2), (2, 3 * HORIZON))
    assert together.error(weight.transpose(0, 1).flatten(1)) == pytest.approx(each.error(weight))


def test_windows_are_in_step_where_each_series_has_the_same() -> None:
    assert windows_of([40, 40], [0.0, 1.0]).in_step
    assert windows_of([40, 50], [0.0, 1.0], last=np.array([35, 35])).in_step
    assert not windows_of([40, 41], [0.0, 1.0]).in_step
    assert not windows_of([40, 40], [0.0, 1.0], first=np.array([7, 8]), last=np.array([39, 40])).in_step
    assert not windows_of([40, 40], [0.0, 1.0], series=np.array([0, 0])).in_step
    observed = np.ones(80, dtype=bool)
    observed[12] = False
    assert not windows_of([40, 40], [0.0, 1.0], observed=observed).in_step
