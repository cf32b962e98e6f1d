"""The generated series of the needle task hold what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.needle_data import CUE, EVENT, GRID, LEAD, NOISE, SHAPE, frame, needle, train_events

TRAIN = 640


@pytest.mark.parametrize(("distance", "load"), [(100, 2), (403, 5)])
def test_a_cue_and_its_shape_come_twice_a_distance_apart(distance: int, load: int) -> None:
    stream = needle(3, distance, load, n_series=4, train=TRAIN)
    events = stream.clean - stream.season
    shown = TRAIN + LEAD
    last = stream.question - CUE
    np.testing.assert_allclose(events[:, last:], events[:, shown : shown + EVENT], atol=1e-12)
    assert last - (shown + EVENT) == distance - distance % GRID
    assert stream.values.shape == (4, stream.question + SHAPE)
    between = events[0, shown + EVENT : last] != 0
    assert between.sum() == load * EVENT
    assert (events[:, TRAIN : TRAIN + LEAD] == 0).all()
    assert np.std(stream.values - stream.clean) == pytest.approx(NOISE, rel=0.05)
    assert np.sqrt((events[:, last + CUE :] ** 2).mean()) == pytest.approx(2.0)


def test_the_asked_kind_is_in_no_train_row_and_train_rows_are_the_same_for_all_questions() -> None:
    one, other = needle(0, 100, 1, 2, TRAIN), needle(0, 400, 0, 2, TRAIN)
    assert np.array_equal(one.values[:, :TRAIN], other.values[:, :TRAIN])
    assert not np.array_equal(needle(1, 100, 1, 2, TRAIN).values[:, :TRAIN], one.values[:, :TRAIN])
    events = one.clean - one.season
    cue = events[0, one.question - CUE : one.question]
    windows = np.lib.stride_tricks.sliding_window_view(events[0, :TRAIN], CUE)
    assert (np.abs(windows - cue).mean(1) > 0.1).all()


def test_ordinary_origins_are_apart_from_events() -> None:
    stream = needle(0, 400, 2, 2, TRAIN)
    events = stream.clean - stream.season
    assert len(stream.ordinary)
    assert (stream.ordinary % GRID == 0).all()
    for origin in stream.ordinary:
        assert (events[:, origin - SHAPE : origin + SHAPE] == 0).all()


def test_train_events_repeat_their_kinds() -> None:
    events, asked = train_events(np.random.default_rng(0), 3, 400, 2, 3)
    assert ((events != 0).sum(1) == 6 * EVENT).all()
    assert (asked.sum(1) == 4).all()  # all showings but the first of each kind
    series, row = np.argwhere(asked)[-1]
    shape = events[series, row : row + SHAPE]
    earlier = [t for t in range(row) if np.array_equal(events[series, t : t + SHAPE], shape)]
    assert earlier


def test_what_does_not_fit_is_refused_and_a_frame_is_long() -> None:
    with pytest.raises(ValueError, match="`load` must be at most 2 at a distance of 96, got 3"):
        needle(0, 100, 3)
    table = frame(np.arange(6.0).reshape(2, 3), 5)
    assert table["ds"].tolist() == [5, 6, 7, 5, 6, 7]
    assert table["unique_id"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["y"].tolist() == [0, 1, 2, 3, 4, 5]
