"""Commands whose arguments are dataclasses: each field becomes an option, and the command gets the dataclass whole."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import typer

from .options import Running
from .running import guarded

Command = Callable[..., None]


def command(app: typer.Typer, panel: str) -> Callable[[Command], Command]:
    """Register a function as a command of its name, in a panel of the help.

    A parameter that is annotated with a dataclass stands for the options that its fields are annotated as; a parameter
    `running` is added where there is none. Errors are worded as `guarded` says.
    """

    def register(function: Command) -> Command:
        bundles = _bundles(function)
        takes_running = "running" in bundles
        parts = bundles if takes_running else {**bundles, "running": Running}

        def run(**given: Any) -> None:
            arguments = {
                name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
                for name, kind in parts.items()
            }
            running = arguments["running"] if takes_running else arguments.pop("running")
            options = {name.rpartition(".")[2] for name in signature.parameters}
            with guarded(running, options):
                function(**arguments, **given)

        signature = inspect.Signature(_parameters(function, parts))
        run.__name__, run.__doc__ = function.__name__, flowing(function.__doc__ or "")
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
        app.command(rich_help_panel=panel)(run)
        return function

    return register


def flowing(text: str) -> str:
    """A help text whose paragraphs are a line each, to be broken where the terminal ends; those after \\b stay."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)


def _bundles(function: Command) -> dict[str, Any]:
    """The parameters of a function that are dataclasses."""
    return {name: kind for name, kind in get_type_hints(function).items() if is_dataclass(kind)}


def _parameters(function: Command, bundles: dict[str, Any]) -> list[inspect.Parameter]:
    """A parameter for each argument and each field, all by keyword."""
    hints = get_type_hints(function, include_extras=True)
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in bundles:
            found.append(_parameter(name, hints[name], parameter.default))
    for kind in bundles.values():
        types = get_type_hints(kind, include_extras=True)
        found += [_parameter(field.name, types[field.name], field.default) for field in fields(kind)]
    return found


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
