"""What a fit chose from the data, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

COLUMNS = ["choice", "candidate", "relative_error", "chosen"]


@dataclass(frozen=True)
class Choice:
    """One choice of a fit.

    Parameters
    ----------
    name : str
        What was chosen, such as "linear path".
    chosen : str
        One of the candidates.
    errors : mapping of str to float
        The relative error of each candidate, in the order in which they were tried; see `training.relative`.

    Raises
    ------
    ValueError
        If what was chosen is no candidate.
    """

    name: str
    chosen: str
    errors: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.chosen not in self.errors:
            raise ValueError(f"`chosen` must be one of {list(self.errors)}, got {self.chosen!r}.")


def choices_table(choices: Iterable[Choice]) -> pd.DataFrame:
    """A row for each candidate of each choice: `choice`, `candidate`, `relative_error`, `chosen`."""
    rows = [
        (choice.name, candidate, error, candidate == choice.chosen)
        for choice in choices
        for candidate, error in choice.errors.items()
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"relative_error": "float64", "chosen": "bool"})
