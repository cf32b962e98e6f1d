"""Forecasters as a command's options describe them, and as a folder holds them."""

from __future__ import annotations

import difflib
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .options import PARAMETERS, Columns, Learning, Running

if TYPE_CHECKING:
    import pandas as pd

    from titans_ts.forecaster import TitansForecaster

WORDS = {"true": True, "false": False, "none": None}
# Parameters that have options of their own.
TAKEN = ("horizon", "lookback", "freq", "missing", "calendar", "time_limit", "device", "random_state", "verbose")
COVARIATES = ("static_cols", "past_cols", "future_cols")


def forecaster(columns: Columns, learning: Learning, running: Running) -> TitansForecaster:
    """A forecaster that is not fitted.

    Raises
    ------
    typer.BadParameter
        As `setting` raises it.
    """
    from titans_ts.forecaster import TitansForecaster

    further = dict(setting(text) for text in learning.set or [])
    return TitansForecaster(
        horizon=learning.horizon,
        lookback=learning.lookback,
        freq=_freq(learning.freq),
        id_col=columns.id_col,
        time_col=columns.time_col,
        target_col=columns.target_col,
        missing=learning.missing,
        static_cols=learning.static_col or None,
        past_cols=learning.past_col or None,
        future_cols=learning.future_col or None,
        calendar=learning.calendar or None,
        time_limit=learning.time_limit,
        random_state=learning.seed,
        device=learning.device,
        verbose=int(not running.quiet),
        **further,
    )


def setting(text: str) -> tuple[str, Any]:
    """The name and the value of `NAME=VALUE`: JSON, Python's True, False or None, or text as it is.

    Raises
    ------
    typer.BadParameter
        If it has another form, or names no parameter or one that has an option.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} must be NAME=VALUE.", param_hint="--set")
    if name in TAKEN + COVARIATES or name.endswith("_col"):
        option = PARAMETERS.get(name, "--quiet" if name == "verbose" else "--" + name.replace("_", "-"))
        raise typer.BadParameter(f"{name!r} is set by {option}.", param_hint="--set")
    check_parameter(name, "--set")
    return name, parsed(value)


def check_parameter(name: str, option: str) -> None:
    """Refuse a name that is no parameter of the forecaster."""
    from titans_ts.forecaster import TitansForecaster

    names = list(inspect.signature(TitansForecaster).parameters)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`help(titans_ts.TitansForecaster)` lists them."
        raise typer.BadParameter(f"TitansForecaster has no parameter {name!r}; {hint}", param_hint=option)


def parsed(text: str) -> Any:
    """A value as it is written on a command line."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def load(folder: Path, running: Running, device: str | None = None) -> TitansForecaster:
    """The forecaster of a folder; errors as `TitansForecaster.load`."""
    from titans_ts.forecaster import TitansForecaster

    model = TitansForecaster.load(folder, device=device)
    model.verbose = int(not running.quiet)
    return model


def columns_of(model: TitansForecaster) -> Columns:
    """The columns of the table that a forecaster was fitted to."""
    return Columns(id_col=model.id_col, time_col=model.time_col, target_col=model.target_col)


def without_covariates(table: pd.DataFrame, model: TitansForecaster) -> pd.DataFrame:
    """A table with its series alone, as pictures show them."""
    names = [name for role in COVARIATES for name in getattr(model, role) or []]
    return table.drop(columns=names, errors="ignore")


def described(model: TitansForecaster) -> str:
    """What was fitted, in a line."""
    return f"{model.n_features_in_} series, every {model.freq_}; lookback {model.lookback_}, horizon {model.horizon_}"


def _freq(text: str | None) -> str | int | None:
    """A frequency, an integer where it is that of integer times."""
    return int(text) if text is not None and text.isdecimal() else text
