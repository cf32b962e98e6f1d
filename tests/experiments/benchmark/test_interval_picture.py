"""The picture of coverage, of a short stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmark import interval_picture
from benchmark.interval_streams import Rows
from titans_ts.datasets import Dataset


def test_the_picture_is_written(small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def streamed(model: None, rows: Rows) -> tuple[object, object]:
        frame = rows.scored({800: rows.between(800, 806).rename(columns={"y": "Titans"})})
        ends = {f"Titans-{end}-{x}": frame["y"] + sign * x for x in (50, 80) for end, sign in (("lo", -1), ("hi", 1))}
        wide = frame.assign(**ends)
        return wide, wide.assign(**{"Titans-hi-80": np.where(frame["step"] > 3, -1e3, 1e3)})

    monkeypatch.setattr(interval_picture, "HORIZON", 6)
    monkeypatch.setattr(interval_picture, "load_dataset", lambda name, root: small)
    monkeypatch.setattr(interval_picture, "fitted", lambda rows: None)
    monkeypatch.setattr(interval_picture, "streamed", streamed)
    interval_picture.main(["--out", str(tmp_path / "new")])
    assert (tmp_path / "new" / "intervals.png").stat().st_size > 5_000
