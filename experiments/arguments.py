"""Names that a script is given: those that it does not know are refused at once, not after hours."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable


def check_names(parser: ArgumentParser, argument: str, given: Iterable[str], known: Iterable[str]) -> None:
    """End the script where a name that is given is not known.

    argparse's own `choices` would refuse the default of a positional argument that may be left out.

    Parameters
    ----------
    parser : ArgumentParser
    argument : str
        As the user knows it, such as "groups" or "--only".
    given, known : iterable of str
    """
    known = list(known)
    if unknown := [name for name in given if name not in known]:
        parser.error(f"`{argument}` must be some of {', '.join(known)}, got {', '.join(unknown)}.")
