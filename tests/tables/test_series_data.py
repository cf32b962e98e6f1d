"""All series end to end in one vector: where each lies, and parts of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from titans_ts.tables.series_data import SeriesData, evenly_spaced


@pytest.fixture
def data() -> SeriesData:
    observed = np.array([True, False, True, True, True, True, True, False])
    return SeriesData(np.arange(8.0), np.array([3, 1, 4]), np.array([10, 0, -2]), observed)


def parts(data: SeriesData) -> list[tuple]:
    """Start, values and mask of each series."""
    found = []
    for i in range(data.n_series):
        rows = data.rows_of(i)
        mask = None if data.observed is None else data.observed[rows].tolist()
        found.append((int(data.starts[i]), data.values[rows].tolist(), mask))
    return found


def test_series_lie_one_after_the_other(data):
    assert data.n_series == 3
    assert data.offsets.tolist() == [0, 3, 4]
    assert data.ends.tolist() == [13, 1, 2]
    assert [data.rows_of(i) for i in range(3)] == [slice(0, 3), slice(3, 4), slice(4, 8)]
    assert data.row_in_series.tolist() == [0, 1, 2, 0, 0, 1, 2, 3]
    assert data.series_of_row.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]
    assert data.time_index.tolist() == [10, 11, 12, 0, -2, -1, 0, 1]
    assert data.last_rows.tolist() == [2, 3, 7]


def test_a_row_is_located_by_series_and_time_index(data):
    assert [data.locate(row) for row in range(8)] == [
        *((0, 10), (0, 11), (0, 12)),
        (1, 0),
        *((2, -2), (2, -1), (2, 0), (2, 1)),
    ]


def test_other_values_keep_rows_and_mask(data):
    other = data.with_values(torch.arange(8) * 2)
    assert other.values.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert other.observed is data.observed
    assert other.lengths is data.lengths
    assert other.starts is data.starts


def test_series_are_taken_in_the_order_asked_for(data):
    first, second, third = parts(data)
    assert parts(data.take(np.array([2, 0]))) == [third, first]
    assert parts(data.take(np.array([1, 1]))) == [second, second]
    assert data.take(np.array([], dtype=int)).values.tolist() == []


def test_the_last_rows_of_each_series_start_later(data):
    assert parts(data.tail(2)) == [(11, [1, 2], [False, True]), (0, [3], [True]), (0, [6, 7], [True, False])]
    assert parts(data.tail(np.array([1, 5, 3]))) == [
        *((12, [2], [True]), (0, [3], [True])),
        (-1, [5, 6, 7], [True, True, False]),
    ]
    assert parts(data.tail(9)) == parts(data)


def test_the_first_rows_of_each_series_start_where_they_did(data):
    assert parts(data.head(np.array([2, 5, 1]))) == [(10, [0, 1], [True, False]), (0, [3], [True]), (-2, [4], [True])]


def test_without_a_mask_no_part_has_one():
    data = SeriesData(np.arange(5.0), np.array([2, 3]), np.array([0, 0]))
    for part in (data.tail(1), data.head(np.array([1, 1])), data.take(np.array([1])), data.with_values(data.values)):
        assert part.observed is None


def test_parts_are_copies(data):
    for part in (data.tail(9), data.head(np.array([9, 9, 9])), data.take(np.arange(3))):
        part.values[:] = -1
        part.observed[:] = False
    assert data.values.tolist() == list(range(8))
    assert data.observed.sum() == 6


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    rows=st.lists(st.integers(1, 8), min_size=5, max_size=5),
    tensor=st.booleans(),
)
def test_head_and_tail_are_slices_of_each_series(lengths, rows, tensor):
    count = np.array(lengths)
    values = torch.arange(count.sum()) if tensor else np.arange(count.sum())
    data, most = SeriesData(values, count, 7 * np.arange(len(count))), np.array(rows[: len(count)])
    head, tail = parts(data.head(most)), parts(data.tail(most))
    for i, (start, whole, _) in enumerate(parts(data)):
        assert head[i] == (start, whole[: most[i]], None)
        assert tail[i] == (start + max(0, len(whole) - most[i]), whole[-most[i] :], None)


def test_where_nothing_was_filled_in_all_rows_are_observed(data):
    assert data.is_observed.tolist() == data.observed.tolist()
    whole = SeriesData(data.values, data.lengths, data.starts)
    assert whole.is_observed.tolist() == [True] * 8


def test_changes_are_within_a_series_and_their_mean_is_of_known_rows():
    data = SeriesData(np.array([1.0, 3, -1, 50, 2, 2, 5]), np.array([3, 1, 3]), np.zeros(3, dtype=np.int64))
    assert data.changes.tolist() == [0, 2, 4, 0, 0, 0, 3]
    assert data.mean_change(data.lengths).tolist() == [3, 0, 1.5]
    assert data.mean_change(np.array([2, 1, 2])).tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    ("n", "most", "expected"), [(0, 3, []), (3, 3, [0, 1, 2]), (4, 3, [0, 2]), (7, 3, [0, 3, 6]), (5, 1, [0])]
)
def test_some_are_evenly_spaced_and_no_more_than_asked_for(n, most, expected):
    assert np.arange(n)[evenly_spaced(n, most)].tolist() == expected


def test_further_rows_follow_those_of_their_series(data):
    nothing = np.array([], dtype=int)
    later = SeriesData(np.array([20.0, 30.0, 31.0]), np.array([0, 1, 2]), data.ends)
    both = data.then(later)
    assert parts(both) == [
        (10, [0, 1, 2], [True, False, True]),
        (0, [3, 20], [True, True]),
        (-2, [4, 5, 6, 7, 30, 31], [True, True, True, False, True, True]),
    ]
    assert both.ends.tolist() == [13, 2, 4]
    assert parts(data.then(SeriesData(nothing * 1.0, np.zeros(3, dtype=int), data.ends))) == parts(data)
    plain = SeriesData(np.arange(2.0), np.array([1, 1]), np.array([0, 5]))
    assert plain.then(SeriesData(np.arange(2.0), np.array([2, 0]), plain.ends)).observed is None
    filled = SeriesData(np.arange(2.0), np.array([2, 0]), plain.ends, np.array([False, True]))
    assert plain.then(filled).observed.tolist() == [True, False, True, True]
    assert data.values.tolist() == list(range(8))
    assert not np.shares_memory(plain.then(filled).values, plain.values)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=5), st.booleans()
)
def test_head_and_tail_make_the_whole_again(lengths, masked):
    counts = np.array([sum(own) for own in lengths])
    values, rng = np.arange(float(counts.sum())), np.random.default_rng(0)
    whole = SeriesData(
        values, counts, np.arange(len(counts)) * 3 - 4, rng.random(len(values)) < 0.5 if masked else None
    )
    first, second = (np.array(part) for part in zip(*[own[:2] for own in lengths], strict=True))
    middle = whole.tail(counts - first)
    again = whole.head(first).then(middle.head(second)).then(middle.tail(counts - first - second))
    assert parts(again) == parts(whole)


def test_rows_are_observed_where_none_was_filled(data):
    assert data.is_observed.tolist() == data.observed.tolist()
    assert SeriesData(np.zeros(2), np.array([2]), np.array([0])).is_observed.tolist() == [True, True]


def test_rows_between_may_be_of_a_series_more_than_once() -> None:
    data = SeriesData(np.arange(7.0), np.array([3, 4]), np.array([10, 20]), np.arange(7) != 5)
    found = data.between(np.array([1, 1, 0]), np.array([0, 2, 1]), np.array([2, 4, 1]))
    assert found.values.tolist() == [3, 4, 5, 6]
    assert found.lengths.tolist() == [2, 2, 0]
    assert found.starts.tolist() == [20, 22, 11]
    assert found.is_observed.tolist() == [True, True, False, True]
