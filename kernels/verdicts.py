"""What is remembered of kernels that were checked: in the process, and in files for the next one.

A verdict holds for one model of GPU, its driver, the versions of torch and Triton and the kernels' source. Each is a
file of its own in `kernels` of the folder that TITANS_TS_CACHE names, else of `titans_ts` in the user's cache folder. A
file that cannot be read is not there, and where none can be written the process alone remembers.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .agreement import Case

CACHE_VARIABLE = "TITANS_TS_CACHE"
# What of the environment changes the code that Triton builds.
KNOBS = ("DISABLE_MMA_V3", "DISABLE_PTXAS_OPT", "TRITON_PTXAS_PATH")


@dataclass(frozen=True)
class Verdict:
    """Whether the kernels of a case agree with plain PyTorch, and in words what they get wrong.

    `lasting` is False for a failure that may pass, such as a missing compiler; it is forgotten with the process.
    """

    case: str
    agrees: bool
    words: str
    lasting: bool = True


class Verdicts:
    """The verdicts of this process and of the folder on disk."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, Case], Verdict] = {}
        self._identities: dict[torch.device, str] = {}

    def get(self, case: Case, device: torch.device) -> Verdict | None:
        key = self._identity(device), case
        verdict = self._held.get(key)
        path = self._file(case, device)
        if verdict is None and path is not None and (found := _read(path)) is not None:
            self._held[key] = verdict = found[1]
        return verdict

    def put(self, case: Case, device: torch.device, verdict: Verdict) -> None:
        self._held[self._identity(device), case] = verdict
        path = self._file(case, device)
        if verdict.lasting and path is not None:
            _write(path, case, verdict)

    def matching(self, device: torch.device, fields: dict[str, Any]) -> list[Verdict]:
        """The verdicts on all cases that have these fields."""
        key, found = self._identity(device), {}
        where = folder()
        for path in () if where is None else where.glob(f"{key}-*.json"):
            if (held := _read(path)) is not None and fields.items() <= held[0].items():
                found[held[1].case] = held[1]
        for (identity_, case), verdict in self._held.items():
            if identity_ == key and fields.items() <= _fields(case).items():
                found[verdict.case] = verdict
        return list(found.values())

    def _file(self, case: Case, device: torch.device) -> Path | None:
        where = folder()
        return None if where is None else where / f"{self._identity(device)}-{_hash(_fields(case))}.json"

    def _identity(self, device: torch.device) -> str:
        if device not in self._identities:
            self._identities[device] = _hash(identity(device))
        return self._identities[device]


def identity(device: torch.device) -> dict[str, str]:
    """What a verdict holds for, besides its case."""
    import triton

    found = {"torch": torch.__version__, "triton": triton.__version__, "source": source()}
    found |= {name: os.environ.get(name, "") for name in KNOBS}
    if device.type != "cuda":
        return found | {"device": f"{device.type}, Triton's interpreter"}
    capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
    driver = Path("/proc/driver/nvidia/version")
    words = driver.read_text().splitlines()[0] if driver.exists() else ""
    return found | {"device": torch.cuda.get_device_name(device), "capability": capability, "driver": words}


@functools.cache
def source() -> str:
    """A hash of the kernels, of how they are launched and of how they are checked."""
    here = Path(__file__).parent
    files = [*sorted(here.glob("triton_*.py")), here / "agreement.py"]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def folder() -> Path | None:
    """Where the files are; None for a user who has no home folder, as in some containers."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named) / "kernels"
    try:
        return _user_cache() / "titans_ts" / "kernels"
    except RuntimeError:
        return None


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home())
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _fields(case: Case) -> dict[str, Any]:
    return {"kind": type(case).__name__, **dataclasses.asdict(case)}


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:24]


def _read(path: Path) -> tuple[dict[str, Any], Verdict] | None:
    """The fields of a case and its verdict; None where there is no file, or one that makes no sense."""
    try:
        held = json.loads(path.read_text())
        fields, agrees = held["fields"], held["agrees"]
        verdict = Verdict(str(held["case"]), agrees, str(held["words"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (fields, verdict) if isinstance(fields, dict) and isinstance(agrees, bool) else None


def _write(path: Path, case: Case, verdict: Verdict) -> None:
    """Keep a verdict in its file, which is there whole or not at all; nothing where it cannot be written."""
    text = json.dumps({"fields": _fields(case), "case": verdict.case, "agrees": verdict.agrees, "words": verdict.words})
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            draft = Path(file.name)
            try:
                file.write(text)
                file.close()
                os.replace(draft, path)
            finally:
                draft.unlink(missing_ok=True)
