"""The rows that experiments write: what each says of where it was measured, and the CSV that keeps it.

Scripts are run from anywhere by their path, as in `python experiments/benchmark/long_term.py`. Each in a folder puts
`experiments/` on `sys.path` first, so that all import one another's modules as `record` or `benchmark.table`.
"""

from __future__ import annotations

import csv
import math
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def stamp(packages: Iterable[str], device: torch.device | str = "cpu") -> dict[str, str]:
    """What every row says: the device, the versions of those packages that are installed and of Python, the commit."""
    versions = [f"{name} {version(name)}" for name in packages if any(distributions(name=name))]
    return {
        "device": device_name(device),
        "versions": ", ".join([*versions, f"python {platform.python_version()}"]),
        "commit": commit(),
    }


def device_name(device: torch.device | str = "cpu") -> str:
    """The model of the GPU or of the processor."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    models = re.findall(r"^model name\s*: (.+)", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else []
    return models[0] if models else platform.processor() or platform.machine()


def commit() -> str:
    """The commit of this checkout, marked where files but the results differ from it; 'unknown' outside one."""
    where = Path(__file__).parent
    try:
        call = ["git", "describe", "--always", "--exclude=*"]
        name = subprocess.run(call, cwd=where, capture_output=True, text=True, check=True).stdout.strip()
        call = ["git", "diff", "--quiet", "HEAD", "--", ":/", ":(exclude)results"]
        differs = subprocess.run(call, cwd=where).returncode != 0
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-dirty" if differs else name


def read(path: Path) -> list[dict[str, str]]:
    """The rows that a CSV holds; none where there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, columns: Sequence[str], row: dict[str, Any]) -> None:
    """Add one row to a CSV, which is begun where it is absent; numbers have six digits, None and NaN are left empty.

    Raises
    ------
    ValueError
        If the CSV has other columns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.exists() and path.stat().st_size > 0
    if begun:
        with path.open(newline="") as file:
            held = next(csv.reader(file))
        if held != list(columns):
            raise ValueError(
                f"`columns` must be those of {path}, {', '.join(held)}; got {', '.join(columns)}. "
                "Write to another file, or move that one away."
            )
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not begun:
            writer.writeheader()
        writer.writerow({name: _text(value) for name, value in row.items()})


def _text(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return "" if math.isnan(value) else f"{value:.6g}"
