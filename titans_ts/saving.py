"""A fitted forecaster to a folder of JSON and safetensors, and back; nothing in the folder is ever run.

    manifest.json              the format, its version, and the SHA-256 of the two files it names
    forecaster-TOKEN.json      parameters, shape of the network, calendar, layout, ids, history and choices
    weights-TOKEN.safetensors  the network, the last rows of each series and their scale

Every save has a TOKEN of its own, so it writes beside the model that is there and touches none of its files. The new
model takes its place when the manifest is replaced, which a file system does in one step; then the old files go.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from pandas.tseries.frequencies import to_offset
from torch import Tensor

from . import __version__
from .bounds import Bounds
from .combination import Combination
from .devices import isolated
from .fitted import FittedModel
from .intervals.calibration import Calibration
from .model import ModelConfig
from .model.long_term_config import LongTermConfig
from .packing import UNNAMED_OFFSETS, pack, pack_fields, unpack, unpack_all
from .paths import check_path
from .regression.dynamic import DynamicRegression
from .restoring import check_arrays, check_combination, check_times, restore_long_term, restore_network
from .statistical.model import StatisticalModel
from .tables.calendar import Calendar
from .tables.covariate_columns import Covariates
from .tables.layouts import Layout
from .tables.panel import Panel
from .tables.series_data import SeriesData
from .training.choices import Choice
from .training.history import Evaluation, History
from .training.losses import MissingLoss, loss_name
from .windows.scaler import Scaler

# 2 fills values and has text as times; 3 renames; 4 combines; 5 streams; 6 has covariates, losses and intervals;
# 7 has variants of the memory.
FORMAT, VERSION = "titans_ts forecaster", 7
MANIFEST = "manifest.json"
STALE = 3600  # seconds after which a file that no manifest names is not of a save under way
REMEDY = "Save the model again to another path, or bring the folder back from a copy."

REGRESSION = "regression."  # begins those of the regression's arrays
FUNCTION = "function"  # the key of a function's name, all that is kept of it
CALIBRATION = "calibration."  # begins the names of the arrays that intervals are made from
STATISTICAL = "statistical."  # begins those of the statistical model's arrays
NETWORK = "network."  # begins the names of the network's tensors
MEMORY, HELD = "long_term.", "held."  # those of the long-term memory's, and of what it holds of each series
# What versions 1 and 2 called otherwise, and parameters that they had and did not use.
RENAMED = {
    "config": {"linear_level": "linear_window_mean", "linear_across": "linear_cross_series"},
    "history": {"start_is_candidate": "initialisation_is_candidate", "checks": "evaluations"},
}
RENAMED_TENSORS = {
    f"{NETWORK}linear.own": f"{NETWORK}linear.per_series",
    f"{NETWORK}across.weight": f"{NETWORK}cross_series.weight",
}
RESERVED = (
    *("static_cols", "past_cols", "future_cols", "variant"),
    *("context", "channel_mixing", "warm_start", "checkpoint_dir"),
)

_FILE = re.compile(r"(forecaster|weights|manifest)-[0-9a-f]{16}\.(json|safetensors)")

_Estimator = TypeVar("_Estimator")


@isolated()
def save_model(parameters: dict[str, Any], fitted: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write an estimator's parameters and what it fitted into the folder `path`.

    Errors as `TitansForecaster.save` lists them.
    """
    folder = check_path(path, "a folder")
    description, tensors = _describe(parameters, fitted)
    token = secrets.token_hex(8)
    files = {
        f"forecaster-{token}.json": _json(description),
        f"weights-{token}.safetensors": safetensors.torch.save(tensors),
    }
    hashes = {name: _hash(data) for name, data in files.items()}
    draft = f"manifest-{token}.json"
    files[draft] = _json({"format": FORMAT, "version": VERSION, "titans_ts": __version__, "files": hashes})

    replaced, is_new = check_folder(folder), not folder.exists()
    try:
        if is_new:
            folder.mkdir(parents=True, exist_ok=True)
            _sync(folder.parent)
        for name, data in files.items():
            _write(folder / name, data)
        _sync(folder)
        os.replace(folder / draft, folder / MANIFEST)
        _sync(folder)
    except BaseException:
        _discard(folder, files)
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise
    _discard(folder, replaced)


@isolated()
def load_model(estimator: Callable[..., _Estimator], path: str | os.PathLike[str]) -> tuple[_Estimator, FittedModel]:
    """The estimator that was saved in `path`, made by its class `estimator`, and what it fitted, on the CPU.

    Errors as `TitansForecaster.load` lists them.
    """
    folder = check_path(path, "a folder")
    if not _exists(folder):
        raise FileNotFoundError(
            f"`path` must be a folder that `save` wrote, but {str(folder)!r} does not exist. Check its spelling."
        )
    text, data = _read(folder)
    try:
        description, tensors = _upgrade(json.loads(text), safetensors.torch.load(data))
        parameters = {name: _given(value) for name, value in description["parameters"].items()}
        return estimator(**parameters), _restore(description, tensors)
    except Exception as error:  # the files are as they were written, but what wrote them was not `save`
        raise ValueError(
            f"'{folder}' must describe a forecaster, but cannot be read as one ({type(error).__name__}: {error}). "
            f"Save it again with titans_ts {__version__}."
        ) from error


def _exists(folder: Path) -> bool:
    """Whether it does; what is longer than a name can be, or holds a null, does not."""
    try:
        return folder.exists()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return False
        raise


def _describe(parameters: dict[str, Any], fitted: FittedModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of a saved model, for JSON and for safetensors."""
    panel, scaler, history = fitted.panel, fitted.scaler, fitted.history
    index = panel.layout.index
    description = {
        "parameters": {name: _parameter(name, value) for name, value in parameters.items()},
        "config": pack_fields(fitted.network.config),
        "calendar": pack_fields(panel.calendar),
        "layout": pack_fields(panel.layout),
        "carries_freq": isinstance(index, pd.DatetimeIndex) and index.freq is not None,
        "ids": pack(panel.ids, "series names"),
        "bounds": pack_fields(fitted.bounds),
        "history": {
            **pack_fields(history, but="evaluations"),
            "evaluations": [pack_fields(evaluation) for evaluation in history.evaluations],
        },
        "choices": [pack_fields(choice) for choice in fitted.choices],
    }
    combination = fitted.combination
    if combination is not None:
        description["combination"] = {
            "periods": pack(combination.model.periods, "periods"),
            "weights": combination.weights.tolist(),
        }
    if panel.covariates is not None:
        description["covariates"] = pack_fields(panel.covariates)
    data = panel.data
    arrays = {"values": data.values, "lengths": data.lengths, "starts": data.starts}
    if data.observed is not None:
        arrays["observed"] = data.observed
    if data.covariates is not None:
        arrays["covariates"] = data.covariates
    arrays |= {"mean": scaler.mean, "std": scaler.std}
    if fitted.regression is not None:
        description["regression"] = fitted.regression.description()
        arrays |= {f"{REGRESSION}{name}": array for name, array in fitted.regression.arrays().items()}
    if combination is not None:
        arrays["positive"] = combination.positive
        arrays |= {f"{STATISTICAL}{name}": array for name, array in combination.model.arrays().items()}
    if fitted.calibration is not None:
        scalars = fitted.calibration.scalars()
        description["calibration"] = {name: pack(value, name) for name, value in scalars.items()}
        arrays |= {f"{CALIBRATION}{name}": array for name, array in fitted.calibration.arrays().items()}
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    parts = {NETWORK: fitted.network.state_dict()}
    if fitted.long_term is not None:
        description["long_term"] = pack_fields(fitted.long_term.memory.config)
        parts |= {MEMORY: fitted.long_term.memory.state_dict(), HELD: fitted.long_term.state.tensors()}
    for prefix, part in parts.items():
        tensors |= {f"{prefix}{name}": value.cpu().contiguous().clone() for name, value in part.items()}
    return description, tensors


def _restore(description: dict[str, Any], tensors: dict[str, Tensor]) -> FittedModel:
    """The fitted model that was described."""
    config, ids = ModelConfig(**unpack_all(description["config"])), unpack(description["ids"])
    network = restore_network(config, _part(tensors, NETWORK))
    arrays = {name: value.numpy() for name, value in tensors.items() if not name.startswith((NETWORK, MEMORY, HELD))}
    check_arrays(arrays, config.n_series, len(ids))
    long_term = None
    if found := description.get("long_term"):
        shape = LongTermConfig(**unpack_all(found))
        long_term = restore_long_term(shape, config, _part(tensors, MEMORY), _part(tensors, HELD))
    calendar, layout = Calendar(**unpack_all(description["calendar"])), Layout(**unpack_all(description["layout"]))
    if description["carries_freq"] and layout.index is not None:
        layout.index.freq = calendar.offset
    scaler = Scaler(arrays.pop("mean"), arrays.pop("std"))
    data = SeriesData(arrays["values"], arrays["lengths"], arrays["starts"], arrays.get("observed"))
    check_times(calendar, data)
    clock = calendar.local_clock(int(data.starts.min()), int(data.ends.max()))
    data = replace(data, clock=clock, covariates=arrays.get("covariates"))
    covariates = Covariates.of_fields(unpack_all(found)) if (found := description.get("covariates")) else None
    panel = Panel(data, ids, calendar, layout, covariates)
    regression = None
    if (found := description.get("regression")) and covariates is not None:
        held = {n.removeprefix(REGRESSION): array for n, array in arrays.items() if n.startswith(REGRESSION)}
        regression = DynamicRegression.of_arrays(covariates.columns, unpack_all(found), held)
    history = description["history"]
    evaluations = [Evaluation(**unpack_all(evaluation)) for evaluation in history.pop("evaluations")]
    bounds = Bounds(**unpack_all(description.get("bounds", {})))
    bounds = Bounds.of(bounds.lower, bounds.upper, panel)
    choices = tuple(Choice(**unpack_all(choice)) for choice in description.get("choices", []))
    history, combination = History(evaluations, **unpack_all(history)), None
    if found := description.get("combination"):
        statistical = {n.removeprefix(STATISTICAL): array for n, array in arrays.items() if n.startswith(STATISTICAL)}
        periods, weights = unpack(found["periods"]), np.array(found["weights"])
        check_combination(periods, weights, arrays["positive"], statistical, config)
        combination = Combination(StatisticalModel.of_arrays(periods, statistical), weights, arrays["positive"])
    calibration = None
    if found := description.get("calibration"):
        kept = {n.removeprefix(CALIBRATION): array for n, array in arrays.items() if n.startswith(CALIBRATION)}
        calibration = Calibration.of_arrays(kept, unpack_all(found), config.horizon, config.n_series)
    return FittedModel(
        network.eval(),
        scaler,
        panel,
        history,
        bounds,
        choices,
        combination,
        long_term,
        regression,
        calibration,
    )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _upgrade(description: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content that older versions wrote, under the names and in the types of this one."""
    seasonal = tensors.get(f"{NETWORK}cycle.seasonal")
    if seasonal is not None and seasonal.dtype == torch.bool:  # before it was a share
        tensors[f"{NETWORK}cycle.seasonal"] = seasonal.float()
    if "checks" not in description["history"]:
        return description, tensors
    for part, names in RENAMED.items():
        description[part] = {names.get(name, name): value for name, value in description[part].items()}
    parameters = description["parameters"]
    description["parameters"] = {name: value for name, value in parameters.items() if name not in RESERVED}
    tensors = {RENAMED_TENSORS.get(name, name): value for name, value in tensors.items()}
    profile = tensors.get(f"{NETWORK}cycle.profile")
    if profile is not None:
        seasonal = description.pop("seasonal", bool(profile.any()))  # version 1 did not write it
        tensors[f"{NETWORK}cycle.seasonal"] = torch.tensor(float(seasonal))
    return description, tensors


def check_folder(folder: Path) -> list[str]:
    """The files that go once a model is saved in `folder`: those of the one before, and of saves that were killed.

    Raises
    ------
    FileExistsError
        If it is a file, or a folder of anything else.
    """
    try:
        manifest = _manifest(folder)
        names = os.listdir(folder) if folder.exists() else []
        foreign = [name for name in names if not _FILE.fullmatch(name)]
        if manifest or not foreign:
            return [*manifest, *(name for name in names if _FILE.fullmatch(name) and _is_stale(folder / name))]
        reason = f"it has {foreign[0]!r} and no model."
    except ValueError as error:
        reason = str(error)
    raise FileExistsError(
        f"`path` must be a new or empty folder or one that `save` wrote, got {str(folder)!r}: {reason} "
        "Nothing was written; choose another path."
    )


def _is_stale(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > STALE
    return False


def _manifest(folder: Path) -> dict[str, str]:
    """The hashes of the saved files; empty where no model is saved."""
    path = folder / MANIFEST
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'{folder}' must be a folder, but is a file. Check the path.")
    try:
        manifest = json.loads(_bytes(path))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' must be JSON, but was truncated or edited ({error}). {REMEDY}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"'{path}' must have the format {FORMAT!r}, but is of another kind. Check the path.")
    version, files = manifest.get("version"), manifest.get("files")
    if isinstance(version, int) and version > VERSION:
        raise ValueError(
            f"'{path}' must have version {VERSION} or older, got {version}, written by titans_ts "
            f"{manifest.get('titans_ts')}. Upgrade titans_ts, which is {__version__} here."
        )
    files = files if isinstance(files, dict) else {}
    parts = [_FILE.fullmatch(name) for name in files]
    if version not in range(1, VERSION + 1) or [part and part[1] for part in parts] != ["forecaster", "weights"]:
        raise ValueError(f"'{path}' must name its version and a model's two files, but was edited. {REMEDY}")
    return files


def _read(folder: Path) -> list[bytes]:
    """The two files that the manifest names, as they were written."""
    manifest, contents = _manifest(folder), []
    if not manifest:
        raise ValueError(
            f"'{folder / MANIFEST}' must name a model's files, but is missing: `save` never ended in this folder. "
            "Check the path, or save the model again."
        )
    for name, expected in manifest.items():
        path = folder / name
        try:
            contents.append(_bytes(path))
        except FileNotFoundError:
            if _manifest(folder) != manifest:  # a save has just replaced the model
                return _read(folder)
            raise ValueError(f"'{path}' must be there as {MANIFEST} says, but is missing. {REMEDY}") from None
        if _hash(contents[-1]) != expected:
            raise ValueError(
                f"'{path}' must have the SHA-256 that {MANIFEST} says, but has another: it was truncated or edited. "
                f"{REMEDY}"
            )
    return contents


def _bytes(path: Path) -> bytes:
    """A file's content; FileNotFoundError for a folder, and for a device or pipe, which might never end."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the names in a folder outlive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # so some network file systems answer for folders
            raise
    finally:
        os.close(descriptor)


def _discard(folder: Path, names: Iterable[str]) -> None:
    """Remove those of the files that the manifest does not name; one that stays does no harm."""
    with suppress(OSError, ValueError):
        for name in set(names) - set(_manifest(folder)):
            (folder / name).unlink(missing_ok=True)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=1, allow_nan=False).encode()


def _parameter(name: str, value: Any) -> Any:
    """A parameter of the estimator as JSON."""
    if name == "random_state" and not isinstance(value, (int, np.integer)):
        return None
    if isinstance(value, np.timedelta64):  # which is an integer, too
        value = pd.Timedelta(value)
    if name == "freq" and not (value is None or isinstance(value, (str, int, np.integer))):
        offset = to_offset(value)
        value = offset if type(offset) in UNNAMED_OFFSETS else offset.freqstr
    if isinstance(value, list):  # of names of columns
        return {"list": [pack(part, name) for part in value]}
    if name == "device" and value is not None:
        value = str(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if name == "loss" and callable(value):
        return {FUNCTION: loss_name(value)}
    return pack(value, name)


def _given(packed: Any) -> Any:
    """The parameter that `_parameter` was given; of a function, what stands for it."""
    if isinstance(packed, dict) and FUNCTION in packed:
        return MissingLoss(str(packed[FUNCTION]))
    return unpack(packed)
