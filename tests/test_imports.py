"""Importing stays light: no network, and no package that only some uses need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Python reports every use of a socket to audit hooks, in whatever library it happens.
REFUSE_THE_NETWORK = """
import sys

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"the network was touched: {event}{arguments}")

sys.addaudithook(refuse)
"""


def loaded_by(statement: str, folder: Path) -> set[str]:
    """Names of all modules in a fresh interpreter, without the network, after `statement`."""
    code = f"{REFUSE_THE_NETWORK}\n{statement}\nprint(*sys.modules)"
    # Run elsewhere than in the repository, where the folders at the top would shadow other packages.
    result = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_the_guard_refuses_the_network(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the network was touched"):
        loaded_by("import socket; socket.create_connection(('127.0.0.1', 9))", tmp_path)


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import titans_ts", {"torch", "pandas", "sklearn", "optuna", "pooch", "narwhals"}),
        ("from titans_ts import read_file", {"torch", "sklearn", "optuna", "pooch", "narwhals"}),
        ("from titans_ts.plots import plot_forecast", {"torch", "sklearn", "optuna", "pooch", "matplotlib"}),
        ("from titans_ts.kernels import memory_scan", {"optuna", "pooch", "narwhals"}),
        ("from titans_ts.datasets import load_dataset", {"torch", "sklearn", "optuna", "pooch", "narwhals"}),
    ],
)
def test_an_import_loads_only_what_it_needs(statement: str, absent: set[str], tmp_path: Path) -> None:
    loaded = loaded_by(statement, tmp_path)
    assert "titans_ts" in loaded
    assert not loaded & absent
