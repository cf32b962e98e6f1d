"""Paths that a user gives, and files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any


def check_path(path: Any, what: str) -> Path:
    """`path` as a Path; TypeError for what is none, which names what it must be the path of."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise TypeError(f"`path` must be the path of {what}, as text or a Path, got {path!r}.")
    return Path(path)


def replace_file(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Fill a new file beside `path`, which then takes its place; where that fails, what was there stays."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
