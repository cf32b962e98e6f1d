"""A benchmark's data set as the origins of its core: errors of a memory are those of its stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmark import memory_origins
from benchmark.estimator import errors
from benchmark.memory_origins import Subject
from titans_ts.datasets import Dataset
from titans_ts.stream.training import MemoryTraining

HORIZON = 12


@pytest.fixture
def subject(small: Dataset) -> Subject:
    return Subject(small, HORIZON)


def test_errors_are_those_of_the_stream_and_the_frozen_ones_those_of_the_tables(
    small: Dataset, subject: Subject
) -> None:
    memory = subject.memory(subject.config)
    found = subject.errors(memory)
    first, last = small.split.test.start, small.split.test.stop
    _, frozen, read = subject.stream(subject.config).errors(memory, subject.rows(first), subject.rows(last))
    assert found.frozen_test == pytest.approx((frozen * subject.ratio).mean().item())
    assert found.test == pytest.approx((read * subject.ratio).mean().item())
    assert found.test != found.frozen_test
    assert found.frozen_test == pytest.approx(errors(subject.fitted, small)[0], rel=1e-5)
    assert found.frozen_validation > 0 < found.relative


def test_parts_in_time_change_nothing(monkeypatch: pytest.MonkeyPatch, small: Dataset, subject: Subject) -> None:
    found = subject.errors(subject.memory(subject.config))
    monkeypatch.setattr(memory_origins, "MOST_TOKENS", 300)
    again = Subject(small, HORIZON)
    assert len(again.stream(again.config).groups[0][1]) == 8  # of 150 origins of two series
    assert again.errors(again.memory(again.config)) == pytest.approx(found, rel=1e-4)


def test_a_history_begins_where_it_is_told_to(subject: Subject) -> None:
    config = subject.config
    parts = subject.since(config, 700)
    assert np.concatenate([part.rows for part in parts], axis=1)[0].tolist() == [*range(701, 1201)]
    memory = subject.memory(config)
    short, whole = subject.errors(memory, 700), subject.errors(memory)
    assert short.frozen_test == pytest.approx(whole.frozen_test)
    assert short.test != whole.test


def test_origins_are_read_again_for_other_blocks_and_kept_for_the_first(subject: Subject) -> None:
    config = subject.config
    first = subject.stream(config)
    halves = replace(config, block_ends=(6, 12))
    assert len(subject.stream(halves).groups[0][1][0].residuals) == 2
    assert subject.stream(config) is first
    thirds = subject.stream(replace(config, block_ends=(4, 8, 12)))
    assert [*subject._read.values()] == [first, thirds]


def test_what_is_trained_is_chosen_on_the_second_half_of_validation(subject: Subject) -> None:
    memory = subject.memory(subject.config)
    found, again = (subject.trained(memory, MemoryTraining(passes=1)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(found.parameters(), again.parameters(), strict=True))


def test_a_horizon_past_the_validation_rows_is_refused(small: Dataset) -> None:
    with pytest.raises(ValueError, match="horizon"):
        Subject(small, 300)
