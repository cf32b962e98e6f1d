"""Which series are read together, and in what parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from titans_ts.model.stream_state import Origins
from titans_ts.stream import reading
from titans_ts.stream.reading import OriginReader, Reading, read_parts


def parts_of(monkeypatch: pytest.MonkeyPatch, lengths: list[int]) -> list[list[np.ndarray]]:
    """Rows (series, origins) of each part, of each group; at most 40 origins at a time, and 8 of a series at least."""
    monkeypatch.setattr(reading, "MOST_TOKENS", 40)
    monkeypatch.setattr(reading, "LEAST_ORIGINS", 8)

    def read(index: np.ndarray, last: np.ndarray, n: int) -> Reading:
        rows = last[:, None] - np.arange(n)[::-1]
        empty = torch.zeros(len(index), n, 0)
        live = torch.ones(len(index), n, dtype=torch.bool)
        origins = Origins(empty, (), (), (), live, torch.from_numpy(index))
        return Reading(index, rows, origins, (), empty, empty)

    starts = np.zeros(len(lengths), dtype=np.int64)
    reader = SimpleNamespace(
        data=SimpleNamespace(starts=starts), memory=SimpleNamespace(config=SimpleNamespace(chunk_size=4)), read=read
    )
    groups = read_parts(cast(OriginReader, reader), starts, np.array(lengths), fresh=True)
    return [[part.rows for part in parts] for _, parts in groups]


def test_long_series_are_read_together_part_after_part(monkeypatch: pytest.MonkeyPatch) -> None:
    found = parts_of(monkeypatch, [100] * 7)
    assert [rows[0].shape for rows in found] == [(5, 8), (2, 20)]
    assert all(np.concatenate(rows, axis=1)[0].tolist() == [*range(1, 101)] for rows in found)
    assert max(part.size for rows in found for part in rows) == 40


def test_of_short_series_many_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [[part.shape for part in rows] for rows in parts_of(monkeypatch, [4] * 12)] == [[(10, 4)], [(2, 4)]]
