"""The toolkit's messages in the words of the command line: parameters as options, calls that fix a table as options."""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any

from .options import PARAMETERS

TAB, TAB_TYPED = "\t", "\\t"  # which reads as a tab
_QUOTED = re.compile(r"`([^`]+)`")
_DROP = re.compile(r"df\.drop\(columns=(\[.*\])\)")


def in_options(message: str, options: set[str]) -> str:
    """A message with what stands in backticks as options, where the command has them.

    Parameters
    ----------
    message : str
    options : set of str
        Names of the command's options, as Python writes them.

    Examples
    --------
    >>> in_options("pass `sep=';'`, or `df.drop(columns=['a b'])`; `cycle=7`", {"sep", "drop", "set"})
    "pass `--sep ';'`, or `--drop 'a b'`; `--set cycle=7`"
    """
    return _QUOTED.sub(lambda found: f"`{_in_options(found[1], options)}`", message)


def _in_options(code: str, options: set[str]) -> str:
    if code.isidentifier():
        return _option(code, options) or code
    if (found := _DROP.fullmatch(code)) and "drop" in options:
        return " ".join(f"--drop {shlex.quote(str(name))}" for name in _literal(found[1]) or []) or code
    try:
        call = ast.parse(f"f({code})", mode="eval").body
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}  # type: ignore[attr-defined]
    except (SyntaxError, ValueError):
        return code
    written = [_written(name, value, options) for name, value in given.items() if name]
    return " ".join(map(str, written)) if written and all(written) else code


def _literal(code: str) -> Any:
    try:
        return ast.literal_eval(code)
    except (SyntaxError, ValueError):
        return None


def _option(name: str, options: set[str]) -> str | None:
    option = PARAMETERS.get(name, "--" + name.replace("_", "-"))
    there = option.removeprefix("--").replace("-", "_")
    return option if there in options or (option == "FILE" and "file" in options) else None


def _written(name: str, value: Any, options: set[str]) -> str | None:
    """A parameter and its value as an option, or as `--set` where it has none of its own."""
    option = _option(name, options)
    values = value if isinstance(value, list) else [value]
    if option is not None:
        return " ".join(f"{option} {shlex.quote(str(each).replace(TAB, TAB_TYPED))}" for each in values)
    return f"--set {shlex.quote(f'{name}={value}')}" if "set" in options else None
