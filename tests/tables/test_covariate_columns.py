"""The names of covariates: each column has one role, and what is no list of names is refused."""

from __future__ import annotations

from typing import Any

import pytest

from titans_ts.packing import pack_fields, unpack_all
from titans_ts.tables.covariate_columns import FUTURE, PAST, STATIC, CovariateColumn, CovariateNames, Covariates

ROLES = ("unique_id", "ds", "y")


def names(static: Any = None, past: Any = None, future: Any = None, calendar: Any = None) -> CovariateNames | None:
    return CovariateNames.of(static, past, future, calendar, ROLES)


def test_each_column_has_the_role_it_was_named_in() -> None:
    found = names(["store"], ["sales"], ["price", 7], ["hour"])
    assert found is not None
    assert found.columns == [("store", STATIC), ("sales", PAST), ("price", FUTURE), (7, FUTURE)]
    assert found.calendar == ("hour",)


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_nothing_named_is_no_covariates(nothing: Any) -> None:
    assert names(nothing, nothing, nothing, nothing) is None


@pytest.mark.parametrize("given", [{"past": ["a"], "future": ["a"]}, {"static": ["y"]}, {"future": ["ds"]}])
def test_a_column_with_two_roles_is_refused(given: dict[str, list[str]]) -> None:
    name = given[min(given)][0]
    with pytest.raises(ValueError, match=f"names of their own, but {name!r} names two columns"):
        names(**given)


def test_a_column_of_the_name_of_a_calendar_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="'hour' names two columns"):
        names(future=["hour"], calendar=["hour"])


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`past_cols` must name each column once, got \['a', 'a'\]"):
        names(past=["a", "a"])


@pytest.mark.parametrize("given", ["temp", {"temp"}, 3])
def test_what_is_no_list_is_refused_with_the_way_out(given: Any) -> None:
    with pytest.raises(TypeError, match=r"`future_cols` must be a list of names, got .*; pass \["):
        names(future=given)


@pytest.mark.parametrize("name", ["hours", "Weekday", 3, "holiday"])
def test_an_unknown_feature_of_the_calendar_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match=f"`calendar` must name features among .*'weekday'.*, got {name!r}"):
        names(calendar=[name])


def test_columns_of_the_table_come_before_those_of_the_calendar() -> None:
    columns = (
        CovariateColumn("a", PAST, None),
        CovariateColumn("b", FUTURE, ("x", "y")),
        CovariateColumn("hour", FUTURE, tuple(range(24))),
    )
    found = Covariates(columns, n_calendar=1)
    assert found.of_table == columns[:2]
    assert found.calendar == ("hour",)
    assert found.named(FUTURE) == ["b"]
    assert found.named(STATIC) == []


def test_columns_come_back_from_json() -> None:
    found = Covariates((CovariateColumn("a", PAST, None), CovariateColumn("b", FUTURE, ("x", 2, True, 0.5))))
    assert Covariates.of_fields(unpack_all(pack_fields(found))) == found


def test_what_cannot_be_a_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`past_cols` must be a list of names, got \[1\] in it\."):
        names(past=["a", [1]])
