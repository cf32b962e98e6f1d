"""Which series a picture shows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def chosen(given: list[str] | None, table: pd.DataFrame, id_col: str) -> list[Hashable] | None:
    """The ids that are written so on the command line; None where none were given.

    Raises
    ------
    ValueError
        If a long table has no series of such a name.
    """
    if not given:
        return None
    if id_col not in table:
        return list(given)
    known = {str(each): each for each in table[id_col].unique()}
    if absent := [name for name in given if name not in known]:
        raise ValueError(f"`series` must name series of the table, got {absent} beside {list(known)[:5]}.")
    return [known[name] for name in given]
