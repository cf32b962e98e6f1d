"""Writing a graph: whole or not at all, and refused by name; `tests/test_exporting.py` runs what is written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from titans_ts import TitansForecaster
from titans_ts.export import graph

from .small_models import HOW, SIZE, long, waves


@pytest.fixture(scope="module")
def model() -> TitansForecaster:
    return TitansForecaster(**{**SIZE, **HOW}).fit(waves())


def with_parts(model: TitansForecaster, **parts: Any) -> TitansForecaster:
    """A copy with parts, of which it counts alone that they are there."""
    other = TitansForecaster(**model.get_params())
    other.fitted_ = replace(model.fitted_, **parts)
    return other


def test_what_a_window_does_not_hold_is_refused_by_name(model: TitansForecaster, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with pytest.raises(
        ValueError, match=r"statistical forecasts of the whole history. Fit it with `combine=False`, or"
    ):
        with_parts(model, combination=object()).export(path)
    with pytest.raises(
        ValueError, match=r"a long-term memory holds of all rows before. Fit it with `context='window'`"
    ):
        with_parts(model, long_term=object()).export(path)
    with pytest.raises(ValueError, match="`window_only` must be True or False"):
        model.export(path, window_only="yes")  # type: ignore[arg-type]
    with pytest.raises(IsADirectoryError, match="`path` must be a file, but"):
        model.export(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"`path` must lie in a folder that is there, got .* Make it first"):
        model.export(tmp_path / "nowhere" / "model.onnx")
    with pytest.raises(TypeError, match="`path` must be the path of a file, as text or a Path, got 5"):
        model.export(5)  # type: ignore[arg-type]

    df = long(waves())
    df["day"] = np.random.default_rng(1).normal(size=len(df))
    df["y"] += 300 * df["day"]
    explained = TitansForecaster(**{**SIZE, **HOW, "future_cols": ["day"]}).fit(df)
    assert explained.fitted_.regression is not None
    for refused in (lambda: explained.export(path, window_only=True), lambda: explained.export_inputs(df)):
        with pytest.raises(ValueError, match="Fit it without `static_cols`, `future_cols` and `calendar`"):
            refused()
    assert list(tmp_path.iterdir()) == []


def test_packages_that_are_absent_are_named(
    model: TitansForecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs onnx and onnxscript, .* `pip install titans-ts\[onnx\]`"):
        model.export(tmp_path / "model.onnx")


def test_a_file_is_replaced_in_one_step_or_stays(
    model: TitansForecaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    monkeypatch.setattr(graph, "_graph", lambda module: onnx.ModelProto())
    model.export(path)
    assert [prop.key for prop in onnx.load(path).metadata_props] == ["titans_ts"]
    before = path.read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        model.export(path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before

    monkeypatch.setattr(graph, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match=r"this graph takes 0\.0 GiB"):
        model.export(path)
