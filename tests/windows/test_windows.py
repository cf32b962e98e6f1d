"""Windows against plain slices of their series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.model import Batch
from titans_ts.tables.series_data import SeriesData
from titans_ts.windows.windows import Windows, on_device


def series_of(lengths: list[int], starts: list[int] | None = None, observed: Any = None) -> SeriesData[torch.Tensor]:
    """Some series end to end; the value of row r of series i is 1000 i + r + 1."""
    values = np.concatenate([1000.0 * i + np.arange(n) + 1 for i, n in enumerate(lengths)])
    begin = np.zeros(len(lengths), dtype=np.int64) if starts is None else np.array(starts)
    return on_device(SeriesData(values, np.array(lengths), begin, observed), torch.device("cpu"))


def windows_of(
    data: SeriesData[torch.Tensor], lookback: int, horizon: int, first: Any, last: Any, **options: Any
) -> Windows:
    bounds = {"first": np.array(first), "last": np.array(last)}
    return Windows(data, lookback=lookback, horizon=horizon, **bounds, **options)


def together(windows: Windows, size: int = 4096) -> Batch:
    """All windows as one batch."""
    fields = zip(*windows.batches(size), strict=True)
    return Batch(*(None if field[0] is None else torch.cat(field) for field in fields))


@st.composite
def problems(draw: st.DrawFn) -> tuple[SeriesData[torch.Tensor], int, int, list[int], list[int]]:
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    starts = [draw(st.integers(-5, 20)) for _ in lengths]
    lookback, horizon = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    bounds = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in lengths]
    return series_of(lengths, starts), lookback, horizon, [b[0] for b in bounds], [b[1] for b in bounds]


@settings(max_examples=150, deadline=None)
@given(problem=problems(), size=st.integers(1, 7))
def test_windows_are_slices_of_their_series_and_never_cross_a_split(
    problem: tuple[SeriesData[torch.Tensor], int, int, list[int], list[int]], size: int
) -> None:
    series, lookback, horizon, first, last = problem
    expected = [
        (i, origin)
        for i in range(len(first))
        for origin in range(first[i], last[i] - horizon + 1)  # the first future row
    ]
    if not expected:
        with pytest.raises(ValueError, match="No series has"):
            windows_of(series, lookback, horizon, first, last)
        return
    windows = windows_of(series, lookback, horizon, first, last)
    assert len(windows) == len(expected)
    batch = together(windows, size)
    assert batch.past.shape == (len(expected), lookback)
    assert batch.future.shape == (len(expected), horizon)
    assert batch.series.tolist() == [i for i, _ in expected]
    assert batch.time_index.tolist() == [int(series.starts[i]) + origin - lookback for i, origin in expected]

    padded = any(origin < lookback for _, origin in expected)
    assert (batch.padding_mask is not None) == padded
    for n, (i, origin) in enumerate(expected):
        rows = [1000 * i + row + 1 for row in range(origin - lookback, origin + horizon)]
        real = [row >= 0 for row in range(origin - lookback, origin)]
        past = [value if is_real else 0 for value, is_real in zip(rows, real, strict=False)]
        assert batch.past[n].tolist() == past
        assert batch.future[n].tolist() == rows[lookback:]
        if batch.padding_mask is not None:
            assert batch.padding_mask[n].tolist() == real


@pytest.mark.parametrize(
    ("part", "rows", "count"),
    [("train", (0, 8640), 8449), ("validation", (8640, 11520), 2785), ("test", (11520, 14400), 2785)],
)
def test_etth_has_the_protocols_windows(part: str, rows: tuple[int, int], count: int) -> None:
    channels, total, horizon = 2, 17420, 96
    values = torch.arange(float(channels * total))
    series = SeriesData(values, np.full(channels, total), np.zeros(channels, dtype=int))
    first = max(rows[0], 96)
    windows = windows_of(series, 96, horizon, [first] * channels, [rows[1]] * channels)
    assert len(windows) == channels * count
    origin, final = windows.batch(torch.tensor([0])), windows.batch(torch.tensor([count - 1]))
    assert (origin.time_index.item(), origin.past[0, 0].item()) == (first - 96, first - 96)
    assert (origin.future[0, 0].item(), final.future[0, -1].item()) == (first, rows[1] - 1)
    assert origin.padding_mask is None


# Batches


def test_the_last_batch_is_kept() -> None:
    windows = windows_of(series_of([12, 9]), 3, 2, [3, 3], [12, 9])
    assert len(windows) == 8 + 5
    assert [len(batch.past) for batch in windows.batches(4)] == [4, 4, 4, 1]
    generator = torch.Generator().manual_seed(0)
    assert [len(batch.past) for batch in windows.shuffled(4, generator)] == [4, 4, 4, 1]


@pytest.mark.parametrize(("most", "expected"), [(100, 1), (13, 1), (12, 2), (7, 2), (6, 3), (4, 4), (1, 13)])
def test_at_most_so_many_evenly_spaced(most: int, expected: int) -> None:
    windows = windows_of(series_of([12, 9]), 3, 2, [3, 3], [12, 9])
    taken = torch.cat([batch.past[:, 0] for batch in windows.batches(2, most)])
    assert len(taken) <= most
    assert torch.equal(taken, together(windows).past[::expected, 0])


def test_shuffling_takes_each_window_once_in_the_generators_order() -> None:
    windows = windows_of(series_of([12, 9]), 3, 2, [3, 3], [12, 9])

    def order(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(seed)
        return torch.cat([batch.past[:, 0] for batch in windows.shuffled(4, generator)]).tolist()

    whole = together(windows).past[:, 0].tolist()
    assert sorted(order(0)) == whole
    assert order(0) == order(0)
    assert order(0) != whole
    assert order(0) != order(1)


def test_shuffling_leaves_torchs_own_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    list(windows_of(series_of([9]), 3, 2, [3], [9]).shuffled(4, torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), before)


# Memory and padding


def test_values_are_shared_not_copied() -> None:
    series = series_of([8, 8])
    windows = windows_of(series, 3, 2, [3, 3], [8, 8])
    series.values[2] = -1
    assert windows.batch(torch.tensor([0])).past[0].tolist() == [1, 2, -1]


def test_a_batch_is_a_copy() -> None:
    series = series_of([8])
    windows = windows_of(series, 3, 2, [3], [8])
    windows.batch(torch.tensor([0])).past.zero_()
    assert series.values[:3].tolist() == [1, 2, 3]


def test_only_a_series_with_windows_is_padded() -> None:
    """The second series is too short for any window, so nothing needs a mask."""
    windows = windows_of(series_of([8, 2]), 3, 2, [3, 2], [8, 2])
    assert together(windows).padding_mask is None


def test_a_horizon_of_zero_gives_the_context_at_the_end() -> None:
    lengths = [6, 2, 4]
    windows = windows_of(series_of(lengths, [10, 20, 30]), 4, 0, lengths, lengths, series=np.array([7, 5, 9]))
    batch = together(windows)
    assert batch.past.tolist() == [[3, 4, 5, 6], [0, 0, 1001, 1002], [2001, 2002, 2003, 2004]]
    assert batch.padding_mask.int().tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]
    assert batch.future.shape == (3, 0)
    assert batch.time_index.tolist() == [12, 18, 30]
    assert batch.series.tolist() == [7, 5, 9]


def test_no_window_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^No series has 5 rows to forecast in the rows asked for\.$"):
        windows_of(series_of([4, 3]), 2, 5, [0, 0], [4, 3])


def test_shuffling_draws_no_more_than_it_may_and_none_twice() -> None:
    windows = windows_of(series_of([12, 9]), 3, 2, [3, 3], [12, 9])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([batch.past[:, 0] for batch in windows.shuffled(4, generator, 6)]).tolist()
    assert len(set(drawn)) == len(drawn) == 6
    assert set(drawn) <= set(together(windows).past[:, 0].tolist())


# Values that were filled in


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(3, 14), min_size=1, max_size=4),
    lookback=st.integers(1, 5),
    horizon=st.integers(1, 4),
    data=st.data(),
)
def test_windows_ask_for_nothing_that_was_filled(lengths, lookback, horizon, data) -> None:
    total = sum(lengths)
    observed = np.array(data.draw(st.lists(st.booleans(), min_size=total, max_size=total)))
    series = series_of(lengths, observed=observed)
    first = np.array([data.draw(st.integers(0, n)) for n in lengths])
    offsets = np.cumsum(lengths) - lengths
    every = [(i, origin) for i, n in enumerate(lengths) for origin in range(first[i], n - horizon + 1)]

    def future(i: int, origin: int) -> np.ndarray:
        return observed[offsets[i] + origin : offsets[i] + origin + horizon]

    expected = [(i, t) for i, t in every if (t == 0 or observed[offsets[i] + t - 1]) and future(i, t).any()]
    whole = [(i, t) for i, t in expected if future(i, t).all()]

    def make() -> Windows:
        return windows_of(series, lookback, horizon, first, lengths)

    if not expected:
        with pytest.raises(ValueError, match="No series has"):
            make()
        return
    windows = make()
    for these, found in ((expected, windows), (whole, windows.without_filled)):
        if not these:
            assert found is None
            continue
        assert len(found) == len(these) <= len(every)
        batch = together(found)
        assert [
            (s.item(), begin.item() + lookback) for s, begin in zip(batch.series, batch.time_index, strict=True)
        ] == [(i, series.starts[i] + origin) for i, origin in these]
        for n, (i, origin) in enumerate(these):
            assert batch.future[n].tolist() == [1000 * i + row + 1 for row in range(origin, origin + horizon)]
            if found is windows:
                assert batch.observed_mask[n].tolist() == future(i, origin).tolist()
            else:
                assert batch.observed_mask is None


def test_without_an_observed_row_after_an_observed_one_the_error_says_so() -> None:
    series = series_of([6], observed=np.array([True, True, False, False, True, False]))
    with pytest.raises(ValueError, match="a row to forecast that was there, after one that was; fill fewer"):
        windows_of(series, 2, 1, [2], [5])


@pytest.mark.parametrize(("most", "stride"), [(100, 1), (11, 1), (10, 3), (4, 3), (3, 5)])
def test_windows_by_origin_are_those_of_all_series_at_the_same_times(most: int, stride: int) -> None:
    windows = windows_of(series_of([15, 15]), 3, 2, [3, 3], [15, 15])  # 11 of each
    assert windows.aligned
    found = list(windows.by_origin(2, most))
    assert all(len(batches) == 2 for batches in found)
    for first, second in found:
        assert torch.equal(first.time_index, second.time_index)
        assert (set(first.series.tolist()), set(second.series.tolist())) == ({0}, {1})
        assert torch.equal(second.future, first.future + 1000)
    assert torch.cat([first.time_index for first, _ in found]).tolist() == list(range(0, 11, stride))


# Weights


def test_weights_of_windows_have_a_mean_of_1_and_halve_with_age() -> None:
    data = SeriesData(torch.arange(60.0), np.array([20, 40]), np.array([0, 0]))
    windows = Windows(
        data,
        lookback=4,
        horizon=2,
        first=np.array([4, 4]),
        last=np.array([20, 40]),
        weight=np.array([3.0, 1.0]),
        half_life=5.0,
    )
    (batch,) = windows.batches(1000)
    assert batch.weight.mean().item() == pytest.approx(1)
    first, second = batch.weight[:15], batch.weight[15:]
    assert first[-1] / second[-1] == pytest.approx(3)  # the last window of each
    torch.testing.assert_close(first[-6:-5] * 2, first[-1:])
    torch.testing.assert_close(second[-11:-10] * 4, second[-1:])
    assert windows.series_weight[0] / windows.series_weight[1] == pytest.approx(3)
    assert windows.runs is None


@pytest.mark.parametrize("half_life", [1e-300, 1e-30, 1e-3])
def test_of_the_shortest_half_lives_the_last_window_alone_counts(half_life: float) -> None:
    data = SeriesData(torch.arange(20.0), np.array([20]), np.array([0]))
    windows = Windows(data, lookback=4, horizon=2, first=np.array([4]), last=np.array([20]), half_life=half_life)
    weight = next(windows.batches(100)).weight
    torch.testing.assert_close(weight, torch.tensor([0.0] * 14 + [15.0]))


def test_without_weights_a_batch_has_none() -> None:
    data = SeriesData(torch.arange(20.0), np.array([20]), np.array([0]))
    windows = Windows(data, lookback=4, horizon=2, first=np.array([4]), last=np.array([20]))
    assert next(windows.batches(3)).weight is None
    assert windows.series_weight is None
