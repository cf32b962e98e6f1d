"""The picture of a stream, of a short one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmark import stream_picture
from benchmark.stream_picture import DAY, draw, fitted, streamed


def frame(days: int) -> pd.DataFrame:
    rows = np.arange(days * DAY)
    rng = np.random.default_rng(0)
    index = pd.date_range("2020-01-01", periods=len(rows), freq="15min")
    season = np.sin(2 * np.pi * rows / DAY)
    return pd.DataFrame({name: season * (1 + i) + rng.normal(0, 0.3, len(rows)) for i, name in enumerate("ab")}, index)


@pytest.fixture(scope="module")
def stream() -> stream_picture.Stream:
    whole = frame(16)
    return streamed(whole[: 12 * DAY], whole[12 * DAY :], lookback=DAY // 2)


def test_every_day_is_forecast_from_its_midnight(stream: stream_picture.Stream) -> None:
    whole = frame(16)
    later = whole[12 * DAY :]
    for found in (stream.forecast, stream.core, stream.surprise):
        assert found.index.equals(later.index)
        assert found.columns.tolist() == ["a", "b"]
        assert np.isfinite(found.to_numpy()).all()
    assert stream.gates["ds"].tolist() == 2 * later.index[DAY - 1 :: DAY].tolist()
    assert stream.gates["smooth"].between(0, 1).all()
    model = fitted(whole[: 12 * DAY], "stream", DAY // 2).update(whole[12 * DAY : 14 * DAY])
    third = stream.forecast[2 * DAY : 3 * DAY]
    assert model.predict().to_numpy() == pytest.approx(third.to_numpy(), abs=1e-4)


def test_the_picture_is_written(stream: stream_picture.Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_picture, "SHOWN", 3)
    draw(frame(16)[12 * DAY :], stream, "b", tmp_path / "stream.png")
    assert (tmp_path / "stream.png").stat().st_size > 10_000
