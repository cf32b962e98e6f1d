"""Errors, warnings, pipes that nobody reads and Ctrl-C: one message, an exit code, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import typer

from titans_ts.command.options import Running
from titans_ts.command.running import guarded, note

COMMAND = [sys.executable, "-m", "titans_ts"]


def code_of(error: BaseException, **how: Any) -> int:
    with pytest.raises(typer.Exit) as found, guarded(Running(**how), {"horizon"}):
        raise error
    return int(found.value.exit_code)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("`horizon` must be 1 or more."), "error: `--horizon` must be 1 or more."),
        (PermissionError(13, "Permission denied", "f.csv"), "error: Permission denied: 'f.csv'."),
        (OSError(28, "No space left on device"), "error: No space left on device."),
        (KeyError("x"), "error: KeyError: 'x'. This is a fault of titans_ts; `--traceback` shows where it is."),
        (ValueError(), "error: ValueError: . This is a fault of titans_ts; `--traceback` shows where it is."),
    ],
)
def test_an_error_is_one_message(error: Exception, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(error) == 1
    assert capsys.readouterr() == ("", message + "\n")


def test_a_traceback_is_shown_on_request(titans: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(titans("forecast --traceback", tmp_path).exception, IsADirectoryError)
    assert isinstance(titans("forecast", tmp_path).exception, SystemExit)
    assert "--traceback" not in titans("forecast --help").stdout
    monkeypatch.setenv("TITANS_TS_TRACEBACK", "1")
    assert isinstance(titans("forecast", tmp_path).exception, IsADirectoryError)


def test_an_interrupt_has_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(KeyboardInterrupt()) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


def test_wrong_usage_goes_on_to_typer() -> None:
    with pytest.raises(typer.BadParameter), guarded(Running(), set()):
        raise typer.BadParameter("no")


def test_warnings_are_lines_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    shown = warnings.showwarning
    with guarded(Running(), {"set"}):
        warnings.simplefilter("always")
        warnings.warn("pass `outliers='keep'`", stacklevel=1)
    assert capsys.readouterr().err == "warning: pass `--set outliers=keep`\n"
    assert warnings.showwarning is shown


def test_notes_are_kept_back_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    note(Running(), "done")
    note(Running(quiet=True), "hidden")
    assert capsys.readouterr() == ("", "done\n")


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    # more than a pipe holds
    process = subprocess.Popen(
        [*COMMAND, "datasets", "bike_sharing"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"ds,season")
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 141)
    process.stderr.close()


def test_ctrl_c_ends_it_without_a_traceback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    command = [*COMMAND, "forecast", "pipe"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open(tmp_path / "pipe", "wb"):  # which waits until the other end is open
        process.send_signal(signal.SIGINT)
        found = process.communicate()
    assert (found, process.returncode) == ((b"", b"interrupted\n"), 130)
