"""Which columns of a table are covariates, as a user names them and as a fit found them.

A column has one of three roles. Static ones do not change within a series; past ones are known up to the last row;
future ones are known ahead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .calendar_features import check_feature

STATIC, PAST, FUTURE = "static", "past", "future"
COVARIATES = "static_cols", "past_cols", "future_cols", "calendar"  # of an estimator


class CovariateColumn(NamedTuple):
    """A column of covariates."""

    name: Hashable
    role: str  # "static", "past" or "future"
    categories: tuple[Any, ...] | None  # None where it holds numbers


@dataclass(frozen=True)
class CovariateNames:
    """Which columns of a table are covariates, as a user names them.

    Parameters
    ----------
    static, past, future : tuple of str
        Columns of a table.
    calendar : tuple of str
        Features of the times, as `calendar_features` knows them, which are known ahead.
    """

    static: tuple[Hashable, ...] = ()
    past: tuple[Hashable, ...] = ()
    future: tuple[Hashable, ...] = ()
    calendar: tuple[str, ...] = ()

    @classmethod
    def of(cls, static: Any, past: Any, future: Any, calendar: Any, roles: Sequence[str]) -> CovariateNames | None:
        """The names that an estimator was given, None where there is none; `roles` are its other columns.

        Raises
        ------
        TypeError, ValueError
            If one is no list of names, or a column is named twice.
        """
        given = zip(COVARIATES, (static, past, future, calendar), strict=True)
        parts = [_names(f"`{what}`", names) for what, names in given]
        for name in parts[3]:
            check_feature(name)
        seen: set[Hashable] = set(roles)
        for name in (name for part in parts for name in part):
            if name in seen:
                raise ValueError(
                    f"covariates must have names of their own, but {name!r} names two columns of {[*roles]} and "
                    "`static_cols`, `past_cols`, `future_cols`, `calendar`. Name each column once."
                )
            seen.add(name)
        static, past, future, calendar = parts
        return cls(static, past, future, tuple(map(str, calendar))) if any(parts) else None

    @property
    def columns(self) -> list[tuple[Hashable, str]]:
        """The table's columns, each with its role."""
        parts = ((STATIC, self.static), (PAST, self.past), (FUTURE, self.future))
        return [(name, role) for role, names in parts for name in names]

    @property
    def names(self) -> list[Hashable]:
        """The table's columns."""
        return [name for name, _ in self.columns]


def _names(what: str, given: Any) -> tuple[Hashable, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, (list, tuple)):
        raise TypeError(f"{what} must be a list of names, got {given!r}; pass [{given!r}] for one.")
    if nameless := [name for name in given if not isinstance(name, Hashable)]:
        raise TypeError(f"{what} must be a list of names, got {nameless[0]!r} in it.")
    if len(set(given)) < len(given):
        raise ValueError(f"{what} must name each column once, got {list(given)!r}.")
    return tuple(given)


@dataclass(frozen=True)
class Covariates:
    """The covariates of fitted series, in the order of the columns of `SeriesData.covariates`.

    Parameters
    ----------
    columns : tuple of CovariateColumn
        Those of the table, then those of the calendar.
    n_calendar : int
        How many of them, the last ones, are of the calendar.
    """

    columns: tuple[CovariateColumn, ...]
    n_calendar: int = 0

    @classmethod
    def of_fields(cls, fields: dict[str, Any]) -> Covariates:
        """The covariates of such fields, whose columns are plain tuples."""
        return cls(tuple(CovariateColumn(*column) for column in fields["columns"]), fields["n_calendar"])

    @property
    def of_table(self) -> tuple[CovariateColumn, ...]:
        """The columns that a table gives."""
        return self.columns[: len(self.columns) - self.n_calendar]

    @property
    def calendar(self) -> tuple[str, ...]:
        """The features of the calendar."""
        return tuple(str(column.name) for column in self.columns[len(self.of_table) :])

    @property
    def names(self) -> list[Hashable]:
        """The table's columns."""
        return [column.name for column in self.of_table]

    def named(self, role: str) -> list[Hashable]:
        """The table's columns of a role."""
        return [self.columns[i].name for i in self.places(role)]

    def places(self, role: str) -> list[int]:
        """Where the table's columns of a role stand among all."""
        return [i for i, column in enumerate(self.of_table) if column.role == role]
