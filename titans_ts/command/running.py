"""A command as it runs: notes and warnings on standard error, errors as one message, exit codes.

0 all went well, 1 data or model are wrong, 2 the command was called wrongly, 130 Ctrl-C, 141 nobody reads the output.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import typer

from .options import Running
from .remedies import in_options

FAILED, INTERRUPTED, UNREAD = 1, 130, 141
# What the toolkit raises in words for what a user can change; anything else is a fault of its own.
WORDED = (ValueError, TypeError, OSError, ImportError, RuntimeError, ArithmeticError, MemoryError)


def note(running: Running, text: str) -> None:
    """Say on standard error what was done."""
    if not running.quiet:
        typer.echo(text, err=True)


@contextmanager
def guarded(running: Running, options: set[str]) -> Iterator[None]:
    """Turn what is raised within the block into a message and an exit code.

    Parameters
    ----------
    running : Running
    options : set of str
        Names of the command's options, which take the place of parameters in messages.
    """
    try:
        with _worded_warnings(options):
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_unread()
        raise typer.Exit(UNREAD) from None
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if running.traceback:
            raise
        typer.echo(f"error: {in_options(message_of(error), options)}", err=True)
        raise typer.Exit(FAILED) from None


def message_of(error: Exception) -> str:
    """An error in one message."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {str(error.filename)!r}." if error.filename is not None else f"{error.strerror}."
    if isinstance(error, WORDED) and str(error):
        return str(error)
    kind = type(error).__name__
    return f"{kind}: {error}. This is a fault of titans_ts; `--traceback` shows where it is."


@contextmanager
def _worded_warnings(options: set[str]) -> Iterator[None]:
    """Show warnings as lines of text, without the place in the code that they came from."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        typer.echo(f"warning: {in_options(str(message), options)}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _leave_unread() -> None:
    """Send what is left in the buffer nowhere, or Python would complain as it ends."""
    with suppress(OSError, ValueError):  # where standard output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
