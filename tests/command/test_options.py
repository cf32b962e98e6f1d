"""Options and parameters that mean the same are listed under the names they have."""

from __future__ import annotations

import inspect
from dataclasses import fields

from titans_ts import TitansForecaster, TitansSearchCV, cross_validation
from titans_ts.command.options import PARAMETERS, Columns, Format, Learning
from titans_ts.tables.files import read_file


def names_of(*functions: object) -> set[str]:
    return {name for each in functions for name in inspect.signature(each).parameters}  # type: ignore[arg-type]


def test_defaults_of_columns_and_formats_are_those_of_the_toolkit() -> None:
    known = {**inspect.signature(read_file).parameters, **inspect.signature(TitansForecaster).parameters}
    for kind in (Columns, Format):
        for field in fields(kind):
            assert field.name == "drop" or known[field.name].default == field.default


def test_every_option_of_a_fit_is_a_parameter_of_the_forecaster() -> None:
    parameters = names_of(TitansForecaster)
    options = {option: name for name, option in PARAMETERS.items() if name in parameters}
    for field in fields(Learning):
        option = "--" + field.name.replace("_", "-")
        assert field.name == "set" or options.get(option, field.name) in parameters


def test_what_is_renamed_exists() -> None:
    known = names_of(TitansForecaster, TitansSearchCV, cross_validation, TitansForecaster.predict)
    known |= names_of(TitansForecaster.save, TitansForecaster.update) | {"ids", "series_id"}  # of the pictures
    assert PARAMETERS.keys() <= known
