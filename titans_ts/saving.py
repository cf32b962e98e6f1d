"""A fitted forecaster to a folder of JSON and safetensors, and back; nothing in the folder is ever run.

    manifest.json              the format, its version, and the SHA-256 of the two files it names
    forecaster-TOKEN.json      parameters, shape of the network, calendar, layout, ids and history
    weights-TOKEN.safetensors  the network, the last rows of each series and their scale

Every save has a TOKEN of its own, so it writes beside the model that is there and touches none of its files. The new
model takes its place when the manifest is replaced, which a file system does in one step; then the old files go.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from pandas.api.extensions import ExtensionDtype
from pandas.api.types import pandas_dtype
from pandas.tseries.frequencies import to_offset
from torch import Tensor

from . import __version__
from .calendar import Calendar
from .frames import Panel
from .layouts import Layout
from .model import ModelConfig, SimbaForecaster
from .training import Check, History, seeded
from .windows import Scaler

if TYPE_CHECKING:
    from .forecaster import TitansForecaster

FORMAT, VERSION = "titans_ts forecaster", 2  # 2 knows filled values, text as times, and seasonal_
MANIFEST = "manifest.json"
STALE = 3600  # seconds after which a file that no manifest names is not of a save under way
REMEDY = "Save the model again to another path, or bring the folder back from a copy."

_FILE = re.compile(r"(forecaster|weights|manifest)-[0-9a-f]{16}\.(json|safetensors)")

_Forecaster = TypeVar("_Forecaster", bound="TitansForecaster")


def save_model(forecaster: TitansForecaster, path: str | os.PathLike[str]) -> None:
    """Write a fitted forecaster into the folder `path`; errors as `TitansForecaster.save` lists them."""
    description, tensors = _describe(forecaster)
    token, folder = secrets.token_hex(8), Path(path)
    files = {
        f"forecaster-{token}.json": _json(description),
        f"weights-{token}.safetensors": safetensors.torch.save(tensors),
    }
    hashes = {name: _hash(data) for name, data in files.items()}
    draft = f"manifest-{token}.json"
    files[draft] = _json({"format": FORMAT, "version": VERSION, "titans_ts": __version__, "files": hashes})

    replaced, is_new = _claim(folder), not folder.exists()
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


def load_model(kind: type[_Forecaster], path: str | os.PathLike[str]) -> _Forecaster:
    """The forecaster saved in `path`, of class `kind` and on the CPU; errors as `TitansForecaster.load` lists them."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(
            f"`path` must be a folder that `save` wrote, but {str(folder)!r} does not exist. Check its spelling."
        )
    text, data = _read(folder)
    try:
        return _restore(kind, json.loads(text), safetensors.torch.load(data))
    except Exception as error:  # the files are as they were written, but what wrote them was not `save`
        raise ValueError(
            f"'{folder}' must describe a forecaster, but cannot be read as one ({type(error).__name__}: {error}). "
            f"Save it again with titans_ts {__version__}."
        ) from error


def _describe(forecaster: TitansForecaster) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What `_restore` needs, for JSON and for safetensors."""
    panel, scaler, history = forecaster.panel_, forecaster.scaler_, forecaster.history_
    index = panel.layout.index
    description = {
        "parameters": {name: _parameter(name, value) for name, value in forecaster.get_params(deep=False).items()},
        "config": _fields(forecaster.network_.config),
        "calendar": _fields(panel.calendar),
        "layout": _fields(panel.layout),
        "carries_freq": isinstance(index, pd.DatetimeIndex) and index.freq is not None,
        "ids": _pack(panel.ids, "series names"),
        "seasonal": forecaster.seasonal_,
        "history": {**_fields(history, but="checks"), "checks": [_fields(check) for check in history.checks]},
    }
    arrays = {"values": panel.values, "lengths": panel.lengths, "starts": panel.starts}
    if panel.observed is not None:
        arrays["observed"] = panel.observed
    tensors = {name: torch.tensor(array) for name, array in {**arrays, "mean": scaler.mean, "std": scaler.std}.items()}
    network = forecaster.network_.state_dict()
    return description, tensors | {f"network.{name}": value.cpu().contiguous() for name, value in network.items()}


def _restore(kind: type[_Forecaster], description: dict[str, Any], tensors: dict[str, Tensor]) -> _Forecaster:
    """A forecaster fitted as the one described was."""
    config = ModelConfig(**_unpack_all(description["config"]))
    with seeded(0, torch.device("cpu")):  # the weights drawn here are replaced
        network = SimbaForecaster(config)
    prefix = "network."
    network.load_state_dict({n.removeprefix(prefix): value for n, value in tensors.items() if n.startswith(prefix)})
    arrays = {name: value.numpy() for name, value in tensors.items() if not name.startswith(prefix)}
    calendar, layout = Calendar(**_unpack_all(description["calendar"])), Layout(**_unpack_all(description["layout"]))
    if description["carries_freq"] and layout.index is not None:
        layout.index.freq = calendar.freq
    ids, scaler = _unpack(description["ids"]), Scaler(arrays.pop("mean"), arrays.pop("std"))
    panel = Panel(**arrays, ids=ids, calendar=calendar, layout=layout)
    history = description["history"]
    checks = [Check(**_unpack_all(check)) for check in history.pop("checks")]

    forecaster = kind(**_unpack_all(description["parameters"]))
    forecaster.horizon_, forecaster.lookback_, forecaster.freq_ = config.horizon, config.lookback, calendar.freq
    forecaster.network_, forecaster.history_ = network.eval(), History(checks, **_unpack_all(history))
    forecaster.scaler_, forecaster.panel_, forecaster.n_features_in_ = scaler, panel, panel.n_series
    cycle = network.cycle
    forecaster.seasonal_ = description.get("seasonal", cycle is not None and bool(cycle.profile.any()))  # not in 1
    if panel.feature_names is not None:
        forecaster.feature_names_in_ = panel.feature_names
    return forecaster


def _claim(folder: Path) -> list[str]:
    """What goes once a model is saved in `folder`: the one before it, and what killed saves have left.

    A file, or a folder of anything else, is refused.
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
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError):
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
            contents.append(path.read_bytes())
        except (FileNotFoundError, IsADirectoryError):
            if _manifest(folder) != manifest:  # a save has just replaced the model
                return _read(folder)
            raise ValueError(f"'{path}' must be there as {MANIFEST} says, but is missing. {REMEDY}") from None
        if _hash(contents[-1]) != expected:
            raise ValueError(
                f"'{path}' must have the SHA-256 that {MANIFEST} says, but has another: it was truncated or edited. "
                f"{REMEDY}"
            )
    return contents


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
    if name == "freq" and not (value is None or isinstance(value, (str, int, np.integer))):
        value = to_offset(value).freqstr
    if name == "device" and value is not None:
        value = str(value)
    return _pack(value, name)


def _fields(instance: Any, but: str | None = None) -> dict[str, Any]:
    """A dataclass as JSON."""
    names = [field.name for field in fields(instance) if field.name != but]
    return {name: _pack(getattr(instance, name), name) for name in names}


def _pack(value: Any, what: str) -> Any:
    """`value` as JSON: a list is a tuple, and a dict has one key, which says what else its value is."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, tuple):
        return [_pack(part, what) for part in value]
    if isinstance(value, (pd.Timestamp, pd.Period)):
        return {"label": _pack(pd.Index([value]), what)}
    packed: dict[str, Any] = {}
    if isinstance(value, (np.dtype, ExtensionDtype)):
        packed = {"dtype": str(value)}
    elif isinstance(value, pd.Index):
        packed = {"index": _pack_index(value, what)}
    if not _same(packed, value):
        raise TypeError(
            f"`{what}` must be text, numbers, dates, periods, categories or tuples of these to be saved, got {value!r} "
            f"({type(value).__name__}). Convert it, for example with `.astype(str)`, and fit again."
        )
    return packed


def _pack_index(index: pd.Index, what: str) -> dict[str, Any]:
    packed: dict[str, Any] = {"name": _pack(index.name, what), "dtype": str(index.dtype)}
    if isinstance(index, pd.RangeIndex):
        return {**packed, "range": [index.start, index.stop, index.step]}
    if isinstance(index, pd.CategoricalIndex):
        categories = _pack(index.categories, what)
        return {**packed, "codes": index.codes.tolist(), "categories": categories, "ordered": bool(index.ordered)}
    if isinstance(index, (pd.DatetimeIndex, pd.PeriodIndex)):
        return {**packed, "ordinals": index.asi8.tolist()}
    return {**packed, "labels": [_pack(label, what) for label in index.tolist()]}


def _same(packed: dict[str, Any], value: Any) -> bool:
    """Whether an Index or a dtype comes back as it was."""
    try:
        back = _unpack(packed)
    except (TypeError, ValueError):  # the text of some time zones names none
        return False
    if isinstance(value, pd.Index):
        return type(back) is type(value) and str(back.dtype) == str(value.dtype) and back.equals(value)
    return bool(back == value)


def _unpack(value: Any) -> Any:
    """What `_pack` was given."""
    if isinstance(value, list):
        return tuple(_unpack(part) for part in value)
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    unpack = {"float": float, "dtype": pandas_dtype, "label": lambda packed: _unpack(packed)[0], "index": _unpack_index}
    return unpack[kind](content)


def _unpack_index(packed: dict[str, Any]) -> pd.Index:
    dtype = pandas_dtype(packed["dtype"])
    if "range" in packed:
        index = pd.RangeIndex(*packed["range"])
    elif "codes" in packed:
        categories = _unpack(packed["categories"])
        index = pd.CategoricalIndex(pd.Categorical.from_codes(packed["codes"], categories, packed["ordered"]))
    elif "ordinals" in packed:
        counts = "period" if isinstance(dtype, pd.PeriodDtype) else "instant"
        index = Calendar("", dtype, counts, span=1, anchor=0).labels(np.array(packed["ordinals"], dtype=np.int64))
    else:
        index = pd.Index(list(_unpack(packed["labels"])), dtype=dtype, tupleize_cols=False)
    index.name = _unpack(packed["name"])
    return index


def _unpack_all(packed: dict[str, Any]) -> dict[str, Any]:
    return {name: _unpack(value) for name, value in packed.items()}
