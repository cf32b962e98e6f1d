"""`python -m titans_ts` is the command line."""

from __future__ import annotations

from titans_ts import __main__
from titans_ts.command.app import main


def test_the_module_runs_the_command_line() -> None:
    assert __main__.main is main
