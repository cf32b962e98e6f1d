"""Moments of runs of windows, against those of the windows one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from titans_ts.model import Batch, ModelConfig, SimbaForecaster
from titans_ts.tables.series_data import SeriesData
from titans_ts.training.closed_form import initialise
from titans_ts.training.moments import Moments, moments_of_batches, moments_of_origins, moments_of_runs
from titans_ts.windows.windows import Windows

LOOKBACK, HORIZON = 7, 3


def windows_of(lengths: list[int], means: list[float], observed: np.ndarray | None = None, **given: Any) -> Windows:
    rng = np.random.default_rng(0)
    values = [mean + rng.normal(size=n).cumsum() for n, mean in zip(lengths, means, strict=True)]
    count = len(lengths)
    series = torch.from_numpy(np.concatenate(values)).float()
    data = SeriesData(series, np.array(lengths), np.zeros(count, dtype=int), observed)
    bounds = {"first": np.full(count, LOOKBACK), "last": np.array(lengths)}
    return Windows(data, lookback=LOOKBACK, horizon=HORIZON, **bounds | given)


def one_by_one(windows: Windows, parts: int, by_series: bool, window_mean: bool) -> Moments:
    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        past, future = batch.past.double(), batch.future.double()
        at = past.mean(1, keepdim=True)
        x = torch.cat([past - at, at], dim=1) if window_mean else past - at
        return x, future - at, batch.series * by_series

    return moments_of_batches(windows, 10**9, (parts, LOOKBACK + window_mean, HORIZON), read)


@pytest.mark.parametrize("window_mean", [False, True])
@pytest.mark.parametrize("by_series", [False, True])
def test_runs_have_the_moments_of_their_windows(by_series: bool, window_mean: bool) -> None:
    windows = windows_of([40, 10, 11, 25], [0.0, 30.0, -5.0, 1e3])  # one has a single window
    runs = windows.runs
    assert runs is not None
    assert [len(run.values) for run in runs] == [40, 10, 11, 25]
    runs = [run._replace(values=run.values.double()) for run in runs]
    parts = torch.tensor([run.series * by_series for run in runs])
    found = moments_of_runs(runs, parts, 4, LOOKBACK, HORIZON, window_mean)
    expected = one_by_one(windows, 4, by_series, window_mean)
    windows_each = torch.tensor([31.0, 1, 2, 16], dtype=torch.float64) * HORIZON
    if not by_series:
        windows_each = torch.stack([windows_each.sum(), *torch.zeros(3)])
    assert found.n.tolist() == expected.n.tolist() == windows_each.tolist()
    for name in ("xx", "xy", "yy"):
        a, b = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9 * b.abs().max().item())


def test_a_run_is_of_the_rows_asked_for_alone() -> None:
    windows = windows_of([30, 30], [0.0, 5.0], first=np.array([9, 12]), last=np.array([20, 12]))
    runs = windows.runs
    assert runs is not None
    (run,) = runs  # the other has no window
    (batch,) = windows.batches(100)
    assert (run.series, run.time_index) == (0, 2)
    assert torch.equal(run.values.unfold(0, LOOKBACK + HORIZON, 1), torch.cat([batch.past, batch.future], dim=1))


def test_there_are_no_runs_of_padded_or_filled_windows() -> None:
    assert windows_of([30], [0.0], first=np.array([3])).runs is None
    observed = np.ones(30, dtype=bool)
    observed[12] = False
    assert windows_of([30], [0.0], observed=observed).runs is None


@pytest.mark.parametrize("per_series", [False, True])
@pytest.mark.parametrize("cycle", [0, 5])
def test_the_initialisation_is_the_same_by_runs_and_by_windows(
    cycle: int, per_series: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ModelConfig(
        lookback=LOOKBACK, horizon=HORIZON, n_series=2, cycle=cycle, d_model=8, n_layers=1, scale_windows=False,
        linear_per_series=per_series, linear_window_mean=per_series,
    )  # fmt: skip
    first, last = np.array([LOOKBACK, LOOKBACK]), np.array([150, 140])
    train = windows_of([200, 180], [1.0, -2.0], first=first, last=last)
    validation = windows_of([200, 180], [1.0, -2.0], first=last, last=np.array([200, 180]))
    profile = torch.from_numpy(np.random.default_rng(1).normal(size=(2, cycle))).float() if cycle else None
    found = []
    for other in ("titans_ts.training.closed_form.moments_of_batches", "titans_ts.windows.windows.Windows.runs"):
        monkeypatch.undo()
        monkeypatch.setattr(other, None)  # so that the other way is taken
        network = SimbaForecaster(config).eval()
        error = initialise(network, train, validation, profile)
        assert network.linear is not None
        found.append(
            (
                error,
                network.linear(torch.eye(LOOKBACK) - 1 / LOOKBACK, torch.arange(LOOKBACK) % 2, torch.ones(LOOKBACK, 1)),
            )
        )
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-3, atol=1e-4)


def test_errors_are_of_each_series_by_common_weights_or_by_its_own() -> None:
    windows = windows_of([40, 25, 13], [0.0, 5.0, -1.0], last=np.array([40, 25, 9]))  # the last has no window
    moments = one_by_one(windows, 3, True, False)
    rng = np.random.default_rng(1)
    common, each = (torch.from_numpy(rng.normal(size=shape)) for shape in ((LOOKBACK, HORIZON), (3, LOOKBACK, HORIZON)))
    (batch,) = windows.batches(100)
    mean = batch.past.double().mean(1, keepdim=True)
    x, y = batch.past.double() - mean, batch.future.double() - mean
    for weight in (common, each):
        found = moments.errors(weight)
        for i in range(2):
            of_series = batch.series == i
            error = y[of_series] - x[of_series] @ (weight if weight.ndim == 2 else weight[i])
            assert found[i].item() == pytest.approx(error.square().mean().item())
        assert found[2].isnan()


def test_series_of_no_part_are_left_out() -> None:
    windows = windows_of([40, 25, 13], [0.0, 5.0, -1.0])
    whole = one_by_one(windows, 3, True, True)
    parts = torch.tensor([-1, 0, 1])

    def read(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        past, future = batch.past.double(), batch.future.double()
        mean = past.mean(1, keepdim=True)
        return torch.cat([past - mean, mean], dim=1), future - mean, parts[batch.series]

    some = moments_of_batches(windows, None, (2, LOOKBACK + 1, HORIZON), read)
    runs = [run._replace(values=run.values.double()) for run in windows.runs or []]
    by_runs = moments_of_runs(runs, parts, 2, LOOKBACK, HORIZON, True)
    for found in (some, by_runs):
        assert found.n.tolist() == whole.n[1:].tolist()
        torch.testing.assert_close(found.xy, whole.xy[1:], rtol=1e-9, atol=1e-9 * whole.xy.abs().max().item())


def test_windows_are_aligned_where_each_series_has_the_same() -> None:
    assert windows_of([40, 40], [0.0, 1.0]).aligned
    assert windows_of([40, 50], [0.0, 1.0], last=np.array([35, 35])).aligned
    assert not windows_of([40, 41], [0.0, 1.0]).aligned
    assert not windows_of([40, 40], [0.0, 1.0], first=np.array([7, 8]), last=np.array([39, 40])).aligned
    assert not windows_of([40, 40], [0.0, 1.0], series=np.array([0, 0])).aligned
    observed = np.ones(80, dtype=bool)
    observed[12] = False
    assert not windows_of([40, 40], [0.0, 1.0], observed=observed).aligned


@pytest.mark.parametrize("steps", [slice(None), slice(1, None, 2), slice(2, None, 3)])
def test_runs_have_the_moments_of_some_of_the_steps(steps: slice) -> None:
    windows = windows_of([40, 25], [0.0, 30.0])
    runs = [run._replace(values=run.values.double()) for run in windows.runs or []]
    found = moments_of_runs(runs, torch.arange(2), 2, LOOKBACK, HORIZON, True, steps)
    whole = moments_of_runs(runs, torch.arange(2), 2, LOOKBACK, HORIZON, True)
    torch.testing.assert_close(found.xx, whole.xx)
    torch.testing.assert_close(found.xy, whole.xy[..., steps])
    shape = LOOKBACK, HORIZON, True
    each = [moments_of_runs(runs, torch.arange(2), 2, *shape, slice(i, i + 1)).yy for i in range(HORIZON)]
    torch.testing.assert_close(torch.stack(each).sum(0), whole.yy)
    torch.testing.assert_close(found.yy, torch.stack(each[steps]).sum(0))
    assert found.n.tolist() == [31 * len(range(HORIZON)[steps]), 16 * len(range(HORIZON)[steps])]


def test_origins_have_the_moments_of_the_windows_of_every_series() -> None:
    windows = windows_of([30, 30, 30], [0.0, 5.0, -2.0], series=np.array([2, 0, 1]))

    def past(batch: Batch) -> Tensor:  # the same for all series
        return batch.time_index.unsqueeze(1) % torch.tensor([3, 4])

    found = moments_of_origins(windows, 100, (3, 2, HORIZON), past, lambda batch: batch.future)
    expected = moments_of_batches(
        windows, 10**9, (3, 2, HORIZON), lambda batch: (past(batch), batch.future, batch.series)
    )
    assert found.xx.shape == (1, 2, 2)
    torch.testing.assert_close(found.xx.expand(3, 2, 2), expected.xx)
    for name in ("xy", "yy", "n"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


# Weights


@pytest.mark.parametrize("window_mean", [False, True])
@pytest.mark.parametrize("by_series", [False, True])
def test_weighted_runs_have_the_moments_of_their_windows(by_series: bool, window_mean: bool) -> None:
    windows = windows_of([40, 10, 11, 25], [0.0, 30.0, -5.0, 1e3], weight=np.array([2.0, 0.5, 0.0, 1.0]))
    runs = [run._replace(values=run.values.double()) for run in windows.runs]
    parts = torch.tensor([run.series * by_series for run in runs])
    found = moments_of_runs(runs, parts, 4, LOOKBACK, HORIZON, window_mean)
    expected = one_by_one(windows, 4, by_series, window_mean)
    for name in ("xx", "xy", "yy", "n"):
        a, b = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 * b.abs().max().item())  # weights of batches are float32


def test_a_weight_of_two_counts_a_window_twice() -> None:
    plain, weighted = (windows_of([30, 30], [0.0, 5.0], weight=weight) for weight in (None, np.array([2.0, 1.0])))
    expected, found = (one_by_one(windows, 2, True, False) for windows in (plain, weighted))
    ratio = found.n / expected.n
    assert ratio[0] / ratio[1] == pytest.approx(2)
    for name in ("xx", "xy", "yy"):
        a, b = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(a, b * ratio.view(-1, *[1] * (b.ndim - 1)), rtol=1e-6, atol=1e-6)


def test_of_aligned_windows_recency_alone_counts() -> None:
    """All series read the same, so that a weight would do nothing to their solutions; the shared moments have none."""
    lengths = [30, 30]
    of_recency, of_both = (
        windows_of(lengths, [0.0, 5.0], weight=weight, half_life=6.0) for weight in (None, np.array([3.0, 1.0]))
    )

    def read(batch: Batch) -> Tensor:
        return batch.past

    shape = 2, LOOKBACK, HORIZON
    found, expected = (
        moments_of_origins(windows, 100, shape, read, lambda batch: batch.future) for windows in (of_both, of_recency)
    )
    weights = 0.5 ** (torch.arange(20, -1, -1, dtype=torch.float64) / 6)
    (batch,) = of_both.batches(100)
    past = batch.past[:21].double()
    scale = found.n[0] / (HORIZON * weights.sum())
    torch.testing.assert_close(found.xx[0], scale * (past * weights.unsqueeze(1)).mT @ past, rtol=1e-5, atol=1e-5)
    for name in ("xx", "xy", "yy", "n"):
        a, b = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(a / scale, b / (expected.n[0] / (HORIZON * weights.sum())), rtol=1e-5, atol=1e-5)
