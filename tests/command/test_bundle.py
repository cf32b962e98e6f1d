"""Dataclasses become options, and come back whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from titans_ts.command.bundle import command, flowing
from titans_ts.command.options import Running

GOT: list[object] = []


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="How wide.")] = 3
    name: Annotated[list[str] | None, typer.Option(help="What it is called.")] = None


def draw(file: Annotated[str, typer.Argument()] = "-", *, size: Size, running: Running) -> None:
    """Draw.

    A paragraph of
    two lines.

    \b
    $ draw one
    $ draw two
    """
    GOT.extend([file, size, running])


def move(*, size: Size) -> None:
    """Move."""
    GOT.append(size)


def test_a_command_gets_its_dataclasses() -> None:
    app = typer.Typer()
    assert command(app, "Things")(draw) is draw
    command(app, "Things")(move)
    GOT.clear()
    assert CliRunner().invoke(app, ["draw", "x", "--width", "5", "--name", "a", "--name", "b", "-q"]).exit_code == 0
    assert CliRunner().invoke(app, ["move", "--quiet"]).exit_code == 0
    file, size, running, moved = GOT
    assert (file, size, running) == ("x", Size(5, ["a", "b"]), Running(quiet=True))
    assert isinstance(moved, Size)
    assert moved.width == 3
    assert CliRunner().invoke(app, ["move", "--width", "x"]).exit_code == 2


def test_paragraphs_flow_and_examples_stay() -> None:
    assert flowing(draw.__doc__ or "") == "Draw.\n\nA paragraph of two lines.\n\n\b\n$ draw one\n$ draw two"
