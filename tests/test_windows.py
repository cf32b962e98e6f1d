"""Windows against plain slices of their series, and the scale they are seen at."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.windows import Batch, Scaler, Windows, profiles


class Series(NamedTuple):
    """Some series end to end; the value of row r of series i is 1000 i + r + 1."""

    values: torch.Tensor
    lengths: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, lengths: list[int], starts: list[int] | None = None) -> Series:
        values = [1000.0 * i + np.arange(n) + 1 for i, n in enumerate(lengths)]
        steps = np.zeros(len(lengths), dtype=np.int64) if starts is None else np.array(starts)
        return cls(torch.from_numpy(np.concatenate(values)).float(), np.array(lengths), steps)

    def windows(self, lookback: int, horizon: int, first: Any, last: Any, **options: Any) -> Windows:
        bounds = {"first": np.array(first), "last": np.array(last)}
        return Windows(*self, lookback=lookback, horizon=horizon, **bounds, **options)


def together(windows: Windows, size: int = 4096) -> Batch:
    """All windows as one batch."""
    fields = zip(*windows.batches(size), strict=True)
    return Batch(*(None if field[0] is None else torch.cat(field) for field in fields))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Series, int, int, list[int], list[int]]:
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    starts = [draw(st.integers(-5, 20)) for _ in lengths]
    lookback, horizon = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    bounds = [sorted(draw(st.tuples(st.integers(0, n), st.integers(0, n)))) for n in lengths]
    return Series.of(lengths, starts), lookback, horizon, [b[0] for b in bounds], [b[1] for b in bounds]


@settings(max_examples=150, deadline=None)
@given(problem=problems(), size=st.integers(1, 7))
def test_windows_are_slices_of_their_series_and_never_cross_a_split(
    problem: tuple[Series, int, int, list[int], list[int]], size: int
) -> None:
    series, lookback, horizon, first, last = problem
    expected = [
        (i, origin)
        for i in range(len(first))
        for origin in range(first[i], last[i] - horizon + 1)  # the first future row
    ]
    if not expected:
        with pytest.raises(ValueError, match="No series has"):
            series.windows(lookback, horizon, first, last)
        return
    windows = series.windows(lookback, horizon, first, last)
    assert len(windows) == len(expected)
    batch = together(windows, size)
    assert batch.past.shape == (len(expected), lookback, 1)
    assert batch.future.shape == (len(expected), horizon, 1)
    assert batch.series[:, 0].tolist() == [i for i, _ in expected]
    assert batch.step.tolist() == [int(series.starts[i]) + origin - lookback for i, origin in expected]

    padded = any(origin < lookback for _, origin in expected)
    assert (batch.mask is not None) == padded
    for n, (i, origin) in enumerate(expected):
        rows = [1000 * i + row + 1 for row in range(origin - lookback, origin + horizon)]
        real = [row >= 0 for row in range(origin - lookback, origin)]
        past = [value if known else 0 for value, known in zip(rows, real, strict=False)]
        assert batch.past[n, :, 0].tolist() == past
        assert batch.future[n, :, 0].tolist() == rows[lookback:]
        if batch.mask is not None:
            assert batch.mask[n, :, 0].tolist() == real


@pytest.mark.parametrize(
    ("part", "rows", "count"),
    [("train", (0, 8640), 8449), ("validation", (8640, 11520), 2785), ("test", (11520, 14400), 2785)],
)
def test_etth_has_the_protocols_windows(part: str, rows: tuple[int, int], count: int) -> None:
    channels, total, horizon = 2, 17420, 96
    series = Series(torch.arange(float(channels * total)), np.full(channels, total), np.zeros(channels, dtype=int))
    first = max(rows[0], 96)
    windows = series.windows(96, horizon, [first] * channels, [rows[1]] * channels)
    assert len(windows) == channels * count
    origin, final = windows.batch(torch.tensor([0])), windows.batch(torch.tensor([count - 1]))
    assert (origin.step.item(), origin.past[0, 0].item()) == (first - 96, first - 96)
    assert (origin.future[0, 0].item(), final.future[0, -1].item()) == (first, rows[1] - 1)
    assert origin.mask is None


# Batches


def test_the_last_batch_is_kept() -> None:
    windows = Series.of([12, 9]).windows(3, 2, [3, 3], [12, 9])
    assert len(windows) == 8 + 5
    assert [len(batch.past) for batch in windows.batches(4)] == [4, 4, 4, 1]
    generator = torch.Generator().manual_seed(0)
    assert [len(batch.past) for batch in windows.shuffled(4, generator)] == [4, 4, 4, 1]


@pytest.mark.parametrize(("most", "expected"), [(100, 1), (13, 1), (12, 2), (7, 2), (6, 3), (4, 4), (1, 13)])
def test_at_most_so_many_evenly_spaced(most: int, expected: int) -> None:
    windows = Series.of([12, 9]).windows(3, 2, [3, 3], [12, 9])
    taken = torch.cat([batch.past[:, 0, 0] for batch in windows.batches(2, most)])
    assert len(taken) <= most
    assert torch.equal(taken, together(windows).past[::expected, 0, 0])


def test_shuffling_takes_each_window_once_in_the_generators_order() -> None:
    windows = Series.of([12, 9]).windows(3, 2, [3, 3], [12, 9])

    def order(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(seed)
        return torch.cat([batch.past[:, 0, 0] for batch in windows.shuffled(4, generator)]).tolist()

    whole = together(windows).past[:, 0, 0].tolist()
    assert sorted(order(0)) == whole
    assert order(0) == order(0)
    assert order(0) != whole
    assert order(0) != order(1)


def test_shuffling_leaves_torchs_own_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    list(Series.of([9]).windows(3, 2, [3], [9]).shuffled(4, torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), before)


# Memory and padding


def test_values_are_shared_not_copied() -> None:
    series = Series.of([8, 8])
    windows = series.windows(3, 2, [3, 3], [8, 8])
    series.values[2] = -1
    assert windows.batch(torch.tensor([0])).past[0, :, 0].tolist() == [1, 2, -1]


def test_a_batch_is_a_copy() -> None:
    series = Series.of([8])
    windows = series.windows(3, 2, [3], [8])
    windows.batch(torch.tensor([0])).past.zero_()
    assert series.values[:3].tolist() == [1, 2, 3]


def test_only_a_series_with_windows_is_padded() -> None:
    """The second series is too short for any window, so nothing needs a mask."""
    windows = Series.of([8, 2]).windows(3, 2, [3, 2], [8, 2])
    assert together(windows).mask is None


def test_a_horizon_of_zero_gives_the_context_at_the_end() -> None:
    lengths = [6, 2, 4]
    windows = Series.of(lengths, [10, 20, 30]).windows(4, 0, lengths, lengths, series=np.array([7, 5, 9]))
    batch = together(windows)
    assert batch.past[..., 0].tolist() == [[3, 4, 5, 6], [0, 0, 1001, 1002], [2001, 2002, 2003, 2004]]
    assert batch.mask[..., 0].int().tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]]
    assert batch.future.shape == (3, 0, 1)
    assert batch.step.tolist() == [12, 18, 30]
    assert batch.series[:, 0].tolist() == [7, 5, 9]


def test_no_window_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^No series has 5 rows to forecast in the rows asked for\.$"):
        Series.of([4, 3]).windows(2, 5, [0, 0], [4, 3])


# Scaler


def whole(*parts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(parts), np.array([len(part) for part in parts])


def test_scaler_takes_mean_and_population_deviation_of_the_training_rows() -> None:
    values, lengths = whole(np.array([1.0, 3.0, 5.0, 100.0]), np.array([-2.0, 2.0, 7.0]))
    scaler = Scaler.fit(values, lengths, np.array([3, 2]))
    np.testing.assert_allclose(scaler.mean, [3, 0])
    np.testing.assert_allclose(scaler.std, [math.sqrt(8 / 3), 2])
    np.testing.assert_allclose(scaler.transform(values, lengths)[4:], [-1, 1, 3.5])


def test_a_small_wave_on_a_high_level_keeps_its_shape() -> None:
    wave = np.sin(2 * np.pi * np.arange(480) / 24)
    values, lengths = whole(1e9 + wave, 1e9 + 1e-4 * wave)
    scaler = Scaler.fit(values, lengths, lengths)
    scaled = scaler.transform(values, lengths).astype(np.float32).reshape(2, -1)
    # float64 resolves 1.2e-7 at 1e9: a share of that of the wave, and 1.2e-3 of the smaller one.
    np.testing.assert_allclose(scaled[0], math.sqrt(2) * wave, atol=1e-6)
    np.testing.assert_allclose(scaled[1], math.sqrt(2) * wave, atol=5e-3)


@pytest.mark.parametrize("level", [0.0, 0.1, -1 / 3, 1e12, 1e-300])
def test_a_constant_series_has_deviation_one(level: float) -> None:
    values, lengths = whole(np.full(1001, level), np.arange(3.0))
    scaler = Scaler.fit(values, lengths, lengths)
    assert scaler.std[0] == 1
    np.testing.assert_allclose(scaler.transform(values, lengths)[:1001], 0, atol=1e-12 * max(1, abs(level)))
    np.testing.assert_allclose(scaler.inverse(np.zeros((2, 4)))[0], level, rtol=1e-15)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4), min_size=1, max_size=4))
def test_inverse_gives_the_values_back(rows: list[list[float]]) -> None:
    values, lengths = whole(*(np.array(row) for row in rows))
    scaler = Scaler.fit(values, lengths, lengths)
    back = scaler.inverse(scaler.transform(values, lengths).reshape(len(rows), 4))
    # Rounding in float64 is relative to each series' largest value.
    np.testing.assert_allclose(back, np.array(rows), rtol=0, atol=1e-14 * max(1, np.abs(values).max()))


# profiles


def test_profiles_are_the_mean_of_each_phase() -> None:
    values, lengths = whole(np.array([1.0, 2.0, 3.0, 5.0, 6.0, 99.0]), np.array([10.0, 20.0, 99.0]))
    found = profiles(values, lengths, starts=np.array([7, -1]), rows=np.array([5, 2]), period=3)
    # Series 0 begins at phase 1: 1, 2, 0, 1, 2; series 1 at phase 2: 2, 0, and never at 1.
    assert found.tolist() == [[3, (1 + 5) / 2, (2 + 6) / 2], [20, 0, 10]]


def test_taking_its_own_profile_off_a_seasonal_series_leaves_nothing() -> None:
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(2, 7))
    lengths, starts = np.array([70, 35]), np.array([3, 5])
    phases = [(start + np.arange(n)) % 7 for start, n in zip(starts, lengths, strict=True)]
    values = np.concatenate([shape[i, phase] for i, phase in enumerate(phases)])
    np.testing.assert_allclose(profiles(values, lengths, starts, lengths, 7), shape, atol=1e-14)  # means of 10 values


def test_shuffling_draws_no_more_than_it_may_and_none_twice() -> None:
    windows = Series.of([12, 9]).windows(3, 2, [3, 3], [12, 9])
    generator = torch.Generator().manual_seed(0)
    drawn = torch.cat([batch.past[:, 0, 0] for batch in windows.shuffled(4, generator, 6)]).tolist()
    assert len(set(drawn)) == len(drawn) == 6
    assert set(drawn) <= set(together(windows).past[:, 0, 0].tolist())


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
    series = Series.of(lengths)
    first = np.array([data.draw(st.integers(0, n)) for n in lengths])
    offsets = np.cumsum(lengths) - lengths
    every = [(i, origin) for i, n in enumerate(lengths) for origin in range(first[i], n - horizon + 1)]

    def future(i: int, origin: int) -> np.ndarray:
        return observed[offsets[i] + origin : offsets[i] + origin + horizon]

    expected = [(i, t) for i, t in every if (t == 0 or observed[offsets[i] + t - 1]) and future(i, t).any()]
    whole = [(i, t) for i, t in expected if future(i, t).all()]

    def make() -> Windows:
        how = dict(lookback=lookback, horizon=horizon, first=first, last=np.array(lengths), observed=observed)
        return Windows(series.values, series.lengths, series.starts, **how)

    if not expected:
        with pytest.raises(ValueError, match="No series has"):
            make()
        return
    windows = make()
    for these, found in ((expected, windows), (whole, windows.whole)):
        if not these:
            assert found is None
            continue
        assert len(found) == len(these) <= len(every)
        batch = together(found)
        assert [(s.item(), step.item() + lookback) for s, step in zip(batch.series[:, 0], batch.step, strict=True)] == [
            (i, series.starts[i] + origin) for i, origin in these
        ]
        for n, (i, origin) in enumerate(these):
            assert batch.future[n, :, 0].tolist() == [1000 * i + row + 1 for row in range(origin, origin + horizon)]
            if found is windows:
                assert batch.known[n, :, 0].tolist() == future(i, origin).tolist()
            else:
                assert batch.known is None


def test_without_a_known_row_after_a_known_one_the_error_says_so() -> None:
    series, observed = Series.of([6]), np.array([True, True, False, False, True, False])
    how = dict(lookback=2, horizon=1, first=np.array([2]), last=np.array([5]), observed=observed)
    with pytest.raises(ValueError, match="a row to forecast that was there, after one that was; fill fewer"):
        Windows(series.values, series.lengths, series.starts, **how)


def test_what_was_filled_makes_neither_scale_nor_profile() -> None:
    values, lengths = whole(np.array([1.0, 3.0, 99.0, 5.0]), np.array([-2.0, 99.0, 2.0]))
    observed = values != 99
    scaler = Scaler.fit(values, lengths, lengths, observed)
    np.testing.assert_allclose(scaler.mean, [3, 0])
    np.testing.assert_allclose(scaler.std, [math.sqrt(8 / 3), 2])
    found = profiles(values, lengths, np.array([0, 0]), lengths, 2, observed)
    assert found.tolist() == [[1, 4], [0, 0]]


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e120, 1e200, 1e299])
def test_extreme_sizes_keep_their_shape(size: float) -> None:
    wave = np.sin(np.arange(50.0))
    plain, lengths = whole(wave)
    scaler = Scaler.fit(size * plain, lengths, lengths)
    expected = Scaler.fit(plain, lengths, lengths).transform(plain, lengths)
    np.testing.assert_allclose(scaler.transform(size * plain, lengths), expected, rtol=1e-12)
    np.testing.assert_allclose(scaler.inverse(expected[None])[0], size * plain, rtol=0, atol=1e-14 * size)
