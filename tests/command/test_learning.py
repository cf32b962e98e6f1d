"""Options as the parameters of a forecaster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer

from titans_ts.command.learning import described, forecaster, load, parsed, setting, without_covariates
from titans_ts.command.options import Columns, Learning, Running


def test_options_are_the_parameters_of_the_forecaster() -> None:
    learning = Learning(7, 14, "2", static_col=["size"], calendar=["month"], set=["lower=0", "context=window"])
    model = forecaster(Columns("shop"), learning, Running(quiet=True))
    found = {name: value for name, value in model.get_params().items() if value != type(model)().get_params()[name]}
    assert found == {
        **dict(horizon=7, lookback=14, freq=2, id_col="shop", static_cols=["size"], calendar=["month"], lower=0),
        **dict(context="window", random_state=0, verbose=0),
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("1e-3", 1e-3), ("true", True), ("False", False), ("none", None), ("null", None)),
        *(('{"a": 0}', {"a": 0}), ("[1, 2]", [1, 2]), ("per_series", "per_series"), ("", "")),
    ],
)
def test_a_value_is_json_or_text(text: str, value: Any) -> None:
    found = parsed(text)
    assert (found, type(found)) == (value, type(value))
    assert setting(f"lower={text}") == ("lower", value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lower", "must be NAME=VALUE"),
        ("horizon=3", "'horizon' is set by --horizon"),
        ("random_state=3", "'random_state' is set by --seed"),
        ("verbose=0", "'verbose' is set by --quiet"),
        ("past_cols=a", "'past_cols' is set by --past-col"),
        ("id_col=a", "'id_col' is set by --id-col"),
        ("d_modle=8", "did you mean 'd_model'"),
        ("zzz=8", "lists them"),
    ],
)
def test_a_wrong_setting_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        setting(text)


def test_a_model_is_loaded_and_described(model: Path) -> None:
    loaded = load(model, Running(quiet=True), "cpu")
    assert (loaded.verbose, loaded.device) == (0, "cpu")
    assert described(loaded) == "2 series, every D; lookback 16, horizon 3"


def test_a_table_loses_its_covariates() -> None:
    model = forecaster(Columns(), Learning(past_col=["rain"]), Running())
    assert list(without_covariates(pd.DataFrame(columns=["ds", "y", "rain"]), model)) == ["ds", "y"]
