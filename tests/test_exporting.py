"""Forecasts as ONNX graphs: what onnxruntime makes of one is what `predict` says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from titans_ts import TitansForecaster, __version__
from titans_ts.export.graph import METADATA

from .export.small_models import HOW, SIZE, fitted, long, waves

NEAR = 1e-4  # of the scale of the series: float32, in another order


def run(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> np.ndarray:
    (forecast,) = session.run(["forecast"], feeds)
    return forecast


def assert_exports(model: TitansForecaster, df: pd.DataFrame, path: Path, ends: Sequence[int] = (1,)) -> Any:
    """One session forecasts as `predict` does, for the windows at several ends of a wide table, alone and together."""
    model.export(path)
    session = onnxruntime.InferenceSession(path)
    feeds = [model.export_inputs(df[: len(df) - end]) for end in ends]
    expected = [model.predict(df=df[: len(df) - end]).to_numpy().T for end in ends]
    for inputs, forecast in zip(feeds, expected, strict=True):
        error = np.abs(run(session, inputs) - forecast) / model.scaler_.scale[:, None]
        assert error.max() < NEAR
    if "all_past" not in feeds[0]:
        joined = {name: np.concatenate([inputs[name] for inputs in feeds]) for name in feeds[0]}
        together = run(session, joined)
        assert together == pytest.approx(np.concatenate(expected), abs=NEAR * model.scaler_.scale.min())
        alone = run(session, {name: array[:1] for name, array in joined.items()})
        assert alone == pytest.approx(expected[0][:1], abs=NEAR * model.scaler_.scale.min())
    return session


def test_the_closed_form_alone_has_none_of_the_network(tmp_path: Path) -> None:
    df, path = waves(), tmp_path / "model.onnx"
    model = TitansForecaster(**{**SIZE, **HOW}).fit(df)
    session = assert_exports(model, df, path, (1, 5, 30))
    assert model.network_.head.is_zero
    assert path.stat().st_size < 30_000
    assert [path] == list(tmp_path.iterdir())
    said = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
    assert {name: said[name] for name in ("horizon", "lookback", "freq", "ids", "levels", "part", "titans_ts")} == {
        **{"horizon": 6, "lookback": 24, "freq": "h", "ids": ["a", "b", "c"], "levels": None},
        **{"part": "all", "titans_ts": __version__},
    }
    feeds = model.export_inputs()
    for number in (-1, 3):  # of no series: refused, not taken for another
        with pytest.raises(Exception, match=r"(?i)invalid ind|bounds"):
            run(session, feeds | {"series": np.full(3, number)})
    assert said["cutoffs"] == ["2024-04-02 00:00:00+02:00"] * 3
    kinds = {"tensor(double)": "float64", "tensor(bool)": "bool", "tensor(int64)": "int64"}
    for node in (*session.get_inputs(), *session.get_outputs()):
        described = (said["inputs"] | said["outputs"])[node.name]
        assert described["dtype"] == kinds[node.type]
        assert described["shape"] == node.shape
    assert b".py" not in path.read_bytes(), "where it was traced"


def test_a_deep_memory_is_unrolled_over_its_chunks(tmp_path: Path) -> None:
    df = waves()
    model = fitted(df)
    assert model.network_.config.n_tokens + model.network_.config.n_leading == 7 < 2 * model.chunk_size
    assert_exports(model, df, tmp_path / "model.onnx", (1, 2, 40))


@pytest.mark.slow
def test_quantiles_of_series_with_weights_of_their_own_and_padded_windows(tmp_path: Path) -> None:
    """Memory as gate, one layer deep, between two attentions' worth of masks."""
    df = long(waves())
    short = df[(df.unique_id != "c") | (df.ds >= df.ds.max() - pd.Timedelta("9h"))]
    model = fitted(
        short,
        variant="mag",
        memory_depth=1,
        linear_path="per_series",
        loss="quantile",
        upper={"b": 1e6},
        missing="ffill",
    )
    model.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    feeds = model.export_inputs(short)
    assert feeds["mask"].sum(1).tolist() == [24, 24, 10]
    feeds["past"][~feeds["mask"]] = np.nan  # which may be anything
    forecast, quantiles = session.run(None, feeds)
    scale = model.scaler_.scale[:, None]
    assert np.abs(forecast - model.predict(df=short)["Titans"].to_numpy().reshape(3, 6)).max() < NEAR * scale.min()
    assert (np.abs(quantiles - model.fitted_.forecast(6)) / scale[:, :, None]).max() < NEAR
    assert quantiles.shape[2] == len(model.network_.config.levels or ())
    assert forecast[1].max() <= 1e6
    assert not np.array_equal(model.network_.linear.per_series[0], model.network_.linear.per_series[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        *[dict(memory_depth=depth, memory_expansion=width) for depth, width in ((1, 1), (2, 2), (3, 1))],
        *[dict(variant=variant, attention_window=window) for variant in ("mac", "mag", "mal") for window in (3, 16)],
        *[dict(mixer=mixer) for mixer in ("attention", "window_attention", "mamba", "none")],
        *[dict(feature_mixer=mixer) for mixer in ("mlp", "none")],
        dict(memory_gates="chunk"),
        dict(memory_conv=False, memory_momentum=False, memory_forgetting=False),
        dict(memory_writes=False, n_persistent=0),
        dict(loss="quantile", cycle=0),
        dict(linear_path=False),
        dict(linear_path="per_series"),
        dict(linear_path="across"),
        dict(n_layers=2, chunk_size=16, d_model=16),
    ],
    ids=lambda parameters: ", ".join(f"{name}={value}" for name, value in parameters.items()),
)
def test_whatever_the_network_is_made_of(parameters: dict[str, Any], tmp_path: Path) -> None:
    df = waves(160)
    assert_exports(fitted(df, **parameters), df, tmp_path / "model.onnx", (1, 5, 40))


@pytest.mark.slow
def test_windows_that_are_scaled_and_series_that_read_one_another(tmp_path: Path) -> None:
    df = waves(160)
    model = fitted(df, linear_path="across")
    config = model.network_.config
    assert config.linear_cross_series
    model.network_.norm.scale = True
    assert_exports(model, df, tmp_path / "model.onnx", (1, 5, 40))
    one = model.export_inputs(df[["b"]])
    assert np.isnan(one["all_past"]).any(1).tolist() == [True, False, True]
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    expected = model.predict(df=df[["b"]]).to_numpy().T
    assert run(session, one) == pytest.approx(expected, abs=NEAR * model.scaler_.scale.min())


@pytest.mark.slow
def test_past_covariates_are_inputs(tmp_path: Path) -> None:
    df = long(waves(160, "a")).drop(columns="unique_id")
    df["load"] = 1e9 + df.y.shift(3, fill_value=1e6)
    df["kind"] = np.where(np.arange(160) % 5 < 2, "left", "right")
    model = fitted(df, past_cols=["load", "kind"])
    model.export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in (160, 150, 14):
        forecast = run(session, model.export_inputs(df[:rows]))
        expected = model.predict(df=df[:rows]).Titans.to_numpy()[None]
        assert forecast == pytest.approx(expected, abs=NEAR * model.scaler_.scale[0])
    said = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
    assert [column["name"] for column in said["covariates"]] == ["load", "kind"]
    assert said["covariates"][1]["categories"] == ["left", "right"]


@pytest.mark.slow
def test_a_series_that_did_not_vary_is_its_value_or_unknown(tmp_path: Path) -> None:
    df = waves().assign(b=7.0)
    model = TitansForecaster(**{**SIZE, **HOW, "lower": 5.0, "upper": {"b": 6.5}}).fit(df)
    session, feeds = assert_exports(model, df, tmp_path / "model.onnx"), model.export_inputs(df)
    assert (run(session, feeds)[1] == 6.5).all()
    feeds["past"][1, 3] = 8
    assert np.isnan(run(session, feeds)).all(1).tolist() == [False, True, False]


@pytest.mark.slow
def test_clocks_that_change_twice_within_a_window(tmp_path: Path) -> None:
    """In Morocco clocks go back for Ramadan, a month between two changes."""
    index = pd.date_range("2024-02-01", periods=1600, freq="h", tz="Africa/Casablanca")
    wave = np.sin(2 * np.pi * (index.hour.to_numpy() + 0.3) / 24)
    df = pd.DataFrame({"a": wave + 0.01 * np.random.default_rng(0).normal(size=1600)}, index=index)
    model = TitansForecaster(**{**SIZE, **HOW, "lookback": 1200, "val_size": 10}).fit(df)
    assert_exports(model, df, tmp_path / "model.onnx", (1, 100, 300))


def part_of(model: TitansForecaster, **parts: Any) -> TitansForecaster:
    model.fitted_ = replace(model.fitted_, **parts)
    return model


@pytest.mark.slow
def test_the_network_alone_is_exported_where_that_is_asked_for(tmp_path: Path) -> None:
    months = pd.date_range("2015-01-01", periods=60, freq="MS")
    df = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 3)).cumsum(0) + 50, index=months, columns=[*"abc"])
    path = tmp_path / "model.onnx"
    model = TitansForecaster(**{**SIZE, **HOW, "combine": True, "context": "stream"}).fit(df)
    assert model.fitted_.combination is not None
    assert model.fitted_.long_term is not None
    model.export(path, window_only=True)
    session = onnxruntime.InferenceSession(path)
    assert json.loads(session.get_modelmeta().custom_metadata_map[METADATA])["part"] == "window"
    alone = part_of(model, combination=None, long_term=None)
    expected = alone.predict().to_numpy().T
    assert run(session, model.export_inputs()) == pytest.approx(expected, abs=NEAR * model.scaler_.scale.min())
