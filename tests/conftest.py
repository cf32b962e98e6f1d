"""Fixtures for the folders that are too large, or not ours, to keep in the repository; where the kernels run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# Without a GPU the Triton kernels run in triton's interpreter, which is chosen when they are first imported.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

_BESIDE = Path(__file__).resolve().parents[2] / "shared"


def real_data_folder() -> Path | None:
    """The folder of published data files: the one `TITANS_TS_DATA` names, or `../shared/data`."""
    return _first_folder("TITANS_TS_DATA", _BESIDE / "data")


def _first_folder(variable: str, beside: Path) -> Path | None:
    named = os.environ.get(variable)
    folders = [Path(named)] if named else []
    return next((folder for folder in [*folders, beside] if folder.is_dir()), None)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = real_data_folder()
    if folder is None:
        pytest.skip("needs the published data files in the folder TITANS_TS_DATA names, or in ../shared/data")
    return folder


@pytest.fixture(scope="session")
def oracle_folder() -> Path:
    folder = _first_folder("TITANS_TS_ORACLE", _BESIDE / "oracle")
    if folder is None:
        pytest.skip("needs the oracle vectors in the folder TITANS_TS_ORACLE names, or in ../shared/oracle")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Networks this small are quicker on one thread, several times so on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
