"""The command line as a whole: its help, its start, its completion, and a pipe through a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from titans_ts import __version__
from titans_ts.command.app import make_app

COMMANDS = {"forecast", "fit", "predict", "update", "anomalies", "backtest", "compare", "tune", "datasets", "demo"}


def run(folder: Path, *arguments: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "titans_ts", *arguments], cwd=folder, input=input, capture_output=True)


def test_help_teaches_with_examples_that_exist(titans: Any) -> None:
    top = titans("--help").stdout
    assert "Exit codes: 0 all went well, 1" in top
    commands = typer.main.get_command(make_app()).commands  # type: ignore[attr-defined]
    assert commands.keys() == COMMANDS
    for name, command in commands.items():
        assert f" {name} " in top
        help = titans(f"{name} --help").stdout
        examples = re.findall(r"\$ (.*titans-ts .*)", help)
        assert examples, name
        for example in examples:
            used = re.search(r"titans-ts (\w+)(.*)", example.split(" #")[0])
            assert used is not None
            known = {option for each in commands[used[1]].params for option in each.opts}
            assert set(re.findall(r"--[a-z-]+", used[2].split("|")[0])) <= known
            assert all(each.help for each in command.params if each.param_type_name == "option" and not each.hidden)


def test_help_and_version_start_without_what_takes_long(tmp_path: Path) -> None:
    code = "import sys; from titans_ts.command.app import make_app; make_app()(['--help'], standalone_mode=False);"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & {"torch", "pandas", "numpy", "sklearn", "optuna", "pooch", "matplotlib"}


def test_the_version_is_the_packages(titans: Any) -> None:
    assert titans("--version").stdout == f"{__version__}\n"


def test_a_table_is_piped_through(sales_file: Path, small: str) -> None:
    words = [*small.split()[1:], "--horizon", "12"]  # notes and warnings are on standard error
    done = run(sales_file.parent, "forecast", *words, input=sales_file.read_bytes())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert (lines[0], len(lines)) == ("month,sales", 13)
    assert done.stderr.decode().startswith("fitted 1 series, every MS; lookback 16, horizon 12, in ")
    assert done.stderr.count(b"\n") == 1  # no progress bar where no terminal is


def test_an_error_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "forecast", "none.csv")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"error: there is no file 'none.csv'; check its spelling.\n"


def test_a_shell_completes_commands(titans: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = {"_TITANS_TS_COMPLETE": "complete_bash", "COMP_WORDS": "titans-ts fo", "COMP_CWORD": "1"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = run(tmp_path)
    assert done.stdout.split() == [b"forecast"]
