"""Arguments as a user gives them: what fits comes as the toolkit's types, the rest is named."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from titans_ts.arguments import (
    MOST,
    check_choice,
    check_column,
    check_flag,
    check_integer,
    check_no_targets,
    check_positive,
    check_seed,
    check_share,
    match_series,
    split_table,
)
from titans_ts.tables.panel import Panel
from titans_ts.tables.read import read_table


def exactly(words: str) -> str:
    return f"^{re.escape(words)}$"


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_every_kind_become_an_int(value: Any) -> None:
    found = check_integer("horizon", value, 1)
    assert (type(found), found) == (int, 3)


@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True, np.True_, None, np.nan, [3], np.float64(3)])
def test_what_is_no_whole_number_or_too_small_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=exactly(f"`horizon` must be an integer >= 1, got {value!r}.")):
        check_integer("horizon", value, 1)


def test_the_default_stands_in_for_none_alone() -> None:
    assert check_integer("horizon", None, 1, default=24) == 24
    assert check_integer("cycle", 0, 0, default=24) == 0
    with pytest.raises(ValueError, match="`horizon` must be an integer >= 1, got 0"):
        check_integer("horizon", 0, 1, default=24)


@pytest.mark.parametrize("value", [True, np.True_, False, np.False_])
def test_a_flag_becomes_a_bool(value: Any) -> None:
    assert check_flag("linear_path", value) is bool(value)


@pytest.mark.parametrize("value", [1, 0, "yes", None, np.int64(1)])
def test_what_is_no_flag_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=exactly(f"`linear_path` must be True or False, got {value!r}.")):
        check_flag("linear_path", value)


@pytest.mark.parametrize("value", [0.01, np.float32(0.5), np.float64(0.999), 1e-300])
def test_a_share_becomes_a_float(value: Any) -> None:
    found = check_share("alpha", value)
    assert (type(found), found) == (float, float(value))


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, -0.1, 2, np.nan, np.inf, True, np.True_, None, "0.1", [0.1], 0.1j])
def test_what_is_no_share_is_named(value: Any) -> None:
    with pytest.raises(ValueError, match=exactly(f"`alpha` must be a number between 0 and 1, got {value!r}.")):
        check_share("alpha", value)


@pytest.mark.parametrize("y", [[1.0], np.zeros(3), 0])
def test_targets_beside_the_table_are_refused(y: Any) -> None:
    check_no_targets(None)
    with pytest.raises(ValueError, match="`y` must be None: the table given as `df` holds the targets"):
        check_no_targets(y)


# The series of a table among those fitted


def long(*ids: Any) -> Panel:
    rows = pd.DataFrame({"unique_id": pd.Series(ids).repeat(3).array, "ds": [1, 2, 3] * len(ids), "y": 0.0})
    return read_table(rows)


def wide(*names: Any) -> Panel:
    return read_table(pd.DataFrame(np.zeros((3, len(names))), columns=list(names)))


def array(channels: int) -> Panel:
    return read_table(np.zeros((3, channels)))


def series(name: Any) -> Panel:
    return read_table(pd.Series(np.zeros(3), name=name))


@pytest.mark.parametrize(
    ("panel", "fitted", "expected"),
    [
        (long("b", "x"), long("a", "b", "c"), [1, -1]),
        (wide("c", "a"), wide("a", "b", "c"), [2, 0]),
        (wide("b", "a"), long("a", "b"), [1, 0]),
        (long("x"), long("a"), [-1]),
        (series("b"), wide("a", "b"), [1]),  # a name that is there counts
        (series("x"), wide("a"), [0]),  # one that is not does not, where there is one series
        (series("x"), wide("a", "b"), [-1]),
        (series(None), series("a"), [0]),
        (array(2), array(2), [0, 1]),
        (array(2), wide("a", "b"), [0, 1]),
        (wide("b", "a"), array(2), [0, 1]),
    ],
)
def test_series_are_found_by_name_and_without_one_by_position(panel: Panel, fitted: Panel, expected: list[int]) -> None:
    assert match_series(panel, fitted, "TitansForecaster").tolist() == expected


def test_an_array_of_another_number_of_series_is_refused() -> None:
    words = (
        "`df` must have 3 series as the data fitted, got 2: X has 2 features, but TitansForecaster is expecting 3 "
        "features as input."
    )
    with pytest.raises(ValueError, match=exactly(words)):
        match_series(array(2), wide("a", "b", "c"), "TitansForecaster")


def test_names_of_another_type_are_refused_where_none_is_found() -> None:
    words = "`df` must name its series as the data fitted did, by string such as 'a', got integer such as 1."
    with pytest.raises(ValueError, match=exactly(words)):
        match_series(long(1, 2), long("a", "b"), "TitansForecaster")
    categories = long(*pd.Categorical(["b", "a"]))
    assert match_series(categories, long("a", "b"), "TitansForecaster").tolist() == [0, 1]


@pytest.mark.parametrize("value", [2, 0.5, np.int64(2), np.float32(0.5)])
def test_seconds_of_every_kind_become_a_float(value: Any) -> None:
    found = check_positive("time_limit", value, "seconds", "no limit")
    assert (type(found), found) == (float, float(value))
    assert check_positive("time_limit", None, "seconds", "no limit") is None


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, True, np.True_, "10", [3], 1j])
def test_seconds_that_are_no_positive_finite_number_are_named(value: Any) -> None:
    words = f"`time_limit` must be a positive finite number of seconds, or None for no limit, got {value!r}."
    with pytest.raises(ValueError, match=exactly(words)):
        check_positive("time_limit", value, "seconds", "no limit")


def test_a_count_has_a_bound_that_integers_of_tensors_hold() -> None:
    assert check_integer("horizon", MOST, 1) == MOST
    with pytest.raises(ValueError, match=exactly(f"`horizon` must be an integer <= {MOST}, got one of 100 bits.")):
        check_integer("horizon", 10**30, 1)


@pytest.mark.parametrize("value", ["c", None, pd.NA, np.array(["a", "b"]), pd.Series(["a"]), ["a"], 1])
def test_what_is_none_of_the_choices_is_named(value: Any) -> None:
    assert check_choice("missing", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match=r"^`missing` must be one of \('a', 'b'\), got "):
        check_choice("missing", value, ("a", "b"))


@pytest.mark.parametrize("value", [[], {}, ("a", [1]), pd.NA, np.array([1])])
def test_what_names_no_column_is_refused(value: Any) -> None:
    for name in ("y", 0, None, ("t", 1)):
        check_column("id_col", name)
    with pytest.raises(TypeError, match=r"^`id_col` must be the name of a column, got "):
        check_column("id_col", value)


@pytest.mark.parametrize("value", [-1, 2**32, 2.5, True, "7", np.timedelta64(3, "h"), [1]])
def test_what_cannot_seed_a_generator_is_named(value: Any) -> None:
    assert check_seed(np.int64(7)).randint(1000) == check_seed(7).randint(1000)
    with pytest.raises(
        ValueError, match=r"^`random_state` must be an integer in \[0, 2\*\*32\), a RandomState or None"
    ):
        check_seed(value)


def test_the_first_argument_of_predict_may_be_the_table() -> None:
    table = np.zeros((3, 1))
    assert [split_table(*given) for given in ((None, None), (3, None), (table, None), (3, table), (None, table))] == [
        *((None, None), (3, None), (None, table)),
        *((3, table), (None, table)),
    ]
    with pytest.raises(TypeError, match=exactly("`h` must be an integer where `df` is given too; pass one table.")):
        split_table(table, table)
