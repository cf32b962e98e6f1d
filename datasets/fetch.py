"""Where the file of a data set lies: in a folder of the user's, or downloaded once and checked by its hash."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .registry import DatasetSpec, PublishedFile

__all__ = ["FOLDER_VARIABLE", "fetch_file", "find_file", "require_file"]

FOLDER_VARIABLE = "TITANS_TS_DATA"


def find_file(published: PublishedFile, root: str | os.PathLike[str] | None) -> Path | None:
    """The file in `root` or in the folder that `TITANS_TS_DATA` names, plain before compressed."""
    filename = published.filename
    stem = filename.removesuffix(".csv")
    names = (filename, f"{filename}.gz", f"{stem}.gz", f"{filename}.zip", f"{stem}.zip")
    folders = [Path(folder) for folder in (root, os.environ.get(FOLDER_VARIABLE)) if folder]
    candidates = (place / name for folder in folders for name in names for place in (folder, folder / published.folder))
    return next((path for path in candidates if path.is_file()), None)


def require_file(published: PublishedFile, root: str | os.PathLike[str] | None) -> Path:
    """The file in `root` or in the folder that `TITANS_TS_DATA` names; it has no address to download it from."""
    path = find_file(published, root)
    if path is None:
        raise FileNotFoundError(
            f"{published.filename} must be in `root` (given: {root}) or in the folder that {FOLDER_VARIABLE} names "
            f"(given: {os.environ.get(FOLDER_VARIABLE)}), there or in its sub-folder {published.folder}, and is in "
            "neither. Put it in one of them; it is not downloaded."
        )
    return path


def fetch_file(spec: DatasetSpec, root: str | os.PathLike[str] | None, download: bool) -> Path:
    """The published file in the download folder, downloaded if it is not there yet."""
    # Imported here because a folder that holds the file should be enough without.
    try:
        import pooch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{spec.filename} is in no folder of yours, and pooch, which downloads it, is not installed. "
            f"Install pooch, or name a folder that holds the file by `root` or {FOLDER_VARIABLE}."
        ) from error

    folder = Path(root) if root else Path(pooch.os_cache("titans_ts"))
    path = folder / spec.filename
    if not download:
        if path.is_file():
            return path
        raise FileNotFoundError(
            f"{spec.filename} must be in `root` (given: {root}), in the folder that {FOLDER_VARIABLE} names (given: "
            f"{os.environ.get(FOLDER_VARIABLE)}) or in {folder}, and is in none. "
            f"Pass `download=True` to fetch it ({spec.bytes / 1e6:.1f} MB), or put the file of {spec.addresses[0]} in "
            "one of them."
        )
    # In a log a progress bar is noise.
    progressbar = bool(sys.stderr and sys.stderr.isatty())
    sha256 = f"sha256:{spec.sha256}"
    failures = []
    for address in spec.addresses:
        try:
            # pooch writes to a temporary file and moves it into place only once the hash is right.
            return Path(pooch.retrieve(address, sha256, fname=spec.filename, path=folder, progressbar=progressbar))
        except (OSError, ValueError) as error:
            failures.append(f"\n  {address}: {error}")
    raise OSError(
        f"{spec.filename} could not be downloaded to {folder}:{''.join(failures)}\n"
        "Call again to start anew, or download it by other means and pass its folder as `root` or name that folder in "
        f"{FOLDER_VARIABLE}."
    )
