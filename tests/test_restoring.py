"""Folders by a hostile hand, whose hashes fit: they are refused in words, run nothing and take no memory."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from titans_ts import TitansForecaster
from titans_ts.model import ModelConfig, SimbaForecaster
from titans_ts.restoring import check_arrays, check_combination, check_times, restore_long_term, restore_network

ROWS = 60
SPARE = 2**30  # bytes that a load of these small models may take beyond what the process has
SMALL = dict(horizon=3, lookback=12, d_model=8, n_heads=2, n_layers=1, max_epochs=0, random_state=0, verbose=0)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="limits the memory of a process that it forks")


@pytest.fixture(scope="module")
def model() -> TitansForecaster:
    hours = pd.date_range("2024-01-01", periods=ROWS, freq="h", tz="Europe/Berlin")
    values = np.random.default_rng(0).normal(size=(ROWS, 2))
    df = pd.DataFrame(values, index=hours, columns=["a", "b"])
    return TitansForecaster(**SMALL, context="stream", cycle=4).fit(df)


@pytest.fixture
def folder(model: TitansForecaster, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def files_of(folder: Path) -> tuple[Path, Path]:
    return next(folder.glob("forecaster-*")), next(folder.glob("weights-*"))


def sign(folder: Path) -> None:
    """Give the manifest the hashes of what lies there."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files_of(folder)}
    path.write_text(json.dumps(manifest))


def forge(folder: Path, change: Callable[[Any, Any], Any]) -> None:
    description, weights = files_of(folder)
    content, tensors = json.loads(description.read_text()), safetensors.torch.load_file(weights)
    change(content, tensors)
    description.write_text(json.dumps(content))
    safetensors.torch.save_file(tensors, weights)
    sign(folder)


def set_tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Any], None]:
    def forged(_: Any, tensors: Any) -> None:
        tensors[name] = change(tensors[name]).contiguous()

    return forged


def set_all(part: str, **values: Any) -> Callable[[Any, Any], None]:
    return lambda content, _: content[part].update(values)


def with_nan(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x.view(-1)[0] = float("nan")
    return x


HUGE = [10**9, 10**18, 10**40]
CONFIGURED = ["lookback", "horizon", "n_series", "cycle", "d_model", "n_layers", "memory_depth", "patch_len"]
FORGED: dict[str, Callable[[Any, Any], Any]] = {
    **{f"{name} {size:g}": set_all("config", **{name: size}) for name in CONFIGURED for size in HUGE},
    **{
        f"memory's {name}": set_all("long_term", **{name: value})
        for name, value in (("depth", 10**9), ("recall", 10**9), ("lookback", 10**9), ("rates", [1.0] * 10**5))
    },
    "n_series everywhere": lambda content, _: [
        content[part].update(n_series=10**9) for part in ("config", "long_term")
    ],
    "weights of float64": set_tensor("network.linear.weight", torch.Tensor.double),
    "integer weights": set_tensor("network.linear.weight", torch.Tensor.long),
    "weights of another shape": set_tensor("network.linear.weight", lambda x: x[:-1]),
    "NaN in the network": set_tensor("network.linear.weight", with_nan),
    "NaN in the memory": set_tensor("long_term.blocks.0.whitening", with_nan),
    "NaN held": set_tensor("held.0.weights.0", with_nan),
    "NaN among the rows": set_tensor("values", with_nan),
    "NaN as a scale": set_tensor("std", with_nan),
    "another tensor": lambda _, tensors: tensors.update({"network.more": torch.zeros(2)}),
    "rows of float32": set_tensor("values", torch.Tensor.float),
    "negative lengths": set_tensor("lengths", lambda x: -x),
    "huge lengths": set_tensor("lengths", lambda x: x * 0 + 2**62),
    "float lengths": set_tensor("lengths", torch.Tensor.double),
    "times before all clocks": set_tensor("starts", lambda x: x * 0 - 2**58),
    "times after all clocks": set_tensor("starts", lambda x: x * 0 + 2**61),
    "errors of another series": set_tensor("calibration.series", lambda x: x + 10),
    "errors of a series twice": set_tensor("calibration.series", torch.zeros_like),
    "a negative size": set_tensor("calibration.sizes", lambda x: -1 - x),
    "sizes of fewer series": set_tensor("calibration.sizes", lambda x: x[:1]),
    "NaN as a size": set_tensor("calibration.sizes", with_nan),
    "errors of more outputs": set_tensor("calibration.errors", lambda x: torch.cat([x, x], -1)),
    "levels of a point": set_all("calibration", levels=[0.1, 0.5, 0.9]),
    "a season of nothing": set_all("combination", periods=[0]),
    "a season without end": set_all("combination", periods=[10**9]),
    "more weights than methods": set_all("combination", weights=[0.25] * 4),
    "weights of text": set_all("combination", weights=["a", "b", "c"]),
    "signs of fewer series": set_tensor("positive", lambda x: x[:1]),
    "forecasts without end": set_tensor("statistical.values.scored", lambda x: x + 10**9),
    "a bound of text": set_all("bounds", lower="x"),
    "bounds the wrong way round": set_all("bounds", lower=5, upper=1),
    "a span of nothing": set_all("calendar", span=0),
    "ids without end": set_all("ids", index={"name": None, "dtype": "int64", "range": [0, 10**15, 1]}),
    "a file as zone": set_all("calendar", dtype={"dtype": "datetime64[us, dateutil//etc/passwd]"}),
    "a path as zone": set_all("calendar", dtype={"dtype": "datetime64[us, dateutil/../../etc/passwd]"}),
    "a path as zone by name": set_all("calendar", dtype={"dtype": "datetime64[us, ../../etc/passwd]"}),
    "a class as offset": set_all("parameters", freq={"offset": ["os.system", 1, [["cmd", "true"]]]}),
    "nested deep": set_all("parameters", freq=json.loads("[" * 900 + "]" * 900)),
    "an unknown parameter": set_all("parameters", __class__="x"),
}


def refusals(folders: dict[str, Path]) -> dict[str, str]:
    """How a process with little memory left to take, in which nothing may be run, loads each folder."""
    TitansForecaster.load(folders.pop("whole"))  # whatever is imported on first use
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns where there are threads
        child = os.fork()
    if child == 0:
        import resource

        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + SPARE, size + SPARE))

        def refuse(event: str, arguments: Any) -> None:
            if event in {"exec", "compile", "pickle.find_class", "os.system", "subprocess.Popen"}:
                os._exit(1)

        sys.addaudithook(refuse)
        found = {}
        for name, path in folders.items():
            begun = time.process_time()
            try:
                TitansForecaster.load(path)
                found[name] = "loaded"
            except ValueError as error:
                found[name] = f"{type(error.__cause__).__name__}: {error}"
            if time.process_time() - begun > 20:
                found[name] = "took too long"
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "something was run, or raised without words"
    return json.loads(told)


@needs_fork
def test_what_does_not_fit_together_is_refused_without_taking_memory(model: TitansForecaster, tmp_path: Path) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("needs /proc")
    folders = {"whole": tmp_path / "whole"}
    model.save(folders["whole"])
    for i, (name, change) in enumerate(FORGED.items()):
        folders[name] = tmp_path / str(i)
        model.save(folders[name])
        forge(folders[name], change)
    found = refusals(folders)
    assert found.keys() == FORGED.keys()
    for name, told in found.items():
        assert "must describe a forecaster, but cannot be read as one" in told, name
        assert not told.startswith(("MemoryError", "RuntimeError: can't alloc")), (name, told)
        assert "can't allocate memory" not in told, (name, told)


def raw(folder: Path, text: str) -> None:
    files_of(folder)[0].write_text(text)
    sign(folder)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        f'{{"n": {"9" * 5_000}}}',
        "null",
        "[]",
        "",
    ],
    ids=["lists in lists", "objects in objects", "a giant number", "null", "a list", "nothing"],
)
def test_json_of_any_sort_is_refused(text: str, folder: Path) -> None:
    raw(folder, text)
    with pytest.raises(ValueError, match="must describe a forecaster, but cannot be read as one"):
        TitansForecaster.load(folder)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"manifest\.json' must"):
        TitansForecaster.load(folder)


class Bomb:
    def __reduce__(self) -> Any:
        return os._exit, (1,)


def header(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


WEIGHTS = {
    "a pickle": pickle.dumps(Bomb()),
    "a huge tensor": header({"mean": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}),
    "a tensor of another size": header({"mean": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8]}})
    + b"\0" * 8,
    "a negative place": header({"mean": {"dtype": "F64", "shape": [1], "data_offsets": [-8, 0]}}),
    "a shape that overflows": header({"mean": {"dtype": "F64", "shape": [2**63, 2**63], "data_offsets": [0, 0]}}),
    "a header without end": struct.pack("<Q", 2**63) + b"{}",
    "no header": b"",
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_are_none_are_refused(kind: str, folder: Path) -> None:
    files_of(folder)[1].write_bytes(WEIGHTS[kind])
    sign(folder)
    with pytest.raises(ValueError, match="must describe a forecaster, but cannot be read as one"):
        TitansForecaster.load(folder)


@pytest.mark.skipif(not Path("/dev/zero").exists() or not hasattr(os, "mkfifo"), reason="needs devices and pipes")
@pytest.mark.parametrize("which", ["forecaster-*", "weights-*", "manifest.json"])
def test_what_never_ends_is_not_read(which: str, folder: Path) -> None:
    path = next(folder.glob(which))
    for make in (lambda: path.symlink_to("/dev/zero"), lambda: os.mkfifo(path), lambda: path.symlink_to(path)):
        path.unlink()
        make()
        with pytest.raises(ValueError, match=rf"{path.name}' must .* is missing"):
            TitansForecaster.load(folder)


@pytest.mark.parametrize("name", ["../other.json", "/etc/passwd", "forecaster-0123456789abcdef.json/../x"])
def test_a_manifest_names_no_file_elsewhere(name: str, folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"] = {name: "0" * 64, **dict(list(manifest["files"].items())[1:])}
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="must name its version and a model's two files, but was edited"):
        TitansForecaster.load(folder)


def test_a_network_comes_back_by_its_weights() -> None:
    config = ModelConfig(lookback=12, horizon=3, d_model=8, n_heads=2, n_layers=1)
    torch.manual_seed(3)
    weights = SimbaForecaster(config).state_dict()
    found = restore_network(config, weights).state_dict()
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)
    with pytest.raises(ValueError, match=r"`n_layers` must be at most the number of tensors, \d+, got 1000000"):
        restore_network(ModelConfig(lookback=12, horizon=3, d_model=8, n_heads=2, n_layers=10**6), weights)
    with pytest.raises(ValueError, match=r"tensor 'linear.weight' must have shape .* of torch.float32, got .*float64"):
        restore_network(config, weights | {"linear.weight": weights["linear.weight"].double()})


def test_arrays_are_held_against_the_number_of_series() -> None:
    arrays = dict(
        values=np.zeros(5), mean=np.zeros(2), std=np.ones(2), lengths=np.array([2, 3]), starts=np.array([0, 0])
    )
    check_arrays(arrays, 2, 2)
    with pytest.raises(ValueError, match="`lengths` and the series' names must be of 3 series"):
        check_arrays(arrays, 2 + 1, 2)
    with pytest.raises(ValueError, match="`values` must have 5 entries as the series say, got 4"):
        check_arrays(arrays | {"values": np.zeros(4)}, 2, 2)
    with pytest.raises(ValueError, match=r"`observed` must be an array of bool of 1 dimensions, got \(5,\) of float64"):
        check_arrays(arrays | {"observed": np.ones(5)}, 2, 2)
    with pytest.raises(ValueError, match="`std` must be finite numbers, but has NaN or infinity"):
        check_arrays(arrays | {"std": np.array([1, np.inf])}, 2, 2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"periods": (4, 10)}, r"`periods` must be multiples of one another from 2 to 28, got \(4, 10\)"),
        ({"periods": (32,)}, r"`periods` must be multiples of one another from 2 to 28, got \(32,\)"),
        ({"weights": np.array([0.5, 0.5, 0.5])}, r"`weights` must be 3 shares whose sum is 1, got \[0.5, 0.5, 0.5\]"),
        ({"weights": np.full(3, np.nan)}, "`weights` must be 3 shares whose sum is 1, got"),
        ({"positive": np.ones(2)}, r"`positive` must be 2 of bool, got \(2,\) of float64"),
        (
            {"statistical": {"values.scored": np.array([1, 4])}},
            r"`values.scored` must be steps from 1 to 3, got \[1, 4\]",
        ),
    ],
)
def test_a_combination_is_held_against_the_network(wrong: dict[str, Any], words: str) -> None:
    config = ModelConfig(lookback=12, horizon=3, n_series=2, cycle=4, d_model=8, n_heads=2, n_layers=1)
    right: dict[str, Any] = dict(
        periods=(4, 28),
        weights=np.array([0.5, 0.25, 0.25]),
        positive=np.ones(2, dtype=bool),
        statistical={"values.scored": np.array([1, 3])},
    )
    check_combination(**right, config=config)
    with pytest.raises(ValueError, match=words):
        check_combination(**{**right, **wrong}, config=config)


def test_a_long_term_memory_is_held_against_the_network(model: TitansForecaster) -> None:
    held = model.fitted_.long_term
    assert held is not None
    network, config = model.network_.config, held.memory.config
    weights, state = dict(held.memory.state_dict()), held.state.tensors()
    found = restore_long_term(config, network, weights, state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in found.state.tensors().items())
    with pytest.raises(ValueError, match="`long_term` must have the network's cycle, 4, got 5"):
        restore_long_term(replace(config, cycle=5), network, weights, state)
    with pytest.raises(ValueError, match=r"must have a tensor 'blocks.0.log_rate' of shape \(2,\), or more"):
        restore_long_term(replace(config, rates=(0.1, 0.2), forgetting=(0.1,)), network, weights, state)
    with pytest.raises(ValueError, match=r"`depth` of the long-term memory must be at most \d+, got 1000000\."):
        restore_long_term(replace(config, depth=10**6), network, weights, state)
    with pytest.raises(ValueError, match=r"`0.keys.0` must have shape"):
        restore_long_term(config, network, weights, state | {"0.keys.0": state["0.keys.0"][:1]})


def test_times_of_a_zone_are_those_that_clocks_can_be_looked_up_for(model: TitansForecaster) -> None:
    panel = model.fitted_.panel
    assert panel.calendar.local
    check_times(panel.calendar, panel.data)
    far = replace(panel.data, starts=panel.data.starts + 2**40)
    with pytest.raises(ValueError, match="`starts` must lie within 3660000 days of 1970, got 1099"):
        check_times(panel.calendar, far)
    check_times(replace(panel.calendar, local=False), far)
