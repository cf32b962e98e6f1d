"""ETTh1 as if it had 20 rows, away from the user's folders and from the network."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pooch
import pytest

from titans_ts.datasets import SPECS, DatasetSpec


@pytest.fixture(autouse=True)
def own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the user's cache nor the user's data folder takes part."""
    monkeypatch.delenv("TITANS_TS_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def frame() -> pd.DataFrame:
    channels = list(SPECS["ETTh1"].channels)
    values = np.random.default_rng(0).normal(size=(20, len(channels)))
    return pd.DataFrame(values, pd.date_range("2016-07-01", periods=20, freq="h", name="date"), channels)


@pytest.fixture
def content(frame: pd.DataFrame) -> bytes:
    """The published file of the small ETTh1."""
    return frame.to_csv().encode()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, content: bytes) -> DatasetSpec:
    """The spec of the small ETTh1, under its name in the registry; nothing answers at its addresses."""
    spec = replace(
        SPECS["ETTh1"],
        rows=20,
        split=(10, 14, 18),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        addresses=("http://127.0.0.1:9/first.csv", "http://127.0.0.1:9/second.csv"),
    )
    monkeypatch.setitem(SPECS, "ETTh1", spec)
    return spec
